"""Waiting: what wakes a claim or a reader that sleeps, what does not, and how a wait ends."""

import asyncio
import threading

import pytest

from agentmesh import Board
from agentmesh.errors import BoardClosed, CursorExpired, InvalidArgument, NotFound
from tests.support.boards import claimed, ended, open_board, put
from tests.support.patience import PATIENCE_SEC, until
from tests.support.waiting import answer, sleepers


@pytest.fixture
def threads(monkeypatch):
    """Threads for calls that sleep."""
    with sleepers(monkeypatch) as found:
        yield found


WAKERS = {
    "create_task": lambda board, _: board.create_task("T", id="new", priority=9),
    "create_tasks": lambda board, _: board.create_tasks([{"title": "T", "id": "new"}]),
    "apply_plan": lambda board, _: board.apply_plan({"tasks": [{"id": "new", "title": "T"}]}),
    "complete_task": lambda _, claims: claims["p"].complete(),
    "release_task": lambda _, claims: claims["a"].release(),
    "resume": lambda board, _: board.resume(plan="paused"),
    "cancel_task": lambda board, _: board.cancel_task("q"),
    "remove_dependency": lambda board, _: board.remove_dependency("c", "p"),
    "reopen_task": lambda board, _: board.reopen_task("done"),
    "update_task": lambda board, _: board.update_task("gpu", requires=[]),
    "not_before": lambda board, _: board.update_task("later", not_before=None),
    "paths": lambda _, claims: claims["w"].complete(),
}


def a_board_with_nothing_for_x(board):
    """Everything is held, blocked, paused, scheduled, required or final; the claims by task."""
    put(board, "p", "q", "a", "done", "w", "c: p", "d: q:finished")
    put(board, "paused", plan="paused")
    board.pause(plan="paused")
    claims = {name: claimed(board, name) for name in ("p", "q", "a", "done")}
    claims.pop("done").complete()
    claims["w"] = claimed(board, "w")
    claims["w"].hold_paths(writes=["f/**"])
    board.create_task("F", id="f", writes=["f/x"])
    board.create_task("G", id="gpu", requires=["gpu"])
    board.create_task("L", id="later", not_before="2026-01-02T00:00:00Z")
    return claims


@pytest.mark.parametrize("waker", WAKERS)
def test_a_waiting_claim_is_woken_by_whatever_makes_a_task_ready(board, threads, waker):
    """Create, complete, release, unpause, cancel, untie, reopen, widen, bring forward, free a path."""
    claims = a_board_with_nothing_for_x(board)
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    WAKERS[waker](board, claims)
    woken = answer(waiting)
    assert woken, woken
    expected = {"complete_task": "c", "release_task": "a", "resume": "paused", "cancel_task": "d", "paths": "f"}
    expected |= {"remove_dependency": "c", "reopen_task": "done", "update_task": "gpu", "not_before": "later"}
    assert woken.task.id == expected.get(waker, "new")


def test_a_claim_is_woken_from_another_board_object(board, board_path, clock, threads):
    """Processes have no more in common than the file."""
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    with open_board(board_path, clock, seed=1) as other:
        other.create_task("T", id="a")
    assert answer(waiting).task.id == "a"


def test_as_many_waiters_as_there_are_new_tasks_are_woken(board, threads):
    """Three tasks in one call, three sleepers, three claims."""
    waiting = [threads.start(board.claim_task, f"agent-{n}", wait_sec=50) for n in range(3)]
    board.create_tasks([{"title": "T", "id": name} for name in "abc"])
    assert {answer(call).task.id for call in waiting} == {"a", "b", "c"}


def test_a_waiter_that_cannot_use_the_task_hands_its_wake_up_on(board, threads):
    """Whoever is poked first, the only one with the capability gets the task, five times over."""
    put(board, "busy")
    claimed(board, "busy")
    unable = [threads.start(board.claim_task, f"unable-{n}", wait_sec=50) for n in range(4)]
    for turn in range(5):
        able = threads.start(board.claim_task, "able", capabilities=["gpu"], wait_sec=50)
        board.create_task("T", id=f"t{turn}", requires=["gpu"])
        assert answer(able).task.id == f"t{turn}"
    board.create_tasks([{"title": "T"} for _ in unable])
    assert all(answer(call) for call in unable)


def test_a_named_task_is_waited_for(board, threads):
    """Until what it depends on has ended."""
    put(board, "p", "c: p")
    parent = claimed(board, "p")
    waiting = threads.start(board.claim_task, "x", task_id="c", wait_sec=50)
    parent.complete()
    assert answer(waiting).task.id == "c"


def test_a_lease_that_runs_out_wakes_a_waiter(board, clock, threads):
    """It sleeps no longer than until the next due time; real time has nothing to do with it."""
    board.create_task("T", id="a", lease_timeout_sec=0.05)
    claimed(board, "a", "dead")
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    clock.advance(0.05)
    assert answer(waiting).lease.fence == 2


WIDENERS = {
    "a higher limit": lambda board, _: board.budgets.set(usd=2),
    "no limit": lambda board, _: board.budgets.clear(),
    "a reservation that ends with its task": lambda _, claim: claim.complete(),
    "a reservation that ends with a failure": lambda _, claim: claim.fail("x", retry=False),
    "a reservation that is cancelled": lambda board, _: board.cancel_task("held"),
    "a lower estimate": lambda board, _: board.update_task("dear", estimate_usd="0.3"),
}


@pytest.mark.parametrize("widener", WIDENERS)
def test_a_waiting_claim_is_woken_by_whatever_widens_a_budget(board, threads, widener):
    """No task becomes ready by it; one that was ready all the time may now be handed out."""
    put(board, "held", "dear", estimate_usd="0.6")
    board.budgets.set(usd=1)
    claim = claimed(board, "held", "y")
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    WIDENERS[widener](board, claim)
    assert answer(waiting).task.id == "dear"


UNCAPPERS = {
    "a higher cap": lambda board, _: board.set_claim_cap(2, agent="x"),
    "no cap": lambda board, _: board.clear_claim_cap(agent="x"),
    "an end of what it holds": lambda _, claim: claim.complete(),
    "a cancelled task": lambda board, _: board.cancel_task("mine"),
}


@pytest.mark.parametrize("uncapper", UNCAPPERS)
def test_a_waiting_claim_is_woken_by_whatever_lifts_it_under_its_cap(board, threads, uncapper):
    """Another session of the same agent ends its task, or an operator lets it hold more."""
    put(board, "mine", "next")
    board.set_claim_cap(1, agent="x")
    claim = claimed(board, "mine", "x")
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    UNCAPPERS[uncapper](board, claim)
    assert answer(waiting).task.id == "next"


@pytest.mark.parametrize("budget", [{}, {"plan": "default"}, {"task_id": "a"}, {"agent": "x"}])
def test_midnight_wakes_a_waiter_for_whom_a_day_was_used_up(board, clock, threads, budget):
    """Its daily budget begins anew at 00:00 UTC; nobody else does anything."""
    put(board, "a")
    board.budgets.set(tokens=1, period="day", **budget)
    clock.advance(86_400 - 20)
    board.ledger.record("x", task_id="a", output_tokens=1)
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    clock.advance(20)
    board.wake_waits()
    assert answer(waiting).task.id == "a"


def test_a_waiter_sleeps_no_longer_than_until_midnight(board, clock, threads):
    """Once a board has a budget; real time has nothing to do with it."""
    put(board, "a")
    board.budgets.set(tokens=1, period="day")
    clock.advance(86_400 - 0.05)
    board.ledger.record("x", output_tokens=1)
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    clock.advance(0.05)
    assert answer(waiting).task.id == "a"


def test_a_dead_agents_reservation_comes_to_a_waiter(board, clock, threads):
    """When its lease is due; the waiting claim takes it back by itself."""
    board.create_task("T", id="a", estimate_usd="0.6", lease_timeout_sec=0.05, max_attempts=1)
    put(board, "b", estimate_usd="0.9")
    board.budgets.set(usd=1)
    claimed(board, "a", "dead")
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    clock.advance(0.05)
    assert answer(waiting).task.id == "b"


@pytest.mark.parametrize("how", ["time", "resume"])
def test_the_end_of_a_storm_wakes_a_waiter(board, clock, threads, how):
    """When the pause of the plan is over, or an operator ends it."""
    put(board, *"abcde", "next")
    for name in "abcde":
        claimed(board, name).fail("x", kind="infra", retry=False)
    clock.advance(29.95)
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    if how == "time":
        clock.advance(0.05)
    else:
        board.resume(plan="default")
    assert answer(waiting).task.id == "next"


def test_a_wait_ends_at_its_deadline(board):
    """With the answer that a claim without a wait would give."""
    put(board, "a")
    claimed(board, "a")
    assert board.claim_task("x", wait_sec=0.01).reason == "in_progress"


def test_no_time_passes_where_none_was_given(board):
    """`wait_sec=0` asks once."""
    assert board.claim_task("x", wait_sec=0).reason == "empty"


@pytest.mark.parametrize("verb", ["claim_task", "events"])
def test_a_wait_is_cancelled_from_outside(board, threads, verb):
    """`cancel` is asked at each wake-up; the wait ends with nothing, and nothing was changed."""
    put(board, "a")
    claimed(board, "a")
    given_up = threading.Event()
    seq = board.status().last_seq
    call = {"claim_task": (board.claim_task, "x"), "events": (board.events, seq)}[verb]
    waiting = threads.start(*call, wait_sec=50, cancel=given_up.is_set)
    board.wake_waits()
    threads.until_asleep()
    given_up.set()
    board.wake_waits()
    assert not answer(waiting)
    assert board.status().last_seq == seq


def test_a_cancelled_waiter_keeps_no_wake_up_for_itself(board, threads):
    """Whoever is poked and gives up hands it on, until it comes to the one that stays."""
    given_up = threading.Event()
    leaving = [threads.start(board.claim_task, f"x{n}", wait_sec=50, cancel=given_up.is_set) for n in range(6)]
    staying = threads.start(board.claim_task, "staying", wait_sec=50)
    given_up.set()
    board.create_task("T", id="a")
    assert answer(staying).task.id == "a"
    board.wake_waits()
    assert not any(answer(call) for call in leaving)


@pytest.mark.parametrize("verb", ["claim_task", "events"])
def test_closing_the_board_ends_every_wait(board_path, clock, threads, verb):
    """With a typed error, at once."""
    board = Board.open(board_path, clock=clock)
    call = {"claim_task": (board.claim_task, "x"), "events": (board.events,)}[verb]
    waiting = threads.start(*call, wait_sec=50)
    board.close()
    with pytest.raises(BoardClosed):
        answer(waiting)


def test_a_reader_of_history_is_woken_by_any_event(board, threads):
    """Also by one that makes nothing ready."""
    put(board, "a")
    waiting = threads.start(board.events, board.status().last_seq, wait_sec=50)
    board.pause()
    assert [event.kind for event in answer(waiting)] == ["paused"]


def test_a_reader_of_history_takes_no_wake_up_from_a_claim(board, threads):
    """Many readers, one claim: the one poke goes to the claim."""
    readers = [threads.start(board.events, 0, wait_sec=50) for _ in range(5)]
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    board.create_task("T", id="a")
    assert answer(waiting).task.id == "a"
    assert all(answer(reader) for reader in readers)


def test_a_reader_who_is_behind_does_not_wait(board):
    """There is news already."""
    put(board, "a")
    assert len(board.events(0, wait_sec=50)) == 1


def test_a_cursor_outside_the_history_does_not_wait(board):
    """It would wait for ever."""
    with pytest.raises(CursorExpired):
        board.events(7, wait_sec=50)


def test_a_waiting_claim_of_a_request_is_made_once(board, threads):
    """Woken or not, the claim is kept under its request and given again."""
    waiting = threads.start(board.claim_task, "x", wait_sec=50, request_id="r")
    board.create_tasks([{"title": "T", "id": "a"}, {"title": "T", "id": "b"}])
    first = answer(waiting)
    assert board.claim_task("x", wait_sec=50, request_id="r").lease == first.lease


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_a_wait_for_a_task_ends_with_the_task(board, how):
    """However it ends."""
    put(board, "a", "b")
    found = []
    waiting = threading.Thread(target=lambda: found.append(board.wait_for("a", wait_sec=50)))
    waiting.start()
    until(lambda: len(board.store._waiters) == 1)
    ended(board, "b")
    ended(board, "a", how)
    waiting.join(PATIENCE_SEC)
    assert [(task.id, task.state, task.final) for task in found] == [("a", how, True)]


def test_a_wait_for_a_plan_ends_with_its_last_task(board):
    """What is added meanwhile is waited for, too."""
    put(board, "a", plan="p")
    found = []
    waiting = threading.Thread(target=lambda: found.append(board.wait_for(plan="p", wait_sec=50)))
    waiting.start()
    until(lambda: len(board.store._waiters) == 1)
    put(board, "b", plan="p")
    ended(board, "a")
    assert waiting.is_alive()
    ended(board, "b", "cancelled")
    waiting.join(PATIENCE_SEC)
    [plan] = found
    assert (plan.final, plan.counts["completed"], plan.counts["cancelled"]) == (True, 1, 1)


def test_a_wait_for_what_does_not_end_says_how_it_stands(board):
    """And what is over already is not waited for."""
    put(board, "a", plan="p")
    assert (board.wait_for("a", wait_sec=0).state, board.wait_for("a", wait_sec=0).final) == ("pending", False)
    assert not board.wait_for(plan="p", wait_sec=0.01).final
    ended(board, "a")
    assert board.wait_for("a").final
    assert board.wait_for(plan="p").final


def test_a_wait_for_nothing_or_for_two_things_is_refused(board):
    """And so is one for what is not there."""
    put(board, "a", plan="p")
    for wrong in ({}, {"task_id": "a", "plan": "p"}):
        with pytest.raises(InvalidArgument, match="a task or a plan"):
            board.wait_for(**wrong)
    with pytest.raises(NotFound, match="task"):
        board.wait_for("none")
    with pytest.raises(NotFound, match="plan"):
        board.wait_for(plan="none")


def test_a_wait_for_the_end_can_be_awaited(board):
    """For asyncio."""
    put(board, "a")
    ended(board, "a")
    assert asyncio.run(board.wait_for_async("a")).final
