"""Opening refuses whatever is not a board it can serve, says which, and leaves it as it was."""

import os
import stat

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import (
    BoardNotFound,
    ForeignFile,
    InvalidArgument,
    NewerSchema,
    ReadOnly,
    StoreError,
    UnsupportedFileSystem,
)
from agentmesh.store.base import StoreOptions
from agentmesh.store.connect import connect
from tests.support.boards import open_board
from tests.support.nobody import heard_from_nobody, only_root, shared_folder


def contents(folder):
    """Every file of a folder; the shared memory aside, which is scratch and not content."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.endswith("-shm")}


def foreign(path, *sql):
    """A database that is not ours, its log not yet copied back."""
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for statement in sql:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("text", ["x", "hello", "A diary, not a board.\n" * 500])
def test_a_text_file_is_refused_and_left_alone(tmp_path, text):
    """Whatever its length, no byte changes and nothing appears beside it."""
    (tmp_path / "diary.txt").write_text(text)
    before = contents(tmp_path)
    with pytest.raises(ForeignFile):
        Board.open(tmp_path / "diary.txt")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("stamp", [0, 77])
def test_another_applications_database_is_refused_and_left_alone(tmp_path, stamp):
    """Neither the file nor the log that its owner has not yet copied back changes by a byte."""
    foreign(tmp_path / "other.db", f"PRAGMA application_id = {stamp}", "CREATE TABLE t (x)", "INSERT INTO t VALUES (1)")
    before = contents(tmp_path)
    assert set(before) == {"other.db", "other.db-wal"}
    with pytest.raises(ForeignFile, match="another application"):
        Board.open(tmp_path / "other.db")
    assert contents(tmp_path) == before


def test_a_newer_schema_is_refused_and_left_alone(board_path, clock):
    """An older AgentMesh does not touch what a newer one wrote: not the file, not its log."""
    open_board(board_path, clock).close()
    foreign(board_path, "PRAGMA user_version = 1000", "CREATE TABLE of_the_future (x)")
    before = contents(board_path.parent)
    assert len(before["board.db-wal"]) > 0
    with pytest.raises(NewerSchema, match="1000"):
        Board.open(board_path)
    assert contents(board_path.parent) == before


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(tmp_path, make):
    """A folder or a pipe is no place for a board, and asking does not hang."""
    make(tmp_path / "place")
    with pytest.raises(ForeignFile, match="not a file"):
        Board.open(tmp_path / "place")


def test_a_missing_board_is_not_made_unless_asked_for(tmp_path):
    """With create=False nothing appears on the disk."""
    with pytest.raises(BoardNotFound):
        Board.open(tmp_path / "board.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_not_made(tmp_path):
    """A board's folder is the caller's business; a typing error does not litter the disk."""
    for place in (tmp_path / "no" / "board.db", tmp_path / "file" / "board.db"):
        (tmp_path / "file").touch()
        with pytest.raises(BoardNotFound, match="folder"):
            Board.open(place)
    assert not (tmp_path / "no").exists()


def test_a_dangling_link_is_a_missing_board(tmp_path, clock):
    """Unless it may be made: then it is made where the link points to."""
    (tmp_path / "link").symlink_to(tmp_path / "real.db")
    with pytest.raises(BoardNotFound):
        Board.open(tmp_path / "link", create=False)
    assert not (tmp_path / "real.db").exists()
    with open_board(tmp_path / "link", clock) as board:
        assert board.store.path == tmp_path / "real.db"
    (tmp_path / "lost").symlink_to(tmp_path / "no" / "board.db")
    with pytest.raises(BoardNotFound):
        Board.open(tmp_path / "lost")


def test_a_link_and_its_target_are_one_board(tmp_path, clock):
    """Log and locks belong to the real file, so what is written through one name is seen through the other."""
    (tmp_path / "link").symlink_to("real.db")
    with open_board(tmp_path / "real.db", clock) as real, open_board(tmp_path / "link", clock, seed=1) as linked:
        linked.create_task("through the link", id="t")
        assert real.get_task("t").title == "through the link"
    assert not (tmp_path / "link-wal").exists()


def test_an_empty_file_becomes_a_board_only_if_one_may_be_made(tmp_path, clock):
    """As with a missing one: an empty file is where a board may begin."""
    (tmp_path / "board.db").touch()
    with pytest.raises(BoardNotFound, match="empty"):
        Board.open(tmp_path / "board.db", create=False)
    assert (tmp_path / "board.db").stat().st_size == 0
    with open_board(tmp_path / "board.db", clock) as board:
        assert board.status().total == 0


@pytest.mark.parametrize("name", ["", "a\0b", "postgresql://host/board", "file:///tmp/board.db"])
def test_a_name_that_is_no_path_is_refused(name):
    """A URL of an engine that is not there is not taken for a file name."""
    with pytest.raises(InvalidArgument):
        Board.open(name)


@pytest.mark.parametrize("name", ["a?mode=memory", "file:board", "a b#c%20d.db", "ä🙂.db", ":memory:", "-x.db"])
def test_a_strange_name_is_only_a_name(tmp_path, clock, monkeypatch, name):
    """No character of a path means anything to SQLite or to the shell."""
    monkeypatch.chdir(tmp_path)
    with open_board(name, clock) as board:
        board.create_task("kept", id="t")
    assert (tmp_path / name).stat().st_size > 0
    with open_board(tmp_path / name, clock, create=False) as board:
        assert board.get_task("t").title == "kept"


def test_a_name_that_the_system_refuses_is_a_store_error(tmp_path):
    """Not a bare OSError: every way to fail has a type of ours."""
    with pytest.raises(StoreError):
        Board.open(tmp_path / ("x" * 300))


def test_no_other_user_can_read_a_board(board_path, clock):
    """The file and everything beside it is made 0600, whatever the umask says."""
    before = os.umask(0)
    try:
        with open_board(board_path, clock) as board:
            board.create_task("secret")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in board_path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == dict.fromkeys(["board.db", "board.db-wal", "board.db-shm", "board.db.gate"], 0o600)


def _opens(line, path):
    try:
        with Board.open(path) as board:
            line.send("to write" if board.store.writes else "to read")
    except StoreError as error:
        line.send(type(error))


@pytest.mark.multiproc
@only_root
@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "said"),
    [
        (0o777, 0o666, "to write"),
        (0o777, 0o444, "to read"),
        (0o555, 0o666, "to read"),
        (0o555, 0o444, "to read"),
        (0o777, 0o600, ReadOnly),
        (0o700, 0o666, ReadOnly),
        (0o555, None, BoardNotFound),
    ],
)
def test_a_board_without_write_access_is_read_only_not_a_riddle(clock, folder_mode, file_mode, said):
    """Folder and file both have to be writable, or else it is only read; nothing is left behind."""
    with shared_folder() as folder:
        if file_mode is not None:
            open_board(folder / "board.db", clock).close()
            for file in folder.iterdir():
                file.chmod(file_mode)
        folder.chmod(folder_mode)
        before = sorted(file.name for file in folder.iterdir())
        assert heard_from_nobody(_opens, folder / "board.db") == said
        assert sorted(file.name for file in folder.iterdir()) == before


MOUNTS = """\
/dev/vda / ext4 rw 0 0
tmpfs {root}/memory tmpfs rw 0 0
server:/export {root}/net nfs4 rw 0 0
/dev/sdb {root}/net/disk ext4 rw 0 0
C: {root}/my\\040drive 9p rw 0 0
host {root}/share virtiofs rw 0 0
user@host {root}/ssh fuse.sshfs rw 0 0
.host: {root}/vm fuse.vmhgfs-fuse rw 0 0
overlay {root}/layers overlay rw 0 0
mergerfs {root}/pool fuse.mergerfs rw 0 0
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("net", "nfs4"),
        ("net/deep/er", "nfs4"),
        ("my drive", "9p"),
        ("share", "virtiofs"),
        ("ssh", "sshfs"),
        ("vm", "vmhgfs"),
        (".", None),
        ("memory", None),
        ("net/disk", None),
        ("network", None),
        ("layers", None),
        ("pool", None),
    ],
)
def test_a_file_system_that_cannot_carry_a_board_is_refused_before_anything_is_made(tmp_path, folder, kind):
    """The deepest mount decides; a network drive, a shared folder, a Windows drive: refused by name, with advice."""
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.format(root=tmp_path))
    place = tmp_path / folder
    place.mkdir(parents=True, exist_ok=True)
    if kind is None:
        connect(place / "board.db", StoreOptions(mounts=mounts)).close()
        return
    with pytest.raises(UnsupportedFileSystem, match=kind) as refused:
        connect(place / "board.db", StoreOptions(mounts=mounts))
    assert "local disk" in refused.value.hint
    assert list(place.glob("board*")) == []


def test_without_a_mount_table_every_place_is_tried(tmp_path):
    """There is none on macOS and Windows; SQLite's own answer on the log decides there."""
    connect(tmp_path / "board.db", StoreOptions(mounts=tmp_path / "none")).close()


def test_the_journal_mode_is_read_back(board_path, clock, monkeypatch):
    """A mount on which SQLite quietly stays with another journal is refused, not used."""
    open_board(board_path, clock).close()
    real = apsw.Connection.pragma

    class Stubborn(apsw.Connection):
        """Stays with its journal, as SQLite does where it cannot share memory."""

        def pragma(self, name, *value):
            """Answer as SQLite does there."""
            return "delete" if name == "journal_mode" else real(self, name, *value)

    monkeypatch.setattr("agentmesh.store.sqlite_open.apsw.Connection", Stubborn)
    with pytest.raises(UnsupportedFileSystem, match="journal mode delete"):
        Board.open(board_path)
