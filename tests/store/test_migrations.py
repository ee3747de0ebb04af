"""Bringing tables to the newest version: any number may try at once, it happens once, and wholly or not at all."""

import errno
import logging
import os
import re
import signal
import stat

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import DiskFull, ForeignFile, NewerSchema, StoreError
from agentmesh.model import Lease
from agentmesh.store import migrate, unfinished
from agentmesh.store.base import UPGRADE_POINTS, StoreOptions
from agentmesh.store.connect import build
from agentmesh.store.sqlite_open import open_connection
from agentmesh.store.sqlite_upgrade import bring_up_to_date
from pytest_agentmesh.history import History
from tests.support.boards import damage, kinds, open_board, rows, violations
from tests.support.clock import TurnableClock
from tests.support.faults import Killer, Raiser, Recorder
from tests.support.older import BEFORE, NEWEST, VERSIONS, backups, make_old, schema
from tests.support.processes import Worker, barrier, results
from tests.support.scene import ACTS, prepare

WIDER = "ALTER TABLE task ADD COLUMN colour TEXT"


def known(monkeypatch, *more):
    """Let this process know further migrations."""
    all_of_them = (*migrate.migrations("sqlite"), *more)
    monkeypatch.setattr(migrate, "migrations", lambda _engine: all_of_them)


class _Told(logging.Handler):
    """Keeps what the library warns of."""

    def __init__(self):
        super().__init__()
        self.texts = []
        logging.getLogger("agentmesh").addHandler(self)

    def emit(self, record):
        """Keep the text of a record."""
        self.texts.append(record.getMessage())


def _open(line, path, start, more, number):
    with pytest.MonkeyPatch.context() as patch:
        known(patch, *more)
        told = _Told()
        start.wait()
        with Board.open(path, durability="normal") as board:
            board.create_task("t", id=f"t{number}")
            line.send((board.store._writer.pragma("user_version"), told.texts))


@pytest.mark.multiproc
def test_six_processes_make_one_board(board_path, clock):
    """All open the same missing file at once; there is one board, and nobody's task is lost."""
    assert results(6, _open, board_path, barrier(6), ()) == [(NEWEST, [])] * 6
    assert backups(board_path) == []
    with open_board(board_path, clock) as board:
        assert {task.id for task in board.list_tasks().tasks} == {f"t{n}" for n in range(6)}
        assert rows(board, "SELECT count(*) FROM meta WHERE key = 'board_id'") == [(1,)]
        assert violations(board) == {}


@pytest.mark.multiproc
def test_six_processes_bring_an_old_board_up_to_date_once(board_path, clock):
    """A column that was added twice would be an error; there is one backup, one event, and one process warns of it."""
    open_board(board_path, clock).close()
    found = results(6, _open, board_path, barrier(6), ((NEWEST + 1, WIDER),))
    assert [version for version, _ in found] == [NEWEST + 1] * 6
    assert len([text for _, texts in found for text in texts]) == 1
    assert len(backups(board_path)) == 1
    connection = apsw.Connection(str(board_path))
    assert connection.execute("SELECT count(*) FROM event WHERE kind = 'schema_upgraded'").get == 1
    connection.close()


@pytest.fixture
def upgraded_meanwhile(tmp_path, monkeypatch):
    """A scene that one version has open, and that the next version has opened since."""
    scene = prepare(tmp_path / "scene.db")
    board = scene.open()
    board.status()  # a reader connection is open as well
    with monkeypatch.context() as patch:
        known(patch, (NEWEST + 1, WIDER))
        scene.open(seed=2).close()
    yield board, scene
    board.close()


@pytest.mark.parametrize("act", ACTS)
def test_a_process_that_runs_through_an_upgrade_writes_nothing(upgraded_meanwhile, act):
    """Its statements are those of the old tables: each write is refused before it begins."""
    board, scene = upgraded_meanwhile
    with pytest.raises(NewerSchema, match=f"has schema {NEWEST + 1}"):
        ACTS[act](board, scene)
    assert board.store._writer.total_changes() == 0


def test_a_process_that_runs_through_an_upgrade_reads_nothing(upgraded_meanwhile):
    """Also over the connections that it had open before."""
    board, _ = upgraded_meanwhile
    for read in (board.status, board.list_tasks, board.check, lambda: board.events(0), lambda: board.get_task("held")):
        with pytest.raises(NewerSchema):
            read()
    with pytest.raises(NewerSchema):
        board.store.version()


def test_a_migration_that_fails_leaves_the_old_board(board_path, clock, monkeypatch):
    """Half a migration is none: tables and version are as before, and the old build goes on."""
    open_board(board_path, clock).close()
    with monkeypatch.context() as patch:
        known(patch, (NEWEST + 1, WIDER), (NEWEST + 2, "CREATE TABLE more (x); CREATE TABLE more (x)"))
        with pytest.raises(StoreError, match="already exists"):
            Board.open(board_path)
    with open_board(board_path, clock) as board:
        assert board.store._writer.pragma("user_version") == NEWEST
        assert rows(board, "SELECT name FROM sqlite_schema WHERE name = 'more'") == []
        assert rows(board, "SELECT name FROM pragma_table_info('task') WHERE name = 'colour'") == []


def test_tasks_survive_a_migration(board_path, clock, monkeypatch):
    """What stood on the old board stands on the new one."""
    with open_board(board_path, clock) as board:
        board.create_task("old", id="old")
    known(monkeypatch, (NEWEST + 1, WIDER))
    with open_board(board_path, clock) as board:
        assert board.claim_task("a").task.id == "old"
        assert board.store._writer.pragma("user_version") == NEWEST + 1


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_a_board_of_an_earlier_version_is_brought_up_to_date(board_path, clock, version):
    """What it held is held afterwards, and the new tables work beside it."""
    make_old(board_path, clock, version)
    held = Lease("old", 1, "token")
    with open_board(board_path, clock) as board:
        assert board.store._writer.pragma("user_version") == NEWEST
        assert board.blackboard.put("a", "k", 1, lease=held).task_id == "old"
        assert board.complete_task(held).state == "completed"
        assert violations(board) == {}


@pytest.mark.parametrize("version", VERSIONS[:-1])
def test_an_upgrade_leaves_a_backup_an_event_and_a_warning(board_path, clock, caplog, version):
    """The backup is one file, holds the board as it was, and is open to the users of the board."""
    make_old(board_path, clock, version)
    board_path.chmod(0o640)
    with open_board(board_path, clock) as board:
        [upgraded] = board.events()
        assert (upgraded.kind, upgraded.data) == ("schema_upgraded", {"from": version, "to": NEWEST})
        assert upgraded.at_us == clock.now_us()
    [backup] = backups(board_path)
    assert re.fullmatch(rf"board\.db\.schema-{version}-\d{{8}}T\d{{6}}Z\.backup", backup.name)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o640
    assert schema(backup) == (version, "old")
    [record] = caplog.records
    assert (record.name, record.levelname) == ("agentmesh", "WARNING")
    told = f"AgentMesh upgraded the board {board_path} from schema {version} to {NEWEST}; the board as it was: {backup}"
    assert record.getMessage() == told


def test_the_backup_of_an_upgrade_is_a_board_of_its_own(board_path, clock):
    """Opened, it is upgraded in its turn, with a backup beside it."""
    make_old(board_path, clock)
    open_board(board_path, clock).close()
    [backup] = backups(board_path)
    with open_board(backup, clock, create=False) as board:
        assert kinds(board) == ["schema_upgraded"]
        assert board.get_task("old").holder == "ann"
    assert len(backups(backup)) == 1


def test_the_history_of_an_upgraded_board_can_be_checked(board_path, clock):
    """The event is about the file: it says nothing of a task, and accuses nobody."""
    open_board(board_path, clock).close()
    with pytest.MonkeyPatch.context() as patch:
        known(patch, (NEWEST + 1, WIDER))
        with open_board(board_path, clock) as board:
            board.create_task("t")
            assert kinds(board) == ["schema_upgraded", "task_created"]
            assert History(board).check().not_observable == ()


def test_a_second_upgrade_in_the_same_second_takes_no_backup_s_place(board_path, clock):
    """The name is counted up until it is free."""
    make_old(board_path, clock)
    before = board_path.read_bytes()
    for _ in range(2):
        open_board(board_path, clock).close()
        board_path.write_bytes(before)
    second, first = backups(board_path)
    assert second.name == first.name.replace("Z.backup", "Z-2.backup")
    assert schema(first) == schema(second) == (BEFORE, "old")


def test_boards_that_are_made_anew_leave_no_backup_and_no_warning(board_path, clock, caplog):
    """An empty file has nothing to keep, nor has a board that is built before it has its name."""
    board_path.touch()
    open_board(board_path, clock).close()
    build(board_path.with_name("built.db"), StoreOptions(), lambda _store: None)
    open_board(board_path, clock).close()
    assert list(board_path.parent.glob("*.backup*")) == []
    assert caplog.records == []


@pytest.mark.parametrize("point", UPGRADE_POINTS)
@pytest.mark.parametrize("error", [apsw.FullError("injected"), OSError(errno.ENOSPC, "injected"), KeyboardInterrupt()])
def test_an_upgrade_that_fails_at_any_point_changes_nothing(board_path, clock, caplog, point, error):
    """The board stays as it was, and opens as soon as the trouble is over; only a finished backup may be left."""
    make_old(board_path, clock)
    with pytest.raises((DiskFull, KeyboardInterrupt)) as failed:
        open_board(board_path, clock, probe=Raiser(point, error))
    if failed.type is DiskFull and point != "upgrade":
        assert f"{board_path} stays at schema {BEFORE}: no backup" in str(failed.value)
        assert "Free space" in failed.value.hint
    assert schema(board_path) == (BEFORE, "old")
    assert caplog.records == []
    assert list(board_path.parent.glob("*unfinished*")) == []
    assert len(backups(board_path)) == (point == "upgrade")
    with open_board(board_path, clock, busy_timeout_sec=0) as board:
        assert kinds(board) == ["schema_upgraded"]


def test_a_folder_that_takes_no_backup_leaves_the_board_as_it_was(board_path, clock, monkeypatch):
    """Without a backup there is no upgrade; the error says so, and what to do."""
    make_old(board_path, clock)

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(unfinished.os, "link", refuse)
    with pytest.raises(StoreError, match="stays at schema") as refused:
        open_board(board_path, clock)
    assert refused.value.code == "read_only"
    assert schema(board_path) == (BEFORE, "old")


def test_the_points_of_an_upgrade_come_in_their_order(board_path, clock):
    """A test bench can stop at each of them."""
    make_old(board_path, clock)
    seen = Recorder()
    open_board(board_path, clock, probe=seen).close()
    assert tuple(seen.points) == UPGRADE_POINTS


def _die_upgrading(line, path, number):
    killer = Killer()
    killer.arm(number)
    open_board(path, TurnableClock(), probe=killer)
    line.send("returned")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_process_that_is_killed_at_any_point_of_an_upgrade_leaves_the_old_board(tmp_path, clock):
    """The next one upgrades it; the backup has its name only once it is whole."""
    for number, point in enumerate((*UPGRADE_POINTS, "returned"), start=1):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        path = folder / "board.db"
        make_old(path, clock)
        worker = Worker(_die_upgrading, path, number)
        assert worker.last_words() == (["returned"] if point == "returned" else [])
        assert worker.end() == -signal.SIGKILL
        assert len(backups(path)) == (point in ("linked", "upgrade", "returned")), point
        with open_board(path, clock, seed=3, busy_timeout_sec=0) as board:
            assert kinds(board) == ["schema_upgraded"]
            assert board.get_task("old").holder == "ann"
            assert violations(board) == {}
        assert all(schema(backup) == (BEFORE, "old") for backup in backups(path))


def test_a_board_that_a_newer_agentmesh_upgrades_meanwhile_is_left_alone(board_path, clock):
    """The version is read once more with the write lock held: it may have passed ours since the file was opened."""
    make_old(board_path, clock)
    options = StoreOptions()
    connection = open_connection(board_path, options)
    connection.pragma("user_version", NEWEST + 1)
    with pytest.raises(NewerSchema):
        bring_up_to_date(connection, board_path, options, clock)
    assert connection.pragma("user_version") == NEWEST + 1
    connection.close()
    assert backups(board_path) == []


def test_migrations_are_numbered_without_gaps():
    """A missing file in an installation is noticed here, not on somebody's board."""
    numbers = [number for number, _ in migrate.migrations("sqlite")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert migrate.newest("sqlite") == numbers[-1]


@pytest.mark.damaged
def test_a_board_without_its_stamp_is_a_foreign_file(board_path, clock):
    """Tables that look like ours are not enough: the header says whose file it is."""
    with open_board(board_path, clock) as board:
        damage(board, "PRAGMA application_id = 0")
    with pytest.raises(ForeignFile):
        Board.open(board_path)


def test_every_table_is_strict(board):
    """SQLite refuses text where a number belongs, instead of storing it."""
    loose = "SELECT name FROM pragma_table_list WHERE type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'"
    assert rows(board, loose) == []
