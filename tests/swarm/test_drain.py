"""Many workers, one board, everything done once."""

from collections import Counter

import pytest

from agentmesh.clock import SystemClock
from tests.support.boards import kinds, open_board, violations
from tests.support.processes import barrier, results

pytestmark = pytest.mark.multiproc


def work(board, agent_id):
    """Claims until everything is final; the last answer says why it stopped."""
    while (claim := board.claim_task(agent_id, wait_sec=0.1)) or claim.advice == "wait":
        if claim:
            yield claim
    assert claim.reason == "done"


def _drain(line, path, start, number):
    """Claim and complete until everything is final; which tasks they were, by attempt."""
    done = []
    with open_board(path, SystemClock(), seed=number) as board:
        start.wait()
        for claim in work(board, f"agent-{number}"):
            claim.complete({"by": number})
            done.append((claim.task.id, claim.lease.fence))
        line.send(done)


def drain(path, count):
    """Let `count` workers empty the board; what each of them did."""
    return results(count, _drain, path, barrier(count))


def thousand(board):
    """A thousand tasks that wait for nothing."""
    for part in range(2):
        board.create_tasks([{"title": "t", "id": f"t{part}.{n}"} for n in range(500)])


@pytest.mark.parametrize("workers", [2, 8])
def test_a_thousand_tasks_are_done_a_thousand_times(board_path, clock, workers):
    """Not one is done twice, not one is left, and each took one attempt (A4)."""
    with open_board(board_path, clock) as board:
        thousand(board)
        done = [task for part in drain(board_path, workers) for task in part]
        assert len(done) == len({name for name, _ in done}) == 1000
        assert {fence for _, fence in done} == {1}
        assert board.status().counts == {**dict.fromkeys(board.status().counts, 0), "completed": 1000}
        history = [event for page in range(4) for event in board.events(page * 1000, limit=1000)]
        assert Counter(event.kind for event in history)["task_completed"] == 1000
        assert violations(board) == {}


def test_nobody_starves(board_path, clock):
    """Eight workers that never rest: the gate gives each of them turns."""
    with open_board(board_path, clock) as board:
        thousand(board)
    shares = [len(part) for part in drain(board_path, 8)]
    assert sum(shares) == 1000
    assert min(shares) > 25


def test_a_graph_is_drained_in_its_order(board_path, clock):
    """Layers that wait for the one before, joins of twenty, and shared paths: nothing runs before its time."""
    layers = [[f"l{layer}.{n}" for n in range(20)] for layer in range(6)]
    with open_board(board_path, clock) as board:
        for above, layer in zip([[], *layers], layers, strict=False):
            board.create_tasks(
                [
                    {"title": "t", "id": name, "depends_on": above, "writes": [f"src/{place % 5}/**"]}
                    for place, name in enumerate(layer)
                ]
            )
        drain(board_path, 4)
        order = [event for event in board.events(0, limit=1000) if event.kind in ("task_claimed", "task_completed")]
        done = set()
        for event in order:
            if event.kind == "task_completed":
                done.add(event.task_id)
            else:
                waits_for = {edge.id for edge in board.get_task(event.task_id).depends_on}
                assert waits_for <= done
        assert len(done) == 120
        assert violations(board) == {}


def test_workers_that_split_and_fail_still_finish(board_path, clock):
    """Half of the tasks are split, some fail for good; in the end everything is final and the books are right."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "tags": ["split"] if n % 2 else []} for n in range(60)])
        results(4, _split_and_fail, board_path, barrier(4))
        counts = board.status().counts
        assert (counts["completed"], counts["failed"], board.status().total) == (90, 30, 120)
        assert Counter(kinds(board))["task_split"] == 30
        assert violations(board) == {}


def _split_and_fail(line, path, start, number):
    with open_board(path, SystemClock(), seed=number) as board:
        start.wait()
        for claim in work(board, f"agent-{number}"):
            if "split" in claim.task.tags and claim.lease.fence == 1:
                claim.split([{"title": "s", "id": f"{claim.task.id}.{n}"} for n in range(2)])
            elif claim.task.id.endswith(".1"):
                claim.fail("broken", retry=False)
            else:
                claim.complete()
        line.send("done")
