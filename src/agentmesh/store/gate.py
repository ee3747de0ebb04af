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
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from agentmesh.clock import monotonic_sec
from agentmesh.store import files, holders

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
SUSPICIOUS_SEC = 0.25
"""After this time in the queue it is worth a look whether the holder is stopped, which costs 0.1 ms and more."""

OUT: Final = "out"
UNSURE: Final = "unsure"
INSIDE: Final = "inside"


class Gate:
    """The queue of one board, for the writers of one store object; they share it under the store's own lock.

    An exception can strike at any line (a signal handler that raises). The gate says so itself: between the first step
    towards the lock and the moment when it is known to be held or free, its state is `UNSURE`, and `leave` then lets go
    of everything that may have been taken.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = _open(path)
        self._usher: _Usher | None = None
        self._state = OUT
        self._direct = False
        self._began = 0.0
        self._left = 0.0
        self._queued = 0.0
        _open_gates.add(self)

    @contextlib.contextmanager
    def turn(self, timeout_sec: float) -> Iterator[bool]:
        """Wait for a turn, at most `timeout_sec`; whether it was granted (the body runs in any case)."""
        try:
            yield self.enter(timeout_sec)
        finally:
            self.leave()

    def enter(self, timeout_sec: float, *, own: bool = False) -> bool:
        """Wait for a turn, at most `timeout_sec`; whether it was granted.

        Whoever waits for a thread of its `own` process has not met another process.
        """
        if not fcntl or self._fd < 0:  # no flock, or no descriptor after a fork
            return False
        self._state = UNSURE
        try:
            granted = self._enter(timeout_sec, own=own)
            self._state = INSIDE if granted else OUT
        except BaseException:
            self.leave()
            raise
        return granted

    def _enter(self, timeout_sec: float, *, own: bool) -> bool:
        usher = self._usher
        if usher is not None and usher.go_on():
            return True
        self._give_way()
        if usher is None or not usher.queueing:
            self._direct = True
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._direct = False
            except OSError:  # the system gives no lock: SQLite's alone decides
                self._direct = False
                return False
            else:
                return True
        if usher is None:
            usher = self._usher = _Usher(self._fd, self._path)
        granted = usher.queue(timeout_sec)
        self._began = monotonic_sec()
        if not own:
            self._queued = self._began
        return granted

    @property
    def contended(self) -> bool:
        """Whether this process had to queue lately."""
        return self._left - self._queued < LATELY_SEC

    def leave(self, *, at_once: bool = False) -> None:
        """Let the next writer in: `at_once`, or if nobody was in the way, else when the slice is over.

        Nothing happens where no turn was granted, so it may be called in any case, and twice.
        """
        state, self._state = self._state, UNSURE
        if state == INSIDE:
            self._leave(at_once=at_once)
        elif state == UNSURE:
            self._reset()
        self._state = OUT

    def _leave(self, *, at_once: bool) -> None:
        self._left = monotonic_sec()
        if at_once:
            self._began = 0.0
        if self._direct:
            _unlock(self._fd, self._path)
            self._direct = False
        elif self._usher is not None and at_once:
            self._usher.stop()
        elif self._usher is not None:
            self._usher.pause()

    def _reset(self) -> None:
        """Let go of whatever may have been taken: a lock that is not held may be released as well."""
        if self._fd < 0:
            return
        if self._usher is not None:
            self._usher.reset()
        _unlock(self._fd, self._path)
        self._direct = False

    def _give_way(self) -> None:
        """After a slice of transactions that followed each other at once, let whoever queues wake up and get in.

        The kernel gives a free lock to whoever asks first, and a process that is awake would always be first.
        """
        now = monotonic_sec()
        if now - self._left > IDLE_SEC:
            self._began = now
        elif now - self._began >= (SLICE_SEC if self.contended else LONE_SLICE_SEC):
            time.sleep(YIELD_SEC)
            self._began = monotonic_sec()

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
            _unlock(self._fd, self._path, fcntl.lockf)

    def record(self, board: Path) -> None:
        """Note which log belongs to which database; see `files`."""
        files.record(board, self._fd)

    def close(self) -> None:
        """Leave the queue; the file stays, other processes queue at it."""
        if self._usher is not None and not self._usher.dismiss():
            return  # still in the kernel's queue: the usher closes the descriptor when it comes out
        fd, self._fd = self._fd, -1
        if fd >= 0:
            _close(fd)

    def forget(self) -> None:
        """Close the descriptor in a forked child, which shares the lock with its parent as long as it has one.

        The parent's lock is not released by this. If the parent ends, however, the child must not keep it.
        """
        fd, self._fd, self._usher, self._state = self._fd, -1, None, OUT
        if fd >= 0:
            _close(fd)


def _forget_all() -> None:
    for gate in tuple(_open_gates):
        gate.forget()


_open_gates: weakref.WeakSet[Gate] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _open(path: Path) -> int:
    """Open the file of a gate; a new one gets owner, group and mode of its board, as SQLite does for its own files.

    Otherwise a look at the board by root, or by a member of its group, would lock its owner out.
    """
    flags = os.O_RDWR | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:  # another process was faster
        return os.open(path, flags)
    with contextlib.suppress(OSError):  # no board there, or a user who may give nothing away: it is this user's then
        board = path.with_suffix("").stat()
        os.fchmod(fd, stat.S_IMODE(board.st_mode) & 0o666)
        os.fchown(fd, board.st_uid if os.geteuid() == 0 else -1, board.st_gid)
    return fd


class _Usher:
    """A thread that waits in the kernel's queue, so that the caller can give up and can be interrupted."""

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path
        self._mutex = threading.RLock()
        self._asked = _signal()
        self._granted = _signal()
        self._wanted = False
        self._closing = False
        self._holding = False
        self._inside = False
        self._left = 0.0
        self._slice_end = 0.0
        self.queueing = False
        self._thread: threading.Thread | None = None

    def queue(self, timeout_sec: float) -> bool:
        """Wait for the lock; False when the time is over, or when it is held by a process that cannot let go.

        A caller that gave up leaves the thread in the kernel's queue. The next caller, which finds it `queueing`, meets
        the same holder and looks at it first, so that it does not wait in vain once more.
        """
        if not self._started():
            return False
        with self._mutex:
            again = self.queueing
            self._wanted = True
            if not again:
                _ring(self._asked)
                self.queueing = True
        first = 0.0 if again else min(timeout_sec, SUSPICIOUS_SEC)
        granted = self._granted.acquire(timeout=first)
        if not granted and timeout_sec > first:
            granted = self._granted.acquire(timeout=self._worth_waiting(timeout_sec - first, again=again))
        return granted or self._give_up()

    def _worth_waiting(self, left_sec: float, *, again: bool) -> float:
        """How long to wait, of the time that is left, for the process that has the lock now."""
        holder = holders.of_gate(self._path)
        if holder is None:  # the system does not tell
            return min(left_sec, SUSPICIOUS_SEC) if again else left_sec
        return 0.0 if holder.idle else left_sec

    def go_on(self) -> bool:
        """Begin another transaction in the slice that is under way; False when there is none."""
        with self._mutex:
            self._inside = self._holding
            return self._holding

    def pause(self) -> None:
        """A transaction is over: keep the lock for another, unless the slice is over too."""
        with self._mutex:
            self._inside = False
            self._left = monotonic_sec()
            if self._left >= self._slice_end or self._closing:
                self._let_go()

    def stop(self) -> None:
        """A transaction is over, or will not come although it was granted its turn: let go of the lock."""
        with self._mutex:
            self._inside = False
            self._let_go()

    def reset(self) -> None:
        """Withdraw from the queue and let go of the lock, whatever an exception has left undone."""
        try:
            with self._mutex:
                self._wanted = self._inside = False
                self._granted.acquire(blocking=False)
                self._let_go()
        finally:
            while self._mutex._is_owned():  # type: ignore[attr-defined]  # noqa: SLF001 - see `turn`
                self._mutex.release()

    def dismiss(self) -> bool:
        """End the thread; False when it cannot end because it still waits for the lock."""
        with self._mutex:
            self._closing = True
            stuck = self.queueing
            if self._holding:
                self._let_go()
        _ring(self._asked)
        if not stuck and self._thread is not None and self._thread.is_alive():
            self._thread.join()
        return not stuck

    def _started(self) -> bool:
        """Have the thread, if the system gives one."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._serve, name="agentmesh-gate", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:
                return False
        return True

    def _give_up(self) -> bool:
        """Withdraw, unless the lock came in the meantime and the caller goes on with it."""
        with self._mutex:
            self._wanted = False
            return self._granted.acquire(blocking=False)

    def _let_go(self) -> None:
        self._holding = False
        _unlock(self._fd, self._path)

    def _serve(self) -> None:
        while True:
            self._asked.acquire()
            with self._mutex:
                if self._closing and not self.queueing:
                    return
                self.queueing = True
            with contextlib.suppress(OSError):  # the system gives no lock: nobody is kept waiting for one
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            with self._mutex:
                self.queueing = False
                self._holding = self._inside = self._wanted
                if self._wanted:
                    self._wanted = False
                    self._slice_end = monotonic_sec() + SLICE_SEC
                    _ring(self._granted)
                else:
                    self._let_go()
                if self._closing and not self._holding:
                    _close(self._fd)
                    return
            self._sit()

    def _sit(self) -> None:
        """Keep the lock while transactions come, and let go of it when none does."""
        while self._holding:
            time.sleep(IDLE_SEC)
            with self._mutex:
                if self._holding and not self._inside and monotonic_sec() - self._left >= IDLE_SEC:
                    self._let_go()


def _unlock(fd: int, path: Path, unlock: Callable[[int, int], None] | None = None) -> None:
    """Release a lock, and where the system fails to, open the gate again under the same number, which releases it.

    A write has been committed by then: it must not fail. What nothing releases ends with the process.
    """
    try:
        (unlock or fcntl.flock)(fd, fcntl.LOCK_UN)
    except OSError:
        with contextlib.suppress(OSError):
            other = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            os.dup2(other, fd, inheritable=False)
            os.close(other)


def _close(fd: int) -> None:
    """Close a descriptor. Where the system says that it failed, Linux has closed it, and nothing was written to it."""
    with contextlib.suppress(OSError):
        os.close(fd)


def _signal() -> threading.Lock:
    """A bare lock, taken: releasing it is the signal. A semaphore is written in Python and costs more than a commit."""
    signal = threading.Lock()
    signal.acquire()
    return signal


def _ring(signal: threading.Lock) -> None:
    """Give a signal; one that was given and not yet heard stays one."""
    with contextlib.suppress(RuntimeError):
        signal.release()
