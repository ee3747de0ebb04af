"""Why a task stands as it does: one sentence, and the events that tell it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentmesh.model import Cause, Event, Task
from agentmesh.rules import is_met
from pytest_agentmesh.assertions.witness import Turn, Witness, ends_attempt, since
from pytest_agentmesh.assertions.wording import names, quoted
from pytest_agentmesh.durations import words

CAUSED_BY = {
    "paused": ("paused",),
    "storm": ("breaker_opened",),
    "budget": ("budget_exceeded", "budget_set"),
    "claim_cap": ("claim_cap_set",),
}
"""The events that tell of a cause of waiting."""


@dataclass(frozen=True, slots=True)
class Why:
    """A sentence without its subject, such as `nobody has claimed it`, and the events behind it."""

    text: str
    events: tuple[Event, ...] = ()
    cited: bool = False
    """Whether the sentence names the events."""

    def __str__(self) -> str:
        """The sentence, and the numbers of its events."""
        return self.text if self.cited or not self.events else f"{self.text} ({cited(self.events)})"


def cited(events: Sequence[Event]) -> str:
    """The numbers of events: `event 4`, `events 4 and 9`."""
    return f"event{'s' if len(events) > 1 else ''} {names(str(event.seq) for event in events)}"


def why(witness: Witness, task: Task) -> Why:
    """Why a task is in the state that it is in, as far as rows and events say."""
    by_state: dict[str, Callable[[Witness, Task], Why]] = {
        "blocked": _blocked,
        "scheduled": _scheduled,
        "pending": _pending,
        "in_progress": _held,
        "completed": _completed,
        "failed": _failed,
        "cancelled": _cancelled,
    }
    if task.paused and task.state == "scheduled":
        return _pending(witness, task)
    return by_state[task.state](witness, task)


def unmet(witness: Witness, task: Task) -> list[Task]:
    """What a task still waits for, directly; those that were pruned have ended."""
    found = [(edge, witness.tasks[edge.id]) for edge in task.depends_on if edge.id in witness.tasks]
    return [parent for edge, parent in found if not is_met(edge.condition, parent.state)]


def turn_of(turn: Turn) -> str:
    """Whose attempt it was: `coder-1's attempt 2`."""
    return f"{turn.attempt.agent_id}'s attempt {turn.number}"


def last_end(witness: Witness, turn: Turn, how: str = "") -> Why:
    """How an attempt that is over ended, and `how` that ended its task, if it did."""
    attempt = turn.attempt
    why_so = {
        "reclaimed": f"was reclaimed: its lease ran out at {witness.at(attempt.lease_expires_us)}",
        "failed": f"failed{f' ({attempt.kind})' if attempt.kind not in (None, 'task') else ''}",
    }
    text = f"{turn_of(turn)} {why_so.get(turn.outcome, f'ended as {turn.outcome}')}{how}"
    if attempt.error:
        text += f": {quoted(attempt.error)}"
    return Why(text, (turn.ended,) if turn.ended else ())


def _blocked(witness: Witness, task: Task) -> Why:
    direct = unmet(witness, task if task.depends_on else witness.task(task.id))
    events = [witness.moved(parent.id) for parent in direct]
    texts = [
        f"{parent.id} ({parent.state}{f' since event {event.seq}' if event else ''})"
        for parent, event in zip(direct, events, strict=True)
    ]
    text = f"waits for {names(texts)}"
    near = {parent.id for parent in direct}
    root = next((cause for cause in witness.board.explain(task.id).causes if cause.task_id not in near), None)
    if root is not None:
        why_root = _cause(witness, root)
        text, events = f"{text}; at the root, {why_root}", [*events[:5], *why_root.events]
    return Why(text, tuple(event for event in events if event), cited=True)


def _scheduled(witness: Witness, task: Task) -> Why:
    until = task.not_before_us or 0
    left = until - witness.now_us
    when = f"{words(left)} from now" if left > 0 else "reached, but nobody has claimed it"
    return _after_last(witness, task, Why(f"waits until {witness.at(until)} ({when})"))


def _pending(witness: Witness, task: Task) -> Why:
    causes = witness.board.explain(task.id).causes
    if causes and causes[0].kind != "ready":
        return _after_last(witness, task, _cause(witness, causes[0]))
    return _after_last(witness, task, Why("nobody has claimed it"))


def _cause(witness: Witness, cause: Cause) -> Why:
    """A cause of waiting as the board explains it, with its event."""
    message = cause.message.rstrip(".")
    kinds = CAUSED_BY.get(cause.kind, ())
    told = (event for event in reversed(witness.history) if event.kind in kinds)
    event = next((event for event in told if event.task_id in (None, cause.task_id) or cause.kind != "paused"), None)
    if event is None and cause.task_id and not kinds:
        event = witness.moved(cause.task_id)
    return Why(message[0].lower() + message[1:] if kinds else message, (event,) if event else ())


def _after_last(witness: Witness, task: Task, now: Why) -> Why:
    """Why a task waits; if it was handed out before, how that ended, too."""
    turns = witness.turns(task.id)
    if not turns:
        return now
    end = last_end(witness, turns[-1])
    return Why(f"{now}; {end}", (*now.events, *end.events), cited=True)


def _held(witness: Witness, task: Task) -> Why:
    turn = witness.turns(task.id)[-1]
    attempt = turn.attempt
    text = f"{attempt.agent_id} holds it since {witness.at(attempt.started_us)}, attempt {turn.number}"
    left = attempt.lease_expires_us - witness.now_us
    text += f"; its lease ran out {words(-left)} ago, the next claim takes it back" if left <= 0 else ""
    return Why(text, (turn.began,) if turn.began else ())


def _completed(witness: Witness, task: Task) -> Why:
    turn = witness.turns(task.id)[-1]
    late = ", late" if turn.attempt.late else ""
    return Why(f"{turn_of(turn)} completed it{late}", (turn.ended,) if turn.ended else ())


def _failed(witness: Witness, task: Task) -> Why:
    used_up = ", and it had only one" if task.max_attempts == 1 else f", the last of {task.max_attempts}"
    how = " for good" if task.charged < task.max_attempts else used_up
    return last_end(witness, witness.turns(task.id)[-1], how)


def _cancelled(witness: Witness, task: Task) -> Why:
    event = next((e for e in reversed(witness.by_task.get(task.id, ())) if e.kind == "task_cancelled"), None)
    root = event.data.get("root") if event else None
    if root:
        ends = [e for e in witness.by_task.get(root, ()) if ends_attempt(e) or e.kind == "task_cancelled"][-1:]
        state = witness.tasks[root].state if root in witness.tasks else "gone"
        how = {"cancelled": "was cancelled", "gone": "is gone"}.get(state, state)
        return Why(f"could never run any more, because {root} {how}", (*ends, *([event] if event else [])))
    by = f"{event.agent_id} cancelled it" if event and event.agent_id else "was cancelled"
    reason = f": {quoted(task.reason)}" if task.reason else ""
    return Why(by + reason, (event,) if event else ())


def standing(witness: Witness, task: Task) -> str:
    """Its state and why: `is blocked: waits for b (event 12)`."""
    return f"is {task.state}: {why(witness, task)}"


def began(witness: Witness, turn: Turn) -> str:
    """When an attempt began."""
    return since(witness, turn.began, turn.attempt.started_us)


def ended(witness: Witness, turn: Turn) -> str:
    """When an attempt ended, if it has."""
    us = turn.attempt.ended_us
    return "still open" if us is None else since(witness, turn.ended, us)
