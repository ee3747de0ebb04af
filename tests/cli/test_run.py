"""Starting the MCP server: standard output belongs to the protocol."""

import json
import subprocess
import sys

import pytest

from agentmesh.cli.line_client import CallFailed, LineClient

pytestmark = pytest.mark.multiproc
RUN = [sys.executable, "-m", "agentmesh.cli", "run"]


def test_run_serves_the_board_it_finds(call):
    """An agent's calls arrive on the board, under the agent's name."""
    with LineClient([*RUN, "--agent", "ada"], "test") as client:
        task = client.call("create_task", title="Build it")
        assert client.call("claim_task")["task"]["id"] == task["id"]

    assert call.json("show", task["id"])["task"]["holder"] == "ada"


def test_nothing_but_the_protocol_reaches_stdout(call):
    """Each line is a JSON-RPC message; the board is named on stderr."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    done = subprocess.run(RUN, input=json.dumps(request) + "\n", capture_output=True, text=True, check=False)

    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert done.stderr.startswith(f"board: {call.board_path}\n")
    assert done.returncode == 0


def test_without_a_board_run_says_so_on_stderr(mesh):
    """A client shows the server's stderr, and nothing is taken for protocol."""
    done = mesh.process("run")

    assert (done.returncode, done.stdout) == (28, "")
    assert "agentmesh init" in done.stderr


def test_run_makes_no_board(mesh):
    """A typing error in a client's configuration does not become an empty board."""
    assert mesh.process("run", "--board", "typo.db").returncode == 28
    assert not (mesh.board_path.parent.parent / "typo.db").exists()


@pytest.mark.usefixtures("call")
def test_a_refusal_reaches_the_client_as_its_code():
    """The demo's client tells a refusal from an answer."""
    with LineClient([*RUN, "--agent", "ada"], "test") as client, pytest.raises(CallFailed) as caught:
        client.call("get_task", task_id="nobody")
    assert caught.value.code == "not_found"
