"""Which process holds a lock of a board: for a message about a writer that keeps others waiting.

Linux lists all file locks in `/proc/locks`; elsewhere nothing is known. Asking the lock itself (`F_GETLK`) would need a
descriptor of a file that SQLite has open, and closing that descriptor would drop SQLite's own locks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOCKS = Path("/proc/locks")
WRITE_LOCK_BYTE = "120"
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
    return _holder(Path(f"{board}-shm"), "POSIX", WRITE_LOCK_BYTE)


def of_gate(gate: Path) -> Holder | None:
    """The process that has the gate."""
    return _holder(gate, "FLOCK", "0")


def _holder(file: Path, kind: str, first_byte: str) -> Holder | None:
    try:
        seen = file.stat()
        table = LOCKS.read_text(encoding="ascii", errors="replace")
        found = dict(_owners(table, kind, first_byte, seen.st_ino))
    except (OSError, ValueError):  # there is no such table, or it has another form
        return None
    # A file system may show another device to `stat` than to the table of locks; the inode then has to do.
    pid = found.get((os.major(seen.st_dev), os.minor(seen.st_dev)), next(iter(found.values()), 0))
    return _look(pid) if pid > 0 else None


def _owners(table: str, kind: str, first_byte: str, inode: int) -> Iterator[tuple[tuple[int, int], int]]:
    """The device and the process of each exclusive lock on the inode that covers the byte; who waits is not one."""
    for line in table.splitlines():
        parts = line.split()
        if len(parts) < 8 or parts[1] != kind or parts[3] != "WRITE" or parts[6] != first_byte:  # noqa: PLR2004 - columns
            continue
        major, minor, number = parts[5].split(":")
        if int(number) == inode:
            yield (int(major, 16), int(minor, 16)), int(parts[4])


def _look(pid: int) -> Holder:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return Holder(pid, gone=True)
    state = stat.rpartition(")")[2].split()[0]
    return Holder(pid, stopped=state in STOPPED, gone=state in "ZX")
