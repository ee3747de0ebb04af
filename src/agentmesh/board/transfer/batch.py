"""Rows on their way to a new board, many to a transaction."""

from __future__ import annotations

from typing import Any

from agentmesh.store.base import Store

Values = dict[str, Any]
INSERTS = (
    "import_plan",
    "import_requirement",
    "import_pool",
    "import_task",
    "put_body",
    "put_result",
    "add_tag",
    "add_edge",
    "import_attempt",
    "import_note",
    "add_pause",
    "add_task_pause",
    "mark_paused",
    "put_cap",
    "put_budget",
    "import_entry",
    "add_entry_value",
    "import_entry_tombstone",
    "import_task_tombstone",
    "add_source",
    "import_usage",
    "import_usage_pruned",
    "import_root",
)
"""The statements of a batch, in the order in which they run: a row comes after those that it names."""
MOST_ROWS = 5_000
MOST_BYTES = 8 * 1024 * 1024


class Batch:
    """What waits to be entered, never more than fits in a little memory.

    The values that a statement is given may have more names than it asks for.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, list[Values]] = {statement: [] for statement in INSERTS}
        self._rows = 0
        self._bytes = 0

    def put(self, statement: str, values: Values) -> None:
        """Have a statement run with these values."""
        self._waiting[statement].append(values)

    def count(self, size: int) -> None:
        """A row has been taken whose line has so many bytes."""
        self._rows += 1
        self._bytes += size
        if self._rows >= MOST_ROWS or self._bytes >= MOST_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send off what is waiting."""
        waiting = [(statement, rows) for statement, rows in self._waiting.items() if rows]
        self._store.write(lambda tx: [tx.execute_many(statement, rows) for statement, rows in waiting])
        for _, rows in waiting:
            rows.clear()
        self._rows = self._bytes = 0
