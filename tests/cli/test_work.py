"""The work loop of a shell script."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentmesh import Board, Lease
from agentmesh.cli.command import App
from agentmesh.cli.errors import OutputError
from agentmesh.errors import Busy
from tests.support.boards import ended, put


@pytest.fixture
def claimed(call, board):
    """A claimed task and its token."""
    board.create_task("build", id="build")
    claim = call.json("claim", "--agent", "ada")
    return claim["task"]["id"], claim["lease"]


def test_claim_hands_out_and_complete_ends(call, claimed):
    """The token that claim gave is all that complete needs."""
    task, token = claimed
    done = call.json("complete", task, "--lease", token, "--result", '{"ok": "123"}')

    assert done["state"] == "completed"
    assert call.json("show", task)["task"]["result"] == {"ok": "123"}


def test_a_claim_carries_what_the_dependencies_left(call, claimed, board):
    """The next agent can start at once."""
    board.create_task("test", id="test", depends_on=["build"], description="run them")
    call("complete", "build", "--lease", claimed[1], "--result", '{"binary": "a.out"}')
    shown = call("claim", "--agent", "ben").stdout

    assert all(word in shown for word in ("run them", "a.out", "agentmesh complete test --lease 1."))


def test_the_token_may_come_from_the_environment(call, claimed):
    """Where `ps` does not show it."""
    task, token = claimed
    assert call.json("heartbeat", task, env={"AGENTMESH_LEASE": token})["task_id"] == task


def test_quiet_claim_prints_task_and_token(call, board):
    """For `read task lease`; nothing when there is nothing."""
    board.create_task("build", id="build")
    task, token = call("claim", "-q", "--agent", "ada").stdout.split()

    assert call("release", task, "--lease", token).exit_code == 0
    assert call("claim", "-q", "--agent", "ada").stdout == ""


def test_a_failure_is_counted_or_not(call, claimed):
    """A task is offered again after a failure, unless it fails for good."""
    task, token = claimed
    failed = call.json("fail", task, "--lease", token, "--error", "boom", "--no-retry")

    assert failed["state"] == "failed"
    assert call("fail", task, "--lease", token, "--error", "x", "--kind", "weather").exit_code == 2


def test_a_failure_may_say_when_to_try_again(call, claimed, board):
    """In the words in which ages are written."""
    task, token = claimed
    how = ("--error", "limit", "--kind", "quota", "--retry-after", "5h")
    failed = call.json("fail", task, "--lease", token, *how)
    assert failed["state"] == "scheduled"
    waits_us = board.get_task(task).not_before_us - board.attempts(task)[0].ended_us
    assert waits_us == 5 * 3600 * 1_000_000


def test_a_lost_lease_buys_no_write(call, claimed):
    """Exit 9, and the task stays as it is."""
    task, token = claimed
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")

    assert call("complete", task, "--lease", wrong).exit_code == 9
    assert call.json("show", task)["task"]["state"] == "in_progress"


def test_a_task_that_is_taken_is_an_error(call, claimed):
    """Exit 8 names the holder."""
    result = call("claim", claimed[0], "--agent", "ben")
    assert result.exit_code == 8
    assert "'ada'" in result.stderr


def test_a_task_that_is_not_ready_is_not_handed_out(call, board):
    """Naming it does not open the gate: exit 3 says why."""
    board.create_task("build", id="build")
    board.create_task("test", id="test", depends_on=["build"])
    result = call("claim", "test", "--agent", "ada")

    assert result.exit_code == 3
    assert "waits for 1" in result.stdout


def test_an_attempt_is_resumed_only_on_request(call, claimed):
    """With a new token; the old one is worth nothing then."""
    task, token = claimed
    again = call.json("claim", task, "--agent", "ada", "--resume", "--take-over")

    assert again["lease"] != token
    assert call("heartbeat", task, "--lease", token).exit_code == 9
    assert call("heartbeat", task, "--lease", again["lease"]).exit_code == 0


def test_claim_needs_a_name(call):
    """An attempt belongs to somebody."""
    unnamed = call("claim")
    assert unnamed.exit_code == 2
    assert "--agent" in unnamed.stderr
    assert call("claim", env={"AGENTMESH_AGENT": "ada"}).exit_code == 3


def test_next_tells_by_its_exit_code(call, board):
    """And claims nothing."""
    assert call("next", "--quiet").exit_code == 3
    board.create_task("paint", id="paint", requires=["brush"])

    assert call("next", "--quiet").exit_code == 3
    assert call("next", "--quiet", "--capability", "brush").exit_code == 0
    assert call("next", "--quiet").output == ""
    assert call.json("show", "paint")["attempts"] == []


@pytest.mark.multiproc
@pytest.mark.usefixtures("call")
def test_next_starts_without_what_it_does_not_need():
    """A shell may ask often: neither rich nor pydantic is loaded, nor the MCP server."""
    script = (
        "import sys, agentmesh.cli.main as m\n"
        "try: m.cli.main(['next', '--quiet'])\n"
        "except SystemExit: pass\n"
        "print([n for n in ('rich', 'pydantic', 'agentmesh.mcp_server') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("form", [[], ["--json"], ["--quiet"]], ids=str)
def test_a_claim_that_cannot_be_written_is_given_back(call, board, form):
    """On a full disk or in a closed pipe: the lease was shown to nobody, so the task is free again at once."""
    board.create_task("build", id="build", payload={"a": 1})
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "agentmesh.cli", "claim", "--agent", "ada", *form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    task = board.get_task("build")
    assert (ran.returncode, task.state, task.charged) == (33, "pending", 0), ran.stderr
    assert "given back" in ran.stderr
    assert call.json("claim", "--agent", "ada")["task"]["id"] == "build"


def test_a_claim_with_a_request_id_that_cannot_be_written_is_kept(call, board):
    """The repeated call gives it."""
    board.create_task("build", id="build")
    command = ["claim", "--agent", "ada", "--request-id", "r"]
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "agentmesh.cli", *command], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert (ran.returncode, board.get_task("build").state) == (33, "in_progress")
    assert call.json(*command)["task"]["id"] == "build"


def test_a_lease_that_can_be_neither_written_nor_given_back_is_named(call, board, monkeypatch):
    """The error carries it."""
    board.create_task("build", id="build")

    def refuse(*_):
        raise Busy("The board is busy.")

    monkeypatch.setattr(Board, "give_back", refuse)
    monkeypatch.setattr(
        App, "answer", lambda *_: (_ for _ in ()).throw(OutputError("No space left on device.", "Free some."))
    )
    ran = call("claim", "--agent", "ada")
    assert ran.exit_code == 33
    token = re.search(r"held with lease (\S+):", ran.stderr)[1]
    monkeypatch.undo()
    board.complete_task(Lease.from_token("build", token))


@pytest.mark.parametrize(("how", "code"), [("completed", 0), ("failed", 1), ("cancelled", 1), (None, 3)])
@pytest.mark.parametrize("what", [["a"], ["--plan", "p"]])
def test_a_wait_tells_by_its_exit_code_how_it_ended(call, board, how, code, what):
    """A script can go on once a task or a plan is done."""
    put(board, "a", plan="p")
    if how:
        ended(board, "a", how)
    ran = call("wait", *what, "--wait", "0", "--json")
    assert (ran.exit_code, json.loads(ran.stdout)["final"]) == (code, how is not None)
    assert ("1 " + (how or "pending") in call("wait", *what, "--wait", "0").stdout) == (what[0] == "--plan")
