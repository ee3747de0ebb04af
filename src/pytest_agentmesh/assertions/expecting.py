"""What a test may expect: words and ids that make sense. Whatever does not is an error of the test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agentmesh.errors import InvalidArgument
from agentmesh.model import STATES
from pytest_agentmesh.assertions.wording import alike, names

SPOKEN: Final = {
    "done": "completed",
    "finished": "completed",
    "running": "in_progress",
    "claimed": "in_progress",
    "ready": "pending",
    "waiting": "blocked",
    "canceled": "cancelled",
    "error": "failed",
}
"""What people say who mean one of our states."""


def state_word(word: object, field: str = "expected") -> str:
    """A state, as the board calls it.

    Raises:
        InvalidArgument: there is no such state.
    """
    if isinstance(word, str) and word in STATES:
        return word
    raise InvalidArgument(field, no_state(word), hint=f"The states are {names(STATES)}.")


def no_state(word: object) -> str:
    """That a word is no state, and which one is near."""
    near = SPOKEN.get(str(word).lower().replace("-", "_"))
    return f"there is no state {word!r}; " + (f"did you mean {near}?" if near else alike(str(word), STATES))


def task_ids(ids: Sequence[str], least: int) -> None:
    """Refuse a call that names too few tasks to mean anything.

    Raises:
        InvalidArgument: it does, or one twice.
    """
    if len(ids) < least:
        raise InvalidArgument("ids", f"name at least {'one task' if least == 1 else 'two tasks'}")
    if len(set(ids)) < len(ids):
        raise InvalidArgument("ids", "name each task once")
