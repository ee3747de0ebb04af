"""Assertions on what was spent."""

from decimal import Decimal

import pytest

from pytest_agentmesh.assertions import assert_budget_left, assert_spent, assert_wasted, assert_within
from tests.support.boards import claimed, done, put
from tests.support.failing import fails


@pytest.fixture
def spent(board):
    """0.3 USD by x for a, 0.12 by y for b, 0.08 by y for no task."""
    put(board, "a", plan="p")
    put(board, "b", plan="q")
    first, second = claimed(board, "a", "x"), claimed(board, "b", "y")
    for cost in (0.1, 0.2):
        board.ledger.record(lease=first, model="m", output_tokens=100, cost_usd=cost)
    board.ledger.record(lease=second, model="n", output_tokens=40, cached_input_tokens=10, cost_usd="0.12")
    board.ledger.record("y", output_tokens=1, cost_usd="0.08")
    return board


@pytest.mark.parametrize("usd", ["0.5", 0.5, Decimal("0.50"), 0.1 + 0.2 + 0.2])
def test_dollars_are_what_they_print_as(usd, spent):
    """Never a binary fraction: three times ten cents is thirty."""
    assert_spent(spent, usd=usd, tokens=251)
    assert_spent(spent, usd=0.3, agent="x")


def test_a_sum_is_exact_to_the_last_unit(spent):
    """A millionth of a millionth of a dollar is a difference."""
    with fails(r"0.50 USD spent, expected 0.500000000001 USD \(-0.000000000001\)"):
        assert_spent(spent, usd="0.500000000001")
    with fails(r"251 tokens spent, expected 250 tokens \(\+1\)"):
        assert_spent(spent, tokens=250)


def test_a_breakdown_names_everybody_who_spent(spent):
    """Who is not named spent nothing; None stands for what has no name."""
    assert_spent(spent, by_agent={"x": 0.3, "y": 0.2, "idle": 0})
    assert_spent(spent, by_task={"a": 0.3, "b": 0.12, None: 0.08})
    assert_spent(spent, by_model={"m": 0.3, "n": 0.12, None: 0.08})
    with fails(r"spending by agent differs: y \+0.20"):
        assert_spent(spent, by_agent={"x": 0.3})
    with fails(r"spending by agent differs: x -0.10"):
        assert_spent(spent, by_agent={"x": 0.4, "y": 0.2})
    with fails(r"no task, or pruned \+0.08"):
        assert_spent(spent, by_task={"a": 0.3, "b": 0.12})
    with fails(r"no model \+0.08"):
        assert_spent(spent, by_model={"m": 0.3, "n": 0.12})


def test_a_scope_leaves_the_rest_out(spent):
    """A plan, an agent or a task, or several at once."""
    assert_spent(spent, usd=0.3, tokens=200, plan="p")
    assert_spent(spent, usd=0.12, agent="y", task_id="b")
    assert_spent(spent, usd=0, tokens=0, agent="x", task_id="b")
    assert_within(spent, usd=0.12, plan="q", agent="y")
    with fails("there is no plan 'pp'; did you mean p"):
        assert_spent(spent, usd=0, plan="pp")
    with fails("there is no task 'c'"):
        assert_within(spent, usd=1, task_id="c")


def test_a_limit_may_be_reached_and_not_passed(spent):
    """In dollars and in tokens."""
    assert_within(spent, usd=0.5, tokens=251)
    with fails(r"0.50 USD spent, at most 0.499999999999 USD expected \(\+0.000000000001\)"):
        assert_within(spent, usd="0.499999999999")
    with fails(r"251 tokens spent, at most 250 tokens expected \(\+1\)"):
        assert_within(spent, usd=1, tokens=250)


def test_an_unpriced_entry_is_no_free_one(spent):
    """Where dollars are asked for it fails the assertion, unless it is expected."""
    spent.ledger.record("x", model="home-made", output_tokens=9)
    assert_spent(spent, usd=0.5, unpriced=1)
    assert_within(spent, usd=0.5, unpriced=1)
    assert_within(spent, tokens=260)
    assert_spent(spent, tokens=260)
    for call in (
        lambda: assert_spent(spent, usd=0.5),
        lambda: assert_spent(spent, by_agent={"x": 0.3, "y": 0.2}),
        lambda: assert_spent(spent, usd=0.5, unpriced=2),
        lambda: assert_within(spent, usd=0.5),
    ):
        with fails("1 entry without a known price.*model home-made"):
            call()


def test_a_report_twice_is_one_where_the_call_has_a_request_id(spent):
    """Only what was really written twice is suspected."""
    lease = spent.claim_task("x", resume=True, take_over=True)
    for _ in range(2):
        spent.ledger.record(lease=lease, model="m", output_tokens=7, cost_usd="0.07", request_id="r-1")
    assert_spent(spent, usd=0.57)
    for _ in range(2):
        spent.ledger.record(lease=lease, model="m", output_tokens=7, cost_usd="0.01")
    with fails(r"x recorded the same usage for attempt 1 at a twice: events \d+ and \d+, 0.01 USD each"):
        assert_spent(spent, usd=0.58)


@pytest.mark.parametrize("scope", [{"plan": "q"}, {"agent": "y"}, {"task_id": "b"}], ids=str)
def test_only_entries_in_the_scope_are_suspected(scope, spent):
    """What somebody else recorded twice explains nothing here."""
    lease = spent.claim_task("x", resume=True, take_over=True)
    for _ in range(2):
        spent.ledger.record(lease=lease, model="m", output_tokens=7, cost_usd="0.01")
    with pytest.raises(AssertionError) as failure:
        assert_spent(spent, usd=0.11, **scope)
    assert "twice" not in str(failure.value)


def test_a_breakdown_is_read_to_its_end(board):
    """Five hundred agents fill a page of a report."""
    agents = [f"x{n}" for n in range(501)]
    for agent in agents:
        board.ledger.record(agent, output_tokens=1, cost_usd="0.01")
    assert_spent(board, by_agent=dict.fromkeys(agents, 0.01))


def test_a_pruned_task_is_still_in_the_sums(spent):
    """Under no task, since none of that name is left."""
    spent.complete_task(spent.claim_task("x", resume=True, take_over=True).lease)
    spent.prune(plan="p", older_than_sec=0)
    assert_spent(spent, usd=0.5, by_task={"b": 0.12, None: 0.38})
    with fails("0.50 USD spent, expected 0.51 USD"):
        assert_spent(spent, usd=0.51)


def test_what_is_left_of_a_budget_has_reservations_off(board):
    """Spent and reserved count alike."""
    put(board, "a", estimate_usd="0.50", estimate_tokens=1_000)
    board.budgets.set(usd=2, tokens=10_000)
    board.budgets.set(agent="x", tokens=500_000, period="day")
    assert_budget_left(board, usd=2, tokens=10_000)
    held = claimed(board, "a", "x")
    assert_budget_left(board, usd=1.5, tokens=9_000)
    board.ledger.record(lease=held, output_tokens=400, cost_usd="0.20")
    assert_budget_left(board, usd=1.5, tokens=9_000)
    for wrong in ("1.49", "1.51"):
        with fails("1.50 USD left of the budget of the board, expected"):
            assert_budget_left(board, usd=wrong)
    held.complete()
    assert_budget_left(board, usd="1.80", tokens=9_600)
    assert_budget_left(board, tokens=499_600, agent="x", period="day")
    with fails("no limit left of the budget of agent x for the day, expected 1.00 USD"):
        assert_budget_left(board, usd=1, agent="x", period="day")
    with fails("there is no lifetime budget of agent x; there is agent x for the day and the board"):
        assert_budget_left(board, tokens=1, agent="x")


def test_waste_is_what_attempts_used_in_vain(board, clock):
    """Failed, reclaimed and cancelled ones; not those that were given back or go on."""
    put(board, "a", "b", max_attempts=9)
    for end in (lambda c: c.fail("x"), lambda c: c.release(), lambda _: clock.advance(60), lambda c: c.complete()):
        clock.advance(600)
        held = claimed(board, "a")
        board.ledger.record(lease=held, output_tokens=10, cost_usd="0.01")
        end(held)
    assert_wasted(board, usd="0.02", tokens=20)
    assert_wasted(board, usd=0, task_id="b")
    with fails(r"0.02 USD wasted, expected 0.00 USD \(\+0.02\)"):
        assert_wasted(board, usd=0)


def test_a_silent_attempt_is_named(board):
    """Less was spent than expected, and one who completed said nothing."""
    put(board, "a")
    done(board, "a")
    with fails("attempt 1 at a completed without reporting any usage"):
        assert_spent(board, usd=0.1)
