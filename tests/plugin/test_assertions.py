"""Assertions on boards: what all of them have in common."""

import inspect
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.errors import InvalidArgument
from pytest_agentmesh import assertions
from pytest_agentmesh.assertions import (
    Assertions,
    assert_all_completed,
    assert_all_final,
    assert_attempts,
    assert_blocked,
    assert_budget_left,
    assert_claimed,
    assert_completed,
    assert_entry,
    assert_failed,
    assert_lease,
    assert_never_ran,
    assert_no_entry,
    assert_not_together,
    assert_ran_in_order,
    assert_ready,
    assert_spent,
    assert_state,
    assert_unclaimed,
    assert_wasted,
    assert_within,
    state,
)
from tests.support.boards import claimed, done, put
from tests.support.clock import TurnableClock

DOCS = Path(__file__).parents[2] / "docs"
FUNCTIONS = [name for name in assertions.__all__ if name.startswith("assert_")]

IMPOSSIBLE = {
    "no task": assert_completed,
    "a task twice": lambda board: assert_ready(board, "a", "a"),
    "one task in order": lambda board: assert_ran_in_order(board, "a"),
    "one task together": lambda board: assert_not_together(board, "a"),
    "no such state": lambda board: assert_state(board, {"a": "running"}),
    "a state that is no word": lambda board: assert_state(board, {"a": 1}),
    "no such outcome": lambda board: assert_attempts(board, "a", ["done"]),
    "one agent too many": lambda board: assert_attempts(board, "a", ["completed"], by=["x", "y"]),
    "agents as a text": lambda board: assert_attempts(board, "a", ["completed"], by="x"),
    "attempt nought": lambda board: assert_claimed(board, "a", attempt=0),
    "no lease": lambda board: assert_lease(board, "a"),
    "no duration": lambda board: assert_lease(board, "a", left="soon"),
    "no such kind": lambda board: assert_failed(board, "a", kind="bug"),
    "version nought": lambda board: assert_entry(board, "n", "k", version=0),
    "no namespace": lambda board: assert_entry(board, "/n", "k"),
    "no expectation of money": assert_spent,
    "less than no money": lambda board: assert_spent(board, usd=-1),
    "no amount": lambda board: assert_within(board, usd="much"),
    "less than no tokens": lambda board: assert_within(board, tokens=-1),
    "too fine a share": lambda board: assert_spent(board, by_agent={"x": "0.0000000000001"}),
    "no waste": assert_wasted,
    "two budgets": lambda board: assert_budget_left(board, usd=1, plan="p", agent="x"),
    "no such state to look for": lambda board: state(board).where("done"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_a_call_that_cannot_be_right_is_refused(case, board):
    """It is an error of the test, not a failure of the board."""
    put(board, "a")
    with pytest.raises(InvalidArgument):
        IMPOSSIBLE[case](board)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pytest_points_at_the_line_of_the_test(name):
    """No frame of an assertion is shown."""
    assert "__tracebackhide__" in inspect.unwrap(getattr(assertions, name)).__code__.co_varnames


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_a_method_of_the_boards_that_have_them(name):
    """Both are one, so their arguments cannot part."""
    assert vars(Assertions)[name] is getattr(assertions, name)
    assert next(iter(inspect.signature(getattr(assertions, name)).parameters)) == "board"


def test_the_methods_look_at_their_own_board(board_path, clock):
    """A board that has them is asserted on by its own methods."""
    with Assertions.open(board_path, clock=clock, durability="normal") as board:
        put(board, "a", "b: a")
        board.assert_blocked("b", by={"a"})
        assert board.state == {"a": "pending", "b": "blocked"}
        with pytest.raises(AssertionError, match="expected task a to be blocked"):
            board.assert_blocked("a")
        assert isinstance(board, Board)


def test_every_function_is_in_the_docs():
    """Whoever looks for an assertion finds it."""
    text = "".join(page.read_text("utf-8") for page in DOCS.glob("testing*.md"))
    assert [name for name in (*FUNCTIONS, "compare", "state", "State") if f"`{name}" not in text] == []


class Counted:
    """How often a board asks its store for anything."""

    def __init__(self):
        self.count = 0

    def reached(self, point):
        """Count a statement."""
        self.count += point.startswith("do:")


RIGHT = {
    "state": lambda board: assert_state(board, {"t0": "in_progress"}),
    "final": lambda board: assert_all_final(board, plan="old"),
    "blocked": lambda board: assert_blocked(board, "t1", by="t0"),
    "order": assert_ran_in_order,
    "together": lambda board: assert_not_together(board, "o0", "t0"),
    "spent": lambda board: assert_spent(board, usd="0.01", by_task={"t0": "0.01"}),
}
WRONG = {
    "state": lambda board: assert_state(board, dict.fromkeys(state(board), "completed")),
    "completed": assert_all_completed,
    "never ran": lambda board: assert_never_ran(board, *(f"o{i}" for i in range(20))),
    "unclaimed": lambda board: assert_unclaimed(board, "t0"),
    "spent": lambda board: assert_spent(board, usd="0.02"),
}


def chain(path, clock, probe, n):
    """A chain of n tasks, the first of them held, and as many that are done."""
    board = Board.open(path, clock=clock, durability="normal", probe=probe)
    put(board, "t0", *(f"t{i}: t{i - 1}" for i in range(1, n)))
    put(board, *(f"o{i}" for i in range(20)), plan="old")
    for i in range(20):
        done(board, f"o{i}")
    board.ledger.record(lease=claimed(board, "t0"), output_tokens=5, cost_usd="0.01")
    return board


@pytest.fixture(scope="module")
def chains(tmp_path_factory):
    """Two boards of different size, each with what it has been asked."""
    clock, folder = TurnableClock(), tmp_path_factory.mktemp("chains")
    probes = [Counted(), Counted()]
    boards = [chain(folder / f"{n}.db", clock, probe, n) for n, probe in zip((125, 1_000), probes, strict=True)]
    yield list(zip(boards, probes, strict=True))
    for board in boards:
        board.close()


@pytest.mark.parametrize("name", RIGHT)
def test_an_assertion_that_holds_reads_a_large_board_in_pages(name, chains):
    """Eight times as many tasks cost a few pages more."""
    asked = []
    for board, probe in chains:
        probe.count = 0
        RIGHT[name](board)
        asked.append(probe.count)
    assert asked[1] <= asked[0] + 8


@pytest.mark.parametrize("name", WRONG)
def test_a_message_of_a_large_board_reads_it_in_pages(name, chains):
    """It looks closer at as many tasks as it shows, not at all of them."""
    asked = []
    for board, probe in chains:
        probe.count = 0
        with pytest.raises(AssertionError):
            WRONG[name](board)
        asked.append(probe.count)
    assert asked[1] <= asked[0] + 8


def test_a_pruned_board_is_judged_by_its_rows(board, clock):
    """Attempts are known without their events; what needs the whole history says that it is not whole."""
    put(board, "a", "b: a")
    done(board, "a")
    clock.advance(10)
    done(board, "b")
    clock.advance(100)
    claimed(board, put(board, "c")[0].id)
    board.prune(events_older_than_sec=50)
    assert_ran_in_order(board, "a", "b", "c")
    assert_not_together(board, "a", "b", "c")
    assert_attempts(board, "a", ["completed"])
    assert_completed(board, "a", "b")
    with pytest.raises(AssertionError, match="expected b to end before a began"):
        assert_ran_in_order(board, "b", "a")
    with pytest.raises(AssertionError, match="history before event 7 was pruned"):
        assert_ran_in_order(board)


def test_a_long_history_is_read_to_its_end(board):
    """The last of 1,200 events is quoted as well as the first."""
    for _ in range(1_200):
        board.blackboard.increment("n", "k", agent_id="x")
    with pytest.raises(AssertionError, match=r"x wrote version 1200 at 0s \(event 1200\)"):
        assert_no_entry(board, "n", "k")


def test_an_imported_board_says_that_its_history_is_short(board, tmp_path, clock):
    """Its attempts are there, their events are not."""
    put(board, "a", "b: a")
    done(board, "a")
    board.export(tmp_path / "board.jsonl")
    Board.import_board(tmp_path / "board.jsonl", tmp_path / "new.db", clock=clock)
    with Board.open(tmp_path / "new.db", clock=clock, durability="normal") as new:
        assert_attempts(new, "a", ["completed"])
        with pytest.raises(AssertionError, match="the board was imported"):
            assert_ran_in_order(new)


def test_long_names_stay_within_the_line(board):
    """Names of 128 characters lose their middle rather than the frame of the message."""
    long, agent = "t" * 128, "a" * 128
    put(board, long, f"b: {long}")
    claimed(board, long, agent).fail("x" * 500, retry=False)
    for call in (
        lambda: assert_attempts(board, long, ["completed"]),
        lambda: assert_completed(board, long, "b"),
        lambda: assert_blocked(board, "b", by={long}),
        lambda: assert_never_ran(board, long),
        lambda: assert_state(board, {long: "completed"}),
    ):
        with pytest.raises(AssertionError) as failure:
            call()
        assert max(map(len, str(failure.value).splitlines())) <= 92
