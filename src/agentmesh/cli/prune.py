"""Take away what ended long ago."""

from __future__ import annotations

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import Age, agent_option, given
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import count
from agentmesh.documents import document
from agentmesh.model import PruneReport


@command()
@click.option("--plan", metavar="NAME", help="Only tasks of this plan.")
@click.option("--older-than", "older_than_sec", type=Age(), help="What ended longer ago, whatever its plan keeps.")
@click.option("--events-older-than", "events_older_than_sec", type=Age(), help="Another age for the history.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@agent_option("agent_id")
@click.pass_obj
def prune(app: App, /, **how: object) -> None:
    """Take away tasks that ended long ago, and old history.

    Without --older-than, tasks go that ended longer ago than their plan keeps them (retention_sec in its file). An AGE
    is 30d, 12h, 90min or 45s. Ids are not given again, and the totals of the ledger stay.
    """
    with app.open() as board:
        report = board.prune(**given(how))
    always = {"dry_run": report.dry_run, "plans": {}}
    app.answer(always | document(report), lambda screen: None if app.quiet else _tell(screen, report))


def _tell(screen: Screen, report: PruneReport) -> None:
    parts = [count(number, noun) for number, noun in ((report.tasks, "task"), (report.events, "event")) if number]
    if report.entry_tombstones:
        parts.append(f"{count(report.entry_tombstones, 'tombstone')} of entries")
    if not parts:
        screen.line("Nothing is old enough.")
        return
    screen.line(f"{'Would prune' if report.dry_run else 'Pruned'} {', '.join(parts)}.")
    if len(report.plans) > 1:
        for plan, number in sorted(report.plans.items()):
            screen.line(f"  {plan}: {count(number, 'task')}")
