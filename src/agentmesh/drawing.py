"""A graph of tasks and its two written forms, Mermaid and DOT; titles in them are data, never syntax."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from agentmesh.model import State, Task
from agentmesh.printable import one_line

Edge = tuple[str, str, str]
"""Child, parent, condition."""

_COLOURS: Final[dict[State, tuple[str, str]]] = {
    "blocked": ("#f3f4f6", "#9ca3af"),
    "scheduled": ("#f3e8ff", "#a855f7"),
    "pending": ("#e0f2fe", "#0284c7"),
    "in_progress": ("#fef9c3", "#ca8a04"),
    "completed": ("#dcfce7", "#16a34a"),
    "failed": ("#fee2e2", "#dc2626"),
    "cancelled": ("#ffedd5", "#ea580c"),
}
_NOT_PLAIN: Final = re.compile(r"[^\w .,/-]")
"""What is no letter, digit or harmless sign might be syntax to Mermaid."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What is drawn. An edge may lead to a task of another plan, which then is not among the tasks."""

    tasks: tuple[Task, ...]
    edges: tuple[Edge, ...]

    def names(self) -> dict[str, str]:
        """A name without meaning for each task and each foreign end of an edge."""
        ids = [task.id for task in self.tasks] + [end for edge in self.edges for end in edge[:2]]
        return {task_id: f"n{number}" for number, task_id in enumerate(dict.fromkeys(ids))}

    def outside(self) -> list[str]:
        """The ends of edges that are not among the tasks."""
        known = {task.id for task in self.tasks}
        ends = dict.fromkeys(end for edge in self.edges for end in edge[:2])
        return [end for end in ends if end not in known]


def as_mermaid(drawing: Drawing) -> str:
    """The graph as a Mermaid flowchart."""
    names = drawing.names()
    lines = ["flowchart TD"]
    for task in drawing.tasks:
        label = f"{_mermaid(task.id)}<br/>{_mermaid(task.title)}<br/>{task.state}"
        lines.append(f'    {names[task.id]}["{label}"]:::{task.state}')
    lines += [f'    {names[end]}["{_mermaid(end)}"]' for end in drawing.outside()]
    for child, parent, condition in drawing.edges:
        arrow = "-->" if condition == "completed" else f"-. {condition} .->"
        lines.append(f"    {names[parent]} {arrow} {names[child]}")
    for state in dict.fromkeys(task.state for task in drawing.tasks):
        fill, stroke = _COLOURS[state]
        lines.append(f"    classDef {state} fill:{fill},stroke:{stroke},color:#111827")
    return "\n".join(lines)


def _mermaid(text: str) -> str:
    """A text inside a quoted label: everything but plain characters as a numbered entity."""
    return _NOT_PLAIN.sub(lambda found: f"#{ord(found[0])};", one_line(text))


def as_dot(drawing: Drawing) -> str:
    """The graph in the language of Graphviz."""
    names = drawing.names()
    lines = [
        "digraph agentmesh {",
        "    rankdir=TB",
        '    node [shape=box, style="rounded,filled", fontname="sans-serif", fontcolor="#111827"]',
    ]
    for task in drawing.tasks:
        fill, stroke = _COLOURS[task.state]
        label = f"{_dot(task.id)}\\n{_dot(task.title)}\\n{task.state}"
        lines.append(f'    {names[task.id]} [label="{label}", fillcolor="{fill}", color="{stroke}"]')
    lines += [f'    {names[end]} [label="{_dot(end)}", style=dashed]' for end in drawing.outside()]
    for child, parent, condition in drawing.edges:
        how = "" if condition == "completed" else f' [label="{condition}", style=dashed]'
        lines.append(f"    {names[parent]} -> {names[child]}{how}")
    return "\n".join([*lines, "}"])


def _dot(text: str) -> str:
    """A text inside a quoted label: no escapes, no entities, no end of the quotes."""
    return one_line(text).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
