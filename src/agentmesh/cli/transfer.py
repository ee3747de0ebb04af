"""A board as a text file, and a new board from one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from agentmesh.cli.boards import room
from agentmesh.cli.command import BOARD_VARIABLE, App, command, interruptible
from agentmesh.cli.params import agent_option
from agentmesh.cli.progress import shown
from agentmesh.cli.screen import Screen
from agentmesh.cli.streams import input_bytes, need_output
from agentmesh.cli.text import count, instant, place
from agentmesh.documents import document
from agentmesh.upkeep import Export, Import

STREAM = "-"


@command()
@click.argument("file", default=STREAM)
@click.option("--events", is_flag=True, help="Write the history, too; an import does not take it over.")
@click.option("--force", is_flag=True, help="Let FILE take the place of one that is there.")
@click.pass_obj
def export(app: App, file: str, *, events: bool, force: bool) -> None:
    """Write the board as it is now to FILE as JSON Lines (-, the default: to standard output)."""
    if file == STREAM and app.json:
        raise click.UsageError("With --json, standard output is the document's: name a file.")
    if file == STREAM:
        need_output("the export")
    with interruptible(), app.open() as board, shown(quiet=app.quiet) as progress:
        target = sys.stdout.buffer if file == STREAM else file
        made = board.export(target, events=events, replace=force, progress=progress)
    if file == STREAM:
        sys.stdout.buffer.flush()
        return
    path = str(Path(file).absolute())
    app.answer(
        {"path": place(path)} | document(made),
        lambda screen: None if app.quiet else _tell_export(screen, path, made),
    )


@command("import")
@click.argument("file")
@agent_option()
@click.pass_obj
def import_(app: App, file: str, agent: str) -> None:
    """Make a new board from the export in FILE (- reads standard input); --board says where."""
    from agentmesh.board.facade import Board

    named = app.board or os.environ.get(BOARD_VARIABLE)
    if not named:
        raise click.UsageError("Name the new board: --board PATH.")
    target = named if "://" in named else str(Path(named).absolute())
    source = input_bytes("FILE -") if file == STREAM else file
    with interruptible(), room(target), shown(quiet=app.quiet) as progress:
        made = Board.import_board(source, target, agent_id=agent, progress=progress)
    app.answer(
        {"reclaimed": []} | document(made) | {"board": place(target)},
        lambda screen: None if app.quiet else _tell_import(screen, target, made),
    )


def _tell_export(screen: Screen, path: str, made: Export) -> None:
    screen.copyable("Exported to ", (place(path), "bold"))
    screen.line(f"{_amounts(made.rows)}, as of {instant(made.at_us)}.")


def _tell_import(screen: Screen, target: str, made: Import) -> None:
    screen.copyable("Made the board ", (place(target), "bold"))
    screen.line(f"{_amounts(made.rows)}, as of {instant(made.at_us)}; every promise was checked.")
    if made.reclaimed:
        screen.line(f"Taken back from agents of then: {count(len(made.reclaimed), 'task')}.")
    if made.events_ignored:
        screen.line((f"The history in the file ({count(made.events_ignored, 'event')}) stays there.", "dim"))


def _amounts(rows: Mapping[str, int]) -> str:
    return f"{count(rows['task'], 'task')}, {rows['usage']} in the ledger, {rows['entry']} on the blackboard"
