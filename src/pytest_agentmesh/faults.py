"""What may go wrong in a bench, as data: a test names it, a scheduler or a session makes it happen.

A fault strikes the `nth` time that somebody reaches `at`: a verb of the board (`claim_task`, `complete_task`, ...) or,
for a session, a tool; `*` is any.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytest_agentmesh.durations import micros, words

Kind = Literal["kill", "stall", "lost_reply", "lost_request", "duplicate", "delay", "disconnect"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong. `agent` None strikes whoever comes; `sec` is what a stall or delay takes."""

    kind: Kind
    at: str = "*"
    nth: int = 1
    agent: str | None = None
    sec: float | None = None

    def __str__(self) -> str:
        """In words: `kill at complete_task, for coder-1`."""
        place = "" if self.at == "*" else f" at {self.at}"
        turn = "" if self.nth == 1 else f", call {self.nth}"
        took = "" if self.sec is None else f", {words(micros(self.sec))}"
        return f"{self.kind}{place}{turn}{took}" + (f", for {self.agent}" if self.agent else "")


@dataclass(frozen=True, slots=True)
class Some:
    """Up to `most` faults of these kinds; which, when and whom they strike is drawn from the run's seed."""

    kinds: tuple[Kind, ...]
    most: int

    def __str__(self) -> str:
        """In words: `up to 2 of kill, stall`."""
        return f"up to {self.most} of {', '.join(self.kinds)}"


def some(*kinds: Kind, max: int = 1) -> Some:  # noqa: A002 - it reads as what it says
    """Up to `max` faults of these kinds, drawn from the run's seed."""
    return Some(kinds, max)


def kill(at: str = "*", nth: int = 1, *, agent: str | None = None) -> Fault:
    """The agent dies before it does that; nobody says so to the board."""
    return Fault("kill", at, nth, agent)


def stall(at: str = "*", nth: int = 1, *, sec: float | None = None, agent: str | None = None) -> Fault:
    """The agent stands still before it does that: `sec` seconds of board time, by default just past its lease."""
    return Fault("stall", at, nth, agent, sec)


def lost_reply(at: str, nth: int = 1, *, agent: str | None = None) -> Fault:
    """It is done, but the answer never arrives."""
    return Fault("lost_reply", at, nth, agent)


def lost_request(at: str, nth: int = 1, *, agent: str | None = None) -> Fault:
    """It is never done, and no answer arrives."""
    return Fault("lost_request", at, nth, agent)


def duplicate(at: str, nth: int = 1, *, agent: str | None = None) -> Fault:
    """It arrives twice; the second answer is thrown away."""
    return Fault("duplicate", at, nth, agent)


def delay(at: str, sec: float, nth: int = 1, *, agent: str | None = None) -> Fault:
    """It arrives `sec` seconds of board time late."""
    return Fault("delay", at, nth, agent, sec)


def disconnect(at: str = "*", nth: int = 1, *, agent: str | None = None) -> Fault:
    """The connection breaks before it arrives."""
    return Fault("disconnect", at, nth, agent)


@dataclass(frozen=True, slots=True)
class FaultMark:
    """A fault that struck: when, whom, where, and what it did in one clause."""

    at_us: int
    fault: Fault
    agent: str
    at: str
    what: str
