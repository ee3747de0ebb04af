"""The queue of writers: one OS lock per board that makes the writers of a machine take turns.

SQLite's own write lock is right but not fair: it is polled, so whoever comes back first wins. The gate puts a kernel
queue in front of it. It is fairness only: a writer that does not get through in time goes on to SQLite's lock, which
alone decides and alone may say `busy`.

A blocking `flock` knows no deadline and a timer signal belongs to the application, so a thread, the usher, stands in
the kernel's queue on the caller's behalf; it starts only when a first writer finds the gate taken.

Handing the gate from process to process costs more than a transaction: two threads wake up, and all caches are cold
(16 processes with a turn per transaction did 0.45 of the work of one). So whoever had to queue gets a slice of a few
milliseconds: the usher keeps the lock between its transactions, as long as the next one comes at once.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; SQLite's own lock serves alone there
    fcntl = None  # type: ignore[assignment]  # the module is optional on that platform


SLICE_SEC = 0.006
"""How long one process may go on while others queue: some thirty transactions, so that its caches pay."""
LONE_SLICE_SEC = 0.1
"""The same where nobody was met in the queue lately: standing back costs something, too."""
LATELY_SEC = 1.0
YIELD_SEC = 0.00005
"""How long it stands back after a slice: about what a process in the queue needs to wake up."""
IDLE_SEC = 0.0003
"""How long its usher keeps the lock for a next transaction that does not come."""


class Gate:
    """The queue of one board, for the writers of one store object; they share it under the store's own lock."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._usher: _Usher | None = None
        self._direct = False
        self._began = 0.0
        self._left = 0.0
        self._queued = 0.0

    @contextlib.contextmanager
    def turn(self, timeout_sec: float) -> Iterator[bool]:
        """Wait for a turn, at most `timeout_sec`; whether it was granted (the body runs in any case)."""
        entered = self.enter(timeout_sec)
        try:
            yield entered
        finally:
            if entered:
                self.leave()

    def enter(self, timeout_sec: float, *, own: bool = False) -> bool:
        """Wait for a turn, at most `timeout_sec`; only if it is granted must the caller leave.

        Whoever waits for a thread of its `own` process has not met another process.
        """
        if not fcntl:  # pragma: no cover - see above
            return True
        usher = self._usher
        if usher is not None and usher.go_on():
            return True
        self._give_way()
        if usher is None or not usher.queueing:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                self._direct = True
                return True
        if usher is None:
            try:
                usher = self._usher = _Usher(self._fd)
            except RuntimeError:
                return False  # no thread is to be had
        granted = usher.queue(timeout_sec)
        self._began = time.monotonic()
        if not own:
            self._queued = self._began
        return granted

    @property
    def contended(self) -> bool:
        """Whether this process had to queue lately."""
        return self._left - self._queued < LATELY_SEC

    def leave(self, *, at_once: bool = False) -> None:
        """Let the next writer in: `at_once`, or if nobody was in the way, else when the slice is over."""
        self._left = time.monotonic()
        if at_once:
            self._began = 0.0
        if self._direct:
            self._direct = False
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        elif self._usher is not None and at_once:
            self._usher.stop()
        elif self._usher is not None:
            self._usher.pause()

    def _give_way(self) -> None:
        """After a slice of transactions that followed each other at once, let whoever queues wake up and get in.

        The kernel gives a free lock to whoever asks first, and a process that is awake would always be first.
        """
        now = time.monotonic()
        if now - self._left > IDLE_SEC:
            self._began = now
        elif now - self._began >= (SLICE_SEC if self.contended else LONE_SLICE_SEC):
            time.sleep(YIELD_SEC)
            self._began = time.monotonic()

    @contextlib.contextmanager
    def checkpointer(self) -> Iterator[bool]:
        """Be the one process that checkpoints, unless another is."""
        if not fcntl:  # pragma: no cover - see above
            yield True
            return
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        try:
            yield True
        finally:
            fcntl.lockf(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Leave the queue; the file stays, other processes queue at it."""
        if self._usher is not None and not self._usher.dismiss():
            return  # still in the kernel's queue: the usher closes the descriptor when it comes out
        os.close(self._fd)


class _Usher:
    """A thread that waits in the kernel's queue, so that the caller can give up and can be interrupted."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mutex = threading.Lock()
        self._asked = _signal()
        self._granted = _signal()
        self._wanted = False
        self._closing = False
        self._holding = False
        self._inside = False
        self._left = 0.0
        self._slice_end = 0.0
        self.queueing = False
        self._thread = threading.Thread(target=self._serve, name="agentmesh-gate", daemon=True)
        self._thread.start()

    def queue(self, timeout_sec: float) -> bool:
        """Wait for the lock; False when the time is over."""
        with self._mutex:
            self._wanted = True
            if not self.queueing:
                self.queueing = True
                _ring(self._asked)
        try:
            granted = self._granted.acquire(timeout=timeout_sec)
        except BaseException:
            if self._give_up() or self._holding:  # it came with the interruption: nobody would ever let go of it
                self.stop()
            raise
        return granted or self._give_up()

    def go_on(self) -> bool:
        """Begin another transaction in the slice that is under way; False when there is none."""
        with self._mutex:
            self._inside = self._holding
            return self._holding

    def pause(self) -> None:
        """A transaction is over: keep the lock for another, unless the slice is over too."""
        with self._mutex:
            self._inside = False
            self._left = time.monotonic()
            if self._left >= self._slice_end or self._closing:
                self._let_go()

    def stop(self) -> None:
        """A transaction is over, or will not come although it was granted its turn: let go of the lock."""
        with self._mutex:
            self._inside = False
            self._let_go()

    def dismiss(self) -> bool:
        """End the thread; False when it cannot end because it still waits for the lock."""
        with self._mutex:
            self._closing = True
            stuck = self.queueing
            if self._holding:
                self._let_go()
        _ring(self._asked)
        if not stuck:
            self._thread.join()
        return not stuck

    def _give_up(self) -> bool:
        """Withdraw, unless the lock came in the meantime and the caller goes on with it."""
        with self._mutex:
            self._wanted = False
            return self._granted.acquire(blocking=False)

    def _let_go(self) -> None:
        self._holding = False
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def _serve(self) -> None:
        while True:
            self._asked.acquire()
            if self._closing and not self.queueing:
                return
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._mutex:
                self.queueing = False
                self._holding = self._inside = self._wanted
                if self._wanted:
                    self._wanted = False
                    self._slice_end = time.monotonic() + SLICE_SEC
                    _ring(self._granted)
                else:
                    self._let_go()
                if self._closing and not self._holding:
                    os.close(self._fd)
                    return
            self._sit()

    def _sit(self) -> None:
        """Keep the lock while transactions come, and let go of it when none does."""
        while self._holding:
            time.sleep(IDLE_SEC)
            with self._mutex:
                if self._holding and not self._inside and time.monotonic() - self._left >= IDLE_SEC:
                    self._let_go()


def _signal() -> threading.Lock:
    """A bare lock, taken: releasing it is the signal. A semaphore is written in Python and costs more than a commit."""
    signal = threading.Lock()
    signal.acquire()
    return signal


def _ring(signal: threading.Lock) -> None:
    """Give a signal; one that was given and not yet heard stays one."""
    with contextlib.suppress(RuntimeError):
        signal.release()
