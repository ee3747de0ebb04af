"""Damage in SQLite's write-ahead log: transactions that stand behind a frame whose checksum is wrong.

A checksum in the log covers all frames before it. Whoever opens the board reads up to the first one that is wrong, and
takes that for the end: after a power cut it is. So if a byte in the middle of the log changes, all that was committed
after it is gone, and nothing says so. But the frames are still there, until they are written over: with the salts of
this log, each with the checksum that follows from the one before, and some with the mark of a commit.

What a power cut tears, or a rolled back transaction leaves, looks alike but for the commits. With synced commits a
power cut can tear one transaction, the last; so one commit behind the end may be that, and more cannot.

The log is read by us; SQLite has its locks on other files, so closing it drops none. Others may write meanwhile, and a
frame that is half written looks damaged: only what is the same in two looks is told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

HEADER: Final = struct.Struct(">8I")
"""Magic, version, page size, count of checkpoints, two salts, two halves of the checksum."""
FRAME: Final = struct.Struct(">6I")
"""Page, size of the database after a commit (else 0), two salts, two halves of the checksum."""
MAGIC: Final = 0x377F0682
"""Its last bit says whether the words of checksums are big-endian."""
LOOKS: Final = 3
WORD: Final = 0xFFFFFFFF
PAGE_SIZES: Final = frozenset(1 << power for power in range(9, 17))
Sums = tuple[int, int]


class Tail(NamedTuple):
    """What stands behind the first frame of a log whose checksum is wrong."""

    salts: tuple[int, int]
    frame: int
    commits: int


def lost_commits(log: Path) -> int:
    """How many transactions of this log cannot be read because a frame before them is damaged; 0 without a log."""
    seen: Tail | None = None
    for _ in range(LOOKS):
        found = _look(log)
        if found is None or not found.commits:
            return 0
        if found == seen:
            return found.commits
        seen = found
    return 0  # it changes faster than it is read: what was seen were frames in the making


def _look(log: Path) -> Tail | None:
    """One look at the log; None if there is nothing in it to look at, or it began anew meanwhile."""
    try:
        with log.open("rb") as file:
            header = file.read(HEADER.size)
            found = _tail(file, header)
            file.seek(0)
            return found if file.read(HEADER.size) == header else None
    except FileNotFoundError:
        return None


def _tail(file: BinaryIO, header: bytes) -> Tail | None:
    if len(header) < HEADER.size:
        return None
    magic, _, page_size, _, *salts, high, low = HEADER.unpack(header)
    order = "<" if magic == MAGIC else ">"
    if magic & ~1 != MAGIC or page_size not in PAGE_SIZES or _sums(order, header[:24], (0, 0)) != (high, low):
        return None  # the log has no beginning: SQLite takes it for empty, and so it is after a power cut
    frames = _frames(file, page_size)
    sums = (high, low)
    for number, (head, page) in enumerate(frames, 1):
        told = FRAME.unpack(head)
        if told[2:4] != tuple(salts):
            return None  # the end: what follows is of the log before
        after = _sums(order, page, _sums(order, head[:8], sums))
        if after != told[4:]:
            return Tail((salts[0], salts[1]), number, _commits(frames, order, tuple(salts), told[4:]))
        sums = after
    return None


def _commits(frames: Iterator[tuple[bytes, bytes]], order: str, salts: tuple[int, ...], sums: Sums) -> int:
    """How many of the frames that follow are commits of this log: each continues the checksum of the one before."""
    commits = 0
    for head, page in frames:
        told = FRAME.unpack(head)
        if told[2:4] != salts:
            break
        commits += told[1] != 0 and _sums(order, page, _sums(order, head[:8], sums)) == told[4:]
        sums = told[4:]
    return commits


def _frames(file: BinaryIO, page_size: int) -> Iterator[tuple[bytes, bytes]]:
    while len(frame := file.read(FRAME.size + page_size)) == FRAME.size + page_size:
        yield frame[: FRAME.size], frame[FRAME.size :]


def _sums(order: str, data: bytes, sums: Sums) -> Sums:
    """SQLite's checksum, continued: two sums over pairs of words, each fed by the other."""
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & WORD
        second = (second + two + first) & WORD
    return first, second
