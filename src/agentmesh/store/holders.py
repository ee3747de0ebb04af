"""Which process holds a lock of a board: for a message about a writer that keeps others waiting.

Linux lists all file locks in `/proc/locks`; elsewhere nothing is known. Asking the lock itself (`F_GETLK`) would need a
descriptor of a file that SQLite has open, and closing that descriptor would drop SQLite's own locks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

LOCKS = Path("/proc/locks")
POSIX, FLOCK = "POSIX", "FLOCK"
WRITE_BYTE = 120
"""Where in the shared memory file SQLite locks for a write: `WALINDEX_LOCK_OFFSET` of its file format."""
STATE_FIELD = 2
STOPPED = frozenset("Tt")


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a lock; `stopped` by a signal or a debugger, or `gone`: a child has kept its lock."""

    pid: int
    stopped: bool = False
    gone: bool = False

    @property
    def idle(self) -> bool:
        """Whether it cannot let go of the lock by itself."""
        return self.stopped or self.gone

    def __str__(self) -> str:
        """The process in words."""
        if self.gone:
            return f"a child of process {self.pid}, which has ended"
        return f"process {self.pid}" + (", which is stopped" if self.stopped else "")


def of_write_lock(board: Path) -> Holder | None:
    """The process in whose write transaction the board is."""
    found = _holders(
        Path(f"{board}-shm"), lambda lock: lock.kind == POSIX and lock.exclusive and lock.first == WRITE_BYTE
    )
    return next(iter(found), None)


def of_gate(gate: Path) -> Holder | None:
    """The process that has the gate."""
    return next(iter(_holders(gate, lambda lock: lock.kind == FLOCK and lock.exclusive)), None)


def of_board(board: Path) -> list[Holder]:
    """The processes that have the board open: each has a lock of SQLite's on the file from its first read on."""
    return _holders(board, lambda lock: lock.kind == POSIX)


class _Lock(NamedTuple):
    """A line of the table: a lock that a process has on an inode, from byte `first` on."""

    kind: str
    exclusive: bool
    pid: int
    device: tuple[int, int]
    inode: int
    first: int


def _holders(file: Path, wanted: Callable[[_Lock], bool]) -> list[Holder]:
    try:
        seen = file.stat()
        table = LOCKS.read_text(encoding="ascii", errors="replace")
        locks = [lock for lock in _locks(table) if lock.inode == seen.st_ino and lock.pid > 0 and wanted(lock)]
    except (OSError, ValueError):  # there is no such table, or it has another form
        return []
    # A file system may show another device to `stat` than to the table of locks; the inode then has to do.
    device = os.major(seen.st_dev), os.minor(seen.st_dev)
    of_device = [lock for lock in locks if lock.device == device]
    return [_look(pid) for pid in sorted({lock.pid for lock in of_device or locks})]


def _locks(table: str) -> Iterator[_Lock]:
    """The locks that are held; lines with an arrow are of those who wait for one."""
    for line in table.splitlines():
        if "->" not in line:
            _number, kind, _advice, mode, pid, place, first, _last = line.split()
            major, minor, inode = place.split(":")
            yield _Lock(kind, mode == "WRITE", int(pid), (int(major, 16), int(minor, 16)), int(inode), int(first))


def _look(pid: int) -> Holder:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return Holder(pid, gone=True)
    state = stat.rpartition(")")[2].split()[0]
    return Holder(pid, stopped=state in STOPPED, gone=state in "ZX")
