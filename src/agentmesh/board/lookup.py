"""Finding tasks, and the one rule that says which state a task that nobody works on is in."""

from __future__ import annotations

from agentmesh.board import records
from agentmesh.errors import NotFound, Pruned
from agentmesh.model import State, Task
from agentmesh.store.base import Row, Transaction


def task_row(tx: Transaction, task_id: str) -> Row:
    """A task's row.

    Raises:
        NotFound: it is not on the board (`Pruned` if it was there once).
    """
    row = known_row(tx, task_id)
    if row["pk"] is None:
        raise Pruned(task_id, row["state"])
    return row


def known_row(tx: Transaction, task_id: str) -> Row:
    """A task's row or, if it was pruned, its tombstone, whose key is None: it says how it ended, and in which plan.

    Raises:
        NotFound: it is not on the board and never was.
    """
    row = find_row(tx, task_id)
    if row is None:
        raise NotFound("task", task_id)
    return row


def find_row(tx: Transaction, task_id: str) -> Row | None:
    """A task's row, else its tombstone, whose key is None; None when the id was never used."""
    return tx.fetch_one("task_by_id", id=task_id) or tx.fetch_one("tombstone_of", id=task_id)


def locked_row(tx: Transaction, task_id: str) -> Row:
    """A task's row, locked until the transaction ends.

    Raises:
        NotFound: it is not on the board (`Pruned` if it was there once).
    """
    tx.execute("lock_task", id=task_id)
    return task_row(tx, task_id)


def task_record(tx: Transaction, task_id: str) -> Task:
    """A task as it stands in this transaction.

    Raises:
        NotFound: it is not on the board.
    """
    return records.task(task_row(tx, task_id))


def ready_state(task: Row, now: int, *, unmet: int | None = None, not_before_us: int | None = None) -> State:
    """The state of a task that is neither held nor final: what it waits for decides.

    Args:
        task: its row.
        now: the instant of the transaction.
        unmet: the edges that hold it, where the row is older than that.
        not_before_us: the time it waits for, where the row is older than that.
    """
    if (task["unmet"] if unmet is None else unmet) > 0:
        return "blocked"
    until = task["not_before_us"] if not_before_us is None else not_before_us
    return "scheduled" if until is not None and until > now else "pending"
