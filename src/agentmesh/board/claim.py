"""The claim: heal what is due, pick a task, hand it out, or say why there is nothing and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agentmesh import limits
from agentmesh.board import bounds, breakers, budgets, ceilings, heal, paths, records
from agentmesh.board.capabilities import Catalogue
from agentmesh.board.change import Change
from agentmesh.board.lookup import locked_row, task_row
from agentmesh.board.picking import Ask, Reach, TooManyParked, blocked, pick, reach
from agentmesh.board.requests import Request, once
from agentmesh.clock import secret
from agentmesh.errors import AlreadyClaimed, WrongState
from agentmesh.jsontext import decode
from agentmesh.model import (
    FINAL,
    STATES,
    BudgetLeft,
    DependencyResult,
    FailureKind,
    Json,
    Lease,
    NoClaim,
    Note,
    Task,
)
from agentmesh.rules import DAY_US
from agentmesh.store.base import Row, Transaction

if TYPE_CHECKING:
    from agentmesh.board.verbs.holding import Holding

HOLDS_SHOWN = 20
CARRIED_BYTES = 32 * 1024
"""How much of its dependencies' results a claim carries; the rest is to be had by `get_task`."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A task in hand: what it is, the lease on it, what its dependencies left behind, what budgets leave. Truthy.

    The methods are those of the board with this claim's lease.
    """

    task: Task
    lease: Lease
    dependencies: tuple[DependencyResult, ...] = ()
    budgets: tuple[BudgetLeft, ...] = ()
    resumed: bool = False
    board: Holding = field(repr=False, compare=False, kw_only=True)

    @property
    def lease_expires_us(self) -> int:
        """When the lease ran out, as of the hand-out."""
        return self.lease.expires_us

    def heartbeat(self) -> Lease:
        """Renew the lease; see `Board.heartbeat`."""
        return self.board.heartbeat(self.lease)

    def complete(self, result: Json = None, *, request_id: str | None = None) -> Task:
        """Finish the task; see `Board.complete_task`."""
        return self.board.complete_task(self.lease, result, request_id=request_id)

    def fail(
        self,
        error: str,
        *,
        kind: FailureKind = "task",
        retry: bool = True,
        retry_after_sec: float | None = None,
        request_id: str | None = None,
    ) -> Task:
        """Report a failure; see `Board.fail_task`."""
        how: dict[str, Any] = {"kind": kind, "retry": retry, "retry_after_sec": retry_after_sec}
        return self.board.fail_task(self.lease, error, **how, request_id=request_id)

    def release(self, *, delay_sec: float = 0, request_id: str | None = None) -> Task:
        """Give the task back; see `Board.release_task`."""
        return self.board.release_task(self.lease, delay_sec=delay_sec, request_id=request_id)

    def split(self, subtasks: Sequence[Mapping[str, Any]], *, request_id: str | None = None) -> list[Task]:
        """Split the task; see `Board.split_task`."""
        return self.board.split_task(self.lease, subtasks, request_id=request_id)

    def hold_paths(
        self, *, writes: Sequence[str] = (), reads: Sequence[str] = (), request_id: str | None = None
    ) -> Task:
        """Hold more paths; see `Board.hold_paths`."""
        return self.board.hold_paths(self.lease, writes=writes, reads=reads, request_id=request_id)

    def note(self, text: str, *, request_id: str | None = None) -> Note:
        """Leave a remark; see `Board.note`."""
        return self.board.note(self.lease, text, request_id=request_id)


class Handed(NamedTuple):
    """A hand-out inside its transaction: the task as it stands now, the lease, what budgets leave."""

    row: Row
    lease: Lease
    budgets: tuple[BudgetLeft, ...] = ()
    resumed: bool = False


def claim(
    change: Change,
    ask: Ask,
    *,
    task_id: str | None,
    call: Request | None,
    catalogue: Catalogue,
    known: Mapping[str, str],
    resume: bool,
    take_over: bool,
) -> Handed | NoClaim | None:
    """One try at a claim, at most once per request; None when the search should go on in another transaction."""
    answers: list[Handed | NoClaim | None] = []

    def act() -> dict[str, Any] | None:
        answer: Handed | NoClaim | None = (
            own_attempt(change, ask, task_id, known, take_over=take_over) if resume else None
        )
        if answer is None and task_id is not None:
            answer = named_task(change, task_id, ask)
        elif answer is None:
            answer = next_task(change, ask, catalogue)
        answers.append(answer)
        return {"task_id": answer.lease.task_id, "fence": answer.lease.fence} if isinstance(answer, Handed) else None

    reply = once(change, ask.agent_id, call, act)
    if answers:
        answer = answers[0]
        return _with_own(change.tx, answer, ask.agent_id) if isinstance(answer, NoClaim) else answer
    task_row(change.tx, reply["task_id"])  # it may have been pruned since
    held = change.tx.fetch_one("held_attempt", id=reply["task_id"], fence=reply["fence"]) or {}
    lease = Lease(reply["task_id"], reply["fence"], held["secret"], held["expires_us"])
    left = budgets.left(change.tx, held, ask.agent_id)
    return Handed({**held, "holder": held["agent_id"], "lease_expires_us": held["expires_us"]}, lease, left)


def next_task(change: Change, ask: Ask, catalogue: Catalogue) -> Handed | NoClaim | None:
    """Hand out the best task for an ask; None when the transaction should end and the search go on in another."""
    catalogue.see(change.tx, ask.agent_id, ask.capabilities)
    pulse = change.tx.fetch_one("pulse", now_us=change.now) or {}
    more = heal.heal(change, pulse)
    if change.in_debt:
        change.catch_up()
        pulse = change.tx.fetch_one("pulse", now_us=change.now) or {}
    found = reach(change.tx, ask, pulse, catalogue)
    if found.stop is not None:
        return None if more else no_claim(change.tx, found, pulse)
    try:
        pk = pick(change.tx, found, change)
    except TooManyParked:
        return None
    if pk is not None:
        change.tx.execute("lock_task_pk", pk=pk)
        row = change.tx.fetch_one("task_by_pk", pk=pk)
        if row is None or row["state"] != "pending":
            return None  # not every pick locks what it finds: another was faster
        return hand_out(change, row, ask.agent_id, bounded=found.bounds is not None)
    return None if more else no_claim(change.tx, found, pulse)


def named_task(change: Change, task_id: str, ask: Ask) -> Handed | NoClaim | None:
    """Hand out the task that was asked for by id; None when the search should go on in another transaction.

    Raises:
        NotFound: it is not on the board.
        AlreadyClaimed: another agent, or another session of this one, holds it.
    """
    row = locked_row(change.tx, task_id)
    if row["state"] == "in_progress":
        if not heal.reclaim_one(change, task_id, row["fence"]):
            own = row["holder"] == ask.agent_id
            raise AlreadyClaimed(task_id, row["holder"] or "", row["lease_expires_us"] or 0, own=own)
        row = task_row(change.tx, task_id)
    elif row["state"] == "scheduled" and row["not_before_us"] <= change.now:
        change.move(row, "pending")
        change.event("task_due", row)
        row = task_row(change.tx, task_id)
    if row["paused"] and heal.unpause_one(change, row):
        row = task_row(change.tx, task_id)
    refusal = _refusal(change.tx, row, ask)
    if refusal is None:
        return hand_out(change, row, ask.agent_id)
    if refusal.advice != "stop" and heal.reclaim(change):
        return None  # what dead agents held, or had reserved, may have been in the way
    return refusal


def own_attempt(
    change: Change, ask: Ask, task_id: str | None, known: Mapping[str, str], *, take_over: bool
) -> Handed | None:
    """Give an agent its own open attempt back, with a new secret and the same fence; None when it has none.

    Args:
        change: the write.
        ask: who asks.
        task_id: the task whose attempt is wanted; None for the agent's oldest.
        known: the lease secrets that this session was given, by task: they show that it is the same session.
        take_over: take it even from a live session of the same agent.

    Raises:
        AlreadyClaimed: all that it has belongs to other sessions whose leases are not due.
    """
    refusal: AlreadyClaimed | None = None
    for own in change.tx.fetch_all("own_open_attempts", agent_id=ask.agent_id):
        if task_id is not None and own["id"] != task_id:
            continue
        change.tx.execute("lock_task", id=own["id"])
        held = change.tx.fetch_one("held_attempt", id=own["id"], fence=own["fence"])
        if held is None or held["outcome"] is not None:
            continue
        if ask.plan is not None and held["plan"] != ask.plan:
            continue
        if known.get(own["id"]) == held["secret"] or held["expires_us"] <= change.now or take_over:
            return _resumed(change, held)
        refusal = refusal or AlreadyClaimed(own["id"], ask.agent_id, held["expires_us"], own=True)
    if refusal is not None:
        raise refusal
    return None


def hand_out(change: Change, row: Row, agent_id: str, *, bounded: bool = True) -> Handed | None:
    """Open the next attempt of a ready task; its estimates are reserved, where there may be budgets.

    None when a budget of its own turns out to bar it: the search should go on in another transaction.
    """
    left = budgets.reserve(change, row, agent_id) if bounded else ()
    if left is None:
        return None
    fence = row["fence"] + 1
    expires = change.now + min(row["lease_timeout_us"], row["max_hold_us"])
    fresh = secret(change.chance)
    held = 0
    if row["pool_pk"] is not None:
        pool = change.tx.fetch_one("pool_of", pk=row["pool_pk"])
        if pool is not None:
            paths.unpark(change, pool)
            held = paths.take(change, row, fence, paths.wants(pool["paths"]))
    handed = change.move(row, "in_progress", handed=1, charge=1)
    change.tx.execute(
        "open_attempt",
        task_pk=row["pk"],
        fence=fence,
        agent_id=agent_id,
        secret=fresh,
        holds=held,
        now_us=change.now,
        lease_expires_us=expires,
        reserved_pusd=row["estimate_pusd"] or 0,
        reserved_tokens=row["estimate_tokens"] or 0,
    )
    change.event("task_claimed", row, fence=fence, agent_id=agent_id, expires_us=expires)
    now = {**handed, "holder": agent_id, "lease_expires_us": expires}
    return Handed(now, Lease(row["id"], fence, fresh, expires), left)


def no_claim(tx: Transaction, found: Reach, pulse: Row) -> NoClaim:
    """Why an ask gets nothing, and what to do about it."""
    plan = tx.fetch_one("plan_by_name", name=found.ask.plan) if found.ask.plan is not None else None
    plan_pk = plan["pk"] if plan else None
    unknown = found.ask.plan is not None and plan is None
    why = _reason(tx, found, {} if unknown else _counts(tx, plan_pk), plan_pk)
    if why.advice == "stop":
        return why
    dues = [pulse["lease_due_us"], pulse["scheduled_due_us"], pulse["pause_due_us"], why.retry_at_us]
    return replace(why, retry_at_us=min((due for due in dues if due is not None and due > tx.now), default=None))


def _with_own(tx: Transaction, answer: NoClaim, agent_id: str) -> NoClaim:
    """An empty answer with what the agent itself holds: else it could wait for itself and not know."""
    own = tx.fetch_all("own_open_attempts", agent_id=agent_id)
    return replace(answer, holds=tuple(row["id"] for row in own[:HOLDS_SHOWN])) if own else answer


def carried(tx: Transaction, task_pk: int) -> tuple[DependencyResult, ...]:
    """What the finished parents of a task left behind, as far as it fits."""
    found, room = [], CARRIED_BYTES
    for row in tx.fetch_all("dependency_results", task_pk=task_pk):
        size = len((row["body"] or "").encode())
        fits = size <= room
        room -= size if fits else 0
        body = decode(row["body"]) if row["body"] is not None and fits else None
        found.append(DependencyResult(row["id"], row["title"], row["state"], body, truncated=not fits))
    return tuple(found)


def texts(tx: Transaction, task_pk: int) -> dict[str, Any]:
    """A task's long texts, as fields of its record."""
    body = tx.fetch_one("body_of", task_pk=task_pk)
    if body is None:
        return {}
    payload = decode(body["payload"]) if body["payload"] is not None else None
    return {"description": body["description"], "payload": payload}


def worthwhile(tx: Transaction, ask: Ask, catalogue: Catalogue) -> bool:
    """Whether a claim could change anything now: a task is there for it, or something due is there to be healed."""
    pulse = tx.fetch_one("pulse", now_us=tx.now) or {}
    dues = (pulse["lease_due_us"], pulse["scheduled_due_us"], pulse["pause_due_us"])
    return any(due is not None and due <= tx.now for due in dues) or _there_is(tx, ask, pulse, catalogue)


def available(tx: Transaction, ask: Ask, catalogue: Catalogue) -> bool:
    """Whether a claim would be given a task now, due leases and times taken into account.

    What the end of a dead agent's attempt sets free, by its paths, its reservation or the failure of its task, is only
    known once a claim has healed the board: until then the answer is yes, so that whoever asks first goes and heals it.
    """
    pulse = tx.fetch_one("pulse", now_us=tx.now) or {}
    if _there_is(tx, ask, pulse, catalogue):
        return True
    for due in tx.fetch_all("due_attempts", now_us=tx.now, most=limits.PAGE):
        row = task_row(tx, due["id"])
        frees = due["holds"] or (pulse["bounded"] and (due["reserved_pusd"] or due["reserved_tokens"]))
        if frees or (_may_free(tx, row) if row["charged"] >= row["max_attempts"] else _claimable(tx, row, ask)):
            return True
    later = tx.fetch_all("due_scheduled", now_us=tx.now, most=limits.PAGE)
    if any(_claimable(tx, task_row(tx, row["id"]), ask) for row in later):
        return True
    unpaused = (task_row(tx, row["id"]) for row in tx.fetch_all("due_pauses", now_us=tx.now, most=limits.PAGE))
    return any(_in_time(tx, row) and _claimable(tx, row, ask) for row in unpaused)


def next_due(tx: Transaction, agent_id: str) -> int | None:
    """The next instant at which time alone may bring an agent a task."""
    pulse = tx.fetch_one("pulse", now_us=tx.now) or {}
    dues = [pulse["lease_due_us"], pulse["scheduled_due_us"], pulse["pause_due_us"], averted_until(tx, agent_id)]
    if pulse["bounded"]:
        dues += [row["until_us"] for row in tx.fetch_all("pauses", now_us=tx.now)]
        dues += breakers.open_now(tx).values()
        dues.append((tx.now // DAY_US + 1) * DAY_US)  # a daily budget begins anew
    return min((due for due in dues if due is not None and due > tx.now), default=None)


def _there_is(tx: Transaction, ask: Ask, pulse: Row, catalogue: Catalogue) -> bool:
    try:
        return pick(tx, reach(tx, ask, pulse, catalogue)) is not None
    except TooManyParked:
        return True


def _claimable(tx: Transaction, row: Row, ask: Ask) -> bool:
    """Whether a task will suit an ask once it is ready, which what is due makes it."""
    if row["unmet"] or ask.plan not in (None, row["plan"]) or not ask.tags <= set(decode(row["tags"] or "[]")):
        return False
    averted = tx.fetch_one("averted", task_pk=row["pk"], agent_id=ask.agent_id, now_us=tx.now)
    return averted is None and _refusal(tx, {**row, "state": "pending"}, ask) is None


def _may_free(tx: Transaction, row: Row) -> bool:
    """Whether the end of a task's last attempt fails the task, which may let others go, instead of pausing it."""
    return not ceilings.guiltless(tx, row) and bool(tx.fetch_all("child_conditions", pk=row["pk"]))


def _in_time(tx: Transaction, row: Row) -> bool:
    """Whether a task is ready, or is so as soon as someone looks."""
    return row["state"] == "pending" or (row["state"] == "scheduled" and int(row["not_before_us"]) <= tx.now)


def averted_until(tx: Transaction, agent_id: str) -> int | None:
    """When the next of the tasks that an agent released may be offered to it again."""
    row = tx.fetch_one("next_aversion", agent_id=agent_id, now_us=tx.now)
    return row["until_us"] if row else None


def full_record(tx: Transaction, row: Row) -> tuple[Task, tuple[DependencyResult, ...]]:
    """A handed-out task as its agent gets it."""
    more = texts(tx, row["pk"]) if row["has_body"] else {}
    return records.task(row, **more), carried(tx, row["pk"]) if row["parents"] else ()


def _resumed(change: Change, held: Row) -> Handed:
    fresh = secret(change.chance)
    last = held["started_us"] + held["max_hold_us"]
    expires = max(min(change.now + held["lease_timeout_us"], last), held["expires_us"])
    change.change_attempt(
        "resume_attempt",
        held,
        secret=fresh,
        heartbeat_us=max(change.now, held["heartbeat_us"]),
        lease_expires_us=expires,
    )
    change.event("task_resumed", held, fence=held["fence"], agent_id=held["agent_id"], expires_us=expires)
    now = {**held, "lease_expires_us": expires, "holder": held["agent_id"]}
    left = budgets.left(change.tx, held, held["agent_id"])
    return Handed(now, Lease(held["id"], held["fence"], fresh, expires), left, resumed=True)


def _refusal(tx: Transaction, row: Row, ask: Ask) -> NoClaim | None:
    """Why a named task cannot be handed out to this agent now; None when it can."""
    state = row["state"]
    if state in FINAL:
        return NoClaim("final", "stop", f"Task {row['id']} is {state}.")
    paused = bounds.task_pause(tx, row)
    if paused is not None:
        return paused
    if ask.plan is not None and row["plan"] != ask.plan:
        raise WrongState(row["id"], state, "it belongs to another plan than the one named")
    if state == "blocked":
        return NoClaim("blocked", "wait", f"Task {row['id']} waits for {row['unmet']} of its dependencies.")
    if state == "scheduled":
        return NoClaim("scheduled", "wait", f"Task {row['id']} waits for its time.", row["not_before_us"])
    bounded = bounds.refusal(tx, bounds.bounds(tx, ask.agent_id, row["plan"]), row, ask.agent_id)
    if bounded is not None:
        return bounded
    lacking = sorted(set(decode(row["requires"])) - ask.capabilities)
    if lacking:
        return NoClaim("capability", "blocked_by", f"Task {row['id']} requires {', '.join(lacking)}.")
    if row["pool_pk"] is not None and blocked(tx, {"pk": row["pool_pk"]}, None):
        return NoClaim("paths_held", "wait", f"A running task holds paths of {row['id']}.")
    return None


def _counts(tx: Transaction, plan_pk: int | None) -> dict[str, int]:
    row = tx.fetch_one("tally_totals") if plan_pk is None else tx.fetch_one("tally_of", plan_pk=plan_pk)
    return {state: (row[state] or 0) if row else 0 for state in STATES}


def _reason(tx: Transaction, found: Reach, counts: Mapping[str, int], plan_pk: int | None) -> NoClaim:
    where = f"Plan {found.ask.plan}" if found.ask.plan else "The board"
    if not any(counts.values()) and found.stop is None:
        return NoClaim("empty", "stop", f"{where} has no tasks.")
    if any(counts.values()) and not any(n for state, n in counts.items() if state not in FINAL):
        message = f"All tasks are final: {counts['completed']} of {sum(counts.values())} completed."
        return NoClaim("done", "stop", message)
    if found.stop is not None:
        return found.stop
    paused = tx.fetch_one("count_paused", plan_pk=plan_pk) or {}
    if counts["pending"] > paused["pending"]:
        return _ready_but(tx, found)
    held_back = paused["pending"] + paused["scheduled"]
    if held_back and not counts["in_progress"] and counts["scheduled"] == paused["scheduled"]:
        message = f"No task is ready but those that are paused ({held_back}); explain says why they are."
        return NoClaim("paused", "wait", message)
    if counts["in_progress"]:
        message = f"Tasks being worked on: {counts['in_progress']}; waiting for others: {counts['blocked']}."
        return NoClaim("in_progress", "wait", message)
    if counts["scheduled"]:
        return NoClaim("scheduled", "wait", f"Tasks that wait for their time: {counts['scheduled']}.")
    return NoClaim("blocked", "wait", f"Tasks that wait for tasks outside this plan: {counts['blocked']}.")


def _ready_but(tx: Transaction, found: Reach) -> NoClaim:
    """Tasks are ready, but none for this ask."""
    offered_again = averted_until(tx, found.ask.agent_id)
    if offered_again is not None:
        message = "What is ready was released by this agent less than a minute ago."
        return NoClaim("released", "wait", message, offered_again)
    if any(tx.fetch_all("any_pool", requires_pk=pk) for pk in found.eligible):
        return NoClaim("paths_held", "wait", "Running tasks hold the paths of what is ready.")
    too_dear = _too_dear(tx, found)
    if too_dear is not None:
        return too_dear
    if found.ask.tags:
        return NoClaim("tags", "wait", "No ready task carries these tags.")
    return NoClaim("capability", "blocked_by", "What is ready requires capabilities that this agent has not named.")


def _too_dear(tx: Transaction, found: Reach) -> NoClaim | None:
    """The budget that alone keeps the first ready task from an ask; None where it is not a budget."""
    if found.bounds is None:
        return None
    pk = pick(tx, replace(found, bounds=None))
    row = tx.fetch_one("task_by_pk", pk=pk) if pk is not None else None
    return bounds.refusal(tx, found.bounds, row, found.ask.agent_id) if row is not None else None
