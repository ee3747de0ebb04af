"""The state of a board as a mapping."""

import pytest

from agentmesh import Board
from agentmesh.errors import InvalidArgument
from pytest_agentmesh.assertions import compare, state
from tests.support.boards import done, put


class Verbose:
    """A configuration of pytest that was given `-v`."""

    def get_verbosity(self):
        """Once."""
        return 1


@pytest.fixture
def chain(board):
    """a, and b after it."""
    put(board, "a", "b: a")
    return board


def test_it_equals_a_dict_that_says_the_same(chain):
    """From either side, in any order, and another snapshot of the same."""
    assert state(chain) == {"b": "blocked", "a": "pending"}
    assert {"a": "pending", "b": "blocked"} == state(chain)  # noqa: SIM300 - also the other way round
    assert state(chain) == state(chain)
    assert state(chain) != {"a": "pending"}
    assert state(chain) != {"a": "pending", "b": "blocked", "c": "pending"}
    assert state(chain) != {"a": "blocked", "b": "blocked"}
    assert state(chain) != [("a", "pending"), ("b", "blocked")]


def test_it_is_a_snapshot(chain):
    """What happens later does not change it, and nobody can."""
    before = state(chain)
    done(chain, "a")
    assert before == {"a": "pending", "b": "blocked"}
    assert state(chain) == {"a": "completed", "b": "pending"}
    with pytest.raises(TypeError):
        before["a"] = "completed"
    with pytest.raises(TypeError):
        hash(before)


def test_it_is_read_like_a_dict(chain):
    """In the order in which the tasks were created; a missing one says which are alike."""
    found = state(chain)
    assert list(found) == ["a", "b"]
    assert (found["b"], found.get("c"), len(found)) == ("blocked", None, 2)
    assert repr(found) == "{'a': 'pending', 'b': 'blocked'}"
    with pytest.raises(KeyError, match="c: no such task; there is a and b"):
        found["c"]


def test_a_part_of_it_is_compared(chain):
    """Only these tasks, or only those in a state."""
    assert state(chain).of("a") == {"a": "pending"}
    assert state(chain).of() == {}
    assert state(chain).where("blocked") == {"b"}
    assert state(chain).where("pending", "blocked") == {"a", "b"}
    assert state(chain).where("failed") == set()
    with pytest.raises(KeyError):
        state(chain).of("c")
    with pytest.raises(InvalidArgument, match="did you mean completed"):
        state(chain).where("done")


def test_more_than_a_page_of_tasks_is_one_state(board):
    """Every task is in it."""
    put(board, *(f"t{n}" for n in range(501)))
    assert state(board) == {f"t{n}": "pending" for n in range(501)}


@pytest.mark.parametrize(
    ("op", "left", "right"), [("==", {}, {}), ("in", "a", None), ("<", None, {}), ("is", None, {})]
)
def test_a_comparison_of_something_else_is_left_alone(op, left, right, chain):
    """Pytest explains it in its own way."""
    here = state(chain)
    assert compare(None, op, here if left is None else left, here if right is None else right) is None


def test_a_comparison_shows_only_what_differs(chain):
    """With how much does not, and with the events when more is asked for."""
    done(chain, "a")
    lines = compare(None, "==", state(chain), {"a": "failed", "b": "pending"})
    assert lines == [
        "board.state == expected: 1 task differs, 1 is as expected",
        "a  expected failed, is completed: worker's attempt 1 completed it (event 4)",
    ]
    assert compare(Verbose(), "==", {"a": "failed", "b": "pending"}, state(chain)) == [
        *lines,
        "event 4  0s  task_completed  a  worker, attempt 1",
    ]


def test_a_comparison_of_an_old_state_does_not_explain_the_new_one(chain):
    """The board has gone on: its events are not why it was so."""
    before = state(chain)
    done(chain, "a")
    assert compare(None, "==", before, {"a": "completed", "b": "blocked"}) == [
        "board.state == expected: 1 task differs, 1 is as expected",
        "a  expected completed, is pending",
        "(the board has gone on since it was looked at, at event 2)",
    ]


def test_a_comparison_outlives_its_board(board_path, clock):
    """A board that is closed can no longer say why, but what differs is known."""
    with Board.open(board_path, clock=clock, durability="normal") as board:
        put(board, "a")
        before = state(board)
    assert compare(None, "==", before, {"a": "failed", "b": "pending"}) == [
        "board.state == expected: 2 tasks differ, 0 are as expected",
        "a  expected failed, is pending",
        "b  expected pending, but there is no such task; there is a.",
        "(the board cannot say why any more: The board is closed.)",
    ]


def test_a_long_difference_is_cut(board):
    """Twenty lines are enough to see what is wrong."""
    put(board, *(f"t{n}" for n in range(60)))
    head, *lines = compare(None, "==", state(board), {})
    assert head == "board.state == expected: 60 tasks differ, 0 are as expected"
    assert (len(lines), lines[-1]) == (21, "... and 40 more")
