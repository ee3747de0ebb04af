"""The task graph: what an end does to what waits for it, and how edges come and go while tasks run."""

from itertools import permutations

import pytest

from agentmesh import Dependency
from agentmesh.errors import CycleRefused, InvalidArgument, NotFound, WrongState
from tests.support.boards import claimed, done, event_count, kinds, open_board, put, states, violations
from tests.support.clock import TurnableClock
from tests.support.processes import barrier, results

ENDS = {
    "completed": lambda board, task_id: claimed(board, task_id).complete(),
    "failed": lambda board, task_id: claimed(board, task_id).fail("x", retry=False),
    "cancelled": lambda board, task_id: board.cancel_task(task_id),
}
BECOMES = {
    ("completed", "completed"): "pending",
    ("completed", "failed"): "cancelled",
    ("completed", "cancelled"): "cancelled",
    ("failed", "completed"): "cancelled",
    ("failed", "failed"): "pending",
    ("failed", "cancelled"): "cancelled",
    ("finished", "completed"): "pending",
    ("finished", "failed"): "pending",
    ("finished", "cancelled"): "pending",
}


@pytest.mark.parametrize(("condition", "end"), BECOMES)
def test_the_end_of_a_parent_makes_of_its_child_what_the_table_says(board, condition, end):
    """Met: ready. Impossible: cancelled, with a reason that names the parent and how it ended."""
    put(board, "p", f"c: p:{condition}")
    assert states(board)["c"] == "blocked"
    ENDS[end](board, "p")
    child = board.get_task("c")
    assert child.state == BECOMES[condition, end]
    assert child.reason == (f"dependency p ended as {end}" if child.state == "cancelled" else None)


@pytest.mark.parametrize(("condition", "end"), BECOMES)
def test_a_child_with_another_parent_still_open_waits_or_goes_at_once(board, condition, end):
    """A met edge leaves it waiting for the other; an impossible one does not wait for anything."""
    put(board, "p", "q", f"c: p:{condition} q")
    ENDS[end](board, "p")
    expected = BECOMES[condition, end]
    assert states(board)["c"] == ("blocked" if expected == "pending" else "cancelled")


def test_the_last_charged_attempt_of_a_dead_agent_dooms_the_children(board, clock):
    """Where an attempt has failed by itself before; else the task is paused, and nothing is decided."""
    board.create_task("T", id="p", max_attempts=2)
    put(board, "c: p", "d: p:failed")
    claimed(board, "p").fail("boom")
    clock.advance(2)
    claimed(board, "p")
    clock.advance(60)
    board.reclaim_zombies()
    assert states(board) == {"p": "failed", "c": "cancelled", "d": "pending"}


def test_a_failure_that_is_tried_again_changes_nothing_below(board, clock):
    """The parent has not ended."""
    put(board, "p", "c: p", "d: p:failed")
    claimed(board, "p").fail("x")
    assert states(board) == {"p": "scheduled", "c": "blocked", "d": "blocked"}
    clock.advance(10)
    done(board, "p")
    assert states(board) == {"p": "completed", "c": "pending", "d": "cancelled"}


def test_the_impossible_is_cancelled_all_the_way_down_in_one_transaction(board):
    """Each names its own parent and the root; what waits for any end is set free."""
    put(board, "a", "b: a", "c: b", "d: c", "e: c:finished", "f: d:failed")
    claimed(board, "a").fail("x", retry=False)
    assert states(board) == {
        "a": "failed",
        "b": "cancelled",
        "c": "cancelled",
        "d": "cancelled",
        "e": "pending",
        "f": "cancelled",
    }
    assert board.get_task("b").reason == "dependency a ended as failed"
    assert board.get_task("d").reason == "dependency c ended as cancelled (root: a)"
    told = [event for event in board.events() if event.kind == "task_cancelled"]
    assert [(event.task_id, event.data["root"]) for event in told] == [(name, "a") for name in "bcdf"]
    assert len({event.at_us for event in told}) == 1


def test_a_doomed_task_is_cancelled_once(board):
    """A diamond: both of its parents go, it is told once."""
    put(board, "a", "b: a", "c: a", "d: b c")
    board.cancel_task("a")
    assert kinds(board).count("task_cancelled") == 4


def test_completion_counts_down_only_what_waits_for_it(board):
    """Fan-in: the join goes when the last of its parents has, and once."""
    put(board, *[f"p{n}" for n in range(20)], "join: " + " ".join(f"p{n}" for n in range(20)))
    for left in range(19, -1, -1):
        assert states(board)["join"] == "blocked"
        done(board, f"p{left}")
        assert board.get_task("join").unmet == left
    assert states(board)["join"] == "pending"


def test_edges_can_be_added_while_tasks_wait_and_parents_run(board):
    """A ready task is held back again; a running parent is a parent."""
    put(board, "p", "c")
    parent = claimed(board, "p")
    task = board.add_dependency("c", "p")
    assert (task.state, task.unmet) == ("blocked", 1)
    assert board.get_task("c").depends_on == (Dependency("p", "completed"),)
    parent.complete()
    assert states(board)["c"] == "pending"


def test_an_edge_to_a_parent_that_met_it_holds_nothing(board):
    """It is remembered, and its result is carried."""
    put(board, "p", "c")
    done(board, "p", 5)
    assert board.add_dependency("c", "p").state == "pending"
    assert board.claim_task("x").dependencies[0].result == 5


def test_an_edge_to_a_parent_that_can_never_meet_it_cancels_all_below(board):
    """At once, with the root named to the last of them."""
    put(board, "p", "c", "d: c", "e: d")
    claimed(board, "p").fail("x", retry=False)
    assert board.add_dependency("c", "p").state == "cancelled"
    assert states(board) == {"p": "failed", "c": "cancelled", "d": "cancelled", "e": "cancelled"}
    told = [event.data["root"] for event in board.events() if event.kind == "task_cancelled"]
    assert told == ["p", "p", "p"]


@pytest.mark.parametrize("state", ["in_progress", "completed", "failed", "cancelled"])
def test_no_edge_is_added_to_a_task_that_runs_or_has_ended(board, state):
    """It has been handed out; what it depended on is history."""
    put(board, "p", "c")
    if state == "in_progress":
        claimed(board, "c")
    else:
        ENDS[state](board, "c")
    before = event_count(board)
    with pytest.raises(WrongState) as caught:
        board.add_dependency("c", "p")
    assert caught.value.state == state
    assert (event_count(board), board.edges()) == (before, [])


def test_an_edge_that_is_there_is_no_news(board):
    """No second event, no second count."""
    put(board, "p", "c: p")
    before = event_count(board)
    assert board.add_dependency("c", "p").unmet == 1
    assert event_count(board) == before


def test_an_edge_that_is_there_does_not_change_its_condition(board):
    """It is taken out and put in anew, so that nobody is surprised."""
    put(board, "p", "c: p")
    with pytest.raises(InvalidArgument) as caught:
        board.add_dependency("c", "p", condition="finished")
    assert caught.value.field == "condition"


@pytest.mark.parametrize(("child", "parent"), [("c", "nowhere"), ("nowhere", "c")])
def test_an_edge_needs_both_its_ends(board, child, parent):
    """Unknown is an error, never "satisfied"."""
    put(board, "c")
    for verb in (board.add_dependency, board.remove_dependency):
        with pytest.raises(NotFound):
            verb(child, parent)


def test_a_removed_edge_holds_no_longer(board):
    """The last one sets the task free."""
    put(board, "p", "q", "c: p q")
    assert board.remove_dependency("c", "p").state == "blocked"
    assert board.remove_dependency("c", "q").state == "pending"
    assert board.get_task("c").depends_on == ()
    done(board, "p")
    assert board.get_task("c").unmet == 0


def test_a_removed_edge_that_was_met_changes_no_count(board):
    """Only what it held is given back."""
    put(board, "p", "q", "c: p q")
    done(board, "p")
    assert (board.remove_dependency("c", "p").unmet, states(board)["c"]) == (1, "blocked")


def test_removing_an_edge_that_is_not_there_is_no_news(board):
    """It is gone, which is what was wanted."""
    put(board, "p", "c")
    before = event_count(board)
    assert board.remove_dependency("c", "p").state == "pending"
    assert event_count(board) == before


def test_an_edge_can_be_taken_from_a_running_task(board):
    """Its parent was reopened; it shall not wait for it when it is given back."""
    put(board, "p", "c: p")
    done(board, "p")
    claim = claimed(board, "c")
    board.reopen_task("p")
    board.remove_dependency("c", "p")
    assert claim.release().state == "pending"


@pytest.mark.parametrize("end", ENDS)
def test_the_edges_of_a_task_that_has_ended_are_history(board, end):
    """They cannot be removed."""
    put(board, "p", "c: p:finished")
    done(board, "p")
    ENDS[end](board, "c")
    with pytest.raises(WrongState):
        board.remove_dependency("c", "p")


def test_a_task_set_free_before_its_time_is_scheduled(board):
    """Removing the edge does not bring its time forward."""
    put(board, "p")
    board.create_task("T", id="c", depends_on=["p"], not_before="2026-01-02T00:00:00Z")
    assert board.remove_dependency("c", "p").state == "scheduled"


def test_a_task_that_waits_for_itself_is_refused(board):
    """The shortest circle."""
    put(board, "a")
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("a", "a")
    assert caught.value.path == ("a", "a")


def test_an_edge_that_would_close_a_circle_names_the_way_round(board):
    """From the child over what it would wait for back to itself; nothing is written."""
    put(board, "a", "b: a", "c: b", "d: c", "other: a")
    before = event_count(board)
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("a", "d")
    assert caught.value.path == ("a", "d", "c", "b", "a")
    assert "'a' -> 'd' -> 'c' -> 'b' -> 'a'" in caught.value.message
    assert (event_count(board), states(board)["a"]) == (before, "pending")


def test_the_shortest_of_several_ways_round_is_named(board):
    """Whoever reads it has the least to look at."""
    put(board, "a", "b: a", "c: b a", "d: c")
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("a", "d")
    assert caught.value.path == ("a", "d", "c", "a")


def test_a_long_circle_is_named_in_part_and_known_in_full(board):
    """The sentence stays readable, the error has every id."""
    put(board, "t0", *[f"t{n}: t{n - 1}" for n in range(1, 60)])
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("t0", "t59")
    assert len(caught.value.path) == 61
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("order", list(permutations([("a", "b"), ("b", "c"), ("c", "a")])))
def test_the_last_edge_of_a_circle_is_refused_in_any_order(board, order):
    """Whichever it is."""
    put(board, "a", "b", "c")
    for child, parent in order[:2]:
        board.add_dependency(child, parent)
    with pytest.raises(CycleRefused):
        board.add_dependency(*order[2])
    assert len(board.edges()) == 2


@pytest.mark.parametrize("condition", ["completed", "failed", "finished"])
def test_a_circle_is_a_circle_whatever_its_edges_wait_for(board, condition):
    """Each kind of edge is an edge."""
    put(board, "a", f"b: a:{condition}")
    with pytest.raises(CycleRefused):
        board.add_dependency("a", "b", condition=condition)


def test_a_circle_through_a_task_that_has_ended_is_refused(board):
    """It can be reopened, and would wait for itself then."""
    put(board, "a", "b: a", "c: b:finished")
    board.cancel_task("b")
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("a", "c")
    assert caught.value.path == ("a", "c", "b", "a")


def test_the_graph_can_be_read_by_plan(board):
    """Child, parent, condition."""
    put(board, "a", "b: a:finished", plan="one")
    put(board, "c: a", plan="two")
    assert board.edges() == [("b", "a", "finished"), ("c", "a", "completed")]
    assert board.edges("one") == [("b", "a", "finished")]
    assert board.edges("two") == [("c", "a", "completed")]
    assert board.edges("none") == []


def test_edges_are_told_with_both_ends(board):
    """So that a reader of the history can follow the graph, and who changed it."""
    put(board, "a", "b")
    board.add_dependency("b", "a", condition="failed", agent_id="planner")
    board.remove_dependency("b", "a", agent_id="planner")
    added, removed = board.events()[-2:]
    assert (added.kind, added.task_id, added.data) == ("dependency_added", "b", {"parent": "a", "condition": "failed"})
    assert (removed.kind, removed.task_id, removed.data) == ("dependency_removed", "b", {"parent": "a"})
    assert (added.agent_id, removed.agent_id) == ("planner", "planner")


def test_a_running_child_of_a_reopened_parent_is_stopped_if_it_can_never_be_right(board):
    """The parent fails this time; the attempt below it is over, and its holder hears it."""
    put(board, "p", "c: p")
    done(board, "p")
    claimed(board, "c")
    board.reopen_task("p")
    claimed(board, "p").fail("x", retry=False)
    assert states(board) == {"p": "failed", "c": "cancelled"}
    assert board.attempts("c")[0].outcome == "cancelled"


def finish_or_add(line, path, rounds, start, number):
    """In each round, one process completes the parent while the other puts a child under it."""
    with open_board(path, TurnableClock(), seed=number) as board:
        for turn in range(rounds):
            claim = claimed(board, f"p{turn}") if number else None
            start.wait()
            if claim:
                claim.complete()
            else:
                board.create_task("T", id=f"c{turn}", depends_on=[f"p{turn}"])
        line.send(number)


@pytest.mark.multiproc
def test_a_child_that_appears_while_its_parent_completes_is_never_forgotten(board_path, clock):
    """Three hundred races: whoever comes first, the child is ready in the end."""
    with open_board(board_path, clock, seed=9) as board:
        put(board, *[f"p{turn}" for turn in range(300)])
        assert results(2, finish_or_add, board_path, 300, barrier(2)) == [0, 1]
        assert board.status().counts["pending"] == board.status().counts["completed"] == 300
        assert violations(board) == {}
