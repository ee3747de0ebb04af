"""Where was I: what an agent holds, what its budgets leave, and what to do next."""

from __future__ import annotations

import shlex

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import agent_option
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import count, instant
from agentmesh.documents import document
from agentmesh.model import Task
from agentmesh.standing import Standing, standing, standing_document


@command()
@agent_option(required=True)
@click.pass_obj
def resume(app: App, agent: str) -> None:
    """Show an agent where it was: what it holds, what its budgets leave, what to do next.

    It changes nothing. To end a pause: agentmesh unpause.
    """
    with app.open() as board:
        found = standing(board, [agent])
    step = _next(found, agent)
    app.answer(standing_document(found, step), lambda screen: _show(screen, found, step, quiet=app.quiet))


def _next(found: Standing, agent: str) -> str:
    """The command to go on with."""
    claim = ["agentmesh", "claim", "--agent", agent]
    match found.step:
        case "stop":
            return "Nothing is left to do."
        case "wait":
            claim += ["--wait", "50"]
        case "go_on":
            claim += ["--resume"] if _is_due(found, found.held[0]) else ["--resume", "--take-over"]
            task_id = found.held[0].id
            claim += ["--", task_id] if task_id.startswith("-") else [task_id]
        case "claim":
            pass
    return shlex.join(claim)


def _is_due(found: Standing, task: Task) -> bool:
    return (task.lease_expires_us or 0) <= found.now_us


def _show(screen: Screen, found: Standing, step: str, *, quiet: bool) -> None:
    if quiet:
        for task in found.held:
            screen.copyable(task.id)
        return
    held = len(found.held) + found.more
    screen.line((found.agents[0], "bold"), f" holds {count(held, 'task')}" + (":" if held else "."))
    for task in found.held:
        screen.line("  ", (task.id, "bold"), f", attempt {task.fence}: ", task.title)
        until = "ran out" if _is_due(found, task) else "until"
        screen.line("    ", (f"lease {until} {instant(task.lease_expires_us or 0)}", "dim"))
    if found.more:
        screen.line((f"  and {found.more} more", "dim"))
    for budget in found.budgets:
        left = document(budget)
        amounts = [
            f"{left[key]} {unit}" for key, unit in (("left_usd", "USD"), ("left_tokens", "tokens")) if key in left
        ]
        of = f"{budget.scope} {budget.name}".rstrip()
        screen.line("  ", (f"left of the {budget.period} budget of {of}: {', '.join(amounts)}", "dim"))
    if found.step == "stop":
        screen.line(step)
    else:
        screen.line("Next:")
        screen.copyable(f"  {step}")
