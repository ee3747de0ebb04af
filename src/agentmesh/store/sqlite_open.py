"""Opening a SQLite board: one way in, which refuses whatever is not a board it can serve and leaves it untouched.

A file that is empty gets its tables here. Those of an older AgentMesh are brought up to date in `sqlite_upgrade.py`, by
the first connection of a store and by no other.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import apsw

from agentmesh.cell import CellClock
from agentmesh.clock import system_chance, word
from agentmesh.errors import (
    BoardExists,
    BoardNotFound,
    BoardReplaced,
    Corrupt,
    ForeignFile,
    NewerSchema,
    ReadOnly,
    StoreError,
    UnsupportedFileSystem,
)
from agentmesh.jsontext import encode
from agentmesh.model import Json, Micros
from agentmesh.store import migrate
from agentmesh.store.aliases import refuse_aliased
from agentmesh.store.base import Durability, StoreOptions
from agentmesh.store.filesystem import mount_of, refuse_unsupported
from agentmesh.store.statements import shared_statements
from agentmesh.store.timing import BESIDE, FACT, refuse_strange
from agentmesh.store.unfinished import NOT_ALLOWED, NoHardLinks, give_name, refuse_side_files, sync_file, unfinished

ENGINE = "sqlite"
APPLICATION_ID = 0x414D5348
"""`AMSH`: what stands in the header of every board."""
SMALLEST_PAGE = 512
LOG_LIMIT = 64 * 1024 * 1024
SYNCHRONOUS: dict[Durability, int] = {"normal": 1, "full": 2}
"""By number, which is how SQLite reads it back."""
BULK_CACHE_KB = 64 * 1024
"""Ids come in no order: where the pages of their index are not all at hand, each new one waits for a page."""


def locate(path: Path, options: StoreOptions) -> Path:
    """The real path of a board that may be opened, made whole and private if it is new.

    Raises:
        BoardNotFound: nothing is there, and nothing may or can be created.
        BoardExists: no board is there, and the log of an earlier one is.
        ForeignFile: it is not a regular file.
        UnsupportedFileSystem: its mount cannot carry a shared board.
        AliasedBoard: it has, or may have, a second name.
    """
    real = Path(os.path.realpath(path))
    refuse_strange(real, options.clock)
    if real.is_dir() or (real.exists() and not real.is_file()):
        raise ForeignFile(f"{path} is not a file.")
    if not real.parent.is_dir():
        raise BoardNotFound(f"There is no folder {real.parent} to hold a board.")
    if real.exists() and 0 < real.stat().st_size < SMALLEST_PAGE:
        raise ForeignFile(f"{path} is not an AgentMesh board.")  # to SQLite a file of one byte is an empty one
    mount = mount_of(real, options.mounts)
    refuse_unsupported(real, mount)
    if real.exists():
        refuse_aliased(real, mount)
    else:
        if not options.create:
            raise BoardNotFound(f"There is no board at {path}.")
        _create(real, options)
    return real


def open_connection(path: Path, options: StoreOptions) -> apsw.Connection:
    """A connection to a file that is, or has just become, a board; every kind of connection is made here."""
    file = _file_at(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=256)
    try:
        _refuse_read_only(connection, path)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.set_busy_timeout(options.busy_timeout_us // 1000)
        version = identify(connection, path, create=options.create)
        _configure(connection, path, options)
        connection.pragma("user_version")  # the first read in WAL mode: its shared lock keeps a restore away for good
        _refuse_replaced(path, file)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        if version == 0:
            _create_tables(connection, options)
    except BaseException as error:
        connection.close()
        if isinstance(error, (apsw.Error, StoreError)):
            _refuse_replaced(path, file)  # then what was read says nothing of the board
        raise
    return connection


def synchronous(options: StoreOptions, *, synced: bool = True) -> int:
    """How SQLite syncs the commits of a board opened so; at most as with `normal` where they need not be `synced`."""
    level = 0 if options.bulk else SYNCHRONOUS[options.durability]
    return level if synced else min(level, SYNCHRONOUS["normal"])


def _create(path: Path, options: StoreOptions) -> None:
    """Make a board where no file is. It has its name only when it is whole: a failure leaves nothing.

    Other processes may do the same at the same time: the first to give the name has made the board for all.
    """
    refuse_side_files(path)
    if options.bulk:  # the name is a draft's already
        _create_empty(path, path)
        return
    try:
        with unfinished(path, system_chance()) as place:  # the name is no part of what happens on the board
            _create_empty(place, path)
            _fill(place, path, options)
            give_name(place, path, lambda point: options.probe.reached(f"new:{point}") if options.probe else None)
    except BoardExists:
        pass
    except NoHardLinks:
        _create_empty(path, path)  # the board is made in place; should that fail, the next one finishes the file


def _create_empty(place: Path, board: Path) -> None:
    try:
        os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        pass  # another process creates it too: fine, it becomes the same board
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        raise BoardNotFound(f"There is no board at {board}, and none may be created there.") from error


def _fill(place: Path, board: Path, options: StoreOptions) -> None:
    """Make a whole board of a draft, durably; it has once had a log and its index, so there is room for them."""
    with contextlib.closing(open_connection(place, replace(options, create=True, upgrade=True, bulk=True))) as draft:
        mode = draft.pragma("journal_mode", "wal")
        identify(draft, place, create=True)
    if mode != "wal":
        raise _no_log(board, mode)
    sync_file(place)


def _refuse_read_only(connection: apsw.Connection, path: Path) -> None:
    """SQLite falls back to reading where it may not write; it would leave side files that the owner cannot use."""
    if connection.readonly("main"):
        raise ReadOnly(f"The board {path} cannot be opened for writing.")


def _file_at(path: Path) -> tuple[int, int] | None:
    """Which file has that name now."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _refuse_replaced(path: Path, opened: tuple[int, int] | None) -> None:
    """A restore may have replaced the file before SQLite had its lock: the log beside it is that of another file."""
    if _file_at(path) != opened:
        raise BoardReplaced(f"The file {path} was replaced while it was being opened.")


def identify(connection: apsw.Connection, path: Path, *, create: bool) -> int:
    """The board's schema version; the first statements on any file, and they only read.

    Raises:
        BoardNotFound: the file is empty, and no board may be created in it (else its version is 0).
        ForeignFile: it is another application's.
        NewerSchema: a newer AgentMesh wrote it.
    """
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")  # one snapshot: another process may be creating the board right now
    try:
        application = connection.pragma("application_id")
        version = int(connection.pragma("user_version"))
        empty = connection.pragma("schema_version") == 0
    finally:
        if own and connection.in_transaction:  # some errors have ended it already
            connection.execute("COMMIT")
    if application == 0 and version == 0 and empty:
        if not create:
            raise BoardNotFound(f"{path} is an empty file.")
        return 0
    if application != APPLICATION_ID:
        raise ForeignFile(f"{path} is a database of another application.")
    refuse_newer(version, path)
    return version


def refuse_newer(version: int, path: Path) -> None:
    """Refuse a schema that this AgentMesh does not know.

    Raises:
        NewerSchema: the board is of a later version.
    """
    if version > migrate.newest(ENGINE):
        raise NewerSchema(f"{path} has schema {version}; this AgentMesh knows schemas up to {migrate.newest(ENGINE)}.")


def _configure(connection: apsw.Connection, path: Path, options: StoreOptions) -> None:
    wanted = "memory" if options.bulk else "wal"
    mode = connection.pragma("journal_mode", wanted)
    if mode != wanted:
        raise _no_log(path, mode)
    connection.pragma("synchronous", synchronous(options))
    if options.bulk:
        connection.pragma("cache_size", -BULK_CACHE_KB)
    connection.pragma("foreign_keys", 1)
    connection.pragma("journal_size_limit", LOG_LIMIT)
    connection.pragma("wal_autocheckpoint", 0)
    connection.pragma("trusted_schema", 0)
    connection.pragma("mmap_size", 0)
    # Without the query planner's stability guarantee a changed parameter may prepare a statement anew: 26 us for the
    # pick instead of 10.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _no_log(path: Path, mode: object) -> UnsupportedFileSystem:
    return UnsupportedFileSystem(f"SQLite cannot use its write-ahead log at {path} (journal mode {mode}).")


def _create_tables(connection: apsw.Connection, options: StoreOptions) -> None:
    """Make a board of an empty file; the version is read inside the write lock, so any number may race."""
    with write_lock(connection):
        if int(connection.pragma("user_version")) == 0:
            migrate_to_newest(connection, 0)
            connection.pragma("application_id", APPLICATION_ID)
            _add_fact(connection, "board_id", word(options.chance, 12))
            if isinstance(options.clock, CellClock):
                _add_fact(connection, FACT, BESIDE)


@contextlib.contextmanager
def write_lock(connection: apsw.Connection) -> Iterator[None]:
    """One write transaction of a connection that no store has yet; whatever raises inside rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def migrate_to_newest(connection: apsw.Connection, version: int) -> None:
    """Run the migrations that tables of `version` still need, in the transaction that is open."""
    for number, sql in migrate.pending(ENGINE, version):
        connection.execute(sql)
        connection.pragma("user_version", number)


def _add_fact(connection: apsw.Connection, key: str, value: str) -> None:
    connection.execute(shared_statements()["add_fact"], {"key": key, "value": value})


def add_event(
    connection: apsw.Connection, kind: str, now: Micros, data: Mapping[str, Json], agent_id: str | None = None
) -> None:
    """A row of history about the file itself, in the transaction that is open."""
    of_no_task = {"plan_pk": None, "task_id": None, "fence": None}
    row = {"now_us": now, "kind": kind, "agent_id": agent_id, "data": encode(data), **of_no_task}
    connection.execute(shared_statements()["add_event"], row)


def meta(connection: apsw.Connection, key: str) -> str:
    """A fact about the board that was written when it was created.

    Raises:
        Corrupt: the board does not tell.
    """
    found = fact(connection, key)
    if found is None:
        raise Corrupt(f"The board is damaged: it has no {key!r} in its metadata.")
    return found


def fact(connection: apsw.Connection, key: str) -> str | None:
    """The same for one that not every board has."""
    found = connection.execute(shared_statements()["fact"], {"key": key}).get
    return found if isinstance(found, str) else None
