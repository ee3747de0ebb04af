"""The work loop for shells: is there work, take it, keep it, end it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, get_args

import click

from agentmesh.cli import errors
from agentmesh.cli.command import App, command, interruptible
from agentmesh.cli.money import budget_left
from agentmesh.cli.params import (
    Age,
    JsonValue,
    agent_option,
    given,
    lease_option,
    read_lease,
    request_option,
)
from agentmesh.cli.records import facts, pretty
from agentmesh.cli.screen import Line, Screen
from agentmesh.cli.streams import need_output
from agentmesh.cli.text import duration, instant
from agentmesh.clock import Patience
from agentmesh.documents import document
from agentmesh.errors import AgentMeshError
from agentmesh.limits import WAIT_SEC
from agentmesh.model import FailureKind, Json, NoClaim, PlanStatus, Task

if TYPE_CHECKING:
    from agentmesh.board.claim import Claim
    from agentmesh.board.facade import Board

MOVING = ("ready", "in_progress", "lease_due", "scheduled")
"""Causes that a claim or time removes."""
NEXT_STEPS = {
    "budget": "`agentmesh budget list` shows how the budgets stand.",
    "claim_cap": "`agentmesh cap list` shows the caps.",
    "clock": "`agentmesh doctor` says by how much.",
    "storm": "`agentmesh unpause --plan NAME` ends the pause at once.",
    "paused": "`agentmesh status` shows what is paused; `agentmesh unpause` ends a pause.",
}


def _filters(function: Callable[..., Any]) -> Callable[..., Any]:
    """What narrows the choice of a task."""
    can = "What the agent can do; repeat it for more."
    for option in (
        click.option("--tag", "tags", metavar="NAME", multiple=True, help="Only with this tag."),
        click.option("--capability", "capabilities", metavar="NAME", multiple=True, help=can),
        click.option("--plan", metavar="NAME", help="Only of this plan."),
    ):
        function = option(function)
    return function


@command("next")
@_filters
@agent_option()
@click.pass_obj
def next_(app: App, /, agent: str, **filters: object) -> int:
    """Say whether a claim would hand out a task now: exit 0 if so, 3 if not."""
    with app.open() as board:
        work = board.has_work(agent_id=agent, **given(filters))
        why = "" if work or app.quiet else _why(board, agent, filters)

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line("There is work." if work else f"There is no work now. {why}")

    app.answer({"work": work} | ({"summary": why} if why else {}), people)
    return errors.OK if work else errors.NO_WORK


@command()
@click.argument("task", required=False)
@click.option("--plan", metavar="NAME", help="Wait for every task of this plan, instead of for TASK.")
@click.option("--wait", "wait_sec", metavar="SEC", type=click.FloatRange(min=0), help="Wait so many seconds at most.")
@click.pass_obj
def wait(app: App, /, task: str | None, plan: str | None, wait_sec: float | None) -> int:
    """Wait until TASK, or a plan, is final; exit 0 if all is completed, 1 if it ended otherwise, 3 if time ran out."""
    with app.open() as board, interruptible():
        found = _waited_for(board, task, plan, wait_sec)
    done = found.state == "completed" if isinstance(found, Task) else found.counts["completed"] == found.total
    app.answer(document(found) | {"final": found.final}, lambda screen: screen.line(_ended(found)))
    return errors.NO_WORK if not found.final else errors.OK if done else errors.FAILED


def _waited_for(board: Board, task: str | None, plan: str | None, wait_sec: float | None) -> Task | PlanStatus:
    """What was waited for, in calls of the longest wait that the board takes."""
    patience = None if wait_sec is None else Patience(int(wait_sec * 1_000_000))
    while True:
        left_sec = WAIT_SEC if patience is None else min(patience.left_sec, WAIT_SEC)
        found = board.wait_for(task, plan=plan, wait_sec=left_sec)
        if found.final or (patience is not None and patience.left_sec <= 0):
            return found


def _ended(found: Task | PlanStatus) -> str:
    if isinstance(found, Task):
        return f"{found.id} is {found.state}."
    told = ", ".join(f"{number} {state}" for state, number in found.counts.items() if number)
    return f"Plan {found.plan}: {told or 'no tasks'}."


@command()
@click.argument("task", required=False)
@_filters
@click.option("--wait", "wait_sec", metavar="SEC", type=float, help="Wait so many seconds for work, at most 50.")
@click.option("--resume", is_flag=True, help="Take up an attempt that this agent holds already.")
@click.option("--take-over", is_flag=True, help="With --resume: even while its lease runs.")
@agent_option(required=True)
@request_option()
@click.pass_obj
def claim(app: App, /, task: str | None, agent: str, **how: object) -> int:
    """Take the most urgent task that is ready, or TASK; exit 3 when there is none."""
    need_output("the lease token")
    with app.open() as board:
        claimed = board.claim_task(agent, task_id=task, **given(how))
        try:
            app.answer(document(claimed), lambda screen: _show_claim(screen, claimed, quiet=app.quiet))
        except BaseException as lost:
            told = _after_loss(board, claimed, repeatable=how["request_id"] is not None)
            if isinstance(lost, errors.OutputError):
                raise errors.OutputError(str(lost), told) from lost
            raise
    return errors.OK if claimed else errors.NO_WORK


def _after_loss(board: Board, claimed: Claim | NoClaim, *, repeatable: bool) -> str:
    """Give a task back whose lease token nobody got, if there is no other way to it; what to do next."""
    if isinstance(claimed, NoClaim):
        return "Nothing was claimed. Call again."
    if repeatable:
        return "Call again with the same --request-id: it gives the same lease."
    if claimed.resumed:
        return "Call again with --resume --take-over: it gives a new token for the same attempt."
    try:
        board.give_back(claimed)
    except AgentMeshError as error:
        return f"Task {claimed.task.id} is held with lease {claimed.lease.token}: {error.message}"
    return f"Task {claimed.task.id} was given back; the attempt is not charged. Claim it again by its id."


def _why(board: Board, agent: str, filters: Mapping[str, Any]) -> str:
    """What is open, and what keeps it from this agent; the latter only where it asked for anything that there is."""
    found = board.explain(agent_id=agent, capabilities=filters["capabilities"])
    gravest = next((cause.message for cause in found.causes if cause.kind not in MOVING), "")
    return f"{found.summary} {gravest}".rstrip() if not (filters["plan"] or filters["tags"]) else found.summary


def _show_claim(screen: Screen, claim: Claim | NoClaim, *, quiet: bool) -> None:
    if isinstance(claim, NoClaim):
        if not quiet:
            screen.line(f"Nothing was claimed. {claim.message}")
            if claim.retry_at_us is not None:
                screen.line((f"Time alone may change this at {instant(claim.retry_at_us)}.", "dim"))
            if claim.reason in NEXT_STEPS:
                screen.line((NEXT_STEPS[claim.reason], "dim"))
        return
    task, token = claim.task, claim.lease.token
    if quiet:
        screen.copyable(f"{task.id} {token}")
        return
    verb = "Resumed" if claim.resumed else "Claimed"
    screen.line(f"{verb} ", (task.id, "bold"), f", attempt {task.fence}: ", task.title)
    facts(screen, _work_facts(task, claim))
    if task.description:
        screen.block(task.description, indent=4)
    if task.payload is not None:
        screen.line(("  payload", "dim"))
        screen.block(pretty(task.payload), indent=4)
    for dependency in claim.dependencies:
        screen.line((f"  {dependency.id} ", "dim"), screen.state(dependency.state))
        if dependency.result is not None:
            screen.block(pretty(dependency.result), indent=4)
    screen.line("To end it:")
    screen.copyable(f"  agentmesh complete {task.id} --lease {token}")


def _work_facts(task: Task, claim: Claim) -> list[tuple[str, str | Line]]:
    until = f"until {instant(claim.lease_expires_us)}; renew it within "
    left = (budget_left(budget) for budget in claim.budgets)
    return [
        ("lease", until + duration(task.lease_timeout_us)),
        ("writes", ", ".join(task.writes)),
        ("reads", ", ".join(task.reads)),
        *(("budget", line) for line in left),
    ]


@command()
@click.argument("task")
@lease_option()
@click.pass_obj
def heartbeat(app: App, task: str, lease: str) -> None:
    """Renew the lease on TASK."""
    with app.open() as board:
        renewed = board.heartbeat(read_lease(task, lease))

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line(f"The lease on {task} runs until {instant(renewed.expires_us)}.")

    app.answer(document(renewed), people)


@command()
@click.argument("task")
@lease_option()
@click.option("--result", type=JsonValue(), help="What came of it: JSON, @FILE or @-.")
@request_option()
@click.pass_obj
def complete(app: App, task: str, lease: str, result: Json, request_id: str | None) -> None:
    """End the attempt on TASK with success."""
    with app.open() as board:
        done = board.complete_task(read_lease(task, lease), result, request_id=request_id)
    _tell(app, done)


@command()
@click.argument("task")
@lease_option()
@click.option("--error", metavar="TEXT", required=True, help="What went wrong.")
@click.option(
    "--kind",
    type=click.Choice(get_args(FailureKind)),
    default="task",
    show_default=True,
    help="infra and quota do not count against the task's attempts.",
)
@click.option("--no-retry", is_flag=True, help="Fail the task for good.")
@click.option(
    "--retry-after",
    "retry_after_sec",
    metavar="AGE",
    type=Age(),
    help="For infra and quota: offer it again after so long, such as 5h.",
)
@request_option()
@click.pass_obj
def fail(app: App, /, task: str, lease: str, error: str, no_retry: bool, **how: object) -> None:  # noqa: FBT001 - click passes flags by name
    """End the attempt on TASK with a failure; it is offered again while attempts are left."""
    with app.open() as board:
        failed = board.fail_task(read_lease(task, lease), error, retry=not no_retry, **given(how))
    _tell(app, failed)


@command()
@click.argument("task")
@lease_option()
@click.option("--delay", "delay_sec", metavar="SEC", type=float, help="Offer it again only after so many seconds.")
@request_option()
@click.pass_obj
def release(app: App, /, task: str, lease: str, **how: object) -> None:
    """Give TASK back, unfinished and unblamed."""
    with app.open() as board:
        released = board.release_task(read_lease(task, lease), **given(how))
    _tell(app, released)


def _tell(app: App, task: Task) -> None:
    """What the task is now."""

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line((task.id, "bold"), " is now ", screen.state(task.state))

    app.answer(document(task), people)
