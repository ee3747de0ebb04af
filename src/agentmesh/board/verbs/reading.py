"""The verbs that change nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from agentmesh import limits
from agentmesh.board import check, claim, explain, records, status, tasks, waits
from agentmesh.board.lookup import task_row
from agentmesh.board.picking import Ask
from agentmesh.board.specs import task_name
from agentmesh.board.verbs.base import Verbs
from agentmesh.errors import CursorExpired, InvalidArgument
from agentmesh.model import (
    OPERATOR,
    STATES,
    Attempt,
    Event,
    Explanation,
    Finding,
    Note,
    Page,
    PlanStatus,
    State,
    Status,
    Task,
)
from agentmesh.store.base import Row, Transaction

T = TypeVar("T")


class Reading(Verbs):
    """Tasks, counts, causes, history and checks, each on one snapshot."""

    def get_task(self, task_id: str) -> Task:
        """A task with its description, payload, dependencies and result.

        Raises:
            NotFound: it is not on the board.
        """
        task_name("task_id", task_id)
        return self._store.read(lambda tx: tasks.get(tx, task_id))

    def list_tasks(
        self,
        *,
        plan: str | None = None,
        state: State | None = None,
        tag: str | None = None,
        holder: str | None = None,
        limit: int = 50,
        cursor: int | None = None,
    ) -> Page:
        """One page of tasks in the order of their creation, without their long texts."""
        if state is not None:
            limits.choice("state", state, STATES)
        for field, value in (("plan", plan), ("tag", tag), ("holder", holder)):
            if value is not None:
                limits.name(field, value)
        most = limits.integer("limit", limit, 1, limits.PAGE)
        after = 0 if cursor is None else limits.integer("cursor", cursor, 0, limits.INTEGER)
        return self._store.read(
            lambda tx: tasks.page(tx, plan=plan, state=state, tag=tag, holder=holder, limit=most, after=after)
        )

    def attempts(self, task_id: str) -> list[Attempt]:
        """Every hand-out of a task, oldest first.

        Raises:
            NotFound: it is not on the board.
        """
        return self._of_task(task_id, "attempts_of", lambda row: records.attempt(task_id, row))

    def notes(self, task_id: str) -> list[Note]:
        """The remarks that its holders left, oldest first.

        Raises:
            NotFound: it is not on the board.
        """
        return self._of_task(task_id, "notes_of", records.note)

    def edges(self, plan: str | None = None) -> list[tuple[str, str, str]]:
        """The graph of the board or of a plan: child, parent, condition."""
        if plan is not None:
            limits.name("plan", plan)
        rows = self._store.read(lambda tx: tx.fetch_all("edges_of_plan", plan=plan))
        return [(row["child"], row["parent"], row["condition"]) for row in rows]

    def has_work(
        self,
        *,
        plan: str | None = None,
        capabilities: Iterable[str] = (),
        tags: Iterable[str] = (),
        agent_id: str = OPERATOR,
    ) -> bool:
        """Whether a claim would find something now; a plain read.

        It may say yes for nothing: where a lease is due and it depends on the rest of the board what that sets free,
        where hundreds of sets of paths have just become held, or where a task has a daily budget and the clock was set
        back. The claim that follows puts that right.
        """
        ask = Ask(
            limits.name("agent_id", agent_id),
            None if plan is None else limits.name("plan", plan),
            frozenset(limits.names("capabilities", capabilities)),
            frozenset(limits.names("tags", tags)),
        )
        return self._store.read(lambda tx: claim.available(tx, ask, self._catalogue))

    def status(self) -> Status:
        """Counts by state and plan, what is paused, what time will change next."""
        return self._store.read(status.status)

    def explain(
        self, task_id: str | None = None, *, agent_id: str | None = None, capabilities: Iterable[str] | None = None
    ) -> Explanation:
        """Why nobody works on a task, or on the board: the root causes over edges, paths, capabilities, times, pauses.

        Args:
            task_id: the task; None for the whole board.
            agent_id: whose view it is, if one agent asks.
            capabilities: what that agent can do; by default, what agents seen in the last hour can do.
        """
        able = None if capabilities is None else frozenset(limits.names("capabilities", capabilities))
        if agent_id is not None:
            limits.name("agent_id", agent_id)
        if task_id is not None:
            task_name("task_id", task_id)
            return self._store.read(lambda tx: explain.task(tx, task_id, agent_id, able))
        return self._store.read(lambda tx: explain.board(tx, agent_id, able))

    def events(
        self, after: int = 0, *, limit: int = 200, wait_sec: float = 0, cancel: waits.Cancel | None = None
    ) -> list[Event]:
        """History after a cursor (the `seq` of the last event read), oldest first; waits for news if told to.

        Raises:
            CursorExpired: the cursor lies outside the history that is kept.
        """
        limits.integer("after", after, 0, limits.INTEGER)
        most = limits.integer("limit", limit, 1, 1000)
        wait_us = limits.duration_us("wait_sec", wait_sec, (0, limits.WAIT_SEC))

        def read(tx: Transaction) -> list[Event]:
            _refuse_outside(tx, after)
            return [records.event(row) for row in tx.fetch_all("events_after", after=after, most=most)]

        return waits.until(
            self._store,
            lambda: self._store.read(read),
            wait_us,
            next_due=lambda: None,
            worth_asking=lambda: True,
            for_tasks=False,
            cancel=cancel,
        )

    def wait_for(
        self,
        task_id: str | None = None,
        *,
        plan: str | None = None,
        wait_sec: float = limits.WAIT_SEC,
        cancel: waits.Cancel | None = None,
    ) -> Task | PlanStatus:
        """Wait until a task is final, or every task of a plan is; how it then stands, which `final` tells.

        Args:
            task_id: the task to wait for.
            plan: the plan to wait for, instead of a task; what is added to it meanwhile is waited for, too.
            wait_sec: how long to wait at most.
            cancel: asked at each wake-up; true ends the wait.

        Raises:
            NotFound: there is no such task or plan (`Pruned` if the task was there).
            InvalidArgument: neither a task nor a plan is named, or both are.
        """
        if (task_id is None) == (plan is None):
            raise InvalidArgument("task_id", "name a task or a plan, and not both")
        if task_id is not None:
            task_name("task_id", task_id)
        name = None if plan is None else limits.name("plan", plan)
        wait_us = limits.duration_us("wait_sec", wait_sec, (0, limits.WAIT_SEC))
        seen: list[Task | PlanStatus] = []

        def look(tx: Transaction) -> Task | PlanStatus:
            return status.of_plan(tx, name) if name is not None else tasks.get(tx, task_id or "")

        def over() -> bool:
            seen[:] = [self._store.read(look)]
            return seen[0].final

        waits.until(
            self._store,
            over,
            wait_us,
            next_due=lambda: None,
            worth_asking=lambda: True,
            for_tasks=False,  # a place in the queue for tasks would swallow wake-ups that are meant for claims
            cancel=cancel,
        )
        return seen[0]

    def check(self) -> list[Finding]:
        """What the rows say of each promise: held, violated, or not observable here."""
        return self._store.read(check.check)

    def wake_waits(self) -> None:
        """End the sleep of every wait on this board object, so that each asks its `cancel`."""
        self._store.wake_own()

    def _of_task(self, task_id: str, statement: str, record: Callable[[Row], T]) -> list[T]:
        task_name("task_id", task_id)

        def read(tx: Transaction) -> list[T]:
            return [record(row) for row in tx.fetch_all(statement, task_pk=task_row(tx, task_id)["pk"])]

        return self._store.read(read)


def _refuse_outside(tx: Transaction, after: int) -> None:
    bounds = tx.fetch_one("event_bounds") or {}
    first, last = bounds["first"] or 1, bounds["last"] or 0
    if not first - 1 <= after <= last:
        raise CursorExpired(after, first, last)
