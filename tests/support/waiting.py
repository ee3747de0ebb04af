"""Calls that wait, each in a thread of its own: a test knows when one sleeps, wakes it, and hears its answer."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

from agentmesh.store import waiting
from tests.support.patience import PATIENCE_SEC

SOON_SEC = 40
"""Less than the longest wait: an answer within it was woken, and did not merely reach its deadline."""


class Sleepers:
    """Runs calls in threads and knows when one of them lies down to sleep."""

    def __init__(self, pool, sleep):
        self._pool = pool
        self._sleep = sleep
        self._slept = threading.Semaphore(0)
        self._seen = set()
        self._over = False

    def start(self, call, *args, **options):
        """Run a call in a thread; returns once it sleeps."""
        started = self._pool.submit(call, *args, **options)
        self.until_asleep()
        return started

    def until_asleep(self):
        """Wait until one more call sleeps."""
        assert self._slept.acquire(timeout=PATIENCE_SEC), "no call lies down to sleep"

    def doze(self, waiter, timeout_us):
        """What the board's waiters do instead of sleeping unseen."""
        self._seen.add(waiter)
        self._slept.release()
        poked = False if self._over else self._sleep(waiter, timeout_us)
        if self._over:
            raise RuntimeError("the test ended while a call was asleep")
        return poked

    def end(self):
        """Wake whoever still sleeps: the test has failed, and nobody is to wait for it."""
        self._over = True
        for waiter in tuple(self._seen):
            waiter.ring()


def answer(started):
    """What a call in a thread returned; it must return soon."""
    return started.result(timeout=SOON_SEC)


@contextlib.contextmanager
def sleepers(monkeypatch, *, tick_us=3_600_000_000):
    """Threads for calls that wait; with a tick of an hour only a poke, a due time or a bell wakes one in time."""
    with ThreadPoolExecutor(max_workers=64) as pool:  # every call that waits needs a thread of its own
        found = Sleepers(pool, waiting.SleepingWaiter.wait)

        def wait(waiter, timeout_us):
            return found.doze(waiter, timeout_us)

        monkeypatch.setattr(waiting, "TICK_US", tick_us)
        monkeypatch.setattr(waiting.SleepingWaiter, "wait", wait)
        try:
            yield found
        finally:
            found.end()
