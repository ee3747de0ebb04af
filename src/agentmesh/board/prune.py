"""Pruning: what ended long ago goes, what it counted for stays.

A final task that no open task waits for can change nothing on the board any more. It leaves a tombstone, so that its id
never stands for another task and whoever waits for it still learns how it ended, and the sums of its usage. The history
is cut from its beginning on, never to a gap and never to its newest event, from which the next one is numbered.

What may go is found on snapshots, while others write. It is taken away in batches, each in a transaction of its own
that looks again at each thing: a prune that is killed has pruned less, and nothing half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from agentmesh.board.change import Change
from agentmesh.errors import NotFound, StoreError
from agentmesh.store.base import Row, Transaction

TASKS_AT_ONCE = 100
EVENTS_AT_ONCE = 10_000
ENTRIES_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class Horizon:
    """How far a prune goes: what ended or happened later than these instants stays, and so does the `newest` event.

    Without `ended_us` the retention of each plan says which of its tasks go; without one of the others, nothing of that
    kind goes.
    """

    now_us: int
    newest: int
    plan_pk: int | None
    ended_us: int | None
    events_us: int | None
    entries_us: int | None


Find = Callable[[Transaction, Horizon, Row | None], list[Row]]
"""Finds the next batch, after the last row of the one before."""
Take = Callable[[Change, Sequence[Row], str], Sequence[Row]]
"""Takes a batch away in the name of an agent; what of it was still to be taken."""


def horizon(tx: Transaction, plan: str | None, age_us: int | None, events_age_us: int | None) -> Horizon:
    """How far to go, seen from now.

    Args:
        tx: an open transaction.
        plan: only its tasks go, and what belongs to no plan stays.
        age_us: how old what goes must be; None leaves it to the plans.
        events_age_us: the same for events, where it is another.

    Raises:
        NotFound: there is no such plan.
    """
    found = tx.fetch_one("plan_by_name", name=plan) if plan is not None else None
    if plan is not None and found is None:
        raise NotFound("plan", plan)
    ended_us = None if age_us is None else tx.now - age_us
    whole_us = ended_us if plan is None else None
    events_us = whole_us if events_age_us is None else tx.now - events_age_us
    newest = (tx.fetch_one("event_bounds") or {})["last"] or 0
    return Horizon(tx.now, newest, found["pk"] if found else None, ended_us, events_us, whole_us)


def find_tasks(tx: Transaction, until: Horizon, after: Row | None) -> list[Row]:
    """Final tasks that are old enough and that no open task waits for."""
    return tx.fetch_all(
        "prunable_tasks",
        after=after["pk"] if after else 0,
        plan_pk=until.plan_pk,
        ended_us=until.ended_us,
        now_us=until.now_us,
        most=TASKS_AT_ONCE,
    )


def take_tasks(change: Change, found: Sequence[Row], agent_id: str) -> Sequence[Row]:
    """Turn tasks into tombstones; those that were reopened, or got a new child, since they were found stay."""
    tx = change.tx
    tx.execute("lock_graph")
    kin = {row["pk"]: tx.fetch_all("kin_of", pk=row["pk"]) for row in found}
    for name in sorted({row["id"] for rows in (found, *kin.values()) for row in rows}):
        tx.execute("lock_task", id=name)
    gone = [row for row in found if _take_task(change, row, has_kin=bool(kin[row["pk"]]))]
    for pool_pk in sorted({row["pool_pk"] for row in gone} - {None}):
        tx.execute("drop_pool", pk=pool_pk)
    if gone:
        change.event("pruned", agent_id=agent_id, tasks=len(gone))
    return gone


def find_events(tx: Transaction, until: Horizon, after: Row | None) -> list[Row]:
    """The oldest events, up to the first that stays: a clock that was set back must not make a gap."""
    oldest_us = until.events_us
    if oldest_us is None:
        return []
    rows = tx.fetch_all("oldest_events", after=after["seq"] if after else 0, newest=until.newest, most=EVENTS_AT_ONCE)
    return list(takewhile(lambda row: row["at_us"] <= oldest_us, rows))


def take_events(change: Change, found: Sequence[Row], agent_id: str) -> Sequence[Row]:
    """Cut the history after the last of these events."""
    change.tx.execute("cut_history", seq=found[-1]["seq"])
    change.event("pruned", agent_id=agent_id, events=len(found))
    return found


def find_entries(tx: Transaction, until: Horizon, after: Row | None) -> list[Row]:
    """Tombstones of entries of the blackboard."""
    if until.entries_us is None:
        return []
    place = {"namespace": after["namespace"], "key": after["key"]} if after else {"namespace": "", "key": ""}
    return tx.fetch_all("old_tombstones", before_us=until.entries_us, most=ENTRIES_AT_ONCE, **place)


def take_entries(change: Change, found: Sequence[Row], agent_id: str) -> Sequence[Row]:
    """Forget the versions that these entries had."""
    gone = [row for row in found if change.tx.execute("forget_entry", **row)]
    if gone:
        change.event("pruned", agent_id=agent_id, entry_tombstones=len(gone))
    return gone


STAGES: tuple[tuple[Find, Take], ...] = (
    (find_tasks, take_tasks),
    (find_events, take_events),
    (find_entries, take_entries),
)


def _take_task(change: Change, row: Row, *, has_kin: bool) -> bool:
    tx, pk = change.tx, row["pk"]
    as_found = {"pk": pk, "state": row["state"], "fence": row["fence"]}
    if not tx.execute("bury_task", **as_found, ended_us=row["ended_us"], now_us=change.now):
        return False
    if has_kin:
        tx.execute("forget_parent", pk=pk)
        tx.execute("forget_root", pk=pk)
    tx.execute("drop_edges", pk=pk)
    if tx.execute("roll_up_usage", task_pk=pk):
        tx.execute("drop_usage", task_pk=pk)
    if row["fence"]:
        tx.execute("roll_up_attempts", task_pk=pk)
        for statement in ("drop_attempts", "drop_result", "drop_notes", "drop_aversions"):
            tx.execute(statement, task_pk=pk)
    for statement in ("drop_body", "drop_tags", "drop_task_budgets"):
        tx.execute(statement, task_pk=pk)
    if tx.execute("drop_task", **as_found) != 1:
        raise StoreError(f"Task {row['id']!r} changed under a lock.")
    change.count(row, row["state"], None)
    return True
