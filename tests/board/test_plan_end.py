"""Cancelling a plan in batches: others get in between, nothing is half done, and a repeated call goes on."""

import pytest

from agentmesh.board import plan_end
from pytest_agentmesh.history import History
from tests.support.boards import claimed, done, open_board, put, rows, states, violations

GRAPH = ("a", "b: a", "c: a:finished", "d: b c", "e: d:failed", "f", "g: f:finished")


@pytest.fixture(autouse=True)
def in_twos(monkeypatch):
    """A transaction takes two tasks."""
    monkeypatch.setattr(plan_end, "AT_ONCE", 2)


class Between:
    """Does something after each commit of a board; what fails there comes out of the call."""

    def __init__(self):
        self.act = lambda: None
        self.commits = 0

    def reached(self, point):
        """The store has committed."""
        if point == "committed":
            self.commits += 1
            self.act()


@pytest.fixture
def between():
    """What happens between two batches."""
    return Between()


@pytest.fixture
def board(board_path, clock, between):
    """A board that tells when it commits."""
    with open_board(board_path, clock, probe=between) as board:
        yield board


@pytest.fixture
def other(board_path, clock):
    """The same board for somebody else."""
    with open_board(board_path, clock, seed=2) as other:
        yield other


def cancellations(board):
    """The ids of the tasks that were cancelled, in order."""
    return [event.task_id for event in board.events(limit=1000) if event.kind == "task_cancelled"]


def test_between_two_batches_the_board_is_whole(board, other, between):
    """Each promise holds, no task of the plan became ready by the end of another, and each has its event."""
    put(board, *GRAPH)
    before = dict(states(other))
    seen = []

    def look():
        assert violations(other) == {}
        seen.append({name for name, state in states(other).items() if state == "cancelled"})
        assert all(state in (before[name], "cancelled") for name, state in states(other).items())

    between.act, between.commits = look, 0
    assert board.cancel_plan("default", reason="stop") == 7
    assert [len(names) for names in seen] == [2, 4, 6, 7]
    assert sorted(cancellations(other)) == list("abcdefg")
    History(other).check()


def test_the_tasks_come_back_with_the_one_above_them(board):
    """As if that one had been cancelled by itself; the operator's reason stands where nothing is above."""
    put(board, *GRAPH)
    board.cancel_plan("default", reason="stop")
    roots = rows(board, "SELECT id, reason FROM task WHERE root_pk IS NULL ORDER BY pk")
    assert roots == [(name, "stop") for name in ("a", "c", "f", "g")]
    board.reopen_task("a", cascade=True)
    assert {name for name, state in states(board).items() if state != "cancelled"} == {"a", "b"}
    assert board.explain("d").summary == "Task d is cancelled: its plan was cancelled."
    assert violations(board) == {}


def test_what_is_handed_out_or_split_off_meanwhile_is_cancelled_too(board, other, between):
    """The call ends when the plan has no open task."""
    put(board, *[f"t{n}" for n in range(5)])
    claim = claimed(other, "t0", "ada")
    acts = [lambda: claim.split([{"title": "S", "id": "s"}]), lambda: claimed(other, "s", "bob")]
    between.act = lambda: acts.pop(0)() if acts else None
    assert board.cancel_plan("default") == 6
    assert set(states(other).values()) == {"cancelled"}
    assert violations(other) == {}


def test_a_task_that_ends_meanwhile_is_not_counted(board, other, between):
    """It stays as it ended."""
    put(board, *[f"t{n}" for n in range(5)])
    acts = [lambda: done(other, "t0")]
    between.act = lambda: acts.pop(0)() if acts else None
    assert board.cancel_plan("default") == 4
    assert states(other)["t0"] == "completed"


@pytest.mark.parametrize("stop_after", [1, 2, 3, 4])
def test_a_call_that_was_stopped_goes_on_when_it_is_repeated(board, other, between, stop_after):
    """Its total counts every task once; repeated after that, it gives the same total and does nothing."""
    put(board, *GRAPH)
    between.commits = 0

    def stop():
        if between.commits == stop_after:
            raise KeyboardInterrupt

    between.act = stop
    with pytest.raises(KeyboardInterrupt):
        board.cancel_plan("default", agent_id="me", request_id="r")
    put(other, "late")
    assert other.cancel_plan("default", agent_id="me", request_id="r") == (7 if stop_after == 4 else 8)
    before = other.status().last_seq
    assert other.cancel_plan("default", agent_id="me", request_id="r") == (7 if stop_after == 4 else 8)
    assert other.status().last_seq == before
    assert len(cancellations(other)) == (7 if stop_after == 4 else 8)
    assert violations(other) == {}


def test_tasks_of_other_plans_are_not_counted(board):
    """They are cancelled where they can never run, or set free where they wait for any end."""
    put(board, "a", "b: a")
    put(board, "x: a", "y: b:finished", plan="other")
    assert board.cancel_plan("default") == 2
    assert states(board) == {"a": "cancelled", "b": "cancelled", "x": "cancelled", "y": "pending"}
