"""What operators do: cancel, cancel a plan, reopen, pause and resume."""

import pytest

from agentmesh.errors import InvalidArgument, LeaseLost, NotFound, TaskCancelled, WrongState
from tests.support.boards import claimed, done, event_count, kinds, put, states, violations


def test_a_waiting_task_is_cancelled_with_its_reason(board, clock):
    """Ready, scheduled or blocked."""
    put(board, "p", "blocked: p")
    board.create_task("T", id="later", not_before="2026-01-02T00:00:00Z")
    for name in ("blocked", "later", "p"):
        task = board.cancel_task(name, reason="not wanted", agent_id="boss")
        assert (task.state, task.reason, task.ended_us) == ("cancelled", "not wanted", clock.now_us())
    assert [event.agent_id for event in board.events() if event.kind == "task_cancelled"] == ["boss"] * 3


def test_a_running_task_is_cancelled_under_its_holder(board):
    """The attempt ends as cancelled; what the holder does then tells it so."""
    put(board, "a")
    claim = claimed(board, "a")
    board.cancel_task("a")
    (attempt,) = board.attempts("a")
    assert (attempt.outcome, attempt.charged) == ("cancelled", True)
    with pytest.raises(TaskCancelled):
        claim.heartbeat()
    assert board.events()[-1].data == {"was": "in_progress"}


def test_cancelling_again_changes_nothing(board):
    """It is cancelled, which is what was wanted; the first reason stays."""
    put(board, "a")
    board.cancel_task("a", reason="first")
    before = event_count(board)
    assert board.cancel_task("a", reason="second").reason == "first"
    assert event_count(board) == before


@pytest.mark.parametrize("state", ["completed", "failed"])
def test_what_has_ended_otherwise_is_not_cancelled(board, state):
    """A final task stays as it is."""
    put(board, "a")
    claim = claimed(board, "a")
    _ = claim.complete() if state == "completed" else claim.fail("x", retry=False)
    before = event_count(board)
    with pytest.raises(WrongState) as caught:
        board.cancel_task("a")
    assert (caught.value.state, event_count(board)) == (state, before)


def test_the_reason_of_a_cancellation_is_no_part_of_the_history(board):
    """It is text of whoever gave it; the task has it."""
    put(board, "a")
    board.cancel_task("a", reason="because <secret>")
    assert "secret" not in str(board.events())


def test_a_plan_is_cancelled_as_a_whole(board):
    """Every task of it that is not final, held or not; how many there were. Other plans are left alone."""
    put(board, "a", "b: a", "c", "d", plan="one")
    put(board, "x", "y: b:finished", plan="two")
    done(board, "d")
    claim = claimed(board, "c")
    assert board.cancel_plan("one", reason="stop") == 3
    assert states(board) == {
        **dict.fromkeys("abc", "cancelled"),
        "d": "completed",
        "x": "pending",
        "y": "pending",
    }
    assert board.get_task("a").reason == "stop"
    with pytest.raises(TaskCancelled):
        claim.complete()
    assert board.cancel_plan("one") == 0


def test_cancelling_a_plan_cancels_what_can_then_never_run_elsewhere(board):
    """The graph does not end at the plan."""
    put(board, "a", plan="one")
    put(board, "b: a", plan="two")
    assert board.cancel_plan("one") == 1
    assert states(board) == {"a": "cancelled", "b": "cancelled"}


def test_a_plan_that_is_not_there_is_not_found(board):
    """To cancel and to pause."""
    for call in (board.cancel_plan, lambda plan: board.pause(plan=plan)):
        with pytest.raises(NotFound) as caught:
            call("nowhere")
        assert (caught.value.what, caught.value.name) == ("plan", "nowhere")


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
def test_a_final_task_is_reopened_with_its_attempts_counted_anew(board, end):
    """The fence goes on; the old attempts stay as they ended."""
    board.create_task("T", id="a", max_attempts=1)
    claim = claimed(board, "a", "old")
    ends = {
        "completed": lambda: claim.complete("first"),
        "failed": lambda: claim.fail("x"),
        "cancelled": lambda: board.cancel_task("a"),
    }
    ends[end]()
    task = board.reopen_task("a", agent_id="boss")
    assert (task.state, task.charged, task.fence, task.ended_us, task.reason) == ("pending", 0, 1, None, None)
    assert board.get_task("a").result is None
    event = board.events()[-1]
    assert (event.kind, event.agent_id, event.data) == ("task_reopened", "boss", {"was": end})
    with pytest.raises(LeaseLost):
        claim.complete()
    assert claimed(board, "a").lease.fence == 2
    assert [attempt.outcome for attempt in board.attempts("a")] == [end, None]


def test_a_second_completion_replaces_the_result_or_its_absence(board):
    """The result is that of the last completed attempt, also if it left none."""
    put(board, "a")
    done(board, "a", "first")
    board.reopen_task("a")
    done(board, "a", "second")
    assert board.get_task("a").result == "second"
    board.reopen_task("a")
    done(board, "a")
    assert board.get_task("a").result is None


@pytest.mark.parametrize("state", ["pending", "in_progress", "blocked", "scheduled"])
def test_what_has_not_ended_cannot_be_reopened(board, state):
    """There is nothing to open."""
    put(board, "p")
    board.create_task(
        "T",
        id="a",
        depends_on=["p"] if state == "blocked" else [],
        not_before="2026-01-02T00:00:00Z" if state == "scheduled" else None,
    )
    if state == "in_progress":
        claimed(board, "a")
    with pytest.raises(WrongState) as caught:
        board.reopen_task("a")
    assert caught.value.state == state


def test_a_reopened_task_waits_for_what_it_waited_for(board):
    """Its parents may have been reopened before it."""
    put(board, "p", "c: p")
    done(board, "p")
    done(board, "c")
    board.reopen_task("p")
    assert board.reopen_task("c").state == "blocked"
    done(board, "p")
    assert states(board)["c"] == "pending"


def test_a_task_whose_dependency_can_never_be_met_is_not_reopened(board):
    """The error names what has to be opened first."""
    put(board, "p", "c: p")
    board.cancel_task("p")
    with pytest.raises(WrongState, match="'p'"):
        board.reopen_task("c")
    board.reopen_task("p")
    assert board.reopen_task("c").state == "blocked"


def test_a_task_scheduled_for_later_keeps_its_time_when_reopened(board):
    """It was cancelled before its time; that has not come."""
    board.create_task("T", id="a", not_before="2026-01-02T00:00:00Z")
    board.cancel_task("a")
    assert board.reopen_task("a").state == "scheduled"


def test_children_that_nobody_has_started_wait_again(board):
    """Ready and scheduled ones; an edge that the old end did not meet holds them as before."""
    put(board, "p", "q", "ready: p", "either: p:finished", "both: p q")
    board.create_task("T", id="later", depends_on=["p"], not_before="2026-01-02T00:00:00Z")
    done(board, "p")
    board.reopen_task("p")
    assert {name: state for name, state in states(board).items() if name not in "pq"} == dict.fromkeys(
        ["ready", "either", "both", "later"], "blocked"
    )
    assert board.get_task("both").unmet == 2
    done(board, "p")
    assert (states(board)["ready"], states(board)["later"], states(board)["both"]) == (
        "pending",
        "scheduled",
        "blocked",
    )


def test_children_that_run_or_have_ended_are_left_as_they_are(board):
    """What they did was right when they did it."""
    put(board, "p", "runs: p", "done: p", "gone: p:failed")
    done(board, "p")
    claimed(board, "runs")
    done(board, "done")
    board.reopen_task("p")
    assert states(board) == {"p": "pending", "runs": "in_progress", "done": "completed", "gone": "cancelled"}


def test_reopen_alone_brings_nothing_else_back(board):
    """What was cancelled with it stays cancelled."""
    put(board, "a", "b: a", "c: b")
    board.cancel_task("a")
    board.reopen_task("a")
    assert states(board) == {"a": "pending", "b": "cancelled", "c": "cancelled"}


def test_reopen_with_cascade_brings_back_what_was_cancelled_because_of_it(board):
    """All the way down, and only that: what was cancelled for itself or by another root stays."""
    put(board, "a", "other", "b: a", "c: b", "d: b c", "own: a", "mixed: a other")
    board.cancel_task("own", reason="not wanted")
    board.cancel_task("other")
    board.cancel_task("a")
    board.reopen_task("a", cascade=True)
    assert states(board) == {
        "a": "pending",
        "other": "cancelled",
        **dict.fromkeys("bcd", "blocked"),
        "own": "cancelled",
        "mixed": "cancelled",
    }
    for name in "abcd":
        done(board, name)


def test_cascade_brings_back_a_diamond_whichever_side_is_seen_first(board):
    """A task comes back once all of its parents can."""
    put(board, "a", "b: a", "c: a", "e: c", "d: b e", "f: d e")
    board.cancel_task("a")
    board.reopen_task("a", cascade=True)
    assert set(states(board).values()) == {"pending", "blocked"}
    assert kinds(board).count("task_reopened") == 6


def test_cascade_counts_a_dependency_once_that_comes_back_with_it(board):
    """It was met by the end that is undone, and holds from the moment on in which both are open again."""
    put(board, "a", "b: a", "c: a b:finished")
    board.cancel_task("a")
    board.reopen_task("a", cascade=True)
    assert board.get_task("c").unmet == 2
    done(board, "a")
    done(board, "b")
    assert board.get_task("c").state == "pending"


def test_cascade_brings_back_what_was_cancelled_when_its_edge_was_added(board):
    """The root is the same: the parent that had failed already."""
    put(board, "p", "c", "d: c")
    claimed(board, "p").fail("x", retry=False)
    board.add_dependency("c", "p")
    assert states(board) == {"p": "failed", "c": "cancelled", "d": "cancelled"}
    board.reopen_task("p", cascade=True)
    assert states(board) == {"p": "pending", "c": "blocked", "d": "blocked"}


def test_cascade_leaves_alone_what_another_end_made_impossible_meanwhile(board):
    """It would be cancelled again at once."""
    put(board, "a", "q", "c: a q")
    board.cancel_task("a")
    claimed(board, "q").fail("x", retry=False)
    board.reopen_task("a", cascade=True)
    assert states(board) == {"a": "pending", "q": "failed", "c": "cancelled"}


@pytest.mark.parametrize(
    ("scope", "stopped", "going"),
    [
        ({}, [("x", "one"), ("x", "two"), ("y", "one")], []),
        ({"plan": "one"}, [("x", "one"), ("y", "one")], [("x", "two"), ("y", "two")]),
        ({"agent": "x"}, [("x", "one"), ("x", "two")], [("y", "one"), ("y", "two")]),
    ],
)
def test_a_pause_stops_hand_outs_of_the_board_a_plan_or_to_an_agent(board, scope, stopped, going):
    """And nothing else; when it ends they go on."""
    put(board, "a", "b", plan="one")
    put(board, "c", "d", plan="two", writes=["f"])
    board.pause(reason="deploy", **scope)
    for agent, plan in stopped:
        answer = board.claim_task(agent, plan=plan)
        assert (answer.reason, answer.advice) == ("paused", "wait")
        assert not board.has_work(agent_id=agent, plan=plan)
    for agent, plan in going:
        claim = board.claim_task(agent, plan=plan)
        assert claim.task.plan == plan
        claim.complete()
    assert board.resume(**scope) is True
    assert all(board.claim_task(agent, plan=plan) for agent, plan in stopped[:1])


def test_a_claim_passes_over_the_tasks_of_a_paused_plan(board):
    """However urgent; those with paths as well."""
    put(board, "hot", plan="paused", priority=9)
    put(board, "hot2", plan="paused", priority=9, writes=["f"])
    put(board, "cold", plan="going")
    put(board, "cold2", plan="going", writes=["f"])
    board.pause(plan="paused")
    assert [board.claim_task("x").task.id, board.claim_task("x").task.id] == ["cold", "cold2"]
    assert board.claim_task("x").reason in ("paused", "in_progress")


def test_work_in_hand_goes_on_during_a_pause(board):
    """Heartbeat, complete, even resume: only new hand-outs are stopped."""
    put(board, "a", "b: a")
    claim = claimed(board, "a", "x")
    board.pause()
    claim.heartbeat()
    claim = board.claim_task("x", resume=True)
    assert claim.task.id == "a"
    claim.complete()
    assert states(board) == {"a": "completed", "b": "pending"}


def test_due_leases_are_taken_back_during_a_pause(board, clock):
    """The board heals; it only hands nothing out."""
    put(board, "a")
    claimed(board, "a")
    board.pause()
    clock.advance(60)
    assert board.claim_task("x").reason == "paused"
    assert states(board) == {"a": "pending"}


def test_a_pause_is_shown_with_who_and_why(board, clock):
    """In the status, until it ends."""
    put(board, "a", plan="one")
    pause = board.pause(plan="one", reason="deploy", agent_id="boss")
    assert (pause.scope, pause.name, pause.reason, pause.agent_id) == ("plan", "one", "deploy", "boss")
    assert pause.since_us == clock.now_us()
    status = board.status()
    assert status.pauses == (pause,)
    assert status.plans[0].paused
    board.resume(plan="one", agent_id="boss")
    assert board.status().pauses == ()
    assert not board.status().plans[0].paused


def test_a_second_pause_of_the_same_changes_nothing(board):
    """Who was first and why stays; no second event."""
    first = board.pause(reason="deploy")
    before = event_count(board)
    assert board.pause(reason="lunch", agent_id="other") == first
    assert event_count(board) == before


def test_resuming_what_was_not_paused_says_so(board):
    """False, and no event."""
    put(board, "a", plan="one")
    before = event_count(board)
    assert board.resume() is False
    assert board.resume(plan="one") is False
    assert board.resume(agent="x") is False
    assert event_count(board) == before


def test_pauses_are_independent_of_each_other(board):
    """Ending one leaves the others."""
    put(board, "a", plan="one")
    board.pause()
    board.pause(plan="one")
    board.pause(agent="x")
    board.resume()
    assert board.claim_task("y").reason == "paused"
    board.resume(plan="one")
    assert board.claim_task("x").reason == "paused"
    assert board.claim_task("y").task.id == "a"
    assert [pause.scope for pause in board.status().pauses] == ["agent"]


def test_pauses_are_told(board):
    """With their scope and who made them, not with their reason."""
    put(board, "a", plan="one")
    board.pause(plan="one", reason="<secret>", agent_id="boss")
    board.resume(plan="one", agent_id="boss")
    paused, resumed = board.events()[-2:]
    assert (paused.kind, resumed.kind) == ("paused", "resumed")
    assert paused.agent_id == resumed.agent_id == "boss"
    assert paused.data == resumed.data == {"scope": "plan", "name": "one"}


SCOPES = ({}, {"plan": "one"}, {"agent": "x"}, {"task_id": "a"})


def instant(clock, sec):
    """An instant so many seconds from now, as a caller names it."""
    return clock.now_us() / 1_000_000 + sec


@pytest.mark.parametrize("scope", SCOPES)
def test_a_pause_ends_by_itself(board, clock, scope):
    """To the microsecond, and everyone who asks says when."""
    put(board, "a", plan="one")
    until_us = clock.now_us() + 100_000_000
    pause = board.pause(**scope, until=instant(clock, 100))
    assert pause.until_us == until_us
    assert board.status().next_due_us == until_us
    clock.advance(99.999_999)
    for answer in (board.claim_task("x"), board.claim_task("x", plan="one"), board.claim_task("x", task_id="a")):
        assert (answer.reason, answer.retry_at_us) == ("paused", until_us)
    assert until_us in [cause.until_us for cause in board.explain("a", agent_id="x").causes]
    assert not board.has_work(agent_id="x")
    clock.advance(0.000_001)
    assert board.status().pauses == ()
    assert board.explain("a", agent_id="x").causes[0].kind == "ready"
    assert board.has_work(agent_id="x")
    assert board.claim_task("x").task.id == "a"
    assert violations(board) == {}


@pytest.mark.parametrize("scope", SCOPES)
def test_a_claim_of_a_named_task_sees_the_end_of_a_pause(board, clock, scope):
    """It heals only what it was asked for."""
    put(board, "a", plan="one")
    board.pause(**scope, until=instant(clock, 5))
    clock.advance(5)
    assert board.claim_task("x", task_id="a").task.id == "a"


def test_a_task_that_was_scheduled_is_ready_when_its_pause_ends_late(board, clock):
    """Its time has come meanwhile; the claim that ends the pause hands it out."""
    put(board, "a", not_before=instant(clock, 5))
    board.pause(task_id="a", until=instant(clock, 50))
    clock.advance(10)
    assert board.claim_task("x").reason == "paused"
    clock.advance(40)
    assert board.has_work()
    assert board.claim_task("x").task.id == "a"


@pytest.mark.parametrize("scope", SCOPES)
def test_the_pause_that_lasts_longer_stays(board, clock, scope):
    """Whichever came first; one without an end lasts longest."""
    put(board, "a", plan="one")
    first = board.pause(**scope, until=instant(clock, 100), reason="first")
    assert board.pause(**scope, until=instant(clock, 50), reason="second") == first
    assert board.pause(**scope, until=instant(clock, 200), reason="third").until_us == clock.now_us() + 200_000_000
    assert board.pause(**scope, reason="fourth").until_us is None
    assert board.pause(**scope, until=instant(clock, 300)).reason == "fourth"
    assert kinds(board).count("paused") == 3
    assert board.resume(**scope) is True


@pytest.mark.parametrize("scope", SCOPES)
def test_an_end_that_is_not_ahead_is_refused(board, clock, scope):
    """A pause that is over at once would be none."""
    put(board, "a", plan="one")
    before = event_count(board)
    for sec in (0, -5):
        with pytest.raises(InvalidArgument) as caught:
            board.pause(**scope, until=instant(clock, sec))
        assert caught.value.field == "until"
    assert event_count(board) == before


@pytest.mark.parametrize("scope", SCOPES)
def test_a_pause_whose_end_has_passed_can_be_made_again(board, clock, scope):
    """Ending it by hand is too late: it was not paused any more."""
    put(board, "a", plan="one")
    board.pause(**scope, until=instant(clock, 5), reason="first")
    clock.advance(5)
    assert board.resume(**scope) is False
    again = board.pause(**scope, until=instant(clock, 5), reason="again")
    assert (again.reason, again.since_us) == ("again", clock.now_us())


@pytest.mark.parametrize("scope", SCOPES)
def test_a_repeated_pause_gives_the_first_answer(board, clock, scope):
    """Also after its end."""
    put(board, "a", plan="one")
    until = instant(clock, 5)
    first = board.pause(**scope, until=until, request_id="r")
    clock.advance(10)
    assert board.pause(**scope, until=until, request_id="r") == first
