"""The same calls on a board of 100,000 tasks and on a small one: a call must not cost more for what else is there.

Half of each board waits for other tasks in a graph, a tenth is in progress, the rest is ready. Everything runs
under `normal`, where the disk hides nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

from agentmesh import Board
from benchmarks import boards
from benchmarks.report import Figure, progress
from benchmarks.rounds import Side, alternate, duration, timed
from benchmarks.settings import Settings

LAYER = 100
PARENTS = 3
PAIRS = 300
"""Calls in a round."""
HELD = {"lease_timeout_sec": boards.LONG_SEC, "max_hold_sec": boards.LONG_SEC}


def figures(settings: Settings) -> Iterator[Figure]:
    """Pair, completion with a child, status; then the price of urgency."""
    large, small = settings.size(100_000, 20_000), 1_000
    rounds = settings.size(9, 3)
    with ExitStack() as stack:
        both = []
        for size in (large, small):
            progress(f"scale: a board of {size:,} tasks")
            board = stack.enter_context(Board.open(settings.place("scale"), durability="normal"))
            populate(board, size)
            both.append(board)
        names = (f"{large:,}", f"{small:,}")
        progress("scale: claim + complete")
        found = alternate(*(_pairs(board) for board in both), rounds)
        name = f"claim + complete with {large:,} tasks on the board against {small:,}"
        yield Figure(name, found.ratio, "x", "<=", 1.3, found.absolute(*names))
        progress("scale: status")
        found = alternate(*(_status(board) for board in both), rounds)
        yield Figure(
            f"`status()` on {large:,} tasks against {small:,}", found.ratio, "x", "<=", 1.5, found.absolute(*names)
        )
    yield _one_child(settings, large, 100, rounds)
    yield _urgent_leaf(settings, settings.size(10_000, 2_000), settings.size(5, 3))


def populate(board: Board, size: int) -> None:
    """Half of the tasks blocked in a graph, a tenth in progress, the rest ready."""
    held = boards.plain(size // 10, priority=9, **HELD)
    boards.fill(board, held)
    for _ in held:
        if not board.claim_task("holder"):
            raise RuntimeError("A task that was to be held was not there.")
    boards.fill(board, graph([spec["id"] for spec in held[:LAYER]], size // 2))
    boards.fill(board, boards.plain(size - size // 10 - size // 2))


def graph(above: list[str], size: int) -> Iterator[dict[str, object]]:
    """Layers of tasks; each waits for three of the layer above it, the first for tasks that are already there."""
    while size > 0:
        layer = boards.plain(min(LAYER, size))
        for place, spec in enumerate(layer):
            spec["depends_on"] = [above[(place + step) % len(above)] for step in range(min(PARENTS, len(above)))]
        yield from layer
        above = [spec["id"] for spec in layer]
        size -= len(layer)


def _pairs(board: Board) -> Side:
    def side() -> float:
        boards.fill(board, boards.plain(PAIRS))
        return timed(lambda _: boards.pair(board), range(PAIRS))

    return side


def _status(board: Board) -> Side:
    return lambda: timed(lambda _: board.status(), range(PAIRS))


def _one_child(settings: Settings, large: int, small: int, rounds: int) -> Figure:
    with ExitStack() as stack:
        sides = []
        for size in (large, small):
            progress(f"scale: a board of {size:,} blocked tasks")
            board = stack.enter_context(Board.open(settings.place("blocked"), durability="normal"))
            held = boards.plain(1, priority=9, **HELD)
            boards.fill(board, held)
            board.claim_task("holder")
            boards.fill(board, graph([held[0]["id"]], size))
            sides.append(_completions(board))
        progress("scale: complete with one child")
        found = alternate(*sides, rounds)
    name = f"completing a task with 1 child beside {large:,} blocked tasks against {small:,}"
    return Figure(name, found.ratio, "x", "<=", 1.3, found.absolute(f"{large:,}", f"{small:,}"))


def _completions(board: Board) -> Side:
    """Complete tasks that one task each waits for; the children are done away with between rounds."""

    def side() -> float:
        parents = boards.plain(PAIRS)
        children = boards.plain(PAIRS)
        for parent, child in zip(parents, children, strict=True):
            child["depends_on"] = [parent["id"]]
        boards.fill(board, parents + children)
        claims = [board.claim_task(boards.AGENT, task_id=spec["id"]) for spec in parents]
        taken = timed(lambda number: claims[number].complete(boards.RESULT), range(PAIRS))
        for _ in children:
            boards.pair(board)
        return taken

    return side


def _urgent_leaf(settings: Settings, nodes: int, rounds: int) -> Figure:
    """Each leaf is more urgent than the one before, so each raises every node of the graph."""
    progress(f"scale: an urgent leaf under {nodes:,} nodes")
    with Board.open(settings.place("urgent"), durability="normal") as board:
        root = boards.plain(LAYER)
        specs = root + list(graph([spec["id"] for spec in root], nodes - LAYER))
        boards.fill(board, specs)
        last = [spec["id"] for spec in specs[-LAYER:]]
        urgency = iter(range(1, rounds + 2))

        def leaf() -> float:
            start = time.perf_counter()
            board.create_task("Urgent", priority=next(urgency), depends_on=last)
            return (time.perf_counter() - start) / nodes

        def update() -> float:
            return timed(lambda number: board.update_task(specs[number]["id"], title="Changed"), range(PAIRS))

        found = alternate(leaf, update, rounds)
        top = board.get_task(specs[0]["id"])
        if top.urgency != rounds + 1:
            raise RuntimeError("The top of the graph was not raised.")
    whole = f"the whole leaf {duration(sorted(found.ours)[len(found.ours) // 2] * nodes)}"
    name = f"an urgent leaf under {nodes:,} nodes, for each raised node, against one update_task"
    return Figure(name, found.ratio, "x", "<=", 1, f"{found.absolute('a node', 'an update')}; {whole}")
