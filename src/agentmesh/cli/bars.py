"""Bars in text: how much of something, and how much of that is of another kind, told by signs and by colours."""

from __future__ import annotations

from agentmesh.cli.screen import Part

SIGNS = {True: ("█", "▒", "░"), False: ("#", "=", "-")}
"""For the first kind, the second, and the rest, in Unicode or not."""
METER = 8


def bar(whole: int, part: int, most: int, room: int, style: str, *, unicode: bool) -> list[Part]:
    """A bar of `whole`, its last cells for the `part` of it in the style; `most` fills the room.

    What is there is seen: it takes a cell at least, unless the rest of the bar has only that one.
    """
    full, other, _ = SIGNS[unicode]
    cells = -(-whole * room // most) if most else 0
    last = -(-part * cells // whole) if whole else 0
    last = min(last, cells - (part < whole))
    return [(full * (cells - last), "cyan"), (other * last, style)]


def meter(spent: int, reserved: int, limit: int, *, unicode: bool) -> str:
    """How much of a limit is spent and reserved; full only when nothing is left."""
    full, other, rest = SIGNS[unicode]
    filled, taken = (max(_cells(amount, limit), int(amount > 0)) for amount in (spent, spent + reserved))
    return full * filled + other * (taken - filled) + rest * (METER - taken)


def _cells(amount: int, limit: int) -> int:
    return min(amount * METER // limit, METER) if limit else METER
