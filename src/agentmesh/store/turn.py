"""The lock under which the threads of a process write one after another, and its owner.

The lock itself knows its owner. A flag that is set after the lock was taken would be wrong whenever an exception (a
signal handler that raises, Ctrl-C, a time limit) strikes between the two, and the lock would stay taken for ever.
"""

from __future__ import annotations

import threading

from agentmesh.clock import Patience


class Turn:
    """A lock that can be freed by its owner in any state: the state is read from the lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    @property
    def mine(self) -> bool:
        """Whether the calling thread has the lock."""
        return self._lock._is_owned()  # type: ignore[attr-defined,no-any-return]  # noqa: SLF001 - as threading.Condition does

    def take(self, patience: Patience) -> bool:
        """Take the lock within the time that is left; whether it was taken."""
        return self._lock.acquire(blocking=False) or self._lock.acquire(timeout=patience.left_sec)

    def free(self) -> None:
        """Release the lock if the calling thread has it."""
        while self.mine:
            self._lock.release()
