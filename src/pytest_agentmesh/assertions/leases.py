"""Assertions on who holds a task, until when, and how its attempts ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import pairwise, zip_longest
from typing import Any, Final, get_args

from agentmesh import Board
from agentmesh.errors import InvalidArgument
from agentmesh.limits import ATTEMPTS, integer
from agentmesh.model import Outcome, Task
from pytest_agentmesh.assertions.causes import began, ended, last_end, standing, why
from pytest_agentmesh.assertions.expecting import task_ids
from pytest_agentmesh.assertions.witness import Turn, Witness, named
from pytest_agentmesh.assertions.wording import MOST, alike, first_of, folded, likely, message, names, table
from pytest_agentmesh.durations import Duration, micros, words

OUTCOMES: Final = (*get_args(Outcome), "open")
"""How an attempt can stand."""


def assert_claimed(board: Board, task_id: str, *, by: str | None = None, attempt: int | None = None) -> None:
    """An agent holds the task: this one, if `by` names it; in its nth hand-out, if `attempt` says so (1 is the first).

    A holder whose lease is due holds it until somebody takes it back.
    """
    __tracebackhide__ = True
    if attempt is not None:
        integer("attempt", attempt, 1, ATTEMPTS)
    witness = Witness(board)
    task = witness.task(task_id)
    turns = witness.turns(task_id)
    last = turns[-1] if turns else None
    expected = f"expected {by or 'an agent'} to hold {named(task)}{f' in attempt {attempt}' if attempt else ''}"
    if last is None or last.outcome != "open":
        raise AssertionError(
            _told(witness, turns, f"{expected}, but it is {task.state}", folded(f"{task.id} {standing(witness, task)}"))
        )
    holder = last.attempt.agent_id
    if by not in (None, holder):
        head = f"{expected}, but {holder} holds it since {began(witness, last)}"
        raise AssertionError(_told(witness, turns, head, likely(_lost(witness, turns, str(by)))))
    if attempt not in (None, last.number):
        head = f"{expected}, but this is attempt {last.number}"
        raise AssertionError(_told(witness, turns, head, likely(_again(witness, turns, attempt or 0))))


def assert_unclaimed(board: Board, *ids: str) -> None:
    """Nobody holds any of these tasks; an attempt whose lease is due counts until somebody takes it back."""
    __tracebackhide__ = True
    task_ids(ids, 1)
    witness = Witness(board)
    held = [task for task in map(witness.task, ids) if task.state == "in_progress"]
    if held:
        reasons = {task.id: why(witness, task) for task in held}
        lines = [line for name, reason in reasons.items() for line in folded(f"{name}: {reason.text}")]
        events = [event for reason in reasons.values() for event in reason.events]
        head = f"expected nobody to hold {names(ids)}, but {names(reasons)} {'is' if len(held) == 1 else 'are'} held"
        raise AssertionError(message(head, first_of(lines, "tasks"), witness.told(events)))


def assert_attempts(board: Board, task_id: str, outcomes: Sequence[str], *, by: Sequence[str] | None = None) -> None:
    """The task's attempts ended so, in this order; one that has not ended is `open`. With `by`, these agents made them.

    Raises:
        InvalidArgument: there is no such outcome, or there are not as many agents as outcomes.
    """
    __tracebackhide__ = True
    wrong = next((word for word in outcomes if word not in OUTCOMES), None)
    if wrong is not None:
        raise InvalidArgument("outcomes", f"there is no outcome {wrong!r}; {alike(str(wrong), OUTCOMES)}")
    if by is not None and (isinstance(by, str) or len(by) != len(outcomes)):
        raise InvalidArgument("by", f"must be a list of {len(outcomes)} agents, one for each outcome")
    witness = Witness(board)
    task = witness.task(task_id)
    turns = witness.turns(task_id)
    wanted = list(outcomes) if by is None else [f"{word} by {agent}" for word, agent in zip(outcomes, by, strict=True)]
    there = [turn.outcome + ("" if by is None else f" by {turn.attempt.agent_id}") for turn in turns]
    if wanted != there:
        head = (
            f"expected the attempts of {named(task)} to be {names(wanted, 'none')}, but they are {names(there, 'none')}"
        )
        marks = [
            "" if one == other else f"^ expected {one or 'no such attempt'}"
            for one, other in zip_longest(wanted, there)
        ]
        missing = [f"attempt {n} is missing: {w}" for n, w in enumerate(wanted, 1) if n > len(there)]
        state = folded(f"{task.id} {standing(witness, task)}")
        raise AssertionError(_told(witness, turns, head, [*missing, *state], marks=marks))


def assert_handed_over(board: Board, task_id: str, *, from_: str, to: str) -> None:
    """An attempt of one agent at the task ended, and the next hand-out of it was to the other."""
    __tracebackhide__ = True
    witness = Witness(board)
    task = witness.task(task_id)
    turns = witness.turns(task_id)
    agents = [turn.attempt.agent_id for turn in turns]
    if (from_, to) in pairwise(agents):
        return
    went = " -> ".join(agents[-8:]) or "nobody"
    head = f"expected {named(task)} to go from {from_} to {to}, but it went to {went}"
    cause = next((f"{name} never held it" for name in (from_, to) if name not in agents), None)
    state = folded(f"{task.id} {standing(witness, task)}")
    raise AssertionError(_told(witness, turns, head, likely(cause), state))


def assert_lease(
    board: Board,
    task_id: str,
    *,
    left: Any = None,
    at_least: Duration | None = None,
    at_most: Duration | None = None,
) -> None:
    """The task is held, and so much is left of its lease; less than nothing once it is due.

    Args:
        board: the board.
        task_id: the task.
        left: exactly that, as seconds, a timedelta or words such as `45s`; or whatever compares with seconds, such as
            `pytest.approx(45, abs=1)`.
        at_least: not less.
        at_most: not more.

    Raises:
        InvalidArgument: nothing is expected, or no duration.
    """
    __tracebackhide__ = True
    bounds = [(text, bound) for text, bound in (("at least ", at_least), ("at most ", at_most)) if bound is not None]
    if left is None and not bounds:
        raise InvalidArgument("left", "say what is expected: left, at_least or at_most")
    limits = [(text, _micros(bound)) for text, bound in bounds]
    exact = _micros(left) if isinstance(left, (int, float, str, timedelta)) else None
    expected = [f"{text}{words(us)}" for text, us in limits]
    expected += [] if left is None else [str(left) if exact is None else words(exact)]
    witness = Witness(board)
    task = witness.task(task_id)
    head = f"expected {names(expected)} left of the lease on {named(task)}"
    if task.lease_expires_us is None:
        turns = witness.turns(task_id)
        state = folded(f"{task.id} {standing(witness, task)}")
        raise AssertionError(_told(witness, turns, f"{head}, but nobody holds it", state))
    us = task.lease_expires_us - witness.now_us
    right = left is None or (us == exact if exact is not None else us / 1_000_000 == left)
    if not right or any(us < bound if text == "at least " else us > bound for text, bound in limits):
        raise AssertionError(_lease_differs(witness, task, head, us))


def _micros(duration: Duration) -> int:
    try:
        return micros(duration)
    except ValueError as error:
        raise InvalidArgument("left", str(error)) from None


def _lease_differs(witness: Witness, task: Task, expected: str, left: int) -> str:
    attempt = witness.turns(task.id)[-1].attempt
    there = f"but {words(left)} is left"
    if left <= 0:
        there = f"but it ran out {words(-left)} ago"
    renewed = (
        "never renewed"
        if attempt.heartbeat_us == attempt.started_us
        else f"renewed at {witness.at(attempt.heartbeat_us)}"
    )
    facts = f"{attempt.agent_id} claimed it at {witness.at(attempt.started_us)}, {renewed}; "
    facts += f"a claim and each heartbeat give it {words(task.lease_timeout_us)}"
    if attempt.lease_expires_us == attempt.started_us + task.max_hold_us:
        facts += f", but the task may be held for {words(task.max_hold_us)} in all"
    now = f"now is {witness.at(witness.now_us)}, the lease ends at {witness.at(attempt.lease_expires_us)}"
    return message(
        f"{expected}, {there}", folded(now), folded(facts), witness.told(witness.by_task.get(task.id, ())[-5:])
    )


def _told(witness: Witness, turns: Sequence[Turn], head: str, *parts: Iterable[str], marks: Sequence[str] = ()) -> str:
    """A message that ends with all attempts of a task."""
    rows = [
        (str(turn.number), turn.attempt.agent_id, began(witness, turn), ended(witness, turn), turn.outcome)
        for turn in turns
    ]
    lines = first_of(table(("attempt", "agent", "began", "ended", "outcome"), rows, "r"), "attempts")
    for place in reversed(range(min(len(marks), len(rows), MOST - 1))):
        lines[place + 2 : place + 2] = folded(marks[place], "         ") if marks[place] else []
    return message(head, *parts, lines if rows else ["it was never handed out"])


def _lost(witness: Witness, turns: Sequence[Turn], agent: str) -> str:
    """How an agent lost a task, or that it never had it."""
    own = [turn for turn in turns if turn.attempt.agent_id == agent]
    if own:
        return str(last_end(witness, own[-1]))
    others = {turn.attempt.agent_id for turn in turns}
    return f"{agent} never held it; {alike(agent, others)}"


def _again(witness: Witness, turns: Sequence[Turn], attempt: int) -> str:
    """Why there were more attempts than expected, or fewer."""
    if attempt > len(turns):
        return f"it was handed out only {'once' if len(turns) == 1 else f'{len(turns)} times'}"
    return str(last_end(witness, turns[attempt - 1]))
