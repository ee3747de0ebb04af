"""A board that is made whole before anybody sees it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from agentmesh.store.base import StoreOptions
from agentmesh.store.sqlite import SqliteStore
from agentmesh.store.sqlite_errors import translated
from agentmesh.store.unfinished import free_place, give_name, sync_file, unfinished

T = TypeVar("T")


def build(path: Path, options: StoreOptions, work: Callable[[SqliteStore], T]) -> T:
    """Make a new board with `work`, which has its store to itself; nothing is at `path` until all has gone well.

    Raises:
        BoardExists: the file, or a log of its name, is there.
        InvalidArgument: its folder is not.
        StoreError: it could not be written.
    """
    with translated(path):
        target = free_place(path, options)
    with unfinished(target, options.chance) as place:
        with contextlib.closing(SqliteStore(place, replace(options, create=True, bulk=True))) as store:
            result = work(store)
        with translated(target):
            Path(f"{place}.gate").unlink()
            sync_file(place)
        give_name(place, target, options.probe.reached if options.probe else lambda _point: None)
    return result
