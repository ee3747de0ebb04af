"""Keep the board safe and sound: see how it is, back it up, restore it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from agentmesh.cli import errors
from agentmesh.cli.command import BOARD_VARIABLE, App, command, interruptible
from agentmesh.cli.params import agent_option
from agentmesh.cli.progress import shown
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import instant, place, size
from agentmesh.documents import document
from agentmesh.upkeep import Backup, Observation, Restored, Verdict

STYLES: dict[Verdict, str] = {"ok": "green", "warning": "yellow", "error": "bold red"}


@command()
@click.option("--deep", is_flag=True, help="Let SQLite look at every page, too.")
@click.pass_obj
def doctor(app: App, *, deep: bool) -> int:
    """See how the board is, also one that cannot be opened; nothing is changed."""
    from agentmesh.board.facade import Board

    found = app.find()
    seen = Board.examine(found.target, deep=deep)
    ill = any(one.verdict == "error" for one in seen)
    app.answer(
        {"ok": not ill, "board": place(found.target), "observations": [document(one) for one in seen]},
        lambda screen: _show_health(screen, found.target, seen, quiet=app.quiet),
    )
    return errors.VIOLATED if ill else errors.OK


def _show_health(screen: Screen, target: str, seen: list[Observation], *, quiet: bool) -> None:
    """Everything looked at, then what to do about what is not well; quietly, only that."""
    if not quiet:
        screen.copyable(place(target))
    rows: list[list[Part]] = [
        [one.name.removesuffix("_bytes").removesuffix("_us").replace("_", " "), _value(one), _verdict(one)]
        for one in seen
        if not quiet or one.verdict != "ok"
    ]
    if rows:
        screen.table([Column("WHAT"), Column("VALUE", wraps=True), Column("VERDICT")], rows)
    for one in seen:
        if one.hint:
            screen.named(f"{one.name.replace('_', ' ')}: ", one.hint)


def _verdict(one: Observation) -> Part:
    return (one.verdict, STYLES[one.verdict])


def _value(one: Observation) -> str:
    if isinstance(one.value, bool):
        return "yes" if one.value else "no"
    if isinstance(one.value, str):
        return one.value
    if one.name.endswith("_us"):
        return instant(one.value)
    return size(one.value) if one.name.endswith("_bytes") else str(one.value)


@command()
@click.argument("path")
@click.pass_obj
def backup(app: App, path: str) -> None:
    """Copy the board as it is now into a new file, while agents work on."""
    with app.open() as board, interruptible():
        made = board.backup(path)
    app.answer(
        document(made) | {"path": place(made.path)},
        lambda screen: None if app.quiet else _show_backup(screen, made),
    )


def _show_backup(screen: Screen, made: Backup) -> None:
    screen.copyable("Backed up to ", (place(made.path), "bold"))
    screen.line(f"{size(made.size)}, verified; up to event {made.last_seq}, {instant(made.at_us)}.")
    screen.line(("It holds the secrets of open leases: keep it as private as the board.", "dim"))


@command()
@click.argument("backup", metavar="BACKUP")
@agent_option()
@click.pass_obj
def restore(app: App, backup: str, agent: str) -> None:
    """Put BACKUP in the place of the board that --board names; the board of before is kept."""
    from agentmesh.board.facade import Board

    named = app.board or os.environ.get(BOARD_VARIABLE)
    if not named:  # a board that a restore before has moved away is not found, and one further up might be
        raise click.UsageError("Name the board: --board PATH.")
    target = named if "://" in named else str(Path(named).absolute())
    with interruptible(), shown(quiet=app.quiet) as progress:
        made = Board.restore(backup, target, agent_id=agent, progress=progress and partial(progress, "copy"))
    paths = {name: place(path) for name in ("path", "backup", "replaced") if (path := getattr(made, name))}
    app.answer(document(made) | paths, lambda screen: None if app.quiet else _show_restored(screen, made))


def _show_restored(screen: Screen, made: Restored) -> None:
    screen.copyable("Restored the board ", (place(made.path), "bold"))
    until = f"up to event {made.last_seq}" + (f", {instant(made.at_us)}" if made.at_us is not None else "")
    screen.line(f"{size(made.size)}, verified; schema {made.schema}; {until}.")
    if made.replaced:
        screen.copyable("The board of before: ", place(made.replaced))
    screen.line("Next: agentmesh doctor --deep.")
