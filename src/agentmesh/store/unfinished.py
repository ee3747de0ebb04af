"""A new file that gets its name only when it is whole and on the disk; until then its name says `unfinished`.

A link gives it its own: unlike a rename, it never takes the place of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from agentmesh.clock import Chance
from agentmesh.errors import BoardExists, InvalidArgument, UnsupportedFileSystem
from agentmesh.model import Micros
from agentmesh.store import drafts
from agentmesh.store.base import StoreOptions
from agentmesh.store.filesystem import mount_of, refuse_unsupported
from agentmesh.store.sqlite_errors import of_system, translated

SIDE_FILES = ("-journal", "-wal", "-shm")
NO_LINKS = frozenset({errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
NEVER_OVER = "Name a file that is not there; a new one never takes the place of anything."
LOST_LOG = "Make sure that no process has the lost board open, then move these files away or bring the board back."
LOCAL_FIRST = "Make it on a local disk, then copy the finished file to where you want it."


class NoHardLinks(UnsupportedFileSystem):
    """The file system, or the system, does not let a file have two names, not even for a moment."""


def free_place(path: Path, options: StoreOptions) -> Path:
    """Where a new board will be, if nothing is there and a board may be.

    Raises:
        BoardExists: the file, or a log of its name, is there.
        InvalidArgument: its folder is not.
        UnsupportedFileSystem: no board can live in that folder.
    """
    folder = Path(os.path.realpath(path.parent))
    place = folder / path.name
    if not folder.is_dir():
        raise InvalidArgument("path", f"the folder {str(folder)!r} does not exist")
    if os.path.lexists(place):
        raise BoardExists(f"{place} is there already.", hint=NEVER_OVER)
    refuse_side_files(place, hint=NEVER_OVER)
    refuse_unsupported(place, mount_of(place, options.mounts), hint=LOCAL_FIRST)
    return place


def refuse_side_files(place: Path, *, hint: str = LOST_LOG) -> None:
    """Refuse to make a file beside the log of an earlier one: SQLite would take the log for its own.

    Raises:
        BoardExists: such a log, or its index, is there.
    """
    for end in SIDE_FILES:
        if os.path.lexists(f"{place}{end}"):
            raise BoardExists(f"{place}{end} is there already.", hint=hint)


def free_name(board: Path, words: str, end: str = "") -> Path:
    """A name beside a board, made of its own and some `words`, that no file has; it is counted up until it is free."""
    names = (f"{board.name}.{words}{f'-{number}' if number > 1 else ''}{end}" for number in count(1))
    places = (board.with_name(name) for name in names)
    return next(place for place in places if not any(os.path.lexists(f"{place}{side}") for side in ("", *SIDE_FILES)))


def stamp(at_us: Micros) -> str:
    """An instant as a part of a file's name, to the second."""
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y%m%dT%H%M%SZ")


@contextlib.contextmanager
def unfinished(target: Path, chance: Chance) -> Iterator[Path]:
    """A name beside the target's; if the body fails, whatever has it goes, and before, what killed processes left."""
    drafts.clear(target.parent)
    with drafts.named(target, chance) as place:
        try:
            yield place
        except BaseException:
            with contextlib.suppress(OSError):  # the error on its way says what is wrong
                drafts.remove(place)
            raise


def resemble(fd: int, model: os.stat_result) -> None:
    """Give a new, empty file the owner, group and mode of another, so that its users are the same.

    Where the system does not let this user give it away, it stays this user's own, and private.
    """
    if os.name != "posix":  # pragma: no cover - rights are not kept in a mode there
        return
    mine = os.fstat(fd)
    if (mine.st_uid, mine.st_gid) != (model.st_uid, model.st_gid):
        try:
            os.fchown(fd, model.st_uid, model.st_gid)
        except PermissionError:
            return
    os.fchmod(fd, stat.S_IMODE(model.st_mode))


def give_name(place: Path, target: Path, reached: Callable[[str], None]) -> None:
    """Let a finished and synced file have its name, durably."""
    reached("link")
    link_file(place, target)
    try:
        reached("linked")
        with translated(target):
            place.unlink(missing_ok=True)  # whoever opened the file in the meantime has removed it
            sync_folder(target.parent)
    except BaseException:
        target.unlink()
        raise


def finish_naming(target: Path) -> int:
    """Remove the unfinished names that a file still has because its maker ended between `link` and `unlink`.

    Returns:
        How many of them this user may not remove. They do no harm: no board is opened by such a name while it has
        another one.
    """
    file = target.stat()
    names = [name for name in drafts.of(target) if _is(name, file)]
    left = sum(not _removed(name) for name in names)
    if left < len(names):
        sync_folder(target.parent)
    return left


def _is(name: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(name.lstat(), file)
    except FileNotFoundError:
        return False


def _removed(name: Path) -> bool:
    try:
        name.unlink(missing_ok=True)
    except OSError as error:
        if error.errno not in NOT_ALLOWED:
            raise
        return False
    return True


def link_file(place: Path, target: Path) -> None:
    """Give a file a second name.

    Raises:
        BoardExists: the name is taken.
        UnsupportedFileSystem: no file has two names there.
    """
    try:
        os.link(place, target)
    except FileExistsError as error:
        raise BoardExists(f"{target} is there already.", hint=NEVER_OVER) from error
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise of_system(error, target) from error
        message = f"The file system under {target} cannot give a file a second name, as a new file needs."
        raise NoHardLinks(message, hint=LOCAL_FIRST) from error


def sync_file(path: Path) -> None:
    """Make what a file holds durable; no connection of this process may have it open, for closing drops the locks."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where the file system and the rights of this user let a folder be synced."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        os.close(fd)
