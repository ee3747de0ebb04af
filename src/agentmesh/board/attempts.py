"""What a holder does with its attempt: complete, fail, release, split, hold more paths, leave a note."""

from __future__ import annotations

from collections.abc import Sequence

from agentmesh.board import breakers, ceilings, dependencies, leases, paths, tasks
from agentmesh.board.change import Change
from agentmesh.board.specs import Spec
from agentmesh.errors import InvalidArgument, WrongState
from agentmesh.model import FailureKind
from agentmesh.store.base import Row


def complete(change: Change, held: Row, result: str | None) -> Row:
    """Finish the task, and count down what waits for it in the same transaction; its row as it then stands."""
    leases.end_attempt(change, held, "completed")
    completed = change.move(held, "completed")
    if result is not None:
        change.tx.execute("put_result", task_pk=held["pk"], body=result)
    elif held["opened_fence"]:
        change.tx.execute("drop_result", task_pk=held["pk"])
    change.event("task_completed", held, fence=held["fence"], agent_id=held["agent_id"], **_late(change, held))
    dependencies.ended(change, held, "completed")
    return completed


def fail(
    change: Change, held: Row, error: str, kind: FailureKind, *, retry: bool, retry_after_us: int | None = None
) -> Row:
    """Report a failure: tried again after a delay, unless no hand-outs are left or `retry` is off; the task's row.

    `retry_after_us` is the delay, where the holder was told one; else it grows with each charged attempt.
    """
    retry_at_us = None if retry_after_us is None else change.now + retry_after_us
    refund = leases.end_attempt(change, held, "failed", kind=kind, error=error, retry_at_us=retry_at_us)
    if retry:
        until = leases.retry_at(change, held) if retry_at_us is None else retry_at_us
        why = "max_attempts used up, the last one failed"
        left = leases.put_back(change, held, refund, not_before_us=until, reason=why)
    else:
        left = change.move(held, "failed", charge=-refund, reason="failed for good by its holder")
    told = {} if retry_at_us is None else {"retry_at_us": retry_at_us}
    _report(change, "task_failed", held, left, refund, kind=kind, **told)
    ceilings.look(change, held, left, "failed", kind)
    if kind != "task":
        breakers.look(change, held, retry_at_us)
    return left


def release(change: Change, held: Row, delay_us: int, *, avert: bool = True) -> Row:
    """Give the task back undone; its row as it then stands. `avert`: do not offer it to this agent for a while."""
    refund = leases.end_attempt(change, held, "released")
    until = change.now + delay_us if delay_us else None
    left = leases.put_back(change, held, refund, not_before_us=until)
    if avert:
        leases.avert(change, held)
    _report(change, "task_released", held, left, refund)
    ceilings.look(change, held, left, "released")
    return left


def split(change: Change, held: Row, specs: Sequence[Spec]) -> list[str]:
    """Create subtasks that the task waits for; its next attempt carries their results. The ids of the subtasks."""
    if not specs:
        raise InvalidArgument("subtasks", "must have at least one task")
    if any(edge.id == held["id"] for spec in specs for edge in spec.depends_on):
        raise InvalidArgument("subtasks", "must not wait for the task that is split")
    refund = leases.end_attempt(change, held, "split")
    if held["charged"] - refund >= held["max_attempts"]:
        problem = "its hand-outs are used up, so nobody could finish it after a split"
        raise WrongState(held["id"], held["state"], problem, hint="Complete it or fail it.")
    leases.put_back(change, held, refund)
    told = {"refunded": bool(refund), **_late(change, held)}
    change.event("task_split", held, fence=held["fence"], agent_id=held["agent_id"], **told)
    ids = tasks.insert(change, specs, held["agent_id"]).ids
    for name in ids:
        child, parent = dependencies.both_ends(change, held["id"], name)
        dependencies.add(change, child, parent, "finished", held["agent_id"])
    return ids


def hold_paths(change: Change, held: Row, wanted: Sequence[paths.Want]) -> Row:
    """Let a running attempt hold more patterns.

    Raises:
        PathsHeld: another attempt's hold excludes one of them; its holder is named and nothing is taken.
    """
    change.tx.execute("lock_workspace", workspace=held["workspace"])
    found = paths.blocker(change.tx, held["workspace"], wanted, held["pk"])
    if found is not None:
        raise paths.held_error(change.tx, *found)
    taken = paths.take(change, held, held["fence"], wanted)
    change.change_attempt("count_holds", held, more=taken)
    held_now = {mode: [pattern for pattern, how in wanted if how == mode] for mode in ("write", "read")}
    change.event(
        "paths_held",
        held,
        fence=held["fence"],
        agent_id=held["agent_id"],
        writes=held_now["write"],
        reads=held_now["read"],
    )
    return held


def note(change: Change, held: Row, text: str) -> int:
    """Leave a remark on the attempt; its key."""
    row = change.tx.fetch_one(
        "add_note",
        task_pk=held["pk"],
        fence=held["fence"],
        agent_id=held["agent_id"],
        now_us=change.now,
        text=text,
    )
    change.event("noted", held, fence=held["fence"], agent_id=held["agent_id"])
    return int(row["pk"]) if row else 0


def _report(change: Change, event: str, held: Row, left: Row, refund: int, **data: str | int) -> None:
    """Enter an end that did not finish the task into the history, and tell its children if it was its last."""
    how = {"state": left["state"], "refunded": bool(refund), **data, **_late(change, held)}
    change.event(event, held, fence=held["fence"], agent_id=held["agent_id"], **how)
    if left["state"] == "failed":
        dependencies.ended(change, held, "failed")


def _late(change: Change, held: Row) -> dict[str, bool]:
    return {"late": True} if held["expires_us"] <= change.now else {}
