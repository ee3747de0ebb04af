"""Tasks: add, list, show and cancel them, and change what they wait for."""

from __future__ import annotations

import click

from agentmesh.cli.command import App, command, group
from agentmesh.cli.money import usage_document
from agentmesh.cli.params import JsonValue, agent_option, given, request_option
from agentmesh.cli.records import show_task, task_table
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import count
from agentmesh.documents import document
from agentmesh.model import CONDITIONS, STATES, Task


@command()
@click.argument("title")
@click.option("--id", metavar="ID", help="A name of your own for the task; else one is made.")
@click.option("--key", metavar="KEY", help="Add nothing while an open task has this key; show that one.")
@click.option("--plan", metavar="NAME", help="The group it belongs to.")
@click.option("-d", "--description", metavar="TEXT", help="What is to be done.")
@click.option("-p", "--priority", type=int, help="Higher goes first; 0 when not given.")
@click.option("--depends-on", metavar="ID[:CONDITION]", multiple=True, help="Wait for this task.")
@click.option("--requires", metavar="NAME", multiple=True, help="A capability the agent needs.")
@click.option("--tag", "tags", metavar="NAME", multiple=True, help="A word to filter by.")
@click.option("--writes", metavar="PATTERN", multiple=True, help="Paths that it changes.")
@click.option("--reads", metavar="PATTERN", multiple=True, help="Paths that must not change under it.")
@click.option("--payload", type=JsonValue(), help="Input for the agent: JSON, @FILE or @-.")
@click.option("--estimate-usd", metavar="USD", help="What it will probably cost; budgets reserve it.")
@click.option("--estimate-tokens", metavar="N", type=int, help="How many tokens it will probably use.")
@click.option("--lease-timeout-sec", metavar="SEC", type=float, help="How long a silent agent keeps it.")
@click.option("--max-hold-sec", metavar="SEC", type=float, help="How long an agent may hold it at all.")
@click.option("--max-attempts", type=int, help="How many charged hand-outs it gets.")
@click.option("--not-before", metavar="TIME", help="Not before this time, as RFC 3339.")
@agent_option()
@request_option()
@click.pass_obj
def add(app: App, /, title: str, agent: str, **fields: object) -> None:
    """Put one task on the board."""
    with app.open() as board:
        task = board.create_task(title, agent_id=agent, **given(fields))
    _tell(app, task, "Found" if task.existing else "Added")


@command("list")
@click.option("--plan", metavar="NAME", help="Only tasks of this plan.")
@click.option("--state", type=click.Choice(STATES), help="Only tasks in this state.")
@click.option("--tag", metavar="NAME", help="Only tasks with this tag.")
@click.option("--holder", metavar="AGENT", help="Only tasks that this agent holds.")
@click.option("--limit", type=int, default=50, show_default=True, help="Tasks on a page.")
@click.option("--cursor", type=int, help="Where the page before this one ended.")
@click.pass_obj
def list_(app: App, /, **filters: object) -> None:
    """List tasks, one page at a time."""
    with app.open() as board:
        page = board.list_tasks(**given(filters))

    def people(screen: Screen) -> None:
        if app.quiet:
            for task in page.tasks:
                screen.copyable(task.id)
        elif not page.tasks:
            screen.line("No task is like that.")
        else:
            task_table(screen, page.tasks)
        if page.cursor is not None and not app.quiet:
            screen.line((f"There are more: --cursor {page.cursor}", "dim"))

    app.answer({"tasks": [], **document(page)}, people)


@command()
@click.argument("task")
@click.pass_obj
def show(app: App, task: str) -> None:
    """Show a task, its notes and attempts, and what was used for it."""
    with app.open() as board:
        found, attempts, notes = board.get_task(task), board.attempts(task), board.notes(task)
        used, now_us = board.ledger.report("task", task_id=task).total, board.status().now_us
    whole = {
        "task": document(found),
        "attempts": [document(attempt) for attempt in attempts],
        "notes": [document(note) for note in notes],
        **usage_document(used),
    }
    app.answer(whole, lambda screen: show_task(screen, found, attempts, notes, used=used, now_us=now_us))


@command()
@click.argument("task", required=False)
@click.option("--plan", metavar="NAME", help="Cancel every open task of this plan instead.")
@click.option("--reason", metavar="TEXT", default="", help="Why; kept with the task.")
@agent_option("agent_id")
@request_option()
@click.pass_obj
def cancel(app: App, /, task: str | None, plan: str | None, **how: object) -> None:
    """Cancel a task, or all of a plan; whatever then never can start is cancelled too."""
    if (task is None) == (plan is None):
        raise click.UsageError("Name a task, or a plan with --plan, and not both.")
    with app.open() as board:
        if task is not None:
            _tell(app, board.cancel_task(task, **given(how)), "Cancelled")
        else:
            _tell_plan(app, str(plan), board.cancel_plan(str(plan), **given(how)))


def _tell_plan(app: App, plan: str, number: int) -> None:
    words = f"Cancelled {count(number, 'task')} of plan {plan!r}."
    app.answer(
        {"plan": plan, "cancelled": number},
        lambda screen: None if app.quiet else screen.line(words),
    )


@command()
@click.argument("task")
@click.option("--cascade", is_flag=True, help="Also those that were cancelled because of it.")
@agent_option()
@request_option()
@click.pass_obj
def reopen(app: App, /, task: str, agent: str, **how: object) -> None:
    """Bring a task that has ended back to work."""
    with app.open() as board:
        again = board.reopen_task(task, agent_id=agent, **given(how))
    _tell(app, again, "Reopened")


@group()
def depends() -> None:
    """Change what a task waits for."""


@depends.command("add")
@click.argument("task")
@click.argument("on", metavar="ON")
@click.option("--condition", type=click.Choice(CONDITIONS), default="completed", show_default=True)
@agent_option()
@request_option()
@click.pass_obj
def depends_add(app: App, /, task: str, on: str, agent: str, **how: object) -> None:
    """Let TASK wait for the task ON."""
    with app.open() as board:
        changed = board.add_dependency(task, on, agent_id=agent, **given(how))
    _tell(app, changed, "Changed")


@depends.command("remove")
@click.argument("task")
@click.argument("on", metavar="ON")
@agent_option()
@request_option()
@click.pass_obj
def depends_remove(app: App, task: str, on: str, agent: str, request_id: str | None) -> None:
    """Let TASK no longer wait for the task ON."""
    with app.open() as board:
        changed = board.remove_dependency(task, on, agent_id=agent, request_id=request_id)
    _tell(app, changed, "Changed")


def _tell(app: App, task: Task, verb: str) -> None:
    """What became of a task: its id for scripts, a sentence for people."""

    def people(screen: Screen) -> None:
        if app.quiet:
            screen.copyable(task.id)
        else:
            screen.line(f"{verb} ", (task.id, "bold"), ": ", screen.state(task.state))

    app.answer(document(task), people)
