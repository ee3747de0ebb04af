"""SQLite's errors in AgentMesh's words; no driver error leaves the engine."""

from __future__ import annotations

import contextlib
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
    StoreError,
    UnsupportedFileSystem,
)


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Turn what apsw raises inside into a typed store error that names the board."""
    try:
        yield
    except apsw.Error as error:
        raise typed(error, path) from error


def typed(error: apsw.Error, path: Path) -> StoreError:
    """The store error for a driver error."""
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return Busy(f"The board {path} was locked by another writer for too long.")
        case apsw.FullError():
            return DiskFull(f"No space is left for the board {path}.")
        case apsw.NotADBError():
            return ForeignFile(f"{path} is not an AgentMesh board.")
        case apsw.CorruptError():
            return Corrupt(f"The board {path} is damaged.")
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.CantOpenError():
            return _unwritable(error, path)
        case apsw.IOError() | apsw.ProtocolError():
            return _io(error, path)
        case _:
            return StoreError(f"The board {path} could not do this: {error}.")


def _unwritable(error: apsw.Error, path: Path) -> StoreError:
    if getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return BoardReplaced(f"The file {path} was moved or replaced while the board was open.")
    return ReadOnly(f"The board {path} cannot be opened for writing.")


def _io(error: apsw.Error, path: Path) -> StoreError:
    if isinstance(error, apsw.ProtocolError) or "SHM" in str(getattr(error, "extendedresult", "")):
        return UnsupportedFileSystem(f"The file system under {path} does not give SQLite the shared memory it needs.")
    return StoreError(f"Reading or writing the board {path} failed: {error}.")
