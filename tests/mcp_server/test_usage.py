"""The tools of the ledger and of budgets: usage finds its attempt, answers say what is left, reports come in parts."""

import json

import pytest

from agentmesh.errors import InvalidArgument, NotFound
from agentmesh.mcp_server import reply
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE
from agentmesh.model import USAGE_GROUPS

TOOLS = {tool.name: tool for tool in TABLE}
BLOCK = {"input_tokens": 1000, "cache_read_input_tokens": 2000, "output_tokens": 100}


def doing(board, agent=None):
    """Call tools by their names, in a session of its own, which renews nothing."""
    session = Session(board, agent=agent, keepalive_sec=0)
    return lambda tool, **arguments: TOOLS[tool].run(Call(session), arguments)


@pytest.fixture
def do(board):
    """A session that has a task `t` in hand."""
    do = doing(board)
    do("create_task", title="t", id="t")
    do("claim_task", agent_id="ann")
    return do


def sole_entry(board):
    """What the ledger says, where it says one thing."""
    (entry,) = board.ledger.entries().entries
    return entry


def test_usage_goes_to_the_attempt_that_the_session_holds(do, board):
    """The answer is what the agent does not know: the number, the attempt, the price."""
    told = do(
        "record_usage", agent_id="ann", task_id="t", model="claude-sonnet-4-5", input_tokens=1000, duration_ms=1500
    )
    assert told == {"id": 1, "task_id": "t", "fence": 1, "cost_usd": "0.003"}
    entry = sole_entry(board)
    assert (entry.agent_id, entry.input_tokens, entry.duration_us) == ("ann", 1000, 1_500_000)


def test_usage_of_a_lost_attempt_is_taken_as_waste(do, board, clock):
    """Also when somebody else has the task by then: it stays with the attempt it was for."""
    clock.advance(60)
    board.claim_task("bob")
    told = do("record_usage", agent_id="ann", task_id="t", output_tokens=5, cost_usd=0.25)
    assert (told["fence"], told["cost_usd"]) == (1, "0.25")
    assert do("usage_report", by="agent")["total"]["wasted_usd"] == "0.25"


def test_usage_is_taken_from_a_session_that_was_taken_over(do, board):
    """Its token is worth nothing any more, its word is: the attempt is the one that the agent had last."""
    doing(board)("claim_task", agent_id="ann", task_id="t", resume=True, take_over=True)
    assert do("record_usage", agent_id="ann", task_id="t", output_tokens=5)["fence"] == 1


def test_usage_may_be_for_a_task_that_is_not_held_or_for_none(do, board):
    """Then it belongs to no attempt."""
    assert "fence" not in do("record_usage", agent_id="bob", task_id="t", output_tokens=5)
    assert "task_id" not in do("record_usage", agent_id="bob", output_tokens=5)
    named = doing(board, agent="cleo")
    assert named("record_usage", output_tokens=5) == {"id": 3, "unpriced": True}
    assert board.ledger.entries().entries[-1].agent_id == "cleo"
    with pytest.raises(NotFound):
        do("record_usage", agent_id="ann", task_id="missing", output_tokens=5)


def test_a_token_names_the_attempt_too(do):
    """Whoever shows it; without its task it says nothing."""
    token = do("claim_task", agent_id="ann", task_id="t", resume=True)["lease"]
    shown = {"agent_id": "bob", "lease": token, "output_tokens": 5}
    assert do("record_usage", **shown, task_id="t")["fence"] == 1
    with pytest.raises(InvalidArgument, match="task_id"):
        do("record_usage", **shown)


@pytest.mark.parametrize("as_sent", [dict, json.dumps])
def test_a_usage_block_is_taken_as_its_vendor_sent_it(do, board, as_sent):
    """As an object or as its text; fields that say something new are named."""
    sent = as_sent({**BLOCK, "batch_tokens": 7})
    told = do("record_usage", agent_id="ann", task_id="t", model="claude-sonnet-4-5", usage=sent)
    assert (told["cost_usd"], told["unknown"]) == ("0.0051", ["batch_tokens"])
    assert sole_entry(board).cached_input_tokens == 2000


def test_an_ambiguous_block_is_taken_once_its_dialect_is_named(do):
    """The hint tells of the argument, and the argument is there."""
    block = {"input_tokens": 10, "cached_input_tokens": 4, "cache_read_input_tokens": 4, "output_tokens": 1}
    with pytest.raises(InvalidArgument) as caught:
        do("record_usage", agent_id="ann", usage=block)
    assert "dialect" in caught.value.hint
    assert do("record_usage", agent_id="ann", usage=block, dialect="anthropic")["id"] == 1


def test_what_has_no_known_price_is_unpriced_and_never_free(do):
    """In the answer and in the report."""
    told = do("record_usage", agent_id="ann", task_id="t", model="my-own-model", output_tokens=5)
    assert told["unpriced"] is True
    assert "cost_usd" not in told
    assert do("usage_report", by="model")["lines"][0]["unpriced"] == 1


def test_a_repeated_report_is_written_once(do, board):
    """And gives the first answer."""
    used = {"agent_id": "ann", "task_id": "t", "output_tokens": 5, "request_id": "r1"}
    assert do("record_usage", **used) == do("record_usage", **used)
    assert sole_entry(board).id == 1


def test_the_answer_says_what_budgets_leave(do):
    """Near the limit, and past it, it says so."""
    do("set_budget", usd=1)
    do("set_budget", plan="default", tokens=1000)
    used = {"agent_id": "ann", "task_id": "t", "output_tokens": 1}
    board_budget = {"scope": "board", "period": "lifetime"}
    told = do("record_usage", **used, cost_usd=0.79)
    assert told["budgets"] == [
        board_budget | {"left_usd": "0.21"},
        {"scope": "plan", "name": "default", "period": "lifetime", "left_tokens": 999},
    ]
    assert do("record_usage", **used, cost_usd=0.01)["budgets"][0] == board_budget | {"left_usd": "0.2", "near": True}
    told = do("record_usage", **used, cost_usd=0.3)
    assert told["budgets"][0] == board_budget | {"left_usd": "0", "over_usd": "0.1"}


@pytest.mark.parametrize("scope", [{}, {"plan": "default"}, {"task_id": "t"}, {"agent": "ann"}])
def test_each_scope_has_a_budget_of_its_own(do, board, scope):
    """It is shown as it stands, warns when it is near, and can be taken away."""
    shown = do("set_budget", **scope, usd=2, period="day", strict=True, agent_id="boss")
    assert (shown["limit_usd"], shown["spent_usd"], shown["strict"]) == ("2", "0", True)
    assert do("record_usage", agent_id="ann", task_id="t", cost_usd=1.6)["budgets"][0]["near"] is True
    assert do("set_budget", **scope, period="day", clear=True) == {"cleared": True}
    assert do("set_budget", **scope, period="day", clear=True) == {"cleared": False}
    assert board.budgets.list() == []


def test_a_budget_without_a_limit_is_refused(do):
    """Either a limit or its end, not neither and not both; nobody is led to the end."""
    with pytest.raises(InvalidArgument) as caught:
        do("set_budget", strict=True)
    assert "clear" not in caught.value.hint
    for limit in ({"usd": 1}, {"tokens": 1}, {"strict": False}):
        with pytest.raises(InvalidArgument, match="clear takes one away"):
            do("set_budget", clear=True, **limit)
    with pytest.raises(InvalidArgument, match="only one"):
        do("set_budget", plan="default", agent="ann", usd=1)


def test_a_report_says_nothing_of_zeros(do):
    """Neither in its lines nor in its total."""
    do("record_usage", agent_id="ann", task_id="t", model="claude-sonnet-4-5", output_tokens=10)
    sums = {"entries": 1, "output_tokens": 10, "tokens": 10, "cost_usd": "0.00015"}
    line = {"plan": "default", "task_id": "t"} | sums
    assert do("usage_report", by="task") == {"by": "task", "lines": [line], "total": sums}
    assert do("usage_report")["lines"] == [{"plan": "default"} | sums]
    assert do("usage_report", plan="default", agent="bob") == {"by": "plan", "lines": [], "total": {}}


def test_a_report_is_of_what_is_asked_for(do):
    """A task, an agent, a model, some days; dearest first."""
    do("record_usage", agent_id="ann", task_id="t", model="m1", cost_usd=1)
    do("record_usage", agent_id="bob", model="m2", cost_usd=2)
    assert [line["model"] for line in do("usage_report", by="model")["lines"]] == ["m2", "m1"]
    for scope in ({"task_id": "t"}, {"agent": "ann"}, {"model": "m1"}, {"plan": "default"}):
        for by in USAGE_GROUPS:
            report = do("usage_report", by=by, **scope)
            assert [line["cost_usd"] for line in [*report["lines"], report["total"]]] == ["1", "1"]
    assert do("usage_report", until="2001-01-01")["total"] == {}
    assert do("usage_report", since="2001-01-01")["total"]["entries"] == 2
    with pytest.raises(InvalidArgument, match="since"):
        do("usage_report", since="yesterday")


def test_a_long_report_comes_in_parts_that_fit(do, board):
    """`more` counts the rest, `next_offset` leads to it."""
    for number in range(700):
        board.ledger.record("a", model=f"{'m' * 124}{number:04}", output_tokens=1, cost_usd=1)
    seen, offset = [], 0
    while offset is not None:
        page = do("usage_report", by="model", limit=500, offset=offset)
        assert reply.size(page) <= reply.LIMIT
        seen += [line["model"] for line in page["lines"]]
        assert page.get("more", 0) == 700 - len(seen)
        offset = page.get("next_offset")
    assert len(set(seen)) == 700
    assert do("usage_report", by="model", limit=3)["next_offset"] == 3


def test_a_claim_carries_what_its_budgets_leave(do):
    """Its own estimate taken off."""
    do("set_budget", usd=1)
    do("create_task", title="u", id="u", estimate_usd=0.25, estimate_tokens=5000)
    claim = do("claim_task", agent_id="bob")
    assert claim["task"]["estimate_tokens"] == 5000
    assert claim["budgets"] == [{"scope": "board", "period": "lifetime", "left_usd": "0.75"}]


def test_a_claim_that_gets_nothing_says_what_to_do_about_it(do, board):
    """A budget, a cap and a storm each in its own words."""
    do("create_task", title="u", id="u", max_attempts=20)
    board.set_claim_cap(1, agent_id="ann")
    capped = do("claim_task", agent_id="ann")
    assert (capped["reason"], capped["advice"]) == ("claim_cap", "blocked_by")
    do("set_budget", agent="bob", usd=0)
    spent = do("claim_task", agent_id="bob")
    assert (spent["reason"], spent["advice"]) == ("budget", "blocked_by")
    for _ in range(5):
        do("create_task", title="v")
        held = {"task_id": do("claim_task", agent_id="cleo")["task"]["id"], "agent_id": "cleo"}
        do("fail_task", **held, error="no answer", kind="quota")
    storm = do("claim_task", agent_id="cleo")
    assert (storm["reason"], storm["advice"], "retry_at" in storm) == ("storm", "wait", True)
