"""What operators do: cancel, reopen, pause and resume."""

from __future__ import annotations

from typing import Any

from agentmesh.board import budgets, dependencies, heal
from agentmesh.board.change import Change
from agentmesh.board.lookup import locked_row, ready_state, task_row
from agentmesh.errors import InvalidArgument, NotFound, WrongState
from agentmesh.model import FINAL, PauseScope
from agentmesh.rules import is_met
from agentmesh.store.base import Row, Value


def cancel_task(change: Change, task_id: str, reason: str | None, agent_id: str) -> bool:
    """Cancel a task and whatever can then never run; False when it was cancelled already.

    Raises:
        WrongState: it has completed or failed.
    """
    row = locked_row(change.tx, task_id)
    if row["state"] == "cancelled":
        return False
    if row["state"] in FINAL:
        raise WrongState(task_id, row["state"], "a final task stays as it is")
    dependencies.cancel(change, row, reason, agent_id)
    dependencies.ended(change, row, "cancelled")
    return True


def reopen(change: Change, task_id: str, agent_id: str, *, cascade: bool) -> None:
    """Bring a final task back with its attempts counted anew.

    Children that nobody has started wait for it again; those that run or have ended are left as they are. With
    `cascade`, tasks that were cancelled because of it come back too.

    Raises:
        WrongState: it is not final, or what it waits for has ended otherwise.
    """
    change.tx.execute("lock_graph")
    row = locked_row(change.tx, task_id)
    if row["state"] not in FINAL:
        raise WrongState(task_id, row["state"], "only a final task can be reopened")
    taken = _key_taken(change, row)
    if taken is not None:
        problem = f"task {taken!r} is open and has its key"
        raise WrongState(task_id, row["state"], problem, hint="Reopen it when that task has ended.")
    reopened = [row]
    turns = {row["pk"]: 0}
    _reopen_one(change, row, agent_id)
    while reopened:
        parent = reopened.pop()
        for edge in change.tx.fetch_all("child_conditions", pk=parent["pk"]):
            child = change.tx.fetch_one("task_by_pk", pk=edge["child_pk"]) or {}
            if turns.get(child["pk"], -1) > turns[parent["pk"]]:
                continue  # when it was opened again, this edge was counted
            if child["state"] not in FINAL:
                _wait_again(change, child, held=is_met(edge["condition"], parent["state"]))
            elif (
                cascade and child["state"] == "cancelled" and child["root_pk"] == row["pk"] and _can_open(change, child)
            ):
                turns[child["pk"]] = len(turns)
                _reopen_one(change, child, agent_id)
                reopened.append(child)


def pause(
    change: Change, scope: PauseScope, name: str, *, reason: str, agent_id: str, until_us: int | None
) -> dict[str, Any]:
    """Stop hand-outs of the board, a plan or a task, or to an agent; the pause as it stands, as a row.

    Where they are stopped already, the pause that lasts longer stays.

    Raises:
        InvalidArgument: the end is not in the future.
        NotFound: there is no such plan or task.
        WrongState: the task is final.
    """
    if until_us is not None and until_us <= change.now:
        raise InvalidArgument("until", "must be in the future", hint="Name a later instant, or none.")
    told: dict[str, Any] = {"scope": scope, "name": name} | ({} if until_us is None else {"until_us": until_us})
    if scope == "task":
        row = locked_row(change.tx, name)
        if row["state"] in FINAL:
            raise WrongState(name, row["state"], "only an open task is paused")
        heal.unpause_one(change, row)  # a pause whose end has passed ends before the new one begins
        if change.pause_task(row, reason, agent_id, until_us=until_us):
            change.event("paused", row, agent_id=agent_id, **told)
        return dict(change.tx.fetch_one("task_pause_of", task_pk=row["pk"]) or {})
    if scope == "plan" and change.tx.fetch_one("plan_by_name", name=name) is None:
        raise NotFound("plan", name)
    change.tx.execute("sweep_pauses", now_us=change.now)
    how: dict[str, Value] = {"reason": reason, "agent_id": agent_id, "until_us": until_us}
    if change.tx.execute("add_pause", scope=scope, name=name, now_us=change.now, **how):
        change.event("paused", agent_id=agent_id, **told)
    rows = change.tx.fetch_all("pauses", now_us=change.now)
    return next(dict(row) for row in rows if (row["scope"], row["name"]) == (scope, name))


def resume(change: Change, scope: PauseScope, name: str, agent_id: str) -> bool:
    """Let hand-outs go on, after a storm of failures too; False when they were not paused.

    Raises:
        NotFound: there is no such task.
    """
    if scope == "task":
        return _resume_task(change, name, agent_id)
    change.tx.execute("sweep_pauses", now_us=change.now)
    dropped = change.tx.execute("drop_pause", scope=scope, name=name)
    found = change.tx.fetch_one("plan_by_name", name=name) if scope == "plan" else None
    if not (found and change.tx.execute("close_breaker", plan_pk=found["pk"], now_us=change.now)) and not dropped:
        return False
    change.event("resumed", agent_id=agent_id, scope=scope, name=name)
    change.ready += budgets.ready_tasks(change.tx)
    return True


def set_cap(change: Change, agent: str, most: int, agent_id: str) -> None:
    """Set how many tasks an agent, or with `""` any agent, may hold at once."""
    change.tx.execute("put_cap", agent_id=agent, most=most)
    change.event("claim_cap_set", agent_id=agent_id, name=agent, most=most)
    change.ready += budgets.ready_tasks(change.tx)


def clear_cap(change: Change, agent: str, agent_id: str) -> bool:
    """Take a cap away; False where there is none."""
    if not change.tx.execute("drop_cap", agent_id=agent):
        return False
    change.event("claim_cap_cleared", agent_id=agent_id, name=agent)
    change.ready += budgets.ready_tasks(change.tx)
    return True


def _resume_task(change: Change, task_id: str, agent_id: str) -> bool:
    row = locked_row(change.tx, task_id)
    if not row["paused"] or heal.unpause_one(change, row):
        return False
    heal.end_pause(change, row, agent_id)
    return True


def _reopen_one(change: Change, row: Row, agent_id: str) -> None:
    unmet = dependencies.unmet_edges(change.tx, row)
    below = change.tx.fetch_one("urgency_below", pk=row["pk"])
    lent = below["urgency"] if below else None
    urgency = row["priority"] if lent is None else max(row["priority"], lent)
    change.tx.execute("open_again", pk=row["pk"], now_us=change.now, unmet=unmet, urgency=urgency)
    change.move(row, ready_state(row, change.now, unmet=unmet))
    change.event("task_reopened", row, agent_id=agent_id, was=row["state"])
    fresh = task_row(change.tx, row["id"])
    dependencies.raise_parent(change, fresh)


def _wait_again(change: Change, child: Row, *, held: bool) -> None:
    """An open child of a reopened task: an edge that was met holds it once more."""
    if not held:
        return
    change.tx.execute("count_edge", pk=child["pk"], parents=0, unmet=1)
    if child["state"] in ("pending", "scheduled"):
        change.move(child, "blocked")


def _key_taken(change: Change, task: Row) -> str | None:
    """The open task that has the key of a final one."""
    found = change.tx.fetch_one("open_task_of_key", key=task["key"]) if task["key"] is not None else None
    return found["id"] if found else None


def _can_open(change: Change, child: Row) -> bool:
    if _key_taken(change, child) is not None:
        return False
    try:
        dependencies.unmet_edges(change.tx, child)
    except WrongState:
        return False
    return True
