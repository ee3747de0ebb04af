"""Assertions on what came of a task: its failure, or its result."""

from __future__ import annotations

import re

from agentmesh import Board
from agentmesh.limits import choice
from agentmesh.model import FailureKind, Json
from pytest_agentmesh.assertions.causes import standing
from pytest_agentmesh.assertions.values import contrast
from pytest_agentmesh.assertions.witness import Witness, named
from pytest_agentmesh.assertions.wording import folded, likely, message, quoted

KINDS = ("task", "infra", "quota")


def assert_failed(
    board: Board, task_id: str, *, kind: FailureKind | None = None, error: str | re.Pattern[str] | None = None
) -> None:
    """The task has failed.

    Args:
        board: the board.
        task_id: the task.
        kind: what its last attempt failed for: `task`, `infra` or `quota`.
        error: text that the error of its last attempt holds, or a compiled pattern that is found in it.

    Raises:
        InvalidArgument: there is no such kind.
    """
    __tracebackhide__ = True
    if kind is not None:
        choice("kind", kind, KINDS)
    witness = Witness(board)
    task = witness.task(task_id)
    events = witness.story(task_id, 5)
    if task.state != "failed":
        head = f"expected {named(task)} to have failed, but it is {task.state}"
        left = f"{task.charged} of its {task.max_attempts} attempts are used up: it will be handed out again"
        retried = task.state in ("pending", "scheduled") and task.charged > 0
        lines = folded(f"{task.id} {standing(witness, task)}")
        raise AssertionError(message(head, lines, likely(left if retried else None), witness.told(events)))
    last = witness.turns(task_id)[-1]
    there, text = last.attempt.kind, last.attempt.error
    story = [*folded(f"{task.id} {standing(witness, task)}"), *witness.told(events)]
    if kind not in (None, there):
        what = f"for {there}" if there else f"because its last attempt was {last.outcome}"
        raise AssertionError(message(f"expected {named(task)} to have failed for {kind}, but it failed {what}", story))
    if error is not None and not _says(text or "", error):
        wanted = f"match {error.pattern!r}" if isinstance(error, re.Pattern) else f"hold {error!r}"
        said = folded(quoted(text, 300), "error: ") if text else ["there is no error: nobody reported one"]
        raise AssertionError(message(f"expected the error of {named(task)} to {wanted}", said, story))


def assert_result(board: Board, task_id: str, expected: Json) -> None:
    """The task has completed with this result; None is that of one that gave none."""
    __tracebackhide__ = True
    witness = Witness(board)
    task = witness.task(task_id)
    events = witness.story(task_id)
    if task.state != "completed":
        head = f"expected {named(task)} to have a result, but it is {task.state}"
        raise AssertionError(message(head, folded(f"{task.id} {standing(witness, task)}"), witness.told(events)))
    if expected != task.result:
        who = witness.turns(task_id)[-1]
        head = (
            f"{named(task)} has another result than expected, given by {who.attempt.agent_id} in attempt {who.number}"
        )
        raise AssertionError(message(head, contrast(expected, task.result), witness.told(events)))


def _says(text: str, error: str | re.Pattern[str]) -> bool:
    return bool(error.search(text)) if isinstance(error, re.Pattern) else error in text
