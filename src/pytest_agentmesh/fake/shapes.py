"""Shapes of graphs as numbers: for each task in its order, the places of the tasks before it that it waits for.

Chance has no part in a shape, so a test knows the edges before it draws a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Final, Literal, get_args

Shape = Literal["chain", "fan_in", "fan_out", "diamond", "layered"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
"""The simplest first, which is what a failing one shrinks towards."""
Edges = list[tuple[int, ...]]


def chain(n: int) -> Edges:
    """One after the other: `n` tasks, `n - 1` edges."""
    _at_least_one(n=n)
    return [(place - 1,) if place else () for place in range(n)]


def fan_out(n: int) -> Edges:
    """One that `n` others wait for."""
    _at_least_one(n=n)
    return [(), *[(0,)] * n]


def fan_in(n: int) -> Edges:
    """One that waits for `n` others."""
    _at_least_one(n=n)
    return [*[()] * n, tuple(range(n))]


def diamond(width: int) -> Edges:
    """One, then `width` side by side, then one that waits for all of these."""
    _at_least_one(width=width)
    return [*fan_out(width), tuple(range(1, width + 1))]


def layered(layers: int, width: int) -> Edges:
    """Layers of `width` tasks; each waits for the one above it and that one's right neighbour, in a ring."""
    _at_least_one(layers=layers, width=width)
    return [_above(place, width) for place in range(layers * width)]


def of_size(shape: Shape, size: int) -> Edges:
    """A shape of `size` tasks in all. What is too small for its shape is a chain; a last layer may be shorter."""
    _at_least_one(size=size)
    if shape not in SHAPES:
        raise ValueError(f"{shape!r} is no shape; shapes are {', '.join(SHAPES)}")
    match shape:
        case "layered":
            width = isqrt(size)
            return layered(-(-size // width), width)[:size]
        case "diamond" if size > 2:  # noqa: PLR2004 - its two ends
            return diamond(size - 2)
        case "fan_out" if size > 1:
            return fan_out(size - 1)
        case "fan_in" if size > 1:
            return fan_in(size - 1)
        case "chain" | "diamond" | "fan_out" | "fan_in":
            return chain(size)


def depths(edges: Sequence[Sequence[int]]) -> list[int]:
    """How many tasks stand above each at most."""
    found: list[int] = []
    for above in edges:
        found.append(1 + max(found[place] for place in above) if above else 0)
    return found


def _above(place: int, width: int) -> tuple[int, ...]:
    layer, column = divmod(place, width)
    first = (layer - 1) * width
    return tuple(sorted({first + column, first + (column + 1) % width})) if layer else ()


def _at_least_one(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, is {size}")
