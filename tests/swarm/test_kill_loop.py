"""A swarm that loses a worker again and again: in the end everything is done, and nothing that was said is untrue."""

import multiprocessing.connection
import random
import signal

import pytest

from agentmesh.errors import LeaseLost
from tests.support.boards import open_board, rows, violations
from tests.support.clock import SharedClock
from tests.support.patience import PATIENCE_SEC
from tests.support.processes import Died, Worker

TASKS = 200
KILLS = 20


def _work(line, path, clock, number):
    """Claim, renew and complete until everything is final; say each completion only when it has been acknowledged."""
    with open_board(path, clock, seed=number) as board:
        while (claim := board.claim_task(f"agent-{number}")) or claim.advice == "wait":
            if claim:
                line.send(("claimed", claim.task.id, claim.lease.fence))
                line.send((_finish(claim), claim.task.id, claim.lease.fence))
            else:
                line.send(("idle", None, None))
            line.recv()  # so that nobody is far ahead of what the test has heard
        line.send(("done", None, None))


def _finish(claim):
    try:
        claim.heartbeat()
        claim.complete({"fence": claim.lease.fence})
    except LeaseLost:
        return "lost"  # time was turned on while it worked, and another took the task
    return "completed"


class Swarm:
    """Four workers, one of which is killed and replaced now and then."""

    def __init__(self, path, clock):
        self._path = path
        self._clock = clock
        self._numbers = iter(range(1, 1000))
        self._chance = random.Random(20)
        self.workers = [self._hire() for _ in range(4)]
        self.completed = {}
        self.kills = 0
        self.said = 0

    def run(self):
        """Listen to the workers until all are done."""
        while self.workers:
            heard = multiprocessing.connection.wait([worker._line for worker in self.workers], PATIENCE_SEC)
            assert heard, "nobody says anything"
            for worker in [worker for worker in self.workers if worker._line in heard]:
                self._listen(worker)
            if self.kills < KILLS and self.said >= 8 * (self.kills + 1):
                self._kill(self._chance.choice(self.workers))

    def _listen(self, worker):
        try:
            what, task_id, fence = worker.hear()
        except Died:
            return  # it was killed while others were listened to
        self.said += 1
        if what == "done":
            self.workers.remove(worker)
            assert worker.end() == 0
        elif what != "claimed":
            self._note(what, task_id, fence)
            worker.tell("go on")

    def _note(self, what, task_id, fence):
        if what == "completed":
            assert task_id not in self.completed, "completed twice"
            self.completed[task_id] = fence
        elif what == "idle":
            self._clock.advance(61)  # only the tasks of dead workers are left, or of late ones

    def _kill(self, worker):
        for words in self._dying_words(worker):
            self._note(*words)
        self.workers.remove(worker)
        self.workers.append(self._hire())
        self.kills += 1

    def _dying_words(self, worker):
        worker.process.kill()
        words = worker.last_words()
        assert worker.end() in (-signal.SIGKILL, 0), words  # it may have come to its end by itself just before
        return words

    def _hire(self):
        return Worker(_work, self._path, self._clock, next(self._numbers))


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_swarm_outlives_its_workers(board_path, tmp_path):
    """Two hundred tasks, four workers, twenty killed by pid at random moments and replaced (P1, P3, P5)."""
    clock = SharedClock(tmp_path / "now")
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "max_attempts": 50} for n in range(TASKS)])
        swarm = Swarm(board_path, clock)
        swarm.run()
        assert swarm.kills == KILLS
        assert board.status().counts["completed"] == TASKS
        for task_id, fence in swarm.completed.items():
            task = board.get_task(task_id)
            assert (task.state, task.fence, task.result["fence"]) == ("completed", fence, fence)
        assert len(swarm.completed) >= TASKS - KILLS
        assert rows(board, "PRAGMA integrity_check") == [("ok",)]
        assert violations(board) == {}
