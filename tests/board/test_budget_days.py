"""Budgets in time: warnings, overshoot, days that begin anew, a clock that is set back."""

import pytest

from tests.support.boards import claimed, event_count, kinds, put
from tests.support.purse import CENT, SCOPES, USD, Purse

DAY = 86_400


# Warnings and overshoot


def test_a_budget_warns_once_and_says_once_that_it_is_passed(board, scope, kind):
    """At eighty hundredths, and past a hundred; each entry after that is silent."""
    put(board, "a")
    purse = Purse(board, kind, scope)
    claim = claimed(board, "a", "ann")
    told = []
    for hundredths in (79, 1, 20, 1, 50):
        seq = event_count(board)
        purse.use(claim, hundredths)
        told.append([one for one in kinds(board, seq) if one.startswith("budget")])
    assert told == [[], ["budget_warning"], [], ["budget_exceeded"], []]
    [event] = [event for event in board.events(0) if event.kind == "budget_warning"]
    assert (event.data["scope"], event.data[f"spent_{purse.name}"]) == (
        next(iter(SCOPES)) if not scope else event.data["scope"],
        purse.unit * 8 // 10,
    )


def test_one_entry_that_passes_the_limit_is_told_as_that(board):
    """No warning before it, and none after."""
    board.budgets.set(usd=1)
    board.ledger.record("ann", cost_usd=2)
    board.ledger.record("ann", cost_usd=2)
    assert kinds(board) == ["budget_set", "usage_recorded", "budget_exceeded", "usage_recorded"]


def test_a_limit_that_is_moved_warns_anew(board):
    """Lowered below the spend it is passed; raised, everything begins again."""
    board.budgets.set(usd=10)
    board.ledger.record("ann", cost_usd=5)
    board.budgets.set(usd=6)
    board.budgets.set(usd=6)
    board.budgets.set(usd=4)
    board.budgets.set(usd=100)
    board.ledger.record("ann", cost_usd=80)
    told = [kind for kind in kinds(board) if kind not in ("budget_set", "usage_recorded")]
    assert told == ["budget_warning", "budget_exceeded", "budget_warning"]


def test_spend_past_a_limit_is_booked_and_said(board):
    """The receipt tells by how much, at every budget it falls under."""
    put(board, "a", estimate_usd=1)
    board.budgets.set(usd=3)
    board.budgets.set(plan="default", usd=2, tokens=50)
    claim = claimed(board, "a")
    receipt = board.ledger.record(lease=claim, output_tokens=60, cost_usd="2.5")
    of_board, of_plan = receipt.budgets
    assert (of_board.left_pusd, of_board.over_pusd) == (USD // 2, None)
    assert (of_plan.left_pusd, of_plan.over_pusd, of_plan.left_tokens, of_plan.over_tokens) == (0, USD // 2, 0, 10)
    assert board.ledger.record(lease=claim, cost_usd=7).budgets[0].over_pusd == 65 * USD // 10


# Days


def test_a_day_begins_with_new_books(board, clock, scope):
    """At midnight UTC, to the microsecond; reservations go on, for their attempts do."""
    put(board, "a", estimate_usd=1, lease_timeout_sec=3 * DAY)
    board.budgets.set(usd=2, period="day", **scope)
    claim = claimed(board, "a", "ann")
    board.ledger.record(lease=claim, cost_usd="0.6")
    clock.advance(DAY - 0.000_001)
    budget = board.budgets.get(period="day", **scope)
    assert (budget.spent_pusd, budget.reserved_pusd, budget.left_pusd) == (60 * CENT, 40 * CENT, USD)
    clock.advance(0.000_001)
    budget = board.budgets.get(period="day", **scope)
    assert (budget.spent_pusd, budget.reserved_pusd, budget.left_pusd) == (0, 40 * CENT, 160 * CENT)
    receipt = board.ledger.record(lease=claim, cost_usd="0.3")
    assert receipt.budgets[0].left_pusd == 160 * CENT
    assert board.budgets.list()[0].spent_pusd == 30 * CENT
    claim.complete()
    assert board.budgets.get(period="day", **scope).left_pusd == 170 * CENT


def test_the_first_entry_of_a_day_is_booked_once(board, clock, scope):
    """The books of the new day are worked out from a ledger that does not have it yet."""
    put(board, "a")
    board.budgets.set(tokens=100, period="day", **scope)
    for day in range(3):
        for number in range(1, 3):
            board.ledger.record("ann", task_id="a", output_tokens=5)
            assert board.budgets.get(period="day", **scope).spent_tokens == 5 * number, day
        clock.advance(DAY)


def test_hand_outs_go_on_the_next_day(board, clock, scope, period):
    """Where the budget is one of a day; one for life stays used up."""
    put(board, "a", estimate_usd=1)
    board.budgets.set(usd=2, **scope, period=period)
    board.ledger.record("ann", task_id="a", cost_usd=2)
    assert board.claim_task("ann").reason == "budget"
    clock.advance(DAY)
    assert bool(board.claim_task("ann")) is (period == "day")


def test_each_day_warns_anew(board, clock):
    """Once a day, and once a day that it is passed; also where the limit was set anew in between."""
    board.budgets.set(usd=1, period="day")
    for day in range(3):
        seq = event_count(board)
        board.ledger.record("ann", cost_usd="0.8")
        board.budgets.set(usd=1, period="day")
        board.ledger.record("ann", cost_usd="0.9")
        told = [kind for kind in kinds(board, seq) if kind in ("budget_warning", "budget_exceeded")]
        assert told == ["budget_warning", "budget_exceeded"], day
        clock.advance(DAY)
        board.budgets.set(usd=1, period="day")


def test_a_budget_set_anew_on_another_day_counts_that_day(board, clock):
    """What was told and spent the day before is over."""
    board.budgets.set(usd=1, period="day")
    board.ledger.record("ann", cost_usd="0.9")
    clock.advance(DAY)
    board.ledger.record("bob", cost_usd="0.85")
    board.budgets.clear(period="day")
    budget = board.budgets.set(usd=1, period="day")
    assert (budget.spent_pusd, kinds(board).count("budget_warning")) == (85 * CENT, 3)


def test_a_clock_that_is_set_back_has_the_books_of_the_day_that_came_again(board, clock, scope):
    """And those of the later day when it comes for the second time."""
    put(board, "a")
    key = {**scope, "period": "day"}
    board.budgets.set(usd=9, **key)
    board.ledger.record("ann", task_id="a", cost_usd=1)
    clock.advance(DAY)
    board.ledger.record("ann", task_id="a", cost_usd=2)
    clock.advance(-DAY)
    assert board.budgets.get(**key).spent_pusd == USD
    board.ledger.record("ann", task_id="a", cost_usd=4)
    assert board.budgets.get(**key).spent_pusd == 5 * USD
    clock.advance(DAY)
    assert board.budgets.get(**key).spent_pusd == 2 * USD
    board.ledger.record("ann", task_id="a", cost_usd=1)
    assert board.budgets.get(**key).spent_pusd == 3 * USD


@pytest.mark.parametrize("paths", [{}, {"writes": ["src/**"]}, {"tags": ["t"]}])
def test_a_clock_that_is_set_back_hands_out_what_that_day_allows(board, clock, scope, paths):
    """The bar of a task's own budget was made for the other day: whichever of both is fuller, today's books decide."""
    wish = {"tags": ["t"]} if "tags" in paths else {}
    put(board, "a", estimate_usd="0.6", max_attempts=9, **paths)
    key = {**scope, "period": "day"}
    board.budgets.set(usd=1, **key)
    board.ledger.record("ann", task_id="a", cost_usd="0.9")
    clock.advance(DAY)
    board.ledger.record("ann", task_id="a", cost_usd="0.1")
    clock.advance(-DAY)
    assert board.claim_task("ann", **wish).reason == "budget"
    clock.advance(DAY)
    assert board.claim_task("ann", **wish).complete().state == "completed"
    board.reopen_task("a")
    board.ledger.record("ann", task_id="a", cost_usd="0.9")
    assert board.claim_task("ann", **wish).reason == "budget"
    clock.advance(-2 * DAY)
    assert board.claim_task("ann", **wish)
