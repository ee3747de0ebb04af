"""Keeping a board in good repair from a shell: a backup, how to restore it, and the doctor."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from agentmesh import Board
from tests.cli.test_terminal import OWN_COLOURS


def test_a_backup_is_told_and_can_be_opened(call, board, tmp_path):
    """Where it is, how large, how far it goes; relative names are taken from here."""
    board.create_task("a", id="a")
    made = call.json("backup", tmp_path / "copy.db")
    assert made.keys() == {"path", "board_id", "schema", "at", "last_seq", "pages", "size"}
    assert (made["path"], made["last_seq"]) == (str(tmp_path / "copy.db"), 1)
    assert call.json("list", "--board", made["path"])["tasks"][0]["id"] == "a"
    shown = call("backup", "here.db").stdout
    assert "Backed up to " in shown
    assert "up to event 1" in shown
    assert stat.S_IMODE(Path("here.db").stat().st_mode) == 0o600
    assert call("backup", "quiet.db", "-q").stdout == ""


@pytest.mark.parametrize(
    ("path", "exit_code"), [(".agentmesh/board.db", 29), ("taken", 29), ("no/copy.db", 2), ("a://b", 2), ("", 2)]
)
def test_a_backup_that_cannot_be_made_has_an_exit_code(call, path, exit_code):
    """And nothing is written."""
    Path("taken").touch()
    before = sorted(Path.cwd().iterdir())
    result = call("backup", path)
    assert (result.exit_code, result.stdout) == (exit_code, "")
    assert sorted(Path.cwd().iterdir()) == before


def test_a_restore_puts_a_backup_in_the_place_of_the_board(call, board):
    """It says what was restored, of when, and where the board of before is."""
    board.create_task("kept", id="kept")
    call("backup", "copy.db")
    board.create_task("lost", id="lost")
    board.close()
    made = call.json("restore", "copy.db", "--board", call.board_path, "--agent", "ops")
    assert made.keys() == {"path", "backup", "board_id", "schema", "last_seq", "size", "at", "replaced"}
    assert (made["path"], made["backup"]) == (str(call.board_path), str(Path("copy.db").absolute()))
    assert [task["id"] for task in call.json("list")["tasks"]] == ["kept"]
    assert len(call.json("list", "--board", made["replaced"])["tasks"]) == 2
    assert call.json("events")["events"][-1]["agent_id"] == "ops"
    assert call.json("check")["ok"] is True
    assert call.json("doctor")["ok"] is True
    shown = call("restore", "copy.db", "--board", call.board_path).stdout
    assert "up to event 1" in shown
    assert f"The board of before: {call.board_path}.replaced-" in shown
    assert call("restore", "copy.db", "--board", call.board_path, "-q").stdout == ""


def test_a_board_that_is_open_is_not_replaced(call, board):
    """An exit code of its own, and the next step."""
    call("backup", "copy.db")
    before = sorted(call.board_path.parent.iterdir())
    result = call("restore", "copy.db", "--board", call.board_path)
    assert (result.exit_code, result.stdout) == (46, "")
    assert "Stop every agent and server" in result.stderr
    assert sorted(call.board_path.parent.iterdir()) == before
    assert board.status().total == 0


def test_a_restore_wants_the_board_to_be_named(call, monkeypatch):
    """A search might find a board further up, where a killed restore has left none here."""
    call("backup", "copy.db")
    result = call("restore", "copy.db")
    assert result.exit_code == 2
    assert "--board PATH" in result.stderr
    monkeypatch.setenv("AGENTMESH_BOARD", str(call.board_path))
    assert call("restore", "copy.db").exit_code == 0


@pytest.mark.parametrize("backup", ["no.db", "a://b", "", ".agentmesh/board.db"])
def test_what_is_no_backup_is_a_usage_error(call, backup):
    """The board stays."""
    assert call("restore", backup, "--board", call.board_path).exit_code == 2
    assert call.json("list")["tasks"] == []


INTERRUPTED = """
import os, signal, sys
from agentmesh.cli.main import main
from agentmesh.store import sqlite_copy
sqlite_copy.Copying._verify = lambda *_: os.kill(os.getpid(), signal.SIGTERM)
main()
"""


@pytest.mark.multiproc
@pytest.mark.usefixtures("call")
def test_an_interrupted_backup_cleans_up():
    """Ctrl-C and SIGTERM end it with its last act: no unfinished file stays behind."""
    command = [sys.executable, "-c", INTERRUPTED, "backup", "copy.db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert list(Path.cwd().glob("copy*")) == []


def test_the_doctor_tells_everything_it_looked_at(call, board):
    """One object for each thing, in JSON as for people; values keep their types."""
    board.create_task("a", id="a")
    told = call.json("doctor", "--deep")
    assert (told["ok"], told["board"]) == (True, str(call.board_path))
    seen = {one["name"]: one for one in told["observations"]}
    assert {"sqlite", "schema", "file_bytes", "file_mode", "disk_free_bytes", "quick_check"} <= seen.keys()
    assert seen["tasks"] == {"name": "tasks", "value": 1, "verdict": "ok"}
    assert seen["expired_entries"]["value"] == 0
    assert seen["wal_reset_fixed"]["value"] is True
    assert seen["oldest_event_at"]["value"].endswith("Z")
    shown = call("doctor").stdout
    assert all(name.partition("_")[0] in shown for name in seen.keys() - {"quick_check", "texts"})
    assert "quick check" not in shown


def test_a_warning_is_shown_and_is_no_error(call):
    """Quietly, it is all there is to see."""
    call.board_path.chmod(0o644)
    result = call("doctor", "-q")
    assert result.exit_code == 0
    assert result.stdout.split()[:6] == ["WHAT", "VALUE", "VERDICT", "file", "mode", "0644"]
    assert "chmod 600" in result.stdout
    told = call.json("doctor")
    assert told["ok"] is True
    assert [one["name"] for one in told["observations"] if "hint" in one] == ["file_mode"]
    call.board_path.chmod(0o600)
    assert call("doctor", "-q").stdout == ""


def test_a_board_that_cannot_be_opened_is_diagnosed(mesh):
    """No traceback and no other exit code than that of a finding; the file is as it was."""
    Path("diary.db").write_text("a diary " * 100)
    result = mesh("doctor", "--board", "diary.db")
    assert result.exit_code == 4
    assert "not an AgentMesh board" in result.stdout.replace("\n", " ")
    assert result.stderr == ""
    told = mesh.json("doctor", "--board", "diary.db")
    assert (told["ok"], told["observations"][-1]["verdict"]) == (False, "error")
    assert Path("diary.db").read_text() == "a diary " * 100


def test_a_missing_board_is_an_error_like_elsewhere(mesh):
    """There is nothing to examine."""
    assert mesh("doctor", "--board", "no.db").exit_code == 28
    assert mesh("doctor").exit_code == 28


@pytest.mark.parametrize("columns", [30, 40, 80])
def test_the_doctor_fits_any_terminal(call, terminal, monkeypatch, columns):
    """Warnings and hints too, with colours and without."""
    call.board_path.chmod(0o644)
    terminal(columns)
    lines = OWN_COLOURS.sub("", call("doctor").stdout).splitlines()
    assert max(cell_len(line) for line in lines[1:]) <= columns  # the first is the path, which one may copy
    assert "\x1b[33m" in call("doctor").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[33m" not in call("doctor").stdout


def test_a_backup_of_a_board_in_use_ends(call, board):
    """The board is open here, and with a transaction under way."""
    board.create_task("a", id="a")
    made = board.store.write(lambda _tx: call.process("backup", "copy.db"))
    assert made.returncode == 0, made.stderr
    with Board.open("copy.db", create=False) as copy:
        assert copy.get_task("a").title == "a"
