"""A transaction on a SQLite board: named statements on one connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import apsw

from agentmesh.model import Micros
from agentmesh.store.base import Row, Value
from agentmesh.store.sqlite_open import refuse_newer
from agentmesh.store.statements import in_dialect, in_order

if TYPE_CHECKING:
    from agentmesh.store.sqlite import SqliteStore

DIALECT = {"skip_locked": ""}
LOCKS = "lock_"
"""Statements of this name take row locks. A SQLite writer is alone: they are nothing to it."""


@cache
def statements() -> Mapping[str, str]:
    """The statements as SQLite reads them; the same for every board, and a process may open thousands."""
    return {name: "" if name.startswith(LOCKS) else sql for name, sql in in_dialect(DIALECT).items()}


class SqliteTransaction:
    """Named statements on one connection, each run to its end before the next.

    It serves one transaction after another, and so does its cursor: a new one for each statement costs 0.4 us.
    """

    __slots__ = (
        "_columns",
        "_path",
        "_probe",
        "_statements",
        "connection",
        "cursor",
        "now",
        "on_test_clock",
    )

    def __init__(self, store: SqliteStore, connection: apsw.Connection) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        self.now = Micros(0)
        self.on_test_clock = store.on_test_clock
        self._path = store.path
        self._statements = store.statements
        self._columns = store.columns
        self._probe = store.options.probe

    def refuse_newer(self) -> None:
        """Look at the schema's version, first thing in each transaction: servers run for days, through upgrades.

        Raises:
            NewerSchema: a newer AgentMesh has upgraded the board since it was opened.
        """
        refuse_newer(self.cursor.execute("PRAGMA user_version").get, self._path)

    def execute(self, statement: str, /, **values: Value) -> int:
        """Run a named statement; the number of rows it changed."""
        sql = self._statements[statement]
        if not sql:
            return 0
        if self._probe:
            self._probe.reached("do:" + statement)
        self.cursor.execute(sql, in_order(sql)(values))
        return self.connection.changes()

    def execute_many(self, statement: str, rows: Iterable[Mapping[str, Value]], /) -> int:
        """Run a named statement for each of many rows of values; the number of rows it changed."""
        if self._probe:
            self._probe.reached("do:" + statement)
        sql = self._statements[statement]
        before = self.connection.total_changes()
        self.cursor.executemany(sql, map(in_order(sql), rows))
        return self.connection.total_changes() - before

    def fetch_one(self, statement: str, /, **values: Value) -> Row | None:
        """Run a named statement; its first row."""
        rows = self._rows(statement, values)
        return dict(zip(self._columns[statement], rows[0], strict=True)) if rows else None

    def fetch_all(self, statement: str, /, **values: Value) -> list[Row]:
        """Run a named statement; all its rows, read to the end."""
        rows = self._rows(statement, values)
        columns = self._columns[statement] if rows else ()
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _rows(self, statement: str, values: Mapping[str, Value]) -> list[tuple[Any, ...]]:
        if self._probe:
            self._probe.reached("do:" + statement)
        sql = self._statements[statement]
        cursor = self.cursor.execute(sql, in_order(sql)(values))
        if statement in self._columns:
            return cursor.fetchall()
        first = next(cursor, None)
        if first is None:
            return []
        self._columns[statement] = tuple(column[0] for column in cursor.get_description())
        return [first, *cursor.fetchall()]
