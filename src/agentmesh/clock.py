"""Time and chance, the two things a board takes from outside; both are handed in, so a test can hold them.

Nothing else in AgentMesh asks the system for the time or for randomness. An instant comes from a `Clock`; a length of
real time is a difference of two readings of `monotonic_sec`, which no step of the wall clock changes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

from agentmesh.model import Micros

# freezegun replaces `time.monotonic`, also where a module has imported it by name, and a module that is first imported
# while time is frozen gets the replacement for good. Neither it nor time-machine touches this clock of the system.
if sys.platform == "win32":
    monotonic_sec: Callable[[], float] = time.monotonic
else:
    monotonic_sec: Callable[[], float] = partial(time.clock_gettime, time.CLOCK_MONOTONIC)


class Clock(Protocol):
    """What tells the board the time."""

    def now_us(self) -> Micros:
        """Microseconds since the Unix epoch, UTC."""
        ...


class Chance(Protocol):
    """What gives the board random bits: ids, lease secrets, retry jitter."""

    def getrandbits(self, k: int, /) -> int:
        """Return an integer of `k` random bits."""
        ...


class SystemClock:
    """The wall clock: leases cross processes and machines, which a monotonic clock does not."""

    def now_us(self) -> Micros:
        """Microseconds since the Unix epoch, UTC."""
        return Micros(time.time_ns() // 1000)


class MonotonicClock:
    """Measures lengths of real time: its readings have no date, and only their differences mean anything."""

    def now_us(self) -> Micros:
        """Microseconds since an instant of the system's choice; never set back."""
        return Micros(int(monotonic_sec() * 1_000_000))


def system_chance() -> Chance:
    """The operating system's random source."""
    return random.SystemRandom()


def secret(chance: Chance) -> str:
    """A word that cannot be guessed: 128 random bits."""
    return format(chance.getrandbits(128), "032x")


class Patience:
    """A stretch of real time that several waits for locks share; nothing on a board depends on it."""

    def __init__(self, us: int) -> None:
        self._end = monotonic_sec() + us / 1_000_000

    @property
    def left_sec(self) -> float:
        """What is left of it."""
        return max(self._end - monotonic_sec(), 0.0)


ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32 in lower case: no letter that is mistaken for a digit."""


def word(chance: Chance, letters: int) -> str:
    """A random word of `letters` characters, five bits each."""
    bits = chance.getrandbits(5 * letters)
    return "".join(ALPHABET[(bits >> (5 * i)) & 31] for i in range(letters))
