"""A clock that stands still until a test turns it."""

import mmap

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


class SharedClock(SystemClock):
    """The same for many processes: the time stands in a file that all of them have mapped."""

    def __init__(self, path):
        self._path = path
        if not path.exists():
            path.write_bytes(START_US.to_bytes(8, "little"))
        with path.open("r+b") as file:
            self._cell = memoryview(mmap.mmap(file.fileno(), 8)).cast("q")

    def __reduce__(self):
        return SharedClock, (self._path,)

    def now_us(self):
        """Microseconds since the Unix epoch, UTC."""
        return self._cell[0]

    def advance(self, sec):
        """Let time pass for everybody; the instant that is then told."""
        self._cell[0] += round(sec * 1_000_000)
        return self._cell[0]
