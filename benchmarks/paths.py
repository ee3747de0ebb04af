"""A claim beside 100,000 ready tasks that are not for this agent, against the same board without them.

They are all more urgent and older than what the agent gets, so every claim would meet them first. Either the agent
lacks what they require, or a running task holds a path they need. Tasks that wait for a path are parked when a
claim first meets them; that first claim after a hold is a figure of its own, without a bar.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from agentmesh import Board
from benchmarks import boards
from benchmarks.report import Figure, progress
from benchmarks.rounds import Side, alternate
from benchmarks.scale import HELD
from benchmarks.settings import Settings

CLAIMS = 200
"""Claims in a round."""
SETS = 50
URGENT = 5

Crowd = Callable[[int], dict[str, Any]]
"""What is special about the task of a number in the crowd."""


def figures(settings: Settings) -> Iterator[Figure]:
    """Lacking capabilities; then three shapes of tasks that wait for a held path."""
    size = settings.size(100_000, 10_000)
    lacking = f"{size:,} ready tasks in {SETS} capability sets that the agent lacks"
    yield from _beside(settings, lacking, size, [], lambda number: {"requires": [f"skill-{number % SETS}", "more"]})
    held = f"{size:,} tasks that wait for a held path: "
    yield from _beside(settings, held + "all with the same", size, ["db/**"], lambda _: {"writes": ["db/**"]})
    yield from _beside(
        settings, held + "a file each below it", size, ["db/**"], lambda number: {"writes": [f"db/{number}.sql"]}
    )
    yield from _beside(
        settings,
        held + "a file each, and the held one",
        size,
        ["lock.txt"],
        lambda number: {"writes": [f"out/{number}", "lock.txt"]},
    )


def _beside(settings: Settings, name: str, size: int, hold: list[str], crowd: Crowd) -> Iterator[Figure]:
    with ExitStack() as stack:
        beside, without = (
            stack.enter_context(Board.open(settings.place("paths"), durability="normal")) for _ in range(2)
        )
        progress(f"paths: {name}")
        boards.fill(beside, (boards.plain(1, priority=URGENT, **crowd(number))[0] for number in range(size)))
        for board in (beside, without):
            if hold:
                _hold(board, hold)
            boards.fill(board, boards.plain(1))
            first = _first_claim(board)
            if board is beside and hold:
                yield Figure(f"first claim after the hold beside {name}", 1000 * first, "ms")
        found = alternate(_claims(beside), _claims(without), settings.size(9, 3))
    yield Figure(f"claim beside {name}", found.ratio, "x", "<=", 2, found.absolute("beside", "without"))


def _hold(board: Board, hold: list[str]) -> None:
    boards.fill(board, [{"title": "Hold", "id": "hold", "writes": hold, **HELD}])
    if not board.claim_task("holder", task_id="hold"):
        raise RuntimeError("The path could not be held.")


def _first_claim(board: Board) -> float:
    start = time.perf_counter()
    claim = board.claim_task(boards.AGENT)
    taken = time.perf_counter() - start
    claim.complete(boards.RESULT)
    return taken


def _claims(board: Board) -> Side:
    """Only the claims are timed."""

    def side() -> float:
        boards.fill(board, boards.plain(CLAIMS))
        return sum(_first_claim(board) for _ in range(CLAIMS)) / CLAIMS

    return side
