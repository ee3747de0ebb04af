"""How two sides are compared on a noisy machine: turn and turn about, and the median of the rounds' ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

Side = Callable[[], float]
"""Does one round and returns seconds for each operation in it; what it has to prepare is not in that time."""

PAUSE_SEC = 0.05
"""Between two sides, so that what the one left to the background does not fall on the other."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What several rounds said of two sides: seconds for each operation, round by round."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median(self.ratios)

    @property
    def ratios(self) -> list[float]:
        """Each round's ratio, so that drift of the machine falls on both of its sides."""
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    def absolute(self, ours: str, theirs: str) -> str:
        """Both medians in words, and how far the rounds were apart."""
        spread = f"{min(self.ratios):.2f} to {max(self.ratios):.2f} in {len(self.ratios)} rounds"
        return f"{ours} {duration(median(self.ours))}, {theirs} {duration(median(self.theirs))} ({spread})"


def alternate(ours: Side, theirs: Side, rounds: int) -> Compared:
    """Run both sides in turn; who begins changes with each round. A first round warms up and is not counted."""
    found: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds + 1):
        order = (0, 1) if number % 2 else (1, 0)
        for which in order:
            time.sleep(PAUSE_SEC)
            taken = (ours, theirs)[which]()
            if number:
                found[which].append(taken)
    return Compared(tuple(found[0]), tuple(found[1]))


def timed(work: Callable[[int], object], numbers: Iterable[int]) -> float:
    """Seconds for each call of `work` with the next number."""
    listed = list(numbers)
    start = time.perf_counter()
    for number in listed:
        work(number)
    return (time.perf_counter() - start) / len(listed)


def duration(seconds: float) -> str:
    """A duration with the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
