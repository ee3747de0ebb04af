"""From a board's name to its store: the only place that knows every engine."""

from __future__ import annotations

import os
from pathlib import Path

from agentmesh.errors import InvalidArgument
from agentmesh.store.base import Store, StoreOptions
from agentmesh.upkeep import Observation


def connect(target: str | os.PathLike[str], options: StoreOptions) -> Store:
    """Open the store that `target` names.

    Args:
        target: the path of a SQLite board.
        options: how to open it.

    Raises:
        InvalidArgument: the name is empty, or a URL that no engine here serves.
        StoreError: what the engine says.
    """
    name = os.fspath(target)
    if not name or "\0" in name:
        raise InvalidArgument("board", "must be a path")
    if "://" in name:
        raise InvalidArgument("board", "this version opens SQLite files only; name a path")
    from agentmesh.store.sqlite import SqliteStore  # noqa: PLC0415 - each engine loads its driver only when it is used

    return SqliteStore(Path(name), options)


def examine(target: str | os.PathLike[str], options: StoreOptions) -> list[Observation]:
    """What can be seen of a board from outside, for one that cannot be opened."""
    from agentmesh.store.sqlite_examine import library, outside  # noqa: PLC0415 - as above

    return [*library(), *outside(Path(target), options)]
