"""What answers cost stands in the board's ledger: once, at the agent's own attempt."""

from contextlib import suppress
from http.client import IncompleteRead

import pytest

from agentmesh.model import Usage
from pytest_agentmesh.endpoint import Endpoint
from pytest_agentmesh.replies import broken, call, cut, hang, overloaded, rate_limit, text
from tests.plugin.raw_clients import Chat, Messages
from tests.support.boards import open_board, put

COST = Usage(input_tokens=1_000, cached_input_tokens=200, output_tokens=50)


@pytest.fixture
def mesh_model(board):
    """An endpoint that tells the board what its answers cost."""
    with Endpoint(board) as endpoint:
        yield endpoint
        endpoint.verify()


def entries(board):
    """The entries of the ledger, as far as an agent's answer says what stands in them."""
    return [
        (
            e.agent_id,
            e.task_id,
            e.fence,
            e.model,
            Usage(e.input_tokens, e.cached_input_tokens, e.cache_write_tokens, e.output_tokens),
        )
        for e in board.ledger.entries().entries
    ]


def test_an_answer_is_charged_to_the_attempt_that_its_agent_holds(board, mesh_model):
    """Before the claim to the agent alone, then to its attempt: known models have their price."""
    put(board, "t")
    mesh_model.agent("ada").script(call("claim_task", agent_id="ada").using(COST), text("done", usage=COST))
    client = Chat(mesh_model.agent("ada"))
    [(call_id, _, _)] = client.ask().calls
    board.claim_task("ada")
    client.result(call_id, "{}")
    client.ask(stream=True)
    assert entries(board) == [("ada", None, None, "gpt-5", COST), ("ada", "t", 1, "gpt-5", COST)]
    assert all(entry.cost_pusd for entry in board.ledger.entries().entries)


def test_with_two_attempts_nobody_guesses(board, mesh_model):
    """An agent that holds two tasks is charged itself."""
    put(board, "s", "t")
    mesh_model.agent("ada").script(text("x", usage=COST))
    board.claim_task("ada")
    board.claim_task("ada")
    Messages(mesh_model.agent("ada")).ask()
    assert [entry[:3] for entry in entries(board)] == [("ada", None, None)]


def test_the_tokens_that_are_told_are_those_that_are_recorded(board, mesh_model):
    """Also where they were counted, and where the answer was cut."""
    mesh_model.agent("ada").script(text("twelve chars"), cut(text("twelve chars"), after=2))
    client = Chat(mesh_model.agent("ada"))
    told = [client.ask().usage for _ in range(2)]
    recorded = board.ledger.entries().entries
    assert [usage["completion_tokens"] for usage in told] == [entry.output_tokens for entry in recorded] == [3, 2]
    assert [usage["prompt_tokens"] for usage in told] == [entry.input_tokens for entry in recorded]


def test_what_was_not_answered_costs_nothing(board, mesh_model):
    """Limits, overload and silence are free; an answer that broke off in the middle is not."""
    agent = mesh_model.agent("ada").script(rate_limit(), overloaded(), hang(0), broken(text("x", usage=COST)))
    for _ in range(3):
        with suppress(ConnectionError):
            Chat(agent).send()
    assert entries(board) == []
    with pytest.raises(IncompleteRead):
        Chat(agent).send()
    assert [entry[-1] for entry in entries(board)] == [COST]


def test_agents_that_report_for_themselves_are_left_alone(board, mesh_model):
    """`record=False` for an agent, or for the endpoint; a usage of nothing is no entry, either."""
    Chat(mesh_model.agent("ada", record=False).script(text("x"))).ask()
    Chat(mesh_model.agent("bob").script(text("x", usage=Usage()))).ask()
    with Endpoint(board, record=False) as quiet:
        Chat(quiet.agent("bob").script(text("x"))).ask()
        Chat(quiet.agent("bob", record=True).script(text("x"))).ask()
    assert [entry[0] for entry in entries(board)] == ["bob"]


def test_two_endpoints_at_one_board_do_not_take_each_other_for_a_repetition(board):
    """Each counts its answers from one, and each of them is charged."""
    for _ in range(2):
        with Endpoint(board) as endpoint:
            Chat(endpoint.agent("ada").script(text("x", usage=COST))).ask()
    assert len(entries(board)) == 2


def test_a_refusal_of_the_ledger_reaches_the_test_and_not_the_agent(tmp_path, clock):
    """The answer arrives all the same."""
    with open_board(tmp_path / "closed.db", clock) as board:
        pass
    with Endpoint(board) as endpoint:
        assert Chat(endpoint.agent("ada").script(text("still"))).ask().words == "still"
        with pytest.raises(AssertionError, match=r"request 1: the ledger did not take its usage: .*closed"):
            endpoint.verify()
