"""The blackboard: what agents leave for each other, as named entries with a version and, if wanted, an end.

An entry is missing when it was never put, was deleted, or has expired; which of these makes no difference to anybody,
and whether an expired one was swept makes none either. Its version counts its writes and goes on counting when it
comes back, so a compare-and-set never takes a new value for the old one; what a prune has forgotten begins anew. The
board's clock alone says what has expired: if it is set back, an entry that was not swept meanwhile is there again until
its time.

Namespaces match by whole segments and keys by prefix, both as ranges of an index: no character has a meaning in a
pattern. The ranges lean on what names cannot hold: a blank, which sorts before all that they can, and the last code
point, which sorts after it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentmesh import limits
from agentmesh.board import records
from agentmesh.board.change import Change
from agentmesh.errors import InvalidArgument, StoreError, VersionConflict, WrongKind
from agentmesh.model import Entry, EntryPage, Json
from agentmesh.store.base import Row, Transaction, Value

SWEPT = 10
"""How many expired entries a write takes away; more than it can add."""
BEFORE_ALL = " "
PAST_ALL = "\U0010ffff"
DEFAULT_TYPE = "application/octet-stream"
INTEGER = re.compile(r"-?[0-9]+")


class Place(NamedTuple):
    """Where an entry stands."""

    namespace: str
    key: str

    @property
    def names(self) -> dict[str, str]:
        """The same as parameters of a statement."""
        return {"namespace": self.namespace, "key": self.key}


@dataclass(frozen=True, slots=True)
class Content:
    """A value as it is stored: JSON text, or bytes with their type."""

    body: str | None = None
    data: bytes | None = None
    content_type: str | None = None

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data if self.data is not None else (self.body or "").encode())

    @property
    def value(self) -> Json | bytes:
        """As it was given."""
        return self.data if self.data is not None else json.loads(self.body or "null")


@dataclass(frozen=True, slots=True)
class Author:
    """Who writes: an agent, and the row of the attempt whose lease it showed."""

    agent_id: str
    held: Row | None = None

    @property
    def signature(self) -> dict[str, Any]:
        """As it stands beside the entry."""
        task_id, fence = (self.held["id"], self.held["attempt_fence"]) if self.held else (None, None)
        return {"agent_id": self.agent_id, "task_id": task_id, "fence": fence}


@dataclass(frozen=True, slots=True)
class Found:
    """What a writer found at a place: the entry's row, if there is one, and the last version that the name had."""

    row: Row | None
    last: int

    @property
    def version(self) -> int:
        """Of what is there; 0 of what is missing."""
        return self.last if self.row else 0


def content(value: Json | bytes, content_type: str | None) -> Content:
    """A value in the form in which it is stored.

    Raises:
        InvalidArgument: it is too large or no JSON, or a content type was given for what are no bytes.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        kind = DEFAULT_TYPE if content_type is None else limits.content_type("content_type", content_type)
        return Content(data=limits.artifact("value", value), content_type=kind)
    if content_type is not None:
        raise InvalidArgument("content_type", "is for bytes; JSON has none")
    return Content(body=limits.json_text("value", value, limits.ENTRY_BYTES))


def get(tx: Transaction, place: Place) -> Entry | None:
    """An entry, None when it is missing."""
    row = tx.fetch_one("entry_now", now_us=tx.now, **place.names)
    if row is None:
        return None
    return records.entry(row, row["bytes"] if row["content_type"] is not None else json.loads(row["body"]))


def find(change: Change, place: Place) -> Found:
    """What is at a place that is to be written; if that has expired, nothing is."""
    change.tx.execute("lock_entry", **place.names)
    row = _look(change, place)
    if row["due_pk"] is not None:
        sweep(change)
        row = _look(change, place)
    if row["pk"] is None:
        return Found(None, row["last"] or 0)
    if row["expires_us"] is not None and row["expires_us"] <= change.now:
        bury(change, row)
        return Found(None, row["version"])
    return Found(row, row["version"])


def expect(place: Place, found: Found, if_version: int | None) -> None:
    """Go on only if the entry is at the version that the caller believes.

    Raises:
        VersionConflict: it is not.
    """
    if if_version is not None and found.version != if_version:
        raise VersionConflict(place.namespace, place.key, found.version, if_version)


def write(
    change: Change, place: Place, found: Found, author: Author, new: Content, *, expires_us: int | None
) -> dict[str, Any]:
    """Put a value at a place; the facts of the entry as it then is."""
    facts = {"size": new.size, "content_type": new.content_type, "expires_us": expires_us, **author.signature}
    version = found.last + 1
    if found.row is None:
        pk = _add(change, place, facts, version)
    else:
        pk = found.row["pk"]
        if change.tx.execute("change_entry", pk=pk, was=found.last, now_us=change.now, **facts) != 1:
            raise StoreError(f"Entry {place.key!r} changed under a lock.")
    change.tx.execute("put_entry_value", pk=pk, body=new.body, bytes=new.data)
    _tell(change, "entry_put", place, author, version=version, size=new.size, expires_us=expires_us)
    created_us = found.row["created_us"] if found.row else change.now
    return {**place.names, "version": version, "created_us": created_us, "updated_us": change.now, **facts}


def increment(change: Change, place: Place, author: Author, amount: int, expires_us: int | None) -> dict[str, Any]:
    """Add to a whole number; a missing one is 0. Its end stays, unless a new one is given.

    Raises:
        WrongKind: it is no whole number.
        InvalidArgument: the sum has more than 64 bits.
    """
    found = find(change, place)
    was = _body(change, found) if found.row else "0"
    if was is None or not INTEGER.fullmatch(was):
        raise WrongKind(place.namespace, place.key, "a whole number")
    total = int(was) + amount
    if not -limits.INTEGER - 1 <= total <= limits.INTEGER:
        raise InvalidArgument("amount", "would make a number of more than 64 bits")
    new = Content(body=str(total))
    return {**write(change, place, found, author, new, expires_us=_end(found, expires_us)), "body": new.body}


def append(change: Change, place: Place, author: Author, item: str, expires_us: int | None) -> dict[str, Any]:
    """Add an item, as JSON text, to a list; a missing one is empty. Its end stays, unless a new one is given.

    Raises:
        WrongKind: it is no list.
        InvalidArgument: the list would be too large.
    """
    found = find(change, place)
    was = _body(change, found) if found.row else "[]"
    if was is None or not was.startswith("["):
        raise WrongKind(place.namespace, place.key, "a list")
    new = Content(body=f"[{item}]" if was == "[]" else f"{was[:-1]},{item}]")
    if new.size > limits.ENTRY_BYTES:
        raise InvalidArgument("item", f"would make a list of more than {limits.ENTRY_BYTES} bytes, {new.size}")
    return {**write(change, place, found, author, new, expires_us=_end(found, expires_us)), "body": new.body}


def delete(change: Change, place: Place, author: Author, if_version: int | None) -> bool:
    """Take an entry away; false when it is missing.

    Raises:
        VersionConflict: it is at another version.
    """
    found = find(change, place)
    expect(place, found, if_version)
    if found.row is None:
        return False
    bury(change, found.row)
    _tell(change, "entry_deleted", place, author, version=found.last)
    return True


def bury(change: Change, row: Row) -> None:
    """Take an entry's rows away and leave its tombstone."""
    change.tx.execute(
        "add_tombstone", namespace=row["namespace"], key=row["key"], version=row["version"], now_us=change.now
    )
    change.tx.execute("drop_entry_value", pk=row["pk"])
    if change.tx.execute("drop_entry", pk=row["pk"], was=row["version"]) != 1:
        raise StoreError(f"Entry {row['key']!r} changed under a lock.")


def sweep(change: Change) -> None:
    """Take a few expired entries away; nobody can tell, so it is no event."""
    for row in change.tx.fetch_all("entries_due", now_us=change.now, most=SWEPT):
        bury(change, row)


def page(
    tx: Transaction, namespace: str, prefix: str, *, recursive: bool, limit: int, after: Place | None
) -> EntryPage:
    """Entries of a namespace and, if `recursive`, of those below it, by namespace and key."""
    keys: dict[str, Value] = {"first": prefix, "past": prefix + PAST_ALL, "now_us": tx.now}
    rows: list[Row] = []
    if after is None or after.namespace <= namespace:
        own = keys if after is None or after.namespace < namespace else keys | {"first": max(prefix, _next(after.key))}
        rows = tx.fetch_all("entries_of", namespace=namespace, most=limit + 1, **own)
    if recursive and len(rows) <= limit:
        start, end = (f"{namespace}/", f"{namespace}0") if namespace else (BEFORE_ALL, PAST_ALL)
        place = Place(start, "") if after is None or after.namespace < start else after
        rows += tx.fetch_all(
            "entries_below",
            after_namespace=place.namespace,
            after_key=place.key,
            past_namespace=end,
            most=limit + 1 - len(rows),
            **keys,
        )
    shown = rows[:limit]
    cursor = f"{shown[-1]['key']} {shown[-1]['namespace']}".rstrip() if len(rows) > limit else None
    return EntryPage(tuple(records.entry_facts(row) for row in shown), cursor)


def read_cursor(text: object) -> Place:
    """The place at which a page ended.

    Raises:
        InvalidArgument: no page ended so.
    """
    if not isinstance(text, str):
        raise InvalidArgument("cursor", "must be text")
    key, _, namespace = text.partition(" ")
    return Place(limits.namespace("cursor", namespace), limits.name("cursor", key, limits.KEY))


def _next(key: str) -> str:
    """The least that comes after a key."""
    return key + BEFORE_ALL


def _add(change: Change, place: Place, facts: dict[str, Any], version: int) -> int:
    if version > 1:
        change.tx.execute("drop_tombstone", **place.names)
    row = change.tx.fetch_one("add_entry", version=version, now_us=change.now, **place.names, **facts)
    return int(row["pk"]) if row else 0


def _look(change: Change, place: Place) -> Row:
    return change.tx.fetch_one("find_entry", now_us=change.now, **place.names) or {}


def _body(change: Change, found: Found) -> str | None:
    """The JSON text of what was found; None of bytes."""
    row = change.tx.fetch_one("entry_body", pk=found.row["pk"]) if found.row else None
    return row["body"] if row else None


def _end(found: Found, expires_us: int | None) -> int | None:
    return found.row["expires_us"] if found.row and expires_us is None else expires_us


def _tell(change: Change, kind: str, place: Place, author: Author, **data: Any) -> None:
    told = {name: value for name, value in data.items() if value is not None}
    fence = author.signature["fence"]
    change.event(kind, author.held, fence=fence, agent_id=author.agent_id, **place.names, **told)
