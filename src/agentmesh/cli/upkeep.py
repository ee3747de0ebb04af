"""Keep the board safe and sound: see how it is, back it up."""

from __future__ import annotations

import click

from agentmesh.cli import errors
from agentmesh.cli.command import App, command, interruptible
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import instant, place, size
from agentmesh.documents import document
from agentmesh.upkeep import Backup, Observation, Verdict

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
