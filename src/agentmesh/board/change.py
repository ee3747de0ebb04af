"""One write on the board: an open transaction, and what it owes before it may commit.

Functions of the board say what happens to a task; the change keeps the books: it guards each move by what was read,
adds up the tallies, collects events, and at the end brings pools and urgencies in line. Events are written last, so
that on an engine with row locks their order is that of the commits.
"""

from __future__ import annotations

from typing import Any

from agentmesh.board import paths, urgency
from agentmesh.clock import Chance
from agentmesh.errors import StoreError
from agentmesh.jsontext import encode
from agentmesh.model import FINAL, STATES, Ceiling, State
from agentmesh.store.base import Row, Transaction, Value


class Change:
    """The open transaction of a write, its instant and its debts."""

    __slots__ = ("_events", "_left", "_pools", "_tallies", "chance", "now", "ready", "tx")

    def __init__(self, tx: Transaction, chance: Chance) -> None:
        self.tx = tx
        self.now = tx.now
        self.chance = chance
        self.ready = 0
        self._events: list[dict[str, Any]] = []
        self._tallies: dict[int, dict[str, int]] = {}
        self._pools: set[int] = set()
        self._left: dict[int, int] = {}

    def event(
        self,
        kind: str,
        task: Row | None = None,
        /,
        *,
        fence: int | None = None,
        agent_id: str | None = None,
        **data: Any,
    ) -> None:
        """Add a row to the history; `data` must not hold foreign text or secrets."""
        self._events.append(
            {
                "now_us": self.now,
                "kind": kind,
                "plan_pk": task["plan_pk"] if task else None,
                "task_id": task["id"] if task else None,
                "fence": fence,
                "agent_id": agent_id,
                "data": encode(data) if data else "{}",
            }
        )

    def move(
        self,
        task: Row,
        to: State,
        *,
        handed: int = 0,
        charge: int = 0,
        not_before_us: int | None = None,
        reason: str | None = None,
        root_pk: int | None = None,
    ) -> Row:
        """Bring a task to another state, guarded by the state and fence that were read; its row as it then stands.

        Raises:
            StoreError: the row is not as it was read, which a row lock excludes.
        """
        final = to in FINAL
        moved = {
            "state": to,
            "not_before_us": task["not_before_us"] if not_before_us is None else not_before_us,
            "ended_us": self.now if final else None,
            "reason": reason,
            "root_pk": root_pk,
        }
        guard = {"pk": task["pk"], "was": task["state"], "fence": task["fence"]}
        if self.tx.execute("move_task", handed=handed, charge=charge, **guard, **moved) != 1:
            raise StoreError(f"Task {task['id']!r} changed under a lock.")
        self.count(task, task["state"], to)
        if final and (to != "completed" or task["unmet"]):
            # A completed task has open parents only if one was reopened while it ran; `unmet` counts them.
            self._left[task["pk"]] = task["urgency"]
        if final and task["paused"]:
            self.end_pause(task)
        counted = {"fence": task["fence"] + handed, "charged": task["charged"] + charge}
        return {**task, **moved, **counted, "holder": None, "lease_expires_us": None}

    def change_attempt(self, statement: str, row: Row, /, **values: Value) -> None:
        """Change the attempt that holds a task, guarded by its being open as it was read.

        Raises:
            StoreError: it is not, which a row lock excludes.
        """
        if self.tx.execute(statement, task_pk=row["pk"], fence=row["fence"], **values) != 1:
            raise StoreError(f"Attempt {row['fence']} of task {row['id']!r} changed under a lock.")

    def count(self, task: Row, was: State | None, to: State | None) -> None:
        """Enter a task's way from one state to another into the books; None stands for not being on the board."""
        tally = self._tallies.get(task["plan_pk"])
        if tally is None:
            tally = self._tallies[task["plan_pk"]] = dict.fromkeys(STATES, 0)
        if was is not None:
            tally[was] -= 1
        if to is not None:
            tally[to] += 1
        if to == "pending":
            self.ready += 1
        if task["pool_pk"] is not None and "pending" in (was, to):
            self._pools.add(task["pool_pk"])

    def pause_task(
        self,
        task: Row,
        reason: str,
        agent_id: str | None,
        *,
        until_us: int | None = None,
        ceiling: Ceiling | None = None,
    ) -> bool:
        """Pause an open task; False when a pause that lasts as long was there."""
        how: dict[str, Value] = {"reason": reason, "agent_id": agent_id, "until_us": until_us, "ceiling": ceiling}
        if not self.tx.execute("add_task_pause", task_pk=task["pk"], now_us=self.now, **how):
            return False
        self.tx.execute("mark_paused", pk=task["pk"], paused=1)
        self.pool_changed(task["pool_pk"])
        return True

    def end_pause(self, task: Row) -> None:
        """Take the pause of a task away, which puts it back among the ready ones if it is ready."""
        self.tx.execute("drop_task_pause", task_pk=task["pk"])
        self.tx.execute("mark_paused", pk=task["pk"], paused=0)
        self.pool_changed(task["pool_pk"])

    def pool_changed(self, pool_pk: int | None) -> None:
        """A pool's head must be found anew."""
        if pool_pk is not None:
            self._pools.add(pool_pk)

    def less_urgent(self, task_pk: int, was: int) -> None:
        """A task no longer lends its urgency `was` to what it waits for."""
        self._left[task_pk] = max(was, self._left.get(task_pk, was))

    @property
    def in_debt(self) -> bool:
        """Whether urgencies, the heads of pools or the counts of plans are behind what has been done."""
        return bool(self._left or self._pools or self._tallies)

    def catch_up(self) -> None:
        """Bring urgencies, the heads of pools and the counts of plans in line before they are looked at."""
        if self._left:
            self._pools |= urgency.lower(self.tx, self._left)
            self._left.clear()
        for pool_pk in sorted(self._pools):
            paths.refresh(self.tx, pool_pk)
        self._pools.clear()
        for plan_pk, tally in sorted(self._tallies.items()):
            self.tx.execute("count_states", plan_pk=plan_pk, **tally)
        self._tallies.clear()

    def settle(self) -> None:
        """Pay the debts; nothing may follow but the commit."""
        if self.in_debt:
            self.catch_up()
        for event in self._events:
            self.tx.execute("add_event", **event)
