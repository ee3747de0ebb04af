"""A damaged text in a row is called damage, and the row is named: SQLite itself reads back whatever stands there."""

import re

import apsw
import pytest
from click.testing import CliRunner

from agentmesh import Board
from agentmesh.cli.main import cli
from agentmesh.errors import AgentMeshError, Corrupt
from agentmesh.store.sqlite_texts import JSON, WORDS, statements
from tests.support.boards import claimed, damage, open_board, put, rows
from tests.support.interleave import outcome
from tests.support.scene import prepare

NOT_UTF8 = "CAST(x'61ff62' AS TEXT)"
ALIAS = re.compile(r"\bAS (\w+)\b(?! *\))")
TEXTS = {
    table: [name for name in ALIAS.findall(sql.replace("AS BLOB)", ")")) if not name.startswith("row_")]
    for table, sql in statements().items()
    if table != "id_of"
}
CASES = [
    *((table, column, NOT_UTF8) for table, columns in TEXTS.items() for column in columns),
    *((table, column, "'{'") for table, column in JSON),
    *((table, column, "'7'") for (table, column), shape in JSON.items() if shape.__name__ != "_any"),
    *((table, column, "'no such word'") for table, column in WORDS),
]
READS = {
    "status": lambda board: board.status(),
    "list": lambda board: board.list_tasks(),
    "get": lambda board: [board.get_task(name) for name in ("held", "then", "free", "done", "noted")],
    "attempts": lambda board: [board.attempts(name) for name in ("held", "done", "noted")],
    "notes": lambda board: board.notes("noted"),
    "explain": lambda board: [board.explain(), board.explain("then"), board.explain(agent_id="q")],
    "events": lambda board: board.events(0, limit=1000),
    "caps": lambda board: board.claim_caps(),
    "entries": lambda board: [board.blackboard.list("notes"), board.blackboard.get("notes", "kept")],
    "budgets": lambda board: board.budgets.list(),
    "usage": lambda board: [board.ledger.report(by) for by in ("task", "plan", "agent", "model", "attempt", "day")],
    "ledger": lambda board: board.ledger.entries(),
    "work": lambda board: board.has_work(agent_id="q"),
    "check": lambda board: board.check(),
    "resume": lambda board: board.claim_task("ann", task_id="held", resume=True, take_over=True),
    "claim": lambda board: board.claim_task("q"),
    "repeat": lambda board: board.blackboard.append("notes", "kept", 2, request_id="again"),
    "release": lambda board: board.cancel_task("other"),
}
COMMANDS = (["list"], ["show", "held"], ["why", "then"], ["events"], ["graph"], ["resume", "--agent", "ann"])
INTERNAL = 70


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """A closed board with at least one row in every table that has texts."""
    scene = prepare(tmp_path_factory.mktemp("scene") / "board.db")
    with scene.open() as board:
        board.pause(plan="side", reason="r")
        board.set_claim_cap(5)
        board.create_task("t", id="noted", description="d", requires=["skill"], tags=["x"])
        board.claim_task("bob", task_id="noted", capabilities=["skill"]).note("n")
        board.create_task("t", id="waits", writes=["docs/**"], priority=99)
        board.claim_task("ann")
        board.blackboard.append("notes", "kept", 2, request_id="again")
        board.blackboard.put("notes", "bytes", b"x", content_type="text/plain", lease=scene.bob)
        board.blackboard.put("notes", "gone", 1)
        board.blackboard.delete("notes", "gone")
        board.prune(plan="past", older_than_sec=0)
        board.create_task("t", id="declined", key="k")
        for number in range(20):  # then a ceiling pauses it
            board.claim_task(f"agent-{number}", task_id="declined").release()
    return scene


def spoil(scene, place, table, column, value):
    """A copy of the scene in which a text was replaced in every row of a table that lets it."""
    copy = scene.copy(place / "board.db")
    connection = apsw.Connection(str(copy.path))
    connection.pragma("ignore_check_constraints", 1)
    connection.pragma("foreign_keys", 0)
    connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE {column} IS NOT NULL")
    changed = connection.changes()
    connection.close()
    return copy, changed


def test_every_text_column_of_every_table_is_looked_at(board):
    """A table that is added later is not forgotten."""
    tables = [name for (name,) in rows(board, "SELECT name FROM sqlite_schema WHERE type = 'table'")]
    there = {
        table: {column for _, column, kind, *_ in rows(board, f'PRAGMA table_info("{table}")') if kind == "TEXT"}
        for table in tables
        if not table.startswith("sqlite_")
    }
    assert {table: set(columns) for table, columns in TEXTS.items()} == {
        t: found for t, found in there.items() if found
    }


def test_the_scene_has_a_text_in_every_table(scene, tmp_path):
    """Else the test below would try nothing there."""
    assert [
        table for table, (column, *_) in TEXTS.items() if not spoil(scene, tmp_path, table, column, column)[1]
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize(("table", "column", "value"), CASES)
def test_a_damaged_text_brings_out_only_errors_of_ours(scene, tmp_path, table, column, value):
    """Each text column of each table in turn: every call works or says `corrupt`; the doctor names the rows."""
    copy, changed = spoil(scene, tmp_path, table, column, value)
    if not changed:
        pytest.skip("no row of the scene has one")
    board = outcome(copy.open)
    if not isinstance(board, Board):
        assert isinstance(board, Corrupt), board
        return
    with board:
        failed = [found for found in (outcome(lambda read=read: read(board)) for read in READS.values()) if _bad(found)]
        assert all(isinstance(error, AgentMeshError) for error in failed), failed
        assert not any("no such word" in str(error) for error in failed)
        found = {seen.name: seen for seen in Board.examine(copy.path, deep=True)}
        assert found["texts"].verdict == "error"
        assert f"{table}.{column} of " in found["texts"].value
        with pytest.raises(Corrupt, match=rf"{table}\.{column} of "):
            board.backup(tmp_path / "copy.db")
    ran = [CliRunner().invoke(cli, ["--board", str(copy.path), *command]) for command in COMMANDS]
    assert INTERNAL not in [one.exit_code for one in ran], [one.stderr for one in ran]
    assert sorted(file.name for file in tmp_path.glob("copy*")) == []


def _bad(answer):
    return isinstance(answer, Exception)


@pytest.mark.damaged
@pytest.mark.parametrize("wish", [{}, {"task_id": "bad"}], ids=str)
def test_a_claim_that_meets_a_damaged_task_names_it(board, wish):
    """It hands nothing out, says which row, and what to do; other tasks are claimed by name."""
    put(board, "bad", "good")
    damage(board, f"UPDATE task SET title = {NOT_UTF8} WHERE id = 'bad'")
    with pytest.raises(Corrupt, match=r"task\.title of id 'bad' is not UTF-8") as found:
        board.claim_task("a", **wish)
    assert "restore a backup" in found.value.hint
    assert "doctor --deep" in found.value.hint
    assert claimed(board, "good").complete().state == "completed"


@pytest.mark.damaged
def test_a_task_with_a_damaged_body_can_be_cancelled(board):
    """Then claims pass it over; nobody is locked out by it."""
    board.create_task("t", id="bad", payload={"a": 1}, priority=9)
    put(board, "good")
    damage(board, f"UPDATE body SET payload = {NOT_UTF8}")
    with pytest.raises(Corrupt, match=r"body\.payload of task 'bad'") as found:
        board.claim_task("a")
    assert "agentmesh cancel" in found.value.hint
    board.cancel_task("bad")
    assert board.claim_task("a").task.id == "good"


def test_an_error_that_no_damage_explains_stays_what_it_is(board):
    """A mistake of ours is not called damage."""
    put(board, "a")
    for run in (board.store.read, board.store.write):
        with pytest.raises(KeyError, match="ours"):
            run(lambda _: {}["ours"])


def test_a_value_of_another_type_is_damage_too(board_path, clock):
    """One bit of a row's header makes a text bytes; SQLite's own check sees it, and is asked where it stops a call."""
    with open_board(board_path, clock) as board:
        board.create_task("t", id="a", tags=["q" * 100])
    text, blob = b"\x81\x5d", b"\x81\x5c"
    whole = board_path.read_bytes()
    assert whole.count(text) == 1
    board_path.write_bytes(whole.replace(text, blob))
    with open_board(board_path, clock) as board, pytest.raises(Corrupt, match=r"non-TEXT value in task\.tags"):
        board.list_tasks()
