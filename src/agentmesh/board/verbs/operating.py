"""The verbs of whoever looks after a swarm: cancel, reopen, pause, reclaim."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from agentmesh import limits
from agentmesh.board import heal, operations, plan_end, records
from agentmesh.board.change import Change
from agentmesh.board.requests import once, once_in_parts, request
from agentmesh.board.specs import task_name
from agentmesh.board.verbs.base import Verbs
from agentmesh.errors import InvalidArgument
from agentmesh.model import OPERATOR, Attempt, ClaimCap, Lease, Pause, PauseScope, Task


class Operating(Verbs):
    """What operators do."""

    def cancel_task(
        self, task_id: str, *, reason: str = "", agent_id: str = OPERATOR, request_id: str | None = None
    ) -> Task:
        """Cancel a task, held or not, and whatever can then never run; cancelling it again changes nothing.

        It is one transaction, however many those are: about 30 us each, so 100,000 dependents keep other writers
        waiting for some 3 s.

        Raises:
            WrongState: it has completed or failed.
        """
        why = limits.text("reason", reason, limits.REASON, least=0) or None
        return self._once(
            agent_id,
            request(request_id, "cancel_task", task_id=task_id, reason=reason),
            task_id,
            lambda change, agent: operations.cancel_task(change, task_id, why, agent),
        )

    def cancel_plan(
        self, plan: str, *, reason: str = "", agent_id: str = OPERATOR, request_id: str | None = None
    ) -> int:
        """Cancel every task of a plan that is not final; how many were.

        It takes transactions of at most 500 tasks each, children first, between which others write; a task that is
        handed out in between is cancelled like every running one. It ends when the plan has no open task. If stopped,
        run it again: with the same `request_id` it goes on, and counts what it had cancelled before.

        Raises:
            NotFound: there is no such plan.
        """
        limits.name("plan", plan)
        why = limits.text("reason", reason, limits.REASON, least=0) or None
        call = request(request_id, "cancel_plan", plan=plan, reason=reason)
        agent = limits.name("agent_id", agent_id)
        total, over = 0, False

        def part(change: Change, plan_pk: int, batch: Sequence[plan_end.Open]) -> tuple[int, bool]:
            act = partial(plan_end.cancel_batch, change, plan_pk, batch, why, agent)
            return once_in_parts(change, agent, call, total, act)

        while not over:
            found = self._store.read(lambda tx: plan_end.survey(tx, plan))
            for batch in found.batches():
                total, over = self._write(partial(part, plan_pk=found.plan_pk, batch=batch))
                if over:
                    break
        return total

    def reopen_task(
        self, task_id: str, *, cascade: bool = False, agent_id: str = OPERATOR, request_id: str | None = None
    ) -> Task:
        """Bring a final task back, its attempts counted from 0 again.

        With `cascade` it is one transaction, however many come back: about 50 us each, so 100,000 tasks keep other
        writers waiting for some 5 s, and those with the default `busy_timeout_sec` may get `busy`.

        Args:
            task_id: the task.
            cascade: bring back, too, what was cancelled because of it.
            agent_id: who does it.
            request_id: see `claim_task`.

        Raises:
            WrongState: it is not final, or what it waits for has ended otherwise.
        """
        limits.boolean("cascade", cascade)
        return self._once(
            agent_id,
            request(request_id, "reopen_task", task_id=task_id, cascade=cascade),
            task_id,
            lambda change, agent: operations.reopen(change, task_id, agent, cascade=cascade),
        )

    def pause(
        self,
        *,
        plan: str | None = None,
        agent: str | None = None,
        task_id: str | None = None,
        until: str | float | datetime | None = None,
        reason: str = "",
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> Pause:
        """Stop hand-outs of a plan, to an agent, of a task or, with none of them, of the whole board.

        Running attempts go on. What is paused already keeps the pause that lasts longer.

        Args:
            plan: only tasks of this plan.
            agent: only hand-outs to this agent.
            task_id: only this task, which must be open.
            until: when the pause ends by itself, RFC 3339 or epoch seconds; without it, `resume` ends it.
            reason: why, at most 300 characters.
            agent_id: who does it.
            request_id: see `claim_task`.

        Raises:
            InvalidArgument: more than one scope is named, or `until` is not in the future.
            NotFound: there is no such plan or task.
            WrongState: the task is final.
        """
        scope, name = _scope(plan, agent, task_id)
        limits.text("reason", reason, limits.REASON, least=0)
        until_us = None if until is None else limits.instant_us("until", until)
        by = limits.name("agent_id", agent_id)
        arguments = {"plan": plan, "agent": agent, "reason": reason, **_said(task_id=task_id, until_us=until_us)}
        call = request(request_id, "pause", **arguments)

        def act(change: Change) -> dict[str, object]:
            return operations.pause(change, scope, name, reason=reason, agent_id=by, until_us=until_us)

        row = self._write(lambda change: once(change, by, call, lambda: act(change)))
        return records.pause({"until_us": None, "ceiling": None} | row)  # one that was kept before there were these

    def resume(
        self,
        *,
        plan: str | None = None,
        agent: str | None = None,
        task_id: str | None = None,
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> bool:
        """Let hand-outs go on; false when they were not paused.

        A task that a ceiling paused is handed out again with all of its attempts but those that failed by themselves.

        Raises:
            InvalidArgument: more than one scope is named.
            NotFound: there is no such task.
        """
        scope, name = _scope(plan, agent, task_id)
        by = limits.name("agent_id", agent_id)
        call = request(request_id, "resume", plan=plan, agent=agent, **_said(task_id=task_id))
        return self._write(
            lambda change: bool(once(change, by, call, lambda: operations.resume(change, scope, name, by) or None))
        )

    def set_claim_cap(
        self, most: int, *, agent: str | None = None, agent_id: str = OPERATOR, request_id: str | None = None
    ) -> ClaimCap:
        """Cap how many tasks an agent may hold at once; without a name, every agent that has no cap of its own."""
        top = limits.integer("most", most, 1, limits.ATTEMPTS)
        name, by = _capped(agent), limits.name("agent_id", agent_id)
        call = request(request_id, "set_claim_cap", most=top, agent=agent)

        def act(change: Change) -> bool:
            operations.set_cap(change, name, top, by)
            return True

        self._write(lambda change: once(change, by, call, lambda: act(change)))
        return ClaimCap(agent, top)

    def clear_claim_cap(
        self, *, agent: str | None = None, agent_id: str = OPERATOR, request_id: str | None = None
    ) -> bool:
        """Take a cap away; false where there is none."""
        name, by = _capped(agent), limits.name("agent_id", agent_id)
        call = request(request_id, "clear_claim_cap", agent=agent)
        return self._write(
            lambda change: bool(once(change, by, call, lambda: operations.clear_cap(change, name, by) or None))
        )

    def claim_caps(self) -> list[ClaimCap]:
        """Every cap, that of all agents first."""
        rows = self._store.read(lambda tx: tx.fetch_all("all_caps"))
        return [ClaimCap(row["agent_id"] or None, row["most"]) for row in rows]

    def reclaim_zombies(self) -> list[Attempt]:
        """Take back every attempt whose lease is due now; claims do this by themselves."""
        found: list[Attempt] = []
        while True:
            batch = self._write(lambda change: [_ended(change, lease) for lease in heal.reclaim(change)])
            found += batch
            if len(batch) < heal.BATCH:
                return found


def _scope(plan: str | None, agent: str | None, task_id: str | None) -> tuple[PauseScope, str]:
    if sum(name is not None for name in (plan, agent, task_id)) > 1:
        raise InvalidArgument("plan", "name a plan, an agent or a task, and only one of them")
    if plan is not None:
        return "plan", limits.name("plan", plan)
    if agent is not None:
        return "agent", limits.name("agent", agent)
    return ("board", "") if task_id is None else ("task", task_name("task_id", task_id))


def _said(**values: object) -> dict[str, object]:
    """Arguments that are new, where they are given: without them a call has the digest that it had before."""
    return {name: value for name, value in values.items() if value is not None}


def _capped(agent: str | None) -> str:
    return "" if agent is None else limits.name("agent", agent)


def _ended(change: Change, lease: Lease) -> Attempt:
    row = change.tx.fetch_one("attempt_of", id=lease.task_id, fence=lease.fence) or {}
    return records.attempt(lease.task_id, row)
