"""Boards to measure on: made quickly, then opened with the durability that is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from itertools import count, islice
from pathlib import Path
from typing import Any

import apsw

from agentmesh import Board
from agentmesh.limits import BATCH

AGENT = "bench"
RESULT = {"ok": True}
LONG_SEC = 7 * 86_400
FRAME_BYTES = 4096 + 24
"""A page in the log, with its header."""

_numbers = count()


def fill(board: Board, specs: Iterable[Mapping[str, Any]]) -> None:
    """Put any number of tasks on a board."""
    rest = iter(specs)
    while batch := list(islice(rest, BATCH)):
        board.create_tasks(batch)


def plain(number: int, **fields: Any) -> list[dict[str, Any]]:
    """Wishes for tasks with nothing special about them, ids and all."""
    return [{"title": "A task", "id": f"t{next(_numbers)}", **fields} for _ in range(number)]


def pair(board: Board) -> None:
    """Claim a task and complete it: the whole public calls."""
    claim = board.claim_task(AGENT)
    if not claim:
        raise RuntimeError(f"The board ran out of tasks: {claim.message}")
    claim.complete(RESULT)


def truncate_log(path: Path) -> None:
    """Bring the log into the board file and empty it, while nobody else is at the board."""
    with closing(apsw.Connection(str(path))) as connection:
        connection.set_busy_timeout(5_000)
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)


def log_bytes(path: Path) -> int:
    """The size of a board's log now; it is looked at, never opened."""
    return path.with_name(path.name + "-wal").stat().st_size
