"""`agentmesh run --front sdk`: the SDK's server on stdio, the same table behind it."""

import signal

import pytest
from mcp import Client, StdioServerParameters

from agentmesh import Board
from agentmesh.mcp_server.offer import offer
from tests.mcp_server.driver import DEADLINE_SEC, Server, run_command

pytestmark = [pytest.mark.anyio, pytest.mark.multiproc]


@pytest.fixture
def command(tmp_path):
    """How it is started."""
    Board.open(tmp_path / "board.db").close()
    return run_command(tmp_path / "board.db", "--front", "sdk", "--agent", "ada")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_it_lists_and_does_the_same(command, era):
    """In both eras: the list of the table, and calls that remember their lease."""
    program, *arguments = command
    async with Client(StdioServerParameters(command=program, args=arguments), mode=era) as client:
        listed = [tool.model_dump(by_alias=True, exclude_unset=True) for tool in (await client.list_tools()).tools]
        assert listed == offer("all").lists("ada")["tools"]
        await client.call_tool("create_task", {"title": "t", "id": "t"})
        assert (await client.call_tool("claim_task", {})).structured_content["claimed"]
        done = await client.call_tool("complete_task", {"task_id": "t", "result": {"n": None}})
        assert done.structured_content["state"] == "completed"
        lost = await client.call_tool("heartbeat", {"task_id": "t"})
        assert (lost.is_error, lost.structured_content["code"]) == (True, "lease_lost")


@pytest.mark.parametrize(("ending", "code"), [(None, 0), (signal.SIGINT, 130)])
def test_it_ends_as_our_own_front_does(command, ending, code):
    """With its input and on signals, also while a call waits; nothing but the protocol is on the wire."""
    with Server(command) as server:
        server.greet()
        server.begin("tools/call", {"name": "claim_task", "arguments": {"wait_sec": 50}})
        if ending is None:
            server.process.stdin.close()
        else:
            server.process.send_signal(ending)
        assert server.process.wait(DEADLINE_SEC) == code
        server.rest()
    assert "Traceback" not in "".join(server.log)
