"""A wait lasts as long in real time as it was asked to, whatever the wall clock says meanwhile."""

import subprocess
import sys
import textwrap

import freezegun
import pytest
import time_machine

from agentmesh import Board
from tests.support.boards import claimed, put
from tests.support.patience import PATIENCE_SEC
from tests.support.waiting import answer, sleepers

FREEZERS = {
    "freezegun": lambda: freezegun.freeze_time("2026-01-01"),
    "freezegun, real asyncio": lambda: freezegun.freeze_time("2026-01-01", real_asyncio=True),
    "time-machine": lambda: time_machine.travel("2026-01-01", tick=False),
}
WAITS = {
    "claim_task": lambda board: board.claim_task("x", wait_sec=0.01),
    "a named task": lambda board: board.claim_task("x", task_id="held", wait_sec=0.01),
    "events": lambda board: board.events(board.status().last_seq, wait_sec=0.01),
}


@pytest.fixture
def threads(monkeypatch):
    """Threads for calls that sleep; without a poke they look again soon."""
    with sleepers(monkeypatch, tick_us=50_000) as found:
        yield found


def a_held_task(board):
    """One task, in the hands of another; it waits for none."""
    put(board, "parent", "held: parent")


@pytest.mark.parametrize("verb", WAITS)
def test_a_wait_ends_on_a_clock_that_stands_still(board, verb):
    """The board's own clock is never turned here."""
    a_held_task(board)
    claimed(board, "parent")
    assert not WAITS[verb](board)


@pytest.mark.parametrize("step_sec", [-3600, 3600])
@pytest.mark.parametrize("verb", ["claim_task", "events"])
def test_a_step_of_the_clock_does_not_change_the_length_of_a_wait(board, clock, threads, verb, step_sec):
    """Set back it would last an hour longer, set forward it would end at once."""
    put(board, "a")
    claimed(board, "a").complete()
    call = {"claim_task": (board.claim_task, "x"), "events": (board.events, board.status().last_seq)}[verb]
    short = threads.start(*call, wait_sec=0.3)
    long = threads.start(*call, wait_sec=50)
    clock.advance(step_sec)
    board.wake_waits()
    assert not answer(short)
    assert not long.done()
    put(board, "b")
    assert answer(long)


@pytest.mark.parametrize("freezer", FREEZERS)
@pytest.mark.parametrize("verb", WAITS)
def test_a_wait_ends_while_time_is_frozen(board_path, freezer, verb):
    """The board goes by the system's clock, which stands still; two writers and their gate go on, too."""
    with FREEZERS[freezer](), Board.open(board_path) as board, Board.open(board_path) as other:
        a_held_task(board)
        assert claimed(other, "parent")
        assert not WAITS[verb](board)


@pytest.mark.parametrize("freezer", ["freezegun", "time-machine"])
def test_a_wait_ends_if_agentmesh_was_imported_while_time_was_frozen(tmp_path, freezer):
    """A name that is taken from a frozen `time` stays the frozen one for good."""
    freeze = {"freezegun": "freezegun.freeze_time('2026-01-01')", "time-machine": "time_machine.travel(0, tick=False)"}
    script = f"""
        import freezegun, time_machine
        with {freeze[freezer]}:
            from agentmesh import Board
            from agentmesh.clock import Patience
            with Board.open({str(tmp_path / "board.db")!r}) as board:
                assert not board.claim_task("x", wait_sec=0.01)
                assert not board.events(wait_sec=0.01)
                patience = Patience(10_000)
                while patience.left_sec:
                    pass
        with Board.open({str(tmp_path / "board.db")!r}) as board:
            assert not board.claim_task("x", wait_sec=0.01)
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, timeout=PATIENCE_SEC)


def test_a_task_that_is_due_after_a_step_forward_is_handed_out_in_the_same_wait(board, clock, threads):
    """Nobody wakes the waiter: it sees the new time when it next looks up by itself."""
    board.create_task("T", id="later", not_before="2026-01-01T01:00:00Z")
    waiting = threads.start(board.claim_task, "x", wait_sec=50)
    clock.advance(3600)
    assert answer(waiting).task.id == "later"
