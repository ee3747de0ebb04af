"""The seam between the board and its engines: a transaction of four verbs, a store that runs work in one, a waiter.

An engine is small because all it does is run named statements. The same narrowness is what the test bench holds on
to: it hands in a clock, a source of chance and a `Probe`, and sees every step a board takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from agentmesh.clock import Chance, Clock, system_chance
from agentmesh.errors import StoreError
from agentmesh.model import Micros
from agentmesh.upkeep import Backup, Observation

T = TypeVar("T")
Value = int | str | bytes | None
Row = Mapping[str, Any]
"""A row by column name; the tables say what is in each column."""
Durability = Literal["full", "normal"]
Progress = Callable[[int, int], None]
"""Told how many pages have been copied, of how many; it gives up by raising."""

POINTS = ("transaction", "gate", "begin", "commit", "committed", "checkpoint", "poke")
"""The named points at which a store calls its probe, in the order in which a write passes them.

`transaction` comes before anything is taken (a scheduler may hold the caller there); `gate` with the gate held; `begin`
with the write lock held; `commit` before and `committed` after the commit; `checkpoint` and `poke` before those. Each
statement that runs inside is a point of its own, named `do:STATEMENT`.
"""
COPY_POINTS = ("copy", "verify", "link", "linked")
"""The same for a copy: before each stretch of pages, before the copy is verified, before and after it gets its name.

A board that is made by opening it passes `new:link` and `new:linked`.
"""

UPGRADE_POINTS = (*COPY_POINTS, "upgrade")
"""The same for an upgrade: those of the copy beside the board, then with the new tables there, before the commit."""

RESTORE_POINTS = ("copy", "verify", "aside", "log kept", "board kept", "cleared", "link", "linked")
"""The same for a restore: those of its copy, then around each step in which the old board moves away, then the name."""


class Probe(Protocol):
    """What a test hangs on a store: called at every point, free to block, raise or end the process there."""

    def reached(self, point: str) -> None:
        """The store is at `point`."""
        ...


class Transaction(Protocol):
    """An open transaction. Its clock is read once, after the write lock is held."""

    @property
    def now(self) -> Micros:
        """The one instant at which everything in this transaction happens."""
        ...

    @property
    def on_test_clock(self) -> bool:
        """Whether a test turns the board's clock; its history then tells more."""
        ...

    def execute(self, statement: str, /, **values: Value) -> int:
        """Run a named statement; the number of rows it changed."""
        ...

    def execute_many(self, statement: str, rows: Iterable[Mapping[str, Value]], /) -> int:
        """Run a named statement for each of many rows of values; the number of rows it changed."""
        ...

    def fetch_one(self, statement: str, /, **values: Value) -> Row | None:
        """Run a named statement; its first row."""
        ...

    def fetch_all(self, statement: str, /, **values: Value) -> list[Row]:
        """Run a named statement; all its rows, read to the end."""
        ...


class Waiter(Protocol):
    """A place in the queue of those who wait for ready tasks."""

    def wait(self, timeout_us: int) -> bool:
        """Sleep until poked or until the time is over; whether it was a poke."""
        ...

    def changed(self) -> bool:
        """Whether anything at all was committed on the board since the last call."""
        ...

    def pass_on(self) -> None:
        """Hand the last poke to a waiter that has not had it yet."""
        ...

    def close(self) -> None:
        """Leave the queue."""
        ...


class Alarm(Protocol):
    """The sleep of a timer in this process, on the board's clock."""

    def wait(self, timeout_us: int | None) -> None:
        """Sleep until the time is over or the alarm was rung; it may end early."""
        ...

    def ring(self) -> None:
        """End the sleep, from another thread."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Store(Protocol):
    """A board's engine. `work` may be run more than once: it must not touch anything but its transaction."""

    name: str
    schema: int
    clock: Clock
    monotonic: Clock
    """Measures lengths of time: waits and timers. It is real time, whatever `clock` says, except on a clock cell."""
    chance: Chance
    on_test_clock: bool
    writes: bool
    """False for a board that this user may only read, and for a test's board opened without the clock of its test."""

    def refusal(self) -> StoreError:
        """Why nothing is written here, where `writes` is false: what each write raises."""
        ...

    def write(self, work: Callable[[Transaction], T], *, synced: bool = True) -> T:
        """Run `work` in a write transaction; its effects are durable when this returns.

        Not `synced`, they survive the end of the process, but a power cut may take them back as long as no synced write
        has followed: for what nobody misses then.
        """
        ...

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one snapshot."""
        ...

    def read_apart(self, work: Callable[[Transaction], T], progress: Progress | None = None) -> T:
        """Run `work`, once, on one snapshot for as long as it takes: nothing on the board waits or grows meanwhile."""
        ...

    def copy_to(self, path: Path, progress: Progress | None = None) -> Backup:
        """Write one snapshot of the board into a new file: verified, durable, closed, this user's own."""
        ...

    def examine(self, *, deep: bool = False) -> list[Observation]:
        """What the engine sees of the board's health; `deep` reads every page."""
        ...

    def waiter(self, *, for_tasks: bool) -> Waiter:
        """Enter the queue of those who wait for ready tasks, or, if not `for_tasks`, wait for any commit at all."""
        ...

    def alarm(self) -> Alarm:
        """A sleep on the board's clock, for a timer."""
        ...

    def poke(self, count: int) -> None:
        """Wake up to `count` waiters, chosen at random; call it after the commit that made something ready."""
        ...

    def version(self) -> int:
        """A number that changes whenever anything is committed to the board, by whomever."""
        ...

    def wake_own(self) -> None:
        """Wake every waiter of this store object, in whatever thread it sleeps."""
        ...

    def close(self) -> None:
        """Let go of everything. Closing twice is allowed."""
        ...


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store is opened with; the defaults are those of production.

    `bulk` is for a file that nobody else sees yet and that is thrown away if anything fails: no log and no syncs.
    """

    create: bool = True
    upgrade: bool = True
    durability: Durability = "full"
    busy_timeout_us: int = 5_000_000
    gated: bool = True
    bulk: bool = False
    clock: Clock | None = None
    chance: Chance = field(default_factory=system_chance)
    probe: Probe | None = None
    mounts: Path = Path("/proc/mounts")
