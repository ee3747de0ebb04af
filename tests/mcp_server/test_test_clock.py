"""Servers on a test's board: refused without `--test-clock`; with it they go by the clock that the test turns."""

import subprocess

import pytest

from agentmesh import Board
from agentmesh.cell import VARIABLE
from tests.mcp_server.driver import DEADLINE_SEC, Server, run_command, serve_command

COMMANDS = {
    "stdio": run_command,
    "sdk": lambda board: run_command(board, "--front", "sdk"),
    "http": serve_command,
}


@pytest.fixture(autouse=True)
def untold(mesh_board, monkeypatch):
    """Servers that nobody told of test clocks; the board sets the variable when it is made."""
    monkeypatch.delenv(VARIABLE)
    return mesh_board


def finished(command):
    """How a server ended that had nobody to serve."""
    return subprocess.run(
        command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_SEC
    )


@pytest.mark.multiproc
@pytest.mark.parametrize("front", COMMANDS)
def test_a_test_board_is_not_served_by_mistake(mesh_board, front):
    """Its agents would live in another time; the error names the way."""
    command = COMMANDS[front](mesh_board.path)
    done = finished(command)
    assert done.returncode == 41
    assert "--test-clock" in done.stderr
    assert not done.stdout


@pytest.mark.multiproc
def test_a_board_without_a_cell_has_no_test_clock(tmp_path):
    """The flag is no way to freeze a real board."""
    Board.open(tmp_path / "real.db").close()
    command = run_command(tmp_path / "real.db", "--test-clock")
    done = finished(command)
    assert done.returncode == 2
    assert "no clock cell beside this board" in done.stderr


@pytest.mark.multiproc
def test_a_server_obeys_the_clock_of_the_test(mesh_board, mesh_clock):
    """A call that waits in another process has the task when `advance` returns."""
    mesh_board.create_task("Task", id="a", lease_timeout_sec=3600)
    mesh_board.claim_task("ada")
    with Server(run_command(mesh_board.path, "--test-clock")) as server:
        mesh_clock.advance("59min 30s")
        call = server.begin_tool("claim_task", agent_id="bob", wait_sec=50)
        mesh_clock.until_waiting()
        mesh_clock.advance(30)
        assert mesh_board.get_task("a").holder == "bob"
        assert "result" in server.end(call)


@pytest.mark.multiproc
def test_keepalive_goes_by_the_clock_too(mesh_board, mesh_clock):
    """While the session cares for a lease it outlives its timeout; when it does no more, it runs out."""
    mesh_board.create_task("Task", id="a", lease_timeout_sec=60)
    with Server(run_command(mesh_board.path, "--test-clock", "--keepalive", "600")) as server:
        server.tool("claim_task", agent_id="bob")
        mesh_clock.advance("10min")
        assert not mesh_board.claim_task("ada")
        mesh_clock.advance("2min")
        assert mesh_board.claim_task("ada").task.id == "a"
