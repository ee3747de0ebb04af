"""The board itself: make one, see which one is meant, check its promises."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import click

from agentmesh.cli import errors
from agentmesh.cli.command import BOARD_VARIABLE, App, command
from agentmesh.cli.discover import FILE, HOME, discover
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import place
from agentmesh.documents import document
from agentmesh.errors import BoardExists, BoardNotFound, DiskFull, InvalidArgument
from agentmesh.model import Finding

IGNORE = ".gitignore"
FULL = (errno.ENOSPC, errno.EDQUOT)
SOURCES = {
    "option": "named by --board",
    "environment": f"named by {BOARD_VARIABLE}",
    "discovered": "the nearest one above this folder",
    "main checkout": "the main checkout's: this git worktree has none of its own",
}


@command()
@click.argument("path", required=False)
@click.pass_obj
def init(app: App, path: str | None) -> None:
    """Make a new board: .agentmesh/board.db in this folder, or PATH."""
    target = _new_place(app, path)
    make_board(target)
    app.answer(
        {"board": target, "created": True},
        lambda screen: None if app.quiet else _tell_made(screen, target),
    )


def _new_place(app: App, path: str | None) -> str:
    """Where the board shall be; without a word about it, not in the shadow of one that is in use."""
    named = path or app.board or os.environ.get(BOARD_VARIABLE)
    if named:
        return named if "://" in named else str(Path(named).absolute())
    try:
        found = discover(Path.cwd())
    except BoardNotFound:
        return str(Path.cwd() / HOME / FILE)
    raise BoardExists(
        f"This folder already uses the board {place(found.target)!r}.",
        hint=f"Use that board, or name another: `agentmesh init {HOME}/{FILE}`.",
    )


def make_board(target: str) -> None:
    """Make a board where none is.

    Raises:
        BoardExists: something is there already.
        InvalidArgument: the folder does not exist, and is not one of our own.
    """
    from agentmesh.board.facade import Board

    with room(target):
        Board.open(target, create=True).close()


@contextlib.contextmanager
def room(target: str) -> Iterator[None]:
    """A place for a new board: refuse what is there, make the folder of our own; if no board comes of it, it goes."""
    if "://" in target:
        yield
        return
    board = Path(target)
    _refuse_occupied(board)
    home = board.parent
    if home.name != HOME and not home.is_dir():
        raise InvalidArgument("path", f"the folder {place(str(home))!r} does not exist")
    made = not home.exists()
    try:
        if home.name == HOME:
            _make_home(home)
        yield
    except BaseException:
        if made:
            with contextlib.suppress(OSError):  # somebody else uses it by now
                (home / IGNORE).unlink(missing_ok=True)
                home.rmdir()
        raise


def _refuse_occupied(board: Path) -> None:
    """Refuse a place where something is; a database without a table is nothing, a failed creation leaves it."""
    if os.path.lexists(board):
        if not _is_vacant(board):
            raise BoardExists(f"{place(str(board))!r} is there already.")
        return
    for log in (board.with_name(board.name + end) for end in ("-wal", "-journal")):
        if os.path.lexists(log):
            raise BoardExists(f"{place(str(log))!r} is there already.")


def _is_vacant(board: Path) -> bool:
    from agentmesh.board.facade import Board

    if not board.is_file():
        return False
    try:
        Board.examine(str(board))
    except BoardNotFound:
        return True
    return False


def _make_home(home: Path) -> None:
    """Make the folder of our own and keep it out of git; half a list of what git ignores would not."""
    ignore = home / IGNORE
    try:
        home.mkdir(mode=0o700, exist_ok=True)
        if not ignore.exists():
            try:
                ignore.write_text("# A board is local to its machine.\n*\n")
            except BaseException:
                ignore.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise DiskFull(f"No space is left for the folder {place(str(home))!r}.") from error


def _tell_made(screen: Screen, target: str) -> None:
    screen.copyable("Made the board ", (place(target), "bold"))
    screen.line("Next: agentmesh add TITLE, agentmesh plan apply FILE, or agentmesh run for agents.")


@command()
@click.pass_obj
def where(app: App) -> None:
    """Say which board a command here would use, and why that one."""
    app.quiet = True  # the answer itself names the board
    found = app.find()
    there = "://" in found.target or Path(found.target).is_file()

    def people(screen: Screen) -> None:
        screen.copyable(place(found.target))
        screen.line((f"  {SOURCES[found.source]}", "dim"))
        if not there:
            screen.line("  It does not exist yet; make it with `agentmesh init`.")

    shown = place(found.target)
    app.answer({"board": shown, "source": found.source.replace(" ", "_"), "exists": there}, people)


@command()
@click.pass_obj
def check(app: App) -> int:
    """Check that the board keeps its promises, as far as its rows can show."""
    with app.open() as board:
        findings = board.check()
    violated = any(finding.verdict == "violated" for finding in findings)
    app.answer(
        {"ok": not violated, "findings": [document(finding) for finding in findings]},
        lambda screen: show_findings(screen, findings, quiet=app.quiet),
    )
    return errors.VIOLATED if violated else errors.OK


def show_findings(screen: Screen, findings: list[Finding], *, quiet: bool = False) -> None:
    """The promises and what was found of each."""
    style = {"held": "green", "violated": "bold red", "not observable": "dim"}
    rows: list[list[Part]] = [
        [f.promise, (f.verdict, style[f.verdict]), "; ".join(f.details)]
        for f in findings
        if not quiet or f.verdict == "violated"
    ]
    if rows:
        screen.table([Column("PROMISE"), Column("VERDICT"), Column("DETAILS", wraps=True)], rows)
