"""Waiting on a test clock: what ends a wait is the clock being turned, and whoever turns it knows who still waits.

A parked waiter sleeps on one socket more, in a folder that belongs to the cell; turning the clock pokes them all.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

from agentmesh.cell import PARKED, TIMER, CellClock
from agentmesh.errors import ClockOver
from agentmesh.store.waiting import DATAGRAM, POLL_US, TICK_US, Berth, SleepingWaiter, berth_folder

LONG_US = 1 << 60
"""What a place says whose owner waits for no instant."""


class ClockedWaiter(SleepingWaiter):
    """A waiter whose time is over when the cell says so.

    A round begins with a look at the cell's generation. If the clock is turned before the waiter has parked, what its
    caller took for the time is old, and `wait` returns at once for another round.
    """

    def __init__(
        self,
        berth: Berth | None,
        version: Callable[[], int],
        left: Callable[[SleepingWaiter], None],
        *,
        clock: CellClock,
        kind: int = PARKED,
    ) -> None:
        super().__init__(berth, version, left)
        self._clock = clock
        self._kind = kind
        with contextlib.ExitStack() as undo:
            undo.callback(super().close)
            self._bells = clock_berth(clock)
            self._bell_here = self._bells.bind() if self._bells else None
            undo.callback(self._hang_up)
            self._seen_turn = clock.generation
            self._place = clock.take_part()
            undo.pop_all()

    def wait(self, timeout_us: int) -> bool:
        """Sleep until poked, or until the clock was turned; whether it was a poke.

        Raises:
            ClockOver: it is a call that waits, and nobody will turn the clock.
        """
        clock, turn = self._clock, self._seen_turn
        if clock.generation == turn and timeout_us > 0:
            self._place.park(clock.now_us() + timeout_us, turn, self._kind)
            bells = [self._bell_here[0]] if self._bell_here else []
            poked = self._sleep(TICK_US if self._bound and bells else POLL_US, *bells)
            self._place.run()
            for bell in bells:
                _silence(bell)
        else:
            poked = False
        self._seen_turn = clock.generation
        if clock.over and self._kind == PARKED:
            raise ClockOver("This call waits on the clock of a test that is over: nobody turns it any more.")
        return poked

    def close(self) -> None:
        """Leave the queue, and the clock."""
        try:
            super().close()
        finally:
            self._place.leave()
            self._hang_up()

    def _hang_up(self) -> None:
        if self._bells and self._bell_here:
            self._bells.leave(*self._bell_here)
        if self._bells:
            self._bells.close()


class ClockedAlarm:
    """A timer's sleep on a test clock; `kind` says whether anybody waits for it."""

    def __init__(self, clock: CellClock, kind: int = TIMER) -> None:
        self._waiter = ClockedWaiter(None, lambda: 0, lambda _: None, clock=clock, kind=kind)

    def wait(self, timeout_us: int | None) -> None:
        """Sleep until the clock was turned or the alarm was rung."""
        self._waiter.wait(LONG_US if timeout_us is None else timeout_us)

    def ring(self) -> None:
        """End the sleep, from another thread."""
        self._waiter.ring()

    def close(self) -> None:
        """Give the place at the clock back."""
        self._waiter.close()


def clock_berth(clock: CellClock) -> Berth | None:
    """Where those sleep who wait on a cell, and whoever turns it pokes them; None where there are no sockets."""
    folder = berth_folder("clock", clock.inode)
    berth = Berth(folder) if folder else None
    return berth if berth and berth.usable() else None


def _silence(bell: socket.socket) -> None:
    """Take all that was rung: whoever wakes once for each holds those up who wait for the board to be at rest."""
    with contextlib.suppress(BlockingIOError):
        while True:
            bell.recv(DATAGRAM)
