"""How a message is late: by the board's clock, on which the test sees it wait like a call.

The sleep is a thread's and not the event loop's, because a test that turns the clock stops its loop meanwhile.
"""

from __future__ import annotations

import contextlib
import socket
import threading

from agentmesh.cell import PARKED, CellClock
from agentmesh.clock import Clock
from agentmesh.errors import ClockOver
from agentmesh.store.base import Alarm
from agentmesh.store.parking import ClockedAlarm
from agentmesh.store.waiting import Alarm as RealAlarm
from pytest_agentmesh.sessions.pipe import readable


async def pause(clock: Clock, us: int) -> None:
    """Sleep until so much of the board's time has passed."""
    due_us = clock.now_us() + us
    alarm = ClockedAlarm(clock, PARKED) if isinstance(clock, CellClock) else RealAlarm()
    given_up = threading.Event()
    woken, bell = socket.socketpair()
    thread = threading.Thread(target=_sleep, args=(clock, due_us, alarm, given_up, bell), name="delay", daemon=True)
    with woken, bell:
        thread.start()
        try:
            await readable(woken)
        finally:
            given_up.set()
            alarm.ring()
            thread.join()


def _sleep(clock: Clock, due_us: int, alarm: Alarm, given_up: threading.Event, bell: socket.socket) -> None:
    try:
        with contextlib.closing(alarm), contextlib.suppress(ClockOver):
            while not given_up.is_set() and (left_us := due_us - clock.now_us()) > 0:
                alarm.wait(left_us)
    finally:
        bell.send(b"!")
