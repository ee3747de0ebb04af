"""How a LangGraph agent is tested: its model follows a script, and everything else is real."""

import openai
import pytest
from agent import work_off
from langchain_openai import ChatOpenAI

from agentmesh.model import Usage
from pytest_agentmesh import call, error, text

pytestmark = pytest.mark.anyio

FINISH = call("complete_task", task_id=lambda turn: turn.last_result("claim_task")["task"]["id"], result={"ok": True})


def diligent(turn):
    """What a good model does: it claims and completes, one task after the other, until a claim gives none."""
    if not turn.results or turn.results[-1].tool.name == "complete_task":
        return call("claim_task")
    return FINISH if "task" in turn.results[-1].value else text("I am done.")


@pytest.fixture
def board(mesh_board):
    """Two tasks, one after the other."""
    mesh_board.create_task("Write the schema", id="schema")
    mesh_board.create_task("Write the API", id="api", depends_on=["schema"])
    return mesh_board


@pytest.fixture
def run_agent(mesh_session, mesh_model):
    """Run the agent of that name, and the model of that name with it; what the agent says in the end."""

    async def run(name, faults=()):
        at = mesh_model.agent(name)
        async with mesh_session(name, profile="worker", faults=faults) as session:
            return await work_off(session, ChatOpenAI(model="gpt-5-mini", base_url=at.openai_url, api_key=at.key))

    return run


@pytest.mark.parametrize("faults", [[], ["claim_task:lost_request"], ["complete_task:lost_reply"]])
async def test_it_works_off_the_board(board, run_agent, mesh_model, faults):
    """In the order that the tasks need. What was not answered is said again, and done once."""
    mesh_model.agent("coder-1").policy(diligent)
    assert await run_agent("coder-1", faults) == "I am done."
    board.assert_ran_in_order("schema", "api")
    board.assert_attempts("schema", ["completed"])


async def test_another_takes_over_from_one_that_died(board, run_agent, mesh_model, mesh_clock):
    """When its lease has run out, not before."""
    mesh_model.agent("coder-1").script(call("claim_task"), error(403))
    mesh_model.agent("coder-2").policy(diligent)
    with pytest.raises(openai.PermissionDeniedError):
        await run_agent("coder-1")
    await run_agent("coder-2")
    board.assert_claimed("schema", by="coder-1")
    mesh_clock.advance("1min")
    await run_agent("coder-2")
    board.assert_attempts("schema", ["reclaimed", "completed"], by=["coder-1", "coder-2"])


async def test_a_budget_ends_its_work(board, run_agent, mesh_model):
    """What its model used is in the ledger, and under a budget that is used up no task is handed out."""
    board.budgets.set(agent="coder-1", tokens=50_000)
    finish = FINISH.using(Usage(input_tokens=60_000, output_tokens=2_000))
    mesh_model.agent("coder-1").script(call("claim_task"), finish, call("claim_task"), text("No money."))
    assert await run_agent("coder-1") == "No money."
    board.assert_spent(tokens=62_000, task_id="schema")
    board.assert_never_ran("api")


async def test_a_confused_model_does_no_harm(board, run_agent, mesh_model):
    """It calls a tool that is not there, then ends a task that is not there; it is told so, and may go on."""
    wrong = call("finish_everything"), call("complete_task", task_id="task-42"), text("I was wrong.")
    model = mesh_model.agent("coder-1").script(*wrong, strict=False)
    assert await run_agent("coder-1") == "I was wrong."
    assert model.requests[-1].last_result("complete_task")["code"] == "not_found"
    assert board.state == {"schema": "pending", "api": "blocked"}
