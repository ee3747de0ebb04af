"""A new board has its name only when it is whole: whatever fails on the way leaves nothing, whoever else makes it."""

import errno
import os
import signal
import stat

import pytest

from agentmesh import Board
from agentmesh.errors import BoardExists, BoardNotFound, StoreError
from agentmesh.store import sqlite_open, unfinished
from tests.support.boards import open_board, rows, states
from tests.support.clock import TurnableClock
from tests.support.faults import Raiser
from tests.support.nobody import heard_from_nobody, only_root, shared_folder
from tests.support.processes import Worker, barrier, crew


def files(folder):
    """The names in a folder."""
    return sorted(file.name for file in folder.iterdir())


class At:
    """A probe that acts at one point."""

    def __init__(self, point, act):
        self._point, self._act = point, act

    def reached(self, point):
        """The store is at `point`."""
        if point == self._point:
            self._act()


@pytest.mark.parametrize("point", ["new:link", "new:linked"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "injected"), KeyboardInterrupt()])
def test_a_creation_that_fails_leaves_nothing(board_path, clock, point, error):
    """No draft, no log, no gate; and the next one succeeds."""
    with pytest.raises((Exception, KeyboardInterrupt)):
        open_board(board_path, clock, probe=Raiser(point, error))
    assert files(board_path.parent) == []
    with open_board(board_path, clock) as board:
        assert board.status().total == 0


def test_a_board_that_another_one_made_meanwhile_stays(board_path, clock):
    """It is the board of both, also where the slower one fails."""

    def make_and_fail():
        with open_board(board_path, clock, seed=1) as other:
            other.create_task("t", id="theirs")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_board(board_path, clock, probe=At("new:link", make_and_fail))
    with open_board(board_path, clock) as board:
        assert states(board) == {"theirs": "pending"}
    assert files(board_path.parent) == ["board.db", "board.db.gate"]


def _make(line, path, start, number):
    start.wait()
    with open_board(path, TurnableClock(), seed=number) as board:
        board.create_task("t", id=f"t{number}")
        line.send(rows(board, "SELECT value FROM meta WHERE key = 'board_id'"))


@pytest.mark.multiproc
def test_processes_that_make_a_board_at_once_make_one(board_path, clock):
    """Each of them writes on it, and no draft is left."""
    for _ in range(3):
        with crew(4, _make, board_path, barrier(4)) as makers:
            ids = [maker.hear() for maker in makers]
        assert ids == [ids[0]] * 4
        with open_board(board_path, clock) as board:
            assert set(states(board)) == {"t0", "t1", "t2", "t3"}
        assert files(board_path.parent) == ["board.db", "board.db.gate"]
        board_path.unlink()


def _die(_line, path, point, _number):
    open_board(path, TurnableClock(), probe=At(point, lambda: os.kill(os.getpid(), signal.SIGKILL)))


@pytest.mark.kill
@pytest.mark.multiproc
@pytest.mark.parametrize(("point", "there"), [("new:link", False), ("new:linked", True)])
def test_a_killed_creation_leaves_a_whole_board_or_none(board_path, clock, point, there):
    """A draft that was left is in nobody's way."""
    assert Worker(_die, board_path, point, 0).end() == -signal.SIGKILL
    assert board_path.exists() == there
    if not there:
        with pytest.raises(BoardNotFound):
            Board.open(board_path, create=False)
    with open_board(board_path, clock) as board:
        assert board.status().total == 0
        assert rows(board, "PRAGMA integrity_check") == [("ok",)]


def test_a_board_is_made_in_place_where_a_file_cannot_have_two_names(board_path, clock, monkeypatch):
    """As on FAT; there a failure may leave an empty file, which the next one finishes."""

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(unfinished.os, "link", refuse)
    with open_board(board_path, clock) as board:
        board.create_task("t", id="t")
    with open_board(board_path, clock) as board:
        assert states(board) == {"t": "pending"}
    assert files(board_path.parent) == ["board.db", "board.db.gate"]


def test_a_new_board_is_on_the_disk_before_it_has_its_name(board_path, clock, monkeypatch):
    """A power cut leaves all of it or no file."""
    done = []
    real = os.fsync, os.link
    monkeypatch.setattr(sqlite_open.os, "fsync", lambda fd: (done.append("sync"), real[0](fd)))
    monkeypatch.setattr(sqlite_open.os, "link", lambda *names: (done.append("link"), real[1](*names)))
    open_board(board_path, clock).close()
    assert done == ["sync", "link", "sync"]


def _make_and_use(line, path):
    with Board.open(path) as board:
        board.create_task("t", id="t")
        line.send(states(board))


@only_root
@pytest.mark.multiproc
def test_a_board_is_made_in_a_folder_that_may_be_written_and_not_read():
    """It cannot be synced then; the system writes the name down in its own time."""
    with shared_folder(0o733) as folder:
        assert heard_from_nobody(_make_and_use, folder / "board.db") == {"t": "pending"}
        assert files(folder) == ["board.db", "board.db.gate"]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO])
def test_a_folder_that_cannot_be_synced_is_no_reason_to_fail_but_a_broken_disk_is(board_path, monkeypatch, number):
    """Some file systems do not know how; of one that fails nothing is left."""
    real = os.fsync

    def sync(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(number, os.strerror(number))
        real(fd)

    monkeypatch.setattr(unfinished.os, "fsync", sync)
    if number == errno.EINVAL:
        Board.open(board_path).close()
    else:
        with pytest.raises(StoreError):
            Board.open(board_path)
        assert files(board_path.parent) == []


@pytest.mark.parametrize("end", ["-wal", "-journal", "-shm"])
def test_no_board_is_made_beside_the_log_of_another(board_path, end):
    """The log holds data, and SQLite would take it for the new board's own."""
    log = board_path.with_name(board_path.name + end)
    log.write_text("precious")
    with pytest.raises(BoardExists, match=end) as refused:
        Board.open(board_path)
    assert "lost board" in refused.value.hint
    assert (files(board_path.parent), log.read_text()) == ([log.name], "precious")
