"""How a crew is tested: its model follows a script, and everything else is real."""

import openai
import pytest
from crew import work_off
from crewai import LLM
from mcp import StdioServerParameters

from pytest_agentmesh import call, error, text

FINISH = call("finish_task", task_id=lambda turn: turn.last_result("claim_task")["task"]["id"], result="It is done.")


def diligent(turn):
    """What a good model does: it claims and completes, one task after the other, until a claim gives none."""
    if not turn.results or turn.results[-1].tool.name == "finish_task":
        return call("claim_task")
    return FINISH if "task" in turn.results[-1].value else text("I am done.")


@pytest.fixture
def board(mesh_board):
    """Two tasks, one after the other."""
    mesh_board.create_task("Write the schema", id="schema")
    mesh_board.create_task("Write the API", id="api", depends_on=["schema"])
    return mesh_board


@pytest.fixture
def run_crew(mesh_server, mesh_model):
    """Run a crew of one under that name, and the model of that name with it; what it says in the end."""

    def run(name):
        server, at = mesh_server.named(name, profile="worker"), mesh_model.agent(name)
        parameters = StdioServerParameters(command=server.command, args=server.args, env=server.env)
        return work_off(parameters, LLM(model="openai/gpt-5-mini", base_url=at.openai_url, api_key=at.key))

    return run


def test_it_works_off_the_board(board, run_crew, mesh_model):
    """In the order that the tasks need."""
    mesh_model.agent("coder-1").policy(diligent)
    assert run_crew("coder-1") == "I am done."
    board.assert_ran_in_order("schema", "api")


def test_another_takes_over_from_one_that_died(board, run_crew, mesh_model, mesh_clock):
    """When its lease has run out: the server of the dead one has ended, and nothing was released."""
    mesh_model.agent("coder-1").script(call("claim_task")).policy(lambda _: error(403))  # CrewAI tries again
    mesh_model.agent("coder-2").policy(diligent)
    with pytest.raises(openai.PermissionDeniedError):
        run_crew("coder-1")
    board.assert_claimed("schema", by="coder-1")
    mesh_clock.advance("1min")
    run_crew("coder-2")
    board.assert_handed_over("schema", from_="coder-1", to="coder-2")
    board.assert_completed("schema", "api")


def test_a_wrong_id_is_told_to_the_model(board, run_crew, mesh_model):
    """It may correct itself; on the board nothing has changed."""
    model = mesh_model.agent("coder-1").script(
        call("finish_task", task_id="task-42", result="It is done."), text("I have no such task.")
    )
    assert run_crew("coder-1") == "I have no such task."
    assert model.requests[1].last_result("finish_task")["code"] == "not_found"
    assert board.state == {"schema": "pending", "api": "blocked"}
