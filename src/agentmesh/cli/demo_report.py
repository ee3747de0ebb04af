"""What the demo shows at its end: who did what, what became of the killed agent's task, the graph, the costs."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

from agentmesh.cli import errors
from agentmesh.cli.boards import show_findings
from agentmesh.cli.demo_costs import Costs, cents, tell_costs
from agentmesh.cli.graph import show_tree
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import count, duration, place
from agentmesh.documents import document
from agentmesh.drawing import Drawing
from agentmesh.model import Attempt, Entry, Finding, Task


@dataclass(frozen=True, slots=True)
class Killed:
    """The agent that was killed, and the attempt that it held."""

    agent: str
    pid: int
    task_id: str
    fence: int
    after_us: int
    server_ended: bool


@dataclass(frozen=True, slots=True)
class Handed:
    """An artifact on the blackboard, None if it is not there, and the hash that the task names which used it."""

    task_id: str
    key: str
    entry: Entry | None
    sha256: str | None

    def whole(self) -> bool:
        """Whether what was left is what was used."""
        value = self.entry.value if self.entry else None
        return isinstance(value, bytes) and sha256(value).hexdigest() == self.sha256


@dataclass(frozen=True, slots=True)
class Report:
    """The board at the end of the demo."""

    board: Path
    took_us: int
    drawing: Drawing
    attempts: dict[str, list[Attempt]]
    killed: Killed | None
    findings: list[Finding]
    costs: Costs
    handed: list[Handed]

    def unfinished(self) -> list[Task]:
        """Tasks that are not completed."""
        return [task for task in self.drawing.tasks if task.state != "completed"]

    def violated(self) -> list[Finding]:
        """Promises that were not kept."""
        return [finding for finding in self.findings if finding.verdict == "violated"]

    def reclaimed(self) -> tuple[Attempt, Attempt] | None:
        """The attempt that the killed agent lost, and the next one on its task."""
        if self.killed is None:
            return None
        attempts = {a.fence: a for a in self.attempts[self.killed.task_id]}
        lost, again = attempts.get(self.killed.fence), attempts.get(self.killed.fence + 1)
        if lost is None or again is None or lost.outcome != "reclaimed":
            return None
        return lost, again

    def wasted_by_killed(self) -> int:
        """What the attempt that the killed agent lost had cost."""
        return self.costs.of_attempt(self.killed.task_id, self.killed.fence).wasted_pusd if self.killed else 0

    def exit_code(self) -> int:
        """Zero only when everything that the demo claims was seen."""
        if self.violated():
            return errors.VIOLATED
        healed = self.reclaimed() is not None and self.wasted_by_killed() > 0
        whole = all(handed.whole() for handed in self.handed)
        seen = not self.unfinished() and healed and whole and self.costs.warned()
        return errors.OK if seen else errors.FAILED


def document_of(report: Report) -> dict[str, Any]:
    """The report for `--json`."""
    whole: dict[str, Any] = {
        "ok": report.exit_code() == errors.OK,
        "board": str(report.board),
        "took_sec": report.took_us / 1_000_000,
        "tasks": [document(task) for task in report.drawing.tasks],
        "attempts": [document(a) for found in report.attempts.values() for a in found],
        "findings": [document(finding) for finding in report.findings],
        "usage": document(report.costs.by_agent),
        "wasted": [document(line) for line in report.costs.by_attempt.values() if line.wasted_tokens],
        "artifacts": [_artifact(handed) for handed in report.handed],
    }
    if report.costs.budget is not None:
        whole["budget"] = document(report.costs.budget) | {"warned": report.costs.warned()}
    if report.killed is not None:
        whole["killed"] = {
            "agent": report.killed.agent,
            "task_id": report.killed.task_id,
            "fence": report.killed.fence,
        }
    return whole


def _artifact(handed: Handed) -> dict[str, Any]:
    found = {"key": handed.key, "used_by": handed.task_id, "whole": handed.whole()}
    return found | ({"left_by": handed.entry.task_id, "size": handed.entry.size} if handed.entry else {})


def tell_report(screen: Screen, report: Report) -> None:
    """The whole end of the demo."""
    screen.line()
    _table(screen, report)
    screen.line()
    _tell_killed(screen, report)
    _tell_paths(screen, report)
    _tell_artifacts(screen, report)
    _tell_promises(screen, report)
    screen.line()
    show_tree(screen, report.drawing)
    screen.line()
    tell_costs(screen, report.costs, report.attempts)
    _tell_outcome(screen, report)


def _table(screen: Screen, report: Report) -> None:
    columns = [
        Column(""),
        Column("TASK"),
        Column("ATTEMPTS", right=True),
        Column("AGENT"),
        Column("TIME", right=True),
        Column("USD", right=True),
    ]
    screen.table(columns, [_row(screen, report, task) for task in report.drawing.tasks])


def _row(screen: Screen, report: Report, task: Task) -> list[Part]:
    attempts = report.attempts[task.id]
    last = attempts[-1] if attempts else None
    took = duration(last.ended_us - last.started_us) if last and last.ended_us else ""
    number = (str(len(attempts)), "bold yellow" if len(attempts) > 1 else "")
    agents = " > ".join(dict.fromkeys(a.agent_id for a in attempts))
    cost = report.costs.of_task(task.id)
    return [screen.symbol(task.state), (task.id, "bold"), number, agents, took, cents(cost) if cost else ""]


def _tell_killed(screen: Screen, report: Report) -> None:
    killed, pair = report.killed, report.reclaimed()
    if killed is None or pair is None:
        screen.line(("No agent was killed in mid-task and its task taken back.", "bold red"))
        return
    lost, again = pair
    server = "Its MCP server ended with it." if killed.server_ended else "Its MCP server lived on."
    screen.line(
        (f"{killed.agent} was killed after {duration(killed.after_us)}", "bold"),
        f" while it held {killed.task_id} (attempt {killed.fence}). {server} ",
        f"Attempt {lost.fence} was reclaimed {duration(again.started_us - lost.heartbeat_us)} "
        f"after its last sign of life, and {again.agent_id} got the task as attempt "
        f"{again.fence}: {again.outcome}. The {cents(report.wasted_by_killed())} USD that {killed.agent} "
        f"had spent on it count as waste.",
    )


def _tell_paths(screen: Screen, report: Report) -> None:
    """Tasks that write the same paths took turns, although both were ready."""
    for one, other in combinations(report.drawing.tasks, 2):
        shared = set(one.writes) & set(other.writes)
        if not shared or not (report.attempts[one.id] and report.attempts[other.id]):
            continue
        first, second = sorted((report.attempts[one.id][-1], report.attempts[other.id][-1]), key=lambda a: a.started_us)
        if first.ended_us is not None and first.ended_us <= second.started_us:
            screen.line(
                (f"{first.task_id}, then {second.task_id}", "bold"),
                f": both write {', '.join(sorted(shared))}, so they never ran at once.",
            )


def _tell_artifacts(screen: Screen, report: Report) -> None:
    """What one task left on the blackboard, another one used."""
    for handed in report.handed:
        entry = handed.entry
        if entry is None or not handed.whole():
            screen.line((f"{handed.task_id} did not get {handed.key} as it was left.", "bold red"))
            continue
        screen.line(
            (f"{entry.task_id} left {handed.key} for {handed.task_id}", "bold"),
            f": {entry.size} bytes of {entry.content_type} on the blackboard, signed with attempt {entry.fence}. "
            f"{handed.task_id} got it whole: its result names the same SHA-256, {str(handed.sha256)[:12]}...",
        )


def _tell_promises(screen: Screen, report: Report) -> None:
    held = sum(finding.verdict == "held" for finding in report.findings)
    if report.violated():
        show_findings(screen, report.findings, quiet=True)
    else:
        screen.line((f"{count(held, 'promise')} checked, none violated.", "bold green"))


def _tell_outcome(screen: Screen, report: Report) -> None:
    tasks, left = count(len(report.drawing.tasks), "task"), report.unfinished()
    if left:
        names = ", ".join(task.id for task in left)
        screen.line((f"{len(left)} of {tasks} not completed: {names}", "bold red"))
    else:
        screen.line((f"{tasks} completed in {duration(report.took_us)}.", "bold green"))
    path = place(str(report.board))
    screen.line("The board stays. Look at it with:")
    for words in ("list", "show " + _worth_a_look(report), "events", "ledger report --by task"):
        screen.copyable(f"  agentmesh {words} --board {path}")


def _worth_a_look(report: Report) -> str:
    return report.killed.task_id if report.killed else report.drawing.tasks[0].id
