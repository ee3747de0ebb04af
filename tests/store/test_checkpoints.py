"""The log stays short without anybody waiting for it: a thread copies it, whenever it has grown past its mark."""

import threading

import apsw
import pytest

from agentmesh.store import checkpoints
from tests.support.boards import open_board, states, violations
from tests.support.clock import TurnableClock
from tests.support.patience import PATIENCE_SEC, until
from tests.support.processes import results

PAGE = 4096
BIG = "x" * 60_000
"""A description that fills about fifteen pages of the log."""


@pytest.fixture
def low_mark(monkeypatch):
    """Copy the log at a hundred pages already."""
    monkeypatch.setattr(checkpoints, "MARK_PAGES", 100)
    monkeypatch.setattr(checkpoints, "STEP_PAGES", 50)


def copiers():
    """The threads of this process that copy logs."""
    return [thread for thread in threading.enumerate() if thread.name == "agentmesh-checkpoint"]


def _write(line, path, count, number):
    longest = 0
    with open_board(path, TurnableClock(), seed=number) as board:
        for place in range(count):
            board.create_task("t", id=f"t{number}.{place}", description=BIG)
            longest = max(longest, board.store._log._pages)
    line.send(longest)


@pytest.mark.multiproc
def test_eight_writers_do_not_make_the_log_grow(board_path, clock):
    """Two hundred megabytes go through it as fast as eight processes can; it never holds a third of them."""
    with open_board(board_path, clock) as board:
        longest = max(results(8, _write, board_path, 400))
        assert checkpoints.MARK_PAGES <= longest < (64 << 20) / PAGE
        assert board.status().total == 3200
        assert violations(board) == {}


@pytest.mark.usefixtures("low_mark")
def test_a_reader_that_stays_pins_the_log_and_nothing_else(board_path, clock):
    """Writers write on, the reader sees its one instant; when it leaves, the log begins anew."""
    looking, leave, seen = threading.Event(), threading.Event(), []

    def look(tx):
        seen.append(tx.fetch_one("tally_totals")["pending"])
        looking.set()
        assert leave.wait(PATIENCE_SEC)
        seen.append(tx.fetch_one("tally_totals")["pending"])

    with open_board(board_path, clock) as board:
        board.create_task("t")
        reader = threading.Thread(target=lambda: board.store.read(look))
        reader.start()
        assert looking.wait(PATIENCE_SEC)
        for _ in range(60):
            board.create_task("t", description=BIG)
        assert board.store._log._pages > 800
        leave.set()
        reader.join(PATIENCE_SEC)
        until(lambda: board.create_task("t") and board.store._log._pages < 100)
        assert seen == [1, 1]


@pytest.mark.usefixtures("low_mark")
def test_the_thread_starts_with_the_need_and_ends_with_the_board(board_path, clock):
    """A command that writes little never has one; none is left behind."""
    with open_board(board_path, clock) as board:
        board.create_task("t")
        assert copiers() == []
        for _ in range(20):
            board.create_task("t", description=BIG)
        assert len(copiers()) == 1
    assert copiers() == []


@pytest.mark.usefixtures("low_mark")
def test_a_copied_log_is_written_from_the_start_again(board_path, clock):
    """So its file stays as large as its longest stretch, however much goes through it."""
    with open_board(board_path, clock) as board:
        for number in range(40):
            board.create_task("t", id=f"t{number}", description=BIG)
            until(lambda: not board.store._log._due.is_set())
        until(lambda: board.create_task("t") and board.store._log._pages < 100)
        assert len(states(board)) >= 40
        assert violations(board) == {}


@pytest.mark.usefixtures("low_mark")
def test_two_boards_of_one_process_copy_one_log(board_path, clock):
    """They share the file and its locks; neither spoils what the other does."""
    with open_board(board_path, clock) as one, open_board(board_path, clock, seed=1) as two:
        for number in range(60):
            (one, two)[number % 2].create_task("t", id=f"t{number}", description=BIG)
        assert states(one) == states(two) == {f"t{n}": "pending" for n in range(60)}
    with open_board(board_path, clock) as board:
        assert len(states(board)) == 60
        assert violations(board) == {}


@pytest.mark.usefixtures("low_mark")
def test_a_system_without_threads_left_still_commits(board_path, clock, monkeypatch):
    """The log grows for lack of a thread; the call that would have started one is none the worse for it."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with open_board(board_path, clock) as board:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            for number in range(20):
                board.create_task("t", id=f"t{number}", description=BIG)
        assert board.status().total == 20
        until(lambda: board.create_task("t", description=BIG) and copiers())


def test_a_writer_shortens_a_log_that_the_thread_does_not(board_path, clock, monkeypatch):
    """Should the thread never get the processor, the log is bounded all the same."""
    monkeypatch.setattr(checkpoints, "LIMIT_PAGES", 50)
    with open_board(board_path, clock) as board:
        longest = 0
        for _ in range(100):
            board.create_task("t")
            longest = max(longest, board.store._log._pages)
        assert 50 <= longest < 100


def test_a_log_that_cannot_be_copied_fails_no_call(board):
    """The commit stands whatever becomes of the log; to say that it failed would be false."""
    tried = []

    class BadDisk:
        def wal_checkpoint(self, mode):
            tried.append(mode)
            raise apsw.IOError

    log = board.store._log
    log._pages = checkpoints.LIMIT_PAGES
    log.relieve(BadDisk())
    assert tried == [apsw.SQLITE_CHECKPOINT_PASSIVE]
