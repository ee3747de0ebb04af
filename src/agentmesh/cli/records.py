"""How tasks, attempts, notes and events look to people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from agentmesh.cli.money import usage_facts
from agentmesh.cli.screen import STYLES, Column, Line, Part, Screen, cells
from agentmesh.cli.text import duration, hour, instant
from agentmesh.documents import dollars
from agentmesh.model import Attempt, Event, Json, Note, Task, UsageLine

EVENT_STYLES: Final[dict[str, str]] = {
    "completed": "green",
    "failed": "red",
    "cancelled": "red",
    "reclaimed": "bold yellow",
    "claimed": "yellow",
    "budget_warning": "yellow",
    "budget_exceeded": "bold red",
    "breaker_opened": "bold magenta",
}
_UNTOLD: Final = ("expires_us", "due_us", "max_attempts", "depends_on", "requires", "writes", "reads")
"""Facts of an event that its line has no room for; `events --json` gives them all."""


def task_table(screen: Screen, tasks: Sequence[Task]) -> None:
    """Tasks, one a row; the plan only where there are several."""
    several = len({task.plan for task in tasks}) > 1
    columns = [
        Column("TASK"),
        Column("STATE"),
        Column("PLAN"),
        Column("PRIO", right=True),
        Column("HOLDER"),
        Column("TITLE", wraps=True),
    ]
    rows = [
        [
            (task.id, "bold"),
            screen.state(task.state),
            task.plan if several else "",
            str(task.priority) if task.priority else "",
            task.holder or "",
            task.title,
        ]
        for task in tasks
    ]
    screen.table(columns, rows)


def show_task(
    screen: Screen, task: Task, attempts: Sequence[Attempt], notes: Sequence[Note], *, used: UsageLine, now_us: int
) -> None:
    """Everything about one task."""
    screen.line((task.id, "bold"), "  ", screen.state(task.state))
    screen.line("  ", task.title)
    if task.reason:
        screen.line("  ", ("reason: ", "dim"), task.reason)
    facts(screen, [*_facts(task, now_us), *usage_facts(used)])
    for name, text in (
        ("description", task.description),
        ("payload", task.payload),
        ("result", task.result),
    ):
        if text is not None:
            screen.line((f"  {name}", "dim"))
            screen.block(text if isinstance(text, str) else pretty(text), indent=4)
    if attempts:
        screen.line()
        attempt_table(screen, attempts, now_us)
    for note in notes:
        screen.line()
        screen.line((f"note of {note.agent_id}, attempt {note.fence}, {instant(note.at_us)}", "dim"))
        screen.block(note.text)


def facts(screen: Screen, rows: Iterable[tuple[str, str | Line]]) -> None:
    """Names and values, the names in a column; what is empty is not told."""
    told = [(name, parts) for name, value in rows if cells(parts := [value] if isinstance(value, str) else value)]
    room = max((len(name) for name, _ in told), default=0)
    for name, parts in told:
        screen.named((f"  {name:<{room}}  ", "dim"), *parts)


def _facts(task: Task, now_us: int) -> list[tuple[str, str]]:
    waits = [d.id if d.condition == "completed" else f"{d.id}:{d.condition}" for d in task.depends_on]
    held = task.lease_expires_us is not None
    return [
        ("plan", task.plan),
        ("priority", _priority(task)),
        ("depends on", ", ".join(waits)),
        ("requires", ", ".join(task.requires)),
        ("tags", ", ".join(task.tags)),
        ("writes", ", ".join(task.writes)),
        ("reads", ", ".join(task.reads)),
        ("not before", instant(task.not_before_us) if task.not_before_us else ""),
        ("estimate", _estimate(task)),
        ("attempts", f"{task.charged} of {task.max_attempts} charged"),
        ("lease", f"{duration(task.lease_timeout_us)}, at most {duration(task.max_hold_us)}"),
        ("holder", f"{task.holder}, {lease_left(task, now_us)}" if held else ""),
        ("created", instant(task.created_us)),
        ("ended", instant(task.ended_us) if task.ended_us else ""),
    ]


def _estimate(task: Task) -> str:
    parts = [f"{dollars(task.estimate_pusd)} USD"] if task.estimate_pusd else []
    return ", ".join(parts + ([f"{task.estimate_tokens:,} tokens"] if task.estimate_tokens else []))


def _priority(task: Task) -> str:
    if task.urgency > task.priority:
        return f"{task.priority} (urgency {task.urgency}, from a task that waits for it)"
    return str(task.priority)


def lease_left(task: Task, now_us: int) -> str:
    """How long the holder of a task still has."""
    left = (task.lease_expires_us or 0) - now_us
    return f"{duration(left)} left" if left > 0 else "lease due"


def attempt_table(screen: Screen, attempts: Sequence[Attempt], now_us: int) -> None:
    """The attempts of a task, first to last."""
    columns = [
        Column("ATTEMPT", right=True),
        Column("AGENT"),
        Column("OUTCOME"),
        Column("TIME", right=True),
        Column("ERROR", wraps=True),
    ]
    screen.table(columns, [_attempt_row(attempt, now_us) for attempt in attempts])


def _attempt_row(attempt: Attempt, now_us: int) -> list[Part]:
    outcome = attempt.outcome or "running"
    detail = f" ({attempt.kind})" if attempt.kind else ""
    style = EVENT_STYLES.get(outcome, STYLES["in_progress"])
    return [
        str(attempt.fence),
        attempt.agent_id,
        (outcome + detail + (", late" if attempt.late else ""), style),
        duration((attempt.ended_us or now_us) - attempt.started_us),
        attempt.error or "",
    ]


def event_word(event: Event) -> tuple[str, str]:
    """What happened, in one word where the subject is clear."""
    word = event.kind.removeprefix("task_").removeprefix("lease_")
    return (word, EVENT_STYLES.get(word, ""))


def event_parts(event: Event) -> list[Part]:
    """One event on one line."""
    subject = event.task_id or event.plan or ""
    fence = f" #{event.fence}" if event.fence else ""
    told = _brief(event.data)
    word, style = event_word(event)
    return [
        (f"{hour(event.at_us)} ", "dim"),
        f"{event.agent_id or '-':<8} ",
        (f"{word:<9} ", style),
        (subject + fence, "bold"),
        (f"  {told}" if told else "", "dim"),
    ]


def _brief(data: dict[str, Any]) -> str:
    """The facts of an event in a few words."""
    words = []
    for name, value in data.items():
        if name in _UNTOLD or value in (None, False, [], {}, ""):
            continue
        words.append(_fact(name, value))
    return " ".join(words)


def _fact(name: str, value: Any) -> str:
    if value is True:
        return name
    if name.endswith("_pusd"):
        return f"{name.removesuffix('_pusd')}_usd={dollars(value)}"
    if name.endswith("_us"):
        return f"{name.removesuffix('_us')}={instant(value)}"
    return f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"


def pretty(value: Json) -> str:
    """A JSON value for people."""
    return json.dumps(value, ensure_ascii=False, indent=2)
