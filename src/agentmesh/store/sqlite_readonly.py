"""A board that this user may only read: nothing is written to it, and nothing is made beside it.

While somebody has the board open, or a log was left, SQLite reads it as it always does; only that it may not create the
log or its index. At rest there is neither, and SQLite can read such a file only as `immutable`: without locks, as if it
never changed. It may change all the same. So a read at rest counts only if the file was not touched meanwhile; else it
is done again, and what it raised is forgotten.

A connection lives as long as its read: an open one would keep the last writer from copying the log into the file.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from agentmesh.cell import CellClock
from agentmesh.clock import SystemClock
from agentmesh.errors import Busy, ReadOnly, StoreError
from agentmesh.store.access import may, refuses_reading, refuses_writing
from agentmesh.store.base import StoreOptions
from agentmesh.store.files import BoardFiles
from agentmesh.store.sqlite import SqliteStore
from agentmesh.store.sqlite_errors import translated, typed
from agentmesh.store.sqlite_open import fact, identify, locate
from agentmesh.store.sqlite_texts import UNREADABLE
from agentmesh.store.sqlite_transaction import SqliteTransaction, statements
from agentmesh.store.timing import FACT, Timing, timing
from agentmesh.store.turn import Turn
from agentmesh.upkeep import Observation

T = TypeVar("T")

ATTEMPTS: Final = 20
"""How often a read is done at most; each further time a writer has come or gone meanwhile."""
TICK_NS: Final = 20_000_000
"""Longer than the step of the clock by which a system stamps files: two writes in one step leave the same stamp."""
FILE: Final = ("",)
"""What stays the same while such a board is open: its log comes and goes with those who write."""
READER: Final = "agentmesh-reader"


class Stamp(NamedTuple):
    """What changes whenever a file is written."""

    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class ReadOnlyStore(SqliteStore):
    """A board in a SQLite file that this user may read and not write. Its reads come one at a time."""

    _one = threading.RLock()
    """For all boards of the process: to close a file that was read without locks drops those that others have on it."""

    def __init__(self, path: Path, options: StoreOptions, refused: ReadOnly) -> None:
        self.options = options
        self.chance = options.chance
        self.statements, self.columns = statements(), {}
        self._pid = os.getpid()
        self._turn = Turn()
        self._closed = False
        self._waiters = set()
        self._berth = None
        self._changes = 0
        self._seen: tuple[Stamp | None, ...] = ()
        self.on_test_clock = self.writes = False
        self.clock = options.clock or SystemClock()
        with translated(path):
            self.path = locate(path, replace(options, create=False))
            self._name = str(self.path)
            self._files = BoardFiles(self.path, FILE)
            problem = refuses_writing(self.path)
            if problem is None:
                raise refused  # something else than a right is missing
            self._refused = f"The board {self.path} can only be read here: {problem}."
            self._timing = self._attempt(self._admitted)
        self.monotonic = self._timing.monotonic
        self.on_test_clock = self._timing.turned

    def refusal(self) -> StoreError:
        """The file, the folder or the mount that may not be written."""
        return ReadOnly(self._refused)

    def read(self, work: Callable[[SqliteTransaction], T]) -> T:
        """Run `work` on one snapshot, again if a writer came or went meanwhile.

        Raises:
            ReadOnly: the log cannot be read without writing.
            Busy: writers come and go all the time.
        """

        def known(tx: SqliteTransaction) -> T:
            tx.refuse_newer()
            return work(tx)

        return self._attempt(known)

    def _attempt(self, work: Callable[[SqliteTransaction], T]) -> T:
        self._ready("transaction")
        for _ in range(ATTEMPTS):
            stamp = self._at_rest()
            try:
                with self._one:
                    result = self._read_once(work, at_rest=stamp is not None)
            except apsw.Error as error:
                if self._counts(stamp, error):
                    raise self._told(error) from error
            except Exception as error:
                if self._counts(stamp, error):
                    if isinstance(error, UNREADABLE):
                        self._refuse_damage(error)
                    raise
            else:
                if self._counts(stamp):
                    return result
        if problem := refuses_reading(self.path):
            raise ReadOnly(f"The board {self.path} cannot be read: {problem}.")
        raise Busy(f"The board {self.path} was opened and closed by writers all the time.")

    def examine(self, *, deep: bool = False) -> list[Observation]:
        """What SQLite and the system say of the board, and that it cannot be written here."""
        refusal = self.refusal()
        access = Observation("write_access", refusal.message, "warning", refusal.hint)
        return [*super().examine(deep=deep), access]

    def version(self) -> int:
        """A number that changes whenever anything is committed: to the log or, where there is none, to the file."""
        self._ready()
        with translated(self.path):
            seen = tuple(_stamp(f"{self._name}{end}") for end in ("", "-wal"))
        young = any(stamp and not _old(stamp) for stamp in seen)
        if young or seen != self._seen:  # of a young stamp nobody can tell whether it is that of the last write
            self._seen = seen
            self._changes += 1
        return self._changes

    def close(self) -> None:
        """End the waits; there is nothing else to let go of."""
        self._closed = True
        if os.getpid() == self._pid:
            self.wake_own()

    def _read_once(self, work: Callable[[SqliteTransaction], T], *, at_rest: bool) -> T:
        with contextlib.closing(_connect(self.path, self.options, at_rest=at_rest)) as connection:
            reader = SqliteTransaction(self, connection)
            reader.cursor.execute("BEGIN")
            reader.now = self.clock.now_us()
            return work(reader)

    def _at_rest(self) -> Stamp | None:
        """The file's stamp if it holds all of the board and any further write would change the stamp; else None."""
        for _ in range(ATTEMPTS):
            stamp, log = _stamp(self._name), _stamp(f"{self._name}-wal")
            journal = _stamp(f"{self._name}-journal")
            if stamp is None or (journal and journal.size) or (log and (log.size or may(f"{self._name}-shm", os.R_OK))):
                break
            if _old(stamp):
                return stamp
            time.sleep(TICK_NS / 1e9)
        return None

    def _counts(self, stamp: Stamp | None, error: Exception | None = None) -> bool:
        """Whether a read that found the board at rest with this stamp, or not at rest, saw a state of the board.

        One that goes by the log does, unless the log, or its index, went away before it was opened.
        """
        if stamp is None:
            return not isinstance(error, apsw.CantOpenError | apsw.ReadOnlyError)
        return stamp == self._at_rest()

    def _admitted(self, tx: SqliteTransaction) -> Timing:
        """The board's clock, if its tables are those that this AgentMesh reads."""
        version = identify(tx.connection, self.path, create=False)
        if self.options.upgrade and version < self.schema:
            message = (
                f"The board {self.path} has schema {version}, and to upgrade it to {self.schema} means to write it."
            )
            raise ReadOnly(message, hint="Let a user who may write the board open it once with this AgentMesh.")
        turned = fact(tx.connection, FACT) is not None
        given = self.options.clock
        if isinstance(given, CellClock):
            return timing(self.path, given, turned=turned)
        return Timing(given or SystemClock(), writes=False)  # the cell of a test board is for those who may write it

    def _told(self, error: apsw.Error) -> StoreError:
        if isinstance(error, apsw.CantOpenError | apsw.PermissionsError) and (problem := refuses_reading(self.path)):
            return ReadOnly(f"The board {self.path} cannot be read: {problem}.")
        return typed(error, self.path)

    @contextlib.contextmanager
    def _own_folder(self) -> Iterator[Path]:
        """A folder of this user's own; none may be made beside the board."""
        with contextlib.ExitStack() as stack:
            with translated(self.path):
                folder = stack.enter_context(TemporaryDirectory(prefix="agentmesh-"))
            yield Path(folder)

    @contextlib.contextmanager
    def _reader(self) -> Iterator[apsw.Connection]:
        with contextlib.closing(_connect(self.path, self.options, at_rest=self._at_rest() is not None)) as connection:
            yield connection


def _free_in_child() -> None:
    ReadOnlyStore._one = threading.RLock()  # noqa: SLF001 - a thread that held it was not forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)


class _Reader(apsw.VFS):
    """The system's files, but a log that is not there is not created."""

    def __init__(self) -> None:
        self._system = apsw.vfs_names()[0]
        super().__init__(READER, self._system)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file; `flags` are read and written by SQLite."""
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            flags[0] &= ~apsw.SQLITE_OPEN_CREATE
        return apsw.VFSFile(self._system, name, flags)


@cache
def _reader() -> _Reader:
    return _Reader()


def _connect(path: Path, options: StoreOptions, *, at_rest: bool) -> apsw.Connection:
    """A connection that has read the file, and so has opened its log, if there is one."""
    _reader()
    wish = "immutable=1" if at_rest else "readonly_shm=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.as_uri()}?{wish}", flags=flags, vfs=READER)
    try:
        connection.config(
            apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1
        )  # it would ask for a lock that only a writer may have
        connection.set_busy_timeout(options.busy_timeout_us // 1000)
        connection.pragma("trusted_schema", 0)
        connection.pragma("mmap_size", 0)
        connection.pragma("schema_version")
    except BaseException:
        connection.close()
        raise
    return connection


def _stamp(name: str) -> Stamp | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - waiters ask twenty times a second
    except FileNotFoundError:
        return None
    return Stamp(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _old(stamp: Stamp) -> bool:
    """Whether a write from now on would give another stamp; one from the future does so, too."""
    age_ns = SystemClock().now_us() * 1000 - max(stamp.mtime_ns, stamp.ctime_ns)
    return not 0 <= age_ns < TICK_NS
