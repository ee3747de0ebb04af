"""An exception may strike at any line (a signal handler that raises, Ctrl-C, a time limit): nothing stays taken."""

import contextlib
import fcntl
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

import agentmesh.store
from agentmesh import Board
from agentmesh.errors import Busy
from agentmesh.store.gate import Gate
from tests.support.boards import open_board, violations
from tests.support.patience import PATIENCE_SEC, until
from tests.support.processes import Worker, descriptors

STORE = str(Path(agentmesh.store.__file__).parent)
FAR = 1_000_000


class Strike(BaseException):
    """What a signal handler of the application raises."""


class Tracer:
    """Raises at the n-th line of the store that the calling thread runs, once."""

    def __init__(self, n):
        self.left = n
        self.where = None

    def __enter__(self):
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _trace(self, frame, event, _arg):
        if not frame.f_code.co_filename.startswith(STORE):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                raise Strike
        return self._trace


def _write_when_told(line, path):
    """Another process: it writes once for each word, and says whether it was let in at once."""
    with Board.open(path, durability="normal", busy_timeout_sec=0.1) as board:
        for number in iter(line.recv, None):
            try:
                board.create_task("t", id=f"other-{number}")
            except Busy as busy:
                line.send(str(busy))
            else:
                line.send("written")


@pytest.fixture
def other(board_path, clock):
    """A process that writes when told."""
    open_board(board_path, clock).close()
    worker = Worker(_write_when_told, board_path)
    yield worker
    worker.tell(None)
    assert worker.end() == 0


def gate_is_free(board_path):
    """Whether nobody has the gate."""
    with board_path.with_name("board.db.gate").open("ab") as door:
        try:
            fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def at_every_line(act):
    """Run `act` again and again, struck at the first line of the store, the second and so on; where it was struck."""
    for n in range(1, FAR):
        tracer = Tracer(n)
        with contextlib.suppress(Strike), tracer:
            act(n)
        if tracer.where is None:
            assert n > 20, "the tracer saw no line"
            return
        yield tracer.where


def plain(board, _path):
    """A write that meets nobody."""
    return lambda n: board.create_task("t", id=f"own-{n}")


def unsynced(board, _path):
    """A write with other settings than the ones before and after it."""
    board.create_task("t", id="held")
    claim = board.claim_task("a", task_id="held")
    return lambda n: (claim.heartbeat(), board.create_task("t", id=f"own-{n}"))


def queued(board, path):
    """A write that finds the gate taken and waits in its queue, until whoever is ahead leaves."""

    def act(n):
        with contextlib.closing(Gate(path.with_name("board.db.gate"))) as ahead:
            ahead.enter(PATIENCE_SEC)
            over = threading.Event()
            thread = threading.Thread(target=lambda: (until(lambda: over.is_set() or _queues(board)), ahead.leave()))
            thread.start()
            try:
                board.create_task("t", id=f"own-{n}")
            finally:
                over.set()
                thread.join()

    return act


def _queues(board):
    usher = board.store._gate._usher
    return usher is not None and usher.queueing


@pytest.mark.multiproc
@pytest.mark.parametrize("kind", [plain, unsynced, queued])
def test_an_exception_at_any_line_of_a_write_takes_the_board_from_nobody(board_path, other, kind):
    """The transaction, the gate and the lock of the process are free: another process writes at once, and so do we."""
    with Board.open(board_path) as board:
        for number, where in enumerate(at_every_line(kind(board, board_path))):
            assert not board.store._writer.in_transaction, where
            assert not board.store._turn.mine, where
            until(lambda: gate_is_free(board_path))
            other.tell(number)
            assert other.hear() == "written", where
            assert board.create_task("t", id=f"after-{number}").id
            assert board.store._writer.pragma("synchronous") == 2, where  # a write after a renewal is synced again
        assert violations(board) == {}


def test_an_exception_at_any_line_of_a_read_leaves_no_open_snapshot(board_path):
    """A reader that never ends would keep the log from ever being shortened."""
    with Board.open(board_path) as board:
        board.create_task("t", id="t")
        before = None
        for where in at_every_line(lambda _: board.get_task("t")):
            assert not any(reader.connection.in_transaction for reader in board.store._readers), where
            assert board.get_task("t").id == "t", where
            before = before or descriptors()
        assert descriptors() <= before


def test_a_write_inside_of_a_write_is_refused(board):
    """A signal handler, or a probe, that writes in the middle of a write: the outer one goes on unharmed."""
    seen = []

    def work(tx):
        with pytest.raises(Busy, match="in a write"):
            board.create_task("inner", id="inner")
        seen.append(tx.now)
        return "done"

    assert board.store.write(work) == "done"
    assert seen
    assert board.create_task("t", id="t").id == "t"


def test_closing_inside_of_a_write_closes_when_it_ends(board_path):
    """The write is committed; then the board is closed."""
    board = Board.open(board_path)
    before = descriptors()

    def work(tx):
        board.close()
        return tx.execute("insert_plan", name="p", workspace="", retention_us=None, now_us=tx.now)

    assert board.store.write(work) == 1
    assert descriptors() < before


def test_closing_does_not_wait_for_a_write_that_never_ends(board_path, clock):
    """It returns after the patience of a call; the connections are closed by the write, should it end one day."""
    stuck, go_on = threading.Event(), threading.Event()
    before = descriptors()

    def work(_tx):
        stuck.set()
        assert go_on.wait(PATIENCE_SEC)

    board = open_board(board_path, clock, busy_timeout_sec=0.05)
    writer = threading.Thread(target=board.store.write, args=(work,))
    writer.start()
    assert stuck.wait(PATIENCE_SEC)
    board.close()
    assert writer.is_alive()
    go_on.set()
    writer.join(PATIENCE_SEC)
    until(lambda: descriptors() == before)


def _forked(line, path):
    """A process that is forked while one of its threads writes; what its child does, and what is left of the gate."""
    board = Board.open(path, durability="normal")
    inside, go_on = threading.Event(), threading.Event()

    def work(_tx):
        inside.set()
        go_on.wait(PATIENCE_SEC)

    threading.Thread(target=board.store.write, args=(work,), daemon=True).start()
    assert inside.wait(PATIENCE_SEC)
    child = os.fork()
    if child == 0:
        board.close()
        with board:
            pass
        line.send(("closed", os.getpid()))
        signal.pause()
    line.recv()


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_forked_child_closes_and_does_not_keep_the_gate_of_its_dead_parent(board_path, clock):
    """Another thread was in a write when the process was forked; then the parent was killed, and the child lives on."""
    open_board(board_path, clock).close()
    parent = Worker(_forked, board_path)
    said, child = parent.hear()
    try:
        assert said == "closed"
        assert not gate_is_free(board_path)  # the parent is still in its write
        parent.kill()
        assert gate_is_free(board_path)
        with open_board(board_path, clock) as board:
            assert board.create_task("t", id="t").id == "t"
    finally:
        os.kill(child, signal.SIGKILL)
