"""The verbs of whoever works: claim a task, keep it, end it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentmesh import limits
from agentmesh.board import attempts, claim, leases, records, waits
from agentmesh.board.change import Change
from agentmesh.board.claim import Claim
from agentmesh.board.lookup import task_record
from agentmesh.board.picking import Ask
from agentmesh.board.requests import Request, once, request
from agentmesh.board.specs import read_patterns, read_spec, refuse_too_many_edges, task_name
from agentmesh.board.verbs.base import Verbs, lease_of
from agentmesh.errors import InvalidArgument
from agentmesh.model import FailureKind, Json, Lease, NoClaim, Note, Task

REMEMBERED = 4096


class Holding(Verbs):
    """Claims, leases and the ends of attempts."""

    def claim_task(
        self,
        agent_id: str,
        *,
        plan: str | None = None,
        task_id: str | None = None,
        capabilities: Iterable[str] = (),
        tags: Iterable[str] = (),
        wait_sec: float = 0,
        resume: bool = False,
        take_over: bool = False,
        request_id: str | None = None,
        cancel: waits.Cancel | None = None,
    ) -> Claim | NoClaim:
        """Get the most urgent ready task that this agent can do, or the one named.

        Args:
            agent_id: who asks.
            plan: only tasks of this plan.
            task_id: this task and no other.
            capabilities: what the agent can do; it gets tasks whose `requires` are among them.
            tags: only tasks that carry all of these.
            wait_sec: sleep until something is ready, at most 50 seconds.
            resume: give back one's own open attempt, if there is one, with a new secret and the same fence.
            take_over: with `resume`: take it from another live session of this agent.
            request_id: repeated with the same arguments within a day, it gives the same claim.
            cancel: asked at each wake-up of a wait; true ends it.

        Raises:
            AlreadyClaimed: the named task is held, or the attempt to resume belongs to a live session.
            NotFound: the named task is not on the board.
        """
        ask = Ask(
            limits.name("agent_id", agent_id),
            None if plan is None else limits.name("plan", plan),
            frozenset(limits.names("capabilities", capabilities)),
            frozenset(limits.names("tags", tags)),
        )
        if task_id is not None:
            task_name("task_id", task_id)
        resume = limits.boolean("resume", resume) or limits.boolean("take_over", take_over)
        call = request(
            request_id,
            "claim_task",
            plan=plan,
            task_id=task_id,
            capabilities=sorted(ask.capabilities),
            tags=sorted(ask.tags),
        )
        wait_us = limits.duration_us("wait_sec", wait_sec, (0, limits.WAIT_SEC))

        def attempt() -> Claim | NoClaim:
            return self._claim_now(ask, task_id, call, resume=resume, take_over=take_over)

        return waits.until(
            self._store,
            attempt,
            wait_us,
            next_due=lambda: self._next_due(ask.agent_id),
            worth_asking=lambda: (
                task_id is not None or self._store.read(lambda tx: claim.worthwhile(tx, ask, self._catalogue))
            ),
            for_tasks=True,
            cancel=cancel,
        )

    def heartbeat(self, lease: Lease | Claim) -> Lease:
        """Renew a lease by its task's timeout.

        It does nothing else, so it does not wait for the disk: after a power cut the lease may run out as if it had not
        been renewed the last times.

        Raises:
            LeaseLost: the attempt is over, or the token is not its own (`TaskCancelled` if the task was cancelled).
            HoldExhausted: the attempt has lasted as long as its task allows.
        """
        held = lease_of(lease)
        return self._write(lambda change: leases.renew(change, held), synced=False)

    def complete_task(self, lease: Lease | Claim, result: Json = None, *, request_id: str | None = None) -> Task:
        """Finish a task. `result` is any JSON of at most 64 KiB; the tasks that wait for it get it with their claim.

        Raises:
            LeaseLost: the attempt is over, or the token is not its own.
        """
        named = lease_of(lease)
        text = None if result is None else limits.json_text("result", result)
        call = request(request_id, "complete_task", task_id=named.task_id, result=text)
        return self._held(named, call, lambda change, held: attempts.complete(change, held, text))

    def fail_task(
        self,
        lease: Lease | Claim,
        error: str,
        *,
        kind: FailureKind = "task",
        retry: bool = True,
        retry_after_sec: float | None = None,
        request_id: str | None = None,
    ) -> Task:
        """Report that an attempt failed.

        Args:
            lease: the lease.
            error: what went wrong, at most 8 KiB.
            kind: `task` counts against `max_attempts`; `infra` and `quota` do not, but the tenth pauses the task.
            retry: false fails the task for good.
            retry_after_sec: for `infra` and `quota`, when the vendor said to try again; the task waits so long.
            request_id: see `claim_task`.

        Raises:
            InvalidArgument: `retry_after_sec` is given for a failure of the task itself, or without a retry.
            LeaseLost: the attempt is over, or the token is not its own.
        """
        named = lease_of(lease)
        limits.long_text("error", error, limits.ERROR_BYTES)
        limits.choice("kind", kind, ("task", "infra", "quota"))
        limits.boolean("retry", retry)
        after_us: int | None = None
        arguments: dict[str, Any] = {"error": error, "kind": kind, "retry": retry}
        if retry_after_sec is not None:
            after_us = arguments["retry_after_us"] = limits.duration_us(
                "retry_after_sec", retry_after_sec, limits.DELAY_SEC
            )
            if kind == "task" or not retry:
                raise InvalidArgument("retry_after_sec", "is for infra and quota failures that are tried again")
        call = request(request_id, "fail_task", task_id=named.task_id, **arguments)
        return self._held(
            named,
            call,
            lambda change, held: attempts.fail(change, held, error, kind, retry=retry, retry_after_us=after_us),
        )

    def release_task(self, lease: Lease | Claim, *, delay_sec: float = 0, request_id: str | None = None) -> Task:
        """Give a task back undone; this agent is not offered it again for a minute unless it asks for it by id.

        Raises:
            LeaseLost: the attempt is over, or the token is not its own.
        """
        named = lease_of(lease)
        delay_us = limits.duration_us("delay_sec", delay_sec, limits.DELAY_SEC)
        call = request(request_id, "release_task", task_id=named.task_id, delay_sec=delay_sec)
        return self._held(named, call, lambda change, held: attempts.release(change, held, delay_us))

    def give_back(self, claim: Claim) -> Task:
        """Release a claim that could not be delivered to its agent, which may be offered the task again at once.

        Raises:
            LeaseLost: the attempt is over.
        """
        return self._held(claim.lease, None, lambda change, held: attempts.release(change, held, 0, avert=False))

    def split_task(
        self, lease: Lease | Claim, subtasks: Sequence[Mapping[str, Any]], *, request_id: str | None = None
    ) -> list[Task]:
        """Create subtasks that the task then waits for, however they end; its next claim carries their results.

        Raises:
            LeaseLost: the attempt is over, or the token is not its own.
            CycleRefused: a subtask waits for something that waits for the task.
        """
        listed = limits.items("subtasks", subtasks, limits.DEPENDENCIES)
        call = request(request_id, "split_task", task_id=lease_of(lease).task_id, subtasks=listed)
        held_lease = lease_of(lease)

        def work(change: Change) -> list[Task]:
            shown = leases.shown(change.tx, held_lease)
            specs = [
                read_spec(spec, plan=shown["plan"], where=f"subtasks[{place}].")  # type: ignore[arg-type]  # it checks
                for place, spec in enumerate(listed)
            ]
            refuse_too_many_edges("subtasks", specs)
            ids = once(change, shown["agent_id"], call, lambda: attempts.split(change, leases.holding(shown), specs))
            return [task_record(change.tx, name) for name in ids]

        return self._write(work)

    def hold_paths(
        self,
        lease: Lease | Claim,
        *,
        writes: Iterable[str] = (),
        reads: Iterable[str] = (),
        request_id: str | None = None,
    ) -> Task:
        """Let a running attempt hold more path patterns; they are freed when it ends.

        Raises:
            PathsHeld: another attempt holds an overlapping one; it is named and nothing is taken.
            LeaseLost: the attempt is over, or the token is not its own.
        """
        named = lease_of(lease)
        wanted = [(pattern, "write") for pattern in read_patterns("writes", writes)]
        wanted += [(pattern, "read") for pattern in read_patterns("reads", reads)]
        if not wanted:
            raise InvalidArgument("writes", "must name at least one pattern, here or in reads")
        call = request(request_id, "hold_paths", task_id=named.task_id, wanted=wanted)
        return self._held(named, call, lambda change, held: attempts.hold_paths(change, held, wanted))  # type: ignore[arg-type]  # the modes are literals

    def note(self, lease: Lease | Claim, text: str, *, request_id: str | None = None) -> Note:
        """Leave a remark of at most 64 KiB on an attempt.

        Raises:
            LeaseLost: the attempt is over, or the token is not its own.
        """
        limits.text("text", text, limits.TEXT_BYTES)
        limits.long_text("text", text)
        named = lease_of(lease)
        call = request(request_id, "note", task_id=named.task_id, text=text)

        def work(change: Change) -> Note:
            shown = leases.shown(change.tx, named)
            pk = once(change, shown["agent_id"], call, lambda: attempts.note(change, leases.holding(shown), text))
            return records.note(change.tx.fetch_one("note_by_pk", pk=pk) or {})

        return self._write(work)

    def _claim_now(
        self, ask: Ask, task_id: str | None, call: Request | None, *, resume: bool, take_over: bool
    ) -> Claim | NoClaim:
        answer: Claim | NoClaim | None = None

        def run(change: Change) -> Claim | NoClaim | None:
            found = claim.claim(
                change,
                ask,
                task_id=task_id,
                call=call,
                catalogue=self._catalogue,
                known=self._secrets,
                resume=resume,
                take_over=take_over,
            )
            return self._in_full(change, found) if isinstance(found, claim.Handed) else found

        while answer is None:
            answer = self._write(run)
        self._catalogue.committed(ask.agent_id)
        if isinstance(answer, Claim):
            self._remember(answer.lease)
        return answer

    def _in_full(self, change: Change, handed: claim.Handed) -> Claim:
        """A hand-out as its agent gets it, with texts and results.

        They are read before the commit: if that fails, nothing was handed out. Read after it, a failure left a task
        held by an agent that did not know its lease. Nothing that follows the commit may raise.
        """
        record, carried = claim.full_record(change.tx, handed.row)
        return Claim(record, handed.lease, carried, handed.budgets, handed.resumed, board=self)

    def _remember(self, lease: Lease) -> None:
        """Know the leases that this object was given, the last few thousand, so that it may resume them."""
        self._secrets.pop(lease.task_id, None)
        self._secrets[lease.task_id] = lease.secret
        if len(self._secrets) > REMEMBERED:
            self._secrets.popitem(last=False)  # in one step: other threads may be at it

    def _next_due(self, agent_id: str) -> int | None:
        return self._store.read(lambda tx: claim.next_due(tx, agent_id))
