"""Putting a backup in the place of a board, which is kept, with its log, under one new name.

An old log beside a new file would be taken for its own and would damage it, and so would a process that goes on with
the old file. So no process may have the board open. SQLite's exclusive lock on its file shows that, whatever the file
holds: a connection to a board in WAL mode holds a shared lock from its first read on.

The new file is made whole first. Then the log gets a second name, the board moves to the same new name, the log loses
its first name, and the new file takes the place. A process that is killed on the way leaves the old board or none, and
never a board without its log or beside that of another.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from glob import escape
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from agentmesh.cell import CellClock
from agentmesh.clock import Chance
from agentmesh.errors import (
    BoardExists,
    BoardInUse,
    BoardNotFound,
    Busy,
    Corrupt,
    ForeignFile,
    InvalidArgument,
    OnTestClock,
    ReadOnly,
    StoreError,
)
from agentmesh.model import Micros
from agentmesh.store.aliases import refuse_aliased
from agentmesh.store.base import Progress, StoreOptions
from agentmesh.store.filesystem import mount_of, refuse_unsupported
from agentmesh.store.gate import Gate
from agentmesh.store.holders import of_board
from agentmesh.store.sqlite_copy import Copying, Snapshot
from agentmesh.store.sqlite_errors import translated, typed
from agentmesh.store.sqlite_open import add_event, fact, identify, write_lock
from agentmesh.store.statements import shared_statements
from agentmesh.store.timing import FACT, refuse_strange, timing
from agentmesh.store.unfinished import (
    finish_naming,
    free_name,
    give_name,
    link_file,
    stamp,
    sync_file,
    sync_folder,
    unfinished,
)
from agentmesh.upkeep import Backup, Restored

T = TypeVar("T")
LOGS = ("-journal", "-wal")
"""What a board may need beside it."""
SHARED_MEMORY = "-shm"
"""The index of the log; the next connection makes it again."""
OTHER = "Name a file that `agentmesh backup` or an upgrade made; the board is as it was."
FILLING = b"This file was empty when a board was restored in its place.\n"
AGAIN = "Stop every agent and server that uses the board, then restore again."
OPEN = "Back it up first: agentmesh backup NEW --board PATH; then restore that backup."


class _Reading(NamedTuple):
    """The backup, read over one connection: nothing writes to it."""

    connection: apsw.Connection
    now: Micros


class _Source(NamedTuple):
    """A backup that was identified, and its open connection."""

    path: Path
    options: StoreOptions
    chance: Chance
    connection: apsw.Connection
    writes: bool = False

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on the backup."""
        try:
            return work(_Reading(self.connection, Micros(0)))
        except apsw.Error as error:
            raise typed(error, self.path) from error


def restore(
    backup: Path, board: Path, options: StoreOptions, *, agent_id: str, progress: Progress | None = None
) -> Restored:
    """Put `backup` in the place of `board`; the board that is there is moved aside, and so is whatever else is.

    Args:
        backup: a file that nothing has open, of a schema that this AgentMesh knows.
        board: where the board shall be: a file, or nothing, in a folder that is there.
        options: its clock tells when, its chance names the unfinished file, its patience is for the gate.
        agent_id: who does it, for the history.
        progress: told how far the copy is; it gives up by raising.

    Raises:
        InvalidArgument: a file or folder is not there, or the two are the same file.
        BoardInUse: a process has the board open.
        OnTestClock: the backup is of a test's board, and the test's clock is not there.
        Corrupt: the backup is damaged.
        StoreError: the backup is no board, is of a newer schema, or the new file could not be written.
    """
    place = _place(board, options)
    with _opened(_file(backup, place), options) as source:
        now = _now(place, options, source.connection)
        with _alone(place, options) as old, unfinished(place, options.chance) as new:
            made = _make(new, place, source, progress)
            with translated(place):
                at_us = _enter(new, made, now, agent_id)
                kept = free_name(place, f"replaced-{stamp(now)}")
                there = os.path.lexists(place)
                size = new.stat().st_size
                with _filled(old):
                    _swap(new, place, kept, _reached(options))
    return Restored(
        path=str(place),
        backup=str(source.path),
        board_id=made.board_id,
        schema=made.schema,
        last_seq=made.last_seq,
        size=size,
        at_us=at_us,
        replaced=str(kept) if there else None,
    )


def _place(board: Path, options: StoreOptions) -> Path:
    """The real path of the board."""
    place = Path(os.path.realpath(board))
    if not place.parent.is_dir():
        raise InvalidArgument("board", f"the folder {str(place.parent)!r} does not exist")
    if place.exists() and not place.is_file():
        raise ForeignFile(f"{place} is not a file.")
    refuse_strange(place, options.clock)
    mount = mount_of(place, options.mounts)
    refuse_unsupported(place, mount)
    if place.exists():
        refuse_aliased(place, mount)
    return place


def _file(backup: Path, board: Path) -> Path:
    """The real path of the backup, which is looked at from outside: only SQLite opens it."""
    real = Path(os.path.realpath(backup))
    if not real.is_file():
        raise InvalidArgument("backup", "must be a file that exists")
    if not os.access(real, os.R_OK):
        raise InvalidArgument("backup", "may not be read by this user")
    if board.exists() and real.samefile(board):
        raise InvalidArgument("backup", "is the board itself")
    if any(os.path.lexists(f"{real}{end}") for end in LOGS):
        raise InvalidArgument("backup", "has a log beside it: it is a board that is open, or was not closed", hint=OPEN)
    return real


@contextlib.contextmanager
def _opened(backup: Path, options: StoreOptions) -> Iterator[_Source]:
    """A backup as a source of copies. Nothing appears beside it: it is opened as a file that does not change."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    with translated(backup):
        connection = apsw.Connection(f"{backup.as_uri()}?immutable=1", flags=flags)
    with contextlib.closing(connection):
        try:
            with translated(backup):
                identify(connection, backup, create=False)
        except (BoardNotFound, ForeignFile) as error:
            raise ForeignFile(error.message, hint=OTHER) from error
        yield _Source(backup, options, options.chance, connection)


def _now(board: Path, options: StoreOptions, backup: apsw.Connection) -> Micros:
    """When the restore takes place, on the clock of the board."""
    with translated(board):
        told = timing(board, options.clock, turned=fact(backup, FACT) is not None)
    now = told.clock.now_us()
    if told.own and isinstance(told.clock, CellClock):
        told.clock.close()
    if not told.writes:
        raise OnTestClock("The backup is of a board that goes by a test's clock, which was not given.")
    return now


@contextlib.contextmanager
def _alone(board: Path, options: StoreOptions) -> Iterator[apsw.VFSFile | None]:
    """Have the board to oneself: the gate, so that restores take turns, and SQLite's exclusive lock on the file."""
    with translated(board):
        gate = Gate(Path(f"{board}.gate"))
    try:
        with gate.turn(options.busy_timeout_us / 1_000_000) as entered:
            if not entered:
                raise BoardInUse(f"Another process writes to the board {board} or restores it.")
            with _locked(board) if board.exists() else contextlib.nullcontext() as file:
                yield file
    finally:
        gate.close()


@contextlib.contextmanager
def _locked(board: Path) -> Iterator[apsw.VFSFile]:
    """SQLite's exclusive lock on a file, taken through its own file layer: what the file holds is not looked at."""
    flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
    with translated(board):
        file = apsw.VFSFile("", str(board), flags)
    try:
        if not flags[1] & apsw.SQLITE_OPEN_READWRITE:  # SQLite has fallen back to reading
            raise ReadOnly(f"The board {board} cannot be opened for writing.")
        try:
            with translated(board):
                file.xLock(apsw.SQLITE_LOCK_SHARED)
                file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        except Busy as error:
            others = [
                holder for holder in of_board(board) if holder.pid != os.getpid()
            ]  # one lock is the restore's own
            users = ", ".join(map(str, others))
            raise BoardInUse(f"The board {board} is open" + (f" in {users}." if users else ".")) from error
        yield file
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()


@contextlib.contextmanager
def _filled(old: apsw.VFSFile | None) -> Iterator[None]:
    """Let no empty file move away.

    A process may have opened it before, and read it only after it moved. SQLite then deletes the log of the first name,
    which is that of the restored board.
    """
    empty = old is not None and old.xFileSize() == 0
    if old is not None and empty:
        old.xWrite(FILLING, 0)
    try:
        yield
    except BaseException:
        if old is not None and empty:
            old.xTruncate(0)
        raise


def _make(new: Path, board: Path, source: _Source, progress: Progress | None) -> Backup:
    """Copy the backup to `new`, verified and synced, with the owner, group and mode of the board if there is one."""
    model = board.stat() if board.exists() else None
    try:
        return Copying(source, board, progress, _reached(source.options), model=model).make(new)
    except Corrupt as error:
        raise Corrupt(f"The backup {source.path} is damaged; the board is as it was.", hint=OTHER) from error


def _enter(new: Path, made: Backup, now: Micros, agent_id: str) -> Micros | None:
    """Write the event into the new file, so that no board is ever without it; when the last event of before was.

    The file comes to its place in WAL mode: the first process that opens it keeps its lock from the first read on.
    """
    with contextlib.closing(apsw.Connection(str(new), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", 0)
        last = connection.execute(
            shared_statements()["events_after"], {"after": made.last_seq - 1, "most": 1}
        ).fetchone()
        at_us = last[1] if last else None
        told = {"last_seq": made.last_seq} | ({} if at_us is None else {"as_of_us": at_us})
        with write_lock(connection):
            add_event(connection, "board_restored", now, told, agent_id)
    if os.path.lexists(f"{new}-wal"):
        raise StoreError(f"The log of the new file {new} could not be written into it.")
    sync_file(new)
    return at_us


def _swap(new: Path, board: Path, kept: Path, reached: Callable[[str], None]) -> None:
    """Move what is there to the name `kept`, and give its own to the new file; if that fails, move it back."""
    _forget_leftovers(board)
    try:
        _set_aside(board, kept, reached)
        give_name(new, board, reached)
    except BoardExists as error:
        aside = f"; what was there before is {kept}" if os.path.lexists(kept) else ""
        raise BoardInUse(f"Another process made a board at {board} meanwhile{aside}.", hint=AGAIN) from error
    except BaseException:
        _take_back(board, kept)
        raise


def _forget_leftovers(board: Path) -> None:
    """Delete the second names that a killed restore has left: of the board, and of a log whose board had not moved."""
    if board.exists():
        finish_naming(board)
    for end in LOGS:
        log = Path(f"{board}{end}")
        for place in board.parent.glob(f"{escape(board.name)}.replaced-*{end}"):
            alone = not os.path.lexists(str(place).removesuffix(end))
            if alone and log.exists() and place.samefile(log):
                place.unlink()


def _set_aside(board: Path, kept: Path, reached: Callable[[str], None]) -> None:
    reached("aside")
    logs = [end for end in LOGS if os.path.lexists(f"{board}{end}")]
    for end in logs:
        if not _kept_already(board, end):
            link_file(Path(f"{board}{end}"), Path(f"{kept}{end}"))
    sync_folder(board.parent)
    reached("log kept")
    if os.path.lexists(board):
        board.rename(kept)
        sync_folder(board.parent)
    reached("board kept")
    for end in (*logs, SHARED_MEMORY):
        Path(f"{board}{end}").unlink(missing_ok=True)
    sync_folder(board.parent)
    reached("cleared")


def _kept_already(board: Path, end: str) -> bool:
    """Whether a restore that was killed has moved the board of this log, and left the log's first name."""
    log = Path(f"{board}{end}")
    kept = board.parent.glob(f"{escape(board.name)}.replaced-*{end}")
    return any(place.samefile(log) for place in kept if os.path.lexists(str(place).removesuffix(end)))


def _take_back(board: Path, kept: Path) -> None:
    """Undo what was done of `_set_aside`, unless another process has made a board there meanwhile."""
    if os.path.lexists(kept) and os.path.lexists(board):
        return
    for end in LOGS:
        if os.path.lexists(f"{kept}{end}") and not os.path.lexists(f"{board}{end}"):
            link_file(Path(f"{kept}{end}"), Path(f"{board}{end}"))
    if os.path.lexists(kept):
        kept.rename(board)
    for end in LOGS:
        Path(f"{kept}{end}").unlink(missing_ok=True)
    sync_folder(board.parent)


def _reached(options: StoreOptions) -> Callable[[str], None]:
    return options.probe.reached if options.probe else lambda _point: None
