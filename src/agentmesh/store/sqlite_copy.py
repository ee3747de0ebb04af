"""A copy of a board that others go on writing to: one snapshot, in one file, verified before it gets its name.

SQLite's backup makes it, page by page in one read transaction: steps of their own would begin anew at every commit of
another process. The log cannot be shortened meanwhile. As long as it stays within its mark the writers are left alone;
beyond it they wait at the gate until the last page is copied. With the gate held throughout, 225 MB made every writer
wait for up to 0.7 s; without it, four writers that do not sync made a log of 210 MB.

Until it is verified and synced, the copy has a name that says `unfinished`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import apsw

from agentmesh.clock import Chance
from agentmesh.errors import Corrupt, InvalidArgument, StoreError
from agentmesh.model import Micros
from agentmesh.store.base import Progress, StoreOptions
from agentmesh.store.checkpoints import GATE_SEC, LIMIT_PAGES
from agentmesh.store.gate import Gate
from agentmesh.store.sqlite_errors import translated, typed
from agentmesh.store.sqlite_open import meta
from agentmesh.store.sqlite_texts import damaged_texts
from agentmesh.store.statements import shared_statements
from agentmesh.store.unfinished import SIDE_FILES, free_place, give_name, resemble, unfinished
from agentmesh.upkeep import Backup

T = TypeVar("T")

PAGE_BYTES = 4096
STRETCH_PAGES = 2000
"""8 MB are copied, then synced: with one sync at the end, commits of others waited up to 0.3 s instead of 0.12 s."""
DRAFT_PAGES = 250
"""Without syncs a stretch costs nothing by itself: the shorter, the sooner it is seen that the log is too long."""
OF_THE_BOARD = (apsw.CorruptError, apsw.BusyError, apsw.LockedError)


class Snapshot(Protocol):
    """A read transaction on the board that is copied."""

    @property
    def connection(self) -> apsw.Connection:
        """The connection that reads; its transaction is open."""
        ...

    @property
    def now(self) -> Micros:
        """The instant of the copy."""
        ...


class Source(Protocol):
    """What is copied: the file of a board, and a way to read one snapshot of it."""

    @property
    def path(self) -> Path:
        """The board's file."""
        ...

    @property
    def options(self) -> StoreOptions:
        """How the board was opened."""
        ...

    @property
    def writes(self) -> bool:
        """Whether others write meanwhile whom this process may hold up."""
        ...

    @property
    def chance(self) -> Chance:
        """Where the name of the unfinished file comes from."""
        ...

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one snapshot."""
        ...


class _Facts(NamedTuple):
    """What a board and its copy have in common."""

    application_id: int
    schema: int
    board_id: str
    last_seq: int


class Copying:
    """One copy in the making."""

    def __init__(
        self,
        source: Source,
        path: Path,
        progress: Progress | None,
        reached: Callable[[str], None],
        *,
        model: os.stat_result | None = None,
    ) -> None:
        """Copy `source` to `path`, with the owner, group and mode of a `model` if there is one."""
        self._source = source
        self._model = model
        self._reached = reached
        self._progress = progress
        self._target = path

    def run(self) -> Backup:
        """Copy, verify, sync, name; whatever fails, no file is left."""
        self._target = _place(self._source, self._target)
        with unfinished(self._target, self._source.chance) as place:
            made = self.make(place)
            give_name(place, self._target, self._reached)
        return made

    def make(self, place: Path) -> Backup:
        """Copy to a file that does not exist yet, verify and sync it; the caller gives it its name, or deletes it."""
        with translated(self._target):
            fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            if self._model:
                resemble(fd, self._model)
        return self._write(place, fd)

    def draft(self) -> Micros:
        """Only copy, for whoever throws it away again: neither verified nor synced; the instant that it shows."""
        self._target = _place(self._source, self._target)
        with translated(self._target):
            os.close(os.open(self._target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

        def copy(tx: Snapshot) -> Micros:
            self._copy_board(tx, self._target, None)
            return tx.now

        return self._source.read(copy)

    def _write(self, place: Path, fd: int) -> Backup:
        try:
            facts, at_us, pages = self._source.read(lambda tx: self._copy(tx, place, fd))
            self._verify(place, facts)
            with translated(self._target):
                os.fsync(fd)
                size = os.fstat(fd).st_size
        finally:
            os.close(fd)  # not before SQLite has closed its own: with the first to go, all locks go
        return Backup(str(self._target), facts.board_id, facts.schema, at_us, facts.last_seq, pages, size)

    def _copy(self, tx: Snapshot, place: Path, fd: int) -> tuple[_Facts, int, int]:
        facts = _facts(tx.connection)  # the first read: from here on the transaction has its snapshot
        pages = self._copy_board(tx, place, fd)
        return facts, tx.now, pages

    def _copy_board(self, tx: Snapshot, place: Path, fd: int | None) -> int:
        """Copy all pages, syncing them to `fd`, if there is one; how many there were."""
        with contextlib.closing(self._blank(place)) as copy:
            with copy.backup("main", tx.connection, "main") as backup:
                self._copy_pages(backup, fd)
                pages = backup.page_count
            with translated(self._target):
                copy.pragma("journal_mode", "delete")  # no log beside it, until somebody opens it as a board
        return pages

    def _copy_pages(self, backup: apsw.Backup, fd: int | None) -> None:
        with contextlib.ExitStack() as stack:
            waiting = False
            while not self._step(backup, fd):
                self._tell(backup)
                if not waiting and self._source.writes and self._log_is_long():  # a reader cannot hold writers up
                    waiting = True
                    stack.enter_context(self._writers_wait())
        self._tell(backup)

    def _log_is_long(self) -> bool:
        try:
            return Path(f"{self._source.path}-wal").stat().st_size > LIMIT_PAGES * PAGE_BYTES
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _writers_wait(self) -> Iterator[None]:
        """Stand in the writers' queue, and keep it; a writer whose patience ends goes on without us."""
        gate = Gate(Path(f"{self._source.path}.gate"))
        try:
            with gate.turn(GATE_SEC):
                yield
        finally:
            gate.close()

    def _blank(self, place: Path) -> apsw.Connection:
        """An empty file that is written in one go: should that fail, it is thrown away; and it is synced by us."""
        with translated(self._target):
            copy = apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READWRITE)
            copy.pragma("journal_mode", "memory")
            copy.pragma("synchronous", 0)
        return copy

    def _step(self, backup: apsw.Backup, fd: int | None) -> bool:
        """Copy a stretch; whether it was the last. An error names the file that it is about, for two are at work."""
        self._reached("copy")
        with translated(self._target):
            try:
                done = backup.step(DRAFT_PAGES if fd is None else STRETCH_PAGES)
            except apsw.Error as error:
                if isinstance(error, OF_THE_BOARD) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_READ:
                    raise typed(error, self._source.path) from error
                raise
            if fd is not None:
                os.fsync(fd)
        return done

    def _tell(self, backup: apsw.Backup) -> None:
        if self._progress:
            self._progress(backup.page_count - backup.remaining, backup.page_count)

    def _verify(self, place: Path, facts: _Facts) -> None:
        """Read the whole copy, as whoever restores it would."""
        self._reached("verify")
        sound = same = False
        damage = None
        with (
            translated(self._target),
            contextlib.suppress(apsw.CorruptError, apsw.NotADBError),
            contextlib.closing(apsw.Connection(str(place), flags=apsw.SQLITE_OPEN_READONLY)) as copy,
        ):
            sound = copy.pragma("integrity_check") == "ok" and copy.pragma("foreign_key_check") is None
            damage = next(damaged_texts(copy), None) if sound else None
            same = sound and not damage and _facts(copy) == facts and copy.pragma("journal_mode") == "delete"
        if damage:
            raise Corrupt(f"The board {self._source.path} is damaged: {damage}.", hint=damage.hint)
        if not sound:
            raise Corrupt(f"The board {self._source.path} is damaged: a copy of it does not pass SQLite's check.")
        if not same:
            raise StoreError(f"The copy at {self._target} is not what was read from the board.")


def _place(source: Source, path: Path) -> Path:
    """Where the copy will be."""
    with translated(path):
        place = free_place(path, source.options)
    if str(place) in {f"{source.path}{end}" for end in (*SIDE_FILES, ".gate")}:
        raise InvalidArgument("path", "is a name that the board needs for itself")
    return place


def _facts(connection: apsw.Connection) -> _Facts:
    _first, last = connection.execute(shared_statements()["event_bounds"]).get
    application_id, schema = (int(connection.pragma(name)) for name in ("application_id", "user_version"))
    return _Facts(application_id, schema, meta(connection, "board_id"), last or 0)
