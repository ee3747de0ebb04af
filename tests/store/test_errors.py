"""No driver error leaves the store: each becomes a type of ours, and the board goes on after it."""

import apsw
import pytest

from agentmesh import errors
from agentmesh.store.sqlite_errors import of_system, translated, typed
from tests.support.boards import open_board, violations
from tests.support.faults import Raiser

KINDS = [
    (apsw.BusyError, 0, errors.Busy),
    (apsw.BusyError, apsw.SQLITE_BUSY_SNAPSHOT, errors.Busy),
    (apsw.LockedError, 0, errors.Busy),
    (apsw.FullError, 0, errors.DiskFull),
    (apsw.NotADBError, 0, errors.ForeignFile),
    (apsw.CorruptError, 0, errors.Corrupt),
    (apsw.ReadOnlyError, 0, errors.ReadOnly),
    (apsw.ReadOnlyError, apsw.SQLITE_READONLY_DBMOVED, errors.BoardReplaced),
    (apsw.PermissionsError, 0, errors.ReadOnly),
    (apsw.CantOpenError, 0, errors.ReadOnly),
    (apsw.ProtocolError, 0, errors.UnsupportedFileSystem),
    (apsw.IOError, apsw.SQLITE_IOERR_SHMMAP, errors.UnsupportedFileSystem),
    (apsw.IOError, apsw.SQLITE_IOERR_SHMOPEN, errors.UnsupportedFileSystem),
    (apsw.IOError, apsw.SQLITE_IOERR_SHMSIZE, errors.DiskFull),
    (apsw.IOError, apsw.SQLITE_IOERR_FSYNC, errors.StoreError),
    (apsw.ConstraintError, 0, errors.StoreError),
    (apsw.TooBigError, 0, errors.StoreError),
    (apsw.SQLError, 0, errors.StoreError),
]


@pytest.mark.parametrize(("kind", "extended", "wanted"), KINDS)
def test_each_driver_error_has_its_type(tmp_path, kind, extended, wanted):
    """Whoever catches it learns what to do: wait, free space, restore a backup, mend the rights."""
    error = kind("said by the driver")
    error.extendedresult = extended
    assert type(typed(error, tmp_path / "board.db")) is wanted


@pytest.mark.parametrize(
    "error",
    [
        apsw.SQLError("integer overflow"),
        apsw.ConstraintError("cannot store REAL value in INTEGER column usage_total.cost_pusd"),
    ],
)
def test_a_sum_of_more_than_64_bits_has_its_type(tmp_path, error):
    """SQLite has no code of its own for it; its words are looked at, so they are held by a test with real sums too."""
    assert type(typed(error, tmp_path / "board.db")) is errors.SumTooLarge


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (PermissionError(13, "no"), errors.ReadOnly),
        (OSError(30, "read-only file system"), errors.ReadOnly),
        (OSError(28, "no space"), errors.DiskFull),
        (OSError(36, "name too long"), errors.StoreError),
    ],
)
def test_each_error_of_the_system_has_its_type(tmp_path, error, wanted):
    """The files beside the board fail like the board itself."""
    assert type(of_system(error, tmp_path / "board.db")) is wanted
    with pytest.raises(wanted), translated(tmp_path / "board.db"):
        raise error


@pytest.mark.parametrize("point", ["begin", "do:insert_task", "do:add_event", "commit"])
@pytest.mark.parametrize(("kind", "wanted"), [(kind, wanted) for kind, extended, wanted in KINDS if not extended])
def test_a_call_that_fails_has_no_effect_and_the_next_one_works(board_path, clock, kind, wanted, point):
    """Whatever fails, and wherever in the call: it is rolled back, and the same call again goes through."""
    with open_board(board_path, clock, probe=Raiser(point, kind("injected"))) as board:
        with pytest.raises(wanted):
            board.create_task("t", id="t")
        assert board.status().total == 0
        assert board.events(0) == []
        assert board.create_task("t", id="t").id == "t"
        assert violations(board) == {}


@pytest.mark.parametrize("point", ["gate", "begin", "do:insert_task", "commit"])
def test_an_interrupted_call_has_no_effect_and_the_next_one_works(board_path, clock, point):
    """Control-C in the middle of a write rolls it back and frees every lock."""
    with open_board(board_path, clock, probe=Raiser(point, KeyboardInterrupt())) as board:
        with pytest.raises(KeyboardInterrupt):
            board.create_task("t", id="t")
        with open_board(board_path, clock, seed=1, busy_timeout_sec=0) as other:
            assert other.create_task("other", id="other").id == "other"
        assert board.create_task("t", id="t").id == "t"
        assert violations(board) == {}


def test_an_error_while_reading_gives_the_connection_back(board_path, clock):
    """A read that fails leaves no open snapshot behind, which would pin the log."""
    with open_board(board_path, clock, probe=Raiser("do:list_tasks", apsw.IOError("injected"))) as board:
        board.create_task("u", id="u")
        with pytest.raises(errors.StoreError):
            board.list_tasks()
        assert [task.id for task in board.list_tasks().tasks] == ["u"]
        assert not any(reader.connection.in_transaction for reader in board.store._readers)
