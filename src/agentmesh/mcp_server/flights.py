"""Calls of an asynchronous front, each in a thread: how it ends, and what its client is told meanwhile.

Whether a call ended before its client lost interest is decided under a lock. A call whose answer goes
nowhere (cancelled, its client gone) is told so at its next wake-up, and an effect that is worthless
without the answer is taken back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

from agentmesh.clock import monotonic_sec
from agentmesh.mcp_server.lanes import Lanes
from agentmesh.mcp_server.protocol import Message
from agentmesh.mcp_server.session import Call, Session

PROGRESS_SEC: Final = 1.0

Tell = Callable[[float], Coroutine[Any, Any, None]]
"""Tells the client how many seconds its call has waited."""


class Flight:
    """A call under way. It is over when it has a result; it is lost when nobody will see that result."""

    def __init__(
        self, session: Session, lanes: Lanes, tell: Callable[[], None] = lambda: None, client: object = None
    ) -> None:
        self.call = Call(session, self._given_up, self._rest, client=client)
        self._lanes = lanes
        self._tell = tell
        self._lock = threading.Lock()
        self._over = False
        self._lost = threading.Event()

    def work(self, work: Callable[[Call], Message]) -> Message:
        """Do it. Runs in a thread."""
        try:
            return work(self.call)
        finally:
            with self._lock:
                self._over = True
                lost = self._lost.is_set()
            if lost:
                self.call.take_back()

    def lose(self) -> None:
        """The answer goes nowhere: end the wait, or take back what came of it."""
        with self._lock:
            lost, over = self._lost.is_set(), self._over
            self._lost.set()
        if lost:
            return
        if over:
            self._lanes.run(self.call.take_back)
        else:
            self.call.board.wake_waits()

    def _given_up(self) -> bool:
        """What a waiting call asks at each of its wake-ups."""
        if self._lost.is_set() or self._lanes.closing:
            return True
        self._tell()
        return False

    def _rest(self, sec: float) -> bool:
        return self._lost.wait(sec) or self._lanes.closing


class Progress:
    """Tells a client that its call still waits, at most once a second. Made in the event loop."""

    def __init__(self, tell: Tell) -> None:
        self._say_it = tell
        self._loop = asyncio.get_running_loop()
        self._began = self._told = monotonic_sec()
        self._over = False
        self._word: asyncio.Task[None] | None = None

    def tell(self) -> None:
        """Say a word if it is time; called from the thread that waits."""
        now = monotonic_sec()
        if now - self._told >= PROGRESS_SEC:
            self._told = now
            self._loop.call_soon_threadsafe(self._say, round(now - self._began, 1))

    def end(self) -> None:
        """The answer comes: say no more."""
        self._over = True
        if self._word is not None:
            self._word.cancel()

    def _say(self, waited_sec: float) -> None:
        """A client that does not read gets one word at a time."""
        if not self._over and (self._word is None or self._word.done()):
            self._word = self._loop.create_task(self._say_it(waited_sec))
