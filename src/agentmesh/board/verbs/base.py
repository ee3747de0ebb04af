"""What every verb of a board stands on: an open store, and the ways in which a method becomes a transaction."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from agentmesh import limits
from agentmesh.board import leases, records
from agentmesh.board.capabilities import Catalogue
from agentmesh.board.change import Change
from agentmesh.board.claim import Claim
from agentmesh.board.lookup import task_record
from agentmesh.board.requests import Request, once
from agentmesh.board.specs import task_name
from agentmesh.clock import Chance, Clock
from agentmesh.errors import InvalidArgument
from agentmesh.model import Lease, Task
from agentmesh.store.base import Durability, Probe, Row, Store, StoreOptions, Transaction
from agentmesh.store.connect import connect

T = TypeVar("T")
POKES = 8
"""How many waiters are woken at most by one commit; each that finds nothing for it wakes another."""


class Writer(Protocol):
    """How a board runs a write."""

    def __call__(self, work: Callable[[Change], T], /) -> T:
        """Run `work` in a transaction."""
        ...


class Verbs:
    """An open board, and how its methods run."""

    def __init__(self, store: Store) -> None:
        """Serve a board from an open store; `Board.open` is the usual way."""
        self._store = store
        self._catalogue = Catalogue()
        self._secrets: OrderedDict[str, str] = OrderedDict()

    @classmethod
    def open(
        cls,
        target: str | os.PathLike[str],
        *,
        create: bool = True,
        durability: Durability = "full",
        busy_timeout_sec: float = 5.0,
        clock: Clock | None = None,
        chance: Chance | None = None,
        probe: Probe | None = None,
    ) -> Self:
        """Open a board, made new unless `create` is false; one that this user may only read is opened for reading.

        A board of an older schema is upgraded first, after a backup beside it; docs/upgrading.md says more.

        Args:
            target: the path of the board file.
            create: whether a missing board is created.
            durability: `full` survives power loss, all but the last heartbeats; with `normal` a power cut may drop the
                last commits.
            busy_timeout_sec: how long a call waits for other writers.
            clock: what tells the time; the system's by default.
            chance: where ids, secrets and jitter come from; the system's by default.
            probe: what a test hangs on the store.

        Raises:
            StoreError: it is not there, not a board, of a newer schema, on an unsupported file system, damaged, or of
                an older schema and there can be no backup.
        """
        limits.choice("durability", durability, ("full", "normal"))
        busy_us = limits.duration_us("busy_timeout_sec", busy_timeout_sec, (0, 3600))
        how: dict[str, Any] = {"create": create, "durability": durability, "busy_timeout_us": busy_us}
        return cls(connect(target, store_options(clock, chance, probe, **how)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the board; a call under way ends first, waits end at once."""
        self._store.close()

    @property
    def store(self) -> Store:
        """The engine beneath, for the test bench and for tools."""
        return self._store

    def _write(self, work: Callable[[Change], T], *, synced: bool = True) -> T:
        ready = 0

        def run(tx: Transaction) -> T:
            nonlocal ready
            change = Change(tx, self._store.chance)
            result = work(change)
            change.settle()
            ready = change.ready
            return result

        result = self._store.write(run, synced=synced)
        if ready > 0:
            self._store.poke(min(ready, POKES))
        return result

    def _once(self, agent_id: str, call: Request | None, task_id: str, work: Callable[[Change, str], object]) -> Task:
        """Do something to a task, at most once per request; the task as it then stands."""
        agent = limits.name("agent_id", agent_id)
        task_name("task_id", task_id)

        def run(change: Change) -> Task:
            def act() -> str:
                work(change, agent)
                return task_id

            once(change, agent, call, act)
            return task_record(change.tx, task_id)

        return self._write(run)

    def _held(self, named: Lease, call: Request | None, work: Callable[[Change, Row], Row]) -> Task:
        """Do something as the holder of an attempt, at most once per request; the task as it then stands."""

        def run(change: Change) -> Task:
            shown = leases.shown(change.tx, named)
            left: list[Row] = []

            def act() -> str:
                left.append(work(change, leases.holding(shown)))
                return named.task_id

            once(change, shown["agent_id"], call, act)
            return records.task(left[0]) if left else task_record(change.tx, named.task_id)

        return self._write(run)


def store_options(clock: Clock | None, chance: Chance | None, probe: Probe | None, **how: Any) -> StoreOptions:
    """How a store is opened; time and chance are the system's where they are not given."""
    given: dict[str, Any] = {
        name: source for name, source in (("clock", clock), ("chance", chance)) if source is not None
    }
    return StoreOptions(probe=probe, **how, **given)


def lease_of(lease: Lease | Claim) -> Lease:
    """The lease that a caller shows, as itself or as its claim.

    Raises:
        InvalidArgument: it is neither, or was put together from parts that no lease has.
    """
    found = lease.lease if isinstance(lease, Claim) else lease
    if not isinstance(found, Lease):
        raise InvalidArgument("lease", "must be the lease of a claim")
    task_name("lease", found.task_id)
    limits.integer("lease", found.fence, 1, limits.INTEGER)
    limits.name("lease", found.secret)
    return found
