"""A copy of a board that others go on writing to: one snapshot, in one file, verified before it gets its name.

SQLite's backup makes it, page by page in one read transaction: steps of their own would begin anew at every commit of
another process. The log cannot be shortened meanwhile. As long as it stays within its mark the writers are left alone;
beyond it they wait at the gate until the last page is copied. With the gate held throughout, 225 MB made every writer
wait for up to 0.7 s; without it, four writers that do not sync made a log of 210 MB.

Until it is verified and synced, the copy has a name that says `unfinished`. A link then gives it its own: unlike a
rename, it never takes the place of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import apsw

from agentmesh.clock import word
from agentmesh.errors import BoardExists, Corrupt, InvalidArgument, StoreError, UnsupportedFileSystem
from agentmesh.store.base import Progress
from agentmesh.store.checkpoints import GATE_SEC, LIMIT_PAGES
from agentmesh.store.filesystem import refuse_unsupported
from agentmesh.store.gate import Gate
from agentmesh.store.sqlite_errors import of_system, translated, typed
from agentmesh.store.sqlite_open import meta
from agentmesh.store.statements import shared_statements
from agentmesh.upkeep import Backup

if TYPE_CHECKING:
    from agentmesh.store.sqlite import SqliteStore, SqliteTransaction

PAGE_BYTES = 4096
STRETCH_PAGES = 2000
"""8 MB are copied, then synced: with one sync at the end, commits of others waited up to 0.3 s instead of 0.12 s."""
SIDE_FILES = ("-journal", "-wal", "-shm")
OF_THE_BOARD = (apsw.CorruptError, apsw.BusyError, apsw.LockedError)
NO_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
NEVER_OVER = "Name a file that is not there; a backup never takes the place of anything."
LOCAL_FIRST = "Back up to a local disk, then copy the finished file to where you want it."


class _Facts(NamedTuple):
    """What a board and its copy have in common."""

    application_id: int
    schema: int
    board_id: str
    last_seq: int


class Copying:
    """One copy in the making."""

    def __init__(
        self, store: SqliteStore, path: Path, progress: Progress | None, reached: Callable[[str], None]
    ) -> None:
        self._store = store
        self._reached = reached
        self._progress = progress
        with translated(path):
            self._target = _free_place(store, path)
        self._unfinished = self._target.with_name(f"{self._target.name}.unfinished-{word(store.chance, 8)}")

    def run(self) -> Backup:
        """Copy, verify, sync, name; whatever fails, no file is left."""
        with translated(self._target):
            fd = os.open(self._unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            made = self._write(fd)
            self._give_name()
        except BaseException:
            self._discard()
            raise
        return made

    def _write(self, fd: int) -> Backup:
        try:
            facts, at_us, pages = self._store.read(lambda tx: self._copy(tx, fd))
            self._verify(facts)
            with translated(self._target):
                os.fsync(fd)
                size = os.fstat(fd).st_size
        finally:
            os.close(fd)  # not before SQLite has closed its own: with the first to go, all locks go
        return Backup(str(self._target), facts.board_id, facts.schema, at_us, facts.last_seq, pages, size)

    def _copy(self, tx: SqliteTransaction, fd: int) -> tuple[_Facts, int, int]:
        facts = _facts(tx.connection)  # the first read: from here on the transaction has its snapshot
        with contextlib.closing(self._blank()) as copy:
            with copy.backup("main", tx.connection, "main") as backup:
                self._copy_pages(backup, fd)
                pages = backup.page_count
            with translated(self._target):
                copy.pragma("journal_mode", "delete")  # no log beside it, until somebody opens it as a board
        return facts, tx.now, pages

    def _copy_pages(self, backup: apsw.Backup, fd: int) -> None:
        with contextlib.ExitStack() as stack:
            waiting = False
            while not self._step(backup, fd):
                self._tell(backup)
                if not waiting and self._log_is_long():
                    waiting = True
                    stack.enter_context(self._writers_wait())
        self._tell(backup)

    def _log_is_long(self) -> bool:
        try:
            return Path(f"{self._store.path}-wal").stat().st_size > LIMIT_PAGES * PAGE_BYTES
        except FileNotFoundError:
            return False

    @contextlib.contextmanager
    def _writers_wait(self) -> Iterator[None]:
        """Stand in the writers' queue, and keep it; a writer whose patience ends goes on without us."""
        gate = Gate(Path(f"{self._store.path}.gate"))
        try:
            with gate.turn(GATE_SEC):
                yield
        finally:
            gate.close()

    def _blank(self) -> apsw.Connection:
        """An empty file that is written in one go: should that fail, it is thrown away; and it is synced by us."""
        with translated(self._target):
            copy = apsw.Connection(str(self._unfinished), flags=apsw.SQLITE_OPEN_READWRITE)
            copy.pragma("journal_mode", "memory")
            copy.pragma("synchronous", 0)
        return copy

    def _step(self, backup: apsw.Backup, fd: int) -> bool:
        """Copy a stretch; whether it was the last. An error names the file that it is about, for two are at work."""
        self._reached("copy")
        with translated(self._target):
            try:
                done = backup.step(STRETCH_PAGES)
            except apsw.Error as error:
                if isinstance(error, OF_THE_BOARD) or getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_READ:
                    raise typed(error, self._store.path) from error
                raise
            os.fsync(fd)
        return done

    def _tell(self, backup: apsw.Backup) -> None:
        if self._progress:
            self._progress(backup.page_count - backup.remaining, backup.page_count)

    def _verify(self, facts: _Facts) -> None:
        """Read the whole copy, as whoever restores it would."""
        self._reached("verify")
        sound = same = False
        with translated(self._target), contextlib.suppress(apsw.CorruptError, apsw.NotADBError):
            path = str(self._unfinished)
            with contextlib.closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as copy:
                sound = copy.pragma("integrity_check") == "ok" and copy.pragma("foreign_key_check") is None
                same = sound and _facts(copy) == facts and copy.pragma("journal_mode") == "delete"
        if not sound:
            raise Corrupt(f"The board {self._store.path} is damaged: a copy of it does not pass SQLite's check.")
        if not same:
            raise StoreError(f"The copy at {self._target} is not what was read from the board.")

    def _give_name(self) -> None:
        self._reached("link")
        self._link()
        try:
            self._reached("linked")
            with translated(self._target):
                self._unfinished.unlink()
                _sync_folder(self._target.parent)
        except BaseException:
            self._target.unlink()
            raise

    def _link(self) -> None:
        try:
            os.link(self._unfinished, self._target)
        except FileExistsError as error:
            raise _exists(self._target) from error
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise of_system(error, self._target) from error
            message = f"The file system under {self._target} cannot give a file a second name, as a backup needs."
            raise UnsupportedFileSystem(message, hint=LOCAL_FIRST) from error

    def _discard(self) -> None:
        for end in ("", *SIDE_FILES):
            with contextlib.suppress(OSError):  # most were never there; the error on its way says what is wrong
                Path(f"{self._unfinished}{end}").unlink()


def _free_place(store: SqliteStore, path: Path) -> Path:
    """Where the copy will be, if nothing is there and a board may be."""
    folder = Path(os.path.realpath(path.parent))
    place = folder / path.name
    if not folder.is_dir():
        raise InvalidArgument("path", f"the folder {str(folder)!r} does not exist")
    if str(place) in {f"{store.path}{end}" for end in (*SIDE_FILES, ".gate")}:
        raise InvalidArgument("path", "is a name that the board needs for itself")
    for trace in (place, *(Path(f"{place}{end}") for end in SIDE_FILES)):
        if os.path.lexists(trace):  # an old log beside a new file would be taken for its own
            raise _exists(trace)
    refuse_unsupported(place, store.options.mounts, hint=LOCAL_FIRST)
    return place


def _exists(path: Path) -> BoardExists:
    return BoardExists(f"{path} is there already.", hint=NEVER_OVER)


def _facts(connection: apsw.Connection) -> _Facts:
    _first, last = connection.execute(shared_statements()["event_bounds"]).get
    application_id, schema = (int(connection.pragma(name)) for name in ("application_id", "user_version"))
    return _Facts(application_id, schema, meta(connection, "board_id"), last or 0)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where a folder can be synced."""
    if hasattr(os, "O_DIRECTORY"):
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
