"""The guards of every change: rows that are not as they were read are not written over.

On SQLite a writer is alone and nothing can come between a read and a write. Here something does, as on an engine where
others commit in the middle of a transaction: each change is guarded by the state and fence that it read.
"""

import pytest

from agentmesh import Board
from agentmesh.board import attempts, claim, heal, leases, ledger, operations
from agentmesh.board.ledger import Spend
from agentmesh.board.picking import Ask
from agentmesh.errors import AgentMeshError, StoreError
from agentmesh.model import Usage
from tests.support.boards import kinds, violations
from tests.support.faults import Intruder
from tests.support.interleave import outcome
from tests.support.scene import ACTS, everything

ASK = Ask("intruder", None, frozenset(), frozenset())
SOME = Spend(Usage(output_tokens=5), "m", 0, 10**11, "given")

INTRUDERS = {
    "completes it": lambda scene, change: attempts.complete(
        change, leases.holding(leases.shown(change.tx, scene.ann)), None
    ),
    "releases it": lambda scene, change: attempts.release(
        change, leases.holding(leases.shown(change.tx, scene.ann)), 0
    ),
    "cancels it": lambda _, change: operations.cancel_task(change, "held", None, "intruder"),
    "takes it back": lambda _, change: heal.reclaim(change),
    "renews it": lambda scene, change: leases.renew(change, scene.ann),
    "claims it": lambda _, change: claim.named_task(change, "held", ASK),
    "uses something": lambda scene, change: ledger.record(change, ledger.of_lease(change.tx, scene.ann), SOME),
}

HOLDERS = ["complete", "fail", "fail for good", "release", "split", "heartbeat", "hold", "resume", "record"]
READERS = {"record": "account_of_lease"}
"""What reads the attempt, where it is not `held_attempt`."""
ENDS = ["completes it", "releases it", "cancels it", "takes it back", "claims it"]


def intruded(board, scene, statement, intruder):
    """The same board, with an intruder after the first time that a statement was read."""
    found = Intruder(board.store, statement, lambda change: INTRUDERS[intruder](scene, change))
    return Board(found), found


@pytest.mark.parametrize("intruder", ENDS)
@pytest.mark.parametrize("act", HOLDERS)
def test_a_holder_whose_attempt_ends_under_its_hands_changes_nothing(scenes, act, intruder):
    """Its own row was read as open and is not any more: the call fails as a whole."""
    scene = scenes()
    with scene.open() as board:
        before = everything(board)
        victim, came = intruded(board, scene, READERS.get(act, "held_attempt"), intruder)
        assert isinstance(outcome(lambda: ACTS[act](victim, scene)), StoreError)
        assert came.came
        assert everything(board) == before


@pytest.mark.parametrize("act", ["complete", "fail", "fail for good", "release", "split", "record", "reclaim"])
def test_a_reservation_that_is_drawn_on_under_their_hands_is_not_given_back_twice(scenes, act):
    """Whoever ends the attempt, or draws on it too, has read more than is left: the call fails as a whole (P8)."""
    scene = scenes()
    with scene.open() as board:
        before = everything(board)
        victim, came = intruded(board, scene, READERS.get(act, "held_attempt"), "uses something")
        assert isinstance(outcome(lambda: ACTS[act](victim, scene)), StoreError)
        assert came.came
        assert everything(board) == before


@pytest.mark.parametrize("intruder", ["completes it", "cancels it", "takes it back"])
def test_usage_by_name_of_an_attempt_that_has_just_ended_is_not_written_as_if_it_had_not(scenes, intruder):
    """Whether it is waste is decided by how the attempt stands: as it was read, or the call fails (P7)."""
    scene = scenes()
    with scene.open() as board:
        before = everything(board)
        victim, came = intruded(board, scene, "last_attempt_of_agent", intruder)
        answer = outcome(lambda: victim.ledger.record("ann", task_id="held", duration_ms=5))
        assert isinstance(answer, StoreError)
        assert came.came
        assert everything(board) == before


@pytest.mark.parametrize("intruder", ["completes it", "releases it", "cancels it", "renews it", "claims it"])
def test_a_reaper_with_a_stale_list_takes_nothing_back(scenes, intruder):
    """Between its list and its write the lease was ended or renewed: no row, no event, no error (A5)."""
    scene = scenes()
    with scene.open() as board:
        reaper, came = intruded(board, scene, "due_attempts", intruder)
        taken = reaper.reclaim_zombies()
        assert came.came
        assert [attempt.task_id for attempt in taken] == []
        reclaimed = [event for event in board.events(0) if event.kind == "lease_reclaimed"]
        assert len(reclaimed) == (1 if intruder == "claims it" else 0)
        assert violations(board) == {}


@pytest.mark.parametrize("intruder", ["completes it", "cancels it", "takes it back"])
def test_a_reaper_whose_row_changes_under_its_hands_changes_nothing(scenes, intruder):
    """It read the attempt as due and open; the guard of the write finds that it is not."""
    scene = scenes()
    with scene.open() as board:
        before = everything(board)
        reaper, came = intruded(board, scene, "held_attempt", intruder)
        assert isinstance(outcome(reaper.reclaim_zombies), StoreError)
        assert came.came
        assert everything(board) == before


PICKS = {
    "pick_ready": ({}, "free"),
    "pick_plan_ready": ({"plan": "default"}, "free"),
    "pick_tagged": ({"tags": ["mark"]}, "marked"),
    "pick_in_pool": ({}, "paths"),
}


@pytest.mark.parametrize("statement", PICKS)
def test_a_task_that_was_claimed_since_it_was_picked_is_not_handed_out_twice(board, statement):
    """The search goes on and finds another task, or none (P1)."""
    wish, wanted = PICKS[statement]
    board.create_task("t", id="free", priority=1)
    board.create_task("t", id="marked", tags=["mark"], priority=1 if statement == "pick_tagged" else -1)
    board.create_task("t", id="paths", writes=["a"], priority=2 if statement == "pick_in_pool" else -2)
    thief = Intruder(board.store, statement, lambda change: claim.named_task(change, wanted, ASK))
    found = Board(thief).claim_task("late", **wish)
    assert thief.came
    assert board.get_task(wanted).holder == "intruder"
    assert not found or found.task.id != wanted
    assert violations(board) == {}


@pytest.mark.parametrize("statement", PICKS)
def test_a_task_that_was_cancelled_since_it_was_picked_is_not_handed_out(board, statement):
    """A final task stays as it is."""
    wish, wanted = PICKS[statement]
    board.create_task("t", id="free", priority=1)
    board.create_task("t", id="marked", tags=["mark"], priority=1 if statement == "pick_tagged" else -1)
    board.create_task("t", id="paths", writes=["a"], priority=2 if statement == "pick_in_pool" else -2)
    intruder = Intruder(board.store, statement, lambda change: operations.cancel_task(change, wanted, None, "x"))
    found = Board(intruder).claim_task("late", **wish)
    assert intruder.came
    assert board.get_task(wanted).state == "cancelled"
    assert not found or found.task.id != wanted
    assert violations(board) == {}


@pytest.mark.parametrize("intruder", ["completes it", "cancels it", "takes it back"])
@pytest.mark.parametrize("act", ["cancel", "claim held"])
def test_a_task_that_moved_since_it_was_read_is_not_moved_again(scenes, act, intruder):
    """Cancelling or claiming it by name acts on the row as it was read, or not at all."""
    scene = scenes()
    with scene.open() as board:
        before = everything(board)
        victim, came = intruded(board, scene, "task_by_id", intruder)
        answer = outcome(lambda: ACTS[act](victim, scene))
        assert came.came
        assert violations(board) == {}
        if isinstance(answer, AgentMeshError):
            assert everything(board) == before


@pytest.mark.parametrize("how", ["claimed", "cancelled"])
def test_a_task_whose_time_has_come_is_promoted_once(board, clock, how):
    """Between the list of those that are due and the write, another claimed or cancelled it."""
    board.create_task("t", id="later", not_before=clock.now_us() / 1e6 + 10)
    clock.advance(11)

    def act(change):
        if how == "claimed":
            claim.named_task(change, "later", ASK)
        else:
            operations.cancel_task(change, "later", None, "x")

    intruder = Intruder(board.store, "due_scheduled", act)
    assert not Board(intruder).claim_task("late")
    assert intruder.came
    assert kinds(board).count("task_due") == (1 if how == "claimed" else 0)
    assert violations(board) == {}
