"""Attempts: who may act on one, how long it lasts, what it holds, how it ends, and whether it is charged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentmesh.model import Event
from pytest_agentmesh.checkers.gates import refuse_overlap
from pytest_agentmesh.checkers.ground import Ground
from pytest_agentmesh.checkers.money import Money
from pytest_agentmesh.checkers.tasks import Graph, PlainAttempt, PlainTask
from pytest_agentmesh.checkers.verdict import Violation, at, hold

CEILINGS: Final = {"released": 20, "infra": 10, "quota": 10}
"""These ends always give their charge back, and so many of them pause the task."""
SPLITS: Final = 20
"""How often a split gives its charge back in the life of a task."""


class Leases:
    """The attempts of all tasks; `open` are the tasks that are held."""

    def __init__(self, ground: Ground, graph: Graph, money: Money) -> None:
        self._ground = ground
        self._graph = graph
        self._money = money
        self.open: dict[str, PlainTask] = {}

    def task(self, event: Event) -> PlainTask:
        """The task that an event is about; in a history without its beginning, a new one may turn up."""
        name = event.task_id or ""
        task = self._graph.tasks.get(name)
        if task is None:
            hold(not self._ground.whole, "P6", f"{name} to have been created", f"{event.kind} tells of it first")
            task = self._graph.add(PlainTask(name, event.plan, known=False))
        return task

    def held(self, event: Event) -> PlainAttempt:
        """The open attempt that an event names, which must be that of its agent."""
        task, agent, fence = self.task(event), event.agent_id or "", event.fence or 0
        attempt = task.open
        if attempt is None and task.phase is None:  # it was handed out before the history begins
            attempt = PlainAttempt(task.id, fence, agent, event.seq, None, 0)
            task.phase, task.fence, task.open, task.attempts[fence] = "held", fence, attempt, attempt
            self.open[task.id] = task
        if attempt is None:
            last = task.attempts.get(fence)
            how = f"ended as {last.outcome} in event {last.end_seq}" if last else "never was"
            expected = f"nothing more of attempt {fence} of {task.id}, which {how}"
            raise Violation("P2", expected, f"{event.kind} of {agent}")
        own = attempt.fence == fence and attempt.agent == agent
        who = f"only attempt {attempt.fence} of {attempt.agent}, which holds {task.id}, to act on it"
        hold(own, "P2", who, f"{event.kind} of {agent} as attempt {fence}")
        return attempt

    def lasts(self, event: Event, attempt: PlainAttempt) -> None:
        """A new lease lasts as long as its task says, where its row still tells how long that is."""
        lasts = attempt.expires_us - event.at_us
        hold(lasts > 0, "P3", "a lease that lasts for a while", f"one of {lasts} us")
        lease_us = self._ground.said(attempt.task_id, "lease_timeout_sec", "lease_timeout_us", event.seq)
        longest = self._ground.said(attempt.task_id, "max_hold_sec", "max_hold_us", event.seq)
        if lease_us is not None and longest is not None:
            hold(lasts == min(lease_us, longest), "P3", f"a lease of {min(lease_us, longest)} us", f"one of {lasts} us")

    def paths(self, event: Event, task: PlainTask) -> list[tuple[str, str]]:
        """What an attempt holds from its beginning: as the task was created or, where it changed, as its row says."""
        held: dict[str, tuple[str, ...]] = {}
        for mode in ("writes", "reads"):
            as_created = task.known and self._ground.as_created(task.id, mode, event.seq)
            told = getattr(task, mode) if as_created else self._ground.said(task.id, mode, mode, event.seq)
            if told is None:
                self._ground.cannot_see(f"the paths of {task.id} in event {event.seq}: they have changed since")
            held[mode] = told or ()
        return [(name, "write") for name in held["writes"]] + [(name, "read") for name in held["reads"]]

    def hold_paths(self, event: Event, attempt: PlainAttempt, wanted: Sequence[tuple[str, str]]) -> None:
        """Let an attempt hold patterns, if no other's exclude them."""
        holders = [(other, other.open) for other in self.open.values() if other.open is not None]
        refuse_overlap(self._ground, event, wanted, holders)
        attempt.holds += wanted

    def end(self, event: Event, outcome: str, *, kind: str | None = None) -> None:
        """The attempt that an event names ends: by its holder, or in its place."""
        task, attempt = self.task(event), self.held(event)
        if outcome in ("completed", "failed", "released", "split"):
            self._late(event, attempt)
        attempt.kind = kind
        if "refunded" in event.data:
            self._refund(event, task, attempt, outcome if outcome != "failed" else kind or "")
        self.close(event, task, attempt, outcome)

    def _late(self, event: Event, attempt: PlainAttempt) -> None:
        """What a holder does after its lease was due is marked late; nothing else is."""
        told, row = bool(event.data.get("late")), self._ground.attempt(attempt.task_id, attempt.fence)
        attempt.late = told
        expires_us = row.lease_expires_us if row else attempt.expires_us
        words = f"its lease ran until {at(expires_us)}, and it ended at {at(event.at_us)}"
        due = expires_us <= event.at_us
        sure = told or row is not None or self._ground.renewals  # else it may have been renewed, which no event tells
        expected = "an end that is marked late" if due else "an end that is not marked late"
        hold(told == due or not sure, "P2", expected, words)

    def _refund(self, event: Event, task: PlainTask, attempt: PlainAttempt, key: str) -> None:
        told = bool(event.data["refunded"])
        if task.known:
            due = key in CEILINGS or (key == "split" and task.refunds[key] < SPLITS)
            words = f"{task.refunds[key]} charges were given back for {key}"
            hold(told == due, "P3", "the charge to be given back" if due else "the charge to stay", words)
        if told:
            attempt.charged = False
            task.refunds[key] += 1
            task.charged = None if task.charged is None else task.charged - 1

    def close(self, event: Event, task: PlainTask, attempt: PlainAttempt, outcome: str) -> None:
        """End an attempt, with all that it had."""
        attempt.outcome, attempt.ended_us, attempt.end_seq = outcome, event.at_us, event.seq
        attempt.holds = []
        task.open = None
        del self.open[task.id]
        self._money.release(task, attempt)
