"""Budgets: what a hand-out reserves, what usage makes of it, and what is refused; each test ends with sound books."""

import pytest

from agentmesh.errors import SumTooLarge
from agentmesh.model import BudgetLeft
from tests.support.boards import claimed, done, event_count, put, rows
from tests.support.ends import ENDS
from tests.support.purse import PERIODS, SCOPES, USD, Purse

DAY = 86_400


@pytest.fixture
def purse(board, scope, period, kind):
    """A budget of each kind, over task `a`, which is estimated at thirty hundredths of it."""
    board.create_task("A", id="a", max_attempts=9)
    found = Purse(board, kind, {**scope, "period": period})
    board.update_task("a", **found.size(30))
    return found


# Reserve, draw down, release


def test_a_hand_out_reserves_and_usage_draws_on_it(board, purse):
    """Spend takes the place of the reservation, and is not counted beside it; what is over it comes on top."""
    assert purse.books() == (0, 0, 100)
    claim = claimed(board, "a", "ann")
    assert purse.books() == (0, 30, 70)
    purse.use(claim, 10)
    assert purse.books() == (10, 20, 70)
    purse.use(claim, 15)
    assert purse.books() == (25, 5, 70)
    purse.use(claim, 15)
    assert purse.books() == (40, 0, 60)
    claim.complete()
    assert purse.books() == (40, 0, 60)


@pytest.mark.parametrize("how", ENDS)
def test_a_reservation_ends_with_its_attempt(board, purse, how):
    """However it ends; what was spent stays, and what comes in later is spent too."""
    claim = claimed(board, "a", "ann")
    purse.use(claim, 10)
    ENDS[how](board, claim)
    assert purse.books() == (10, 0, 90)
    purse.use(claim, 5)
    assert purse.books() == (15, 0, 85)


def test_what_does_not_fit_is_not_handed_out(board, purse):
    """Up to the last unit, and no further: by rank, by tag and by name; the task, its lease and the history stay."""
    claim = claimed(board, "a", "ann")
    purse.use(claim, 70)
    claim.release()
    assert claimed(board, "a", "ann").release()
    purse.use(claim, 1)
    board.update_task("a", tags=["t"])
    before = event_count(board)
    for wish in ({}, {"tags": ["t"]}, {"task_id": "a"}, {"plan": "default"}):
        refused = board.claim_task("ann", **wish)
        assert not refused
        assert (refused.reason, refused.advice) == (
            ("budget", "blocked_by") if wish.get("task_id") else ("released", "wait")
        )
    board.store.clock.advance(61)
    for wish in ({}, {"tags": ["t"]}, {"task_id": "a"}, {"plan": "default"}):
        refused = board.claim_task("ann", **wish)
        assert (refused.reason, refused.advice) == ("budget", "blocked_by")
        assert "leaves less than task a is estimated at" in refused.message
    assert event_count(board) == before
    assert not board.has_work(agent_id="ann")


def test_a_budget_that_is_used_up_lets_nothing_out(board, purse):
    """Not even a task that nobody made an estimate for."""
    claim = claimed(board, "a", "ann")
    purse.use(claim, 100)
    claim.fail("x")
    board.store.clock.advance(60)
    board.update_task("a", estimate_usd=None, estimate_tokens=None)
    for wish in ({}, {"task_id": "a"}):
        refused = board.claim_task("ann", **wish)
        assert (refused.reason, refused.advice) == ("budget", "blocked_by")
        assert refused.message.endswith("budget is used up.")


def test_the_refusal_names_the_budget(board, scope, period):
    """Whose it is and for how long; one of a day says when it begins anew."""
    put(board, "a", estimate_usd=2)
    board.budgets.set(usd=3, **scope, period=period)
    board.ledger.record("ann", task_id="a", cost_usd=2)
    whose = {"": "The board's", "plan": "Plan default's", "task_id": "Task a's", "agent": "Agent ann's"}
    words = f"{whose[''.join(scope)]} {'daily ' if period == 'day' else ''}budget leaves less"
    midnight = board.store.clock.now_us() + DAY * 1_000_000
    for wish in ({}, {"task_id": "a"}, {"plan": "default"}):
        refused = board.claim_task("ann", **wish)
        assert refused.message.startswith(words)
        assert refused.retry_at_us == (midnight if period == "day" else None)


def test_no_day_is_promised_to_a_task_that_no_day_has_room_for(board, scope):
    """It is estimated at more than the whole limit."""
    put(board, "a", estimate_usd=4)
    board.budgets.set(usd=3, **scope, period="day")
    for wish in ({}, {"task_id": "a"}):
        refused = board.claim_task("ann", **wish)
        assert (refused.reason, refused.retry_at_us) == ("budget", None)


@pytest.mark.parametrize("paths", [{}, {"writes": ["src/**"]}])
@pytest.mark.parametrize("wish", [{}, {"plan": "default"}, {"tags": ["t"]}])
@pytest.mark.parametrize("within", ["board", "plan", "agent"])
def test_a_claim_passes_over_what_is_too_dear(board, paths, wish, within):
    """And takes the most urgent task that fits, with or without paths."""
    for name, priority, estimate in (("dear", 9, 2), ("fits", 5, 1), ("free", 1, None)):
        board.create_task("T", id=name, priority=priority, estimate_usd=estimate, tags=["t"], **paths)
    board.budgets.set(usd="1.5", **SCOPES[within])
    for fitting in ("fits", "free"):
        claim = board.claim_task("ann", **wish)
        assert claim.task.id == fitting
        claim.complete()
    assert board.claim_task("ann", **wish).reason == "budget"


def test_a_task_that_its_own_budget_bars_is_passed_over(board):
    """One budget for one task keeps nobody from the others."""
    put(board, "a", priority=9, estimate_usd=1)
    put(board, "b")
    board.budgets.set(task_id="a", usd="0.5")
    assert board.claim_task("x").task.id == "b"
    assert board.claim_task("x").reason == "budget"
    assert board.explain("a").causes[0].kind == "budget"


def test_other_plans_go_on_when_one_has_used_up_its_budget(board):
    """A task of another plan is handed out, however urgent those of the poor one are."""
    put(board, "poor", priority=9, plan="poor")
    put(board, "rich", "next", plan="rich")
    board.budgets.set(plan="poor", usd=1)
    board.ledger.record("x", task_id="poor", cost_usd=1)
    assert board.claim_task("x").task.id == "rich"
    assert board.claim_task("x", plan="poor").message == "Plan poor's budget is used up."
    assert board.claim_task("x", plan="rich").task.id == "next"
    assert board.claim_task("x").message == "Plan poor's budget is used up."


def test_other_agents_go_on_when_one_has_used_up_its_budget(board):
    """Nobody pays for another."""
    put(board, "a", "b")
    board.budgets.set(agent="ann", tokens=5)
    board.ledger.record("ann", output_tokens=5)
    assert board.claim_task("ann").message == "Agent ann's budget is used up."
    assert board.claim_task("ann", task_id="a").message == "Agent ann's budget is used up."
    assert board.claim_task("bob")


def test_the_tightest_of_several_budgets_decides(board):
    """Money of the board, tokens of the plan, money of the agent for today; each alone would let more out."""
    put(board, *"abcd", estimate_usd=1, estimate_tokens=10)
    board.budgets.set(usd=10)
    board.budgets.set(plan="default", tokens=25)
    board.budgets.set(agent="ann", usd="1.5", period="day")
    assert board.claim_task("ann").budgets == (
        BudgetLeft(scope="board", name="", period="lifetime", left_pusd=9 * USD),
        BudgetLeft(scope="plan", name="default", period="lifetime", left_tokens=15),
        BudgetLeft(scope="agent", name="ann", period="day", left_pusd=USD // 2),
    )
    assert board.claim_task("ann").message == "Agent ann's daily budget leaves less than task b is estimated at."
    assert board.claim_task("bob")
    assert board.claim_task("bob").message == "Plan default's budget leaves less than task c is estimated at."


def test_what_is_in_hand_goes_on(board):
    """A budget that is used up ends no attempt: it renews, resumes, splits, completes, and reports."""
    put(board, "a", "b", estimate_usd=1)
    claim = claimed(board, "a", "ann")
    other = claimed(board, "b", "ann")
    board.budgets.set(usd=1)
    board.ledger.record(lease=claim, cost_usd=5)
    claim.heartbeat()
    again = board.claim_task("ann", resume=True, task_id="a")
    assert again.resumed
    assert again.budgets == (BudgetLeft(scope="board", name="", period="lifetime", left_pusd=0, over_pusd=4 * USD),)
    other.split([{"title": "part", "estimate_usd": 1}])
    again.complete()
    assert board.claim_task("ann").reason == "budget"


def test_a_claim_that_is_repeated_reserves_once(board):
    """And tells what is left now."""
    put(board, "a", estimate_usd=1)
    board.budgets.set(usd=2)
    first = board.claim_task("ann", request_id="r")
    again = board.claim_task("ann", request_id="r")
    assert first.budgets == again.budgets
    assert board.budgets.get().reserved_pusd == USD


def test_subtasks_fall_under_the_budget_of_their_plan(board):
    """What a split gives back is there for its parts."""
    put(board, "a", estimate_usd=1, plan="p")
    board.budgets.set(plan="p", usd=1)
    claimed(board, "a").split([{"title": "x", "id": "x", "estimate_usd": "0.7"}, {"title": "y", "estimate_usd": "0.4"}])
    assert board.claim_task("w").task.id == "x"
    assert board.claim_task("w").reason == "budget"


# A task's own budget


@pytest.mark.parametrize("period", PERIODS)
def test_an_estimate_that_changes_bars_the_task_or_lets_it_go(board, period):
    """At once, whichever way it changes."""
    put(board, "a", estimate_usd=1)
    board.budgets.set(task_id="a", usd=2, period=period)
    board.update_task("a", estimate_usd=3)
    assert board.claim_task("x").reason == "budget"
    board.update_task("a", estimate_usd=2)
    claim = board.claim_task("x")
    assert claim
    board.update_task("a", estimate_usd=5)
    claim.fail("x")
    board.store.clock.advance(60)
    assert board.claim_task("x").reason == "budget"
    board.update_task("a", estimate_usd=None)
    assert board.claim_task("x")


@pytest.mark.parametrize("period", PERIODS)
def test_a_limit_that_changes_bars_the_task_or_lets_it_go(board, period):
    """Raised, lowered, taken away."""
    put(board, "a", "b", estimate_usd=1, priority=1)
    for limit, wanted in (("0.9", "b"), ("1", "a"), ("0.9", "b"), (None, "a")):
        if limit is None:
            assert board.budgets.clear(task_id="a", period=period)
        else:
            board.budgets.set(task_id="a", usd=limit, period=period)
        claim = board.claim_task("x")
        assert claim.task.id == wanted
        claim.split([{"title": "part", "priority": -9}])
        board.cancel_task(board.list_tasks(limit=500).tasks[-1].id)


def test_a_plan_that_is_applied_again_with_other_estimates_counts(board):
    """It updates the task like any other change."""
    document = {"plan": "p", "tasks": [{"id": "a", "title": "A", "estimate_usd": 1}]}
    board.apply_plan(document)
    board.budgets.set(task_id="a", usd=2)
    document["tasks"][0]["estimate_usd"] = 3
    board.apply_plan(document)
    assert board.claim_task("x").reason == "budget"


def test_a_task_that_is_opened_again_has_spent_what_it_had(board):
    """Its budget lasts for its whole life, final or not."""
    put(board, "a", estimate_usd=1)
    board.budgets.set(task_id="a", usd=2)
    claim = claimed(board, "a")
    board.ledger.record(lease=claim, cost_usd="1.5")
    board.cancel_task("a")
    board.reopen_task("a")
    assert board.claim_task("x").reason == "budget"
    board.budgets.set(task_id="a", usd="2.5")
    assert board.claim_task("x")


def test_a_budget_may_be_set_for_a_task_that_is_over(board):
    """It is what a reopened one will fall under."""
    done(board, put(board, "a", estimate_usd=1)[0].id)
    board.budgets.set(task_id="a", usd="0.5")
    board.reopen_task("a")
    assert board.claim_task("x").reason == "budget"


# Limits of tokens, unknown prices, strictness


def test_usage_without_a_price_takes_tokens_and_no_money(board):
    """From the reservation as well."""
    put(board, "a", estimate_usd=1, estimate_tokens=100)
    board.budgets.set(usd=2, tokens=200)
    claim = claimed(board, "a")
    board.ledger.record(lease=claim, output_tokens=30)
    budget = board.budgets.get()
    assert (budget.spent_tokens, budget.reserved_tokens, budget.spent_pusd, budget.reserved_pusd) == (30, 70, 0, USD)
    assert budget.unpriced == 1


@pytest.mark.parametrize("period", PERIODS)
def test_a_strict_budget_stops_at_a_price_that_nobody_knows(board, scope, period):
    """Until the day is over, or it is strict no more."""
    put(board, "a")
    board.budgets.set(usd=9, strict=True, period=period, **scope)
    assert claimed(board, "a", "ann").release()
    board.store.clock.advance(61)
    board.ledger.record("ann", task_id="a", model="nobody-knows", output_tokens=1)
    for wish in ({}, {"task_id": "a"}):
        refused = board.claim_task("ann", **wish)
        assert (refused.reason, refused.advice) == ("budget", "blocked_by")
        assert refused.message.endswith("budget is strict, and 1 of its entries have no known price.")
    if period == "day":
        board.store.clock.advance(DAY)
        assert claimed(board, "a", "ann").release()
        board.store.clock.advance(-DAY)
    board.budgets.set(usd=9, period=period, **scope)
    assert board.claim_task("ann", task_id="a")


def test_a_strict_budget_of_tokens_needs_no_prices(board):
    """Tokens are known."""
    put(board, "a")
    board.budgets.set(tokens=9, strict=True)
    board.ledger.record("ann", output_tokens=1)
    assert board.claim_task("ann")


@pytest.mark.parametrize("limit", [{"usd": 0}, {"tokens": 0}, {"usd": 0, "tokens": 5}])
def test_a_limit_of_nothing_lets_nothing_out(board, scope, limit):
    """It is a way to stop hand-outs."""
    put(board, "a")
    board.budgets.set(**scope, **limit)
    for wish in ({}, {"task_id": "a"}):
        assert board.claim_task("ann", **wish).reason == "budget"


def test_the_largest_estimates_and_limits_fit(board):
    """A budget of tokens alone sets no limit to money, however much; what no row can hold is refused by name."""
    most = 9_223_372
    board.budgets.set(tokens=10)
    board.budgets.set(usd=most, agent="ann")
    put(board, "a", "b", estimate_usd=most)
    assert board.claim_task("ann").task.id == "a"
    assert board.claim_task("ann").reason == "budget"
    before = event_count(board)
    with pytest.raises(SumTooLarge):
        board.claim_task("bob")
    assert event_count(board) == before


# What explain says, and what the board knows without asking


def test_explain_names_the_budget(board, scope, period):
    """For the task and for the board, to the agent that asks; and when it begins anew."""
    put(board, "a", "after: a", estimate_usd=2)
    board.budgets.set(usd=1, **scope, period=period)
    for explained in (
        board.explain("a", agent_id="ann"),
        board.explain("after", agent_id="ann"),
        board.explain(agent_id="ann"),
    ):
        [cause] = explained.causes
        assert (cause.kind, cause.task_id, cause.waiting, cause.until_us) == ("budget", "a", 1, None)
        assert "budget leaves less than task a is estimated at" in cause.message


def test_explain_says_until_when(board):
    """A daily budget of a plan that is used up."""
    put(board, "a", plan="p")
    board.budgets.set(plan="p", usd=1, period="day")
    board.ledger.record("ann", task_id="a", cost_usd=1)
    [cause] = board.explain("a").causes
    assert cause.message == "a is ready, but not handed out: Plan p's daily budget is used up."
    assert cause.until_us == board.store.clock.now_us() + DAY * 1_000_000


def test_a_board_whose_tasks_are_all_final_says_so(board):
    """Although its budget is used up: nobody has to raise it, workers may go home."""
    put(board, "a")
    board.budgets.set(usd=1)
    claim = claimed(board, "a")
    board.ledger.record(lease=claim, cost_usd=1)
    claim.complete()
    answer = board.claim_task("ann")
    assert (answer.reason, answer.advice) == ("done", "stop")


def test_a_budget_of_another_plan_is_no_reason(board):
    """A task that lacks an agent with its skill lacks it still."""
    put(board, "barred", estimate_usd=1, plan="other")
    board.budgets.set(task_id="barred", usd="0.5")
    put(board, "a", requires=["gpu"], plan="p")
    assert board.claim_task("ann", plan="p").reason == "capability"


@pytest.mark.parametrize("other", [{}, {"priority": -1}])
def test_a_dead_agents_reservation_is_known_to_come_free(board, clock, other):
    """Whoever asks whether there is work is told yes: the claim that follows takes the lease back, and gets it."""
    put(board, "a", estimate_usd="0.6")
    board.budgets.set(usd=1)
    claimed(board, "a", "dead")
    if other:
        put(board, "b", estimate_usd="0.9", **other)
    assert not board.has_work()
    clock.advance(61)
    assert board.has_work()
    assert board.claim_task("ann", **({"task_id": "b"} if other else {}))


def test_no_budget_reserves_nothing_in_vain(board):
    """A board without budgets has none in its replies."""
    put(board, "a", estimate_usd=1)
    claim = claimed(board, "a")
    assert claim.budgets == ()
    assert board.ledger.record(lease=claim, cost_usd=1).budgets == ()
    assert rows(board, "SELECT COUNT(*) FROM budget") == [(0,)]
