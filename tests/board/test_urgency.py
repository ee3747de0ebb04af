"""Urgency: the highest priority among a task and everything that waits for it, whatever happens to the graph."""

import pytest
from hypothesis import given, settings, strategies as st

from agentmesh.model import FINAL
from tests.support.boards import claimed, done, open_board, put, violations
from tests.support.clock import TurnableClock


def urgencies(board):
    """Of the tasks that are not final."""
    return {task.id: task.urgency for task in board.list_tasks(limit=500).tasks if task.state not in FINAL}


def chain(board, *priorities):
    """Tasks a, b, c ..., each waiting for the one before."""
    names = "abcdefgh"[: len(priorities)]
    for place, (name, priority) in enumerate(zip(names, priorities, strict=True)):
        board.create_task(name, id=name, priority=priority, depends_on=[names[place - 1]] if place else [])


def test_a_task_is_as_urgent_as_what_waits_for_it(board):
    """Over any number of edges, up only."""
    chain(board, 0, 1, 9, 2)
    assert urgencies(board) == {"a": 9, "b": 9, "c": 9, "d": 2}
    assert [task.priority for task in board.list_tasks().tasks] == [0, 1, 9, 2]


def test_tasks_of_one_call_lend_each_other_their_urgency(board):
    """As if they had been created one by one."""
    put(board, "a", "b: a", "c: b")
    board.create_tasks(
        [
            {"title": "e", "id": "e", "depends_on": ["d"], "priority": 5},
            {"title": "d", "id": "d", "depends_on": ["c"]},
        ]
    )
    assert urgencies(board) == dict.fromkeys("abcde", 5)


def test_an_urgent_late_comer_brings_its_ancestors_forward(board):
    """The next claim gets the task that the urgent one waits for."""
    put(board, "first", "second")
    board.create_task("Hot", priority=9, depends_on=["second"])
    assert board.claim_task("x").task.id == "second"


def test_a_negative_priority_lends_nothing(board):
    """A child that can wait makes its parent no less urgent."""
    chain(board, 0, -5)
    assert urgencies(board) == {"a": 0, "b": -5}
    chain_parent = board.create_task("P", id="p", priority=-9)
    board.create_task("C", depends_on=["p"], priority=-5)
    assert (chain_parent.urgency, board.get_task("p").urgency) == (-9, -5)


def test_a_raised_priority_goes_up_at_once(board):
    """Through a task that is more urgent by itself, too."""
    chain(board, 0, 3, 0)
    board.update_task("c", priority=7)
    assert urgencies(board) == {"a": 7, "b": 7, "c": 7}


def test_a_lowered_priority_goes_up_as_far_as_it_was_lent(board):
    """Down to what is left of each ancestor's own priority and its other children."""
    chain(board, 0, 3, 9)
    board.create_task("Other", id="o", priority=5, depends_on=["a"])
    board.update_task("c", priority=1)
    assert urgencies(board) == {"a": 5, "b": 3, "c": 1, "o": 5}


def test_lowering_what_others_still_demand_changes_nothing(board):
    """Two children of the same urgency."""
    put(board, "p")
    for name in ("c", "d"):
        board.create_task(name, id=name, priority=4, depends_on=["p"])
    board.update_task("c", priority=0)
    assert urgencies(board) == {"p": 4, "c": 0, "d": 4}


def test_an_added_edge_lends_urgency_and_a_removed_one_takes_it_back(board):
    """To all above."""
    chain(board, 0, 0)
    board.create_task("Hot", id="h", priority=8)
    board.add_dependency("h", "b")
    assert urgencies(board) == {"a": 8, "b": 8, "h": 8}
    board.remove_dependency("h", "b")
    assert urgencies(board) == {"a": 0, "b": 0, "h": 8}


def test_a_cancelled_child_takes_its_urgency_with_it(board):
    """And so does everything that is cancelled with it."""
    chain(board, 0, 2, 5)
    board.create_task("Deep", id="z", priority=9, depends_on=["c"])
    board.cancel_task("c")
    assert urgencies(board) == {"a": 2, "b": 2}


def test_a_child_that_fails_takes_its_urgency_with_it(board):
    """It no longer waits: a task may be urgent only for what is open."""
    put(board, "p")
    board.create_task("Hot", id="h", priority=9, depends_on=["p"])
    done(board, "p")
    board.reopen_task("p")
    board.remove_dependency("h", "p")
    board.add_dependency("h", "p")
    assert urgencies(board)["p"] == 9
    board.cancel_task("h")
    assert urgencies(board) == {"p": 0}


def test_a_completed_child_lends_nothing_to_a_reopened_parent(board):
    """Only what is open counts."""
    chain(board, 0, 9)
    done(board, "a")
    done(board, "b")
    assert board.reopen_task("a").urgency == 0


@pytest.mark.parametrize("end", ["complete", "fail", "cancel", "split"])
def test_a_child_that_ends_after_its_parent_was_reopened_lends_no_more(board, end):
    """The parent is as urgent as what is still open makes it, and so is what the parent waits for."""
    chain(board, 0, 0, 5)
    done(board, "a")
    done(board, "b")
    child = claimed(board, "c")
    board.reopen_task("a")
    board.reopen_task("b")
    assert urgencies(board) == {"a": 5, "b": 5, "c": 5}
    ends = {
        "complete": child.complete,
        "fail": lambda: child.fail("x", retry=False),
        "cancel": lambda: board.cancel_task("c"),
        "split": lambda: child.split([{"title": "s", "id": "s"}]),
    }
    ends[end]()
    lent = {"a": 5, "b": 5, "c": 5, "s": 5} if end == "split" else {"a": 0, "b": 0}
    assert (urgencies(board), violations(board)) == (lent, {})


def test_a_split_task_that_is_completed_while_a_part_is_reopened_lends_no_more(board):
    """The parts are parents, too."""
    put(board, "c", priority=5)
    claimed(board, "c").split([{"title": "s", "id": "s"}])
    done(board, "s")
    claim = claimed(board, "c")
    board.reopen_task("s")
    claim.complete()
    assert (urgencies(board), violations(board)) == ({"s": 0}, {})


def test_completing_a_task_looks_at_its_parents_only_when_one_is_open(board_path, clock):
    """What every completion would pay for, only that of a task with a reopened parent does."""
    probe = Statements()
    with open_board(board_path, clock, probe=probe) as board:
        chain(board, 0, 5)
        done(board, "a")
        claim = claimed(board, "b")
        probe.seen.clear()
        claim.complete()
        assert not {"do:raised_parents", "do:parents_of", "do:urgency_below"} & set(probe.seen)
        board.reopen_task("b")
        claim = claimed(board, "b")
        board.reopen_task("a")
        probe.seen.clear()
        claim.complete()
        assert "do:raised_parents" in probe.seen


class Statements:
    """Remembers at which points of the store a call came by."""

    def __init__(self):
        self.seen = []

    def reached(self, point):
        """One more."""
        self.seen.append(point)


def test_a_reopened_child_lends_its_urgency_again(board):
    """Up to the open ancestors."""
    chain(board, 0, 0, 9)
    board.cancel_task("c")
    assert urgencies(board) == {"a": 0, "b": 0}
    board.reopen_task("c")
    assert urgencies(board) == {"a": 9, "b": 9, "c": 9}


def test_a_running_task_is_raised_too(board):
    """It may be given back, and then it is the first to go."""
    put(board, "a", "b")
    claim = claimed(board, "b")
    board.create_task("Hot", depends_on=["b"], priority=9)
    assert board.get_task("b").urgency == 9
    claim.release()
    assert board.claim_task("y").task.id == "b"


def test_the_order_within_a_pool_follows_urgency(board):
    """Tasks with the same paths are one pool; its head changes with the graph."""
    put(board, "a", "b", writes=["f"])
    board.create_task("Hot", id="h", priority=9, depends_on=["b"])
    assert board.claim_task("x").task.id == "b"


def test_a_lowered_task_in_a_pool_is_no_longer_its_head(board):
    """Removing the edge puts it back behind the older one."""
    put(board, "a", "b", writes=["f"])
    put(board, "c")
    board.create_task("Hot", id="h", priority=9, depends_on=["b"])
    board.remove_dependency("h", "b")
    board.cancel_task("h")
    assert [board.claim_task("x").task.id, board.claim_task("x").task.id] == ["a", "c"]


def test_a_diamond_is_lowered_once_and_right(board):
    """Children before parents, however many ways there are."""
    put(board, "a", "b: a", "c: a", "d: b c")
    board.create_task("Hot", id="h", priority=9, depends_on=["d"])
    board.update_task("b", priority=4)
    board.cancel_task("h")
    assert urgencies(board) == {"a": 4, "b": 4, "c": 0, "d": 0}


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "priority", "cancel", "claim", "complete", "fail", "reopen", "reopen"]),
        st.integers(0, 6),
        st.integers(0, 6),
        st.integers(-2, 5),
    ),
    max_size=25,
)


def try_step(board, claims, step):
    """Do something to a graph of seven tasks; edges run from higher to lower numbers, so they close no circle."""
    how, one, two, number = step
    name, other = f"t{max(one, two)}", f"t{min(one, two)}"
    state = board.get_task(name).state
    if how == "add" and one != two and state not in FINAL and state != "in_progress":
        board.add_dependency(name, other, condition="finished")
    elif how == "remove" and one != two and state not in FINAL:
        board.remove_dependency(name, other)
    elif how == "priority" and state not in FINAL:
        board.update_task(name, priority=number)
    elif how == "cancel" and state not in FINAL:
        board.cancel_task(name)
    elif how == "claim" and state == "pending":
        claims[name] = claimed(board, name)
    elif how in ("complete", "fail") and state in ("pending", "in_progress"):
        claim = claims[name] if state == "in_progress" else claimed(board, name)
        _ = claim.complete() if how == "complete" else claim.fail("x", retry=False)
    elif how == "reopen" and state in FINAL:
        board.reopen_task(name)


@settings(max_examples=40)
@given(STEPS)
def test_whatever_happens_to_a_graph_its_urgencies_are_right(tmp_path_factory, steps):
    """After each step every open task is as urgent as the highest priority at or below it."""
    with open_board(tmp_path_factory.mktemp("urgency") / "board.db", TurnableClock()) as board:
        put(board, *[f"t{n}" for n in range(7)])
        claims = {}
        for step in steps:
            try_step(board, claims, step)
            assert violations(board) == {}


def test_two_losses_at_once_reach_the_parent_they_share(board):
    """A parent that the greater loss reaches is worked out after the child that the smaller one reaches."""
    put(board, "root")
    put(board, "gone", priority=2)
    put(board, "kept", depends_on=["root", "gone:finished"])
    put(board, "high", priority=3, depends_on=["root", "gone"])
    put(board, "low", priority=2, depends_on=["kept", "gone"])
    assert urgencies(board)["root"] == 3
    board.cancel_task("gone")
    assert urgencies(board) == {"root": 0, "kept": 0}


def test_a_claim_that_heals_picks_by_the_urgencies_after_it(board, clock):
    """What a lost lease cancels lends no urgency to the very claim that takes the lease back."""
    put(board, "held", max_attempts=2, priority=9)
    claimed(board, "held").fail("boom")
    clock.advance(2)
    claimed(board, "held")
    put(board, "raised", priority=-1)
    put(board, "plain")
    put(board, "both", depends_on=["held", "raised"])
    clock.advance(61)
    claim = board.claim_task("ada")
    assert claim.task.id == "plain"
