"""Foreign text made harmless: whatever could colour, move the cursor, reorder or hide is shown instead of obeyed.

Titles, results and reasons come from agents and may be hostile. Every edge that shows them to people passes them here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SHORT: Final = {"\t": r"\t", "\n": r"\n", "\r": r"\r"}
_ESCAPES: Final = ((2, "x"), (4, "u"), (8, "U"))
_MANY_MARKS: Final = 4
"""More combining marks than this on one character are no language, they are a flood."""


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    digits, letter = next(escape for escape in _ESCAPES if code < 16 ** escape[0])
    return f"\\{letter}{code:0{digits}x}"


def _pieces(text: str) -> Iterator[str]:
    """Each character as it may be shown: `isprintable` is false for all that controls or hides."""
    from unicodedata import category  # noqa: PLC0415 - a library of 1 MB that plain texts do without

    marks = 0
    for character in text:
        kind = category(character)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        shown = character.isprintable() or kind == "Zs"
        yield character if shown and marks <= _MANY_MARKS else _escape(character)


def one_line(text: str) -> str:
    """The text on one line, with every character that is not plainly visible escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_pieces(text))


def lines(text: str) -> list[str]:
    """The text line by line; only line feeds break a line, tabs become blanks."""
    return [one_line(line.expandtabs(4)) for line in text.replace("\r\n", "\n").split("\n")]
