"""Names for files in the making, and what becomes of those whose process was killed.

A draft holds all that its board holds, secrets of open leases among it. It must not stay for ever once its maker is
gone, and nobody may delete it while its maker lives, perhaps in another container, where its process cannot be seen. A
lock tells: beside each draft is a file `DRAFT.lock`, and its maker holds an flock on it from before the draft is there
until after it is gone. The system releases it with the process. It is a file of its own because SQLite opens the draft:
whoever closes another descriptor of such a file drops SQLite's locks on it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agentmesh.clock import ALPHABET, Chance, word
from agentmesh.model import Micros

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock: drafts of killed processes stay there
    fcntl = None  # type: ignore[assignment]  # the module is optional on that platform

MARK: Final = ".unfinished-"
LETTERS: Final = 8
LOCK: Final = ".lock"
GATE: Final = ".gate"
LOGS: Final = ("-wal", "-shm")
SIDES: Final = ("", "-journal", *LOGS, GATE)
NAME: Final = re.compile(rf"(?P<draft>.+{re.escape(MARK)}[{ALPHABET}]{{{LETTERS}}})({re.escape(LOCK)})?", re.DOTALL)


class Draft(NamedTuple):
    """A file or a folder in the making whose maker is gone, or of whose maker nothing is known."""

    place: Path
    size: int
    at_us: Micros


@contextlib.contextmanager
def named(target: Path, chance: Chance) -> Iterator[Path]:
    """A name for the draft of `target`, beside it, locked until the body ends; the body sees to the file itself.

    Where no lock can be had (the folder takes no files: then it takes no draft either) the name is not locked.
    """
    place, lock = _name(target, chance), None
    with contextlib.suppress(OSError):
        while fcntl and (lock := _lock(place)) is None:
            place = _name(target, chance)
    try:
        yield place
    finally:
        if lock is not None:
            with contextlib.suppress(OSError):
                Path(f"{place}{LOCK}").unlink()
            os.close(lock)


@contextlib.contextmanager
def folder(target: Path, chance: Chance) -> Iterator[Path]:
    """A folder of this user's own for drafts, beside `target`; it goes in the end with all that is in it."""
    with named(target.with_name(f".{target.name}"), chance) as place:
        place.mkdir(mode=0o700)
        try:
            yield place
        finally:
            shutil.rmtree(place)


def clear(place: Path) -> None:
    """Delete the drafts in a folder whose makers are gone; those that this user may not delete stay."""
    for draft in set(_names(place)):
        lock = Path(f"{draft}{LOCK}")
        with contextlib.suppress(OSError), _held(lock) as dead:
            if dead and not _opened(draft):
                remove(draft)
                lock.unlink(missing_ok=True)


def of(target: Path) -> Iterator[Path]:
    """The drafts of one file, by their names."""
    begin = f"{target.name}{MARK}"
    return (draft for draft in set(_names(target.parent)) if draft.name.startswith(begin))


def remove(draft: Path) -> None:
    """Delete a draft and what SQLite has put beside it."""
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft)
        return
    for end in SIDES:
        Path(f"{draft}{end}").unlink(missing_ok=True)


def abandoned(place: Path) -> list[Draft]:
    """The drafts in a folder that no live process is known to make; none is changed."""
    found = []
    for draft in sorted({draft for draft in _names(place) if os.path.lexists(draft)}):
        with contextlib.suppress(OSError), _held(Path(f"{draft}{LOCK}")) as dead:
            if dead is not False:
                found.append(Draft(draft, _size(draft), Micros(draft.lstat().st_mtime_ns // 1000)))
    return found


def _name(target: Path, chance: Chance) -> Path:
    return target.with_name(f"{target.name}{MARK}{word(chance, LETTERS)}")


def _lock(place: Path) -> int | None:
    """Make the lock file of a name and take the lock; its descriptor, or None if the name is taken.

    It may be taken in between by a process that clears the folder and finds a lock that nobody holds.
    """
    path = Path(f"{place}{LOCK}")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        return None
    try:
        if _free(fd) and os.path.samestat(os.fstat(fd), path.lstat()):
            return fd
    except FileNotFoundError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)
    return None


@contextlib.contextmanager
def _held(lock: Path) -> Iterator[bool | None]:
    """Whether a lock was free, and is held meanwhile; None where there is none, or another user's."""
    if not fcntl:  # pragma: no cover - see above
        yield None
        return
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, PermissionError):
        yield None
        return
    try:
        yield _free(fd)
    finally:
        os.close(fd)


def _free(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _names(place: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for name in os.listdir(place):  # noqa: PTH208 - a folder may be large, and each new board looks into one
            if MARK in name and (found := NAME.fullmatch(name)):
                yield place / found["draft"]


def _opened(draft: Path) -> bool:
    """Whether somebody has opened a draft as a board: then it is a draft no more, whatever its name is."""
    return os.path.lexists(f"{draft}{GATE}") and any(os.path.lexists(f"{draft}{end}") for end in LOGS)


def _size(draft: Path) -> int:
    found = draft.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return found.st_size
    return sum(file.lstat().st_size for file in draft.rglob("*"))
