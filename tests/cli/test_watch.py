"""Watching a board."""

import contextlib
import os
import pty
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def busy(call, board):
    """A board on which somebody works."""
    board.create_task("Build it", id="build")
    board.create_task("Test it", id="test", depends_on=["build"])
    board.claim_task("ada")
    return call


def watching(*args: str) -> subprocess.Popen[str]:
    """A watch in a process of its own, read through a pipe."""
    command = [sys.executable, "-m", "agentmesh.cli", "watch", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def test_once_shows_the_board_as_it_is(busy):
    """Counts, who works on what, and what happened last."""
    shown = busy("watch", "--once").stdout

    assert all(word in shown for word in ("in_progress", "blocked", "Build it", "ada", "left", "claimed"))


def test_json_implies_once(busy):
    """One document, and the end."""
    seen = busy.json("watch")

    assert [task["holder"] for task in seen["running"]] == ["ada"]
    assert seen["cursor"] == seen["events"][-1]["seq"] == seen["status"]["last_seq"]


def test_it_begins_after_a_given_event(busy):
    """Or with the last few."""
    last = busy.json("watch")["cursor"]
    assert busy.json("watch", "--after", str(last - 1))["events"] == busy.json("watch")["events"][-1:]


@pytest.mark.multiproc
@pytest.mark.usefixtures("busy")
def test_on_a_terminal_it_draws_and_gives_the_cursor_back():
    """A terminal is left as it was found."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "agentmesh.cli", "watch"]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        seen = b""
        while b"Build it" not in seen:
            seen += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # how a terminal says that its last user has gone
            while chunk := os.read(ours, 4096):
                seen += chunk
    os.close(ours)

    assert process.returncode == 0
    assert seen.rindex(b"\x1b[?25h") > seen.rindex(b"\x1b[?25l")


@pytest.mark.multiproc
@pytest.mark.usefixtures("busy")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_in_a_pipe_events_come_as_lines_until_the_end(board, end):
    """Each as it happens; Ctrl-C is the usual way to end it."""
    with watching() as process:
        seen = [process.stdout.readline() for _ in range(3)]
        board.create_task("New", id="new")
        seen.append(process.stdout.readline())
        process.send_signal(end)
        rest = process.stdout.read()

    assert "claimed" in seen[2]
    assert "new" in seen[3]
    assert (process.returncode, rest) == (0, "")
