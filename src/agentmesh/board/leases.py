"""Leases: who holds an attempt, and the ways in which it ends.

Every write of a holder is fenced: the attempt must be open, and the token its own. A holder whose lease is due but not
yet reclaimed is still the holder; what it does then is accepted and marked late.
"""

from __future__ import annotations

import hmac
from dataclasses import replace

from agentmesh.board import budgets, ceilings, paths
from agentmesh.board.change import Change
from agentmesh.board.lookup import ready_state, task_row
from agentmesh.errors import HoldExhausted, LeaseLost, TaskCancelled
from agentmesh.model import FailureKind, Lease, Outcome
from agentmesh.rules import AVERSION_US, JITTER_BITS, SPLIT_REFUNDS, WASTED, retry_delay_us, uncharged
from agentmesh.store.base import Row, Transaction


def shown(tx: Transaction, lease: Lease, statement: str = "held_attempt") -> Row:
    """The task and attempt that a lease names, if the token is the attempt's own; it may be over.

    Args:
        tx: an open transaction.
        lease: the lease.
        statement: what reads them.

    Raises:
        NotFound: the task is not on the board (`Pruned` if it was there once).
        LeaseLost: there is no such attempt, or the token is not its own.
    """
    tx.execute("lock_task", id=lease.task_id)
    row = tx.fetch_one(statement, id=lease.task_id, fence=lease.fence)
    if row is None:
        task_row(tx, lease.task_id)
        raise LeaseLost(lease.task_id, lease.fence)
    if not hmac.compare_digest(row["secret"].encode(), lease.secret.encode("utf-8", "replace")):
        raise LeaseLost(lease.task_id, lease.fence, row["outcome"])
    return row


def holding(row: Row) -> Row:
    """The same row, if the attempt is open.

    Raises:
        TaskCancelled: the task was cancelled while it was held.
        LeaseLost: the attempt is over.
    """
    if row["outcome"] == "cancelled":
        raise TaskCancelled(row["id"], row["attempt_fence"])
    if row["outcome"] is not None:
        raise LeaseLost(row["id"], row["attempt_fence"], row["outcome"])
    return row


def renew(change: Change, lease: Lease) -> Lease:
    """Push the end of a lease out by its timeout, never past the longest hold, never back.

    Raises:
        LeaseLost: the attempt is over, or the token is not its own.
        HoldExhausted: it has been held for as long as its task allows.
    """
    row = holding(shown(change.tx, lease))
    last = row["started_us"] + row["max_hold_us"]
    if change.now >= last:
        raise HoldExhausted(row["id"])
    expires = max(min(change.now + row["lease_timeout_us"], last), row["expires_us"])
    heartbeat = max(change.now, row["heartbeat_us"])
    change.change_attempt("renew_attempt", row, heartbeat_us=heartbeat, lease_expires_us=expires)
    if change.tx.on_test_clock:  # elsewhere they would be most of the history
        change.event("heartbeat", row, fence=row["fence"], agent_id=row["agent_id"], expires_us=expires)
    return replace(lease, expires_us=expires)


def end_attempt(
    change: Change,
    row: Row,
    outcome: Outcome,
    *,
    kind: FailureKind | None = None,
    error: str | None = None,
    retry_at_us: int | None = None,
) -> int:
    """Close the open attempt of a row from `shown`, free its paths, what it has reserved, its place under a cap.

    Returns:
        1 when its charge is given back, else 0.
    """
    refund = _refund(change, row, outcome, kind)
    change.change_attempt(
        "end_attempt",
        row,
        outcome=outcome,
        now_us=change.now,
        charged=0 if refund else row["attempt_charged"],
        kind=kind,
        late=int(row["expires_us"] <= change.now),
        error=error,
        retry_at_us=retry_at_us,
        reserved_pusd=row["reserved_pusd"],
        reserved_tokens=row["reserved_tokens"],
    )
    budgets.release(change, row)
    if row["capped"]:
        change.ready += budgets.ready_tasks(change.tx)
    if outcome in WASTED:
        change.tx.execute("waste_usage", task_pk=row["pk"], fence=row["fence"])
    if row["holds"]:
        paths.let_go(change, row["pk"], row["fence"])
    return refund


def end_open_attempt(change: Change, task: Row, outcome: Outcome) -> None:
    """Close whatever attempt holds a task, without its holder's say."""
    row = change.tx.fetch_one("held_attempt", id=task["id"], fence=task["fence"])
    if row is not None and row["outcome"] is None:
        end_attempt(change, row, outcome)


def put_back(
    change: Change, row: Row, refund: int, *, not_before_us: int | None = None, reason: str = "max_attempts used up"
) -> Row:
    """Make a task claimable again after an attempt that did not finish it.

    With no hand-outs left it fails, if an attempt has failed by the task's own fault; else it stays open, and
    `ceilings.look` pauses it.
    """
    if row["charged"] - refund >= row["max_attempts"] and not ceilings.guiltless(change.tx, row):
        return change.move(row, "failed", charge=-refund, reason=reason)
    to = ready_state(row, change.now, not_before_us=not_before_us)
    return change.move(row, to, charge=-refund, not_before_us=not_before_us)


def retry_at(change: Change, row: Row) -> int:
    """When a failed task may be tried again."""
    return change.now + retry_delay_us(row["charged"], change.chance.getrandbits(JITTER_BITS))


def avert(change: Change, row: Row) -> None:
    """Do not offer a released task to the same agent for a while."""
    change.tx.execute("sweep_aversions", now_us=change.now)
    change.tx.execute("avert", task_pk=row["pk"], agent_id=row["agent_id"], until_us=change.now + AVERSION_US)


def _refund(change: Change, row: Row, outcome: Outcome, kind: FailureKind | None) -> int:
    if not row["attempt_charged"]:
        return 0
    if outcome != "split":
        return int(uncharged(outcome, kind) is not None)
    before = change.tx.fetch_one("count_ends", task_pk=row["pk"], after=row["opened_fence"], outcome=outcome, kind=None)
    return int(before is not None and before["ends"] < SPLIT_REFUNDS)
