"""What upkeep tells of a board: frozen records, as in `model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
