"""Plan files: a whole graph of tasks put on the board, again and again without harm."""

from __future__ import annotations

import click

from agentmesh.cli.command import App, group
from agentmesh.cli.params import agent_option
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import count
from agentmesh.documents import document
from agentmesh.model import Json, PlanReport


@group()
def plan() -> None:
    """Put the tasks of a plan file on the board."""


@plan.command("apply")
@click.argument("file")
@agent_option()
@click.pass_obj
def apply(app: App, file: str, agent: str) -> None:
    """Create or update the tasks of FILE (.json or .toml; - reads JSON from stdin).

    Tasks are known by their ids, so applying a file twice changes nothing.
    """
    from agentmesh.cli.plan_file import read_plan

    wanted = read_plan(file)
    with app.open() as board:
        report = board.apply_plan(wanted, agent_id=agent)
    always: dict[str, Json] = {"created": [], "updated": [], "unchanged": []}
    app.answer(always | document(report), lambda screen: None if app.quiet else show_report(screen, report))


def show_report(screen: Screen, report: PlanReport) -> None:
    """What applying the file changed."""
    sizes = (len(report.created), len(report.updated), len(report.unchanged))
    screen.line(f"Plan {report.plan!r}: {count(sizes[0], 'task')} created, {sizes[1]} updated, {sizes[2]} unchanged.")
