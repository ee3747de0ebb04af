"""Two parties on one board, in an order that the test chooses.

An act runs in a thread of its own and stops at every point its store reaches, until it is let go. Nothing depends on
who is faster: whoever is not let go stands still.
"""

import queue
import threading

from tests.support.patience import PATIENCE_SEC


class Party:
    """A probe, and the thread that runs an act under it.

    Open a board with the party as its probe, then `start` an act on it. The act stands still at each point until
    `run_to` or `finish` lets it go on.
    """

    def __init__(self):
        self._arrived = queue.Queue()
        self._go = threading.Semaphore(0)
        self._thread = None
        self._free = False
        self._answer = None
        self.at = None

    def reached(self, point):
        """The store is at `point`: stand still there, if this is the act's own thread."""
        if threading.current_thread() is self._thread and not self._free:
            self._arrived.put(point)
            assert self._go.acquire(timeout=PATIENCE_SEC), f"nobody lets the act go on from {point}"

    def start(self, act):
        """Run `act` up to its first point."""
        assert self._thread is None, "a party acts once"
        self._thread = threading.Thread(target=self._run, args=(act,), daemon=True)
        self._thread.start()
        self.at = self._next()

    def step(self):
        """Let the act go on to its next point, or to its end; where it stands, None when it is over."""
        if self.at is not None:
            self._go.release()
            self.at = self._next()
        return self.at

    def run_to(self, point):
        """Let the act go on until it stands at `point`; whether it ever did."""
        while self.at not in (point, None):
            self.step()
        return self.at == point

    def finish(self):
        """Let the act run to its end; what it gave, or the error it raised."""
        self._free = True
        if self.at is not None:
            self._go.release()
            while self._next() is not None:
                pass
            self.at = None
        self._thread.join(PATIENCE_SEC)
        assert not self._thread.is_alive(), "the act does not end"
        return self._answer

    def _run(self, act):
        self._answer = outcome(act)
        self._arrived.put(None)

    def _next(self):
        return self._arrived.get(timeout=PATIENCE_SEC)


def outcome(act):
    """What an act gives, or the error that it raises."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - an error is an answer like any other here
        return error
