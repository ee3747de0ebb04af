"""Claim and complete in one process, with all that comes with it, against two bare transactions; and its dirty pages.

A round is long enough for several checkpoints on either side, so what the log costs later is paid inside the round.
Both sides' rounds last about as long, and there is a pause between them: a thread of the board that still copies
its log would slow the other side down, which would flatter ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from agentmesh import Board
from benchmarks import boards
from benchmarks.baseline import Bare
from benchmarks.report import Figure, progress
from benchmarks.rounds import alternate, timed
from benchmarks.settings import Settings

PAGES = 50
"""Pairs in a sample of the log: few enough that the store does not checkpoint in between."""


def figures(settings: Settings) -> Iterator[Figure]:
    """The pair in both durabilities, and the pages it writes."""
    yield _against_bare(settings, "normal", settings.size(1_500, 500), 8.0)
    yield _against_bare(settings, "full", settings.size(1_000, 250), 2.5)
    yield dirty_pages(settings, settings.place("pages"))


def _against_bare(settings: Settings, durability: str, pairs: int, bar: float) -> Figure:
    progress(f"pair: {durability}")
    path = settings.place("pair")
    with (
        Board.open(path, durability=durability) as board,
        Bare(settings.place("bare"), durability) as bare,
    ):

        def ours() -> float:
            boards.fill(board, boards.plain(pairs))
            return timed(lambda _: boards.pair(board), range(pairs))

        def theirs() -> float:
            return timed(bare.pair, range(round(pairs * bar * 0.9)))

        compared = alternate(ours, theirs, settings.size(9, 3))
    name = f"claim + complete against two bare transactions, `{durability}`"
    return Figure(name, compared.ratio, "x", "<=", bar, compared.absolute("a pair", "bare"))


def dirty_pages(settings: Settings, path: Path, name: str = "dirty pages of a claim + complete") -> Figure:
    """Pages that a pair writes to the log. The board is closed before each sample, which empties the log."""
    progress("pair: dirty pages")
    counts = []
    for _ in range(settings.size(9, 3)):
        with Board.open(path, durability="normal") as board:
            boards.fill(board, boards.plain(PAGES))
        with Board.open(path, durability="normal") as board:
            boards.pair(board)
            before = boards.log_bytes(path)
            timed(lambda _: boards.pair(board), range(PAGES - 1))
            counts.append((boards.log_bytes(path) - before) / boards.FRAME_BYTES / (PAGES - 1))
    absolute = f"{min(counts):.1f} to {max(counts):.1f} in {len(counts)} samples of {PAGES - 1} pairs"
    return Figure(name, median(counts), "pages", "<=", 16, absolute)
