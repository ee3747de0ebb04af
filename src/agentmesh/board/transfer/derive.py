"""What a board keeps for speed, worked out from its rows: nothing of it is taken from a file."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cached_property

from agentmesh.rules import find_cycle, parents_first
from agentmesh.store.base import Transaction


class Graph:
    """The tasks of a board by key, from 1 on, and what waits for what, as small as it gets."""

    def __init__(self) -> None:
        self.priorities = array("q", [0])
        self.is_open = bytearray(1)
        self.parents: dict[int, list[int]] = {}

    def add_task(self, priority: int, *, is_open: bool) -> int:
        """Enter a task; its key."""
        self.priorities.append(priority)
        self.is_open.append(is_open)
        return len(self.priorities) - 1

    def add_edge(self, child: int, parent: int) -> None:
        """Let a task wait for another."""
        self.parents.setdefault(child, []).append(parent)
        self.parents.setdefault(parent, [])

    @cached_property
    def _parents_first(self) -> list[int]:
        return parents_first(self.parents)

    def cycle(self) -> list[int] | None:
        """The keys of tasks that wait for each other in a circle, the first once more at the end; None without one."""
        return find_cycle(self.parents) if len(self._parents_first) < len(self.parents) else None

    def urgencies(self) -> Iterator[dict[str, int]]:
        """The open tasks that are more urgent than their priority says, because of what waits for them."""
        urgency = array("q", self.priorities)
        for child in reversed(self._parents_first):
            if self.is_open[child]:
                for parent in self.parents[child]:
                    urgency[parent] = max(urgency[parent], urgency[child])
        for pk in self.parents:
            if self.is_open[pk] and urgency[pk] != self.priorities[pk]:
                yield {"pk": pk, "urgency": urgency[pk]}


def derive(tx: Transaction, graph: Graph) -> None:
    """Bring all that stands for speed in line with the rows of a new board."""
    tx.execute("derive_fences")
    tx.execute("derive_edges")
    tx.execute_many("set_urgency", graph.urgencies())
    tx.execute("derive_tallies")
    tx.execute("derive_pool_heads")
    tx.execute("derive_sources")
    tx.execute("derive_usage_totals")
