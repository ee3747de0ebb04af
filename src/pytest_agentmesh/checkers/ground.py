"""What all parts of the replay share: the rows that the history ends in, and how much of the past it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentmesh.model import Attempt, Event
from pytest_agentmesh.checkers.rows import Rows


@dataclass(slots=True)
class Ground:
    """The ground a replay stands on.

    `rows` is None where only events are there. `whole` says that the history begins with the board: nothing was pruned
    off it or imported before it; `renewals` that it also tells each heartbeat, as on a test clock. `pruned` counts the
    tasks that were pruned by now, `forgotten` the entries.
    """

    rows: Rows | None
    whole: bool
    changed: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    renewals: bool = False
    went_back: bool = False
    pruned: int = 0
    forgotten: int = 0
    unseen: dict[str, None] = field(default_factory=dict)

    def read(self, events: Sequence[Event]) -> None:
        """Note the first and the last event that changed a field of a task: from the last on, its row tells it."""
        self.renewals = self.whole and any(event.kind == "heartbeat" for event in events)
        for event in events:
            if event.kind == "task_updated" and event.task_id is not None:
                for name in event.data.get("fields", ()):
                    first, _ = self.changed.get((event.task_id, name), (event.seq, 0))
                    self.changed[event.task_id, name] = first, event.seq

    def said(self, task_id: str, name: str, column: str, seq: int) -> Any:
        """What a task said of itself in a field as of an event, by its row; None where the row no longer tells."""
        row = self.rows.tasks.get(task_id) if self.rows else None
        if row is None or seq < self.changed.get((task_id, name), (0, 0))[1]:
            return None
        return getattr(row, column)

    def as_created(self, task_id: str, name: str, seq: int | None = None) -> bool:
        """Whether a field of a task is, as of an event or in the end, what the task was created with."""
        change = self.changed.get((task_id, name))
        return change is None or (seq is not None and seq < change[0])

    def attempt(self, task_id: str, fence: int) -> Attempt | None:
        """The row of an attempt, if it is there."""
        return self.rows.attempts.get((task_id, fence)) if self.rows else None

    def gone(self, task_id: str) -> bool:
        """Whether a task may have been pruned by now."""
        return self.pruned > 0 and (self.rows is None or task_id not in self.rows.tasks)

    def workspace(self, plan: str | None) -> str | None:
        """Where a plan's paths live; without rows, plans are taken to be strangers to each other."""
        return self.rows.workspaces.get(plan or "") if self.rows else plan

    def cannot_see(self, what: str) -> None:
        """Note something that cannot be judged."""
        self.unseen.setdefault(what)
