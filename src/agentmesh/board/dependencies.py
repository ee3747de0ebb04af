"""The task graph: adding and removing edges, and what the end of a task does to everything that waits for it."""

from __future__ import annotations

from collections import deque

from agentmesh.board import urgency
from agentmesh.board.change import Change
from agentmesh.board.leases import end_open_attempt
from agentmesh.board.lookup import known_row, ready_state, task_row
from agentmesh.errors import CycleRefused, InvalidArgument, WrongState
from agentmesh.model import FINAL, Condition, State
from agentmesh.rules import MET, conditions_met_by, is_met
from agentmesh.store.base import Row, Transaction


def ended(change: Change, task: Row, end: State, root: Row | None = None) -> list[Row]:
    """Tell the children of a task how it ended, and theirs in turn: some become ready, some can never run.

    Args:
        change: the write.
        task: the task that ended.
        end: how it ended.
        root: the task whose end doomed this one; by default, this one is the root of what it dooms.

    Returns:
        The tasks that were cancelled by it.
    """
    cancelled_by_it: list[Row] = []
    queue: deque[tuple[Row, State]] = deque([(task, end)])
    while queue:
        parent, how = queue.popleft()
        met = conditions_met_by(how)
        doomed, freed = [], False
        for child in change.tx.fetch_all("open_children", pk=parent["pk"]):
            if child["condition"] in met:
                freed = True
            else:
                doomed.append(child["child_pk"])
        if freed:
            _free(change, parent, met)
        for child_pk in doomed:
            cancelled = _doom(change, child_pk, parent, how, root or task)
            if cancelled is not None:
                cancelled_by_it.append(cancelled)
                queue.append((cancelled, "cancelled"))
    return cancelled_by_it


def cancel(
    change: Change,
    task: Row,
    reason: str | None,
    agent_id: str | None,
    root: Row | None = None,
    *,
    root_pk: int | None = None,
) -> None:
    """Cancel one task that is not final, and the attempt that holds it; its children are not told yet.

    Args:
        change: the write.
        task: the task.
        reason: why; our own words where there is a root.
        agent_id: who cancels it, if anybody does.
        root: the task whose end doomed this one.
        root_pk: the task with which this one comes back when that is reopened; by default, the root.
    """
    if task["state"] == "in_progress":
        end_open_attempt(change, task, "cancelled")
    change.move(task, "cancelled", reason=reason, root_pk=root["pk"] if root else root_pk)
    data = {"root": root["id"]} if root else {}
    change.event("task_cancelled", task, fence=task["fence"] or None, agent_id=agent_id, was=task["state"], **data)


def add(change: Change, child: Row, parent: Row, condition: Condition, agent_id: str) -> None:
    """Let a task wait for another; the edge is in force at once. One that was pruned needs no edge: it has ended.

    Raises:
        WrongState: the child is final or running.
        CycleRefused: the parent waits for the child, over the named path.
        InvalidArgument: the edge is there already, with another condition.
    """
    there = change.tx.fetch_one("edge_between", child_pk=child["pk"], parent_pk=parent["pk"])
    if there:
        if there["condition"] != condition:
            problem = f"{child['id']!r} waits for {parent['id']!r} already, for {there['condition']}"
            raise InvalidArgument("condition", problem, hint="Leave the edge as it is.")
        return
    if child["state"] in FINAL or child["state"] == "in_progress":
        raise WrongState(child["id"], child["state"], "dependencies are added before a task is handed out")
    if parent["pk"] is None and is_met(condition, parent["state"]):
        return
    _refuse_cycle(change.tx, child, parent)
    change.event("dependency_added", child, agent_id=agent_id, parent=parent["id"], condition=condition)
    connect(change, child, parent, condition)


def connect(change: Change, child: Row, parent: Row, condition: Condition) -> None:
    """Enter an edge that has been found right, and draw its consequences."""
    met = is_met(condition, parent["state"])
    if parent["pk"] is not None:
        change.tx.execute("add_edge", child_pk=child["pk"], parent_pk=parent["pk"], condition=condition)
        change.tx.execute("count_edge", pk=child["pk"], parents=1, unmet=0 if met else 1)
    if met:
        return
    if parent["state"] in FINAL:
        cancelled = _doom(change, child["pk"], parent, parent["state"], parent)
        if cancelled is not None:
            ended(change, cancelled, "cancelled", parent)
        return
    if child["state"] in ("pending", "scheduled"):
        change.move(child, "blocked")
    if child["urgency"] > parent["urgency"]:
        raise_parent(change, child)


def raise_parent(change: Change, child: Row) -> None:
    """Lend a task's urgency to what it waits for."""
    for pool_pk in urgency.raise_above(change.tx, child["pk"], child["urgency"]):
        change.pool_changed(pool_pk)


def remove(change: Change, child: Row, parent: Row, agent_id: str) -> bool:
    """Let a task no longer wait for another; False when it did not.

    Raises:
        WrongState: the child is final.
    """
    there = change.tx.fetch_one("edge_between", child_pk=child["pk"], parent_pk=parent["pk"])
    if there is None:
        return False
    if child["state"] in FINAL:
        raise WrongState(child["id"], child["state"], "the dependencies of a final task are history")
    held = not is_met(there["condition"], parent["state"])
    change.tx.execute("drop_edge", child_pk=child["pk"], parent_pk=parent["pk"])
    change.tx.execute("count_edge", pk=child["pk"], parents=-1, unmet=-1 if held else 0)
    change.event("dependency_removed", child, agent_id=agent_id, parent=parent["id"])
    if held and child["state"] == "blocked" and child["unmet"] == 1:
        to = ready_state(child, change.now, unmet=0)
        change.move(child, to)
    if parent["state"] not in FINAL and parent["priority"] < parent["urgency"] <= child["urgency"]:
        _recompute(change, parent)
    return True


def _recompute(change: Change, parent: Row) -> None:
    """Work out the urgency of a task that has lost a child, and of what it waits for."""
    below = change.tx.fetch_one("urgency_below", pk=parent["pk"])
    lent = below["urgency"] if below else None
    fresh = parent["priority"] if lent is None else max(parent["priority"], lent)
    if fresh != parent["urgency"]:
        change.tx.execute("set_urgency", pk=parent["pk"], urgency=fresh)
        change.pool_changed(parent["pool_pk"])
        change.less_urgent(parent["pk"], parent["urgency"])


def _free(change: Change, parent: Row, met: tuple[Condition, ...]) -> None:
    change.tx.execute("count_down", pk=parent["pk"], one=met[0], two=met[-1])
    freed = change.tx.fetch_all("free_children", pk=parent["pk"], now_us=change.now)
    for child in freed:
        change.count(child, "blocked", child["state"])


def _doom(change: Change, child_pk: int, parent: Row, how: State, root: Row) -> Row | None:
    """Cancel a child whose condition can no longer be met; None when it is final already."""
    change.tx.execute("lock_task_pk", pk=child_pk)
    child = change.tx.fetch_one("task_by_pk", pk=child_pk)
    if child is None or child["state"] in FINAL:
        return None
    origin = "" if root["pk"] == parent["pk"] else f" (root: {root['id']})"
    cancel(change, child, f"dependency {parent['id']} ended as {how}{origin}", None, root)
    return child


def _refuse_cycle(tx: Transaction, child: Row, parent: Row) -> None:
    if child["pk"] == parent["pk"]:
        raise CycleRefused([child["id"], child["id"]])
    if tx.fetch_one("leads_to", pk=parent["pk"], target=child["pk"]):
        raise CycleRefused([child["id"], *_path_up(tx, parent, child)])


def _path_up(tx: Transaction, start: Row, target: Row) -> list[str]:
    """The ids on a shortest way from a task up to another that it waits for."""
    came_from: dict[int, tuple[int | None, str]] = {start["pk"]: (None, start["id"])}
    queue = deque([start["pk"]])
    while target["pk"] not in came_from:
        here = queue.popleft()
        for parent in tx.fetch_all("parent_keys", pk=here):
            if parent["pk"] not in came_from:
                came_from[parent["pk"]] = (here, parent["id"])
                queue.append(parent["pk"])
    trail: list[str] = []
    at: int | None = target["pk"]
    while at is not None:
        at, name = came_from[at]
        trail.append(name)
    return trail[::-1]


def unmet_edges(tx: Transaction, task: Row) -> int:
    """How many edges hold a task now, counted from the edges themselves.

    Raises:
        WrongState: an edge can never be met; its parent must be opened first.
    """
    unmet = 0
    for parent in tx.fetch_all("parents_of", pk=task["pk"]):
        if parent["state"] not in FINAL:
            unmet += 1
        elif parent["state"] not in MET[parent["condition"]]:
            problem = f"it waits for {parent['id']!r} to end as {parent['condition']}, which ended as {parent['state']}"
            raise WrongState(task["id"], task["state"], problem, hint="Reopen that task, or remove the dependency.")
    return unmet


def both_ends(change: Change, child_id: str, parent_id: str) -> tuple[Row, Row]:
    """The two tasks of an edge, with the graph and their rows locked; the parent may be a tombstone (`known_row`).

    Raises:
        NotFound: one of them is not on the board.
    """
    change.tx.execute("lock_graph")
    for name in sorted({child_id, parent_id}):
        change.tx.execute("lock_task", id=name)
    return task_row(change.tx, child_id), known_row(change.tx, parent_id)
