"""Cancelling a whole plan, in batches: others wait for one batch, not for the plan.

What is open is found on a snapshot and cancelled children first. So the end of a task frees and dooms nothing else of
the plan, and a batch is as long as it says, whatever the shape of the graph. Between two batches a task that was not
reached yet may be handed out: that attempt then ends as every attempt at a cancelled task does. The call is over when
a batch leaves no open task in the plan, so what was created or split off meanwhile is cancelled, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentmesh.board import dependencies
from agentmesh.board.change import Change
from agentmesh.errors import NotFound
from agentmesh.model import FINAL, STATES
from agentmesh.rules import is_met, parents_first
from agentmesh.store.base import Transaction

AT_ONCE = 500
READ_AT_ONCE = 10_000


class Open(NamedTuple):
    """An open task of a plan: its key, and that of the task with which it comes back, if there is one above it."""

    pk: int
    root_pk: int | None


class Survey(NamedTuple):
    """A plan's key and its open tasks, children first."""

    plan_pk: int
    tasks: list[Open]

    def batches(self) -> Iterator[list[Open]]:
        """The tasks, as many at once as one transaction takes; at least one batch."""
        for start in range(0, max(len(self.tasks), 1), AT_ONCE):
            yield self.tasks[start : start + AT_ONCE]


def survey(tx: Transaction, plan: str) -> Survey:
    """Find the open tasks of a plan.

    Raises:
        NotFound: there is no such plan.
    """
    found = tx.fetch_one("plan_by_name", name=plan)
    if found is None:
        raise NotFound("plan", plan)
    parents: dict[int, list[int]] = {}
    doomed_by: defaultdict[int, list[int]] = defaultdict(list)
    after, plan_pk = 0, found["pk"]
    while page := tx.fetch_all("open_tasks_of_plan", plan_pk=plan_pk, after=after, most=READ_AT_ONCE):
        last = page[-1]["pk"]
        parents |= {row["pk"]: [] for row in page}
        for edge in tx.fetch_all("open_edges_of_plan", plan_pk=plan_pk, after=after, last=last):
            parents[edge["child_pk"]].append(edge["parent_pk"])
            if not is_met(edge["condition"], "cancelled"):
                doomed_by[edge["parent_pk"]].append(edge["child_pk"])
        after = last
    roots = _roots(parents, doomed_by)
    return Survey(plan_pk, [Open(pk, roots.get(pk)) for pk in reversed(parents_first(parents))])


def cancel_batch(
    change: Change, plan_pk: int, batch: Sequence[Open], reason: str | None, agent_id: str
) -> tuple[int, bool]:
    """Cancel some of the open tasks of a plan, if they still are; how many of it were, and whether none is left."""
    cancelled = 0
    for pk, root_pk in batch:
        change.tx.execute("lock_task_pk", pk=pk)
        row = change.tx.fetch_one("task_by_pk", pk=pk)
        if row is None or row["state"] in FINAL:
            continue
        why = reason if root_pk is None else "its plan was cancelled"
        dependencies.cancel(change, row, why, agent_id, root_pk=root_pk)
        doomed = dependencies.ended(change, row, "cancelled")
        cancelled += 1 + sum(other["plan_pk"] == plan_pk for other in doomed)
    change.catch_up()
    counts = change.tx.fetch_one("tally_of", plan_pk=plan_pk) or {}
    return cancelled, not any(counts.get(state) for state in STATES if state not in FINAL)


def _roots(tasks: dict[int, list[int]], doomed_by: dict[int, list[int]]) -> dict[int, int]:
    """For each task that the end of another one dooms, the first such one, over any number of edges."""
    roots: dict[int, int] = {}
    for root in tasks:
        if root in roots:
            continue
        reached = [root]
        for pk in reached:  # it grows as we go
            fresh = [child for child in doomed_by.get(pk, ()) if child not in roots and child > root]
            roots |= dict.fromkeys(fresh, root)
            reached += fresh
    return roots
