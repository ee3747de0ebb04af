"""Assertions on states, on what tasks wait for, and on the order in which they ran."""

import pytest

from pytest_agentmesh.assertions import (
    assert_all_completed,
    assert_all_final,
    assert_blocked,
    assert_completed,
    assert_never_ran,
    assert_not_together,
    assert_ran_in_order,
    assert_ready,
    assert_state,
    assert_unclaimed,
)
from tests.support.boards import claimed, damage, done, put
from tests.support.failing import fails


def test_states_are_those_of_the_named_tasks(board):
    """Others do not matter, unless there shall be no others."""
    put(board, "a", "b: a")
    assert_state(board, {"a": "pending"})
    assert_state(board, {"a": "pending", "b": "blocked"}, only=True)
    assert_state(board, {})
    with fails("b not expected, is blocked"):
        assert_state(board, {"a": "pending"}, only=True)
    with fails("a expected completed, is pending"):
        assert_state(board, {"a": "completed", "b": "blocked"})


def test_only_completed_counts_as_completed(board):
    """A task that failed is final, and no more."""
    put(board, "a", "b")
    done(board, "a")
    assert_completed(board, "a")
    claimed(board, "b").fail("x", retry=False)
    assert_all_final(board)
    with fails("expected a and b to have completed, but 1 of 2 has not"):
        assert_completed(board, "a", "b")
    with fails("b failed: worker's attempt 1 failed for good"):
        assert_all_completed(board)


def test_all_means_all_of_a_plan(board):
    """What is in another plan may go on."""
    put(board, "a", plan="p")
    put(board, "b", plan="q")
    done(board, "a")
    assert_all_completed(board, plan="p")
    assert_all_final(board, plan="p")
    with fails("expected task b to be final"):
        assert_all_final(board, plan="q")
    with fails("plan r has no task"):
        assert_all_final(board, plan="r")


def test_a_task_is_ready_when_it_is_pending(board):
    """Not while it waits for another, nor once it is done."""
    put(board, "a", "b: a")
    assert_ready(board, "a")
    with fails("expected task b to be ready, but it is blocked"):
        assert_ready(board, "b")
    done(board, "a")
    assert_ready(board, "b")
    with fails("expected a and b to be ready, but 1 of 2 is not"):
        assert_ready(board, "a", "b")


def test_a_scheduled_task_is_ready_from_its_instant_on(board, clock):
    """At the instant itself it is, a microsecond before it is not."""
    board.create_task("A", id="a", not_before=clock.now_us() / 1_000_000 + 60)
    clock.advance(59.999999)
    with fails("it is scheduled"):
        assert_ready(board, "a")
    clock.advance(0.000001)
    assert_ready(board, "a")


def test_a_lost_task_is_ready_when_its_lease_is_due(board, clock):
    """As long as it may be handed out again."""
    put(board, "a", max_attempts=2)
    claimed(board, "a")
    clock.advance(59.999999)
    with fails("worker holds it since 0s"):
        assert_ready(board, "a")
    clock.advance(0.000001)
    assert_ready(board, "a")
    claimed(board, "a")
    clock.advance(60)
    with fails("its lease ran out 0s ago"):
        assert_ready(board, "a")


def test_a_task_is_blocked_by_exactly_what_it_waits_for(board):
    """What is met already blocks no more; what blocks at a distance does not do it directly."""
    put(board, "a", "b: a", "c: a b")
    assert_blocked(board, "c")
    assert_blocked(board, "c", by={"a", "b"})
    assert_blocked(board, "b", by="a")
    with fails("blocked by b, but it is blocked by a and b"):
        assert_blocked(board, "c", by={"b"})
    done(board, "a")
    assert_blocked(board, "c", by=["b"])
    done(board, "b")
    with fails("but it is pending"):
        assert_blocked(board, "c")
    with fails("there is no task 'x' on the board; there is a, b and c"):
        assert_blocked(board, "c", by="x")


def test_an_edge_blocks_until_its_own_condition_is_met(board):
    """A task that waits for a failure is not freed by anything else."""
    put(board, "a", "undo: a:failed", "report: a:finished")
    assert_blocked(board, "undo", by="a")
    claimed(board, "a").fail("x", retry=False)
    with fails("but it is pending"):
        assert_blocked(board, "undo", by="a")
    assert_ready(board, "undo", "report")


def test_order_goes_by_events_where_the_clock_stood_still(board):
    """Both ran at the same instant, one after the other."""
    put(board, "a", "b")
    done(board, "a")
    done(board, "b")
    assert_ran_in_order(board, "a", "b")
    with fails("expected b to end before a began"):
        assert_ran_in_order(board, "b", "a")


def test_order_asks_for_the_last_attempt_to_have_ended(board, clock):
    """A first attempt that was lost is not enough; the last task may still be running."""
    put(board, "a", "b")
    claimed(board, "a")
    clock.advance(60)
    board.reclaim_zombies()
    held = claimed(board, "a")
    claimed(board, "b")
    with fails("attempt 2 at a is still open"):
        assert_ran_in_order(board, "a", "b")
    held.complete()
    with fails("attempt 2 at a ended only at 1min"):
        assert_ran_in_order(board, "a", "b")


def test_a_task_that_never_ran_is_in_no_order(board):
    """Nor in the wrong one."""
    put(board, "a", "b: a")
    done(board, "a")
    with fails("but b never ran"):
        assert_ran_in_order(board, "a", "b")


def test_every_hand_out_respected_the_edges_of_its_time(board):
    """Edges that came and went, splits, reopened parents and other conditions are as they were then."""
    put(board, "a", "b: a", "c", "undo: a:failed", "late: a")
    done(board, "a")
    assert board.get_task("undo").state == "cancelled"
    board.add_dependency("c", "b")
    board.remove_dependency("c", "b")
    done(board, "c")
    held = claimed(board, "b")
    board.split_task(held.lease, [{"title": "Half", "id": "half"}])
    done(board, "half")
    done(board, "b")
    board.reopen_task("a")
    done(board, "a")
    done(board, "late")
    assert_ran_in_order(board)


@pytest.mark.damaged
def test_a_hand_out_before_its_time_is_found(board):
    """The history says that a child was handed out before its parent had ended."""
    put(board, "a", "b: a")
    done(board, "a")
    done(board, "b")
    assert_ran_in_order(board)
    damage(board, "DELETE FROM event WHERE kind = 'task_completed' AND task_id = 'a'")
    with fails("expected b to wait for a, but it was handed out"):
        assert_ran_in_order(board)


@pytest.mark.damaged
@pytest.mark.parametrize("how", ["added", "split"])
def test_a_hand_out_before_a_late_edge_is_found(how, board):
    """An edge that was added later, or by a split, counts from then on."""
    put(board, "a", "b")
    if how == "split":
        board.split_task(claimed(board, "b").lease, [{"title": "Half", "id": "half"}])
        parent = "half"
    else:
        board.add_dependency("b", "a")
        parent = "a"
    done(board, parent)
    done(board, "b")
    assert_ran_in_order(board)
    damage(board, "DELETE FROM event WHERE kind = 'task_completed' AND task_id = :parent", parent=parent)
    with fails(f"expected b to wait for {parent}, but it was handed out"):
        assert_ran_in_order(board)


@pytest.mark.damaged
def test_a_split_task_has_not_ended(board):
    """What waits for it may not be handed out between its two attempts."""
    put(board, "a", "b: a")
    board.split_task(claimed(board, "a").lease, [{"title": "Half", "id": "half"}])
    done(board, "half")
    done(board, "a")
    done(board, "b")
    damage(board, "DELETE FROM event WHERE kind IN ('task_completed', 'task_claimed') AND task_id = 'a' AND fence = 2")
    with fails("expected b to wait for a"):
        assert_ran_in_order(board)


def test_tasks_are_not_together_when_one_ends_before_the_other_begins(board, clock):
    """Even at the same instant."""
    put(board, "a", "b", "idle")
    done(board, "a")
    done(board, "b")
    clock.advance(1)
    assert_not_together(board, "a", "b", "idle")
    assert_not_together(board, "idle", "b")


def test_any_two_attempts_can_be_together(board, clock):
    """A later attempt of one task meets that of another, with a third between them."""
    put(board, "a", "b", "c")
    claimed(board, "a").release()
    done(board, "c")
    claimed(board, "b")
    clock.advance(1)
    assert_not_together(board, "a", "b", "c")
    claimed(board, "a", "other")
    with fails("b was still held when a began, at 1s"):
        assert_not_together(board, "c", "a", "b")


def test_a_task_that_was_handed_out_once_has_run(board):
    """Whatever became of it."""
    put(board, "a", "b")
    assert_never_ran(board, "a", "b")
    claimed(board, "a").release()
    assert_unclaimed(board, "a")
    with fails("expected a and b never to be handed out, but a ran"):
        assert_never_ran(board, "a", "b")
    board.cancel_task("b")
    assert_never_ran(board, "b")
