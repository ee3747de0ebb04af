"""Standard streams that are closed, full or gone: what was done is not called a failure."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentmesh.cli import watch as watching
from agentmesh.cli.command import stoppable
from agentmesh.cli.screen import Screen
from agentmesh.cli.watch import _begin, _follow_live
from tests.support.boards import claimed, put

pytestmark = pytest.mark.multiproc

AGENTMESH = f"{shlex.quote(sys.executable)} -m agentmesh.cli"


def shell(line, *, stdin=""):
    """A shell's command line, in which `mesh` is ours."""
    text = line.replace("mesh ", f"{AGENTMESH} ", 1)
    return subprocess.run(["/bin/sh", "-c", text], input=stdin, capture_output=True, text=True, check=False)


@pytest.fixture(autouse=True)
def named(monkeypatch, call):
    """The board is named, so nothing says where it was found."""
    monkeypatch.setenv("AGENTMESH_BOARD", str(call.board_path))


@pytest.fixture
def lease(board):
    """The token of an attempt at the task `held`."""
    put(board, "held", "other: held")
    return claimed(board, "held", "ada").lease.token


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_command_does_its_work_whatever_stream_is_closed(board, closed):
    """Nobody reads what it says, so it says it to nobody."""
    done = shell(f"mesh add Work --id work {closed}")
    assert (done.returncode, done.stderr) == (0, "")
    assert board.get_task("work").state == "pending"


@pytest.mark.usefixtures("lease")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("next --quiet", 3),
        ("status", 0),
        ("events --json", 0),
        ("show nosuch", 5),
        ("complete held --lease 1.no", 9),
        ("plan apply nosuch.toml", 2),
        ("--help", 0),
    ],
)
def test_the_exit_code_is_what_it_would_have_been(line, code):
    """With standard output closed."""
    told = shell(f"mesh {line} >&-")
    assert (told.returncode, "Traceback" in told.stderr) == (code, False), told.stderr


def test_an_end_is_an_end_with_every_stream_closed(board, lease):
    """`complete` is not told as failed when it was not."""
    assert shell(f"mesh complete held --lease {lease} <&- >&- 2>&-").returncode == 0
    assert board.get_task("held").state == "completed"


@pytest.mark.parametrize(
    "line",
    ["claim --agent ada", "export -", "watch", "run"],
)
def test_what_is_nothing_without_its_output_does_not_begin(board, line):
    """It says so before any work; the lease token of a claim would be lost."""
    put(board, "a")
    before = board.status().last_seq
    told = shell(f"mesh {line} >&-")
    assert (told.returncode, "closed" in told.stderr, "nothing was done" in told.stderr) == (33, True, True)
    assert board.status().last_seq == before


@pytest.mark.usefixtures("board")
@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("plan apply -", "standard input"),
        ("add T --payload @-", "--payload @-"),
        ("memory put ns key @-", "VALUE @-"),
        ("memory put ns key --file -", "--file -"),
        ("import - --board new.db", "FILE -"),
        ("run", "standard input"),
    ],
)
def test_a_closed_input_is_a_usage_error_that_names_its_reader(line, named):
    """Before any work."""
    told = shell(f"mesh {line} <&-")
    assert (told.returncode, "Traceback" in told.stderr, Path("new.db").exists()) == (2, False, False), told.stderr
    assert named in told.stderr


def test_a_full_output_tells_that_the_call_was_carried_out(board):
    """Its exit code alone would be read as a failure."""
    told = shell("mesh add Work --id work > /dev/full")
    assert (told.returncode, "The call was carried out" in told.stderr) == (33, True)
    assert board.get_task("work").state == "pending"


@pytest.mark.parametrize(("sink", "code"), [("full", 33), ("pipe without a reader", 141)])
def test_a_claim_whose_answer_is_lost_gives_the_task_back(board, sink, code):
    """Nobody has the token: it is released, uncharged, and the next one may have it."""
    put(board, "a")
    with Path("/dev/full").open("wb") if sink == "full" else _pipe_without_a_reader() as out:
        command = [sys.executable, "-m", "agentmesh.cli", "claim", "--agent", "ada"]
        told = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    task = board.get_task("a")
    assert (told.returncode, task.state, task.charged) == (code, "pending", 0), told.stderr
    assert [attempt.outcome for attempt in board.attempts("a")] == ["released"]


def test_a_claim_that_can_be_repeated_keeps_its_lease(board):
    """The same request gives the same token; a resumed attempt has a way back as well."""
    put(board, "a")
    assert shell("mesh claim --agent ada --request-id r > /dev/full").returncode == 33
    again = shell("mesh claim --agent ada --request-id r --quiet")
    assert again.stdout.startswith("a 1.")
    told = shell("mesh claim --agent ada --resume --take-over > /dev/full")
    assert (told.returncode, board.get_task("a").holder, "--take-over" in told.stderr) == (33, "ada", True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_watch_ends_wherever_the_signal_comes(board, monkeypatch, capsys, number):
    """At each line of the drawing: it returns, and the terminal is as it was."""
    monkeypatch.setattr(watching, "_LOOK_SEC", 0)
    monkeypatch.setenv("FORCE_COLOR", "1")
    put(board, "a")
    at, lines = 0, 1
    while at < lines:
        with stoppable() as stopped:
            lines = max(lines, _signalled_at(at, number, lambda stopped=stopped: _follow(board, stopped)))
        shown = capsys.readouterr().out
        assert stopped.is_set()
        assert shown.count("\x1b[?25h") >= shown.count("\x1b[?25l")
        at += 3


def _pipe_without_a_reader():
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


def _follow(board, stopped):
    _follow_live(board, _begin(board, None), Screen(), stopped)


def _signalled_at(at, number, work):
    """Do something, and raise a signal at a line of it, counted from 0; how many lines were seen until the end."""
    seen = 0

    def trace(frame, event, _):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(("cli/watch.py", "rich/live.py")):
            return None
        if event == "line":
            seen += 1
            if seen == at + 1:
                signal.raise_signal(number)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return min(seen, 90)
