"""The doctor: how a board is, sound or not, in figures and verdicts; whatever it is shown stays as it is."""

import shutil
import socket
from collections import namedtuple

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import BoardNotFound, InvalidArgument, StoreError
from agentmesh.store import migrate, sqlite_examine
from agentmesh.store.base import StoreOptions
from agentmesh.store.connect import connect
from agentmesh.store.sqlite_examine import reset_fixed
from tests.support.boards import open_board, reader_of, rows
from tests.support.clock import START_US
from tests.support.faults import Raiser

PAGE = 4096


def told(observations):
    """What was seen: value by name."""
    return {seen.name: seen.value for seen in observations}


def not_well(observations):
    """What is not ok: verdict by name; each of them comes with a next step, and nothing else does."""
    assert all(bool(seen.hint) == (seen.verdict != "ok") for seen in observations)
    return {seen.name: seen.verdict for seen in observations if seen.verdict != "ok"}


@pytest.fixture
def settled(board_path, clock):
    """A closed board with a bit of everything on it."""
    board_path.parent.chmod(0o700)
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(5)], request_id="r")
        board.claim_task("a").complete()
        for _ in range(2):
            board.claim_task("a")
        board.ledger.record("a", input_tokens=7)
        board.blackboard.put("n", "kept", 1)
        board.blackboard.put("n", "gone", 1)
        board.blackboard.delete("n", "gone")
        board.blackboard.put("n", "over", 1, ttl_sec=1)
        clock.advance(60)
    return board_path


def files(path):
    """The files beside a board, and what is in them; the gate and the shared memory have no content."""
    found = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    return {name: data for name, data in found.items() if not name.endswith((".gate", "-shm"))}


def test_a_sound_board_is_found_sound(settled, clock):
    """Every figure is the board's, and every verdict is ok."""
    with open_board(settled, clock) as board:
        seen = board.doctor(deep=True)
        events = board.status().last_seq
        [(board_id,)] = rows(board, "SELECT value FROM meta WHERE key = 'board_id'")
    wanted = {
        "agentmesh": "0.1.0",
        "wal_reset_fixed": True,
        "board_id": board_id,
        "schema": migrate.newest("sqlite"),
        "journal_mode": "wal",
        "synchronous": "normal",
        "foreign_keys": True,
        "stable_plans": True,
        "quick_check": "ok",
        "file_mode": "0600",
        "folder_mode": "0700",
        "waiters": 0,
        "tasks": 5,
        "attempts": 3,
        "open_leases": 2,
        "due_leases": 2,
        "events": events,
        "oldest_event_us": START_US,
        "newest_event_us": START_US,
        "entries": 1,
        "expired_entries": 1,
        "entry_tombstones": 1,
        "task_tombstones": 0,
        "usage_entries": 1,
        "requests": 1,
    }
    assert not_well(seen) == {}
    assert {name: told(seen)[name] for name in wanted} == wanted
    assert told(seen)["sqlite"].startswith(apsw.sqlite_lib_version())
    assert told(seen)["file_bytes"] == told(seen)["pages"] * PAGE == settled.stat().st_size


def test_an_empty_board_is_found_sound(board):
    """There is no oldest event yet."""
    seen = told(board.doctor())
    assert (seen["tasks"], seen["events"], seen["attempts"], "oldest_event_us" in seen) == (0, 0, 0, False)
    assert "quick_check" not in seen


def test_those_who_wait_are_counted(board):
    """A place in the queue is enough; it is given back."""
    waiters = [board.store.waiter(for_tasks=True) for _ in range(3)]
    assert told(board.doctor())["waiters"] == 3
    for waiter in waiters:
        waiter.close()
    assert told(board.doctor())["waiters"] == 0


def test_examining_a_closed_board_tells_the_same(settled, clock):
    """And leaves every byte of it as it was, and nothing beside it."""
    with open_board(settled, clock) as board:
        opened = told(board.doctor())
    before = files(settled)
    assert set(before) == {"board.db"}
    examined = told(Board.examine(settled))
    assert files(settled) == before
    volatile = {"synchronous", "log_bytes", "disk_free_bytes", "due_leases", "entries", "expired_entries"}
    assert {name: examined[name] for name in examined.keys() - volatile} == {
        name: opened[name] for name in opened.keys() - volatile
    }


def test_a_missing_board_is_no_patient(tmp_path):
    """Nothing is made."""
    with pytest.raises(BoardNotFound):
        Board.examine(tmp_path / "board.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("deep", [1, None, "yes"])
def test_deep_is_true_or_false(board, deep):
    """As every switch."""
    with pytest.raises(InvalidArgument):
        board.doctor(deep=deep)
    with pytest.raises(InvalidArgument):
        Board.examine(board.store.path, deep=deep)


def _foreign(path):
    path.unlink()
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()


def _newer(path):
    other = apsw.Connection(str(path))
    other.pragma("user_version", 1000)
    other.close()


def _spoil(path, table):
    with Board.open(path) as board:
        [(page,)] = rows(board, f"SELECT rootpage FROM sqlite_schema WHERE name = '{table}'")
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * PAGE : page * PAGE] = b"\xff" * PAGE
    path.write_bytes(whole)


SICK = {
    "text": (lambda path: path.write_text("a diary" * 1000), "not an AgentMesh board"),
    "a few bytes": (lambda path: path.write_text("a diary"), "not an AgentMesh board"),
    "foreign": (_foreign, "another application"),
    "newer": (_newer, "schema 1000"),
    "damaged": (lambda path: _spoil(path, "meta"), "damaged"),
    "damaged later": (lambda path: _spoil(path, "attempt"), "damaged"),
}


@pytest.mark.parametrize("kind", SICK)
def test_what_cannot_be_read_is_a_finding_and_stays_as_it_is(settled, kind):
    """The error stands among the rest, with its next step; what can be told without reading is told."""
    spoil, said = SICK[kind]
    spoil(settled)
    before = files(settled)
    seen = Board.examine(settled)
    assert not_well(seen)["access"] == "error"
    assert said in told(seen)["access"]
    assert told(seen)["file_bytes"] == settled.stat().st_size
    assert {"agentmesh", "sqlite", "file_system", "disk_free_bytes"} <= told(seen).keys()
    assert {name: data for name, data in files(settled).items() if data} == before


def test_a_deep_look_finds_what_no_query_meets(settled):
    """A spoilt page that nobody reads; without it the board looks well."""
    _spoil(settled, "note_task")
    assert not_well(Board.examine(settled)) == {}
    seen = Board.examine(settled, deep=True)
    assert not_well(seen) == {"quick_check": "error"}
    assert "restore a backup" in next(one.hint for one in seen if one.name == "quick_check")


def test_a_file_system_that_cannot_carry_a_board_is_an_error(settled, tmp_path, monkeypatch):
    """Its kind is named, and nothing there is opened."""
    mounts = tmp_path / "mounts"
    mounts.write_text(f"host {tmp_path} virtiofs rw 0 0\n")
    options = StoreOptions(create=False, upgrade=False, mounts=mounts)
    monkeypatch.setattr("agentmesh.board.verbs.maintaining.StoreOptions", lambda **_: options)
    seen = Board.examine(settled)
    assert (told(seen)["file_system"], not_well(seen)) == ("virtiofs", {"file_system": "error", "access": "error"})


def test_an_older_board_is_told_apart_and_not_brought_up_to_date(board_path, clock, monkeypatch):
    """What this version would count there is left out; the next command upgrades it, not the doctor."""
    newest = migrate.migrations("sqlite")
    board_path.parent.chmod(0o700)
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda _engine: newest[:1])
        connect(board_path, StoreOptions()).close()
    before = files(board_path)
    seen = Board.examine(board_path, deep=True)
    assert not_well(seen) == {"schema": "warning"}
    assert (told(seen)["schema"], "tasks" in told(seen)) == (1, False)
    assert files(board_path) == before
    open_board(board_path, clock).close()
    assert not_well(Board.examine(board_path)) == {}


@pytest.mark.parametrize(("mode", "verdict"), [(0o600, None), (0o640, "warning"), (0o604, "warning"), (0o400, None)])
def test_a_board_that_others_may_read_is_a_warning(settled, clock, mode, verdict):
    """It holds the secrets of leases."""
    with open_board(settled, clock) as board:
        settled.chmod(mode)
        seen = board.doctor()
    assert (told(seen)["file_mode"], not_well(seen).get("file_mode")) == (f"{mode:04o}", verdict)


@pytest.mark.parametrize(("mode", "verdict"), [(0o755, None), (0o775, "warning"), (0o1777, "warning")])
def test_a_folder_that_others_may_write_is_a_warning(settled, mode, verdict):
    """They could put another file in the board's place."""
    settled.parent.chmod(mode)
    seen = Board.examine(settled)
    assert (told(seen)["folder_mode"], not_well(seen).get("folder_mode")) == (f"{mode:04o}", verdict)


def test_a_log_past_its_bound_is_a_warning(settled, clock, monkeypatch):
    """Somebody reads and does not end: the log cannot begin anew."""
    monkeypatch.setattr(sqlite_examine, "LOG_LIMIT", 100_000)
    with open_board(settled, clock) as board:
        assert not_well(board.doctor()) == {}
        for number in range(40):
            board.create_task("t", id=f"more{number}", description="x" * 10_000)
        seen = board.doctor()
        assert told(seen)["log_bytes"] == settled.with_name("board.db-wal").stat().st_size > 100_000
    assert not_well(seen) == {"log_bytes": "warning"}


def test_little_room_is_a_warning(settled, monkeypatch):
    """Before the first write fails."""
    usage = namedtuple("usage", "total used free")  # noqa: PYI024 - as the standard library's own
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 40, 1 << 40, (128 << 20) - 1))
    assert not_well(Board.examine(settled)) == {"disk_free_bytes": "warning"}


@pytest.mark.parametrize(
    ("version", "fixed"),
    [
        ("3.40.1", False),
        ("3.44.5", False),
        ("3.44.6", True),
        ("3.45.0", False),
        ("3.50.6", False),
        ("3.50.7", True),
        ("3.51.0", False),
        ("3.51.2", False),
        ("3.51.3", True),
        ("3.52.0", True),
        ("3.54.1", True),
        ("4.0.0", True),
    ],
)
def test_a_library_without_the_wal_reset_fix_is_a_warning(settled, monkeypatch, version, fixed):
    """A distribution's apsw may sit on an old library, perhaps one that was mended and kept its number."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    assert reset_fixed(version) is fixed
    seen = Board.examine(settled)
    assert not_well(seen) == ({} if fixed else {"wal_reset_fixed": "warning"})
    assert told(seen)["sqlite"].startswith(version)


def test_a_connection_that_is_not_as_it_was_set_is_an_error(board):
    """Read back, not assumed."""
    with reader_of(board.store) as reader:
        reader.pragma("synchronous", 0)
        reader.pragma("foreign_keys", 0)
        reader.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 0)
    seen = board.doctor()
    found = not_well(seen)
    assert {name: found.get(name) for name in ("synchronous", "foreign_keys", "stable_plans")} == {
        "synchronous": "error",
        "foreign_keys": "error",
        "stable_plans": "error",
    }
    assert told(seen)["synchronous"] == 0


def test_a_read_that_fails_is_a_finding(board_path, clock):
    """The disk gives out in the middle: what was seen before it is told."""
    with open_board(board_path, clock, probe=Raiser("do:count_attempts", apsw.IOError("injected"))) as board:
        seen = board.doctor()
        assert not_well(seen)["access"] == "error"
        assert told(seen)["pages"] > 1
        assert "access" not in not_well(board.doctor())


def test_an_engine_that_fails_is_a_finding(board, monkeypatch):
    """What the system says of the file is told all the same."""

    def fail(_connection):
        raise apsw.CorruptError("injected")

    monkeypatch.setattr(sqlite_examine, "_quick_check", fail)
    seen = board.doctor(deep=True)
    assert not_well(seen)["access"] == "error"
    assert {"file_bytes", "schema", "tasks"} <= told(seen).keys()


def test_where_there_are_no_sockets_nobody_is_counted(board_path, clock, monkeypatch):
    """Waiters look by themselves there, and have no place."""
    monkeypatch.delattr(socket, "AF_UNIX")
    with open_board(board_path, clock) as board:
        assert "waiters" not in told(board.doctor())


def test_a_board_in_use_is_examined_without_harm(board, clock):
    """From beside it, while it has open transactions; the locks are as they were."""

    def look(tx):
        seen = Board.examine(board.store.path, deep=True)
        assert "access" not in not_well(seen)
        with (
            open_board(board.store.path, clock, busy_timeout_sec=0) as other,
            pytest.raises(StoreError, match="locked"),
        ):
            other.create_task("t")
        return tx.fetch_one("event_bounds")

    assert board.store.write(look)["last"] is None


@pytest.mark.parametrize(("step_sec", "well"), [(-3600, False), (-0.9, True), (3600, True)])
def test_a_clock_behind_the_board_is_a_warning(settled, clock, step_sec, well):
    """Whoever set it back, or whatever wrote with one that was ahead: it says by how much, and what that affects."""
    with open_board(settled, clock) as board:
        board.create_task("T")
        clock.advance(step_sec)
        board.create_task("T")
        seen = board.doctor()
    assert not_well(seen) == ({} if well else {"newest_event_us": "warning"})
    hint = next(one.hint for one in seen if one.name == "newest_event_us")
    assert well or "3,600 s behind" in hint
