"""One SQLite library in a process, and nobody but it opens the files of a board: closing them would drop its locks."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import agentmesh
import pytest_agentmesh
from tests.support.boards import open_board, states, violations
from tests.support.clock import TurnableClock
from tests.support.processes import Worker, results

SOURCES = [Path(agentmesh.__file__).parent, Path(pytest_agentmesh.__file__).parent]


def imported(tree):
    """The modules that a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def test_nothing_of_ours_uses_the_standard_sqlite3():
    """A second library that opens and closes the board loses what other processes committed."""
    modules = [file for source in SOURCES for file in source.rglob("*.py")]
    found = {file: {name.partition(".")[0] for name in imported(ast.parse(file.read_text()))} for file in modules}
    assert [file for file, names in found.items() if names & {"sqlite3", "_sqlite3"}] == []
    drivers = {file.parent.name for file, names in found.items() if names & {"apsw", "psycopg"}}
    assert drivers == {"store"}


AUDIT = """
import sys
from agentmesh import Board
from agentmesh.cli.main import cli
from click.testing import CliRunner
path = sys.argv[1]
opened = []
with Board.open(path, durability="normal") as board:
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    board.create_task("t", id="t", description="d")
    claim = board.claim_task("a", wait_sec=1)
    claim.complete({"a": 1})
    for look in (board.status, board.explain, board.check, board.edges, board.list_tasks, board.has_work):
        look()
    board.get_task("t"), board.attempts("t"), board.notes("t"), board.events(0)
    board.backup(path.replace("board.db", "copy.db")), board.doctor(deep=True)
    board.export(path.replace("board.db", "out.jsonl"), events=True)
    for call in (["status"], ["check"], ["list"], ["show", "t"], ["events"], ["why"], ["graph"], ["where"], ["doctor"]):
        assert CliRunner().invoke(cli, [*call, "--board", path]).exit_code == 0, call
print(sorted({name for name in opened if name.startswith(path) and not name.endswith(".gate")}))
"""


@pytest.mark.multiproc
def test_no_call_opens_a_file_of_the_board_from_python(board_path):
    """Not to sniff its header, not to measure or hash it: every open of the process is listened to.

    The doctor reads the log: SQLite has no lock on it, only on the board and on the shared memory.
    """
    run = subprocess.run([sys.executable, "-c", AUDIT, str(board_path)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str([f"{board_path}-wal"])


def _read_everything(line, path):
    with open_board(path, TurnableClock(), seed=1) as board:
        board.create_task("t", id="first")
        for look in (board.status, board.explain, board.check, board.edges, board.list_tasks, board.has_work):
            look()
        board.get_task("first"), board.attempts("first"), board.events(0)
        board.backup(path.with_name("copy.db")), board.doctor(deep=True), board.export(path.with_name("out.jsonl"))
        line.send("looked")
        line.recv()
        board.create_task("t", id="third")


def _write(line, path, _number):
    with open_board(path, TurnableClock(), seed=2) as board:
        line.send(board.create_task("t", id="second").id)


@pytest.mark.multiproc
def test_looking_loses_nobody_elses_commit(board_path, clock):
    """One looks at everything, another writes and leaves, the first writes again: all three rows are there."""
    looker = Worker(_read_everything, board_path)
    looker.hear()
    assert results(1, _write, board_path) == ["second"]
    looker.tell("go on")
    assert looker.end() == 0
    with open_board(board_path, clock) as board:
        assert set(states(board)) == {"first", "second", "third"}
        assert violations(board) == {}
