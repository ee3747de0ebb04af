"""How a doctor's observations come about: a value against what it should be, or the error that was in the way."""

from __future__ import annotations

from agentmesh.errors import StoreError
from agentmesh.upkeep import Observation, Verdict


def judged(
    name: str,
    value: int | str | bool,  # noqa: FBT001 - true and false are values like others here
    well: bool,  # noqa: FBT001 - the judgement itself
    hint: str,
    *,
    else_: Verdict = "error",
) -> Observation:
    """A value that is as it should be, or else a warning or an error with the next step."""
    return Observation(name, value) if well else Observation(name, value, else_, hint)


def trouble(error: StoreError) -> Observation:
    """That the board, or a part of it, could not be read."""
    return Observation("access", error.message, "error", error.hint)
