"""How a failed assertion reads: a headline, what is there, the likely cause, the events that tell it.

No line is wider than 100 characters; what agents wrote is shown, never obeyed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

from agentmesh.limits import PUSD
from agentmesh.printable import one_line

WIDTH: Final = 100 - len("E       ")
"""What pytest leaves of a hundred columns."""
PREFIX: Final = "AssertionError: "
"""What Python puts before the headline."""
INDENT: Final = "   "
_NUMBERED: Final = re.compile(r"\b(events?|attempt) (\d)")
"""What stays on one line."""
LONG: Final = 40
"""How many characters of a name stand at the beginning of a line."""
LEAST: Final = 12
"""To how many characters a cell is cut at most."""
MOST: Final = 20
"""How many rows of one kind are shown."""


def message(headline: str, *parts: Iterable[str]) -> str:
    """A message: the headline, and below it the lines of each part."""
    first, *more = folded(PREFIX + headline)
    lines = [*more, *(line for part in parts for line in part)]
    return "\n".join([first.removeprefix(PREFIX), *(f"{INDENT}{line}" for line in lines)])


def folded(text: str, begin: str = "") -> list[str]:
    """A sentence in as many lines as it takes, all but the first indented below what it begins with."""
    room = WIDTH - len(INDENT)
    if len(begin) > room * 2 // 3:
        return [begin.rstrip(), *folded(text, INDENT)]
    tied = _NUMBERED.sub("\\1\N{NO-BREAK SPACE}\\2", text)
    below = " " * len(begin)
    lines = textwrap.wrap(tied, room, initial_indent=begin, subsequent_indent=below, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [begin.rstrip()]


def likely(*sentences: str | None) -> list[str]:
    """The probable causes, the first of them first; nothing where none is known."""
    return [line for sentence in sentences if sentence for line in folded(sentence, "likely: ")]


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: str = "") -> list[str]:
    """Columns under their names; those whose place in `right` has an `r` end alike instead of beginning alike.

    If they are too many for a line, long cells lose their middle.
    """
    every = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(row[place]) for row in every) for place in range(len(head))]
    while sum(widths) + 2 * len(widths) > WIDTH - len(INDENT) and max(widths) > LEAST:
        widths[widths.index(max(widths))] -= 1
    sides = right.ljust(len(head))
    return [
        "  ".join(
            cut(cell, width).rjust(width) if side == "r" else cut(cell, width).ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in every
    ]


def cut(text: str, most: int = LONG) -> str:
    """A name without its middle, if it is too long."""
    half = (most - 2) // 2
    return text if len(text) <= most else f"{text[: most - 2 - half]}..{text[-half:]}"


def first_of(lines: Sequence[str], noun: str) -> list[str]:
    """The first lines, and how many more there are."""
    return [*lines[:MOST], f"... and {len(lines) - MOST:,} more {noun}"] if len(lines) > MOST else list(lines)


def names(ids: Iterable[str | None], none: str = "nothing") -> str:
    """`a`, `a and b`, `a, b and c`; at most ten of them."""
    found = [one_line(str(name)) for name in ids]
    if len(found) > 10:  # noqa: PLR2004 - nobody reads more
        found = [*found[:9], f"{len(found) - 9:,} more"]
    return " and ".join(filter(None, (", ".join(found[:-1]), *found[-1:]))) or none


def alike(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as the end of a sentence, else those that there are."""
    there = sorted(set(known))
    near = get_close_matches(name, there, n=3, cutoff=0.5)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"there is {names(there)}."


def quoted(text: str, most: int = 60) -> str:
    """Foreign text on one line, cut to a length."""
    shown = one_line(text).replace('"', '\\"')
    return f'"{shown}"' if len(shown) <= most else f'"{shown[: most - 3]}..."'


def usd(pusd: int, *, signed: bool = False) -> str:
    """An amount in dollars, exact, with at least two decimals."""
    whole, _, part = format(Decimal(abs(pusd)) / PUSD, "f").partition(".")
    text = f"{int(whole):,}.{part.rstrip('0').ljust(2, '0')}"
    sign = "-" if pusd < 0 else "+" if signed else ""
    return sign + text


def count(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`, `2 entries`."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
