"""The work loop of a shell script."""

import subprocess
import sys

import pytest


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
