"""Exports and imports from a shell: files and pipes, new boards only, what went wrong and where."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.cli.progress import STAGES, shown

HOSTILE = "\x1b[31mred\u202e\x9b"


@pytest.fixture
def text(call, board):
    """An export of the board in this folder, which has a little of everything."""
    board.create_task(HOSTILE, id="a", payload={"n": 1})
    board.create_task("Next", id="b", depends_on=["a"])
    claim = board.claim_task("ann")
    board.ledger.record(lease=claim.lease, output_tokens=3)
    board.blackboard.put("n", "k", b"bytes")
    return call("export").stdout_bytes


def test_an_export_goes_to_standard_output_or_to_a_file(call, board, text):
    """The same bytes, for this user only, and nothing else beside them."""
    assert call("export", "-").stdout_bytes.split(b"\n")[1:] == text.split(b"\n")[1:]
    made = call.json("export", "out.jsonl")
    assert made.keys() == {"path", "board_id", "at", "rows", "sha256"}
    assert (made["path"], made["rows"]["task"], made["rows"]["event"]) == (str(Path("out.jsonl").absolute()), 2, 0)
    assert Path("out.jsonl").read_bytes().split(b"\n")[1:] == text.split(b"\n")[1:]
    assert stat.S_IMODE(Path("out.jsonl").stat().st_mode) == 0o600
    shown_ = call("export", "more.jsonl", "--events").stdout
    assert "2 tasks, 1 in the ledger, 1 on the blackboard" in shown_
    assert json.loads(Path("more.jsonl").read_text().split("\n")[0])["counts"]["event"] == board.status().last_seq
    assert call("export", "quiet.jsonl", "-q").stdout == ""


def test_a_file_is_replaced_only_if_forced(call, text):
    """And a board never is; nothing is written where it fails."""
    Path("out.jsonl").write_text("mine")
    assert call("export", "out.jsonl").exit_code == 2
    assert Path("out.jsonl").read_text() == "mine"
    assert call("export", "out.jsonl", "--force").exit_code == 0
    assert Path("out.jsonl").stat().st_size >= len(text)
    before = sorted(Path.cwd().iterdir())
    for path in (".agentmesh/board.db", "no/out.jsonl", ".agentmesh", "a://b", ""):
        assert call("export", path, "--force").exit_code == 2
    assert sorted(Path.cwd().iterdir()) == before


def test_with_json_standard_output_is_the_document_s(call):
    """A stream and a document do not mix."""
    assert call("export", "--json").exit_code == 2
    assert call("export", "-", "--json").exit_code == 2


def test_a_board_is_made_of_an_export(call, text, tmp_path):
    """From a file or from standard input, where --board says."""
    Path("out.jsonl").write_bytes(text)
    made = call.json("import", "out.jsonl", "--board", tmp_path / "new.db")
    assert made.keys() == {"board", "board_id", "source_id", "at", "rows", "reclaimed", "events_ignored"}
    assert (made["board"], made["reclaimed"]) == (str(tmp_path / "new.db"), ["a"])
    assert call.json("show", "a", "--board", made["board"])["task"]["title"] == HOSTILE
    assert call.json("check", "--board", made["board"])["ok"] is True
    told = call("import", "-", "--board", tmp_path / "other.db", "--agent", "olga", input=text)
    assert "Taken back from agents of then: 1 task." in told.stdout
    assert "every promise was checked" in told.stdout
    first = call.json("events", "--board", tmp_path / "other.db", "--limit", "1")["events"][0]
    assert (first["kind"], first["agent_id"]) == ("board_imported", "olga")
    assert call("import", "out.jsonl", "-q", "--board", tmp_path / "third.db").stdout == ""


def test_an_export_with_history_says_that_it_stays_in_the_file(call, text, tmp_path):
    """It is counted, and not taken over."""
    call("export", "out.jsonl", "--events")
    told = call("import", "out.jsonl", "--board", tmp_path / "new.db").stdout
    assert "The history in the file (" in told
    assert text


def test_a_board_in_a_home_of_its_own_is_found_there(call, text, tmp_path, monkeypatch):
    """`.agentmesh/board.db` is made as `init` makes it, kept out of git."""
    Path("out.jsonl").write_bytes(text)
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / ".agentmesh" / "board.db"
    assert call("import", "out.jsonl", "--board", target).exit_code == 0
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert call.json("list")["tasks"][0]["id"] == "a"
    assert (target.parent / ".gitignore").exists()


def test_an_import_that_fails_leaves_nothing(call, text, tmp_path):
    """Neither the board nor the folder that was made for it."""
    Path("out.jsonl").write_bytes(text.replace(b'"title":"Next"', b'"title":"Text"'))
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere" / ".agentmesh" / "board.db"
    result = call("import", "out.jsonl", "--board", target)
    assert result.exit_code == 36
    assert result.stderr.startswith("Error: Line 4, check: does not fit")
    assert "change the board that is made of them" in result.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_refusal_is_one_document(call, text, tmp_path):
    """With the line and the field."""
    lines = text.splitlines(keepends=True)
    result = call("import", "-", "--json", "--board", tmp_path / "new.db", input=b"".join(lines[:-1]))
    document = json.loads(result.stderr)
    assert (document["code"], document["line"], document["exit_code"]) == ("import_refused", len(lines), 36)
    assert "cut short" in document["hint"]
    assert result.stdout == ""


def test_an_import_makes_a_new_board_or_none(call, text, tmp_path, monkeypatch):
    """It has to be named; one that is there stays as it is."""
    Path("out.jsonl").write_bytes(text)
    assert call("import", "out.jsonl").exit_code == 2
    monkeypatch.setenv("AGENTMESH_BOARD", str(call.board_path))
    assert call("import", "out.jsonl").exit_code == 29
    monkeypatch.delenv("AGENTMESH_BOARD")
    assert call("import", "out.jsonl", "--board", call.board_path).exit_code == 29
    assert call("import", "missing.jsonl", "--board", tmp_path / "new.db").exit_code == 2
    assert call("import", "out.jsonl", "--board", tmp_path / "no" / "new.db").exit_code == 2
    assert call("import", "out.jsonl", "--board", "postgresql://x/y").exit_code == 2
    assert [task["state"] for task in call.json("list")["tasks"]] == ["in_progress", "blocked"]
    assert not (tmp_path / "new.db").exists()


def test_a_reader_that_goes_away_is_no_error(call, board):
    """`agentmesh export | head` ends as any other does, and the copy that it read is gone."""
    board.create_tasks([{"title": "x" * 300, "description": "y" * 2000} for _ in range(500)])
    command = [sys.executable, "-m", "agentmesh.cli", "export"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert json.loads(process.stdout.readline())["type"] == "header"
        process.stdout.close()
        assert process.stderr.read() == b"board: " + os.fsencode(call.board_path) + b"\n"
        assert process.wait() == 141
    assert {file.name for file in call.board_path.parent.iterdir()} >= {"board.db"}
    assert [file for file in call.board_path.parent.iterdir() if file.is_dir()] == []


SLOW = """
import os, signal, sys
from agentmesh.board.transfer import export
from agentmesh.cli.main import main
pages = export._Exporting._pages
def stop(self, kind):
    os.kill(os.getpid(), signal.SIGTERM)
    yield from pages(self, kind)
export._Exporting._pages = stop
sys.argv = ["agentmesh", "export", "out.jsonl"]
main()
"""


def test_an_export_that_is_stopped_leaves_nothing(call, board):
    """Neither the file nor the copy that it read."""
    board.create_task("a", id="a")
    before = sorted(file.name for file in call.board_path.parent.iterdir())
    done = subprocess.run([sys.executable, "-c", SLOW], capture_output=True, check=False)
    assert done.returncode == 130, done.stderr
    assert not list(Path.cwd().glob("out.jsonl*"))
    assert sorted(file.name for file in call.board_path.parent.iterdir()) == before
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class Terminal(io.StringIO):
    """Where somebody is looking."""

    def isatty(self):
        """They are."""
        return True


def test_how_far_it_is_shows_on_a_terminal_and_nowhere_else(call, text, tmp_path, monkeypatch):
    """On stderr; a script's log has nothing of it."""
    with Board.open(call.board_path) as board:
        stages = []
        board.export(io.BytesIO(), progress=lambda stage, _done, _of: stages.append(stage))
    Path("out.jsonl").write_bytes(text)
    assert set(stages) <= set(STAGES)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown() as progress:
        for stage in STAGES:
            progress(stage, 1, 2)
    assert "Copying the board" in sys.stderr.getvalue() or "50%" in sys.stderr.getvalue()
    with shown(quiet=True) as progress:
        assert progress is None
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown() as progress:
        assert progress is None
    assert tmp_path
