"""From a board's name to its store: the only place that knows every engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agentmesh.errors import InvalidArgument, ReadOnly
from agentmesh.loading import loading
from agentmesh.store.base import Progress, Store, StoreOptions
from agentmesh.upkeep import Observation, Restored

T = TypeVar("T")


def connect(target: str | os.PathLike[str], options: StoreOptions) -> Store:
    """Open the store that `target` names; where this user may not write it, one that only reads.

    Args:
        target: the path of a SQLite board.
        options: how to open it.

    Raises:
        InvalidArgument: the name is empty, or a URL that no engine here serves.
        StoreError: what the engine says.
    """
    with loading():
        from agentmesh.store.sqlite import SqliteStore  # noqa: PLC0415 - each engine loads its driver only when it is used

    path = _file(target)
    try:
        return SqliteStore(path, options)
    except ReadOnly as refused:
        with loading():
            from agentmesh.store.sqlite_readonly import ReadOnlyStore  # noqa: PLC0415 - as above

        return ReadOnlyStore(path, options, refused)


def build(target: str | os.PathLike[str], options: StoreOptions, work: Callable[[Store], T]) -> T:
    """Make a new board with `work`, which has its store to itself; nothing is there until all has gone well.

    Raises:
        InvalidArgument: the name is empty, or a URL that no engine here serves.
        BoardExists: something is there already.
        StoreError: what the engine says.
    """
    with loading():
        from agentmesh.store import sqlite_build  # noqa: PLC0415 - as above

    return sqlite_build.build(_file(target), options, work)


def restore(
    backup: str | os.PathLike[str],
    target: str | os.PathLike[str],
    options: StoreOptions,
    *,
    agent_id: str,
    progress: Progress | None = None,
) -> Restored:
    """Put a backup in the place of the board that `target` names; nobody may have it open, and it is kept.

    Raises:
        InvalidArgument: a name is empty, a URL that no engine here serves, or nothing to restore from or to.
        BoardInUse: a process has the board open.
        StoreError: what the engine says.
    """
    with loading():
        from agentmesh.store import sqlite_restore  # noqa: PLC0415 - as above

    return sqlite_restore.restore(Path(backup), _file(target), options, agent_id=agent_id, progress=progress)


def _file(target: str | os.PathLike[str]) -> Path:
    name = os.fspath(target)
    if not name or "\0" in name:
        raise InvalidArgument("board", "must be a path")
    if "://" in name:
        raise InvalidArgument("board", "this version opens SQLite files only; name a path")
    return Path(name)


def examine(target: str | os.PathLike[str], options: StoreOptions) -> list[Observation]:
    """What can be seen of a board from outside, for one that cannot be opened."""
    with loading():
        from agentmesh.store.sqlite_examine import library, outside  # noqa: PLC0415 - as above

    return [*library(), *outside(Path(target), options)]
