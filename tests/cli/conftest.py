"""What the tests of the command line share: a folder with a board, and a way to call commands."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agentmesh import Board
from agentmesh.cli.main import cli


@dataclass(frozen=True)
class Caller:
    """Calls `agentmesh` in a folder."""

    board_path: Path

    def __call__(self, *args: str, **options: object) -> Result:
        """Call it in this process."""
        return CliRunner().invoke(cli, [str(arg) for arg in args], **options)

    def json(self, *args: str, **options: object) -> dict:
        """Call it with `--json` and read the answer, which must be all there is on stdout."""
        result = self(*args, "--json", **options)
        assert result.exit_code in (0, 3, 4), result.stderr
        return json.loads(result.stdout)

    def process(self, *args: str, **options: object) -> subprocess.CompletedProcess[str]:
        """Call it in a process of its own."""
        command = [sys.executable, "-m", "agentmesh.cli", *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, **options)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    """Every test starts in a folder of its own, with no settings from outside."""
    for name in list(os.environ):
        if name.startswith("AGENTMESH_") or name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM"):
            monkeypatch.delenv(name)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def mesh(in_an_empty_folder):
    """The command line, in a folder without a board."""
    return Caller(in_an_empty_folder / ".agentmesh" / "board.db")


@pytest.fixture
def call(mesh):
    """The command line, in a folder with an empty board."""
    assert mesh("init").exit_code == 0
    return mesh


@pytest.fixture
def board(call):
    """The board of that folder, opened in Python."""
    with Board.open(call.board_path) as board:
        yield board


@pytest.fixture
def terminal(monkeypatch):
    """Make the next calls believe in a coloured terminal of so many columns."""

    def turn_on(columns: int) -> None:
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm-256color")

    return turn_on
