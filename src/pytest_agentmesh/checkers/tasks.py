"""Tasks and their graph as plain words: who is open, held or final, and who waits for whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from pytest_agentmesh.checkers.verdict import hold

FINAL: Final = ("completed", "failed", "cancelled")
MET: Final = {"completed": ("completed",), "failed": ("failed",), "finished": FINAL}
"""For each condition, the ends of the parent that meet it."""


@dataclass(slots=True)
class PlainAttempt:
    """A hand-out. `expires_us` is the least that its lease lasts: a renewal need not be in the history.

    `estimate` is what it still has reserved, in pusd and tokens, as far as that is `sure`.
    """

    task_id: str
    fence: int
    agent: str
    seq: int
    started_us: int | None
    expires_us: int
    outcome: str | None = None
    kind: str | None = None
    ended_us: int | None = None
    end_seq: int = 0
    late: bool | None = None
    charged: bool = True
    holds: list[tuple[str, str]] = field(default_factory=list)
    estimate: list[int] = field(default_factory=lambda: [0, 0])
    sure: bool = True


@dataclass(slots=True)
class PlainTask:
    """A task. `phase` is open, held or how it ended, None while nothing is known of it.

    `timing` is what an open task that no dependency holds is: pending or scheduled, None where the history does not
    tell; `weak` says that a dependency has held it since, after which time may have made a scheduled one pending.
    """

    id: str
    plan: str | None
    known: bool
    phase: str | None = None
    fence: int | None = None
    charged: int | None = None
    most: int | None = None
    timing: str | None = None
    weak: bool = False
    due_us: int | None = None
    parents: dict[str, str] = field(default_factory=dict)
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    refunds: Counter[str] = field(default_factory=Counter)
    own_failures: int = 0
    opened_fence: int = 0
    open: PlainAttempt | None = None
    attempts: dict[int, PlainAttempt] = field(default_factory=dict)
    last_seq: int = 0

    @property
    def final(self) -> bool:
        """Whether it has ended."""
        return self.phase in FINAL

    def tell(self, state: str) -> None:
        """An event says in which state the task is now."""
        self.phase = "open"
        self.timing = None if state == "blocked" else state
        self.weak = False
        self.due_us = self.due_us if state == "pending" else None


class Graph:
    """The tasks of a board by id, and the edges between them."""

    def __init__(self) -> None:
        self.tasks: dict[str, PlainTask] = {}
        self._children: dict[str, dict[str, None]] = {}

    def add(self, task: PlainTask) -> PlainTask:
        """Put a task among the others; its parents need not be there yet."""
        self.tasks[task.id] = task
        for parent in task.parents:
            self._children.setdefault(parent, {})[task.id] = None
        return task

    def connect(self, child: PlainTask, parent: str, condition: str) -> None:
        """Let a task wait for another."""
        child.parents[parent] = condition
        self._children.setdefault(parent, {})[child.id] = None

    def part(self, child: PlainTask, parent: str) -> None:
        """Let it no longer wait."""
        del child.parents[parent]
        self._children.get(parent, {}).pop(child.id, None)

    def awaited(self, task_id: str) -> bool:
        """Whether some task waits for one, which need not be there yet."""
        return bool(self._children.get(task_id))

    def children(self, task_id: str) -> Iterator[tuple[PlainTask, str]]:
        """The tasks that wait for one, each with its condition."""
        for name in self._children.get(task_id, ()):
            child = self.tasks[name]
            yield child, child.parents[task_id]

    def unmet(self, task: PlainTask) -> str | None:
        """A dependency that holds the task, in words; None when none does, "" when that is not known."""
        unknown = not task.known
        for parent, condition in task.parents.items():
            above = self.tasks.get(parent)
            if above is None or above.phase is None:
                unknown = True
            elif above.phase not in MET[condition]:
                return f"{parent} to end as {condition}, and that is {self.state(above) or above.phase}"
        return "" if unknown else None

    def count_unmet(self, task: PlainTask) -> int | None:
        """How many dependencies hold the task; None where the history does not tell the state of each."""
        above = [(self.tasks.get(parent), condition) for parent, condition in task.parents.items()]
        if any(parent is None or parent.phase is None for parent, _ in above):
            return None
        return sum(parent is not None and parent.phase not in MET[condition] for parent, condition in above)

    def impossible(self, task: PlainTask) -> str | None:
        """A parent whose end means that the task can never run; None where there is none."""
        for parent, condition in task.parents.items():
            above = self.tasks.get(parent)
            if above is not None and above.final and above.phase not in MET[condition]:
                return parent
        return None

    def state(self, task: PlainTask, *, went_back: bool = False) -> str | None:
        """The one rule for the state of a task; None where the history does not tell."""
        if task.phase == "held":
            return "in_progress"
        if task.phase != "open":
            return task.phase
        held_by = self.unmet(task)
        if held_by:
            return "blocked"
        if held_by == "" or (task.weak and (task.timing == "scheduled" or went_back)):
            return None
        return task.timing

    def refuse_cycle(self, child: str, parent: str, gone: Callable[[str], bool]) -> None:
        """Go on if the new parent does not wait for the child; a task that is gone lost its edges when it was pruned.

        Raises:
            Violation: it does.
        """
        seen, queue = {parent}, [parent]
        for name in queue:  # it grows as we go
            hold(name != child, "P4", "a graph without cycles", f"{child} waits for {parent}, which waits for {child}")
            above = None if gone(name) else self.tasks.get(name)
            for higher in above.parents if above else ():
                if higher not in seen:
                    seen.add(higher)
                    queue.append(higher)
