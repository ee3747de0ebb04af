"""A lock that somebody else holds: a bounded wait, a typed answer, no effect, and the next call works."""

import contextlib
import threading
import time

import pytest

from agentmesh import Board
from agentmesh.errors import Busy
from tests.support.boards import open_board, violations
from tests.support.interleave import Party, outcome
from tests.support.processes import Worker


class Holder:
    """A probe that stands still with the gate and the write lock held until its line says something."""

    def __init__(self, line):
        self._line = line

    def reached(self, point):
        """The store is at `point`."""
        if point == "begin":
            self._line.send("held")
            self._line.recv()


def _hold_the_lock(line, path):
    with Board.open(path, durability="normal", probe=Holder(line)) as board:
        board.create_task("of the holder", id="holder")


@pytest.fixture
def held(board_path, clock):
    """Another process that stands in the middle of a write on the board."""
    open_board(board_path, clock).close()
    worker = Worker(_hold_the_lock, board_path)
    assert worker.hear() == "held"
    yield worker
    with contextlib.suppress(BrokenPipeError):
        worker.tell("go on")
    assert worker.end() == 0


def timed(act):
    """What an act gives, and how long it took."""
    start = time.monotonic()
    return outcome(act), time.monotonic() - start


@pytest.mark.multiproc
@pytest.mark.usefixtures("held")
def test_the_whole_wait_is_bounded_by_the_timeout(board_path, clock):
    """Gate and write lock are both taken: the call waits for one timeout, not for one at each of them."""
    with open_board(board_path, clock, busy_timeout_sec=1) as board:
        answer, took = timed(lambda: board.create_task("t", id="t"))
        assert isinstance(answer, Busy)
        assert 0.9 < took < 1.8


@pytest.mark.multiproc
@pytest.mark.usefixtures("held")
def test_threads_that_queue_behind_each_other_wait_no_longer(board_path, clock):
    """The wait for the other threads of one's own process counts like the rest."""
    with open_board(board_path, clock, busy_timeout_sec=1) as board:
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(timed(lambda: board.create_task("t")))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert [type(answer) for answer, _ in answers] == [Busy] * 4
        assert max(took for _, took in answers) < 1.8


@pytest.mark.multiproc
def test_a_busy_call_had_no_effect_and_the_next_one_works(board_path, clock, held):
    """One refusal switches nothing off for good."""
    with open_board(board_path, clock, busy_timeout_sec=0) as board:
        for _ in range(3):
            assert isinstance(outcome(lambda: board.create_task("t", id="t")), Busy)
            assert isinstance(outcome(lambda: board.claim_task("a")), Busy)
        held.tell("go on")
        with open_board(board_path, clock, seed=1) as patient:
            patient.create_task("behind the holder", id="patient")
        assert board.create_task("t", id="t").id == "t"
        assert {task.id for task in board.list_tasks().tasks} == {"holder", "patient", "t"}
        assert violations(board) == {}


@pytest.mark.multiproc
@pytest.mark.usefixtures("held")
def test_reading_goes_on_while_somebody_writes(board_path, clock):
    """Readers see what was committed, and wait for nobody."""
    with open_board(board_path, clock, busy_timeout_sec=0) as board:
        assert board.status().total == 0
        assert board.list_tasks().tasks == ()
        assert not board.has_work()
        assert violations(board) == {}


@pytest.mark.multiproc
@pytest.mark.usefixtures("held")
def test_opening_does_not_wait_for_a_writer(board_path, clock):
    """A command that only looks is not held up by one that writes."""
    with open_board(board_path, clock, busy_timeout_sec=0) as board:
        assert board.events(0) == []


def test_a_writer_waits_for_its_turn_and_gets_it(board_path, clock):
    """Within the timeout nobody is refused: the second write follows the first."""
    party, done = Party(), []
    with open_board(board_path, clock, probe=party) as one, open_board(board_path, clock, seed=1) as two:
        party.start(lambda: one.create_task("first", id="first"))
        assert party.run_to("commit")
        waiting = threading.Thread(target=lambda: done.append(two.create_task("second", id="second").id))
        waiting.start()
        assert done == []
        party.finish()
        waiting.join(60)
        assert done == ["second"]
        assert [event.task_id for event in one.events(0)] == ["first", "second"]
