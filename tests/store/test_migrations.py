"""Bringing tables to the newest version: any number may try at once, it happens once, and wholly or not at all."""

import pytest

from agentmesh import Board
from agentmesh.errors import ForeignFile, NewerSchema, StoreError
from agentmesh.model import Lease
from agentmesh.store import migrate
from tests.support.boards import damage, open_board, rows, violations
from tests.support.processes import barrier, results
from tests.support.scene import ACTS, prepare

NEWEST = migrate.newest("sqlite")
WIDER = "ALTER TABLE task ADD COLUMN colour TEXT"


def known(monkeypatch, *more):
    """Let this process know further migrations."""
    all_of_them = (*migrate.migrations("sqlite"), *more)
    monkeypatch.setattr(migrate, "migrations", lambda _engine: all_of_them)


def _open(line, path, start, more, number):
    with pytest.MonkeyPatch.context() as patch:
        known(patch, *more)
        start.wait()
        with Board.open(path, durability="normal") as board:
            board.create_task("t", id=f"t{number}")
            line.send(board.store._writer.pragma("user_version"))


@pytest.mark.multiproc
def test_six_processes_make_one_board(board_path, clock):
    """All open the same missing file at once; there is one board, and nobody's task is lost."""
    assert results(6, _open, board_path, barrier(6), ()) == [NEWEST] * 6
    with open_board(board_path, clock) as board:
        assert {task.id for task in board.list_tasks().tasks} == {f"t{n}" for n in range(6)}
        assert rows(board, "SELECT count(*) FROM meta WHERE key = 'board_id'") == [(1,)]
        assert violations(board) == {}


@pytest.mark.multiproc
def test_six_processes_bring_an_old_board_up_to_date_once(board_path, clock):
    """A column that was added twice would be an error; the version is read inside the write lock."""
    open_board(board_path, clock).close()
    assert results(6, _open, board_path, barrier(6), ((NEWEST + 1, WIDER),)) == [NEWEST + 1] * 6


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


FIRST_ROWS = (
    "INSERT INTO plan (pk, name, workspace, created_us) VALUES (1, 'default', '', 0)",
    "INSERT INTO tally (plan_pk, in_progress) VALUES (1, 1)",
    """INSERT INTO task (pk, id, plan_pk, title, state, priority, urgency, requires_pk, parents, unmet, fence,
                         opened_fence, charged, max_attempts, lease_timeout_us, max_hold_us, created_us, has_body)
       VALUES (1, 'old', 1, 'Old', 'in_progress', 0, 0, 0, 0, 0, 1, 0, 1, 3, 60000000, 600000000, 0, 0)""",
    """INSERT INTO attempt (task_pk, fence, agent_id, secret, charged, holds, started_us, heartbeat_us,
                            lease_expires_us)
       VALUES (1, 1, 'ann', 'token', 1, 0, 0, 0, 60000000)""",
)
"""A held task as the first release wrote it."""


@pytest.mark.parametrize("version", range(1, NEWEST))
def test_a_board_of_an_earlier_version_is_brought_up_to_date(board_path, clock, monkeypatch, version):
    """What it held is held afterwards, and the new tables work beside it."""
    known_then = migrate.migrations("sqlite")[:version]
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "migrations", lambda _engine: known_then)
        with open_board(board_path, clock) as board:
            for sql in FIRST_ROWS:
                damage(board, sql)
            assert board.store._writer.pragma("user_version") == version
    held = Lease("old", 1, "token")
    with open_board(board_path, clock) as board:
        assert board.store._writer.pragma("user_version") == NEWEST
        assert board.blackboard.put("a", "k", 1, lease=held).task_id == "old"
        assert board.complete_task(held).state == "completed"
        assert violations(board) == {}


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
