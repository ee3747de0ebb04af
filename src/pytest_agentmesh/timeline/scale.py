"""The axis of board time: where an instant stands, what of idle time is left out, where the ticks are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from pytest_agentmesh.timeline.story import Story

STEPS_US: Final = tuple(
    size * count
    for size, counts in (
        (1, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1000, (1, 2, 5, 10, 20, 50, 100, 200, 500)),
        (1_000_000, (1, 2, 5, 10, 15, 30)),
        (60_000_000, (1, 2, 5, 10, 15, 30)),
        (3_600_000_000, (1, 2, 3, 6, 12)),
        (86_400_000_000, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)),
    )
    for count in counts
)
"""Lengths of time that people count in."""
SHARE: Final = 2
"""An idle stretch that is so many times as long as all the rest is left out."""
LEFT: Final = 0.15
"""What is drawn of it, as a share of the rest."""


class Piece(NamedTuple):
    """A stretch of time and where it is drawn: from `start` on, `length` long, on a line from 0 to 1."""

    start_us: int
    end_us: int
    start: float
    length: float
    cut: bool


class Scale:
    """Board time along a line from 0 to 1, all even but for idle stretches that are left out."""

    def __init__(self, story: Story) -> None:
        self.start_us, self.end_us = story.start_us, max(story.end_us, story.start_us + 1)
        self._pieces = _pieces(self.start_us, self.end_us, _idle(story))
        self._starts = [piece.start_us for piece in self._pieces]

    @property
    def cuts(self) -> list[Piece]:
        """What is left out."""
        return [piece for piece in self._pieces if piece.cut]

    def place(self, us: int) -> float:
        """Where an instant stands."""
        piece = self._pieces[max(bisect_right(self._starts, us) - 1, 0)]
        share = (us - piece.start_us) / (piece.end_us - piece.start_us)
        return min(max(piece.start + piece.length * share, 0.0), 1.0)

    def ticks(self, most: int) -> list[int]:
        """Round instants since the start, at most about so many, none within what is left out."""
        shown = sum(piece.end_us - piece.start_us for piece in self._pieces if not piece.cut)
        step = next((step for step in STEPS_US if step * most >= shown), STEPS_US[-1])
        found = []
        for piece in self._pieces:
            if not piece.cut:
                first = -(-(piece.start_us - self.start_us) // step)
                last = (piece.end_us - self.start_us) // step
                found += [self.start_us + number * step for number in range(first, last + 1)]
        return sorted(set(found))


def _idle(story: Story) -> Iterator[tuple[int, int]]:
    """The stretches between two events in which nobody held anything."""
    held = sorted((bar.start_us, bar.end_us if bar.end_us is not None else story.end_us) for bar in story.bars)
    instants = {event.at_us for event in story.events} | {mark.at_us for mark in story.faults}
    busy_until = story.start_us
    order = sorted({*instants, story.start_us, story.end_us})
    spans = iter(held)
    span = next(spans, None)
    for one, two in pairwise(order):
        while span is not None and span[0] <= one:
            busy_until = max(busy_until, span[1])
            span = next(spans, None)
        if busy_until <= one:
            yield one, two


def _pieces(start_us: int, end_us: int, idle: Iterator[tuple[int, int]]) -> list[Piece]:
    """Cut the longest idle stretches out, as long as one of them is longer than all the rest together."""
    rest, cut = float(end_us - start_us), list[tuple[int, int]]()
    for one, two in sorted(idle, key=lambda gap: gap[0] - gap[1]):
        others = rest - (two - one)
        if not 0 < others * SHARE < two - one:
            break
        cut.append((one, two))
        rest = others
    return list(_laid(start_us, end_us, sorted(cut), rest))


def _laid(start_us: int, end_us: int, cut: list[tuple[int, int]], rest: float) -> Iterator[Piece]:
    whole, at, place = 1 + LEFT * len(cut), start_us, 0.0
    for one, two in [*cut, (end_us, end_us)]:
        length = (one - at) / rest / whole
        if one > at:
            yield Piece(at, one, place, length, cut=False)
        place += length
        if two > one:
            yield Piece(one, two, place, LEFT / whole, cut=True)
            place += LEFT / whole
        at = two
