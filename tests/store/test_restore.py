"""A restore puts a backup in the place of a board that nothing has open; the board of before is kept, with its log."""

import contextlib
import errno
import os
import signal
import stat
from pathlib import Path

import apsw
import pytest

from agentmesh import Board
from agentmesh.cell import VARIABLE, CellClock, cell_path
from agentmesh.errors import (
    BoardInUse,
    BoardNotFound,
    BoardReplaced,
    Corrupt,
    ForeignFile,
    InvalidArgument,
    NewerSchema,
    OnTestClock,
    StoreError,
    UnsupportedFileSystem,
)
from agentmesh.store import sqlite_open, unfinished
from agentmesh.store.base import RESTORE_POINTS, StoreOptions
from agentmesh.store.connect import restore
from agentmesh.store.gate import Gate
from pytest_agentmesh.history import History
from tests.support.boards import kinds, open_board, states, violations
from tests.support.clock import START_US, TurnableClock
from tests.support.faults import Killer, Raiser, Recorder
from tests.support.older import NEWEST, backups, make_old, schema
from tests.support.processes import Worker


@pytest.fixture
def copy(board_path, clock, tmp_path):
    """A backup of a board that has gone on since, and was closed."""
    path = tmp_path / "copy.db"
    with open_board(board_path, clock) as board:
        board.create_task("t", id="kept")
        board.backup(path)
        board.create_task("t", id="since")
    return path


def kept(board_path):
    """The boards that restores have moved aside."""
    found = board_path.parent.glob(f"{board_path.name}.replaced-*")
    return sorted(path for path in found if path.suffix != ".gate" and not path.name.endswith(("-wal", "-shm")))


def tasks(path):
    """The tasks of a board that is closed."""
    with open_board(path, TurnableClock(), seed=9, create=False) as board:
        assert violations(board) == {}
        return set(states(board))


def beside(board_path):
    """The names of everything in the board's folder, gates aside."""
    return {file.name for file in board_path.parent.iterdir() if file.suffix != ".gate"}


def test_a_restored_board_is_that_of_the_backup(board_path, clock, copy):
    """It goes on from there; its history says so, and the record says what an operator wants to know."""
    before = copy.read_bytes()
    clock.advance(5)
    made = Board.restore(copy, board_path, agent_id="ops", clock=clock)
    assert made.size == board_path.stat().st_size
    with open_board(board_path, clock, create=False) as board:
        assert set(states(board)) == {"kept"}
        event = board.events()[-1]
        assert (event.kind, event.agent_id, event.at_us) == ("board_restored", "ops", START_US + 5_000_000)
        assert event.data == {"last_seq": 1, "as_of_us": START_US}
        assert (made.last_seq, made.at_us, made.schema, made.board_id) == (1, START_US, NEWEST, board_id(board))
        assert board.claim_task("a").complete().state == "completed"
        assert violations(board) == {}
        assert History(board).check().not_observable == ()
    assert (made.path, made.backup) == (str(board_path), str(copy))
    assert copy.read_bytes() == before
    assert [file.name for file in copy.parent.glob("copy.db*")] == ["copy.db"]


def board_id(board):
    """The id of an open board."""
    return board.store._writer.execute("SELECT value FROM meta WHERE key = 'board_id'").get


def test_the_board_of_before_is_kept(board_path, clock, copy):
    """It is a board of its own, in the same folder, with everything that was written since the backup."""
    made = Board.restore(copy, board_path, clock=clock)
    assert [str(path) for path in kept(board_path)] == [made.replaced]
    assert made.replaced == f"{board_path}.replaced-20260101T000000Z"
    assert tasks(made.replaced) == {"kept", "since"}
    again = Board.restore(copy, board_path, clock=clock)
    assert again.replaced == f"{made.replaced}-2"
    Board.restore(made.replaced, board_path, clock=clock)
    assert tasks(board_path) == {"kept", "since"}


def _write_and_wait(line, path, task_id):
    with open_board(path, TurnableClock()) as board:
        board.create_task("t", id=task_id)
        line.send("written")
        line.recv()


def leave_a_log(board_path):
    """Let a process write to the board and be killed: what it wrote is in the log alone."""
    worker = Worker(_write_and_wait, board_path, "logged")
    worker.hear()
    worker.kill()
    assert Path(f"{board_path}-wal").stat().st_size > 0


@pytest.mark.multiproc
@pytest.mark.kill
def test_the_log_of_a_killed_process_moves_with_its_board(board_path, clock, copy):
    """It is not applied to the restored board, and what it holds is not lost."""
    leave_a_log(board_path)
    made = Board.restore(copy, board_path, clock=clock)
    assert not Path(f"{board_path}-wal").exists()
    assert tasks(board_path) == {"kept"}
    assert tasks(made.replaced) == {"kept", "since", "logged"}


def test_a_board_that_is_missing_is_made(board_path, clock, copy):
    """Private, as a new board is; what a log of that name held is kept, too."""
    for file in board_path.parent.glob("board.db*"):
        file.unlink()
    Path(f"{board_path}-wal").write_bytes(b"old log")
    made = Board.restore(copy, board_path, clock=clock)
    assert made.replaced is None
    assert stat.S_IMODE(board_path.stat().st_mode) == 0o600
    assert tasks(board_path) == {"kept"}
    assert [file.read_bytes() for file in board_path.parent.glob("*.replaced-*-wal")] == [b"old log"]


@pytest.mark.parametrize("content", [b"xy", b"a diary " * 1000])
def test_whatever_file_is_in_the_place_is_kept(board_path, clock, copy, content):
    """A damaged board is why one restores: what the file holds does not matter."""
    board_path.write_bytes(content)
    made = Board.restore(copy, board_path, clock=clock)
    assert Path(made.replaced).read_bytes() == content
    assert tasks(board_path) == {"kept"}


@pytest.mark.parametrize("point", [None, "link"])
def test_an_empty_file_is_replaced_too(board_path, clock, copy, point):
    """A power cut may leave one. The file that is kept says that it was empty; one that stays is empty."""
    board_path.write_bytes(b"")
    if point:
        with pytest.raises(KeyboardInterrupt):
            Board.restore(copy, board_path, clock=clock, probe=Raiser(point, KeyboardInterrupt()))
        assert board_path.read_bytes() == b""
    made = Board.restore(copy, board_path, clock=clock)
    assert Path(made.replaced).read_bytes().startswith(b"This file was empty")
    assert tasks(board_path) == {"kept"}


def test_the_users_of_the_board_stay_its_users(board_path, clock, copy):
    """Owner, group and mode are those of the board that was there, not those of the backup."""
    board_path.chmod(0o660)
    if os.geteuid() == 0:
        os.chown(board_path, 65534, 65534)
    before = board_path.stat()
    Board.restore(copy, board_path, clock=clock)
    after = board_path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_link_to_a_board_stays_one(board_path, clock, copy, tmp_path):
    """The board is restored where it is."""
    link = tmp_path / "link.db"
    link.symlink_to(board_path)
    assert Board.restore(copy, link, clock=clock).path == str(board_path)
    assert link.is_symlink()
    assert tasks(board_path) == {"kept"}


def test_a_restore_changes_no_schema(board_path, clock):
    """A backup of an older schema is put back as it is, for the release that knows it; the next opening upgrades it."""
    make_old(board_path, clock)
    open_board(board_path, clock).close()
    [old] = backups(board_path)
    made = Board.restore(old, board_path, clock=clock)
    assert (made.schema, schema(board_path)) == (NEWEST - 1, (NEWEST - 1, "old"))
    with open_board(board_path, clock, seed=3) as board:
        assert kinds(board) == ["board_restored", "schema_upgraded"]


@pytest.mark.multiproc
@pytest.mark.parametrize("file", ["sound", "damaged"])
def test_a_board_that_a_process_has_open_is_left_alone(board_path, clock, copy, file):
    """However idle that process is, and whatever has become of the file; nothing is left beside it."""
    worker = Worker(_write_and_wait, board_path, "idle")
    worker.hear()
    if file == "damaged":
        with board_path.open("r+b") as spoilt:  # this process has no connection whose locks this would drop
            spoilt.write(b"x" * 100)
    before = beside(board_path), board_path.read_bytes()
    with pytest.raises(BoardInUse, match="is open") as refused:
        Board.restore(copy, board_path, clock=clock)
    assert "Stop every agent" in refused.value.hint
    assert (beside(board_path), board_path.read_bytes()) == before
    worker.kill()
    Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == {"kept"}


def test_a_board_that_this_process_has_open_is_left_alone(board_path, clock, copy):
    """The lock is SQLite's own, which tells the connections of a process apart; they go on unharmed."""
    with open_board(board_path, clock) as board:
        with pytest.raises(BoardInUse):
            Board.restore(copy, board_path, clock=clock)
        board.create_task("t", id="later")
        with pytest.raises(BoardInUse):
            Board.restore(copy, board_path, clock=clock)
    Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == {"kept"}


def test_restores_take_turns(board_path, copy):
    """The gate is held throughout, also where no board is there that could be locked."""
    gate = Gate(Path(f"{board_path}.gate"))
    with gate.turn(0), pytest.raises(BoardInUse):
        restore(copy, board_path, StoreOptions(busy_timeout_us=0), agent_id="a")
    gate.close()


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.parametrize("step", ["identify", "_configure"])
@pytest.mark.parametrize("place", ["a board", "a board in no WAL mode", "an empty file"])
def test_a_process_that_opened_the_file_of_before_is_told(board_path, clock, copy, step, place):
    """The file was replaced before SQLite kept its lock: the log beside it is that of another, and is not harmed."""
    if place != "a board":
        board_path.write_bytes(copy.read_bytes() if place == "a board in no WAL mode" else b"")
    real = getattr(sqlite_open, step)

    def late(*args, **how):
        patch.undo()
        with contextlib.suppress(BoardInUse):
            Board.restore(copy, board_path, clock=clock)
            leave_a_log(board_path)
        return real(*args, **how)

    before = board_path.stat().st_ino
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_open, step, late)
        with contextlib.suppress(BoardReplaced), open_board(board_path, clock) as board:
            board.create_task("t", id="opened")
    replaced = board_path.stat().st_ino != before
    assert replaced == ((step, place) != ("_configure", "a board"))
    assert tasks(board_path) == ({"kept", "logged"} if replaced else {"kept", "since", "opened"})


def _spoil(path):
    with open_board(path, TurnableClock()) as board:
        [(page,)] = board.store._writer.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'task'").fetchall()
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(whole)


def _with(sql):
    def change(path):
        connection = apsw.Connection(str(path))
        connection.execute(sql)
        connection.close()

    return change


UNFIT = {
    "text": (lambda path: path.write_text("a diary " * 1000), ForeignFile),
    "empty": (lambda path: path.write_text(""), ForeignFile),
    "another application's": (_with("PRAGMA application_id = 7"), ForeignFile),
    "of a newer schema": (_with("PRAGMA user_version = 1000"), NewerSchema),
    "damaged": (_spoil, Corrupt),
    "with rows that refer to nothing": (_with("INSERT INTO tally (plan_pk) VALUES (99)"), Corrupt),
    "missing": (lambda path: path.unlink(), InvalidArgument),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), InvalidArgument),
    "with a log": (lambda path: Path(f"{path}-wal").touch(), InvalidArgument),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_a_backup_that_is_no_sound_board_is_refused(board_path, clock, copy, kind):
    """Before anything moves; the board is as it was."""
    spoil, error = UNFIT[kind]
    spoil(copy)
    before = beside(board_path), board_path.read_bytes()
    with pytest.raises(error) as refused:
        Board.restore(copy, board_path, clock=clock)
    assert kind == "of a newer schema" or any(word in refused.value.hint for word in ("backup", "Back it up"))
    assert (beside(board_path), board_path.read_bytes()) == before


@pytest.mark.parametrize("field", ["backup", "board"])
def test_a_name_that_leads_nowhere_is_named(board_path, copy, field, tmp_path):
    """And so is a URL; the two may not be one file."""
    for wrong in (tmp_path / "no" / "x.db", "a://b", ""):
        backup, board = (wrong, board_path) if field == "backup" else (copy, wrong)
        with pytest.raises(InvalidArgument, match=field):
            Board.restore(backup, board)
    with pytest.raises(InvalidArgument, match="the board itself"):
        Board.restore(board_path, board_path)


def test_what_is_no_file_is_not_moved(copy, tmp_path):
    """A folder may hold anything."""
    (tmp_path / "folder").mkdir()
    with pytest.raises(ForeignFile):
        Board.restore(copy, tmp_path / "folder")


def test_a_board_of_a_test_is_restored_on_its_clock(tmp_path, monkeypatch):
    """Its history has no instant of another clock."""
    monkeypatch.delenv(VARIABLE, raising=False)  # a test of the plugin in this process may have set it
    path, backup = tmp_path / "t.db", tmp_path / "copy.db"
    clock = CellClock.create(cell_path(path))
    with Board.open(path, clock=clock) as board:
        board.backup(backup)
    Board.restore(backup, path, clock=clock)
    with Board.open(path, clock=clock) as board:
        assert [event.at_us for event in board.events()] == [clock.now_us()]
    with pytest.raises(OnTestClock):
        Board.restore(backup, path)
    with pytest.raises(InvalidArgument, match="clock"):
        Board.restore(backup, tmp_path / "other.db", clock=clock)
    clock.close()


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.parametrize("point", RESTORE_POINTS)
@pytest.mark.parametrize("error", [OSError(errno.EIO, "injected"), KeyboardInterrupt()])
def test_a_restore_that_fails_at_any_point_leaves_the_old_board(board_path, clock, copy, point, error):
    """With its log, under its name, and nothing else; the next restore succeeds."""
    leave_a_log(board_path)
    before = beside(board_path) - {"board.db-shm"}
    with pytest.raises((StoreError, type(error))):
        Board.restore(copy, board_path, clock=clock, probe=Raiser(point, error))
    assert beside(board_path) - {"board.db-shm"} == before
    assert tasks(board_path) == {"kept", "since", "logged"}
    Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == {"kept"}


def test_whoever_is_told_of_the_progress_can_give_up(board_path, clock, copy):
    """What it raises comes out as it is."""

    def give_up(_done, _pages):
        raise OSError(errno.EPIPE, "broken pipe")

    with pytest.raises(OSError, match="broken pipe"):
        Board.restore(copy, board_path, clock=clock, progress=give_up)
    assert tasks(board_path) == {"kept", "since"}


def test_a_file_system_without_links_is_refused(board_path, clock, copy, monkeypatch):
    """A name cannot be given there that is certainly free; the board is moved back."""

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(unfinished.os, "link", refuse)
    with pytest.raises(UnsupportedFileSystem):
        Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == {"kept", "since"}


def test_a_board_that_is_made_meanwhile_is_not_overwritten(board_path, clock, copy):
    """A process that makes a missing board finds none for a moment; nothing of it or of the old board is lost."""

    class Rival:
        """Makes a board just before the restored one comes."""

        def reached(self, point):
            """The restore is at `point`."""
            if point == "link":
                with open_board(board_path, clock, busy_timeout_sec=0) as board:  # the restore holds the gate
                    board.create_task("t", id="theirs")

    with pytest.raises(BoardInUse, match="made a board") as refused:
        Board.restore(copy, board_path, clock=clock, probe=Rival())
    [old] = kept(board_path)
    assert str(old) in str(refused.value)
    assert (tasks(board_path), tasks(old)) == ({"theirs"}, {"kept", "since"})
    Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == {"kept"}


def test_the_points_of_a_restore_come_in_their_order(board_path, clock, copy):
    """A test bench can stop at each of them."""
    seen = Recorder()
    Board.restore(copy, board_path, clock=clock, probe=seen)
    assert tuple(seen.points) == RESTORE_POINTS


def _die_restoring(line, copy, board_path, number):
    killer = Killer()
    killer.arm(number)
    Board.restore(copy, board_path, clock=TurnableClock(), probe=killer)
    line.send("returned")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.parametrize("opened", [True, False], ids=["opened in between", "restored at once"])
@pytest.mark.parametrize("number", range(1, len(RESTORE_POINTS) + 2), ids=[*RESTORE_POINTS, "returned"])
def test_a_process_that_is_killed_at_any_point_of_a_restore_loses_nothing(board_path, clock, copy, number, opened):
    """It leaves the old board with its log, or no board, or the restored one; the next restore ends what it began."""
    leave_a_log(board_path)
    point = (*RESTORE_POINTS, "returned")[number - 1]
    worker = Worker(_die_restoring, copy, board_path, number)
    assert worker.last_words() == (["returned"] if point == "returned" else [])
    assert worker.end() == -signal.SIGKILL
    old, new = {"kept", "since", "logged"}, {"kept"}
    left = {"copy": old, "verify": old, "aside": old, "log kept": old, "linked": new, "returned": new}.get(point)
    if opened and left is not None:
        assert tasks(board_path) == left
    elif opened:
        with pytest.raises(BoardNotFound):
            open_board(board_path, clock, create=False)
    Board.restore(copy, board_path, clock=clock)
    assert tasks(board_path) == new
    assert board_path.stat().st_nlink == 1
    assert [tasks(path) for path in kept(board_path)].count(old) == 1
    assert not Path(f"{board_path}-wal").exists()
