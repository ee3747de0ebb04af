"""The board at a glance, from the tallies: it costs the same on any board."""

from __future__ import annotations

from collections.abc import Mapping

from agentmesh.board import breakers, records
from agentmesh.errors import NotFound
from agentmesh.model import STATES, PlanStatus, State, Status
from agentmesh.store.base import Row, Transaction

PAUSES_SHOWN = 100
"""How many paused tasks a status lists."""


def status(tx: Transaction) -> Status:
    """Counts by state and plan, what is paused, what time will change next."""
    rows = tx.fetch_all("pauses", now_us=tx.now) + tx.fetch_all("task_pauses", now_us=tx.now, most=PAUSES_SHOWN)
    pauses = tuple(records.pause(row) for row in rows)
    paused = {pause.name for pause in pauses if pause.scope == "plan"}
    storms = breakers.open_now(tx)
    plans = tuple(_plan(row, row["plan"] in paused, storms) for row in tx.fetch_all("tallies"))
    pulse = tx.fetch_one("pulse", now_us=tx.now) or {}
    bounds = tx.fetch_one("event_bounds") or {}
    due = tx.fetch_one("count_due", now_us=tx.now)
    held_back = tx.fetch_one("count_paused_tasks", now_us=tx.now)
    ends = [row["until_us"] for row in rows if row["scope"] != "task"]
    dues = [
        at for at in (pulse["lease_due_us"], pulse["scheduled_due_us"], pulse["pause_due_us"], *ends) if at is not None
    ]
    return Status(
        counts={state: sum(plan.counts[state] for plan in plans) for state in STATES},
        plans=plans,
        pauses=pauses,
        last_seq=bounds["last"] or 0,
        leases_due=due["due"] if due else 0,
        next_due_us=min(dues, default=None),
        now_us=tx.now,
        paused_tasks=held_back["paused"] if held_back else 0,
    )


def of_plan(tx: Transaction, plan: str) -> PlanStatus:
    """One plan of a status.

    Raises:
        NotFound: there is no such plan.
    """
    for found in status(tx).plans:
        if found.plan == plan:
            return found
    raise NotFound("plan", plan)


def next_instant(tx: Transaction) -> int | None:
    """When time alone changes something on the board next."""
    row = tx.fetch_one("next_instant", now_us=tx.now) or {}
    return min((at_us for at_us in row.values() if at_us is not None), default=None)


def _plan(row: Row, paused: bool, storms: Mapping[str, int]) -> PlanStatus:  # noqa: FBT001 - as in the record
    name = row["plan"]
    return PlanStatus(name, row["workspace"], _counts(row), paused, row["retention_us"], storms.get(name))


def _counts(row: Row) -> dict[State, int]:
    return {state: row[state] for state in STATES}
