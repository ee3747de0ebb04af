"""Look at the board: counts, causes, history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.money import Money, money_line, read_money, usage_document
from agentmesh.cli.params import given
from agentmesh.cli.records import event_parts
from agentmesh.cli.screen import STYLES, Column, Part, Screen
from agentmesh.cli.text import count, duration, instant
from agentmesh.documents import document
from agentmesh.errors import CursorExpired
from agentmesh.model import STATES, Explanation, PlanStatus, State, Status

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

CAUSE_STYLES = {
    "impossible": "bold red",
    "clock": "red",
    "lease_due": "red",
    "ready": "cyan",
    "in_progress": "yellow",
}
ENDING = ("clock", "scheduled", "storm", "budget", "paused")
"""Causes that pass by themselves, at an instant that is known."""


@command()
@click.pass_obj
def status(app: App) -> None:
    """Show how many tasks of each plan stand in each state, and what was used."""
    with app.open() as board:
        now, money = board.status(), read_money(board)
    whole = {"counts": {}, "plans": []} | document(now) | usage_document(money.total)
    app.answer(whole, lambda screen: show_status(screen, now, money))


def show_status(screen: Screen, status: Status, money: Money) -> None:
    """Counts by plan, what was used, pauses, and what time alone will change."""
    if not status.total:
        screen.line("The board is empty. Next: agentmesh add TITLE")
    else:
        used = [state for state in STATES if status.counts.get(state)]
        columns = [
            Column("PLAN"),
            *(Column(state, right=True) for state in used),
            Column("total", right=True),
        ]
        screen.table(columns, [_plan_row(plan, used) for plan in status.plans])
    if told := money_line(money):
        screen.line(*told)
    for pause in status.pauses:
        what = "the board" if pause.scope == "board" else f"{pause.scope} {pause.name}"
        why = f": {pause.reason}" if pause.reason else ""
        until = f" until {instant(pause.until_us)}" if pause.until_us is not None else ""
        screen.line((f"paused: {what}", "bold magenta"), f" since {instant(pause.since_us)}{until}{why}")
    listed = sum(pause.scope == "task" for pause in status.pauses)
    if status.paused_tasks > listed:
        screen.line((f"and {count(status.paused_tasks - listed, 'more paused task')}", "dim"))
    for plan in status.plans:
        if plan.storm_until_us is not None:
            left = duration(plan.storm_until_us - status.now_us)
            screen.line(
                (f"storm: plan {plan.plan}", "bold magenta"), f" pauses for {left} after infra and quota failures"
            )
    if status.leases_due:
        leases = count(status.leases_due, "lease")
        screen.line((f"{leases} due, taken back by the next claim", "bold yellow"))
    if status.next_due_us is not None and status.next_due_us > status.now_us:
        screen.line((f"next change by time alone in {duration(status.next_due_us - status.now_us)}", "dim"))


def _plan_row(plan: PlanStatus, states: list[State]) -> list[Part]:
    counts: list[Part] = [(str(plan.counts.get(s) or "-"), STYLES[s] if plan.counts.get(s) else "dim") for s in states]
    mark = " (paused)" if plan.paused else " (storm)" if plan.storm_until_us else ""
    return [(plan.plan + mark, "bold"), *counts, str(plan.total)]


@command()
@click.argument("task", required=False)
@click.option("--agent", metavar="NAME", help="As this agent sees it.")
@click.option("--capability", "capabilities", metavar="NAME", multiple=True, help="What the agent can do.")
@click.pass_obj
def why(app: App, task: str | None, agent: str | None, capabilities: tuple[str, ...]) -> None:
    """Explain why nobody works on TASK, or what holds up the board."""
    asked = {"agent_id": agent, "capabilities": capabilities}
    with app.open() as board:
        explanation = board.explain(task, **given(asked))
    app.answer({"causes": []} | document(explanation), lambda screen: show_causes(screen, explanation))


def show_causes(screen: Screen, explanation: Explanation) -> None:
    """The sentence, then the root causes, gravest first."""
    screen.line((explanation.summary, "bold"))
    for cause in explanation.causes:
        behind = f" ({count(cause.waiting, 'task')} behind it)" if cause.waiting else ""
        until = f" Until {instant(cause.until_us)}." if cause.until_us and cause.kind in ENDING else ""
        screen.line(
            "  ",
            (cause.kind, CAUSE_STYLES.get(cause.kind, "magenta")),
            f": {cause.message}{until}",
            (behind, "dim"),
        )
        if cause.kind == "paused" and cause.task_id is not None:
            screen.line((f"    Next: agentmesh unpause --task {cause.task_id}", "dim"))
    if explanation.more:
        screen.line((f"  and {count(explanation.more, 'more cause')}", "dim"))


def _beginning(board: Board) -> int:
    """The cursor before the oldest event that is kept."""
    try:
        board.events(limit=1)
    except CursorExpired as expired:  # the first ones were pruned
        return expired.first - 1
    return 0


@command()
@click.option("--after", type=int, help="Only what came after this event.")
@click.option("--limit", type=int, default=200, show_default=True, help="At most so many.")
@click.pass_obj
def events(app: App, after: int | None, limit: int) -> None:
    """Read the history, oldest first; --after goes on where a page ended."""
    with app.open() as board:
        start = _beginning(board) if after is None else after
        page = board.events(start, limit=limit)
    cursor = page[-1].seq if page else start

    def people(screen: Screen) -> None:
        for event in page:
            screen.line((f"{event.seq:>5}  ", "dim"), *event_parts(event))
        if len(page) == limit and not app.quiet:
            screen.line((f"There may be more: --after {cursor}", "dim"))

    app.answer({"events": [document(event) for event in page], "cursor": cursor}, people)
