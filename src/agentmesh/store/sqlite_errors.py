"""SQLite's errors in AgentMesh's words; no driver error leaves the engine."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import apsw

from agentmesh.errors import (
    BoardReplaced,
    Busy,
    Corrupt,
    DiskFull,
    ForeignFile,
    ReadOnly,
    ResourcesExhausted,
    StoreError,
    SumTooLarge,
    UnsupportedFileSystem,
)
from agentmesh.loading import exhausted, no_more_files
from agentmesh.store.holders import Holder

SUM_TOO_LARGE = ("integer overflow", "cannot store REAL value in INTEGER column")
"""What SQLite says where a SUM or an addition passes 64 bits; neither has an error code of its own."""
NO_SHARED_MEMORY = frozenset({apsw.SQLITE_IOERR_SHMOPEN, apsw.SQLITE_IOERR_SHMMAP, apsw.SQLITE_IOERR_SHMLOCK})


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what apsw or the system raises inside into a typed store error that names the board."""
    try:
        yield
    except apsw.Error as error:
        raise typed(error, path) from error
    except OSError as error:
        raise of_system(error, path) from error
    except UnicodeDecodeError as error:
        raise Corrupt(f"The board {path} is damaged: a text is not UTF-8.") from error


def typed(error: apsw.Error, path: Path) -> StoreError:
    """The store error for a driver error."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return busy(path)
        case apsw.FullError():
            return DiskFull(f"No space is left for the board {path}.")
        case apsw.NotADBError():
            return ForeignFile(f"{path} is not an AgentMesh board.")
        case apsw.CorruptError():
            return Corrupt(f"The board {path} is damaged.")
        case apsw.CantOpenError() if exhausted():
            return no_more_files()
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return _unwritable(error, path)
        case apsw.NoMemError():
            return ResourcesExhausted(f"The memory of this process is used up: the board {path} cannot be used.")
        case apsw.IOError() | apsw.ProtocolError():
            return _io(error, path)
        case apsw.SQLError() | apsw.ConstraintError() if str(error).startswith(SUM_TOO_LARGE):
            return SumTooLarge(f"A sum on the board {path} is more than it can hold, which is 2^63 - 1.")
        case _:
            return StoreError(f"The board {path} could not do this: {error}.")


def of_system(error: OSError, path: Path) -> StoreError:
    """The store error for what the system says of a file beside the board."""
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ReadOnly(f"The file {error.filename or path} cannot be opened for writing.")
        case errno.EMFILE | errno.ENFILE:
            return no_more_files()
        case errno.ENOSPC | errno.EDQUOT:
            return DiskFull(f"No space is left for the board {path}.")
        case _:
            return StoreError(f"The system does not give access to the board {path}: {error.strerror}.")


def busy(path: Path, holder: Holder | None = None) -> Busy:
    """The error of a call that waited too long for SQLite's lock; it names the process that has it, if known."""
    by = f"by {holder}, " if holder else "by another writer "
    hint = f"Let process {holder.pid} go on, or end it; this call had no effect." if holder and holder.idle else None
    return Busy(f"The board {path} was locked {by}for too long.", hint=hint)


def _unwritable(error: apsw.Error, path: Path) -> StoreError:
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return BoardReplaced(f"The file {path} was moved or replaced while the board was open.")
    return ReadOnly(f"The board {path} cannot be opened for writing.")


def _io(error: apsw.Error, path: Path) -> StoreError:
    code = getattr(error, "extendedresult", 0)
    if code == apsw.SQLITE_IOERR_SHMSIZE:
        return DiskFull(f"No space is left for the shared memory of the board {path}.")
    if isinstance(error, apsw.ProtocolError) or code in NO_SHARED_MEMORY:
        return UnsupportedFileSystem(f"The file system under {path} does not give SQLite the shared memory it needs.")
    return StoreError(f"Reading or writing the board {path} failed: {error}.")
