"""Bringing an older board to the newest schema: a backup first, then the tables, and a word to everyone concerned.

All of it happens with the write lock held: of any number of processes that open the board at once, one does it, and no
commit lies between the backup and the new tables. The backup reads what was committed last, over a connection of its
own. Without a backup there is no upgrade.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from agentmesh.clock import Chance, Clock
from agentmesh.errors import StoreError
from agentmesh.model import Micros
from agentmesh.printable import one_line
from agentmesh.store import migrate
from agentmesh.store.base import StoreOptions
from agentmesh.store.sqlite_copy import Copying, Snapshot
from agentmesh.store.sqlite_errors import translated
from agentmesh.store.sqlite_open import ENGINE, add_event, migrate_to_newest, open_connection, refuse_newer, write_lock
from agentmesh.store.unfinished import free_name, stamp

T = TypeVar("T")
LOGGER = "agentmesh"


class _Reading(NamedTuple):
    """A snapshot of the board as its last commit left it."""

    connection: apsw.Connection
    now: Micros


class _Committed(NamedTuple):
    """The board while another connection holds its write lock: what that one does is not seen."""

    path: Path
    options: StoreOptions
    chance: Chance
    now: Micros
    writes: bool = False

    def read(self, work: Callable[[Snapshot], T]) -> T:
        """Run `work` on one snapshot, over a new connection."""
        with translated(self.path), contextlib.closing(open_connection(self.path, self.options)) as connection:
            connection.execute("BEGIN")
            return work(_Reading(connection, self.now))


def bring_up_to_date(connection: apsw.Connection, path: Path, options: StoreOptions, clock: Clock) -> None:
    """Upgrade the tables of an older board, after a backup beside it; those of a current board are left alone.

    The write lock is held until the backup is copied, verified and synced: others who write wait for it as long as
    their patience lasts. Whatever fails, the board is as it was. It is told by an event (`schema_upgraded`) and by a
    warning of the logger `agentmesh`, which Python shows on stderr unless the application says otherwise.

    Raises:
        StoreError: the backup could not be made, or a migration failed; nothing was changed.
        NewerSchema: a newer AgentMesh has upgraded the board since this connection was made.
    """
    newest = migrate.newest(ENGINE)
    if int(connection.pragma("user_version")) == newest:
        return
    with write_lock(connection):
        version = int(connection.pragma("user_version"))
        refuse_newer(version, path)
        if version == newest:
            return  # another process was first
        now = clock.now_us()
        backup = _back_up(_Committed(path, options, options.chance, now), version)
        migrate_to_newest(connection, version)
        add_event(connection, "schema_upgraded", now, {"from": version, "to": newest})
        _reached(options)("upgrade")
    _tell(path, version, newest, backup)


def _back_up(board: _Committed, version: int) -> str:
    """Copy the board beside itself, for the users that it has; where the copy is."""
    place = free_name(board.path, f"schema-{version}-{stamp(board.now)}", ".backup")
    try:
        with translated(place):
            model = board.path.stat()
            return Copying(board, place, None, _reached(board.options), model=model).run().path
    except StoreError as error:
        message = f"The board {board.path} stays at schema {version}: no backup of it could be made. {error.message}"
        raise type(error)(message, hint=error.hint) from error


def _reached(options: StoreOptions) -> Callable[[str], None]:
    return options.probe.reached if options.probe else lambda _point: None


def _tell(path: Path, version: int, newest: int, backup: str) -> None:
    import logging  # noqa: PLC0415 - it costs every start some milliseconds, and an upgrade is rare

    text = "AgentMesh upgraded the board %s from schema %s to %s; the board as it was: %s"
    logging.getLogger(LOGGER).warning(text, one_line(str(path)), version, newest, one_line(backup))
