"""The SQLite engine: one writer connection, a few readers, the gate, the checkpoints, the waiters.

apsw and not the standard `sqlite3`: it bundles a current SQLite (the system library of many Pythons still has the
WAL-reset corruption bug fixed in 3.51.3) and is faster. There is one SQLite library in the process: a second one, or
anything that opens the board's files by itself, would drop SQLite's locks when it closes them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import apsw

from agentmesh.cell import CellClock
from agentmesh.clock import Patience
from agentmesh.errors import BoardClosed, BoardReplaced, Busy, ForkedBoard, OnTestClock
from agentmesh.model import Micros
from agentmesh.store import migrate
from agentmesh.store.base import Alarm, Progress, Row, StoreOptions, Value, Waiter
from agentmesh.store.checkpoints import Checkpointer
from agentmesh.store.gate import Gate
from agentmesh.store.observations import trouble
from agentmesh.store.parking import ClockedAlarm, ClockedWaiter
from agentmesh.store.sqlite_copy import Copying
from agentmesh.store.sqlite_errors import translated, typed
from agentmesh.store.sqlite_open import ENGINE, fact, locate, meta, open_connection, synchronous
from agentmesh.store.statements import in_dialect, in_order
from agentmesh.store.timing import FACT, timing
from agentmesh.store.waiting import Alarm as RealAlarm, Berth, SleepingWaiter, berth_folder
from agentmesh.upkeep import Backup, Observation

T = TypeVar("T")

DIALECT = {"skip_locked": ""}
LOCKS = "lock_"
"""Statements of this name take row locks. A SQLite writer is alone: they are nothing to it."""


@cache
def _statements() -> Mapping[str, str]:
    """The statements as SQLite reads them; the same for every board, and a process may open thousands."""
    return {name: "" if name.startswith(LOCKS) else sql for name, sql in in_dialect(DIALECT).items()}


class SqliteTransaction:
    """Named statements on one connection, each run to its end before the next.

    It serves one transaction after another, and so does its cursor: a new one for each statement costs 0.4 us.
    """

    __slots__ = ("_columns", "_probe", "_statements", "connection", "cursor", "now", "on_test_clock")

    def __init__(self, store: SqliteStore, connection: apsw.Connection) -> None:
        self.connection = connection
        self.cursor = connection.cursor()
        self.now = Micros(0)
        self.on_test_clock = store.on_test_clock
        self._statements = store.statements
        self._columns = store.columns
        self._probe = store.options.probe

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


class SqliteStore:
    """A board in one SQLite file. Thread-safe; refuses use in a forked child and on a file that was replaced."""

    name = "sqlite"
    schema = migrate.newest(ENGINE)

    def __init__(self, path: Path, options: StoreOptions) -> None:
        self.options = options
        self.chance = options.chance
        self.statements = _statements()
        self.columns: dict[str, tuple[str, ...]] = {}
        with translated(path):
            self.path = locate(path, options)
            gate = Path(f"{self.path}.gate")
            self._writer = open_connection(self.path, options)
            try:
                self._timing = timing(self.path, options.clock, turned=fact(self._writer, FACT) is not None)
                place = berth_folder(meta(self._writer, "board_id"), self.path.stat().st_ino)
                self._gate = Gate(gate)  # only now: nothing appears beside a file that is not a board
            except BaseException:
                self._writer.close()
                raise
        self.clock = self._timing.clock
        self.on_test_clock = self._timing.turned
        self.writes = self._timing.writes
        self._transaction = SqliteTransaction(self, self._writer)
        self._name = str(self.path)  # to stat a Path costs 1 us more
        self._pid = os.getpid()
        self._file = self._identity()
        self._turn = threading.Lock()
        self._shelf = threading.Lock()
        self._readers: list[SqliteTransaction] = []
        self._watcher: apsw.Connection | None = None
        self._waiters: set[SleepingWaiter] = set()
        self._closed = False
        self._allowed = -1
        self._synchronous = synchronous(options)
        self._log = Checkpointer(gate, lambda: open_connection(self.path, options), self._reached)
        self._writer.set_wal_hook(self._log.committed)
        berth = Berth(place) if place else None
        self._berth = berth if berth and berth.usable() else None

    def write(self, work: Callable[[SqliteTransaction], T], *, synced: bool = True) -> T:
        """Run `work` in a write transaction; its effects are durable when this returns, of one not `synced` later.

        The log is written in order, and a sync is of all of it: whatever commits with one, in any process, takes those
        before it along, and so does a checkpoint.
        """
        self._ready("transaction")
        if not self.writes:
            raise OnTestClock(f"The board {self.path} goes by a test's clock, which was not given.")
        patience = Patience(self.options.busy_timeout_us)  # one for all three locks
        if not self._turn.acquire(blocking=False) and not self._turn.acquire(timeout=patience.left_sec):
            raise Busy(f"The board {self.path} was busy with other threads of this process for too long.")
        try:
            if self._closed:
                raise BoardClosed("The board is closed.")
            entered = self.options.gated and self._gate.enter(patience.left_sec / 2, own=self._log.passing)
            try:
                self._allow(patience.left_sec)
                self._sync(synchronous(self.options, synced=synced))
                result = self._transact(work)
                self._log.relieve(self._writer)
            finally:
                if entered:
                    # The thread that shortens the log stands in the same queue: it is not made to sit out slices.
                    self._gate.leave(at_once=self._log.needs_turn(contended=self._gate.contended))
            self._reached("committed")
        except apsw.Error as error:
            raise typed(error, self.path) from error
        finally:
            self._turn.release()
        return result

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run `work` on one snapshot."""
        self._ready("transaction")
        try:
            reader = self._borrow()
            try:
                try:
                    reader.cursor.execute("BEGIN")
                    reader.now = self.clock.now_us()
                    return work(reader)
                finally:
                    if reader.connection.in_transaction:  # some errors have ended it already
                        reader.cursor.execute("COMMIT")
            finally:
                self._give_back(reader)
        except apsw.Error as error:
            raise typed(error, self.path) from error

    def copy_to(self, path: Path, progress: Progress | None = None) -> Backup:
        """Write one snapshot of the board into a new file: verified, durable, closed, this user's own.

        Others write on meanwhile; the log keeps what they write until the last page is copied.

        Args:
            path: a file that does not exist, in a folder that does.
            progress: told after each stretch; it gives up by raising.

        Raises:
            BoardExists: the file, or a log of its name, is there.
            InvalidArgument: its folder is not there, or the board needs the name for itself.
            UnsupportedFileSystem: no board can live in that folder.
            StoreError: the copy could not be written, or the board is damaged; then there is no file.
        """
        return Copying(self, path, progress, self._reached).run()

    def examine(self, *, deep: bool = False) -> list[Observation]:
        """What SQLite and the system say of the board; `deep` reads every page."""
        from agentmesh.store import sqlite_examine as doctor  # noqa: PLC0415 - no other call needs what it imports

        self._ready()
        found = [*doctor.library(), *doctor.outside(self.path, self.options)]
        if self._berth:
            found.append(Observation("waiters", self._berth.waiting()))
        try:
            with self._reader() as connection:
                found.extend(doctor.inside(connection, self.options))
                if deep:
                    found.append(doctor.quick_check(connection))
        except apsw.Error as error:
            found.append(trouble(typed(error, self.path)))
        return found

    def read_apart(self, work: Callable[[SqliteTransaction], T], progress: Progress | None = None) -> T:
        """Run `work`, once, on one snapshot for as long as it takes: it reads a copy, which is gone afterwards.

        A long read of the board itself would keep the log from beginning anew, and others write on.

        Args:
            work: reads; its transaction's instant is that of the copy.
            progress: told how far the copy is.
        """
        self._ready("transaction")
        with self._own_folder() as folder:
            copy = Path(folder) / "copy.db"
            at_us = Copying(self, copy, progress, self._reached).draft()
            try:
                with contextlib.closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                    connection.execute("BEGIN")
                    tx = SqliteTransaction(self, connection)
                    tx.now = at_us
                    return work(tx)
            except apsw.Error as error:
                raise typed(error, self.path) from error

    def waiter(self, *, for_tasks: bool) -> Waiter:
        """Enter the queue of those who wait for ready tasks, or, if not `for_tasks`, wait for any commit at all."""
        self._ready()
        berth = self._berth if for_tasks else None  # a reader of history in the queue would swallow pokes
        waiter = self._sleeper(berth)
        self._waiters.add(waiter)
        return waiter

    def alarm(self) -> Alarm:
        """A sleep on the board's clock, for a timer."""
        return ClockedAlarm(self.clock) if isinstance(self.clock, CellClock) else RealAlarm()

    def poke(self, count: int) -> None:
        """Wake up to `count` waiters, chosen at random."""
        self._reached("poke")
        if self._berth:
            self._berth.poke(count)

    def wake_own(self) -> None:
        """Wake every waiter of this store object."""
        for waiter in tuple(self._waiters):
            waiter.ring()

    def close(self) -> None:
        """Close every connection; waits for a write under way. Closing twice is allowed."""
        with self._turn:
            if self._closed:
                return
            self._closed = True
            self.wake_own()
            if os.getpid() != self._pid:
                return  # these are the parent's connections
            self._log.close()
            with self._shelf:
                for connection in (*(reader.connection for reader in self._readers), self._watcher, self._writer):
                    if connection is not None:
                        connection.close()
                self._readers.clear()
                self._watcher = None
            if self._berth:
                self._berth.close()
            self._gate.close()
            if self._timing.own and isinstance(self.clock, CellClock):
                self.clock.close()

    def _allow(self, left_sec: float) -> None:
        """Let SQLite wait for its lock as long as this call has left; told only when it is another time by a tenth."""
        allowed = int(left_sec * 1000)
        if not 0.9 * self._allowed <= allowed <= self._allowed:
            self._writer.set_busy_timeout(allowed)
            self._allowed = allowed

    def _sync(self, level: int) -> None:
        """Have SQLite sync commits so, which it lets be changed only between transactions; told when it is another."""
        if level != self._synchronous:
            self._writer.pragma("synchronous", level)
            self._synchronous = level

    def _transact(self, work: Callable[[SqliteTransaction], T]) -> T:
        self._reached("gate")
        writer = self._transaction
        writer.cursor.execute("BEGIN IMMEDIATE")
        try:
            self._reached("begin")
            writer.now = self.clock.now_us()
            result = work(writer)
            self._reached("commit")
            writer.cursor.execute("COMMIT")
        except BaseException:
            if writer.connection.in_transaction:  # a full disk has rolled back already
                writer.cursor.execute("ROLLBACK")
            raise
        return result

    def _borrow(self) -> SqliteTransaction:
        """A reader from the shelf, or a new one; as a pair of calls, for a context manager costs each read 2 us."""
        with self._shelf:
            if self._readers:
                return self._readers.pop()
        with translated(self.path):
            return SqliteTransaction(self, open_connection(self.path, self.options))

    def _give_back(self, reader: SqliteTransaction) -> None:
        with self._shelf:
            if self._closed:
                reader.connection.close()
            else:
                self._readers.append(reader)

    def _own_folder(self) -> contextlib.AbstractContextManager[str]:
        """A folder of this user's own on the board's disk, where there is room for a board; it goes in the end."""
        from tempfile import TemporaryDirectory  # noqa: PLC0415 - it costs every start 5 ms, and few need it

        with translated(self.path):
            return TemporaryDirectory(prefix=f".{self.path.name}.", dir=self.path.parent)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        reader = self._borrow()
        try:
            yield reader.connection
        finally:
            self._give_back(reader)

    def _sleeper(self, berth: Berth | None) -> SleepingWaiter:
        if isinstance(self.clock, CellClock):
            return ClockedWaiter(berth, self.version, self._waiters.discard, clock=self.clock)
        return SleepingWaiter(berth, self.version, self._waiters.discard)

    def version(self) -> int:
        """A number that changes whenever anything is committed to the file by any connection."""
        self._ready()
        with translated(self.path), self._shelf:
            if self._watcher is None:
                self._watcher = open_connection(self.path, self.options)
            return int(self._watcher.pragma("data_version"))

    def _ready(self, point: str | None = None) -> None:
        if os.getpid() != self._pid:
            raise ForkedBoard("The board was opened before this process was forked.")
        if self._closed:
            raise BoardClosed("The board is closed.")
        if self._identity() != self._file:
            raise BoardReplaced(f"The file {self.path} was deleted or replaced while the board was open.")
        if point:
            self._reached(point)

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self._name)  # noqa: PTH116 - on the way of every call; Path.stat costs twice as much
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def _reached(self, point: str) -> None:
        if self.options.probe:
            self.options.probe.reached(point)
