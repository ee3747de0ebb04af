"""What a checker says: which event breaks which promise, what was expected, what is there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

INSTANT: Final = re.compile(r"@(-?\d+)us")
"""An instant as messages hold it."""


class Violation(Exception):
    """The history, or the board it ends in, breaks a promise.

    `seq` is the event that shows it, None until it is known; `at_end` says that the rows disagree with all of the
    history, of which that event is the last on the matter.
    """

    def __init__(
        self, promise: str, expected: str, found: str, *, seq: int | None = None, at_end: bool = False
    ) -> None:
        super().__init__(f"{promise}: expected {expected}; found {found}")
        self.promise = promise
        self.expected = expected
        self.found = found
        self.seq = seq
        self.at_end = at_end


def at(us: int | None) -> str:
    """An instant in a message; whoever shows it to people says it as the time since the beginning (`INSTANT`)."""
    return f"@{us}us"


def hold(ok: bool, promise: str, expected: str, found: str) -> None:  # noqa: FBT001 - it reads like `assert`
    """Go on if a promise is held.

    Raises:
        Violation: it is not.
    """
    if not ok:
        raise Violation(promise, expected, found)


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a check of a history has seen.

    Args:
        events: how many events it went through, from `first` to `last`.
        first: the first event's `seq`, 0 without events.
        last: the last event's `seq`.
        compared: whether the rows of the board were compared with what the events make of it.
        clock_set_back: the events before which the clock had been set back.
        not_observable: what could not be judged, and why, in clauses.
    """

    events: int
    first: int
    last: int
    compared: bool
    clock_set_back: tuple[int, ...] = ()
    not_observable: tuple[str, ...] = ()
