"""Statements: each is named once, explained, used, and the same SQL for every engine."""

import ast
import re
from pathlib import Path

import pytest

import agentmesh
from agentmesh.errors import StoreError
from agentmesh.store import statements
from agentmesh.store.sqlite_transaction import DIALECT, LOCKS
from agentmesh.store.statements import in_dialect, in_order, parse, shared_statements

SOURCE = Path(agentmesh.__file__).parent
SQL_FILES = sorted((SOURCE / "store" / "sql").glob("*.sql"))
RUNS_A_STATEMENT = {"execute", "fetch_one", "fetch_all", "change_attempt"}


def modules():
    """Every module of the product, as a tree."""
    for file in sorted(SOURCE.rglob("*.py")):
        yield file, ast.parse(file.read_text())


def words():
    """Every string in the product."""
    return {
        node.value
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def run_by_name():
    """Every statement that is named where it is run, and the places."""
    for file, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                named = node.args[0]
                on_a_transaction = "tx" in ast.unparse(node.func.value) or node.func.attr == "change_attempt"
                if node.func.attr in RUNS_A_STATEMENT and on_a_transaction and isinstance(named, ast.Constant):
                    yield named.value, f"{file.name}:{node.lineno}"


def test_every_statement_is_used():
    """What nobody runs is taken out."""
    assert sorted(shared_statements().keys() - words()) == []


def test_every_statement_that_is_run_exists():
    """A typing error in a name is found here, not by the agent that happens to need it."""
    used = list(run_by_name())
    assert len(used) > 80
    assert [(name, place) for name, place in used if name not in shared_statements()] == []


@pytest.mark.parametrize("file", SQL_FILES, ids=lambda file: file.stem)
def test_every_statement_says_what_it_means(file):
    """The line after the name is a sentence for whoever reads the file."""
    lines = file.read_text().splitlines()
    named = [place for place, line in enumerate(lines) if line.startswith("-- name: ")]
    assert named
    assert [lines[place] for place in named if not re.fullmatch(r"-- [A-Z].+[.:;,]?", lines[place + 1])] == []


@pytest.mark.parametrize("file", SQL_FILES, ids=lambda file: file.stem)
def test_no_statement_asks_the_database_for_time_or_chance(file):
    """Both come in as parameters, so a test can hold them."""
    forbidden = r"(?i)\b(now\s*\(|current_\w+|datetime|strftime|julianday|unixepoch|random\w*\s*\()"
    assert [line for line in file.read_text().splitlines() if re.search(forbidden, line)] == []


def test_every_statement_is_right_sql(board):
    """SQLite can prepare each of them on a board of today, and numbers its parameters as we do."""
    for name, sql in board.store.statements.items():
        if sql:
            parameters = {name: name for name in re.findall(r":(\w+)", sql)}
            explained = board.store._writer.execute("EXPLAIN " + sql, parameters)
            assert in_order(sql)(parameters) == explained.bindings_names, name
            assert explained.fetchall(), name


def test_row_locks_are_nothing_to_sqlite(board):
    """Its writer is alone: a lock statement costs no call."""
    locks = {name for name in shared_statements() if name.startswith(LOCKS)}
    assert locks
    assert {name for name, sql in board.store.statements.items() if not sql} == locks
    assert board.store.write(lambda tx: [tx.execute(name) for name in sorted(locks)]) == [0] * len(locks)


TEXT = """\
-- What the file is about.

-- name: first
-- Says what it means,
-- on two lines.
SELECT 1 /*skip_locked*/;

-- name: second
-- Another.
SELECT ':x'  -- kept
  FROM task
"""


def test_a_file_is_read_statement_by_statement():
    """Name lines and comment lines go, the SQL stays as it is written, without its semicolon."""
    assert parse(TEXT) == {"first": "SELECT 1 /*skip_locked*/", "second": "SELECT ':x'  -- kept\n  FROM task"}


def test_dialect_words_are_replaced():
    """No word is left in what an engine runs; one that it does not know is an error."""
    assert not any(re.search(r"/\*\w+\*/", sql) for sql in in_dialect(DIALECT).values())
    assert any("FOR UPDATE OF x" in sql for sql in in_dialect({"skip_locked": "FOR UPDATE OF x"}).values())
    with pytest.raises(KeyError):
        in_dialect({})


def test_a_name_is_given_once(monkeypatch):
    """Two statements of one name in two files are an error, not a riddle."""

    class Files:
        """Two files, as the package's resources list them."""

        def joinpath(self, _):
            """The folder."""
            return self

        def iterdir(self):
            """Its files."""
            return [type("File", (), {"name": f"{n}.sql", "read_text": lambda _, **__: TEXT})() for n in "ab"]

    monkeypatch.setattr(statements.resources, "files", lambda _: Files())
    with pytest.raises(StoreError, match="'first' is defined twice"):
        shared_statements.__wrapped__()
