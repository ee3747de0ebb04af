"""Threads for the calls of many clients: a few share the short calls, each call that waits has its own.

So sixty waiting calls use up nothing that a heartbeat needs. All are daemons: a call that hangs must
not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Final, TypeVar

from agentmesh.clock import Patience
from agentmesh.errors import Overloaded

SHORT: Final = 4
"""A board lets one writer through at a time; more threads than this only queue up behind each other."""

MOST_WAITS: Final = 128

T = TypeVar("T")
Job = Callable[[], object]


class Lanes:
    """Where calls run."""

    def __init__(self, *, short: int = SHORT, waits: int = MOST_WAITS) -> None:
        self._short = short
        self._most = waits
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._apart: list[threading.Thread] = []
        self._unfinished = 0
        self._changed = threading.Condition()
        self.waiting = 0
        self.closing = False

    def run(self, job: Job) -> None:
        """Do a short job as soon as a thread is free."""
        with self._changed:
            self._unfinished += 1
            if len(self._threads) < self._short:
                thread = threading.Thread(target=self._work, name=f"lane-{len(self._threads)}", daemon=True)
                thread.start()
                self._threads.append(thread)
        self._queue.put(job)

    def run_apart(self, job: Job) -> None:
        """Do a job that may wait in a thread of its own.

        Raises:
            Overloaded: too many wait already.
        """
        with self._changed:
            if self.waiting >= self._most:
                raise Overloaded(self._most)
            thread = threading.Thread(target=self._wait, args=(job,), name="waiting", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left
                raise Overloaded(self.waiting) from None
            self._apart = [*filter(threading.Thread.is_alive, self._apart), thread]
            self.waiting += 1
            self._unfinished += 1

    async def ask(self, work: Callable[[], T], *, apart: bool = False) -> T:
        """What the work gives, once it is done; who is cancelled before it begins prevents it."""
        outcome: Future[T] = Future()
        job = _filling(outcome, work)
        if apart:
            self.run_apart(job)
        else:
            self.run(job)
        return await asyncio.wrap_future(outcome)

    def close(self, patience_sec: float) -> bool:
        """Take the threads off; whether all that was under way ended in time."""
        patience = Patience(int(patience_sec * 1_000_000))
        with self._changed:
            self.closing = True
            for _ in self._threads:
                self._queue.put(None)
            ended = self._changed.wait_for(lambda: self._unfinished == 0, patience.left_sec)
        for thread in (*self._threads, *self._apart):
            thread.join(patience.left_sec)
        return ended

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            try:
                job()
            finally:
                self._ended()

    def _wait(self, job: Job) -> None:
        try:
            job()
        finally:
            self._ended(waits=1)

    def _ended(self, waits: int = 0) -> None:
        with self._changed:
            self._unfinished -= 1
            self.waiting -= waits
            self._changed.notify_all()


def _filling(outcome: Future[T], work: Callable[[], T]) -> Job:
    def job() -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            found = work()
        except BaseException as error:  # noqa: BLE001 - whoever awaits the outcome gets it
            outcome.set_exception(error)
        else:
            outcome.set_result(found)

    return job
