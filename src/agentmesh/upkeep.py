"""What upkeep tells of a board: frozen records, as in `model`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

StageProgress = Callable[[str, int, int], None]
"""Told what is being done (`copy`, `rows`, `derive`, `check`), how much of it, of how much; it gives up by raising."""
Verdict = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Backup:
    """A file that holds the board as it was at one instant, up to its event `last_seq`; `size` is in bytes."""

    path: str
    board_id: str
    schema: int
    at_us: int
    last_seq: int
    pages: int
    size: int


@dataclass(frozen=True, slots=True)
class Observation:
    """One thing a doctor looked at. `name` is stable and ends in the value's unit; what is not ok has a `hint`."""

    name: str
    value: int | str | bool
    verdict: Verdict = "ok"
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Export:
    """What was written of a board: rows of each kind, as they were at one instant; `sha256` is that of all rows."""

    board_id: str
    at_us: int
    rows: dict[str, int]
    sha256: str


@dataclass(frozen=True, slots=True)
class Import:
    """A new board, and the export that it was made from: of which board, of when, how many rows of each kind.

    `reclaimed` tasks were held when they were exported, by agents of then. `events_ignored` counts the history in the
    file, which is not that of the new board.
    """

    board: str
    board_id: str
    source_id: str
    at_us: int
    rows: dict[str, int]
    reclaimed: tuple[str, ...] = ()
    events_ignored: int = 0


@dataclass(frozen=True, slots=True)
class Restored:
    """A board that was put back from a backup: up to its event `last_seq`, which was written at `at_us`.

    `replaced` is the path of the board that was there before, with its log beside it; None if none was.
    """

    path: str
    backup: str
    board_id: str
    schema: int
    last_seq: int
    size: int
    at_us: int | None = None
    replaced: str | None = None
