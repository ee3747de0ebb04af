"""What keeps a user from a board: the file, the folder or the mount that refuses, to be named in an error."""

from __future__ import annotations

import os
from pathlib import Path

EFFECTIVE = os.access in os.supports_effective_ids
BESIDE = ("-wal", "-shm", ".gate")
"""What else a writer has to write, where it is there."""


def may(place: Path | str, mode: int) -> bool:
    """Whether this process may read (`os.R_OK`) or write (`os.W_OK`) a file or folder that is there."""
    return os.access(place, mode, effective_ids=EFFECTIVE)


def refuses_writing(path: Path) -> str | None:
    """What refuses to let this user write a board, as the end of a sentence; None if nothing here does."""
    if hasattr(os, "statvfs") and os.statvfs(path).f_flag & os.ST_RDONLY:
        return f"its file system is mounted read-only at {path.parent}"
    places = (path, path.parent, *(Path(f"{path}{end}") for end in BESIDE))
    return next((_may_not("write", place) for place in places if place.exists() and not may(place, os.W_OK)), None)


def refuses_reading(path: Path) -> str | None:
    """The same for reading it."""
    log, index, journal = (Path(f"{path}{end}") for end in ("-wal", "-shm", "-journal"))
    for place in (path, log, index):
        if place.exists() and not may(place, os.R_OK):
            return _may_not("read", place)
    if log.exists() and log.stat().st_size and not index.exists():
        return f"its log has no index ({index}), which only a user who may write can make"
    if journal.exists() and journal.stat().st_size:
        return f"a write was cut off ({journal}), which only a user who may write can undo"
    return None


def _may_not(verb: str, place: Path) -> str:
    return f"this user may not {verb} {place}"
