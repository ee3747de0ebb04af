"""A board is its database, log, shared memory and gate: none of them changes its file while it is open, unnoticed."""

import errno
import os
import shutil
import tempfile
from pathlib import Path

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import BoardReplaced, MismatchedLog, ReadOnly, StoreError
from agentmesh.store import files
from tests.support.boards import open_board, violations
from tests.support.processes import Worker, results

NOBODY = 65534
SIDES = (["-shm"], ["-wal"], ["-wal", "-shm"])


def beside(path, end):
    """A file of the board."""
    return path.with_name(path.name + end)


def ids(path):
    """The tasks on a board at rest."""
    with Board.open(path) as board:
        assert violations(board) == {}
        return {task.id for task in board.list_tasks(limit=500).tasks}


def sound(path):
    """Whether SQLite finds no damage."""
    connection = apsw.Connection(str(path))
    try:
        return connection.pragma("integrity_check") == "ok"
    finally:
        connection.close()


def _write_and_go(line, path):
    """A newcomer: it opens the board, writes some tasks, and closes."""
    with Board.open(path) as board:
        for number in range(20):
            line.send(board.create_task("t", id=f"new-{number}").id)
    line.send(None)


def _write_and_stay(line, path):
    """The same, but it closes only when told."""
    with Board.open(path) as board:
        for number in range(20):
            line.send(board.create_task("t", id=f"new-{number}").id)
        line.send(None)
        line.recv()


@pytest.mark.multiproc
@pytest.mark.parametrize("gone", SIDES)
def test_a_deleted_side_file_stops_those_who_have_it_open(board_path, gone):
    """They say so at their next call, read or write; what was acknowledged before is there when the board is opened."""
    with Board.open(board_path) as board:
        written = {board.create_task("t", id=f"old-{number}").id for number in range(20)}
        for end in gone:
            beside(board_path, end).unlink()
        for call in (lambda: board.create_task("t", id="late"), board.status, lambda: board.get_task("old-0")):
            with pytest.raises(BoardReplaced, match=gone[0]):
                call()
    assert ids(board_path) == written
    assert sound(board_path)


@pytest.mark.multiproc
@pytest.mark.parametrize("stays", [False, True])
def test_what_a_newcomer_writes_after_the_shared_memory_was_deleted_is_kept(board_path, stays):
    """Without the look at it both would write, each over the other's commits; whoever closes last harms nothing."""
    with Board.open(board_path) as board:
        written = {board.create_task("t", id=f"old-{number}").id for number in range(20)}
        beside(board_path, "-shm").unlink()
        newcomer = Worker(_write_and_stay if stays else _write_and_go, board_path)
        written |= set(iter(newcomer.hear, None))
        with pytest.raises(BoardReplaced, match="-shm"):
            board.create_task("t", id="late")
        if not stays:
            assert newcomer.end() == 0
    if stays:
        newcomer.tell("close")
        assert newcomer.end() == 0
    assert ids(board_path) == written
    assert len(written) == 40
    assert sound(board_path)


@pytest.mark.parametrize("end", files.ENDS[:3])
def test_a_replaced_file_is_noticed_in_a_folder_where_nothing_else_happens(board_path, end, monkeypatch):
    """Also when the folder has been quiet for so long that its change time alone is looked at."""
    monkeypatch.setattr(files, "RESOLUTION_NS", 0)
    with Board.open(board_path) as board:
        for _ in range(3):
            board.status()
        assert board.store._files._settled is not None
        copy = beside(board_path, ".copy")
        copy.write_bytes(b"")
        copy.rename(beside(board_path, end))
        with pytest.raises(BoardReplaced):
            board.status()


def test_a_busy_folder_is_looked_through_each_time(board_path, monkeypatch):
    """As long as its last change is too young to tell the next one from it."""
    monkeypatch.setattr(files, "RESOLUTION_NS", 3600 * 10**9)
    with Board.open(board_path) as board:
        board.status()
        assert board.store._files._settled is None
        beside(board_path, "-shm").unlink()
        with pytest.raises(BoardReplaced):
            board.status()


def test_a_board_whose_gate_was_deleted_queues_at_the_new_one(board_path, clock):
    """Nothing but fairness depends on the gate: nobody is refused, and all wait in one queue again."""
    with open_board(board_path, clock) as one:
        beside(board_path, ".gate").unlink()
        with open_board(board_path, clock, seed=1) as two:
            one.create_task("t", id="one")
            two.create_task("t", id="two")
            same = [os.fstat(board.store._gate._fd).st_ino for board in (one, two)]
            assert same == [beside(board_path, ".gate").stat().st_ino] * 2


def test_a_gate_that_nobody_made_again_is_made(board_path, clock):
    """By the one who misses it."""
    with open_board(board_path, clock) as board:
        beside(board_path, ".gate").unlink()
        assert board.create_task("t", id="t").id == "t"
        assert beside(board_path, ".gate").exists()


def _die_with_a_log(line, path):
    board = Board.open(path)
    board.create_task("t", id="in-the-log")
    line.send("written")
    line.recv()


@pytest.fixture
def with_old_log(board_path, tmp_path):
    """A board whose process was killed: its log lies beside it; and a backup from before."""
    backup = tmp_path / "elsewhere" / "backup.db"
    backup.parent.mkdir()
    with Board.open(board_path) as board:
        board.create_task("t", id="before")
        board.backup(backup)
    worker = Worker(_die_with_a_log, board_path)
    assert worker.hear() == "written"
    worker.kill()
    assert beside(board_path, "-wal").stat().st_size > 0
    return backup


@pytest.mark.multiproc
@pytest.mark.kill
def test_an_old_log_beside_another_file_is_refused(board_path, with_old_log):
    """A backup was moved into place by hand and the log was left: to apply it would damage the backup."""
    before = with_old_log.read_bytes()
    with_old_log.rename(board_path)
    with pytest.raises(MismatchedLog, match="-wal belongs to another file"):
        Board.open(board_path)
    assert board_path.read_bytes() == before
    for end in ("-wal", "-shm"):
        beside(board_path, end).unlink()
    assert ids(board_path) == {"before"}


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.usefixtures("with_old_log")
def test_a_board_that_was_copied_or_moved_with_its_log_is_opened(board_path, tmp_path):
    """All files are others then, or all are the same: the log belongs to the file beside it."""
    for way in (shutil.copytree, shutil.move):
        there = tmp_path / way.__name__
        way(board_path.parent if way is shutil.copytree else tmp_path / "copytree", there)
        assert "in-the-log" in ids(there / board_path.name)


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.usefixtures("with_old_log")
@pytest.mark.parametrize("text", [b"", b"x", b"1 2", b"a b c", b"\xff" * 100])
def test_a_record_that_says_nothing_refuses_nothing(board_path, text):
    """An older version made the gate, or a power cut tore it."""
    beside(board_path, ".gate").write_bytes(text)
    assert ids(board_path) == {"before", "in-the-log"}
    assert beside(board_path, ".gate").read_bytes()[:2] != text[:2]


@pytest.fixture
def public():
    """A folder that every user may use; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def _open_as_nobody(line, path, gate, _number):
    with Board.open(gate / "import.db"):
        pass  # whatever Python loads on the way, nobody may not be able to read
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        with Board.open(path) as board:
            line.send(board.create_task("t", id="of-the-owner").id)
    except ReadOnly as error:
        line.send(error.message)


@pytest.mark.multiproc
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_look_by_root_does_not_lock_the_owner_out(public, tmp_path):
    """The gate that root makes gets owner, group and mode of the board, as SQLite's own side files do."""
    path = public / "board.db"
    Board.open(path).close()
    beside(path, ".gate").unlink()
    path.chmod(0o640)
    os.chown(path, NOBODY, NOBODY)
    with Board.open(path) as board:
        board.status()
    made = beside(path, ".gate").stat()
    assert (made.st_uid, made.st_gid, made.st_mode & 0o777) == (NOBODY, NOBODY, 0o640)
    assert results(1, _open_as_nobody, path, tmp_path) == ["of-the-owner"]


@pytest.mark.multiproc
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_the_file_that_refuses_is_named(public, tmp_path):
    """A gate that another user made, as older versions did: it is the gate that this user may not write."""
    path = public / "board.db"
    Board.open(path).close()
    os.chown(path, NOBODY, NOBODY)
    beside(path, ".gate").chmod(0o600)
    [said] = results(1, _open_as_nobody, path, tmp_path)
    assert f"{path}.gate" in said


def test_a_look_at_a_file_that_fails_is_a_typed_error(board_path, clock, monkeypatch):
    """The board object works again when the system does."""
    real = os.stat

    def stat(name, **how):
        if str(name).startswith(f"{board_path}-"):
            raise OSError(errno.ENOMEM, "injected")
        return real(name, **how)

    with open_board(board_path, clock) as board:
        monkeypatch.setattr(files.os, "stat", stat)
        for call in (lambda: board.create_task("t", id="a"), board.status):
            with pytest.raises(StoreError, match="does not give access"):
                call()
        monkeypatch.undo()
        assert board.create_task("t", id="a").id == "a"
