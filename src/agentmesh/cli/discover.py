"""Which board a command means: the one that was named, or the nearest one above the current folder.

Named means `--board`, else AGENTMESH_BOARD. Otherwise each folder from the current one upwards is
asked for `.agentmesh/board.db`, and the nearest wins. The walk ends at the root of the git worktree
(or of the file system), so a project never ends up on a stranger's board. A linked worktree that
has no board of its own shares the board of the main checkout: that is what agents in parallel
worktrees want.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from agentmesh.cli.text import place
from agentmesh.errors import BoardNotFound, InvalidArgument, ReadOnly

HOME: Final = ".agentmesh"
FILE: Final = "board.db"

Source = Literal["option", "environment", "discovered", "main checkout"]


@dataclass(frozen=True, slots=True)
class Found:
    """A board's place, and how it was chosen."""

    target: str
    source: Source


def find(option: str | None, environment: str | None, start: Path | None = None) -> Found:
    """Choose the board.

    Raises:
        BoardNotFound: none was named, and none is there above the current folder.
    """
    if option is not None:
        return Found(_named("--board", option), "option")
    if environment:
        return Found(_named("AGENTMESH_BOARD", environment), "environment")
    return discover(start or _current_folder())


def discover(start: Path) -> Found:
    """Walk up from `start` to the nearest board."""
    for folder, source in _places(start):
        if _is_file(board := folder / HOME / FILE):
            return Found(_trusted(board), source)
    raise BoardNotFound(f"No board was found in {place(str(start))!r} or above it.")


def _places(start: Path) -> Iterator[tuple[Path, Source]]:
    """The folders that may hold the board, nearest first."""
    for folder in (start, *start.parents):
        yield folder, "discovered"
        if (folder / ".git").exists():
            main = _main_checkout(folder / ".git")
            if main is not None and main != folder:
                yield main, "main checkout"
            return


def _main_checkout(git: Path) -> Path | None:
    """The main checkout that a linked worktree belongs to, read from its `.git` file."""
    if not git.is_file():
        return None
    try:
        private = git.parent / git.read_text().removeprefix("gitdir:").strip()
        common = private / (private / "commondir").read_text().strip()
        main = common.resolve().parent
    except (OSError, ValueError):  # a submodule, or nothing that git made
        return None
    return main if (main / ".git").exists() else None


def _named(by: str, target: str) -> str:
    if "://" in target:
        return target
    if not target:
        raise InvalidArgument(by, "the path is empty")
    if Path(target).is_dir():
        raise InvalidArgument(by, "this is a folder", hint=f"Name the file: DIR/{HOME}/{FILE}")
    return str(Path(target).absolute())


def _current_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise BoardNotFound("The current folder no longer exists.") from None


def _is_file(path: Path) -> bool:
    """Whether a board is there; one that may not be seen is an error, not an absence."""
    try:
        return path.is_file()
    except PermissionError:
        raise ReadOnly(f"{place(str(path))!r} may not be looked at.") from None


def _trusted(board: Path) -> str:
    """Refuse a board that another user may have planted on the way up."""
    if hasattr(os, "geteuid") and board.stat().st_uid != os.geteuid():
        raise BoardNotFound(
            f"The board {place(str(board))!r} belongs to another user, so it was not picked.",
            hint="If you trust it, name it with --board or AGENTMESH_BOARD.",
        )
    return str(board)
