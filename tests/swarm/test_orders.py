"""Two calls at once, in every order: each is whole, each acts on what it finds, and the board keeps its promises."""

import pytest

from agentmesh.errors import AgentMeshError, AlreadyClaimed, Busy, LeaseLost, StoreError, TaskCancelled, WrongState
from agentmesh.model import NoClaim
from tests.support.boards import violations
from tests.support.interleave import Party, outcome
from tests.support.scene import ACTS, everything

INSIDE = ("begin", "commit")


@pytest.mark.parametrize("act", ACTS)
def test_nobody_sees_half_of_a_call(scenes, act):
    """At each point inside it, another board sees what was before; from the commit on, all that it did (P6)."""
    party, scene = Party(), scenes()
    with scene.open(probe=party) as board, scene.open(seed=2) as other:
        before = everything(other)
        party.start(lambda: ACTS[act](board, scene))
        while party.at != "committed":
            assert everything(other) == before, party.at
            party.step()
        after = everything(other)
        party.finish()
        assert everything(other) == after != before
        assert violations(other) == {}


@pytest.mark.parametrize("act", ACTS)
def test_while_one_writes_another_is_busy_or_waits(scenes, act):
    """One that may not wait is refused and has changed nothing; once the first is through, it works."""
    party, scene = Party(), scenes()
    with scene.open(probe=party) as board, scene.open(seed=2, busy_timeout_sec=0) as other:
        before = everything(other)
        party.start(lambda: ACTS[act](board, scene))
        for point in INSIDE:
            assert party.run_to(point)
            assert isinstance(outcome(lambda: ACTS["note"](other, scene)), Busy)
            assert everything(other) == before
        party.finish()
        assert not isinstance(outcome(lambda: ACTS["note"](other, scene)), StoreError)
        assert violations(other) == {}


def one_after_the_other(scene, first, second):
    """Two calls on boards of their own, and how they leave the scene."""
    with scene.open(seed=2) as one, scene.open(seed=1) as two:
        answers = outcome(lambda: ACTS[first](one, scene)), outcome(lambda: ACTS[second](two, scene))
        return answers, everything(one)


@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_waits_for_its_turn_acts_on_what_it_then_finds(scenes, act):
    """Another call gets in first, whichever: the result is as if the two had been made one after the other."""
    for other in ACTS:
        party, scene = Party(), scenes()
        with scene.open(seed=1, probe=party) as board, scene.open(seed=2) as faster:
            party.start(lambda board=board, scene=scene: ACTS[act](board, scene))
            assert party.at == "transaction"
            first = outcome(lambda faster=faster, scene=scene, other=other: ACTS[other](faster, scene))
            second = party.finish()
            left = everything(faster)
            assert violations(faster) == {}, other
        for answer in (first, second):
            assert not isinstance(answer, Exception) or isinstance(answer, AgentMeshError), (other, answer)
            assert not isinstance(answer, StoreError), (other, answer)
        answers, wanted = one_after_the_other(scenes(), other, act)
        assert left == wanted, other
        assert [type(answer) for answer in answers] == [type(first), type(second)], other


def said(answer):
    """The gist of an answer."""
    if isinstance(answer, Exception):
        return type(answer)
    if isinstance(answer, NoClaim):
        return answer.reason
    if isinstance(answer, list):
        return [getattr(one, "outcome", None) or one.id for one in answer]
    return getattr(answer, "state", None) or type(answer).__name__


ORDERS = [
    # the order, what each says, the task, its attempts
    (("complete", "reclaim"), ("completed", []), "completed", ["completed"]),
    (("reclaim", "complete"), (["reclaimed"], LeaseLost), "pending", ["reclaimed"]),
    (("complete", "complete"), ("completed", LeaseLost), "completed", ["completed"]),
    (("cancel", "reclaim"), ("cancelled", []), "cancelled", ["cancelled"]),
    (("reclaim", "cancel"), (["reclaimed"], "cancelled"), "cancelled", ["reclaimed"]),
    (("cancel", "complete"), ("cancelled", TaskCancelled), "cancelled", ["cancelled"]),
    (("complete", "cancel"), ("completed", WrongState), "completed", ["completed"]),
    (("cancel", "heartbeat"), ("cancelled", TaskCancelled), "cancelled", ["cancelled"]),
    (("heartbeat", "reclaim"), ("Lease", []), "in_progress", [None]),
    (("reclaim", "heartbeat"), (["reclaimed"], LeaseLost), "pending", ["reclaimed"]),
    (("reclaim", "reclaim"), (["reclaimed"], []), "pending", ["reclaimed"]),
    (("claim held", "complete"), ("Claim", LeaseLost), "in_progress", ["reclaimed", None]),
    (("complete", "claim held"), ("completed", "final"), "completed", ["completed"]),
    (("claim", "complete"), ("Claim", LeaseLost), "in_progress", ["reclaimed", None]),
    (("complete", "claim"), ("completed", "Claim"), "completed", ["completed"]),
    (("claim held", "reclaim"), ("Claim", []), "in_progress", ["reclaimed", None]),
    (("reclaim", "claim held"), (["reclaimed"], "Claim"), "in_progress", ["reclaimed", None]),
    (("claim held", "claim held"), ("Claim", AlreadyClaimed), "in_progress", ["reclaimed", None]),
    (("resume", "complete"), ("Claim", LeaseLost), "in_progress", [None]),
    (("complete", "resume"), ("completed", "final"), "completed", ["completed"]),
    (("resume", "claim held"), ("Claim", AlreadyClaimed), "in_progress", [None]),
    (("fail", "reclaim"), ("scheduled", []), "scheduled", ["failed"]),
    (("reclaim", "fail"), (["reclaimed"], LeaseLost), "pending", ["reclaimed"]),
    (("release", "reclaim"), ("pending", []), "pending", ["released"]),
    (("split", "cancel"), (None, "cancelled"), "cancelled", ["split"]),
    (("cancel", "split"), ("cancelled", TaskCancelled), "cancelled", ["cancelled"]),
    (("pause", "claim"), ("Pause", "Claim"), "pending", ["reclaimed"]),
    (("cancel plan", "complete"), ("int", TaskCancelled), "cancelled", ["cancelled"]),
    (("complete", "note"), ("completed", LeaseLost), "completed", ["completed"]),
    (("complete", "hold"), ("completed", LeaseLost), "completed", ["completed"]),
    (("complete", "tie"), ("completed", "pending"), "completed", ["completed"]),
    (("fail for good", "tie"), ("failed", "cancelled"), "failed", ["failed"]),
    (("record", "complete"), ("UsageReceipt", "completed"), "completed", ["completed"]),
    (("complete", "record"), ("completed", "UsageReceipt"), "completed", ["completed"]),
    (("reclaim", "record"), (["reclaimed"], "UsageReceipt"), "pending", ["reclaimed"]),
    (("cancel", "record"), ("cancelled", "UsageReceipt"), "cancelled", ["cancelled"]),
    (("claim held", "record"), ("Claim", "UsageReceipt"), "in_progress", ["reclaimed", None]),
    (("record", "record"), ("UsageReceipt", "UsageReceipt"), "in_progress", [None]),
    (("stop", "claim"), ("Budget", "budget"), "pending", ["reclaimed"]),
    (("claim", "stop"), ("Claim", "Budget"), "in_progress", ["reclaimed", None]),
    (("stop", "complete"), ("Budget", "completed"), "completed", ["completed"]),
    (("estimate", "claim held"), ("in_progress", "budget"), "pending", ["reclaimed"]),
    (("claim held", "estimate"), ("Claim", "in_progress"), "in_progress", ["reclaimed", None]),
    (("fail infra", "claim"), ("scheduled", "Claim"), "scheduled", ["failed"]),
    (("cap", "claim held"), ("ClaimCap", "Claim"), "in_progress", ["reclaimed", None]),
]


@pytest.mark.parametrize(("order", "told", "state", "attempts"), ORDERS)
def test_the_order_decides_and_the_loser_is_told(scenes, order, told, state, attempts):
    """Who comes first is obeyed; the other one's call is refused, or finds nothing left to do."""
    scene = scenes()
    answers, _ = one_after_the_other(scene, *order)
    with scene.open() as board:
        assert told[0] is None or said(answers[0]) == told[0]
        assert said(answers[1]) == told[1]
        assert board.get_task("held").state == state
        assert [attempt.outcome for attempt in board.attempts("held")] == attempts
        assert violations(board) == {}


@pytest.mark.parametrize("order", [("complete", "create"), ("create", "complete")])
def test_a_child_is_ready_whether_it_came_before_or_after_its_parents_end(scenes, order):
    """Either its countdown is counted down, or it never had anything to wait for."""
    scene = scenes()
    one_after_the_other(scene, *order)
    with scene.open() as board:
        assert board.get_task("new").state == "pending"
        assert board.get_task("then").state == "pending"
        assert board.get_task("else").state == "cancelled"
        assert violations(board) == {}


def test_a_late_completion_that_comes_first_is_marked(scenes):
    """The lease was due and nobody had taken it back: the work counts, and the history says that it was late (P2)."""
    scene = scenes()
    one_after_the_other(scene, "complete", "reclaim")
    with scene.open() as board:
        assert [attempt.late for attempt in board.attempts("held")] == [True]
        [ended] = [event for event in board.events(0) if (event.kind, event.task_id) == ("task_completed", "held")]
        assert ended.data["late"] is True
