"""The verbs of the blackboard: what agents leave for each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from agentmesh import limits
from agentmesh.board import blackboard, leases, records
from agentmesh.board.blackboard import Author, Content, Place
from agentmesh.board.change import Change
from agentmesh.board.claim import Claim
from agentmesh.board.requests import Request, once, request
from agentmesh.board.verbs.base import Verbs, Writer, lease_of
from agentmesh.errors import InvalidArgument
from agentmesh.jsontext import decode
from agentmesh.model import OPERATOR, BlackboardStats, Entry, EntryPage, Json, Lease
from agentmesh.store.base import Store


class Signed(NamedTuple):
    """A write's place, and who signs it: an agent by name, or the holder of a lease."""

    place: Place
    agent_id: str | None
    lease: Lease | None

    def request(self, request_id: str | None, verb: str, **arguments: Any) -> Request | None:
        """The identity of the call; None when its caller gave none."""
        task_id = self.lease.task_id if self.lease else None
        return request(request_id, verb, **self.place.names, task_id=task_id, **arguments)

    def once(self, change: Change, call: Request | None, work: Callable[[Author], Any]) -> Any:
        """Do the work as its author, or give what it gave before.

        Raises:
            LeaseLost: the attempt of the lease is over, or the token is not its own.
            InvalidArgument: the lease is another agent's.
        """
        if self.lease is None:
            agent = self.agent_id or OPERATOR
            return once(change, agent, call, lambda: work(Author(agent)))
        shown = leases.shown(change.tx, self.lease)
        holder = shown["agent_id"]
        if self.agent_id not in (None, holder):
            raise InvalidArgument("agent_id", "is not the one that holds the lease")
        return once(change, holder, call, lambda: work(Author(holder, leases.holding(shown), shown["attempt_fence"])))


class Blackboard:
    """The entries of a board. Every call is one transaction; the board must be open.

    Namespaces are the root `""`, or segments between slashes. An entry is JSON of at most 256 KiB, or bytes with a
    content type, at most 1 MiB. A `lease` signs a write with its task and attempt; if it is lost, nothing is written.
    """

    def __init__(self, store: Store, write: Writer) -> None:
        """Serve the entries of an open store; `Board.blackboard` is the usual way."""
        self._store = store
        self._write = write

    def get(self, namespace: str, key: str) -> Entry | None:
        """An entry with its value; None when it is missing."""
        place = _place(namespace, key)
        return self._store.read(lambda tx: blackboard.get(tx, place))

    def list(
        self,
        namespace: str = "",
        *,
        prefix: str | None = None,
        recursive: bool = True,
        limit: int = 50,
        cursor: str | None = None,
    ) -> EntryPage:
        """One page of entries by namespace and key, without their values.

        Args:
            namespace: where; the root by default.
            prefix: only keys that begin so; every character stands for itself.
            recursive: also the namespaces below, by whole segments: `a/b` is below `a`, `ab` is not.
            limit: how many at most.
            cursor: that of the page before.
        """
        where = limits.namespace("namespace", namespace)
        begin = "" if prefix is None else limits.name("prefix", prefix, limits.KEY)
        below = limits.boolean("recursive", recursive)
        most = limits.integer("limit", limit, 1, limits.PAGE)
        after = None if cursor is None else blackboard.read_cursor(cursor)
        return self._store.read(lambda tx: blackboard.page(tx, where, begin, recursive=below, limit=most, after=after))

    def stats(self) -> BlackboardStats:
        """How much there is, and how many entries have expired without being swept; it reads every entry's row."""
        return self._store.read(lambda tx: BlackboardStats(**tx.fetch_one("count_entries", now_us=tx.now) or {}))

    def put(
        self,
        namespace: str,
        key: str,
        value: Json | bytes,
        *,
        ttl_sec: float | None = None,
        if_version: int | None = None,
        content_type: str | None = None,
        agent_id: str | None = None,
        lease: Lease | Claim | None = None,
        request_id: str | None = None,
    ) -> Entry:
        """Put a value, over the one that is there or not.

        Args:
            namespace: where.
            key: its name there.
            value: JSON, or bytes.
            ttl_sec: how long it stays; without it, until it is deleted.
            if_version: only if the entry is at this version; 0 means only if it is missing.
            content_type: what bytes are; `application/octet-stream` if it is not said.
            agent_id: who writes, unless a lease says so.
            lease: signs the entry with the lease's task and attempt.
            request_id: repeated with the same arguments within a day, it writes once and gives the same answer.

        Raises:
            VersionConflict: the entry is at another version; it is named.
            LeaseLost: the lease is.
        """
        signed = _signed(namespace, key, agent_id, lease)
        new = blackboard.content(value, content_type)
        ttl_us, expected = _ttl_us(ttl_sec), _version(if_version)
        call = None
        if request_id is not None:
            facts = {"content_type": new.content_type, "ttl_us": ttl_us, "if_version": expected}
            call = signed.request(request_id, "put_entry", value=_digest(new), **facts)

        def work(change: Change) -> Entry:
            def act(author: Author) -> dict[str, Any]:
                found = blackboard.find(change, signed.place)
                blackboard.expect(signed.place, found, expected)
                return blackboard.write(change, signed.place, found, author, new, expires_us=_end_us(change, ttl_us))

            return records.entry(signed.once(change, call, act), new.value)

        return self._write(work)

    def increment(
        self,
        namespace: str,
        key: str,
        amount: int = 1,
        *,
        ttl_sec: float | None = None,
        agent_id: str | None = None,
        lease: Lease | Claim | None = None,
        request_id: str | None = None,
    ) -> Entry:
        """Add to a whole number, which is 0 when it is missing; without a `ttl_sec` it keeps the one it has.

        Raises:
            WrongKind: the entry is no whole number.
            LeaseLost: the lease is.
        """
        signed = _signed(namespace, key, agent_id, lease)
        more = limits.integer("amount", amount, -limits.INTEGER - 1, limits.INTEGER)
        ttl_us = _ttl_us(ttl_sec)
        call = signed.request(request_id, "increment_entry", amount=more, ttl_us=ttl_us)
        return self._grow(
            signed,
            call,
            lambda change, author: blackboard.increment(change, signed.place, author, more, _end_us(change, ttl_us)),
        )

    def append(
        self,
        namespace: str,
        key: str,
        item: Json,
        *,
        ttl_sec: float | None = None,
        agent_id: str | None = None,
        lease: Lease | Claim | None = None,
        request_id: str | None = None,
    ) -> Entry:
        """Add an item to a list, which is empty when it is missing; without a `ttl_sec` it keeps the one it has.

        With a request_id the whole list is kept beside it for a day, since that was the answer.

        Raises:
            WrongKind: the entry is no list.
            LeaseLost: the lease is.
        """
        signed = _signed(namespace, key, agent_id, lease)
        text = limits.json_text("item", [item], limits.ENTRY_BYTES)[1:-1]
        ttl_us = _ttl_us(ttl_sec)
        call = signed.request(request_id, "append_entry", item=text, ttl_us=ttl_us)
        return self._grow(
            signed,
            call,
            lambda change, author: blackboard.append(change, signed.place, author, text, _end_us(change, ttl_us)),
        )

    def delete(
        self,
        namespace: str,
        key: str,
        *,
        if_version: int | None = None,
        agent_id: str | None = None,
        lease: Lease | Claim | None = None,
        request_id: str | None = None,
    ) -> bool:
        """Take an entry away; false when it is missing.

        Raises:
            VersionConflict: it is at another version than `if_version`.
            LeaseLost: the lease is.
        """
        signed = _signed(namespace, key, agent_id, lease)
        expected = _version(if_version)
        call = signed.request(request_id, "delete_entry", if_version=expected)

        def work(change: Change) -> bool:
            def act(author: Author) -> bool | None:
                return blackboard.delete(change, signed.place, author, expected) or None

            return bool(signed.once(change, call, act))

        return self._write(work)

    def _grow(self, signed: Signed, call: Request | None, work: Callable[[Change, Author], dict[str, Any]]) -> Entry:
        def run(change: Change) -> Entry:
            facts = signed.once(change, call, lambda author: work(change, author))
            return records.entry(facts, decode(facts["body"]))

        return self._write(run)


class Remembering(Verbs):
    """The way to the blackboard."""

    @cached_property
    def blackboard(self) -> Blackboard:
        """The entries of this board."""
        return Blackboard(self._store, self._write)


def _place(namespace: str, key: str) -> Place:
    return Place(limits.namespace("namespace", namespace), limits.name("key", key, limits.KEY))


def _digest(new: Content) -> str | None:
    return new.body if new.data is None else hashlib.sha256(new.data).hexdigest()


def _signed(namespace: str, key: str, agent_id: str | None, lease: Lease | Claim | None) -> Signed:
    agent = None if agent_id is None else limits.name("agent_id", agent_id)
    return Signed(_place(namespace, key), agent, None if lease is None else lease_of(lease))


def _ttl_us(ttl_sec: float | None) -> int | None:
    return None if ttl_sec is None else limits.duration_us("ttl_sec", ttl_sec, limits.TTL_SEC)


def _version(if_version: int | None) -> int | None:
    return None if if_version is None else limits.integer("if_version", if_version, 0, limits.INTEGER)


def _end_us(change: Change, ttl_us: int | None) -> int | None:
    return None if ttl_us is None else change.now + ttl_us
