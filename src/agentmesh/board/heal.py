"""How a board heals with nobody watching: whoever claims first takes back what is due and lets time do its work."""

from __future__ import annotations

from agentmesh.board import ceilings, dependencies, leases
from agentmesh.board.change import Change
from agentmesh.board.lookup import locked_row
from agentmesh.model import Lease
from agentmesh.store.base import Row

BATCH = 50


def heal(change: Change, pulse: Row) -> bool:
    """Reclaim due leases, promote due tasks, end due pauses, one batch each; whether one was full: more may be due."""
    more = False
    if pulse["lease_due_us"] is not None and pulse["lease_due_us"] <= change.now:
        more = len(reclaim(change)) == BATCH
    if pulse["scheduled_due_us"] is not None and pulse["scheduled_due_us"] <= change.now:
        more = promote(change) == BATCH or more
    if pulse["pause_due_us"] is not None and pulse["pause_due_us"] <= change.now:
        more = unpause(change) == BATCH or more
    return more


def reclaim(change: Change) -> list[Lease]:
    """Take back the attempts whose lease is due, longest due first; the leases that ended by it."""
    due = change.tx.fetch_all("due_attempts", now_us=change.now, most=BATCH)
    return [Lease(row["id"], row["fence"], "") for row in due if reclaim_one(change, row["id"], row["fence"])]


def reclaim_one(change: Change, task_id: str, fence: int) -> bool:
    """Take back one attempt, if it is still open and due: both are read again under the row's lock."""
    change.tx.execute("lock_task", id=task_id)
    held = change.tx.fetch_one("held_attempt", id=task_id, fence=fence)
    if held is None or held["outcome"] is not None or held["expires_us"] > change.now:
        return False
    take_back(change, held, "lease expired")
    return True


def take_back(change: Change, held: Row, why: str) -> None:
    """End an open attempt, given as by `held_attempt`, in the place of its holder, who is gone."""
    leases.end_attempt(change, held, "reclaimed")
    left = leases.put_back(change, held, 0, reason=f"{why}, attempt {held['charged']} of {held['max_attempts']}")
    change.event(
        "lease_reclaimed",
        held,
        fence=held["attempt_fence"],
        agent_id=held["agent_id"],
        state=left["state"],
        due_us=held["expires_us"],
    )
    if left["state"] == "failed":
        dependencies.ended(change, held, "failed")
    ceilings.look(change, held, left, "reclaimed")


def promote(change: Change) -> int:
    """Make scheduled tasks whose time has come ready; how many were looked at."""
    rows = change.tx.fetch_all("due_scheduled", now_us=change.now, most=BATCH)
    for due_row in rows:
        row = locked_row(change.tx, due_row["id"])
        if row["state"] == "scheduled" and row["not_before_us"] <= change.now:
            change.move(row, "pending")
            change.event("task_due", row)
    return len(rows)


def unpause(change: Change) -> int:
    """End the pauses of tasks whose time is over; how many were looked at."""
    rows = change.tx.fetch_all("due_pauses", now_us=change.now, most=BATCH)
    for due_row in rows:
        unpause_one(change, locked_row(change.tx, due_row["id"]))
    return len(rows)


def unpause_one(change: Change, task: Row) -> bool:
    """End the pause of one task, if its time is over."""
    pause = change.tx.fetch_one("task_pause_of", task_pk=task["pk"])
    if pause is None or pause["until_us"] is None or pause["until_us"] > change.now:
        return False
    end_pause(change, task, None)
    return True


def end_pause(change: Change, task: Row, agent_id: str | None) -> None:
    """Let a paused task be handed out again, at once if its time has come."""
    change.end_pause(task)
    change.event("resumed", task, agent_id=agent_id, scope="task", name=task["id"])
    if task["state"] == "scheduled" and task["not_before_us"] <= change.now:
        change.move(task, "pending")
        change.event("task_due", task)
    elif task["state"] == "pending":
        change.ready += 1
