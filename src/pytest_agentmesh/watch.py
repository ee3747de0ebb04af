"""What acts when a test has run out of real time: one thread for all tests, so that none comes or goes within one."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Watch:
    """Acts at one instant at a time; the clock is the real one, also for a test that has patched it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due_sec: float | None = None
        self._act: Callable[[], None] | None = None
        self._over = False
        self._thread: threading.Thread | None = None
        self._now_sec: Callable[[], float]

    def begin(self) -> None:
        """Have the thread; a test that counts threads finds it there from its first fixture on."""
        if self._thread is None:
            from agentmesh.clock import monotonic_sec  # the plugin itself is loaded by runs that never use it

            self._now_sec = monotonic_sec
            self._thread = threading.Thread(target=self._run, name="agentmesh-watch", daemon=True)
            self._thread.start()

    def set(self, sec: float, act: Callable[[], None]) -> None:
        """Act after so many seconds, unless it is set anew or cancelled."""
        self.begin()
        with self._changed:
            self._due_sec, self._act = self._now_sec() + sec, act
            self._changed.notify()

    def cancel(self) -> None:
        """Do not; what is being done already ends first."""
        with self._changed:
            self._act = None

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._over = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        with self._changed:
            while not self._over:
                left_sec = None if self._act is None or self._due_sec is None else self._due_sec - self._now_sec()
                if left_sec is None or left_sec > 0:
                    self._changed.wait(left_sec)
                elif self._act is not None:
                    act, self._act = self._act, None
                    act()
