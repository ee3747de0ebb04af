"""Sixteen processes on one board: their rate, how fairly they are served, the worth of the gate, the length of the log.

The three crews (one process; sixteen; sixteen without the gate) live side by side and work in turn, so that they
meet the same machine. Gated and ungated have a board each, for the length of the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from agentmesh import Board
from agentmesh.store.base import Durability, StoreOptions
from agentmesh.store.connect import connect
from benchmarks import boards
from benchmarks.crew import Crew
from benchmarks.report import Figure, progress
from benchmarks.rounds import duration
from benchmarks.settings import Settings

PROCESSES = 16
ALERT_SEC = 0.2
"""From the order to the common start."""
LEAST_A_SEC = 10_000
"""Ready tasks for each second of a turn: more than anyone can do in it."""
STOCK = 60_000
WARM_SEC = 0.5


class Worker:
    """Claims and completes for a while, as fast as it can."""

    def __init__(self, number: int, path: Path, durability: Durability, gated: bool) -> None:  # noqa: FBT001 - sent to a process
        self._name = f"worker-{number}"
        self._board = Board(connect(path, StoreOptions(durability=durability, gated=gated)))

    def __call__(self, span: tuple[float, float]) -> tuple[int, float]:
        """Work from a start to an end on the common clock: pairs done, and the slowest claim."""
        start, end = span
        time.sleep(max(0.0, start - time.monotonic()))
        done, slowest = 0, 0.0
        while (before := time.monotonic()) < end:
            claim = self._board.claim_task(self._name)
            slowest = max(slowest, time.monotonic() - before)
            if not claim:
                raise RuntimeError(f"The board ran out of tasks: {claim.message}")
            claim.complete(boards.RESULT)
            done += 1
        return done, slowest


@dataclass(frozen=True, slots=True)
class Turn:
    """What one crew did in one turn."""

    rate: float
    fairness: float
    slowest: float


def figures(settings: Settings) -> Iterator[Figure]:
    """The swarm under `normal`, where the processor is the limit, and under `full`, where the disk is."""
    yield from _swarm(settings, "normal", settings.size(3, 2), settings.size(3, 1))
    yield from _swarm(settings, "full", settings.size(2, 1), settings.size(3, 1))


def _swarm(settings: Settings, durability: Durability, rounds: int, seconds: int) -> Iterator[Figure]:
    gated, ungated = settings.place("gated"), settings.place("ungated")
    with ExitStack() as stack:
        stock = {path: stack.enter_context(Board.open(path, durability="normal")) for path in (gated, ungated)}
        progress(f"swarm: starting {2 * PROCESSES + 1} processes")
        crews = [
            (stack.enter_context(Crew(count, Worker, path, durability, path == gated)), path)
            for count, path in ((1, gated), (PROCESSES, gated), (PROCESSES, ungated))
        ]
        turns: list[list[Turn]] = [[], [], []]
        log = 0
        for number in range(rounds):
            for which in (0, 1, 2) if number % 2 else (2, 1, 0):
                progress(f"swarm: {durability}, round {number + 1} of {rounds}")
                crew, path = crews[which]
                if _replenish(stock[path], path, seconds):
                    _turn(crew, WARM_SEC)
                turns[which].append(_turn(crew, seconds))
                log = max(log, boards.log_bytes(gated))
    yield from _judged(durability, *turns, log / 2**20)


def _replenish(board: Board, path: Path, seconds: int) -> bool:
    """Have enough tasks ready; if some were missing, the log is emptied of them, for its length is a figure."""
    if board.status().counts["pending"] >= LEAST_A_SEC * seconds:
        return False
    boards.fill(board, boards.plain(STOCK))
    boards.truncate_log(path)
    return True


def _turn(crew: Crew, seconds: float) -> Turn:
    start = time.monotonic() + ALERT_SEC
    crew.order((start, start + seconds))
    answers = crew.answers()
    counts = [done for done, _ in answers]
    return Turn(sum(counts) / seconds, min(counts) / max(counts), max(slowest for _, slowest in answers))


def _judged(
    durability: Durability, one: Sequence[Turn], gated: Sequence[Turn], ungated: Sequence[Turn], log_mb: float
) -> Iterator[Figure]:
    name = f"{PROCESSES} processes, `{durability}`: "
    rates = [many.rate / alone.rate for many, alone in zip(gated, one, strict=True)]
    yield Figure(name + "rate of all against one process", median(rates), "x", ">=", 0.8, _rates(one, gated, ungated))
    fair = [turn.fairness for turn in gated]
    without = median(turn.fairness for turn in ungated)
    yield Figure(name + "worst- against best-served", median(fair), "x", ">=", 0.4, f"{without:.2f}x without the gate")
    slowest = [ours.slowest / theirs.slowest for ours, theirs in zip(gated, ungated, strict=True)]
    absolute = f"{_worst(gated)} against {_worst(ungated)}"
    yield Figure(name + "slowest claim, with the gate against without", median(slowest), "x", "<=", 0.25, absolute)
    yield Figure(name + "log at its longest", log_mb, "MB", "<=", 32)


def _rates(*crews: Sequence[Turn]) -> str:
    one, gated, ungated = (f"{median(turn.rate for turn in turns):,.0f}" for turns in crews)
    return f"pairs a second: {gated} against {one} of one process; {ungated} without the gate"


def _worst(turns: Sequence[Turn]) -> str:
    return duration(median(turn.slowest for turn in turns))
