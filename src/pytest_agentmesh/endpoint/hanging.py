"""Requests that are left without an answer for now.

On a board's clock each has a place there, like any call that waits: the test can go `to_next()`, and knows when
`advance` returns that the request has seen the new time. Another clock tells nobody that it was turned: it is polled.
"""

from __future__ import annotations

from contextlib import closing
from threading import Condition
from typing import Final

from agentmesh.cell import PARKED, CellClock
from agentmesh.clock import Clock
from agentmesh.errors import ClockOver
from agentmesh.store.parking import ClockedAlarm

POLL_SEC: Final = 0.01


class _Held:
    """A request that waits."""

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.released = False
        self.alarm: ClockedAlarm | None = None

    def release(self) -> None:
        """Let it go."""
        self.released = True
        if self.alarm:
            self.alarm.ring()


class Hanging:
    """Where requests wait: for a time of the clock, until somebody lets them go, at the latest until the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cell = clock if isinstance(clock, CellClock) else None
        self._changed = Condition()
        self._held: list[_Held] = []
        self._ended = False

    def keep(self, agent: str, us: int | None) -> bool:
        """Wait; whether somebody still wants an answer afterwards."""
        due_us = None if us is None else self._clock.now_us() + us
        held = _Held(agent)
        if self._cell is None:
            return self._hold(held, due_us)
        with closing(ClockedAlarm(self._cell, PARKED)) as held.alarm:
            return self._hold(held, due_us)

    def _hold(self, held: _Held, due_us: int | None) -> bool:
        with self._changed:
            held.released = self._ended
            self._held.append(held)
            self._changed.notify_all()
        try:
            while not held.released and (due_us is None or self._clock.now_us() < due_us):
                self._sleep(held, due_us)
        finally:
            with self._changed:
                self._held.remove(held)
        return not self._ended

    def _sleep(self, held: _Held, due_us: int | None) -> None:
        if held.alarm:
            try:
                held.alarm.wait(None if due_us is None else due_us - self._clock.now_us())
            except ClockOver:
                self.end()
            return
        with self._changed:
            if not held.released:
                self._changed.wait(None if due_us is None else POLL_SEC)

    def release(self, agent: str | None = None) -> None:
        """Let the requests of an agent go on, or all of them."""
        with self._changed:
            for held in self._held:
                if agent in (None, held.agent):
                    held.release()
            self._changed.notify_all()

    def count(self, agent: str) -> int:
        """How many requests of an agent wait."""
        with self._changed:
            return sum(held.agent == agent for held in self._held)

    def until(self, agent: str, within_sec: float) -> bool:
        """Wait in real time until a request of an agent waits; whether one does."""
        with self._changed:
            return self._changed.wait_for(lambda: any(held.agent == agent for held in self._held), within_sec)

    def end(self) -> None:
        """Let all go; nobody waits here any more."""
        with self._changed:
            self._ended = True
        self.release()
