"""What is still known of a pruned task: its id, how it ended, and that nobody else may have its id."""

import pytest

from agentmesh.errors import DuplicateId, NotFound, Pruned, WrongState
from agentmesh.model import CONDITIONS
from agentmesh.rules import is_met
from tests.support.boards import ENDS, buried, claimed, damage, done, ended, put, states
from tests.support.scene import everything

MATRIX = [(end, condition) for end in ENDS for condition in CONDITIONS]


@pytest.mark.parametrize(
    "call",
    [
        lambda board: board.get_task("a"),
        lambda board: board.attempts("a"),
        lambda board: board.notes("a"),
        lambda board: board.explain("a"),
        lambda board: board.claim_task("w", task_id="a"),
        lambda board: board.update_task("a", priority=1),
        lambda board: board.cancel_task("a"),
        lambda board: board.reopen_task("a"),
        lambda board: board.add_dependency("a", "open"),
        lambda board: board.remove_dependency("a", "open"),
    ],
)
def test_whoever_names_a_pruned_task_is_told_so(board, call):
    """It is not on the board, and the error says how it ended."""
    put(board, "open")
    buried(board, how="failed")
    with pytest.raises(Pruned, match="'a' was pruned after it ended as failed") as caught:
        call(board)
    assert (caught.value.code, caught.value.task_id, caught.value.state) == ("pruned", "a", "failed")
    assert isinstance(caught.value, NotFound)


@pytest.mark.parametrize("verb", ["heartbeat", "complete_task", "release_task", "blackboard"])
def test_the_lease_of_a_pruned_task_is_worth_nothing(board, verb):
    """Its holder is told that the task is over, and nothing is written."""
    lease = buried(board)
    before = everything(board)
    with pytest.raises(Pruned):
        board.blackboard.put("n", "k", 1, lease=lease) if verb == "blackboard" else getattr(board, verb)(lease)
    assert everything(board) == before


def test_an_id_is_never_given_to_another_task(board):
    """Fences only grow: nobody who still holds an old claim can be taken for a holder of the new one."""
    buried(board)
    put(board, "b")
    for specs in (["a"], ["fresh", "a"]):
        with pytest.raises(DuplicateId, match="'a' was pruned"):
            put(board, *specs)
    with pytest.raises(DuplicateId, match="'b' exists"):
        put(board, "b")
    assert set(states(board)) == {"b"}


@pytest.mark.parametrize(("how", "condition"), MATRIX)
@pytest.mark.parametrize("way", ["create", "add"])
def test_waiting_for_a_pruned_task_is_waiting_for_one_that_has_ended(board, how, condition, way):
    """Met, or impossible for ever, exactly as with a task that ended so and is still there."""
    buried(board, "gone", how)
    put(board, "there")
    ended(board, "there", how)
    for parent in ("gone", "there"):
        if way == "create":
            put(board, f"after-{parent}: {parent}:{condition}", f"below-{parent}: after-{parent}")
        else:
            put(board, f"after-{parent}", f"below-{parent}: after-{parent}")
            board.add_dependency(f"after-{parent}", parent, condition=condition)
    told = [[board.get_task(f"{place}-{parent}") for place in ("after", "below")] for parent in ("gone", "there")]
    first, second = [[(task.state, (task.reason or "").replace("gone", "there")) for task in pair] for pair in told]
    assert first == second
    assert first[0][0] == ("pending" if is_met(condition, how) else "cancelled")
    assert [len(pair[0].depends_on) for pair in told] == [0, 1]


def test_a_dependency_on_a_pruned_task_that_is_met_changes_nothing(board):
    """No edge and no event, however often; there is none to be removed either."""
    buried(board)
    put(board, "b")
    before = everything(board)
    assert board.add_dependency("b", "a").state == "pending"
    assert board.remove_dependency("b", "a").state == "pending"
    assert everything(board) == before
    claimed(board, "b")
    with pytest.raises(WrongState):
        board.add_dependency("b", "a")


def test_a_split_may_wait_for_a_pruned_task(board):
    """Its parts are tasks like any other."""
    buried(board)
    put(board, "whole")
    claimed(board, "whole").split([{"title": "t", "id": "part", "depends_on": ["a"]}])
    assert states(board) == {"whole": "blocked", "part": "pending"}


def test_a_task_whose_pruned_parent_doomed_it_can_be_reopened(board):
    """The edges that are left decide: what stood in its way is gone for good."""
    put(board, "b", "c")
    put(board, "a", plan="old")
    board.add_dependency("b", "a")
    board.add_dependency("b", "c")
    ended(board, "a", "failed")
    with pytest.raises(WrongState):
        board.reopen_task("b")
    assert board.prune(plan="old", older_than_sec=0).tasks == 1
    assert board.reopen_task("b").state == "blocked"
    done(board, "c")
    assert states(board)["b"] == "pending"


def test_nothing_comes_back_with_a_later_task_that_got_a_pruned_one_s_key(board):
    """Keys of rows are given again, so whoever was cancelled because of a pruned task forgets that."""
    put(board, "middle", "b: middle")
    put(board, "a", plan="old")
    board.add_dependency("b", "a")
    ended(board, "a", "failed")
    board.prune(plan="old", older_than_sec=0)
    put(board, "new")
    board.add_dependency("middle", "new")
    ended(board, "new", "failed")
    board.reopen_task("new", cascade=True)
    assert states(board) == {"new": "pending", "middle": "blocked", "b": "cancelled"}


def test_a_plan_that_lists_pruned_tasks_is_applied_as_before(board):
    """They count as unchanged, and what waits for them is not torn apart."""
    plan = {"tasks": [{"id": "a", "title": "t"}, {"id": "b", "title": "t", "depends_on": ["a", "x"]}]}
    put(board, "x")
    board.apply_plan(plan)
    done(board, "a")
    done(board, "x")
    done(board, "b")
    damage(board, "UPDATE task SET ended_us = ended_us + 1000000 WHERE id = 'b'")
    assert board.prune(older_than_sec=0).tasks == 2
    plan["tasks"].append({"id": "c", "title": "t", "depends_on": ["a"]})
    report = board.apply_plan(plan)
    assert (report.created, report.updated, report.unchanged) == (("c",), (), ("a", "b"))
    assert claimed(board, "c")


def test_a_plan_cannot_list_a_pruned_task_of_another(board):
    """As with one that is still there."""
    buried(board)
    with pytest.raises(WrongState, match="belongs to plan 'default'"):
        board.apply_plan({"plan": "other", "tasks": [{"id": "a", "title": "t"}]})
