"""Writing a board down: one snapshot, read page by page from a copy, so that the size of a board is not felt anywhere.

A board that is damaged is not exported in part: whoever reads an export can rely on its being whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from agentmesh.board.transfer.form import FORMAT, KINDS, VERSION, Kind
from agentmesh.board.transfer.lines import line
from agentmesh.errors import Corrupt, InvalidArgument
from agentmesh.model import Json
from agentmesh.store.base import Row, Store, Transaction
from agentmesh.store.unfinished import unfinished
from agentmesh.upkeep import Export, StageProgress

UNREADABLE = (ValueError, TypeError, LookupError)
"""What comes of text that is no UTF-8, of what is no JSON where it must be, of a value that is not there."""


class _Unreadable(ValueError):
    """Rows of a kind cannot be read; the store names the damaged one, if it is a text that is damaged."""


def export(store: Store, out: BinaryIO, *, events: bool, progress: StageProgress) -> Export:
    """Write a board, with its history or without, to a stream.

    Raises:
        Corrupt: the board is damaged; what has been written is no export, for it has no end.
    """

    def write(tx: Transaction) -> Export:
        return _Exporting(tx, out, progress).write(store.schema, events=events)

    try:
        return store.read_apart(write, lambda done, of: progress("copy", done, of))
    except _Unreadable as error:
        raise Corrupt(f"The board is damaged: rows of kind {error} cannot be read.") from error


@contextlib.contextmanager
def new_file(path: Path, store: Store, *, replace: bool) -> Iterator[BinaryIO]:
    """A file of this user's own that has its name only when it is whole.

    Raises:
        InvalidArgument: something is there that may not be replaced, a board above all; or there is no such folder.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise InvalidArgument("path", "must be a file in a folder that exists")
    if os.path.lexists(path) and (not replace or os.path.lexists(f"{path}.gate")):
        raise InvalidArgument("path", "is there already", hint="Name another file, or say that it may be replaced.")
    with unfinished(path, store.chance) as place:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        place.replace(path)


class _Exporting:
    """One export in the making."""

    def __init__(self, tx: Transaction, out: BinaryIO, progress: StageProgress) -> None:
        self._tx = tx
        self._out = out
        self._progress = progress
        self._digest = hashlib.sha256()

    def write(self, schema: int, *, events: bool) -> Export:
        fact = self._tx.fetch_one("fact", key="board_id") or {}
        counts = dict(self._tx.fetch_one("export_counts", now_us=self._tx.now, events=int(events)) or {})
        about = {"schema": schema, "board_id": fact["value"], "exported_us": self._tx.now}
        self._out.write(line("header", {"format": FORMAT, "version": VERSION, **about, "counts": counts}))
        done = 0
        for kind in KINDS:
            if counts[kind.name]:
                done += self._write_kind(kind, done, counts)
        digest = self._digest.hexdigest()
        self._out.write(line("trailer", {"counts": counts, "sha256": digest}))
        return Export(fact["value"], self._tx.now, counts, digest)

    def _write_kind(self, kind: Kind, before: int, counts: dict[str, int]) -> int:
        done, of = 0, sum(counts.values())
        for page in self._pages(kind):
            self._digest.update(page)
            self._out.write(page)
            done += page.count(b"\n")
            self._progress("rows", before + done, of)
        if missing := counts[kind.name] - done:  # a row that names what is not there is in no join
            raise Corrupt(f"The board is damaged: {missing} rows of kind {kind.name} name what is missing.")
        return done

    def _pages(self, kind: Kind) -> Iterator[bytes]:
        after = kind.start
        keys = [f"after_{place}" for place, _ in enumerate(after)]
        shape = SHAPES.get(kind.name, dict)
        while True:
            try:
                rows = self._tx.fetch_all(kind.page, **dict(zip(keys, after, strict=True)), **self._wish(kind))
                page = b"".join([line(kind.name, _row(kind, shape(row))) for row in rows])
            except UNREADABLE as error:
                raise _Unreadable(kind.name) from error
            if rows:
                yield page
            if len(rows) < kind.rows:
                return
            after = tuple(rows[-1][f"key_{place}"] for place, _ in enumerate(after))

    def _wish(self, kind: Kind) -> dict[str, int]:
        timed = {"now_us": self._tx.now} if kind.name in ("pause", "entry", "entry_tombstone") else {}
        return {"most": kind.rows, **timed}


def _row(kind: Kind, row: Row) -> dict[str, Json]:
    return {name: row[name] for name in kind.fields}


def _task(row: Row) -> dict[str, Any]:
    paths = json.loads(row["paths"]) if row["paths"] else {"writes": [], "reads": []}
    texts = {name: _value(row[name]) for name in ("payload", "result")}
    return {**row, "requires": json.loads(row["requires"]), "tags": _value(row["tags"]) or [], **paths, **texts}


def _attempt(row: Row) -> dict[str, Any]:
    return {**row, "charged": bool(row["charged"]), "late": bool(row["late"])}


def _budget(row: Row) -> dict[str, Any]:
    return {**row, "strict": bool(row["strict"])}


def _entry(row: Row) -> dict[str, Any]:
    if row["content_type"] is None:
        return {**row, "value": json.loads(row["body"])}
    return {**row, "value": b64encode(row["bytes"]).decode("ascii")}


def _event(row: Row) -> dict[str, Any]:
    return {**row, "data": json.loads(row["data"])}


def _value(text: str | None) -> Json:
    return None if text is None else json.loads(text)


SHAPES: dict[str, Callable[[Row], Row]] = {
    "task": _task,
    "attempt": _attempt,
    "budget": _budget,
    "entry": _entry,
    "event": _event,
}
"""What a row of the tables becomes, where it is not written as it is."""
