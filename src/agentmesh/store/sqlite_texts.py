"""Damage inside the rows of a SQLite board: texts that are not UTF-8, not JSON where they must be, or no known word.

SQLite has no checksums of pages in the file, and it reads back whatever bytes stand there. So nobody sees such damage
until a row becomes a record, and then as an error of Python's. This module finds the rows and names them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import apsw

from agentmesh.errors import Corrupt
from agentmesh.model import (
    BudgetScope,
    Ceiling,
    Condition,
    FailureKind,
    Origin,
    Outcome,
    PathMode,
    PauseScope,
    Period,
    State,
)
from agentmesh.store import migrate
from agentmesh.store.sqlite_open import ENGINE
from agentmesh.store.statements import parse

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError)
"""What Python makes of a damaged row: of text that is not UTF-8 or JSON, of a value that is missing or another type."""


def _names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _patterns(value: Any) -> bool:
    return isinstance(value, dict) and _names(value["writes"]) and _names(value["reads"])


def _facts(value: Any) -> bool:
    return isinstance(value, dict)


def _any(_value: Any) -> bool:
    return True


JSON: Final[Mapping[tuple[str, str], Callable[[Any], bool]]] = {
    ("requirement", "names"): _names,
    ("pool", "paths"): _patterns,
    ("task", "tags"): _names,
    ("body", "payload"): _any,
    ("result", "body"): _any,
    ("agent", "capabilities"): _names,
    ("request", "reply"): _any,
    ("event", "data"): _facts,
    ("entry_value", "body"): _any,
}
"""The columns that hold JSON, and what the value must be."""
WORDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("task", "state"): get_args(State),
    ("task_tombstone", "state"): get_args(State),
    ("edge", "condition"): get_args(Condition),
    ("attempt", "outcome"): get_args(Outcome),
    ("attempt", "kind"): get_args(FailureKind),
    ("lot", "mode"): get_args(PathMode),
    ("hold", "mode"): get_args(PathMode),
    ("pause", "scope"): get_args(PauseScope),
    ("task_pause", "ceiling"): get_args(Ceiling),
    ("usage_entry", "origin"): get_args(Origin),
    ("usage_source", "origin"): get_args(Origin),
    ("budget", "scope"): get_args(BudgetScope),
    ("budget", "period"): get_args(Period),
}
"""The columns that hold one of a few words."""
SHOWN: Final = 40
NEXT: Final = "Stop all agents and restore a backup; `agentmesh doctor --deep` names every damaged row."
OR_CANCEL: Final = "Take the task out of the way with `agentmesh cancel`, or restore a backup."


class Damage(NamedTuple):
    """A text that is damaged: where it stands, and what is wrong with it; never the text itself."""

    table: str
    column: str
    row: str
    problem: str

    @property
    def hint(self) -> str:
        """The next step. A cancellation does not read the body of its task."""
        return OR_CANCEL if self.table == "body" else NEXT

    def __str__(self) -> str:
        return f"{self.table}.{self.column} of {self.row} {self.problem}"


def damaged_texts(connection: apsw.Connection) -> Iterator[Damage]:
    """Read every text of every table; the damaged ones. A board of an older schema may lack a table or a column."""
    older = connection.pragma("user_version") < migrate.newest(ENGINE)
    for table, sql in statements().items():
        if table != "id_of" and not (older and _is_newer(connection, sql)):
            yield from _in_table(connection, table, sql)


def _is_newer(connection: apsw.Connection, sql: str) -> bool:
    """Whether the tables of this board are too old for a statement."""
    try:
        connection.execute(f"EXPLAIN {sql}")
    except apsw.SQLError:
        return True
    return False


def refuse_damage(connection: apsw.Connection, path: Path, error: BaseException) -> None:
    """Say that an error came from a damaged row, if the board has one; it then names the row.

    Raises:
        Corrupt: the board is damaged.
    """
    found = next(damaged_texts(connection), None)
    if found is not None:
        raise Corrupt(f"The board {path} is damaged: {found}.", hint=found.hint) from error
    sound = connection.execute("PRAGMA quick_check(1)").get
    if sound != "ok":
        raise Corrupt(f"The board {path} is damaged: SQLite's check says {sound!r}.") from error
    if isinstance(error, UnicodeDecodeError):
        raise Corrupt(f"The board {path} is damaged: a text is not UTF-8.") from error


def some(connection: apsw.Connection, most: int) -> Sequence[Damage]:
    """The first damaged texts."""
    return list(islice(damaged_texts(connection), most))


@cache
def statements() -> Mapping[str, str]:
    """What reads every text of a table as bytes, by table."""
    file = resources.files("agentmesh.store").joinpath("sqlite_texts.sql")
    return parse(file.read_text(encoding="utf-8"))


def _in_table(connection: apsw.Connection, table: str, sql: str) -> Iterator[Damage]:
    cursor = connection.execute(sql)
    first = next(cursor, None)
    if first is None:
        return
    columns = [column[0] for column in cursor.get_description()]
    texts = [(place, name) for place, name in enumerate(columns) if not name.startswith("row_")]
    checks = [(place, name, JSON.get((table, name)), WORDS.get((table, name))) for place, name in texts]
    for row in _all(first, cursor):
        for place, name, shape, words in checks:
            value = row[place]
            problem = None if value is None else _problem(value, shape, words)
            if problem:
                yield Damage(table, name, _row(connection, columns, row), problem)


def _all(first: tuple[Any, ...], others: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    yield first
    yield from others


def _problem(value: bytes, shape: Callable[[Any], bool] | None, words: tuple[str, ...] | None) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return "is not UTF-8"
    if words is not None and text not in words:
        return "is none of the words it can be"
    if shape is None:
        return None
    try:
        return None if shape(json.loads(text)) else "is JSON of another kind"
    except (ValueError, LookupError):
        return "is not the JSON that it was"


def _row(connection: apsw.Connection, columns: Sequence[str], row: tuple[Any, ...]) -> str:
    """What names a row: a task by its id, else its key."""
    named = [(name.removeprefix("row_"), row[place]) for place, name in enumerate(columns) if name.startswith("row_")]
    return ", ".join(_key(connection, name, value) for name, value in named)


def _key(connection: apsw.Connection, name: str, value: Any) -> str:
    if name == "task_pk":
        found = connection.execute(statements()["id_of"], {"pk": value}).get
        name, value = ("task", found) if isinstance(found, bytes) else (name, value)
    if isinstance(value, bytes):
        value = value.decode(errors="replace")[:SHOWN]
    return f"{name} {value!a}"
