"""What upkeep tells of a board: frozen records, as in `model`."""

from __future__ import annotations

from dataclasses import dataclass


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
