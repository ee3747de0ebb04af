"""Budgets are set, looked at and cleared by scope, name and period; what was before them counts."""

import pytest

from agentmesh.errors import InvalidArgument, NotFound, RequestConflict
from tests.support.boards import claimed, event_count, put
from tests.support.purse import CENT, PERIODS, SCOPES, USD

DAY = 86_400


def test_a_budget_is_told_as_it_stands(board):
    """Limits, spend, reservations, what is left, what is over."""
    put(board, "a", estimate_usd=1, estimate_tokens=5)
    claim = claimed(board, "a")
    board.ledger.record(lease=claim, output_tokens=8, cost_usd="0.4")
    budget = board.budgets.set(plan="default", usd=2, tokens=7)
    assert (budget.scope, budget.name, budget.period, budget.strict) == ("plan", "default", "lifetime", False)
    assert (budget.limit_pusd, budget.spent_pusd, budget.reserved_pusd) == (2 * USD, 40 * CENT, 60 * CENT)
    assert (budget.left_pusd, budget.over_pusd, budget.left_tokens, budget.over_tokens) == (USD, None, 0, 1)
    assert budget == board.budgets.get(plan="default") == board.budgets.list()[0]


def test_a_limit_that_is_not_given_is_none(board):
    """Setting a budget again replaces both limits; nothing is left and nothing over where there is no limit."""
    board.budgets.set(usd=1, tokens=5)
    board.ledger.record("ann", output_tokens=3, cost_usd=2)
    budget = board.budgets.set(tokens=5)
    assert (budget.limit_pusd, budget.left_pusd, budget.over_pusd) == (None, None, None)
    assert (budget.spent_pusd, budget.left_tokens) == (2 * USD, 2)


def test_a_budget_that_is_set_late_counts_what_was_before(board, scope, period):
    """Spend of the period, and what open attempts have reserved, drawn on or not."""
    put(board, "a", estimate_usd=1, max_attempts=9)
    board.ledger.record(lease=claimed(board, "a", "ann"), cost_usd=5)
    board.store.clock.advance(DAY)
    claim = claimed(board, "a", "ann")
    board.ledger.record(lease=claim, cost_usd="0.3")
    board.ledger.record("ann", task_id="a", model="nobody-knows", output_tokens=1)
    budget = board.budgets.set(usd=9, **scope, period=period)
    assert budget.spent_pusd == (30 if period == "day" else 530) * CENT
    assert (budget.reserved_pusd, budget.unpriced) == (70 * CENT, 1)
    claim.complete()
    assert board.budgets.get(**scope, period=period).reserved_pusd == 0


def test_budgets_of_both_periods_and_all_scopes_stand_side_by_side(board):
    """Eight of them fall on one attempt; each is named by scope, name and period."""
    put(board, "a", estimate_tokens=1)
    for scope in SCOPES.values():
        for period in PERIODS:
            board.budgets.set(tokens=5, **scope, period=period)
    claim = claimed(board, "a", "ann")
    receipt = board.ledger.record(lease=claim, output_tokens=2)
    keys = {(budget.scope, budget.period) for budget in receipt.budgets}
    assert keys == {(scope, period) for scope in SCOPES for period in PERIODS}
    assert {budget.left_tokens for budget in receipt.budgets} == {3}
    assert len(board.budgets.list()) == 8
    assert board.budgets.clear(agent="ann", period="day")
    assert len(board.budgets.list()) == 7


def test_clearing_a_budget_lets_hand_outs_go_on(board, scope, period):
    """False when there is none; the ledger keeps what was spent."""
    put(board, "a")
    key = {**scope, "period": period}
    board.budgets.set(usd=0, **key)
    assert not board.claim_task("ann")
    assert board.budgets.clear(**key) is True
    assert board.budgets.clear(**key) is False
    assert board.budgets.get(**key) is None
    assert board.claim_task("ann")


@pytest.mark.parametrize("key", [{"plan": "nope"}, {"task_id": "nope"}])
def test_what_is_not_there_gets_no_budget(board, key):
    """An agent may have one before it has ever called."""
    before = event_count(board)
    with pytest.raises(NotFound):
        board.budgets.set(usd=1, **key)
    assert (event_count(board), board.budgets.list()) == (before, [])
    assert board.budgets.get(**key) is None
    assert board.budgets.clear(**key) is False
    assert board.budgets.set(usd=1, agent="not-yet").name == "not-yet"


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("usd", {}),
        ("usd", {"usd": -1}),
        ("usd", {"usd": "9223373"}),
        ("usd", {"usd": "much"}),
        ("tokens", {"tokens": -1}),
        ("tokens", {"tokens": 2**63}),
        ("tokens", {"tokens": 1.5}),
        ("strict", {"usd": 1, "strict": 1}),
        ("period", {"usd": 1, "period": "week"}),
        ("task_id", {"usd": 1, "plan": "default", "task_id": "a"}),
        ("agent", {"usd": 1, "plan": "default", "agent": "ann"}),
        ("plan", {"usd": 1, "plan": ""}),
        ("task_id", {"usd": 1, "task_id": ""}),
        ("agent", {"usd": 1, "agent": "a b"}),
        ("agent_id", {"usd": 1, "agent_id": ""}),
        ("request_id", {"usd": 1, "request_id": ""}),
    ],
)
def test_an_argument_out_of_its_limits_is_named(board, field, said):
    """And no budget is set."""
    put(board, "a")
    with pytest.raises(InvalidArgument) as caught:
        board.budgets.set(**said)
    assert caught.value.field == field
    assert board.budgets.list() == []


def test_setting_and_clearing_are_told_in_the_history(board):
    """By whom, whose, how much; once for a call that is repeated."""
    put(board, "a", plan="p")
    for _ in range(2):
        board.budgets.set(task_id="a", usd=1, period="day", agent_id="boss", request_id="s")
    for _ in range(2):
        assert board.budgets.clear(task_id="a", period="day", agent_id="boss", request_id="c")
    was_set, was_cleared = board.events(1)
    key = {"scope": "task", "name": "a", "period": "day"}
    assert (was_set.kind, was_set.agent_id, was_set.plan, was_set.task_id) == ("budget_set", "boss", "p", "a")
    assert was_set.data == {**key, "limit_pusd": USD, "limit_tokens": None, "strict": False}
    assert (was_cleared.kind, was_cleared.agent_id, was_cleared.data) == ("budget_cleared", "boss", key)
    with pytest.raises(RequestConflict):
        board.budgets.set(task_id="a", usd=2, period="day", agent_id="boss", request_id="s")


def test_repeating_the_call_that_set_a_budget_does_not_set_it_again(board):
    """It tells the budget as it stands; once it was cleared there is nothing to tell."""
    board.budgets.set(usd=1, request_id="r")
    board.budgets.set(usd=5)
    assert board.budgets.set(usd=1, request_id="r").limit_pusd == 5 * USD
    board.budgets.clear()
    with pytest.raises(NotFound):
        board.budgets.set(usd=1, request_id="r")
