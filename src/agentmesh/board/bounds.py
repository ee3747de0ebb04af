"""What stands between an agent and the ready tasks: pauses, breakers, caps and budgets, looked at in one place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentmesh.board import breakers, budgets
from agentmesh.board.budgets import UNLIMITED, Room
from agentmesh.model import NoClaim
from agentmesh.store.base import Row, Transaction


def paused(until_us: int | None) -> NoClaim:
    """The answer to a claim that a pause stands in the way of."""
    return NoClaim("paused", "wait", "Hand-outs are paused.", until_us)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far hand-outs to an agent go at this instant.

    `stop`: it gets nothing, and why. `closed`: plans that hand out nothing, by name, and why. `room`: what any task may
    be estimated at. `rooms`: the same for those of one plan, by name.
    """

    stop: NoClaim | None = None
    closed: Mapping[str, NoClaim] = field(default_factory=dict)
    room: Room = UNLIMITED
    rooms: Mapping[str, Room] = field(default_factory=dict)

    def refusal(self, plan: str) -> NoClaim | None:
        """Why nothing of a plan is handed out; None when something may be."""
        return self.closed.get(plan) if self.stop is None else self.stop


def bounds(tx: Transaction, agent_id: str, plan: str | None = None) -> Bounds:
    """What an agent may be handed out now, of a plan or of any that has ready tasks."""
    pauses = {(row["scope"], row["name"]): row["until_us"] for row in tx.fetch_all("pauses", now_us=tx.now)}
    ends = [pauses[scope] for scope in (("board", ""), ("agent", agent_id)) if scope in pauses]
    if ends:
        return Bounds(paused(None if None in ends else max(ends)))
    capped = _capped(tx, agent_id)
    if capped is not None:
        return Bounds(capped)
    closed = {name: paused(until_us) for (scope, name), until_us in pauses.items() if scope == "plan"}
    for name, until_us in breakers.open_now(tx).items():
        closed.setdefault(name, storm(name, until_us))
    limit, rooms = UNLIMITED, dict[str, Room]()
    tx.execute("lock_budgets")
    for row in budgets.before(tx, agent_id, plan):
        left = budgets.room(row)
        if row["scope"] == "plan":
            rooms[row["name"]] = rooms.get(row["name"], UNLIMITED).within(left)
            if min(left) < 0:
                closed.setdefault(row["name"], budgets.spent_up(row))
        elif min(left) < 0:
            return Bounds(budgets.spent_up(row))
        else:
            limit = limit.within(left)
    return Bounds(None, closed, limit, rooms)


def refusal(tx: Transaction, found: Bounds, task: Row, agent_id: str) -> NoClaim | None:
    """Why one ready task is not handed out within these bounds; None when it may be."""
    why = found.refusal(task["plan"])
    return budgets.refusal(budgets.over(tx, task, agent_id), task) if why is None else why


def task_pause(tx: Transaction, task: Row) -> NoClaim | None:
    """Why a task that is marked as paused is not handed out; None when its pause has ended."""
    pause = tx.fetch_one("task_pause_of", task_pk=task["pk"]) if task["paused"] else None
    if pause is None or (pause["until_us"] is not None and pause["until_us"] <= tx.now):
        return None
    return NoClaim("paused", "wait", pause_told(pause), pause["until_us"])


def pause_told(pause: Row) -> str:
    """Who or what paused a task, in a sentence, and what ends the pause."""
    if pause["ceiling"] is None:
        return f"Task {pause['name']} was paused by {pause['agent_id']}."
    mend = "Nothing was cancelled; find out why, then unpause the task: its count begins again."
    return f"Task {pause['name']} is paused: {pause['reason']}. {mend}"


def storm(plan: str, until_us: int) -> NoClaim:
    """The answer to a claim on a plan whose breaker is open."""
    message = f"Plan {plan} pauses after a storm of infra and quota failures."
    return NoClaim("storm", "wait", message, until_us)


def _capped(tx: Transaction, agent_id: str) -> NoClaim | None:
    """The agent's own cap, else that of everybody."""
    caps = tx.fetch_all("caps_over", agent_id=agent_id)
    if not caps:
        return None
    held = tx.fetch_one("count_held", agent_id=agent_id, now_us=tx.now)
    if not held or held["held"] < caps[0]["most"]:
        return None
    message = f"{agent_id} holds {held['held']} tasks, and may hold {caps[0]['most']}: end one first."
    return NoClaim("claim_cap", "blocked_by", message)
