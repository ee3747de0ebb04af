"""Put and get of an entry, whole public calls, against the least that they could be: a bare upsert, a bare select.

The same driver, file system, `synchronous` and WAL on both sides, a transaction each, values of the same length, as
many names in turn. Each value is a new one: SQLite does not write a page whose bytes stay as they are. A put also reads
the version, writes an event, and looks for expired entries to sweep.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Self

import apsw

from agentmesh import Board
from benchmarks.report import Figure, progress
from benchmarks.rounds import alternate, timed
from benchmarks.settings import Settings

NAMES = 500
BAR = 3.0
_numbers = count()


class BareTable:
    """A table of values by name, and nothing else."""

    def __init__(self, path: Path, durability: str) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", durability.upper())
        self._connection.pragma("wal_autocheckpoint", 1_000)
        self._connection.execute("CREATE TABLE item (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def put(self, number: int) -> None:
        """One row in a transaction of its own."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            "INSERT INTO item VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (_name(number), json.dumps(_value(number))),
        )
        execute("COMMIT")

    def get(self, number: int) -> object:
        """The row, read as JSON, on a snapshot."""
        execute = self._connection.execute
        execute("BEGIN")
        found = execute("SELECT value FROM item WHERE name = ?", (_name(number),)).get
        execute("COMMIT")
        return json.loads(found)


def figures(settings: Settings) -> Iterator[Figure]:
    """Puts in both durabilities, and gets."""
    for durability in ("normal", "full"):
        yield _put(settings, durability, settings.size(1_500, 300))
    yield _get(settings, settings.size(5_000, 1_000))


def _put(settings: Settings, durability: str, number: int) -> Figure:
    progress(f"blackboard: put, {durability}")
    name = f"put an entry against a bare upsert, `{durability}`"
    return _compare(settings, durability, number, name, ours=_put_one, theirs=lambda bare: bare.put)


def _get(settings: Settings, number: int) -> Figure:
    progress("blackboard: get")
    name = "get an entry against a bare select"
    return _compare(settings, "normal", number, name, ours=_get_one, theirs=lambda bare: bare.get)


def _compare(
    settings: Settings,
    durability: str,
    number: int,
    name: str,
    *,
    ours: Callable[[Board], Callable[[int], object]],
    theirs: Callable[[BareTable], Callable[[int], object]],
) -> Figure:
    with (
        Board.open(settings.place("entries"), durability=durability) as board,
        BareTable(settings.place("bare-entries"), durability) as bare,
    ):
        for place in range(NAMES):
            _put_one(board)(place)
            bare.put(place)
        compared = alternate(
            lambda: timed(ours(board), range(number)),
            lambda: timed(theirs(bare), range(round(number * BAR * 0.9))),
            settings.size(9, 3),
        )
    return Figure(name, compared.ratio, "x", "<=", BAR, compared.absolute("a call", "bare"))


def _put_one(board: Board) -> Callable[[int], object]:
    return lambda number: board.blackboard.put("bench", _name(number), _value(number))


def _get_one(board: Board) -> Callable[[int], object]:
    return lambda number: board.blackboard.get("bench", _name(number))


def _name(number: int) -> str:
    return f"k{number % NAMES}"


def _value(number: int) -> dict[str, object]:
    return {"text": "x" * 200, "number": next(_numbers), "of": number}
