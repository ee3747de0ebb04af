"""What a doctor sees of a SQLite board: the library, the file and its place from outside, pages and settings inside.

Nothing is written, and the file is opened by SQLite alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import apsw

from agentmesh.errors import AliasedBoard
from agentmesh.store import migrate
from agentmesh.store.aliases import MOUNT_FOLDER, hard_links, is_mount_point
from agentmesh.store.base import StoreOptions
from agentmesh.store.drafts import abandoned
from agentmesh.store.files import GATE
from agentmesh.store.filesystem import mount_of, why_unsupported
from agentmesh.store.holders import of_gate, of_write_lock
from agentmesh.store.observations import judged
from agentmesh.store.sqlite_log import lost_commits
from agentmesh.store.sqlite_open import ENGINE, LOG_LIMIT, SYNCHRONOUS
from agentmesh.store.sqlite_texts import some
from agentmesh.upkeep import Observation

FIXED = (3, 51, 3)
BACKPORTED = ((3, 44, 6), (3, 50, 7))
"""The older lines in which the WAL-reset bug is fixed as well."""
LEAST_FREE = 2 * LOG_LIMIT
PROBLEMS = 5
OTHERS = 0o077
OTHERS_WRITE = 0o022

RESET = "Install apsw as its authors build it; an older SQLite may damage a log that many processes share."
MOVE = "Move the board to a local disk."
CLOSE = "Take it from others with chmod 600, and the -wal file beside it: it holds the secrets of leases."
CLOSE_FOLDER = "Let nobody else write to the folder (chmod go-w): whoever can, can replace the board."
LONG_LOG = "Look for a reader that never ends; once it is gone, the next writes shorten the log."
CLEAR = (
    "Processes that were killed left them, with secrets of leases in them. The next backup, export or import in this "
    "folder deletes those that it can tell from live ones; delete the others by hand when no AgentMesh runs."
)
ROOM = "Delete other files: a log of many writers may take 64 MiB, and a board without room takes no writes."
OTHER_SETTING = "Report it: AgentMesh opened this board and did not get what it set."
CONTINUE = "Let this process go on (`kill -CONT`), or end it: others wait for it at each write."
RESTORE = "Stop all agents and restore a backup with `agentmesh restore`."
TORN = "A power cut may have torn a write that nobody was told of; if there was no power cut, check the disk."
LOST = (
    "The log is damaged, or the power failed under durability=normal: what was committed behind that place is lost. "
    "Check the disk, and restore a backup if it is newer than the board now is."
)
LOST_TEXTS = f"{RESTORE} A task of which only the body is damaged can be cancelled: then claims pass it over."


def library() -> list[Observation]:
    """Which SQLite this process has, and whether it may damage a log."""
    version = apsw.sqlite_lib_version()
    fixed = reset_fixed(version)
    return [
        Observation("sqlite", f"{version} (apsw {apsw.apsw_version()})"),
        judged("wal_reset_fixed", fixed, fixed, RESET, else_="warning"),
    ]


def reset_fixed(version: str) -> bool:
    """Whether this SQLite is known to have the fix; a distribution may have put it into an older one."""
    found = tuple(int(part) for part in version.split("."))
    return found >= FIXED or any(fixed <= found < (fixed[0], fixed[1] + 1) for fixed in BACKPORTED)


def outside(path: Path, options: StoreOptions) -> list[Observation]:
    """What can be seen of a board without opening it, as far as this user may look."""
    real = Path(os.path.realpath(path))
    found: list[Observation] = []
    with contextlib.suppress(OSError):
        found.extend(_seen(real, options))
    for name, holder in (("gate_holder", of_gate(Path(f"{real}{GATE}"))), ("writer", of_write_lock(real))):
        if holder:
            found.append(judged(name, str(holder), not holder.idle, CONTINUE, else_="warning"))
    return found


def _seen(path: Path, options: StoreOptions) -> Iterator[Observation]:
    mount = mount_of(path, options.mounts)
    yield judged("file_system", mount.kind or "not known here", not why_unsupported(mount.kind), MOVE)
    links, mounted = hard_links(path), is_mount_point(path, mount)
    yield judged("hard_links", links, links == 1, AliasedBoard.hint)
    yield judged("mount_point", mounted, not mounted, MOUNT_FOLDER)
    file = path.stat()
    yield Observation("file_bytes", file.st_size)
    log = Path(f"{path}-wal")
    length = log.stat().st_size if log.exists() else 0
    yield judged("log_bytes", length, length <= LOG_LIMIT, LONG_LOG, else_="warning")
    if os.name == "posix":
        mode, folder = stat.S_IMODE(file.st_mode), stat.S_IMODE(path.parent.stat().st_mode)
        yield judged("file_mode", f"{mode:04o}", not mode & OTHERS, CLOSE, else_="warning")
        yield judged("folder_mode", f"{folder:04o}", not folder & OTHERS_WRITE, CLOSE_FOLDER, else_="warning")
    yield from _abandoned(path.parent)
    free = shutil.disk_usage(path.parent).free
    yield judged("disk_free_bytes", free, free >= LEAST_FREE, ROOM, else_="warning")


def _abandoned(folder: Path) -> Iterator[Observation]:
    """What killed backups, exports and imports left beside the board: copies of boards, with the secrets of leases."""
    found = abandoned(folder)
    yield judged("unfinished_files", len(found), not found, CLEAR, else_="warning")
    if found:
        yield Observation("unfinished_bytes", sum(draft.size for draft in found))
        yield Observation("oldest_unfinished_us", min(draft.at_us for draft in found))


def inside(connection: apsw.Connection, options: StoreOptions) -> Iterator[Observation]:
    """The schema, the pages, and what a connection that may write is set to."""
    version, newest = int(connection.pragma("user_version")), migrate.newest(ENGINE)
    older = f"The next command upgrades it to schema {newest}, after a backup; an older AgentMesh then refuses it."
    yield judged("schema", version, version == newest, older, else_="warning")
    yield Observation("pages", int(connection.pragma("page_count")))
    yield Observation("free_pages", int(connection.pragma("freelist_count")))
    if not connection.readonly("main"):
        yield from _settings(connection, options)


def _settings(connection: apsw.Connection, options: StoreOptions) -> Iterator[Observation]:
    mode = str(connection.pragma("journal_mode"))
    yield judged("journal_mode", mode, mode == "wal", OTHER_SETTING)
    synchronous, wanted = int(connection.pragma("synchronous")), SYNCHRONOUS[options.durability]
    named = {number: name for name, number in SYNCHRONOUS.items()}
    yield judged("synchronous", named.get(synchronous, synchronous), synchronous == wanted, OTHER_SETTING)
    keys, stable = bool(connection.pragma("foreign_keys")), connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, -1)
    yield judged("foreign_keys", keys, keys, OTHER_SETTING)
    yield judged("stable_plans", bool(stable), bool(stable), OTHER_SETTING)


def deep(connection: apsw.Connection, path: Path) -> Iterator[Observation]:
    """A look at all that is in the board; on a large one it takes a while."""
    yield _log(path)
    yield _quick_check(connection)
    if int(connection.pragma("user_version")) == migrate.newest(ENGINE):  # an older board has other tables
        yield _texts(connection)


def _quick_check(connection: apsw.Connection) -> Observation:
    """SQLite's own look at every page."""
    found = "; ".join(row[0] for row in connection.execute(f"PRAGMA quick_check({PROBLEMS})"))
    return judged("quick_check", found, found == "ok", RESTORE)


def _log(path: Path) -> Observation:
    """What was committed and can no longer be read; it stands there until the log is written over."""
    lost = lost_commits(Path(f"{path}-wal"))
    return judged(
        "log_commits_lost", lost, not lost, TORN if lost == 1 else LOST, else_="warning" if lost == 1 else "error"
    )


def _texts(connection: apsw.Connection) -> Observation:
    """Every text of every table: SQLite does not look into them, and a row with a damaged one cannot be read."""
    found = "; ".join(str(one) for one in some(connection, PROBLEMS))
    return judged("texts", found or "ok", not found, LOST_TEXTS)
