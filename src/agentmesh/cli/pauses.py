"""Stop and start the handing out of tasks: of the board, a plan, a task, or to an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import given
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import instant
from agentmesh.documents import document


def _scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """A plan, an agent, a task, or none of them for the whole board; AGENTMESH_AGENT is no answer to this."""
    for option in (
        click.option("--task", "task_id", metavar="ID", help="Only this task."),
        click.option("--agent", metavar="NAME", help="Only hand-outs to this agent."),
        click.option("--plan", metavar="NAME", help="Only tasks of this plan."),
    ):
        function = option(function)
    return function


@command()
@_scope
@click.option("--until", metavar="TIME", help="The pause ends by itself at this time, as RFC 3339.")
@click.option("--reason", metavar="TEXT", default="", help="Why; status shows it.")
@click.pass_obj
def pause(app: App, /, **how: object) -> None:
    """Hand out no more tasks; running attempts go on."""
    with app.open() as board:
        made = board.pause(**given(how))

    def people(screen: Screen) -> None:
        if not app.quiet:
            until = "" if made.until_us is None else f" until {instant(made.until_us)}"
            screen.line(f"Paused: {_name(how)}{until}. Running attempts go on.")

    app.answer(document(made), people)


@command()
@_scope
@click.pass_obj
def unpause(app: App, /, **how: object) -> None:
    """Hand out tasks again."""
    with app.open() as board:
        changed = board.resume(**given(how))

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line(f"{'Resumed' if changed else 'It was not paused'}: {_name(how)}.")

    app.answer({"resumed": changed}, people)


def _name(how: dict[str, object]) -> str:
    if how["plan"] is not None:
        return f"plan {how['plan']!r}"
    if how["task_id"] is not None:
        return f"task {how['task_id']!r}"
    return f"agent {how['agent']!r}" if how["agent"] is not None else "the board"
