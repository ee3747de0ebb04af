"""Processes that want the same thing at the same instant: one gets it, and the others are told so."""

from collections import Counter
from functools import partial

import pytest

from agentmesh.errors import AlreadyClaimed, CycleRefused
from tests.support.boards import kinds, open_board, states, violations
from tests.support.clock import TurnableClock
from tests.support.interleave import outcome
from tests.support.processes import barrier, results

pytestmark = pytest.mark.multiproc

ROUNDS = 200


def _each_round(line, path, start, race, number):
    """Do something once a round, all processes at the same instant; what each round gave."""
    act, rounds = race
    with open_board(path, TurnableClock(), seed=number) as board:
        answers = []
        for place in range(rounds):
            start.wait()
            answers.append(act(board, place, number))
        line.send(answers)


def race(path, count, act, rounds=ROUNDS):
    """Let `count` processes do the same thing at once, round by round; the answers of each round."""
    return list(zip(*results(count, _each_round, path, barrier(count), (act, rounds)), strict=True))


def _claim_the_named(board, place, number):
    answer = outcome(lambda: board.claim_task(f"agent-{number}", task_id=f"t{place}"))
    return ("lost", answer.holder) if isinstance(answer, AlreadyClaimed) else ("won", answer.task.holder)


def test_a_task_that_eight_want_goes_to_one(board_path, clock):
    """Each round has one winner, and the seven others learn its name (A2)."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(ROUNDS)])
        rounds = race(board_path, 8, _claim_the_named)
        for place, answers in enumerate(rounds):
            [winner] = [name for how, name in answers if how == "won"]
            assert Counter(answers) == {("won", winner): 1, ("lost", winner): 7}
            assert board.get_task(f"t{place}").holder == winner
        assert violations(board) == {}


def _claim_the_next(board, place, number):
    answer = outcome(lambda: board.claim_task(f"agent-{number}", plan=f"p{place}"))
    return answer.task.id if answer else answer.reason


def test_the_last_task_goes_to_one_and_the_other_hears_that_there_is_none(board_path, clock):
    """Looking for the next task and claiming it are one step; losing is no error (A1)."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "plan": f"p{n}"} for n in range(500)])
        rounds = race(board_path, 2, _claim_the_next, rounds=500)
        assert [sorted(answers) for answers in rounds] == [["in_progress", f"t{n}"] for n in range(500)]
        assert violations(board) == {}


def _tie_a_knot(board, place, number):
    one, two = f"a{place}", f"b{place}"
    child, parent = (one, two) if number else (two, one)
    answer = outcome(lambda: board.add_dependency(child, parent))
    return type(answer).__name__


def test_of_two_edges_that_would_close_a_cycle_one_is_accepted(board_path, clock):
    """Each alone is fine; together they would wait for each other for ever (B13)."""
    with open_board(board_path, clock) as board:
        for side in "ab":
            board.create_tasks([{"title": "t", "id": f"{side}{n}"} for n in range(1000)])
        rounds = race(board_path, 2, _tie_a_knot, rounds=1000)
        assert {tuple(sorted(answers)) for answers in rounds} == {(CycleRefused.__name__, "Task")}
        assert len(board.edges()) == 1000
        assert violations(board) == {}


def _finish_or_follow(leases, board, place, number):
    if number == 0:
        return board.complete_task(leases[place]).state
    return board.create_task("t", id=f"child{place}", depends_on=[f"parent{place}"]).id


def test_a_child_that_is_made_while_its_parent_ends_becomes_ready(board_path, clock):
    """Whoever comes first, the child is not left waiting for an end that has already been."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"parent{n}"} for n in range(ROUNDS)])
        leases = [board.claim_task("a", task_id=f"parent{n}").lease for n in range(ROUNDS)]
        race(board_path, 2, partial(_finish_or_follow, leases))
        assert Counter(board.get_task(f"child{n}").state for n in range(ROUNDS)) == {"pending": ROUNDS}
        assert violations(board) == {}


def _create(board, _place, number):
    return board.create_task(f"by {number}").id


def test_two_who_create_at_once_overwrite_nothing(board_path, clock):
    """Two hundred tasks, two hundred ids, each with the title its maker gave it (A31)."""
    open_board(board_path, clock).close()
    rounds = race(board_path, 2, _create, rounds=100)
    with open_board(board_path, clock) as board:
        made = {task.id: task.title for task in board.list_tasks(limit=500).tasks}
        assert made == {name: f"by {number}" for answers in rounds for number, name in enumerate(answers)}
        assert len(made) == 200


def _reap_late(line, path, start, number):
    clock = TurnableClock()
    clock.advance(61)
    with open_board(path, clock, seed=number) as board:
        start.wait()
        line.send([attempt.task_id for attempt in board.reclaim_zombies()])


@pytest.mark.parametrize("reapers", [2, 4])
def test_a_due_lease_is_taken_back_once(board_path, clock, reapers):
    """Any number of reapers at once: one reclaims, the others find nothing to do (A7, A19)."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "max_attempts": 2} for n in range(50)])
        for _ in range(50):
            assert board.claim_task("gone")
    answers = results(reapers, _reap_late, board_path, barrier(reapers))
    assert sorted(name for found in answers for name in found) == sorted(f"t{n}" for n in range(50))
    with open_board(board_path, clock) as board:
        clock.advance(61)
        assert Counter(kinds(board))["lease_reclaimed"] == 50
        assert {len(board.attempts(f"t{n}")) for n in range(50)} == {1}
        assert violations(board) == {}


def _ask_again(line, path, start, number):
    with open_board(path, TurnableClock(), seed=number) as board:
        start.wait()
        made = [board.create_task("t", agent_id="one", request_id=f"r{place}").id for place in range(50)]
        claims = [board.claim_task("one", request_id=f"c{place}") for place in range(20)]
        line.send((made, [(claim.lease.task_id, claim.lease.token) for claim in claims]))


def test_a_request_that_two_processes_repeat_is_done_once(board_path, clock):
    """A client that retried through another server gets the first answer, not a second task (P6)."""
    open_board(board_path, clock).close()
    one, two = results(2, _ask_again, board_path, barrier(2))
    assert one == two
    with open_board(board_path, clock) as board:
        assert Counter(states(board).values()) == {"pending": 30, "in_progress": 20}
        assert violations(board) == {}
