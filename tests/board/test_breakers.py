"""Breakers: a storm of `infra` and `quota` failures pauses the hand-outs of its plan, each time for longer."""

import pytest

from tests.support.boards import claimed, kinds, put

SECOND = 1_000_000
FAILURES = 5


@pytest.fixture
def stormy(board):
    """Two plans with enough tasks; failures in vain are cheap."""
    put(board, *[f"s{number}" for number in range(40)], plan="p")
    put(board, *[f"q{number}" for number in range(9)], plan="q", priority=-1)
    return board


def fail(board, times=1, *, kind="infra", plan="p", between=0.0):
    """Claim a task of a plan and fail it for good, again and again."""
    for _ in range(times):
        claim = board.claim_task("w", plan=plan)
        assert claim, claim
        board.store.clock.advance(between)
        claim.fail("x", kind=kind, retry=False)


def paused_for(board, plan="p"):
    """For how many seconds hand-outs of a plan pause; 0 when they do not."""
    answer = board.claim_task("w", plan=plan)
    if answer:
        answer.release()
        board.store.clock.advance(61)
        return 0
    assert (answer.reason, answer.advice) == ("storm", "wait")
    return (answer.retry_at_us - board.store.clock.now_us()) / SECOND


@pytest.mark.parametrize("kind", ["infra", "quota"])
def test_five_failures_in_a_minute_pause_their_plan(stormy, kind):
    """For thirty seconds; four do not. The answer says when to ask again."""
    fail(stormy, FAILURES - 1, kind=kind)
    fail(stormy, kind=kind)
    answer = stormy.claim_task("w", plan="p")
    assert (answer.reason, answer.advice) == ("storm", "wait")
    assert answer.message == "Plan p pauses after a storm of infra and quota failures."
    assert answer.retry_at_us == stormy.store.clock.now_us() + 30 * SECOND
    assert stormy.claim_task("w", task_id="s30").reason == "storm"
    assert not stormy.has_work(plan="p")


def test_both_kinds_count_together(stormy):
    """Whether the provider is down or the quota used up."""
    fail(stormy, 3)
    fail(stormy, 2, kind="quota")
    assert paused_for(stormy) == 30


def test_the_minute_slides(stormy, clock):
    """Any five within sixty seconds are a storm, wherever earlier ones were; a microsecond more, and they are not."""
    fail(stormy)
    clock.advance(59)
    fail(stormy, 2)
    clock.advance(2)
    fail(stormy, 2)
    clock.advance(57.000_001)
    assert stormy.claim_task("w", plan="p").release()
    clock.advance(1)
    fail(stormy, 2)
    assert paused_for(stormy) == 0
    clock.advance(3600)
    fail(stormy, FAILURES, between=15)
    assert paused_for(stormy) == 30


def test_failures_of_the_task_itself_are_no_storm(stormy):
    """They use up its hand-outs, so they end by themselves; nor do releases count."""
    fail(stormy, 20, kind="task")
    for _ in range(9):
        claimed(stormy, "s39", "w").release()
    assert paused_for(stormy) == 0


def test_other_plans_go_on(stormy):
    """Theirs is another provider, perhaps; their failures are counted apart."""
    fail(stormy, FAILURES - 1, plan="q")
    fail(stormy, FAILURES)
    assert stormy.claim_task("w").task.plan == "q"
    assert stormy.claim_task("w", plan="q")
    assert paused_for(stormy) == 30


def test_when_every_ready_plan_pauses_the_answer_is_a_storm(stormy, clock):
    """Also for who did not name a plan; it says when the first of them may go on, or something else is due."""
    fail(stormy, FAILURES, plan="q")
    clock.advance(10)
    fail(stormy, FAILURES)
    answer = stormy.claim_task("w")
    assert (answer.reason, answer.advice) == ("storm", "wait")
    assert answer.retry_at_us == clock.now_us() + 30 * SECOND


def test_what_is_in_hand_goes_on(stormy):
    """It may be renewed, resumed and completed; its later failure does not make the pause longer."""
    claims = [stormy.claim_task("v", plan="p") for _ in range(3 + FAILURES)]
    fail(stormy, FAILURES)
    claims[0].heartbeat()
    assert stormy.claim_task("v", resume=True, task_id=claims[0].task.id).complete()
    claims[1].complete()
    for claim in claims[2:]:
        claim.fail("x", kind="quota", retry=False)
    assert paused_for(stormy) == 30
    assert kinds(stormy).count("breaker_opened") == 1


def test_the_pause_is_over_when_its_time_is(stormy, clock):
    """To the microsecond, with nobody doing anything; what failed before it does not count after it."""
    fail(stormy, FAILURES)
    clock.advance(29.999_999)
    assert stormy.claim_task("w", plan="p").reason == "storm"
    clock.advance(0.000_001)
    assert stormy.has_work(plan="p")
    fail(stormy, FAILURES - 1)
    assert paused_for(stormy) == 0


def test_storm_after_storm_pauses_for_longer(stormy, clock):
    """Twice as long each time, up to half an hour; after ten quiet minutes it begins anew."""
    found = []
    for _ in range(8):
        put(stormy, *[f"more-{len(found)}-{number}" for number in range(FAILURES)], plan="p")
        fail(stormy, FAILURES)
        found.append(paused_for(stormy))
        clock.advance(found[-1])
    assert found == [30, 60, 120, 240, 480, 960, 1800, 1800]
    clock.advance(600)
    put(stormy, *[f"soon-{number}" for number in range(2 * FAILURES)], plan="p")
    fail(stormy, FAILURES)
    assert paused_for(stormy) == 1800
    clock.advance(1800 + 600.000_001)
    fail(stormy, FAILURES)
    assert paused_for(stormy) == 30


def test_an_operator_ends_the_pause(stormy, clock):
    """`resume` of the plan; what failed before counts no more, and the next storm is again a first one."""
    fail(stormy, FAILURES)
    assert stormy.resume(plan="p") is True
    assert stormy.resume(plan="p") is False
    assert stormy.resume(plan="q") is False
    fail(stormy)
    clock.advance(0.000_001)
    fail(stormy, FAILURES - 1)
    assert paused_for(stormy) == 0
    fail(stormy, FAILURES)
    assert paused_for(stormy) == 30


def test_a_pause_by_an_operator_outlasts_the_storm(stormy, clock):
    """`resume` ends both at once."""
    claims = [stormy.claim_task("v", plan="p") for _ in range(FAILURES)]
    stormy.pause(plan="p")
    for claim in claims:
        claim.fail("x", kind="infra", retry=False)
    assert stormy.claim_task("w", plan="p").reason == "paused"
    clock.advance(31)
    assert stormy.claim_task("w", plan="p").reason == "paused"
    assert stormy.resume(plan="p")
    assert stormy.claim_task("w", plan="p")


def test_explain_says_so_and_until_when(stormy, clock):
    """For a task, for what waits behind it, for the board."""
    put(stormy, "behind: s39", plan="p")
    fail(stormy, FAILURES)
    for explained in (stormy.explain("s39"), stormy.explain("behind")):
        [cause] = explained.causes
        assert (cause.kind, cause.task_id, cause.until_us) == ("storm", "s39", clock.now_us() + 30 * SECOND)
    assert {cause.kind for cause in stormy.explain().causes} == {"storm"}
    assert {cause.kind for cause in stormy.explain("q0").causes} == {"ready"}


def test_a_single_task_reaches_its_ceiling_without_a_storm(stormy, clock):
    """Ten failures for want of infrastructure, hours apart, pause the task and nothing else."""
    board = stormy
    board.create_task("T", id="unlucky", plan="alone", max_attempts=2)
    for _ in range(10):
        clock.advance(3600)
        claimed(board, "unlucky").fail("x", kind="infra")
    assert board.get_task("unlucky").paused
    assert "breaker_opened" not in kinds(board)


def test_a_storm_is_told_in_the_history_after_the_failure_that_made_it(stormy, clock):
    """Which plan, until when, the how many-eth."""
    fail(stormy, FAILURES)
    failed, opened = stormy.events(stormy.status().last_seq - 2)
    assert (failed.kind, opened.kind, opened.plan) == ("task_failed", "breaker_opened", "p")
    assert opened.data == {"until_us": clock.now_us() + 30 * SECOND, "storms": 1}


def test_a_clock_that_is_set_back_makes_no_storm_of_what_has_not_been_yet(stormy, clock):
    """Failures that seem to lie ahead do not count."""
    clock.advance(1000)
    fail(stormy, FAILURES - 1)
    clock.advance(-500)
    fail(stormy, FAILURES - 1)
    assert paused_for(stormy) == 0


def test_a_step_back_of_the_clock_does_not_make_a_pause_longer(stormy, clock):
    """What is left of it is never more than all of it; after an hour's step it is over."""
    fail(stormy, FAILURES)
    clock.advance(20)
    clock.advance(-15)
    assert paused_for(stormy) == 25
    clock.advance(-3600)
    assert stormy.status().plans[0].storm_until_us is None
    assert stormy.claim_task("w", plan="p")


def test_a_storm_after_a_step_back_of_the_clock_is_one(stormy, clock):
    """Failures count from now on, not from when the last pause would have ended."""
    fail(stormy, FAILURES)
    clock.advance(-3600)
    fail(stormy, FAILURES)
    assert paused_for(stormy) > 0


def storm_sec(board, plan="p"):
    """For how many seconds the breaker of a plan stays open."""
    [until_us] = [found.storm_until_us for found in board.status().plans if found.plan == plan]
    return (until_us - board.store.clock.now_us()) / SECOND


def fail_until(board, *delays):
    """Failures for want of quota, each with the delay that the vendor named."""
    claims = [board.claim_task("v", plan="p") for _ in delays]
    for claim, delay in zip(claims, delays, strict=True):
        claim.fail("limit", kind="quota", retry_after_sec=delay)


def test_a_storm_lasts_until_the_latest_retry_that_was_named(stormy):
    """Longer than it would by itself, past its own longest, and never shorter."""
    fail_until(stormy, 5, 10, 18_000, 0, 7)
    assert storm_sec(stormy) == 18_000


def test_a_storm_without_a_late_retry_keeps_its_length(stormy):
    """What is named ends sooner."""
    fail_until(stormy, 5, 10, 1, 0, 7)
    assert storm_sec(stormy) == 30


def test_a_later_retry_that_is_told_during_a_storm_makes_it_longer(stormy):
    """By an attempt that was under way when it began; an earlier one changes nothing."""
    claims = [stormy.claim_task("v", plan="p") for _ in range(3)]
    fail(stormy, FAILURES)
    claims[0].fail("limit", kind="quota", retry_after_sec=600)
    assert storm_sec(stormy) == 600
    claims[1].fail("limit", kind="infra", retry_after_sec=60)
    assert storm_sec(stormy) == 600
    claims[2].fail("limit", kind="infra")
    assert storm_sec(stormy) == 600
    assert [event.data["storms"] for event in stormy.events(limit=500) if event.kind == "breaker_opened"] == [1, 1]
