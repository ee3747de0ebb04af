"""Assertions on who holds a task, how its attempts ended, and what came of it."""

import re
from datetime import timedelta

import pytest

from pytest_agentmesh.assertions import (
    assert_attempts,
    assert_claimed,
    assert_failed,
    assert_handed_over,
    assert_lease,
    assert_result,
    assert_unclaimed,
)
from tests.support.boards import claimed, done, put
from tests.support.failing import fails


def test_a_task_is_claimed_by_the_holder_of_its_open_attempt(board, clock):
    """In which attempt is counted from one, over all of its hand-outs."""
    put(board, "a")
    with fails("expected an agent to hold task a, but it is pending"):
        assert_claimed(board, "a")
    claimed(board, "a", "x")
    assert_claimed(board, "a")
    assert_claimed(board, "a", by="x", attempt=1)
    clock.advance(60)
    assert_claimed(board, "a", by="x")
    claimed(board, "a", "y")
    assert_claimed(board, "a", by="y", attempt=2)
    with fails("x's attempt 1 was reclaimed: its lease ran out at 1min"):
        assert_claimed(board, "a", by="x")
    with fails("it was handed out only 2 times"):
        assert_claimed(board, "a", attempt=3)


def test_a_resumed_attempt_is_the_same_attempt(board):
    """A new secret makes no new hand-out."""
    put(board, "a")
    claimed(board, "a", "x")
    assert board.claim_task("x", resume=True, take_over=True).resumed
    assert_claimed(board, "a", by="x", attempt=1)
    assert_attempts(board, "a", ["open"])


def test_a_task_is_unclaimed_until_and_after_it_is_held(board, clock):
    """A due lease is still held: nobody has taken it back."""
    put(board, "a", "b")
    assert_unclaimed(board, "a", "b")
    claimed(board, "a", "x")
    clock.advance(60)
    with fails("x holds it since 0s, attempt 1; its lease ran out 0s ago"):
        assert_unclaimed(board, "b", "a")
    board.reclaim_zombies()
    assert_unclaimed(board, "a")


def test_attempts_are_compared_in_order(board, clock):
    """With how they ended and, if asked, whose they were."""
    put(board, "a")
    assert_attempts(board, "a", [])
    claimed(board, "a", "x")
    clock.advance(60)
    claimed(board, "a", "y").release()
    claimed(board, "a", "x")
    assert_attempts(board, "a", ["reclaimed", "released", "open"])
    assert_attempts(board, "a", ["reclaimed", "released", "open"], by=["x", "y", "x"])
    for wrong in (
        ["released", "reclaimed", "open"],
        ["reclaimed", "released"],
        ["reclaimed", "released", "open", "open"],
        [],
    ):
        with fails("expected the attempts of task a"):
            assert_attempts(board, "a", wrong)
    with fails("expected reclaimed by y"):
        assert_attempts(board, "a", ["reclaimed", "released", "open"], by=["y", "y", "x"])


def test_a_hand_over_is_from_one_attempt_to_the_next(board, clock):
    """Not over a third agent, and not backwards."""
    put(board, "a")
    for agent in ("x", "y", "z"):
        claimed(board, "a", agent)
        clock.advance(60)
    assert_handed_over(board, "a", from_="x", to="y")
    assert_handed_over(board, "a", from_="y", to="z")
    with fails("it went to x -> y -> z"):
        assert_handed_over(board, "a", from_="x", to="z")
    with fails("from y to x"):
        assert_handed_over(board, "a", from_="y", to="x")


def test_what_is_left_of_a_lease_is_exact(board, clock):
    """As seconds, a duration, words, or whatever compares with seconds."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(14.999999)
    for left in (45.000001, timedelta(seconds=45, microseconds=1), "45.000001s", pytest.approx(45, abs=0.01)):
        assert_lease(board, "a", left=left)
    for wrong in (45, "45s", 45.000002, pytest.approx(44, abs=0.5)):
        with fails("but 45.000001s is left"):
            assert_lease(board, "a", left=wrong)


def test_the_bounds_of_a_lease_are_within(board, clock):
    """At the bound itself it holds, a microsecond beyond it does not."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(30)
    assert_lease(board, "a", at_least=30, at_most="30s")
    clock.advance(0.000001)
    assert_lease(board, "a", at_most=30)
    with fails("at least 30s and at most 1min"):
        assert_lease(board, "a", at_least=30, at_most=60)
    clock.advance(-0.000002)
    with fails("but 30.000001s is left"):
        assert_lease(board, "a", at_most=30)


def test_a_lease_that_has_run_out_has_less_than_nothing_left(board, clock):
    """It is still a lease."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(75)
    assert_lease(board, "a", left="-15s")
    assert_lease(board, "a", at_most=0)
    with fails("it ran out 15s ago"):
        assert_lease(board, "a", at_least=0)
    board.reclaim_zombies()
    with fails("but nobody holds it"):
        assert_lease(board, "a", at_most=0)


def test_a_lease_at_the_end_of_its_hold_says_so(board, clock):
    """A heartbeat could not renew it any further."""
    put(board, "a", max_hold_sec=70)
    held = claimed(board, "a")
    clock.advance(50)
    held.heartbeat()
    with fails("the task may be held for 1min 10s in all"):
        assert_lease(board, "a", left=60)


def test_failed_is_a_state_of_the_task(board):
    """A failed attempt that will be tried again is not it."""
    put(board, "a", max_attempts=2)
    claimed(board, "a").fail("KeyError: 'id'")
    with fails("1 of its 2 attempts are used up: it will be handed out again"):
        assert_failed(board, "a")


def test_the_error_of_the_last_attempt_is_looked_at(board):
    """By a part of it or by a pattern; and what it failed for."""
    put(board, "a")
    claimed(board, "a").fail("KeyError: 'id'\nin shop.py", kind="infra", retry=False)
    assert_failed(board, "a")
    assert_failed(board, "a", kind="infra", error="'id'")
    assert_failed(board, "a", error=re.compile(r"^in \w+\.py$", re.MULTILINE))
    with fails("to hold 'keyerror'"):
        assert_failed(board, "a", error="keyerror")
    with fails("to match"):
        assert_failed(board, "a", error=re.compile("^shop"))
    with fails("failed for task, but it failed for infra"):
        assert_failed(board, "a", kind="task")


def test_a_task_whose_lease_was_lost_has_no_error(board, clock):
    """Nobody said anything."""
    put(board, "a", max_attempts=2)
    claimed(board, "a").fail("own")  # else the task would be paused
    clock.advance(60)
    claimed(board, "a")
    clock.advance(60)
    board.reclaim_zombies()
    assert_failed(board, "a")
    with fails("there is no error: nobody reported one"):
        assert_failed(board, "a", error="x")


def test_a_result_is_compared_as_json(board):
    """Types too, as far as Python tells them apart; an expectation may be anything that compares."""
    put(board, "a", "b")
    done(board, "a", {"n": 0.1, "tags": ["x"], "none": None})
    done(board, "b")
    assert_result(board, "a", {"n": pytest.approx(0.1), "tags": ["x"], "none": None})
    assert_result(board, "b", None)
    with fails(r'\.tags\[0\] is "x", expected "y"'):
        assert_result(board, "a", {"n": 0.1, "tags": ["y"], "none": None})
    with fails(r"\.none is null, not expected"):
        assert_result(board, "a", {"n": 0.1, "tags": ["x"]})
    with fails(r"actual null"):
        assert_result(board, "b", {})
