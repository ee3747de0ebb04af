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

import re
from typing import Any, NamedTuple

from agentmesh import limits
from agentmesh.board import records
from agentmesh.board.change import Change
from agentmesh.errors import InvalidArgument, StoreError, VersionConflict, WrongKind
from agentmesh.jsontext import decode
from agentmesh.model import Entry, EntryPage, Json
from agentmesh.store.base import Row, Transaction, Value

SWEPT = 10
"""How many expired entries a write takes away; more than it can add."""
BEFORE_ALL = " "
PAST_ALL = "\U0010ffff"
DEFAULT_TYPE = "application/octet-stream"
INTEGER = re.compile(r"-?[0-9]+")


# Named tuples are made in half the time of frozen dataclasses, and a put makes five of them: 0.7 us.
class Place(NamedTuple):
    """Where an entry stands."""

    namespace: str
    key: str

    @property
    def names(self) -> dict[str, str]:
        """The same as parameters of a statement."""
        return {"namespace": self.namespace, "key": self.key}


class Content(NamedTuple):
    """A value as it is stored: JSON text, or bytes with their type; its size in bytes."""

    size: int
    body: str | None = None
    data: bytes | None = None
    content_type: str | None = None

    @property
    def value(self) -> Json | bytes:
        """As it was given."""
        return self.data if self.body is None else decode(self.body)


class Author(NamedTuple):
    """Who writes: an agent, and, if it showed a lease, its task's row and fence."""

    agent_id: str
    task: Row | None = None
    fence: int | None = None


class Found(NamedTuple):
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
        data = limits.artifact("value", value)
        return Content(len(data), data=data, content_type=kind)
    if content_type is not None:
        raise InvalidArgument("content_type", "is for bytes; JSON has none")
    return _text(limits.json_text("value", value, limits.ENTRY_BYTES))


def get(tx: Transaction, place: Place) -> Entry | None:
    """An entry, None when it is missing."""
    row = tx.fetch_one("entry_now", now_us=tx.now, **place.names)
    if row is None:
        return None
    return records.entry(row, row["bytes"] if row["body"] is None else decode(row["body"]))


def find(change: Change, place: Place) -> Found:
    """What is at a place that is to be written; if that has expired, nothing is."""
    names = place.names
    change.tx.execute("lock_entry", **names)
    row = _look(change, names)
    if row["due_pk"] is not None:
        sweep(change)
        row = _look(change, names)
    if row["pk"] is None:
        return Found(None, row["last"] or 0)
    if row["expires_us"] is not None and row["expires_us"] <= change.now:
        bury(change, {**row, **names})
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
    facts = {
        "size": new.size,
        "content_type": new.content_type,
        "expires_us": expires_us,
        "agent_id": author.agent_id,
        "task_id": author.task["id"] if author.task else None,
        "fence": author.fence,
    }
    version, created_us = found.last + 1, change.now
    if found.row is None:
        _add(change, place, version, new, facts)
    else:
        created_us = found.row["created_us"]
        _change(change, place, found.row, new, facts)
    told = {**place.names, "version": version, "size": new.size}
    if expires_us is not None:
        told["expires_us"] = expires_us
    change.event("entry_put", author.task, fence=author.fence, agent_id=author.agent_id, **told)
    return {**told, **facts, "created_us": created_us, "updated_us": change.now}


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
    new = _text(str(total))
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
    new = _text(f"[{item}]" if was == "[]" else f"{was[:-1]},{item}]")
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
    bury(change, {**found.row, **place.names})
    told = {**place.names, "version": found.last}
    change.event("entry_deleted", author.task, fence=author.fence, agent_id=author.agent_id, **told)
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


def _text(body: str) -> Content:
    return Content(len(body.encode()), body)


def _add(change: Change, place: Place, version: int, new: Content, facts: dict[str, Any]) -> None:
    if version > 1:
        change.tx.execute("drop_tombstone", **place.names)
    row = change.tx.fetch_one("add_entry", version=version, now_us=change.now, **place.names, **facts) or {}
    change.tx.execute("add_entry_value", pk=row["pk"], body=new.body, bytes=new.data)


def _change(change: Change, place: Place, row: Row, new: Content, facts: dict[str, Any]) -> None:
    if change.tx.execute("change_entry", pk=row["pk"], was=row["version"], now_us=change.now, **facts) != 1:
        raise StoreError(f"Entry {place.key!r} changed under a lock.")
    change.tx.execute("change_entry_value", pk=row["pk"], body=new.body, bytes=new.data)


def _look(change: Change, names: dict[str, str]) -> Row:
    return change.tx.fetch_one("find_entry", now_us=change.now, **names) or {}


def _body(change: Change, found: Found) -> str | None:
    """The JSON text of what was found; None of bytes."""
    row = change.tx.fetch_one("entry_body", pk=found.row["pk"]) if found.row else None
    return row["body"] if row else None


def _end(found: Found, expires_us: int | None) -> int | None:
    return found.row["expires_us"] if found.row and expires_us is None else expires_us
