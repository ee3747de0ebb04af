"""The queue of writers: one OS lock per board that makes the writers of a machine take turns.

SQLite's own write lock is right but not fair: it is polled, so whoever comes back first wins. The gate puts a kernel
queue in front of it. It is fairness only: a writer that does not get through in time goes on to SQLite's lock, which
alone decides and alone may say `busy`. A turn ends just before the commit: the next writer wakes up meanwhile (a third
of the time between two transactions of 16 processes), and only that one may find SQLite's lock still taken.

A blocking `flock` knows no deadline and a timer signal belongs to the application, so a thread stands in the kernel's
queue on the caller's behalf; it starts only when a first writer finds the gate taken.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock; SQLite's own lock serves alone there
    fcntl = None  # type: ignore[assignment]  # the module is optional on that platform


class Gate:
    """The queue of one board, for the writers of one store object; they share it under the store's own lock."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._usher: _Usher | None = None

    @contextlib.contextmanager
    def turn(self, timeout_sec: float) -> Iterator[bool]:
        """Wait for a turn, at most `timeout_sec`; whether it was granted (the body runs in any case)."""
        entered = self.enter(timeout_sec)
        try:
            yield entered
        finally:
            if entered:
                self.leave()

    def leave(self) -> None:
        """Let the next writer in."""
        if fcntl:
            fcntl.flock(self._fd, fcntl.LOCK_UN)

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

    def enter(self, timeout_sec: float) -> bool:
        """Wait for a turn, at most `timeout_sec`; only if it is granted must the caller leave."""
        if not fcntl:  # pragma: no cover - see above
            return True
        if self._usher is None or not self._usher.queueing:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                return True
        if self._usher is None:
            self._usher = _Usher(self._fd)
        return self._usher.queue(timeout_sec)


class Turn:
    """One writer's turn at a gate; with no gate, or when it could not be had in time, it is not granted."""

    __slots__ = ("_gate", "granted")

    def __init__(self, gate: Gate | None, timeout_sec: float) -> None:
        self._gate = gate
        self.granted = gate is not None and gate.enter(timeout_sec)

    def end(self) -> None:
        """Let the next writer in; ending twice is ending once."""
        if self.granted and self._gate:
            self.granted = False
            self._gate.leave()


class _Usher:
    """A thread that waits in the kernel's queue, so that the caller can give up and can be interrupted."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._mutex = threading.Lock()
        self._asked = _signal()
        self._granted = _signal()
        self._wanted = False
        self._closing = False
        self.queueing = False
        self._thread = threading.Thread(target=self._serve, name="agentmesh-gate", daemon=True)
        self._thread.start()

    def queue(self, timeout_sec: float) -> bool:
        """Wait for the lock; False when the time is over."""
        with self._mutex:
            self._wanted = True
            if not self.queueing:
                self.queueing = True
                self._asked.release()
        try:
            granted = self._granted.acquire(timeout=timeout_sec)
        except BaseException:
            if self._give_up():  # the lock came together with the interruption: nobody would ever let go of it
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            raise
        return granted or self._give_up()

    def dismiss(self) -> bool:
        """End the thread; False when it cannot end because it still waits for the lock."""
        with self._mutex:
            self._closing = True
            stuck = self.queueing
        self._asked.release()
        if not stuck:
            self._thread.join()
        return not stuck

    def _give_up(self) -> bool:
        """Withdraw, unless the lock came in the meantime and the caller goes on with it."""
        with self._mutex:
            self._wanted = False
            return self._granted.acquire(blocking=False)

    def _serve(self) -> None:
        while True:
            self._asked.acquire()
            if self._closing and not self.queueing:
                return
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._mutex:
                self.queueing = False
                if self._wanted:
                    self._wanted = False
                    self._granted.release()
                else:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
                if self._closing:
                    os.close(self._fd)
                    return


def _signal() -> threading.Lock:
    """A bare lock, taken: releasing it is the signal. A semaphore is written in Python and costs more than a commit."""
    signal = threading.Lock()
    signal.acquire()
    return signal
