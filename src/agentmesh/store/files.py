"""The files that are one board: the database, its log, its shared memory, its gate.

SQLite takes the log and the shared memory by the board's name. A process that has them open keeps the old ones when a
name is deleted or replaced, and newcomers get others: from then on the two groups do not see each other's commits, and
whatever either writes is lost or damages the board. While a board is open, none of these names may change.

A name cannot be deleted, replaced or made without a new change time of the folder. So one `stat` of the folder stands
for four, as long as its last change is older than the resolution of the file system's clock.

The gate keeps a record of which log belongs to which database. A log that was left behind and now lies beside another
database (a backup that was moved into place by hand) must not be applied to it.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from agentmesh.errors import MismatchedLog

GATE = ".gate"
ENDS = ("", "-wal", "-shm", GATE)
RESOLUTION_NS = 50_000_000
"""Change times come from the kernel's tick, at most 10 ms long: a later change within it would go unseen."""
RECORD = 64
"""The length of the record in the gate, in bytes: written in one piece, blanks at the end."""

Identity = tuple[int, int]
"""Device and inode."""


class BoardFiles:
    """The files of an open board, each known by device and inode."""

    def __init__(self, path: Path, ends: tuple[str, ...] = ENDS) -> None:
        """Look at the files; the board must be open, so that SQLite has made those that it needs."""
        self._folder = str(path.parent)
        self._ends = ends
        self._names = tuple(f"{path}{end}" for end in ends)  # to stat a Path costs 1 us more
        self._known = self._look()
        self._settled: tuple[int, ...] | None = None

    def same(self) -> bool:
        """Whether every file is known to be the one that it was when the board was opened."""
        try:
            folder = os.stat(self._folder)  # noqa: PTH116 - on the way of every call; Path.stat costs twice as much
            seen = (folder.st_dev, folder.st_ino, folder.st_ctime_ns)
            if seen == self._settled:
                return True
            if self._look() != self._known:
                return False
        except OSError:  # `changed` then raises it, or the file system has recovered
            return False
        old = time.time_ns() - folder.st_ctime_ns > RESOLUTION_NS
        self._settled = seen if old and os.name == "posix" else None
        return True

    def changed(self) -> dict[str, bool]:
        """The ends of the names that no longer lead to the same file, and whether another file has taken the name."""
        pairs = zip(self._ends, self._known, self._look(), strict=True)
        return {end: now is not None for end, known, now in pairs if now != known}

    def _look(self) -> tuple[Identity | None, ...]:
        return tuple(map(_identity, self._names))


def refuse_other_log(path: Path) -> None:
    """Refuse a log that belongs to another database, before SQLite applies it to this one.

    Raises:
        MismatchedLog: the gate's record names this log together with another database.
    """
    log, board = _identity(f"{path}-wal"), _identity(str(path))
    with contextlib.suppress(OSError, ValueError):  # no gate yet, or no record in it
        fields = Path(f"{path}{GATE}").read_bytes()[:RECORD].split()
        device, known_board, known_log = (int(field) for field in fields)
        if log == (device, known_log) and board != (device, known_board):
            raise MismatchedLog(f"The log {path}-wal belongs to another file than {path}, which was replaced.")


def record(path: Path, gate: int) -> None:
    """Write into the gate, an open descriptor, which log belongs to which database."""
    log, board = _identity(f"{path}-wal"), _identity(str(path))
    if log is None or board is None:
        return
    wanted = b"%d %d %d" % (*board, log[1])
    if os.pread(gate, RECORD, 0).rstrip() != wanted:
        os.pwrite(gate, wanted.ljust(RECORD), 0)


def _identity(name: str) -> Identity | None:
    try:
        found = os.stat(name)  # noqa: PTH116 - as above
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino
