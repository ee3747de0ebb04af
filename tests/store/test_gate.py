"""The queue of writers is fairness only: it orders those who come, and whoever cannot get through goes on without."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading

import freezegun
import pytest

from agentmesh.store.base import POINTS, StoreOptions
from agentmesh.store.connect import connect
from agentmesh.store.gate import Gate, _Usher
from tests.support.boards import open_board
from tests.support.patience import PATIENCE_SEC, until
from tests.support.processes import Worker, descriptors


@pytest.fixture
def gate_path(tmp_path):
    """Where the gate of a board is."""
    return tmp_path / "board.db.gate"


@pytest.fixture
def gates(gate_path):
    """Makes gates at one place, as many processes have them, and closes them in the end."""
    made = []

    def make():
        made.append(Gate(gate_path))
        return made[-1]

    yield make
    for gate in made:
        gate.close()


@pytest.fixture
def is_free(gate_path):
    """Says whether whoever comes now would get in at once, without standing in the queue."""

    def look():
        with gate_path.open("ab") as door:
            try:
                fcntl.flock(door, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    return look


def test_one_writer_at_a_time(gates):
    """While one is inside, another waits; when it leaves, the other is let in."""
    one, two, order = gates(), gates(), []

    def follow():
        with two.turn(PATIENCE_SEC) as granted:
            order.append(("two", granted))

    with one.turn(0) as granted:
        assert granted
        thread = threading.Thread(target=follow)
        thread.start()
        until(lambda: two._usher and two._usher.queueing)
        order.append(("one", True))
    thread.join(PATIENCE_SEC)
    assert order == [("one", True), ("two", True)]


def test_the_gate_is_held_around_the_transaction_and_no_longer(board_path, clock, is_free):
    """Not while a call gets ready, not while it wakes others: only what must be alone is inside."""
    seen = {}

    class Look:
        def reached(self, point):
            seen.setdefault(point.partition(":")[0], is_free())

    open_board(board_path, clock).close()
    with open_board(board_path, clock, probe=Look()) as board:
        board.create_task("t")
    held = {"gate", "begin", "do", "commit"}
    assert {point for point, free in seen.items() if not free} == held
    assert [point for point in seen if point != "do"] == [point for point in POINTS if point != "checkpoint"]


def test_a_deadline_lets_the_writer_go_on_without_the_gate(gates, is_free):
    """It is told that it has no turn, and what it asked for does not stay in the queue for ever."""
    one, two = gates(), gates()
    with one.turn(0):
        for _ in range(3):
            with two.turn(0.01) as granted:
                assert not granted
        assert not is_free()
    until(is_free)
    with two.turn(PATIENCE_SEC) as granted:
        assert granted


def test_a_turn_that_comes_late_is_given_back(gates, is_free):
    """The lock that arrives when nobody wants it any more does not stay with the process."""
    one, two = gates(), gates()
    with one.turn(0):
        assert not two.enter(0.01)
        assert two._usher.queueing
    until(lambda: not two._usher.queueing)
    until(is_free)


def test_control_c_ends_the_wait(gates, is_free):
    """A person who interrupts a command is not made to sit out the queue; the place in it is given up."""
    one, two = gates(), gates()
    main = threading.main_thread().ident

    def interrupt():
        until(lambda: two._usher and two._usher.queueing)
        signal.pthread_kill(main, signal.SIGINT)

    helper = threading.Thread(target=interrupt)
    with one.turn(0):
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            two.enter(PATIENCE_SEC)
        helper.join(PATIENCE_SEC)
    until(is_free)
    assert two.enter(PATIENCE_SEC)
    two.leave()


def test_a_turn_that_comes_with_the_interruption_is_given_back(gates, is_free):
    """Both at once: nobody is left to leave, so the gate must not stay shut."""
    one, two = gates(), gates()
    assert one.enter(0)
    assert not two.enter(0.01)

    class Late:
        """The usher's word that the turn has come: it is there when Control-C strikes."""

        def __init__(self, real):
            self._real = real

        def acquire(self, *args, **wishes):
            """Be interrupted at the worst moment."""
            if False in (*args, *wishes.values()):
                return self._real.acquire(*args, **wishes)
            one.leave()
            assert self._real.acquire(timeout=PATIENCE_SEC)
            self._real.release()
            raise KeyboardInterrupt

        def release(self):
            """As ever."""
            self._real.release()

    two._usher._granted = Late(two._usher._granted)
    with pytest.raises(KeyboardInterrupt):
        two.enter(PATIENCE_SEC)
    assert is_free()


def test_who_had_to_queue_goes_on_for_a_slice(gates, is_free):
    """The next transaction of the same process needs no second turn, though others wait."""
    one, two = gates(), gates()
    assert one.enter(0)
    assert not two.enter(0.01)
    one.leave()
    assert two.enter(PATIENCE_SEC)
    two.leave()
    assert two.enter(0) or is_free()


def test_a_slice_ends_while_time_is_frozen(gates, is_free):
    """A process whose test has frozen the clock does not keep the others out."""
    with freezegun.freeze_time("2026-01-01"):
        one, two = gates(), gates()
        with one.turn(0):
            queued = threading.Thread(target=lambda: two.enter(PATIENCE_SEC) and two.leave())
            queued.start()
            while not (two._usher and two._usher.queueing):
                os.sched_yield()
        queued.join(PATIENCE_SEC)
        assert one.enter(PATIENCE_SEC)
        one.leave(at_once=True)
    until(is_free)


def test_a_slice_ends_when_nothing_comes(gates, is_free):
    """A process that has done its one transaction does not keep others out."""
    one, two = gates(), gates()
    assert one.enter(0)
    assert not two.enter(0.01)
    one.leave()
    assert two.enter(PATIENCE_SEC)
    two.leave()
    until(is_free)


def test_a_slice_ends_by_itself(gates, monkeypatch):
    """However fast the transactions follow each other, the others get their turn."""
    monkeypatch.setattr("agentmesh.store.gate.SLICE_SEC", 0)
    one, two = gates(), gates()
    assert one.enter(0)
    assert not two.enter(0.01)
    one.leave()
    assert two.enter(PATIENCE_SEC)
    two.leave()
    assert one.enter(0)
    one.leave()


@pytest.mark.parametrize("moment", ["before the grant", "after the grant"])
def test_an_interruption_between_two_lines_leaves_no_gate_shut(gates, is_free, monkeypatch, moment):
    """Control-C strikes where Python looks for signals: the turn that was just granted is given back."""
    one, two = gates(), gates()
    assert one.enter(0)
    assert not two.enter(0)
    real = two._usher._granted

    class Struck:
        """Hears the signal, or not, and is struck."""

        def acquire(self, *args, **wishes):
            """Wait for the grant."""
            if False in (*args, *wishes.values()):
                return real.acquire(*args, **wishes)
            one.leave()
            if moment == "after the grant":
                assert real.acquire(timeout=PATIENCE_SEC)
            raise KeyboardInterrupt

        def release(self):
            """As ever."""
            real.release()

    monkeypatch.setattr(two._usher, "_granted", Struck())
    with pytest.raises(KeyboardInterrupt):
        two.enter(PATIENCE_SEC)
    until(is_free)


def test_closing_before_the_queue_was_even_reached_is_fine(gate_path, monkeypatch):
    """The thread that queues has not yet had a chance to run."""
    started, serve = threading.Event(), _Usher._serve
    monkeypatch.setattr(_Usher, "_serve", lambda usher: started.wait(PATIENCE_SEC) and serve(usher))
    before = descriptors()
    one, two = Gate(gate_path), Gate(gate_path)
    with one.turn(0):
        assert not two.enter(0)
        two.close()
    one.close()
    started.set()
    until(lambda: descriptors() == before)


def test_a_system_without_threads_left_writes_without_the_gate(board_path, clock, monkeypatch):
    """The queue needs a thread, fairness needs the queue, and being right needs neither."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with open_board(board_path, clock) as board, open_board(board_path, clock, seed=1) as other:
        with board.store._gate.turn(0), monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert other.create_task("t", id="t").id == "t"
        assert board.status().total == 1


def _hold_the_gate(line, path):
    gate = Gate(path)
    assert gate.enter(0)
    line.send("held")
    line.recv()


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_killed_holder_leaves_the_gate_open(gate_path, is_free):
    """The kernel lets go for it."""
    holder = Worker(_hold_the_gate, gate_path)
    assert holder.hear() == "held"
    assert not is_free()
    holder.kill()
    assert is_free()


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_frozen_holder_holds_nobody_up_for_long(board_path, clock):
    """It sits in the gate for good; others write without their turn, and close without waiting for it."""
    before = descriptors()
    with open_board(board_path, clock, busy_timeout_sec=0.1) as board:
        holder = Worker(_hold_the_gate, board_path.with_name("board.db.gate"))
        assert holder.hear() == "held"
        holder.stop()
        for number in range(3):
            board.create_task("t", id=f"t{number}")
        assert board.status().total == 3
    holder.kill()
    until(lambda: descriptors() == before)


EXIT = """
import sys
from agentmesh import Board
board = Board.open(sys.argv[1], busy_timeout_sec=0.1)
board.create_task("t", id="t")
print("written", flush=True)
"""


@pytest.mark.multiproc
def test_a_place_in_the_queue_does_not_keep_a_process_alive(board_path, clock):
    """A command that wrote without its turn ends, though its thread still stands in the queue."""
    open_board(board_path, clock).close()
    gate = Gate(board_path.with_name("board.db.gate"))
    with gate.turn(0):
        command = [sys.executable, "-c", EXIT, board_path]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SEC)
    gate.close()
    assert run.stdout == "written\n"


def test_a_store_may_do_without_the_gate(board_path, gates):
    """Where fairness is not wanted, nobody waits for it."""
    store = connect(board_path, StoreOptions(gated=False, busy_timeout_us=50_000_000))
    with gates().turn(0) as granted:
        assert granted
        store.write(lambda tx: tx.execute("insert_plan", name="p", workspace="", retention_us=None, now_us=tx.now))
    store.close()


def test_a_gate_that_was_deleted_is_missed_by_nobody(board_path, clock):
    """Somebody tidies the folder: the boards that are open go on, and a new one makes a new gate."""
    with open_board(board_path, clock) as one:
        board_path.with_name("board.db.gate").unlink()
        one.create_task("t", id="one")
        with open_board(board_path, clock, seed=1) as two:
            two.create_task("t", id="two")
            assert one.status().total == 2


def _checkpoint(line, path):
    gate = Gate(path)
    with gate.checkpointer() as mine:
        line.send(mine)
        line.recv()


@pytest.mark.multiproc
def test_one_process_copies_the_log_at_a_time(gate_path, gates):
    """The second to come does not wait: it has nothing to do, and a killed one leaves the work to the next."""
    first = Worker(_checkpoint, gate_path)
    assert first.hear() is True
    with gates().checkpointer() as mine:
        assert not mine
    first.kill()
    with gates().checkpointer() as mine:
        assert mine


@pytest.fixture
def fail_flock(monkeypatch):
    """Lets `flock` fail for some operations, until it is called with none."""
    real = fcntl.flock

    def arm(*operations):
        def flock(fd, operation):
            if operation in operations:
                raise OSError(errno.ENOLCK, "injected")
            real(fd, operation)

        monkeypatch.setattr(fcntl, "flock", flock)

    return arm


def test_a_lock_that_the_system_does_not_release_keeps_nobody_out(gates, is_free, fail_flock):
    """Leaving does not fail, for the write has been committed; the next writer gets in."""
    gate = gates()
    assert gate.enter(PATIENCE_SEC)
    fail_flock(fcntl.LOCK_UN)
    gate.leave()
    fail_flock()
    assert is_free()
    assert gate.enter(PATIENCE_SEC)
    assert not is_free()
    gate.leave()


def test_a_system_that_gives_no_lock_stops_no_write(board_path, clock, fail_flock):
    """SQLite's own lock alone decides."""
    with open_board(board_path, clock) as board:
        fail_flock(fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert board.create_task("t", id="a").id == "a"


def test_a_queue_in_which_the_system_gives_no_lock_is_left_at_once(gates, fail_flock, is_free):
    """And the thread that stands in it lives on."""
    ahead, behind = gates(), gates()
    ahead.enter(PATIENCE_SEC)
    fail_flock(fcntl.LOCK_EX)
    behind.enter(PATIENCE_SEC)
    behind.leave()
    fail_flock()
    assert behind._usher._thread.is_alive()
    ahead.leave()
    until(is_free)
    assert behind.enter(PATIENCE_SEC)
    behind.leave()


def test_closing_ends_well_where_the_system_reports_a_failed_close(board_path, clock, monkeypatch):
    """Linux has closed the descriptor by then."""
    before, real = descriptors(), os.close

    def close(fd):
        real(fd)
        raise OSError(errno.EIO, "injected")

    board = open_board(board_path, clock)
    monkeypatch.setattr("agentmesh.store.gate.os.close", close)
    board.close()
    monkeypatch.undo()
    assert descriptors() == before
