"""The SQLite engine: one writer connection, a few readers, the gate, the checkpoints, the waiters.

apsw and not the standard `sqlite3`: it bundles a current SQLite (the system library of many Pythons still has the
WAL-reset corruption bug fixed in 3.51.3) and is faster. There is one SQLite library in the process: a second one, or
anything that opens the board's files by itself, would drop SQLite's locks when it closes them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw

from agentmesh.cell import CellClock
from agentmesh.clock import Patience, system_chance
from agentmesh.errors import BoardClosed, BoardReplaced, Busy, ForkedBoard, OnTestClock, OutcomeUnknown, StoreError
from agentmesh.loading import loading
from agentmesh.store import drafts, holders, migrate
from agentmesh.store.base import Alarm, Progress, StoreOptions, Waiter
from agentmesh.store.checkpoints import Checkpointer
from agentmesh.store.files import GATE, BoardFiles, refuse_other_log
from agentmesh.store.gate import Gate
from agentmesh.store.observations import trouble
from agentmesh.store.parking import ClockedAlarm, ClockedWaiter
from agentmesh.store.sqlite_copy import Copying
from agentmesh.store.sqlite_errors import busy, translated, typed
from agentmesh.store.sqlite_open import ENGINE, fact, locate, meta, open_connection, synchronous
from agentmesh.store.sqlite_texts import UNREADABLE, refuse_damage
from agentmesh.store.sqlite_transaction import SqliteTransaction, statements
from agentmesh.store.sqlite_upgrade import bring_up_to_date
from agentmesh.store.timing import FACT, timing
from agentmesh.store.turn import Turn
from agentmesh.store.waiting import Alarm as RealAlarm, Berth, SleepingWaiter, berth_folder
from agentmesh.upkeep import Backup, Observation

T = TypeVar("T")

UNKNOWN = -1
"""What stands for a setting of a connection while it is being changed."""


class SqliteStore:
    """A board in one SQLite file. Thread-safe; refuses use in a forked child and on a file that was replaced."""

    name = "sqlite"
    schema = migrate.newest(ENGINE)

    def __init__(self, path: Path, options: StoreOptions) -> None:
        self.options = options
        self.chance = options.chance
        self.statements = statements()
        self.columns: dict[str, tuple[str, ...]] = {}
        with translated(path):
            self.path = locate(path, options)
            gate = Path(f"{self.path}{GATE}")
            refuse_other_log(self.path)
            self._writer = open_connection(self.path, options)
            try:
                self._timing = timing(self.path, options.clock, turned=fact(self._writer, FACT) is not None)
                if options.upgrade:
                    bring_up_to_date(self._writer, self.path, options, self._timing.clock)
                place = berth_folder(meta(self._writer, "board_id"), self.path.stat().st_ino)
                self._gate = Gate(gate)  # only now: nothing appears beside a file that is not a board
                self._gate.record(self.path)
                self._files = BoardFiles(self.path)
            except BaseException:
                self._writer.close()
                raise
        self.clock = self._timing.clock
        self.monotonic = self._timing.monotonic
        self.on_test_clock = self._timing.turned
        self.writes = self._timing.writes
        self._transaction = SqliteTransaction(self, self._writer)
        self._pid = os.getpid()
        self._turn = Turn()
        self._watching = threading.Lock()
        self._readers: deque[SqliteTransaction] = deque()
        self._watcher: apsw.Connection | None = None
        self._waiters: set[SleepingWaiter] = set()
        self._closed = False
        self._allowed = UNKNOWN
        self._synchronous = synchronous(options)
        self._log = Checkpointer(gate, lambda: open_connection(self.path, options), self._reached)
        self._writer.set_wal_hook(self._log.committed)
        berth = Berth(place) if place else None
        self._berth = berth if berth and berth.usable() else None

    def write(self, work: Callable[[SqliteTransaction], T], *, synced: bool = True) -> T:
        """Run `work` in a write transaction; its effects are durable when this returns, of one not `synced` later.

        The log is written in order, and a sync is of all of it: whatever commits with one, in any process, takes those
        before it along, and so does a checkpoint.

        Whatever raises, and wherever, the transaction, the gate and the process lock are let go. What lets go can
        itself be interrupted, by one exception: hence it is called twice.
        """
        self._ready("transaction")
        if not self.writes:
            raise self.refusal()
        if self._turn.mine:
            raise Busy(f"This thread is in a write on the board {self.path} already, which has to end first.")
        try:
            try:
                result = self._write(work, Patience(self.options.busy_timeout_us), synced=synced)
            finally:
                self._end_write()
        except apsw.Error as error:
            raise self._typed(error) from error
        except UNREADABLE as error:
            self._refuse_damage(error)
            raise
        finally:
            try:
                self._end_write()
            finally:
                self._turn.free()
        self._reached("committed")
        return result

    def _write(self, work: Callable[[SqliteTransaction], T], patience: Patience, *, synced: bool) -> T:
        """Take the process lock, the gate and SQLite's lock, in this order and from one patience; run `work`."""
        if not self._turn.take(patience):
            raise Busy(f"The board {self.path} was busy with other threads of this process for too long.")
        if self._closed:
            raise BoardClosed("The board is closed.")
        if self.options.gated:
            self._gate.enter(patience.left_sec / 2, own=self._log.passing)
        self._allow(patience.left_sec)
        self._sync(synchronous(self.options, synced=synced))
        result = self._transact(work)
        self._log.relieve(self._writer)
        return result

    def _end_write(self) -> None:
        """Let go of what the calling thread still has of a write; asked of each thing itself, not of a flag.

        The lock of the process comes last: as long as the thread has it, there may be more to let go of.
        """
        if not self._turn.mine:
            return
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")
        finally:
            # The thread that shortens the log stands in the same queue: it is not made to sit out slices.
            self._gate.leave(at_once=self._log.needs_turn(contended=self._gate.contended))
        if self._closed:
            self._shut()
        self._turn.free()

    def refusal(self) -> StoreError:
        """Why nothing is written here, where `writes` is false."""
        return OnTestClock(f"The board {self.path} goes by a test's clock, which was not given.")

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run `work` on one snapshot."""
        self._ready("transaction")
        readers: list[SqliteTransaction] = []
        try:
            try:
                self._borrow(readers)
                return self._read(readers[0], work)
            finally:
                self._give_back(readers)
        except apsw.Error as error:
            raise self._typed(error) from error
        except UNREADABLE as error:
            self._refuse_damage(error)
            raise
        finally:
            self._give_back(readers)

    def _read(self, reader: SqliteTransaction, work: Callable[[SqliteTransaction], T]) -> T:
        reader.cursor.execute("BEGIN")
        reader.now = self.clock.now_us()
        reader.refuse_newer()
        return work(reader)

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
        drafts.clear(self.path.parent)
        return Copying(self, path, progress, self._reached).run()

    def examine(self, *, deep: bool = False) -> list[Observation]:
        """What SQLite and the system say of the board; `deep` reads every page."""
        with loading():
            from agentmesh.store import sqlite_examine as doctor  # noqa: PLC0415 - no other call needs what it imports

        self._ready()
        found = [*doctor.library(), *doctor.outside(self.path, self.options)]
        if self._berth:
            found.append(Observation("waiters", self._berth.waiting()))
        try:
            found.extend(self.read(lambda tx: list(doctor.inside(tx.connection, self.options))))
            if deep:
                found.extend(self.read(lambda tx: list(doctor.deep(tx.connection, self.path))))
        except StoreError as error:
            found.append(trouble(error))
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
            copy = folder / "copy.db"
            at_us = Copying(self, copy, progress, self._reached).draft()
            try:
                with contextlib.closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
                    connection.execute("BEGIN")
                    tx = SqliteTransaction(self, connection)
                    tx.now = at_us
                    try:
                        return work(tx)
                    except UNREADABLE as error:
                        refuse_damage(connection, self.path, error)
                        raise
            except apsw.Error as error:
                raise typed(error, self.path) from error

    def waiter(self, *, for_tasks: bool) -> Waiter:
        """Enter the queue of those who wait for ready tasks, or, if not `for_tasks`, wait for any commit at all."""
        self._ready()
        berth = self._berth if for_tasks else None  # a reader of history in the queue would swallow pokes
        with translated(self.path):  # it needs descriptors of its own
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
        """Close every connection. Closing twice is allowed.

        A write under way ends first, as long as a call waits for other writers. One that takes longer closes the
        connections itself when it ends, so this returns in any case.
        """
        if os.getpid() != self._pid:
            return  # these are the parent's connections, and its locks
        self._closed = True
        self.wake_own()
        if self._turn.mine:
            return  # called inside of a write, which closes when it ends
        try:
            if self._turn.take(Patience(self.options.busy_timeout_us)):
                self._shut()
        finally:
            self._turn.free()

    def _shut(self) -> None:
        """Close whatever is still open; the caller has the process lock."""
        self._log.close()
        if not self._files.same():
            self._rescue()
        self._close(self._writer)
        while self._readers:
            self._close(self._readers.popleft().connection)
        with self._watching:
            if self._watcher is not None:
                self._close(self._watcher)
                self._watcher = None
        if self._berth:
            self._berth.close()
        self._gate.close()
        if self._timing.own and isinstance(self.clock, CellClock):
            self.clock.close()

    def _close(self, connection: apsw.Connection) -> None:
        """Close a connection; where a file of the board was replaced, without the checkpoint of the last to close.

        Its log, or its index of the log, would be another than that of the newcomers.
        """
        if not self._files.same():
            with contextlib.suppress(apsw.ConnectionClosedError):
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

    def _rescue(self) -> None:
        """Copy the log into the board file where the log or its index was deleted and no process has made another.

        The commits in a deleted log are visible only to those who have it open.
        """
        with contextlib.suppress(apsw.Error, OSError):  # the caller hears of the deleted file in any case
            changed = self._files.changed()
            if "" not in changed and changed.keys() - {GATE} and not any(changed.values()):
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _allow(self, left_sec: float) -> None:
        """Let SQLite wait for its lock as long as this call has left; told only when it is another time by a tenth."""
        allowed = int(left_sec * 1000)
        if not 0.9 * self._allowed <= allowed <= self._allowed:
            self._allowed = UNKNOWN
            self._writer.set_busy_timeout(allowed)
            self._allowed = allowed

    def _sync(self, level: int) -> None:
        """Have SQLite sync commits so, which it lets be changed only between transactions; told when it is another."""
        if level != self._synchronous:
            self._synchronous = UNKNOWN  # if this is interrupted, it is set again
            self._writer.pragma("synchronous", level)
            self._synchronous = level

    def _transact(self, work: Callable[[SqliteTransaction], T]) -> T:
        self._reached("gate")
        writer = self._transaction
        writer.cursor.execute("BEGIN IMMEDIATE")
        writer.refuse_newer()
        self._reached("begin")
        writer.now = self.clock.now_us()
        result = work(writer)
        self._reached("commit")
        try:
            writer.cursor.execute("COMMIT")
        except apsw.FullError:
            raise  # the last page of the commit, which makes it one, was not written
        except apsw.Error as error:
            raise OutcomeUnknown(f"The commit on the board {self.path} failed: {error}.") from error
        return result

    def _borrow(self, into: list[SqliteTransaction]) -> None:
        """Put a reader from the shelf, or a new one, into a list; a context manager would cost each read 2 us."""
        try:
            into.append(self._readers.popleft())
        except IndexError:
            with translated(self.path):
                into.append(SqliteTransaction(self, open_connection(self.path, self.options)))

    def _give_back(self, readers: list[SqliteTransaction]) -> None:
        """End the reader's transaction and put it on the shelf; nothing to do for an empty list."""
        for reader in readers:
            if reader.connection.in_transaction:  # some errors have ended it already
                reader.cursor.execute("COMMIT")
            self._readers.append(reader)
        readers.clear()
        while self._closed and self._readers:
            self._readers.popleft().connection.close()

    def _refuse_damage(self, error: BaseException) -> None:
        """Raise `Corrupt` if it was a damaged row that led to an error of Python's."""
        with translated(self.path), self._reader() as connection:
            refuse_damage(connection, self.path, error)

    @contextlib.contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """A folder of this user's own on the board's disk, where there is room for a board; it goes in the end."""
        drafts.clear(self.path.parent)
        with contextlib.ExitStack() as stack:
            with translated(self.path):
                folder = stack.enter_context(drafts.folder(self.path, system_chance()))
            yield folder

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        readers: list[SqliteTransaction] = []
        try:
            self._borrow(readers)
            yield readers[0].connection
        finally:
            self._give_back(readers)

    def _sleeper(self, berth: Berth | None) -> SleepingWaiter:
        if isinstance(self.clock, CellClock):
            return ClockedWaiter(berth, self.version, self._waiters.discard, clock=self.clock)
        return SleepingWaiter(berth, self.version, self._waiters.discard)

    def version(self) -> int:
        """A number that changes whenever anything is committed to the file by any connection."""
        self._ready()
        with translated(self.path), self._watching:
            if self._watcher is None:
                self._watcher = open_connection(self.path, self.options)
            return int(self._watcher.pragma("data_version"))

    def _ready(self, point: str | None = None) -> None:
        if os.getpid() != self._pid:
            raise ForkedBoard("The board was opened before this process was forked.")
        if self._closed:
            raise BoardClosed("The board is closed.")
        if not self._files.same():
            self._look_again()
        if point:
            self._reached(point)

    def _look_again(self) -> None:
        """A file of the board is another than before: refuse to go on, or queue at the new gate."""
        with translated(self.path):
            changed = self._files.changed()
            if self._turn.take(Patience(0)):  # else the next call does it
                try:
                    if changed.keys() == {GATE}:
                        self._change_gate()
                    else:
                        self._rescue()
                finally:
                    self._turn.free()
        for end in (end for end in changed if end != GATE):
            raise BoardReplaced(f"The file {self.path}{end} was deleted or replaced while the board was open.")

    def _change_gate(self) -> None:
        """Go over to the gate that has the name now, at which newcomers queue: nothing but fairness depends on it."""
        self._gate.close()
        self._gate = Gate(Path(f"{self.path}{GATE}"))
        self._gate.record(self.path)
        self._files = BoardFiles(self.path)

    def _typed(self, error: apsw.Error) -> StoreError:
        """The store error for a driver error; a busy one names the holder of the lock."""
        if isinstance(error, apsw.BusyError):
            return busy(self.path, holders.of_write_lock(self.path))
        return typed(error, self.path)

    def _reached(self, point: str) -> None:
        if self.options.probe:
            self.options.probe.reached(point)
