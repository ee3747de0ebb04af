"""Keeping the log short without making a writer pay: a thread copies it into the board file.

A checkpoint's cost is its two syncs and the bytes written since the last one, 10 ms and more at 16 MB. Run by whoever
committed last it was a sixth of the time of every claim and complete, and the slowest calls of all. The thread starts
when the log first reaches its mark, so a short-lived process never has one.

A first pass runs beside the writers and does nearly all of the work. A second follows inside the gate: only without
writers can a pass reach the end of the log, and only then does the log begin anew.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path

import apsw

from agentmesh.errors import StoreError
from agentmesh.store.gate import Gate

MARK_PAGES = 4000
"""16 MB of log: from here on it is copied; writers at full speed add some more meanwhile."""
LIMIT_PAGES = 6000
"""24 MB of log: here the thread has lost the race for the processor, and a writer copies the log in its turn."""
STEP_PAGES = 1000
"""How much the log may grow before another try, should one not reach its end (a reader may pin the log)."""


GATE_SEC = 5.0


class Checkpointer:
    """Watches the length of the log and keeps a thread that shortens it."""

    def __init__(self, gate: Path, connect: Callable[[], apsw.Connection], reached: Callable[[str], None]) -> None:
        self._gate = gate
        self._connect = connect
        self._reached = reached
        self._pages = 0
        self._next = MARK_PAGES
        self._limit = LIMIT_PAGES
        self._due = threading.Event()
        self._closing = False
        self._at_gate = False
        self.passing = False
        self._thread: threading.Thread | None = None

    def committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        """SQLite's word, after each commit, on how long the log is."""
        if pages < self._pages:
            self._next, self._limit = MARK_PAGES, LIMIT_PAGES  # the log has begun anew
        self._pages = pages
        if pages >= self._next:
            self._next = pages + STEP_PAGES
            self._due.set()
            if self._thread is None or not self._thread.is_alive():
                self._start()
        return apsw.SQLITE_OK

    def needs_turn(self, *, contended: bool) -> bool:
        """Whether a thread that shortens the log waits at the gate: this process's own, or, if others write, theirs."""
        return self._at_gate or (contended and self._pages >= MARK_PAGES)

    def relieve(self, connection: apsw.Connection) -> None:
        """Called by a writer that has committed and still has the gate: copy a log that is far too long."""
        if self._pages >= self._limit:
            self._limit = self._pages + STEP_PAGES
            with contextlib.suppress(apsw.Error):  # as for the thread; and the commit stands, the call has not failed
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def close(self) -> None:
        """End the thread, after the pass it may be in."""
        self._closing = True
        if self._thread is not None:
            self._due.set()
            self._thread.join()
            self._thread = None

    def _start(self) -> None:
        thread = threading.Thread(target=self._serve, name="agentmesh-checkpoint", daemon=True)
        with contextlib.suppress(RuntimeError):  # no thread is to be had: the log grows, and the commit stands
            thread.start()
            self._thread = thread

    def _serve(self) -> None:
        while self._due.wait() and not self._closing:
            self._due.clear()
            self._reached("checkpoint")
            # A failure costs nothing but log: whoever writes next meets the same trouble and says so.
            with contextlib.suppress(apsw.Error, StoreError, OSError):
                self._shorten()

    def _shorten(self) -> None:
        # A gate of its own: the writers of this process wait at it like all others.
        with contextlib.closing(Gate(self._gate)) as gate, gate.checkpointer() as mine:
            if not mine:
                return
            with contextlib.closing(self._connect()) as connection:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                self._at_gate = self.passing = True
                try:
                    with gate.turn(GATE_SEC):
                        self._at_gate = False
                        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                finally:
                    self._at_gate = self.passing = False
