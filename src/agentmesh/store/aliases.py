"""One board under two names: SQLite keeps a log and locks for each name, so what is written by one name is lost.

A symbolic link is no second name: it is followed to the file. Neither is a folder that is mounted in two places: the
log is in the folder, and the locks belong to the file.
"""

from __future__ import annotations

from pathlib import Path

from agentmesh.errors import AliasedBoard
from agentmesh.store.filesystem import NO_MOUNT, Mount
from agentmesh.store.unfinished import finish_naming

MOUNT_FOLDER = "Mount the folder that holds the board, never the file itself; then open the board in that folder."


def refuse_aliased(path: Path, mount: Mount) -> None:
    """Refuse an existing board file that has, or may have, a second name.

    Raises:
        AliasedBoard: it has hard links, or the file itself is a mount point.
    """
    if is_mount_point(path, mount):
        raise AliasedBoard(f"The file {path} is a mount point: it has another name elsewhere.", hint=MOUNT_FOLDER)
    if (links := hard_links(path)) > 1:
        raise AliasedBoard(f"The file {path} has {links} names (hard links).")


def hard_links(path: Path) -> int:
    """How many names a file has; that of a draft whose maker was killed while it named the file is removed first."""
    links = path.stat().st_nlink
    if links == 1:
        return links
    drafts = finish_naming(path)
    return path.stat().st_nlink - drafts


def is_mount_point(path: Path, mount: Mount) -> bool:
    """Whether the file itself is mounted at its place; `mount` is the deepest one that `path` is on.

    Without a mount table another device than the folder's says so. With one it does not: an overlay reports files and
    folders under different devices.
    """
    if mount == NO_MOUNT:
        return path.stat().st_dev != path.parent.stat().st_dev
    return mount.point == str(path)
