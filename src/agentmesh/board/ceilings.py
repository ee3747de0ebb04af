"""Ceilings: a task whose attempts end too often by no fault of its own is paused, never failed.

Releases, `infra` and `quota` failures are not charged, so nothing else would stop a task that nobody can work on from
being handed out for ever. Reclaims are charged, for the task may be what kills its agents; when they use up the
hand-outs and no attempt has failed by itself, that is not known, and a person has to look at it.
"""

from __future__ import annotations

from agentmesh.board.change import Change
from agentmesh.model import Ceiling, FailureKind, Outcome
from agentmesh.rules import CEILINGS, uncharged
from agentmesh.store.base import Row, Transaction

REASONS: dict[Ceiling, str] = {
    "released": "agents gave it back {times}",
    "infra": "{count} attempts failed for want of infrastructure",
    "quota": "{count} attempts failed for want of quota",
    "reclaimed": "its lease ran out {times}, and no attempt failed by itself",
}


def guiltless(tx: Transaction, task: Row) -> bool:
    """Whether no attempt of a task has failed by itself since the task was last opened."""
    return _count(tx, task, task["opened_fence"], "failed", "task") == 0


def look(change: Change, held: Row, left: Row, outcome: Outcome, kind: FailureKind | None = None) -> None:
    """Pause a task if the end of its attempt, which has just been entered, reaches a ceiling.

    Args:
        change: the write.
        held: the task and the attempt as they were.
        left: the task as it stands now.
        outcome: how the attempt ended.
        kind: the kind of a failure.
    """
    used_up = left["charged"] >= left["max_attempts"]
    ceiling = "reclaimed" if outcome == "reclaimed" else uncharged(outcome, kind)
    if ceiling is None or left["state"] == "failed" or (ceiling == "reclaimed" and not used_up):
        return
    ends = _count(change.tx, held, max(held["opened_fence"], held["excused_fence"]), outcome, kind)
    if used_up or ends >= CEILINGS[ceiling]:
        _pause(change, left, ceiling, ends)


def _pause(change: Change, task: Row, ceiling: Ceiling, ends: int) -> None:
    """Take a task out of circulation and give back all charges but those of its own failures."""
    refunded = change.tx.execute("excuse_attempts", task_pk=task["pk"], opened_fence=task["opened_fence"])
    change.tx.execute("excuse_task", pk=task["pk"], refunded=refunded)
    reason = REASONS[ceiling].format(count=ends, times="once" if ends == 1 else f"{ends} times")
    change.pause_task(task, reason, None, ceiling=ceiling)
    told = {"scope": "task", "name": task["id"], "ceiling": ceiling, "count": ends, "refunded": refunded}
    change.event("paused", task, **told)


def _count(tx: Transaction, task: Row, after: int, outcome: Outcome, kind: FailureKind | None) -> int:
    found = tx.fetch_one("count_ends", task_pk=task["pk"], after=after, outcome=outcome, kind=kind)
    return int(found["ends"]) if found else 0
