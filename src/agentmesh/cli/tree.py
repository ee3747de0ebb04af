"""The graph as a picture in text: each task once, below the task it waits for last.

A task with several parents stands below the deepest of them, so it comes after all of them; the
others are named beside it. Where the picture would run off the right edge, the branch goes on as a
tree of its own further down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from agentmesh.cli.screen import Line, Part, wrap
from agentmesh.drawing import Drawing
from agentmesh.model import State, Task

_UNICODE: Final = ("├─ ", "└─ ", "│  ", "   ")
_ASCII: Final = ("|- ", "`- ", "|  ", "   ")
_STEP: Final = 3
_DEEPEST_WITHOUT_WIDTH: Final = 30
_ROOM_FOR_TITLE: Final = 24


@dataclass(frozen=True, slots=True)
class Row:
    """One task of the picture: the lines that lead to it, and what stands beside it."""

    lead: str
    below: str
    task: Task
    beside: str


def draw_tree(
    drawing: Drawing,
    width: int | None,
    symbol: Callable[[State], Part],
    *,
    unicode: bool = True,
) -> Iterator[Line]:
    """Draw the graph in so many cells a line."""
    deepest = _DEEPEST_WITHOUT_WIDTH if width is None else max((width - 16) // _STEP, 2)
    rows = list(_rows(drawing, deepest, _UNICODE if unicode else _ASCII))
    heads = [len(row.lead) + 2 + len(row.task.id) for row in rows]
    column = max(heads, default=0) + 2
    for row, head in zip(rows, heads, strict=True):
        parts: list[Part] = [(row.lead, "dim"), symbol(row.task.state), " ", (row.task.id, "bold")]
        told: list[Part] = [row.task.title, (f"  ({row.beside})" if row.beside else "", "dim")]
        if width is None:
            yield [*parts, " " * (column - head), *told]
        elif column + _ROOM_FOR_TITLE <= width:
            head_of_row = [*parts, " " * (column - head)]
            yield from _beside(head_of_row, list(wrap(told, width - column)), column, row.below)
        else:
            yield from wrap(parts, width)
            for line in wrap(told, max(width - len(row.below), 8)):
                yield [(row.below, "dim"), *line]


def _beside(head: Line, told: list[list[Part]], column: int, below: str) -> Iterator[Line]:
    """The head of a row, with its text in a column to the right of it."""
    for number, line in enumerate(told):
        lead: Line = head if number == 0 else [(f"{below:<{column}}", "dim")]
        yield [*lead, *line]


def _rows(drawing: Drawing, deepest: int, lines: tuple[str, str, str, str]) -> Iterator[Row]:
    """Walk the tree from its roots, depth first, without recursion: a chain may be long."""
    tasks = {task.id: task for task in drawing.tasks}
    chosen, beside = _hang(drawing, tasks)
    below: dict[str | None, list[str]] = {}
    for task_id in tasks:
        below.setdefault(chosen[task_id], []).append(task_id)
    roots = deque((task_id, "") for task_id in below.get(None, []))
    tee, corner, bar, blank = lines
    while roots:
        root, note = roots.popleft()
        stack = [(root, "", "", note)]
        while stack:
            task_id, lead, rest, said = stack.pop()
            children = below.get(task_id, [])
            if len(rest) // _STEP >= deepest and children:
                roots.extend((child, f"after {task_id}") for child in children)
                said = ", ".join(filter(None, [said, "goes on below"]))
                children = []
            text = ", ".join(filter(None, [said, beside[task_id]]))
            yield Row(lead, rest + (bar if children else blank), tasks[task_id], text)
            for number, child in enumerate(reversed(children)):
                last = number == 0
                stack.append((child, rest + (corner if last else tee), rest + (blank if last else bar), ""))


def _hang(drawing: Drawing, tasks: dict[str, Task]) -> tuple[dict[str, str | None], dict[str, str]]:
    """For each task the parent it hangs below, and the words about its other parents."""
    parents: dict[str, list[tuple[str, str]]] = {task_id: [] for task_id in tasks}
    for child, parent, condition in drawing.edges:
        if child in tasks:
            parents[child].append((parent, condition))
    depth = _depths(parents)
    chosen: dict[str, str | None] = {}
    beside: dict[str, str] = {}
    for task_id, found in parents.items():
        inside = [parent for parent, _ in found if parent in tasks]
        best = max(inside, key=lambda parent: depth[parent], default=None)
        chosen[task_id] = best
        others = [_named(parent, how) for parent, how in found if parent != best]
        hung = [f"after {best}:{how}" for parent, how in found if parent == best and how != "completed"]
        also = [f"{'also ' if best else ''}after {', '.join(others)}"] if others else []
        beside[task_id] = "; ".join([*hung, *also])
    return chosen, beside


def _named(parent: str, condition: str) -> str:
    return parent if condition == "completed" else f"{parent}:{condition}"


def _depths(parents: dict[str, list[tuple[str, str]]]) -> dict[str, int]:
    """How many tasks come before each task on its longest way from a root."""
    children: dict[str, list[str]] = {task_id: [] for task_id in parents}
    waiting = {}
    for task_id, found in parents.items():
        inside = [parent for parent, _ in found if parent in parents]
        waiting[task_id] = len(inside)
        for parent in inside:
            children[parent].append(task_id)
    depth = dict.fromkeys(parents, 0)
    ready = deque(task_id for task_id, number in waiting.items() if number == 0)
    while ready:
        parent = ready.popleft()
        for child in children[parent]:
            depth[child] = max(depth[child], depth[parent] + 1)
            waiting[child] -= 1
            if waiting[child] == 0:
                ready.append(child)
    return depth
