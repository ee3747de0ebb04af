"""The least that two durable changes can cost: bare `BEGIN IMMEDIATE; UPDATE one row; COMMIT`, twice.

The same driver as the board's (apsw), the same file system, the same `synchronous`, WAL; its log is checkpointed by
SQLite's own default. No lease, no fence, no history, no checks: nobody could build a task board that is cheaper.
"""

from __future__ import annotations

from pathlib import Path
from typing import Self

import apsw

ROWS = 1_000


class Bare:
    """A table of rows that are claimed and completed by number."""

    def __init__(self, path: Path, durability: str) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", durability.upper())
        self._connection.pragma(
            "wal_autocheckpoint", 1_000
        )  # SQLite's default, which apsw could have been told to change
        self._connection.execute("CREATE TABLE IF NOT EXISTS item (pk INTEGER PRIMARY KEY, state TEXT NOT NULL)")
        with self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO item VALUES (?, 'pending')", ((pk,) for pk in range(ROWS))
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def pair(self, number: int) -> None:
        """Two transactions on one row."""
        execute = self._connection.execute
        for state in ("in_progress", "completed"):
            execute("BEGIN IMMEDIATE")
            execute("UPDATE item SET state = ? WHERE pk = ?", (state, number % ROWS))
            execute("COMMIT")
