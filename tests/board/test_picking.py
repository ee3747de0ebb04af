"""Picking a task where much is in the way: the search ends, finds what may be handed out, and says why else."""

import pytest

from agentmesh.board.budgets import NEVER_US
from agentmesh.board.picking import PARKED_AT_ONCE, Reach
from agentmesh.errors import StoreError
from tests.support.boards import claimed, damage, event_count, put
from tests.support.scene import hasty

MANY = PARKED_AT_ONCE + 40


def pools(board, prefix="pool", **fields):
    """More pools of tasks than are parked in one transaction, one task in each, all before any other task."""
    named = [{"title": "T", "id": f"{prefix}-{n}", "writes": [f"{prefix}/{n}"], "priority": 5} for n in range(MANY)]
    hasty(board).create_tasks([{**spec, **fields} for spec in named])


def too_dear(board):
    """Each is estimated at more than is left."""
    pools(board, estimate_usd=2)
    board.budgets.set(usd=1)


def averted(board):
    """The agent has just released each of them."""
    pools(board)
    for number in range(MANY):
        claimed(board, f"pool-{number}", "ann").release()


def held(board):
    """Another agent holds a path that all of them need."""
    board.create_task("T", id="wide", writes=["pool/**"], priority=9)
    claimed(board, "wide", "bob")
    pools(board)


def barred(board):
    """Each has a budget of its own, and it is too small."""
    pools(board, estimate_tokens=2)
    for number in range(MANY):
        board.budgets.set(task_id=f"pool-{number}", tokens=1)


IN_THE_WAY = {
    "too dear": (too_dear, "budget"),
    "averted": (averted, "released"),
    "held": (held, "paths_held"),
    "barred": (barred, "budget"),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_a_search_through_many_pools_ends(board, case):
    """Whatever keeps them all from this agent: it is told what, and asked again it is told the same."""
    prepare, reason = IN_THE_WAY[case]
    prepare(board)
    for _ in range(2):
        assert board.claim_task("ann").reason == reason
        assert not board.has_work(agent_id="ann")


@pytest.mark.parametrize("case", IN_THE_WAY)
@pytest.mark.parametrize("paths", [{}, {"writes": ["elsewhere"]}])
def test_what_comes_behind_many_pools_is_found(board, case, paths):
    """A task of less urgency that nothing keeps from this agent."""
    IN_THE_WAY[case][0](board)
    board.create_task("T", id="behind", **paths)
    assert board.has_work(agent_id="ann")
    assert board.claim_task("ann").task.id == "behind"


CLOSERS = {
    "paused": lambda board: board.pause(plan="first"),
    "used up": lambda board: board.budgets.set(plan="first", usd=0),
    "too dear": lambda board: board.budgets.set(plan="first", usd="0.5"),
    "stormy": lambda board: [claimed(board, f"fails-{n}").fail("x", kind="infra", retry=False) for n in range(5)],
}


@pytest.mark.parametrize("closer", CLOSERS)
@pytest.mark.parametrize("paths", [{}, {"writes": ["a"]}])
@pytest.mark.parametrize("able", [[], ["gpu"]])
def test_the_most_urgent_task_of_the_plans_that_are_open_is_found(board, closer, paths, able):
    """The first plan's tasks come before it and are not handed out, with paths or without, for every capability set."""
    put(board, *[f"fails-{n}" for n in range(5)], plan="first", priority=9)
    put(board, "first", plan="first", priority=8, estimate_usd=1, **paths)
    put(board, "low", plan="second", priority=1, estimate_usd=1)
    put(board, "high", plan="third", priority=3, estimate_usd=1, requires=able, **paths)
    put(board, "higher", plan="third", priority=5, requires=["other"])
    CLOSERS[closer](board)
    for number in range(5):
        if closer != "stormy":
            board.cancel_task(f"fails-{number}")
    found = [board.claim_task("ann", capabilities=["gpu"]).task.id for _ in range(2)]
    assert found == ["high", "low"]
    assert not board.claim_task("ann", capabilities=["gpu"])


def test_each_plans_room_is_its_own(board):
    """What one plan's budget has no room for, another's has; the same estimates in all of them."""
    for plan, priority, limit in (("poor", 3, "0.5"), ("fair", 2, "1.5"), ("rich", 1, "9")):
        put(board, f"{plan}-1", f"{plan}-2", plan=plan, priority=priority, estimate_usd=1)
        board.budgets.set(plan=plan, usd=limit)
    assert [board.claim_task("ann").task.id for _ in range(3)] == ["fair-1", "rich-1", "rich-2"]
    assert board.claim_task("ann").message == "Plan poor's budget leaves less than task poor-1 is estimated at."


@pytest.mark.parametrize("scope", [{}, {"plan": "default"}, {"agent": "ann"}])
def test_a_task_that_was_picked_past_a_budget_is_not_handed_out(board, scope, monkeypatch):
    """Should picking and budgets ever disagree, the call fails and changes nothing: no limit is passed in silence."""
    put(board, "a", estimate_usd=2)
    board.budgets.set(usd=1, **scope)
    before = event_count(board)
    monkeypatch.setattr(Reach, "room", lambda *_: None)
    monkeypatch.setattr(Reach, "admits", lambda *_: True)
    with pytest.raises(StoreError, match="picked although"):
        board.claim_task("ann")
    assert (event_count(board), board.get_task("a").state) == (before, "pending")


@pytest.mark.damaged
@pytest.mark.parametrize("bar", [0, NEVER_US])
def test_a_bar_that_does_not_hold_a_task_back_is_an_error_not_a_search_without_end(board, bar, monkeypatch):
    """Once it may be put right; if the task is picked again all the same, the call fails."""
    put(board, "a", estimate_usd=2)
    board.budgets.set(task_id="a", usd=1)
    assert damage(board, "UPDATE budget SET barred_until_us = :bar", bar=bar)
    monkeypatch.setattr(Reach, "room", lambda *_: None)
    with pytest.raises(StoreError, match="picked although"):
        board.claim_task("ann")
    assert board.get_task("a").state == "pending"
