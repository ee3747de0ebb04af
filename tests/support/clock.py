"""A clock that stands still until a test turns it."""

from agentmesh.clock import SystemClock

START_US = 1_767_225_600_000_000
"""The first of January 2026, 00:00 UTC."""


class TurnableClock(SystemClock):
    """Tells the time that the test has set; any thread may read it."""

    def __init__(self, start_us=START_US):
        self._now_us = start_us

    def now_us(self):
        """Microseconds since the Unix epoch, UTC."""
        return self._now_us

    def advance(self, sec):
        """Let time pass; a negative number turns it back. The instant that is then told."""
        self._now_us += round(sec * 1_000_000)
        return self._now_us
