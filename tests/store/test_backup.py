"""A backup is the board at one instant in one file: whole, verified and on the disk when it has its name, or none."""

import errno
import fcntl
import os
import re
import stat
import tempfile
from pathlib import Path

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import (
    BoardExists,
    DiskFull,
    InvalidArgument,
    ReadOnly,
    StoreError,
    UnsupportedFileSystem,
)
from agentmesh.store import sqlite_copy
from agentmesh.store.base import COPY_POINTS, StoreOptions
from agentmesh.store.connect import connect
from tests.support.boards import open_board, rows, states, violations
from tests.support.clock import TurnableClock
from tests.support.faults import Raiser, Recorder
from tests.support.interleave import Party
from tests.support.processes import crew, results
from tests.support.scene import everything, prepare

NOBODY = 65534


@pytest.fixture
def elsewhere(tmp_path):
    """An empty folder for backups."""
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


@pytest.fixture
def short_stretches(monkeypatch):
    """Copy five pages at a time."""
    monkeypatch.setattr(sqlite_copy, "STRETCH_PAGES", 5)


def test_a_backup_is_the_board_as_it_was(tmp_path, elsewhere):
    """Every row of it, leases too; the record says what an operator wants to know of it."""
    scene = prepare(tmp_path / "board.db")
    with scene.open() as board:
        made = board.backup(elsewhere / "copy.db")
        before, board_id = everything(board), rows(board, "SELECT value FROM meta WHERE key = 'board_id'")
        board.create_task("t", id="afterwards")
    with open_board(elsewhere / "copy.db", TurnableClock(), create=False) as copy:
        assert everything(copy) == before
        assert violations(copy) == {}
        assert (made.last_seq, made.at_us) == (copy.status().last_seq, scene.open().store.clock.now_us())
        assert [(made.board_id,)] == board_id
        assert made.schema == rows(copy, "PRAGMA user_version")[0][0]
        assert (made.pages, made.size) == (rows(copy, "PRAGMA page_count")[0][0], made.pages * 4096)
        copy.complete_task(scene.bob)


def test_a_backup_is_one_private_file(board, elsewhere):
    """No log beside it that could be forgotten, and nobody else reads the secrets in it, whatever the umask."""
    board.create_task("t")
    before = os.umask(0)
    try:
        made = board.backup(elsewhere / "copy.db")
    finally:
        os.umask(before)
    [file] = elsewhere.iterdir()
    assert (str(file), stat.S_IMODE(file.stat().st_mode), file.stat().st_nlink) == (made.path, 0o600, 1)
    assert file.stat().st_size == made.size
    assert file.read_bytes()[18:20] == b"\1\1"  # the header's word for: no write-ahead log


def test_a_relative_name_is_taken_from_here(board, elsewhere, monkeypatch):
    """And the answer says where the file is."""
    monkeypatch.chdir(elsewhere)
    assert board.backup("copy.db").path == str(elsewhere / "copy.db")
    assert board.backup(Path("other.db")).path == str(elsewhere / "other.db")


@pytest.mark.usefixtures("short_stretches")
def test_what_is_written_meanwhile_is_not_in_it_and_does_not_start_it_anew(board, elsewhere):
    """Another connection commits after every stretch; the copy goes on from where it was, at its one instant."""
    board.create_tasks([{"title": "t", "id": f"t{n}", "description": "x" * 3000} for n in range(20)])
    told = []

    def write(done, pages):
        told.append((done, pages))
        board.create_task("t", id=f"meanwhile-{done}")

    made = board.backup(elsewhere / "copy.db", progress=write)
    assert told == [(min(5 * (n + 1), made.pages), made.pages) for n in range(-(-made.pages // 5))]
    with Board.open(elsewhere / "copy.db") as copy:
        assert set(states(copy)) == {f"t{n}" for n in range(20)}
    assert len(states(board)) == 20 + len(told)


def _write(line, path, number):
    """Write as fast as possible until told to stop."""
    with open_board(path, TurnableClock(), seed=number) as board:
        done = 0
        while not line.poll():
            board.create_task("t", id=f"w{number}.{done}", description="x" * 2000)
            done += 1
            if done == 5:
                line.send("under way")
        line.send(done)


@pytest.mark.multiproc
@pytest.mark.usefixtures("short_stretches")
def test_a_backup_ends_while_four_processes_write_at_full_speed(board, elsewhere):
    """Each is a state that the board was in: its history is a beginning of the board's, and its promises hold."""
    with crew(4, _write, board.store.path) as writers:
        for writer in writers:
            writer.hear()
        made = [board.backup(elsewhere / f"{n}.db") for n in range(3)]
        for writer in writers:
            writer.tell("stop")
        total = sum(writer.hear() for writer in writers)
    assert board.status().total == total
    assert made[0].last_seq < made[1].last_seq < made[2].last_seq <= total
    for backup in made:
        with Board.open(backup.path) as copy:
            assert copy.status().total == backup.last_seq
            assert rows(copy, "SELECT * FROM event") == rows(board, f"SELECT * FROM event LIMIT {backup.last_seq}")
            assert violations(copy) == {}


def test_a_copy_leaves_no_snapshot_open(board, elsewhere):
    """It would pin the log for as long as the board is open."""
    board.create_task("t")
    board.backup(elsewhere / "copy.db")
    assert not any(reader.connection.in_transaction for reader in board.store._readers)
    assert board.store._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE) == (0, 0)


@pytest.mark.parametrize("taken", ["copy.db", "copy.db-wal", "copy.db-journal", "copy.db-shm"])
def test_a_backup_takes_nothing_s_place(board, elsewhere, taken):
    """Nor does it lie down beside an old log, which SQLite would take for its own."""
    (elsewhere / taken).write_text("kept")
    with pytest.raises(BoardExists, match=re.escape(taken)) as refused:
        board.backup(elsewhere / "copy.db")
    assert "not there" in refused.value.hint
    assert [file.read_text() for file in elsewhere.iterdir()] == ["kept"]


def test_a_dangling_link_is_something_too(board, elsewhere):
    """Nothing is written where it points to."""
    (elsewhere / "copy.db").symlink_to(elsewhere / "far.db")
    with pytest.raises(BoardExists):
        board.backup(elsewhere / "copy.db")
    assert not (elsewhere / "far.db").exists()


def test_a_file_that_comes_first_is_kept(board_path, clock, elsewhere):
    """Should somebody make a file of that name while the copy is made, the file is theirs."""

    class Rival:
        """Makes the file just before the copy would."""

        def reached(self, point):
            """The store is at `point`."""
            if point == "link":
                (elsewhere / "copy.db").write_text("theirs")

    with open_board(board_path, clock, probe=Rival()) as board, pytest.raises(BoardExists):
        board.backup(elsewhere / "copy.db")
    assert [file.read_text() for file in elsewhere.iterdir()] == ["theirs"]


@pytest.mark.parametrize("end", ["", "-wal", "-shm", "-journal", ".gate"])
def test_the_board_s_own_files_are_no_place_for_it(board, end):
    """SQLite would take a copy under the name of a journal for the journal."""
    before = sorted(board.store.path.parent.iterdir())
    with pytest.raises((BoardExists, InvalidArgument)):
        board.backup(f"{board.store.path}{end}")
    link = board.store.path.parent / "link"
    link.symlink_to(board.store.path.parent)
    with pytest.raises((BoardExists, InvalidArgument)):
        board.backup(link / f"{board.store.path.name}{end}")
    link.unlink()
    assert sorted(board.store.path.parent.iterdir()) == before


@pytest.mark.parametrize("path", ["", "a\0b", "postgresql://host/copy", 7, None, b"copy.db"])
def test_what_names_no_file_is_refused(board, path):
    """A URL is not taken for a file's name."""
    with pytest.raises(InvalidArgument, match="path of a file"):
        board.backup(path)


def test_a_folder_is_not_made(board, elsewhere):
    """A typing error does not litter the disk."""
    (elsewhere / "file").touch()
    for place in ("no/copy.db", "file/copy.db"):
        with pytest.raises(InvalidArgument, match="folder"):
            board.backup(elsewhere / place)
    assert [file.name for file in elsewhere.iterdir()] == ["file"]


def test_a_file_system_that_can_hold_no_board_is_refused(board_path, elsewhere, tmp_path):
    """The advice is to copy the finished file there: it is a plain file then."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/export {elsewhere} nfs4 rw 0 0\n")
    store = connect(board_path, StoreOptions(mounts=mounts))
    with Board(store) as board, pytest.raises(UnsupportedFileSystem, match="nfs4") as refused:
        board.backup(elsewhere / "copy.db")
    assert "finished file" in refused.value.hint
    assert list(elsewhere.iterdir()) == []


def test_a_file_system_without_links_is_refused(board, elsewhere, monkeypatch):
    """Without them a name cannot be given that is certainly free."""

    def refuse(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(sqlite_copy.os, "link", refuse)
    with pytest.raises(UnsupportedFileSystem, match="second name"):
        board.backup(elsewhere / "copy.db")
    assert list(elsewhere.iterdir()) == []


def _back_up_as_nobody(line, path, folder, spare, _number):
    with Board.open(path) as board:
        board.backup(spare)  # whatever Python loads on the way, nobody may not be able to read
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        try:
            line.send(board.backup(folder / "copy.db").path)
        except StoreError as error:
            line.send((type(error), error.message))


@pytest.mark.multiproc
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_folder_that_may_not_be_written_is_named(board_path, tmp_path):
    """The error is about the place of the backup, not about the board."""
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        folder.chmod(0o755)
        [(kind, message)] = results(1, _back_up_as_nobody, board_path, folder, tmp_path / "spare.db")
        assert kind is ReadOnly
        assert str(folder / "copy.db") in message
        assert list(folder.iterdir()) == []
    finally:
        folder.rmdir()


@pytest.mark.usefixtures("short_stretches")
@pytest.mark.parametrize("where", [("copy", 3), *((point, 1) for point in COPY_POINTS)])
@pytest.mark.parametrize("error", [apsw.FullError("injected"), OSError(5, "injected"), KeyboardInterrupt()])
def test_a_backup_that_fails_at_any_point_leaves_nothing(board_path, clock, elsewhere, where, error):
    """No file under the target's name, no unfinished one; the board is as it was, and the next backup is made."""
    point, n = where
    with open_board(board_path, clock, probe=Raiser(point, error, n)) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(20)])
        before = everything(board)
        with pytest.raises((StoreError, type(error))):
            board.backup(elsewhere / "copy.db")
        assert list(elsewhere.iterdir()) == []
        assert everything(board) == before
        assert board.backup(elsewhere / "copy.db").last_seq == 20
        assert len(list(elsewhere.iterdir())) == 1


def test_the_points_of_a_copy_come_in_their_order(board_path, clock, elsewhere):
    """A test bench can stop at each of them."""
    seen = Recorder()
    with open_board(board_path, clock, probe=seen) as board:
        seen.points.clear()
        board.backup(elsewhere / "copy.db")
    assert seen.points == ["transaction", *COPY_POINTS]


@pytest.mark.parametrize("error", [OSError(32, "broken pipe"), KeyboardInterrupt(), ValueError("enough")])
def test_whoever_is_told_of_the_progress_can_give_up(board, elsewhere, error):
    """What it raises comes out as it is, and nothing is left."""

    def give_up(_done, _pages):
        raise error

    with pytest.raises(type(error)) as raised:
        board.backup(elsewhere / "copy.db", progress=give_up)
    assert raised.value is error
    assert list(elsewhere.iterdir()) == []


def test_a_backup_is_on_the_disk_before_it_has_its_name(board, elsewhere, monkeypatch):
    """The pages are synced, then comes the name, then the folder is synced: a power cut leaves all of it or no file."""
    done = []
    real = os.fsync, os.link

    def sync(fd):
        done.append(f"sync {Path(f'/proc/self/fd/{fd}').readlink().name.partition('.unfinished')[0]}")
        real[0](fd)

    def link(source, target):
        done.append("link")
        real[1](source, target)

    monkeypatch.setattr(sqlite_copy.os, "fsync", sync)
    monkeypatch.setattr(sqlite_copy.os, "link", link)
    board.backup(elsewhere / "copy.db")
    assert done == ["sync copy.db", "sync copy.db", "link", "sync backups"]


def test_a_copy_that_is_not_what_was_read_gets_no_name(board_path, clock, elsewhere):
    """Sound, but another board: it is thrown away."""

    class Swindler:
        """Changes the copy before it is verified."""

        def reached(self, point):
            """The store is at `point`."""
            if point == "verify":
                [unfinished, _lock] = sorted(elsewhere.iterdir())
                other = apsw.Connection(str(unfinished))
                other.execute("DELETE FROM event")
                other.close()

    with open_board(board_path, clock, probe=Swindler()) as board:
        board.create_task("t")
        with pytest.raises(StoreError, match="not what was read"):
            board.backup(elsewhere / "copy.db")
    assert list(elsewhere.iterdir()) == []


def test_the_error_names_the_disk_that_is_full(board, elsewhere):
    """Two files are at work; it says which of them ran out of room."""

    class Full:
        """A backup whose target has no room."""

        def step(self, _pages):
            """Fail as SQLite does."""
            raise apsw.FullError

    copying = sqlite_copy.Copying(board.store, elsewhere / "copy.db", None, lambda _: None)
    with pytest.raises(DiskFull, match=r"copy\.db"):
        copying._step(Full(), -1)


def test_writing_goes_on_while_a_backup_stands_still(board_path, clock, elsewhere):
    """It holds no lock that a writer needs, at whatever point it is."""
    party = Party()
    with open_board(board_path, clock, probe=party) as one, open_board(board_path, clock, busy_timeout_sec=0) as other:
        party.start(lambda: one.backup(elsewhere / "copy.db"))
        written = 0
        while party.at:
            other.create_task("t", id=f"t{written}")
            written += 1
            party.step()
        assert written == len(COPY_POINTS) + 1
        assert party.finish().last_seq == 1
        assert violations(other) == {}


def _gate_is_free(board):
    with Path(f"{board.store.path}.gate").open("rb") as gate:
        try:
            fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.usefixtures("short_stretches")
def test_writers_wait_only_where_the_log_has_become_long(board, elsewhere, monkeypatch):
    """It cannot be shortened while it is read: beyond its mark the gate is held until the last page is copied."""
    board.create_tasks([{"title": "t", "id": f"t{n}", "description": "x" * 3000} for n in range(20)])
    free = []
    board.backup(elsewhere / "short.db", progress=lambda *_: free.append(_gate_is_free(board)))
    assert all(free)
    monkeypatch.setattr(sqlite_copy, "LIMIT_PAGES", 1)
    held = []
    board.backup(elsewhere / "long.db", progress=lambda *_: held.append(_gate_is_free(board)))
    assert held == [True, *[False] * (len(held) - 2), True]
    assert _gate_is_free(board)
