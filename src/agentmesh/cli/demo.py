"""The demo: four agents work off a plan within a budget, one is killed in mid-task, and nothing is lost.

Each agent is a process with an MCP server of its own; the board is all they share. The driver here
only starts them, tells what the board's history says, and kills one.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agentmesh.cli.command import App, command, interruptible
from agentmesh.cli.demo_costs import cents, read_costs, stand_of
from agentmesh.cli.demo_model import MADE_UP
from agentmesh.cli.demo_report import Handed, Killed, Report, document_of, tell_report
from agentmesh.cli.demo_swarm import ROLES, AgentProcess, swarm
from agentmesh.cli.discover import FILE
from agentmesh.cli.graph import read_drawing
from agentmesh.cli.records import event_word
from agentmesh.cli.screen import Part, Screen
from agentmesh.cli.text import count
from agentmesh.clock import MonotonicClock, SystemClock
from agentmesh.errors import BoardExists, InvalidArgument
from agentmesh.model import Event
from agentmesh.rules import WARNING_PERCENT, WASTED

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

PLAN_FILE: Final = "shop-checkout.toml"
BUDGET_USD: Final = 3
"""For the plan of our own: all that it takes, but so little more that the warning comes."""
VICTIM: Final = "ben"
_KILLED_AT_CLAIM: Final = 2
_LOOK_SEC: Final = 0.1
_LONGEST_US: Final = 55_000_000
_UNTOLD: Final = ("task_created", "task_due", "usage_recorded")


@dataclass(slots=True)
class Run:
    """The demo while it runs."""

    board: Board
    agents: dict[str, AgentProcess]
    wanted: dict[str, Any]
    screen: Screen | None
    start_us: int
    cursor: int
    spent_pusd: Counter[tuple[str | None, int | None]] = field(default_factory=Counter)
    warned_us: int | None = None
    claims_of_victim: int = 0
    killed: Killed | None = None


@command()
@click.argument("plan", metavar="[PLAN]", required=False)
@click.pass_obj
def demo(app: App, plan: str | None) -> int:
    """Watch four agents work off a plan within a budget while one of them is killed.

    The board is made in a new folder, or at --board PATH, and stays there.
    """
    from agentmesh.board.facade import Board
    from agentmesh.cli.plan_file import read_plan

    wanted = read_plan(plan or str(packaged_plan()))
    screen = None if app.json else Screen()
    with interruptible(), _new_place(app.board) as path, Board.open(path, create=True) as board:
        board.apply_plan(wanted)
        if plan is None:
            board.budgets.set(plan=wanted["plan"], usd=BUDGET_USD)
        _introduce(screen, board, wanted, path)
        report = _work_off(board, wanted, path, None if app.quiet else screen)
    if screen is not None:
        tell_report(screen, report)
    app.answer(document_of(report), lambda _: None)
    return report.exit_code()


def packaged_plan() -> Path:
    """The demo's plan: inside the package when installed, in `examples/` of a checkout.

    Raises:
        InvalidArgument: it is in neither place.
    """
    here = Path(__file__).resolve()
    places = (here.parent / "examples", here.parents[3] / "examples" / "plans")
    for folder in places:
        if (folder / PLAN_FILE).is_file():
            return folder / PLAN_FILE
    raise InvalidArgument("PLAN", f"{PLAN_FILE} is not installed here", hint="Name a plan file.")


@contextmanager
def _new_place(named: str | None) -> Iterator[Path]:
    """Where the demo's board shall be; a folder that was made for it goes again if no board is made."""
    if named is not None:
        path = Path(named).absolute()
        if path.exists():
            raise BoardExists("The demo makes a board of its own, and there is one at --board already.")
        yield path
        return
    folder = Path(tempfile.mkdtemp(prefix="agentmesh-demo-"))
    try:
        yield folder / FILE
    finally:
        with suppress(OSError):  # it is not empty: the board stays
            folder.rmdir()


def _introduce(screen: Screen | None, board: Board, wanted: dict[str, Any], path: Path) -> None:
    if screen is None:
        return
    tasks = count(len(wanted["tasks"]), "task")
    screen.line((f"Plan {wanted['plan']}", "bold"), f": {tasks}, {len(ROLES)} agents, one board")
    screen.copyable(("  " + str(path), "dim"))
    for role in ROLES:
        screen.line("  ", (f"{role.name:<5}", "bold"), (", ".join(role.capabilities), "dim"))
    for budget in board.budgets.list():
        screen.line(("Budget of the plan", "bold"), f": {cents(budget.limit_pusd or 0)} USD")
    screen.line((MADE_UP, "dim"))
    screen.line()


def _work_off(board: Board, wanted: dict[str, Any], path: Path, screen: Screen | None) -> Report:
    real, cursor = MonotonicClock(), board.status().last_seq
    start_us, began_us = SystemClock().now_us(), real.now_us()
    with swarm(ROLES, path, wanted["plan"]) as agents:
        run = Run(board, agents, wanted, screen, start_us, cursor)
        while real.now_us() - began_us < _LONGEST_US:
            news = _news(run)
            for event in news:
                _keep(run, event)
                _tell(run, event)
            for event in news:
                _kill_in_mid_task(run, event)
            if all(agent.ended() is not None for agent in agents.values()):
                break
    return _report(run, path, real.now_us() - began_us)


def _news(run: Run) -> list[Event]:
    """What has happened since the last look, or nothing for a moment."""
    news = run.board.events(run.cursor, wait_sec=_LOOK_SEC)
    run.cursor = news[-1].seq if news else run.cursor
    return news


def _keep(run: Run, event: Event) -> None:
    """Remember what later lines, and the report, will want."""
    if event.kind == "usage_recorded":
        run.spent_pusd[event.task_id, event.fence] += event.data.get("cost_pusd", 0)
    elif event.kind == "budget_warning":
        run.warned_us = event.at_us - run.start_us


def _tell(run: Run, event: Event) -> None:
    """One line of the history, as it happens."""
    if run.screen is None or event.kind in _UNTOLD:
        return
    again = f" (attempt {event.fence})" if (event.fence or 0) > 1 else ""
    when: Part = (f"{(event.at_us - run.start_us) / 1_000_000:5.1f} s  ", "dim")
    if event.kind == "budget_warning":
        budget = run.board.budgets.get(plan=run.wanted["plan"])
        stand = f": {stand_of(budget)}" if budget else ""
        run.screen.named(when, (f"{WARNING_PERCENT} % of the budget", "bold yellow"), stand)
        return
    word, style = ("left", "") if event.kind == "entry_put" else event_word(event)
    told: list[Part] = [f"{event.agent_id or '':<5} ", (f"{word:<9} ", style), (event.task_id or "", "bold"), again]
    run.screen.line_with((_aside(run, event), "dim"), when, *told)


def _aside(run: Run, event: Event) -> str:
    """What is worth knowing beside it: the title of what begins, the cost of what ends."""
    if event.kind == "task_claimed":
        return next((task["title"] for task in run.wanted["tasks"] if task["id"] == event.task_id), "")
    if event.kind == "entry_put":
        return f"{event.data['key']} on the blackboard"
    cost = run.spent_pusd[event.task_id, event.fence]
    wasted = " wasted" if event_word(event)[0] in WASTED else ""
    return f"{cents(cost)} USD{wasted}" if cost else ""


def _kill_in_mid_task(run: Run, event: Event) -> None:
    """Kill the victim once its second task has cost something; the board shows that it holds it still."""
    if run.killed is not None or event.agent_id != VICTIM:
        return
    run.claims_of_victim += event.kind == "task_claimed"
    if event.kind != "usage_recorded" or run.claims_of_victim < _KILLED_AT_CLAIM or not _holds(run.board, event):
        return
    victim, at_us = run.agents[VICTIM], SystemClock().now_us()
    server_ended = victim.kill()
    if not _holds(run.board, event):
        return  # it was quicker than we: the report will say that nobody was killed in mid-task
    run.killed = Killed(VICTIM, victim.pid, str(event.task_id), event.fence or 0, at_us - run.start_us, server_ended)
    if run.screen is not None:
        words = f"{VICTIM} (pid {victim.pid}) is killed with SIGKILL while it holds {event.task_id}"
        run.screen.named((f"{(at_us - run.start_us) / 1_000_000:5.1f} s  ", "dim"), (words, "bold red"))


def _holds(board: Board, event: Event) -> bool:
    """Whether the attempt of this event is still open, in the same hands."""
    task = board.get_task(str(event.task_id))
    return (task.holder, task.fence) == (event.agent_id, event.fence)


def _report(run: Run, path: Path, took_us: int) -> Report:
    drawing = read_drawing(run.board, None)
    return Report(
        board=path,
        took_us=took_us,
        drawing=drawing,
        attempts={task.id: run.board.attempts(task.id) for task in drawing.tasks},
        killed=run.killed,
        findings=run.board.check(),
        costs=read_costs(run.board, run.wanted["plan"], run.warned_us),
        handed=[_handed(run, task) for task in run.wanted["tasks"] if _used(task) is not None],
    )


def _used(task: dict[str, Any]) -> str | None:
    """The artifact that a task of a plan file is to use, if any."""
    script = task.get("payload")
    return script.get("uses") if isinstance(script, dict) else None


def _handed(run: Run, task: dict[str, Any]) -> Handed:
    """An artifact, and what the task that was to use it says that it got."""
    key, result = str(_used(task)), run.board.get_task(task["id"]).result
    read = result.get("read") if isinstance(result, dict) else None
    entry = run.board.blackboard.get(run.wanted["plan"], key)
    return Handed(task["id"], key, entry, read.get("sha256") if isinstance(read, dict) else None)
