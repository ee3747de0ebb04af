"""Fifty processes that wait for work: what they cost while there is none, and how soon one has it when there is.

The board is drained: every task on it is completed. A wake-up is the time from the call of `create_task` to the
return of `claim_task` in whichever process got the task, so both commits are in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median, quantiles

from agentmesh import Board
from agentmesh.store.base import Durability
from benchmarks import boards
from benchmarks.crew import Crew
from benchmarks.report import Figure, progress
from benchmarks.rounds import duration
from benchmarks.settings import Settings

WAITERS = 50
SETTLE_SEC = 3.0
BETWEEN_SEC = 0.1
LONGEST_WAIT_SEC = 50


class Waiter:
    """Waits for tasks and completes them at once."""

    def __init__(self, number: int, path: Path, durability: Durability) -> None:
        self._name = f"waiter-{number}"
        self._board = Board.open(path, durability=durability)

    def __call__(self, end: float) -> dict[str, float]:
        """Wait until an instant of the common clock: when each task was in hand."""
        got: dict[str, float] = {}
        while (left := end - time.monotonic()) > 0:
            claim = self._board.claim_task(self._name, wait_sec=min(left, LONGEST_WAIT_SEC))
            if claim:
                got[claim.task.id] = time.monotonic()
                claim.complete(boards.RESULT)
        return got


def figures(settings: Settings) -> Iterator[Figure]:
    """The cost of waiting, and the wake-up under both durabilities."""
    yield from _waiting(settings, "normal", settings.size(10, 3), settings.size(50, 15))
    yield from _waiting(settings, "full", 0, settings.size(50, 15))


def _waiting(settings: Settings, durability: Durability, window_sec: int, tasks: int) -> Iterator[Figure]:
    path = settings.place("waiting")
    with ExitStack() as stack:
        board = stack.enter_context(Board.open(path, durability=durability))
        boards.fill(board, boards.plain(100))
        for _ in range(100):
            boards.pair(board)
        progress(f"waiting: starting {WAITERS} processes")
        crew = stack.enter_context(Crew(WAITERS, Waiter, path, durability))
        crew.order(time.monotonic() + SETTLE_SEC + window_sec + tasks * BETWEEN_SEC * 1.5 + 2)
        progress("waiting: nothing happens")
        time.sleep(SETTLE_SEC)
        if window_sec:
            yield _idle_cost(crew.pids, window_sec)
        created = {}
        for task_id in (f"wake-{number}" for number in range(tasks)):
            time.sleep(BETWEEN_SEC)
            created[task_id] = time.monotonic()
            board.create_task("Wake up", id=task_id)
        got = {task_id: at for answer in crew.answers() for task_id, at in answer.items()}
    yield _wake_up(durability, [got[task_id] - at for task_id, at in created.items()])


def _idle_cost(pids: list[int], window_sec: int) -> Figure:
    before, start = _cpu_sec(pids), time.monotonic()
    time.sleep(window_sec)
    spent, elapsed = _cpu_sec(pids) - before, time.monotonic() - start
    absolute = f"{duration(spent)} of processor time in {elapsed:.0f} s"
    return Figure(f"{WAITERS} idle waiters: share of one core", 100 * spent / elapsed, "%", "<=", 1, absolute)


def _wake_up(durability: str, taken: list[float]) -> Figure:
    worst = f"nine tenths within {duration(quantiles(taken, n=10)[-1])}, slowest {duration(max(taken))}"
    name = f"{WAITERS} waiters, `{durability}`: from create_task to the task in a waiter's hand"
    return Figure(name, 1000 * median(taken), "ms", "<=", 10, f"{worst}, of {len(taken)}")


def _cpu_sec(pids: list[int]) -> float:
    """Processor time of all threads of these processes: the first field of `schedstat`, which counts nanoseconds.

    `stat` has the same in ticks of 10 ms, too coarse for processes that run for less than that.
    """
    threads = (thread for pid in pids for thread in Path(f"/proc/{pid}/task").iterdir())
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
