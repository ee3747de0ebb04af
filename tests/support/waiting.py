"""Calls that wait, each in a thread of its own: a test knows when one sleeps, wakes it, and hears its answer."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from agentmesh.store import waiting
from tests.support.patience import PATIENCE_SEC


class Sleepers:
    """Runs calls in threads and counts how often one of them lay down to sleep."""

    def __init__(self, pool):
        self._pool = pool
        self._slept = threading.Semaphore(0)
        self._calls = []

    def lay_down(self):
        """Some call is about to sleep."""
        self._slept.release()

    def start(self, call, *args, **options):
        """Run a call in a thread; returns once it sleeps."""
        started = self._pool.submit(call, *args, **options)
        self._calls.append(started)
        self.until_asleep()
        return started

    def until_asleep(self):
        """Wait until one more call sleeps."""
        assert self._slept.acquire(timeout=PATIENCE_SEC), "no call lies down to sleep"


def answer(started):
    """What a call in a thread returned; it must return soon."""
    return started.result(timeout=PATIENCE_SEC)


@contextlib.contextmanager
def sleepers(monkeypatch, *, tick_us=60_000_000):
    """Threads for calls that wait; with a tick of a minute only a poke, a due time or a bell wakes one in time."""
    original = waiting.SleepingWaiter.wait
    with ThreadPoolExecutor() as pool:
        found = Sleepers(pool)

        def wait(waiter, timeout_us):
            found.lay_down()
            return original(waiter, timeout_us)

        monkeypatch.setattr(waiting, "TICK_US", tick_us)
        monkeypatch.setattr(waiting.SleepingWaiter, "wait", wait)
        yield found
