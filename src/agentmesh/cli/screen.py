"""What people see: styled lines on a terminal, plain lines in a pipe, never more columns than fit.

Every text passes `one_line` here, at the last moment, so no command can forget to escape. Styles
are named beside the text and never read out of it: data cannot switch a colour on.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TextIO

import click

from agentmesh.model import State
from agentmesh.printable import lines, one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Part = str | tuple[str, str]
"""A text, or a text and its style."""
Line = Sequence[Part]
Cell = Part

STYLES: Final[dict[State, str]] = {
    "blocked": "dim",
    "scheduled": "magenta",
    "pending": "cyan",
    "in_progress": "yellow",
    "completed": "green",
    "failed": "bold red",
    "cancelled": "red",
}
_SYMBOLS: Final[dict[State, tuple[str, str]]] = {
    "blocked": ("◌", "."),
    "scheduled": ("◔", "@"),
    "pending": ("○", "o"),
    "in_progress": ("▶", ">"),
    "completed": ("✔", "+"),
    "failed": ("✘", "x"),
    "cancelled": ("⊘", "-"),
}
_GAP: Final = 2
_WORTH: Final = 12
"""Fewer cells than this say nothing of a title."""
_NARROWEST: Final = 24
"""A wrapped column below this many cells is harder to read than a stacked record."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; the one that `wraps` takes the room that is left, a `spare` one gives its room up."""

    name: str
    wraps: bool = False
    right: bool = False
    spare: bool = False


class Screen:
    """Where a command's words go: standard output, as wide as it is."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out if out is not None else sys.stdout
        forced = bool(os.environ.get("FORCE_COLOR"))
        self.live: Final = forced or (self._out.isatty() and os.environ.get("TERM") != "dumb")
        self.width: Final = shutil.get_terminal_size().columns if self._is_terminal() else None
        self._console: Console | None = None
        self.unicode: Final = _can_write(self._out, "✔▶│└")

    def _is_terminal(self) -> bool:
        return self.live or self._out.isatty()

    def line(self, *parts: Part) -> None:
        """Write one line; a terminal too narrow for it wraps at blanks."""
        for line in fold(parts, self.width):
            self._write(line)

    def line_with(self, extra: Part, *parts: Part) -> None:
        """Write one line and, as far as there is room, something that need not be whole."""
        from rich.cells import set_cell_size

        room = None if self.width is None else self.width - cells(parts) - _GAP
        text, style = (extra, "") if isinstance(extra, str) else extra
        text = one_line(text)
        if room is not None and cells([text]) > room:
            text = set_cell_size(text, room - 1).rstrip() + "…"[: self.unicode] if room >= _WORTH else ""
        self.line(*parts, (f"  {text}" if text else "", style))

    def named(self, name: Part, *parts: Part) -> None:
        """Write a name and what it stands for; what wraps stays to the right of the name."""
        column = cells([name])
        if self.width is None or column + _NARROWEST > self.width:
            self.line(name, *parts)
            return
        for number, line in enumerate(wrap(parts, self.width - column)):
            self._write([" " * column if number else name, *line])

    def copyable(self, *parts: Part) -> None:
        """Write one line that a reader may copy: the terminal breaks it, we do not."""
        self._write(parts)

    def block(self, text: str, *, indent: int = 2) -> None:
        """Write foreign text of several lines, indented so that it cannot pass for ours."""
        for line in lines(text):
            room = max(self.width - indent, 1) if self.width is not None else None
            for piece in wrap([line], room) if room else [[line]]:
                self._write([" " * indent, *piece])

    def table(self, columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Write a table; where it does not fit, without spare columns, else as one stacked record per row."""
        for line in table_lines(columns, [list(row) for row in rows], self.width):
            self._write(line)

    def symbol(self, state: State) -> Part:
        """The sign of a state."""
        return (_SYMBOLS[state][0 if self.unicode else 1], STYLES[state])

    def state(self, state: State) -> Part:
        """The name of a state, with its sign."""
        return (f"{_SYMBOLS[state][0 if self.unicode else 1]} {state}", STYLES[state])

    def console(self) -> Console:
        """The terminal, as rich draws on it; NO_COLOR is honoured there."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(file=self._out, force_terminal=True, markup=False, emoji=False, highlight=False)
        return self._console

    def flush(self) -> None:
        """Let a reader in a pipe see what was written."""
        self._out.flush()

    def _write(self, parts: Line) -> None:
        if self.live:
            self.console().print(styled(parts), soft_wrap=True)
        else:
            click.echo("".join(_text(part) for part in parts).rstrip(), file=self._out)


def styled(parts: Line) -> Text:
    """A line for rich, escaped; markup in it stays text."""
    from rich.text import Text

    text = Text()
    for part in parts:
        text.append(_text(part), None if isinstance(part, str) else part[1])
    return text


def table_lines(columns: Sequence[Column], rows: list[list[Cell]], width: int | None) -> list[Line]:
    """Lay a table out for so many cells a line; without a width nothing is wrapped."""
    filled = [i for i, _ in enumerate(columns) if any(_text(row[i]) for row in rows)]
    if not filled:
        return []
    for kept in _choices(columns, filled):
        shown, texts = [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]
        widths = _widths(shown, texts, width)
        if widths is not None:
            head: list[Cell] = [(column.name, "bold") for column in shown]
            gone = ", ".join(columns[i].name for i in filled if i not in kept)
            note = fold([(f"No room for: {gone}", "dim")], width) if gone else []
            return [*(line for row in [head, *texts] for line in _row(shown, row, widths)), *note]
    return list(_stacked(columns, rows, width or 1))


def _choices(columns: Sequence[Column], filled: list[int]) -> Iterator[list[int]]:
    """The columns to try: all that say something, then each time without one spare one more, the last first.

    A table of no column would show nothing: at least one is left.
    """
    spare = [i for i in filled if columns[i].spare]
    for left in range(len(spare), -1, -1):
        if kept := [i for i in filled if i not in spare[left:]]:
            yield kept


def _widths(columns: Sequence[Column], rows: list[list[Cell]], width: int | None) -> list[int] | None:
    """How wide each column is, the wrapping one narrowed where that helps; None where they do not fit."""
    widths = [max(len(c.name), *(cells([row[i]]) for row in rows)) for i, c in enumerate(columns)]
    over = 0 if width is None else sum(widths) + _GAP * (len(widths) - 1) - width
    if over <= 0:
        return widths
    flexible = next((i for i, c in enumerate(columns) if c.wraps), None)
    if flexible is None or widths[flexible] - over < min(_NARROWEST, widths[flexible]):
        return None
    return [w - over if i == flexible else w for i, w in enumerate(widths)]


def _row(columns: Sequence[Column], row: Sequence[Cell], widths: list[int]) -> Iterator[Line]:
    """One row; its wrapping cell may make several lines."""
    wrapped = [list(wrap([cell], widths[i])) if columns[i].wraps else [[cell]] for i, cell in enumerate(row)]
    for number in range(max(len(cell) for cell in wrapped)):
        line: list[Part] = []
        for i, cell in enumerate(wrapped):
            parts = cell[number] if number < len(cell) else []
            room = " " * (widths[i] - cells(parts))
            last = i == len(wrapped) - 1
            line += [room, *parts] if columns[i].right else [*parts, "" if last else room]
            line.append("" if last else " " * _GAP)
        yield line


def fold(parts: Line, width: int | None) -> list[Line]:
    """One line, or several where it is too wide; those stand a little further in."""
    if width is None or cells(parts) <= width:
        return [parts]
    whole = "".join(_text(part) for part in parts)
    indent = " " * min(len(whole) - len(whole.lstrip(" ")) or _GAP, 8)
    return [[indent if n else "", *line] for n, line in enumerate(wrap(parts, max(width - len(indent), 1)))]


def _stacked(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], width: int) -> Iterator[Line]:
    """Each row as a small record: what is short on the first line, the long text below it."""
    for row in rows:
        told = [(c, cell) for c, cell in zip(columns, row, strict=True) if _text(cell) not in ("", "-")]
        short = [[f"{c.name} " if c.right else "", cell] for c, cell in told if not c.wraps]
        yield from _packed(short, width)
        for column, cell in told:
            if column.wraps:
                for line in wrap([cell], max(width - _GAP, 1)):
                    yield [" " * _GAP, *line]


def _packed(items: Iterable[Line], width: int) -> Iterator[Line]:
    """Items side by side, as many as fit; further lines stand two cells in."""
    line: list[Part] = []
    lead = ""
    for item in items:
        if line and cells(line) + _GAP + cells(item) > width:
            yield line
            line, lead = [], " " * _GAP
        line += [lead, *item]
        lead = " " * _GAP
        if cells(line) > width:
            *done, line = wrap(line, width)
            yield from done
    if line:
        yield line


def wrap(parts: Line, width: int) -> Iterator[list[Part]]:
    """Break a line at blanks, or inside a word that is longer than a line."""
    from rich.cells import cell_len, chop_cells

    line: list[Part] = []
    room, broken = width, False
    for word, style in _words(parts):
        wide = cell_len(word)
        if room < wide <= width and line:
            yield line
            line, room, broken = [], width, True
        if broken and not line and word.isspace():
            continue  # the blank at which the line was broken
        for piece in chop_cells(word, width) if wide > width else [word]:
            if cell_len(piece) > room and line:
                yield line
                line, room, broken = [], width, True
            line.append((piece, style))
            room -= cell_len(piece)
    yield line


def _words(parts: Line) -> Iterator[tuple[str, str]]:
    """Words and the blanks between them, each with its style."""
    for part in parts:
        style = "" if isinstance(part, str) else part[1]
        word = ""
        for character in _text(part):
            if word and (character == " ") != (word[-1] == " "):
                yield word, style
                word = ""
            word += character
        if word:
            yield word, style


def _text(part: Part) -> str:
    return one_line(part if isinstance(part, str) else part[0])


def cells(parts: Line) -> int:
    """How many cells of a terminal a line takes."""
    from rich.cells import cell_len

    return sum(cell_len(_text(part)) for part in parts)


def _can_write(out: TextIO, text: str) -> bool:
    try:
        text.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
