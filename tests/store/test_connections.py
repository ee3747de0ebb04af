"""One open board: the same settings on every connection, any number of threads, one process, one file."""

import contextlib
import gc
import os
import subprocess
import sys
import threading

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import BoardClosed, BoardReplaced, ForkedBoard
from tests.support.boards import open_board, reader_of, violations
from tests.support.clock import TurnableClock
from tests.support.interleave import Party, outcome
from tests.support.patience import until
from tests.support.processes import descriptors, results
from tests.support.scene import ACTS, PAST_THE_LEASE_US, prepare


@contextlib.contextmanager
def every_connection(store):
    """A connection of each kind that a store opens."""
    store.version()
    with reader_of(store) as reader, contextlib.closing(store._log._connect()) as copier:
        yield {"writer": store._writer, "reader": reader, "watcher": store._watcher, "copier": copier}


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_every_connection_has_the_same_settings(board_path, durability, synchronous):
    """No kind of connection is left with a default: one that waits for no lock, or syncs less, is a random fault."""
    wanted = {
        "synchronous": synchronous,
        "journal_mode": "wal",
        "foreign_keys": 1,
        "busy_timeout": 5000,
        "wal_autocheckpoint": 0,
        "journal_size_limit": 64 * 1024 * 1024,
        "trusted_schema": 0,
        "mmap_size": 0,
    }
    with Board.open(board_path, durability=durability) as board, every_connection(board.store) as kinds:
        for kind, connection in kinds.items():
            assert {name: connection.pragma(name) for name in wanted} == wanted, kind
            assert connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1) == 1, kind


def test_no_connection_that_anything_opens_has_other_settings(board_path, clock, monkeypatch):
    """Whatever a process does with a board: each connection to its file, looked at as it closes, has the same (G4)."""
    names = ("journal_mode", "synchronous", "foreign_keys", "wal_autocheckpoint", "trusted_schema", "mmap_size")
    seen = []

    class Watched(apsw.Connection):
        """Tells its settings before it goes."""

        def close(self, *force):
            """Look at what it is set to."""
            if self.db_filename("main") == str(board_path):
                stable = self.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)
                seen.append((*(self.pragma(name) for name in names), stable, self.pragma("busy_timeout") > 0))
            super().close(*force)

    monkeypatch.setattr("agentmesh.store.sqlite_open.apsw.Connection", Watched)
    with Board.open(board_path, clock=clock) as board:
        board.create_task("t", id="t")
        for name in sorted(CALLS.keys() - {"wait"}):
            CALLS[name](board)
        board.store.version()
        board.store._log.committed(board.store._writer, "main", 1_000_000)
        until(lambda: seen)  # the connection that copies the log
    Board.examine(board_path)
    assert seen == [("wal", 2, 1, 0, 0, 0, 1, True)] * 6  # copier, reader, watcher, writer; two of the examination


def test_a_board_is_as_durable_as_it_can_be_unless_told_otherwise(board_path):
    """The default syncs each commit: an acknowledged write survives a power cut."""
    with Board.open(board_path) as board:
        assert board.store._writer.pragma("synchronous") == 2


def test_every_write_is_synced_but_a_renewal(tmp_path):
    """Nobody misses a heartbeat after a power cut; whatever follows one is synced again."""
    scene, found = prepare(tmp_path / "scene.db"), {}
    for number, name in enumerate(ACTS):
        commits = CommitsSeen()
        clock = TurnableClock(PAST_THE_LEASE_US)
        with Board.open(scene.copy(tmp_path / f"{number}.db").path, clock=clock, probe=commits) as commits.board:
            commits.board.heartbeat(scene.bob)
            commits.synced.clear()
            ACTS[name](commits.board, scene)
        found[name] = set(commits.synced)
    assert found.pop("heartbeat") == {1}
    assert {frozenset(levels) for levels in found.values()} == {frozenset({2})}


class CommitsSeen:
    """A probe that tells with which `synchronous` each commit of a board is made."""

    def __init__(self):
        self.board, self.synced = None, []

    def reached(self, point):
        """Look at it before each commit."""
        if point == "commit":
            self.synced.append(self.board.store._writer.pragma("synchronous"))


def test_the_library_has_the_wal_reset_bug_fixed():
    """SQLite before 3.51.3 may damage a log that many short-lived processes share."""
    assert tuple(int(part) for part in apsw.sqlite_lib_version().split(".")) >= (3, 51, 3)


def test_threads_share_a_board(board):
    """Eight threads draw fifty tasks each from one board object; every task is drawn once."""
    board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(400)])
    drawn, line = [], threading.Barrier(8, timeout=60)

    def draw(agent):
        line.wait()
        for _ in range(50):
            claim = board.claim_task(agent)
            claim.complete()
            drawn.append(claim.task.id)

    threads = [threading.Thread(target=draw, args=(f"agent-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == sorted(f"t{n}" for n in range(400))
    assert board.status().counts["completed"] == 400


def test_a_thousand_openings_leave_nothing_behind(board_path, clock):
    """No descriptor, no thread, no side file: a short-lived command pays for itself."""

    def use():
        with open_board(board_path, clock) as board:
            board.status()
            board.store.waiter(for_tasks=True).close()

    def used():
        return descriptors(), threading.active_count()

    with open_board(board_path, clock):
        use()
        before = used()
        for _ in range(1000):
            use()
        assert used() == before
    for _ in range(20):
        use()
    assert sorted(file.name for file in board_path.parent.iterdir()) == ["board.db", "board.db.gate"]


def test_a_failed_opening_leaves_nothing_behind(tmp_path):
    """A command that is pointed at the wrong file a thousand times does not run out of descriptors."""
    (tmp_path / "notes.txt").write_text("not a board " * 100)
    before = descriptors()
    for _ in range(100):
        assert not isinstance(outcome(lambda: Board.open(tmp_path / "notes.txt")), Board)
    gc.collect()
    assert descriptors() == before


CALLS = {
    "create": lambda board: board.create_task("t"),
    "claim": lambda board: board.claim_task("a"),
    "wait": lambda board: board.claim_task("a", wait_sec=1),
    "get": lambda board: board.get_task("t"),
    "status": lambda board: board.status(),
    "events": lambda board: board.events(0, wait_sec=1),
    "check": lambda board: board.check(),
    "reclaim": lambda board: board.reclaim_zombies(),
    "backup": lambda board: board.backup(board.store.path.with_name("copy.db")),
    "doctor": lambda board: board.doctor(),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_closed_board_says_so(board_path, clock, call):
    """Every call on it has the same clear answer, and closing again is fine."""
    board = open_board(board_path, clock)
    board.close()
    board.close()
    with pytest.raises(BoardClosed):
        CALLS[call](board)


def test_closing_lets_a_call_under_way_end(board_path, clock):
    """A write that has begun is committed, and only then are the connections closed."""
    party = Party()
    board = open_board(board_path, clock, probe=party)
    party.start(lambda: board.create_task("t", id="t").id)
    assert party.run_to("commit")
    closing = threading.Thread(target=board.close)
    closing.start()
    assert closing.is_alive()
    assert party.finish() == "t"
    closing.join(60)
    with open_board(board_path, clock) as again:
        assert again.get_task("t").title == "t"


def test_closing_ends_a_sleep_at_once(board_path, clock):
    """A claim that waits in another thread gets the same answer as one that comes after."""
    board = open_board(board_path, clock)
    answers = []

    def wait():
        answers.append(outcome(lambda: board.claim_task("a", wait_sec=50)))

    thread = threading.Thread(target=wait)
    thread.start()
    until(lambda: board.store._waiters)
    board.close()
    thread.join(60)
    assert [type(answer) for answer in answers] == [BoardClosed]


def _delete(path):
    path.unlink()


def _replace(path):
    other = path.with_name("other.db")
    Board.open(other).close()
    other.rename(path)


def _move_folder(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


def _put_a_file_in_the_folders_place(path):
    _move_folder(path)
    path.parent.touch()


@pytest.mark.parametrize("change", [_delete, _replace, _move_folder, _put_a_file_in_the_folders_place])
@pytest.mark.parametrize("call", ["create", "claim", "wait", "status", "events"])
def test_a_board_whose_file_is_gone_fails_loudly(tmp_path, clock, change, call):
    """SQLite would write on into the unlinked file; here the next call says that the board was replaced."""
    (tmp_path / "place").mkdir()
    path = tmp_path / "place" / "board.db"
    with open_board(path, clock) as board:
        board.create_task("t", id="t")
        board.status()
        change(path)
        with pytest.raises(BoardReplaced):
            CALLS[call](board)


def _fork(line, path, _number):
    """Open a board, fork, use it on both sides; the child's answers, then how the parent got on."""
    board = Board.open(path, durability="normal")
    board.create_task("before", id="before")
    board.status()
    mine, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        answers = [type(outcome(lambda call=call: call(board))).__name__ for call in CALLS.values()]
        board.close()
        del board
        gc.collect()
        os.write(theirs, ",".join(answers).encode())
        os._exit(0)
    os.waitpid(child, 0)
    line.send(os.read(mine, 1000).decode())
    board.create_task("after", id="after")
    line.send([task.id for task in board.list_tasks().tasks])
    board.close()


@pytest.mark.multiproc
def test_a_forked_child_is_refused_and_its_parent_goes_on(board_path, clock):
    """Two processes on one connection would damage the file; the child's end does not touch the parent's locks."""
    [said] = results(1, _fork, board_path)
    assert said.split(",") == [ForkedBoard.__name__] * len(CALLS)
    with open_board(board_path, clock) as board:
        assert [task.id for task in board.list_tasks().tasks] == ["before", "after"]
        assert violations(board) == {}


POOL = """
import multiprocessing, sys
from agentmesh import Board
board = Board.open(sys.argv[1], durability="normal")
def use(_):
    try:
        board.create_task("t")
    except Exception as error:
        return type(error).__name__
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(use, range(3)))
board.create_task("t", id="mine")
board.close()
"""


@pytest.mark.multiproc
def test_a_forked_pool_is_refused_and_its_parent_goes_on(board_path, clock):
    """As a server that opens its board and then forks its workers would find out at their first call."""
    run = subprocess.run([sys.executable, "-c", POOL, board_path], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(["ForkedBoard"] * 3)
    with open_board(board_path, clock) as board:
        assert [task.id for task in board.list_tasks().tasks] == ["mine"]
