"""A command that opens an older board: standard output stays its own, and one line on stderr reports the upgrade."""

import errno
import json
import subprocess
import sys

import pytest

from agentmesh.store import unfinished
from tests.support.clock import TurnableClock
from tests.support.older import BEFORE, NEWEST, backups, make_old, schema

pytestmark = pytest.mark.multiproc


@pytest.fixture
def older(mesh):
    """The command line, in a folder with a board of the schema before."""
    mesh.board_path.parent.mkdir(mode=0o700)
    make_old(mesh.board_path, TurnableClock())
    return mesh


def line(board_path):
    """What reports the upgrade of that board."""
    [backup] = backups(board_path)
    return f"AgentMesh upgraded the board {board_path} from schema {BEFORE} to {NEWEST}; the board as it was: {backup}"


@pytest.mark.parametrize("how", [["--json"], ["--quiet"], []])
def test_an_upgrade_is_one_line_on_stderr(older, how):
    """The document on standard output is the only thing there, and the next command says nothing of it."""
    first = older.process("show", "old", "--board", str(older.board_path), *how)
    again = older.process("show", "old", "--board", str(older.board_path), *how)
    assert first.returncode == again.returncode == 0
    assert first.stderr.splitlines() == [line(older.board_path)]
    assert again.stderr == ""
    assert ("--json" not in how) or json.loads(first.stdout)["task"]["id"] == "old"


def test_a_server_reports_an_upgrade_on_stderr(older):
    """Standard output belongs to the protocol."""
    command = [sys.executable, "-m", "agentmesh.cli", "run", "--board", str(older.board_path)]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert line(older.board_path) in done.stderr.splitlines()


def test_an_upgrade_without_a_backup_is_an_error(older, monkeypatch):
    """One typed error with its exit code, and the board is still that of the older release."""

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(unfinished.os, "link", refuse)
    result = older("status", "--board", older.board_path)
    assert result.exit_code == 22
    assert f"stays at schema {BEFORE}: no backup" in result.stderr
    assert schema(older.board_path) == (BEFORE, "old")
