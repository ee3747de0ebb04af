"""How an agent of OpenAI's SDK is tested: its model follows a script, and everything else is real."""

import anyio
import pytest
from agent import work_off
from openai import AsyncOpenAI

from pytest_agentmesh import call, hang, rate_limit, text

pytestmark = pytest.mark.anyio

FINISH = call("complete_task", task_id=lambda turn: turn.last_result("claim_task")["task"]["id"], result={"ok": True})


def diligent(turn):
    """What a good model does: it claims and completes, one task after the other, until a claim gives none."""
    if not turn.results or turn.results[-1].tool.name == "complete_task":
        return call("claim_task", wait_sec=30)
    return FINISH if "task" in turn.results[-1].value else text("I am done.")


@pytest.fixture
def board(mesh_board):
    """Three tasks, two of them at once."""
    mesh_board.create_task("Write the schema", id="schema")
    mesh_board.create_task("Write the API", id="api", depends_on=["schema"])
    mesh_board.create_task("Write the docs", id="docs", depends_on=["schema"])
    return mesh_board


@pytest.fixture
def run_agent(mesh_server, mesh_model):
    """Run the agent of that name, and the model of that name with it; what the agent says in the end."""

    async def run(name):
        server, at = mesh_server.named(name, profile="worker"), mesh_model.agent(name)
        parameters = {"command": server.command, "args": server.args, "env": server.env}
        async with AsyncOpenAI(base_url=at.openai_url, api_key=at.key) as client:
            return await work_off(parameters, client)

    return run


async def test_it_works_off_the_board(board, run_agent, mesh_model, mesh_clock):
    """In the order that the tasks need; in the end it waits for more, and the clock moves on."""
    mesh_model.agent("coder-1").policy(diligent)
    with mesh_clock.autojump():
        assert await run_agent("coder-1") == "I am done."
    board.assert_ran_in_order("schema", "api")
    board.assert_completed("docs")


async def test_two_share_the_work(board, run_agent, mesh_model, mesh_clock):
    """Who finds nothing to do waits for the other, and a rate limit is waited out."""
    mesh_model.agent("coder-1").policy(diligent)
    mesh_model.agent("coder-2").script(rate_limit(0.01)).policy(diligent)
    with mesh_clock.autojump(waiting=2):  # it moves while both wait
        async with anyio.create_task_group() as both:
            both.start_soon(run_agent, "coder-1")
            both.start_soon(run_agent, "coder-2")
    board.assert_all_completed()


async def test_a_lease_is_lost_while_the_model_thinks(board, run_agent, mesh_model, mesh_clock):
    """Its late result is refused, and what the other has done stays."""
    slow = mesh_model.agent("coder-1").script(call("claim_task"), hang("10min", then=FINISH), text("Too late."))
    mesh_model.agent("coder-2").script(call("claim_task"), FINISH, text("I was faster."))
    async with anyio.create_task_group() as both:
        both.start_soon(run_agent, "coder-1")
        await anyio.to_thread.run_sync(slow.until_hung)
        await anyio.to_thread.run_sync(mesh_clock.advance, "1min")
        assert await run_agent("coder-2") == "I was faster."
        mesh_clock.advance("10min")
    assert slow.requests[-1].last_result("complete_task")["code"] == "lease_lost"
    board.assert_attempts("schema", ["reclaimed", "completed"], by=["coder-1", "coder-2"])
