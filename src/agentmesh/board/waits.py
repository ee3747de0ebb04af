"""Waiting for the board: sleep until something is ready, or time makes it so, or the caller gives up.

A wait is as long in real time as it was asked to be, whatever the wall clock does meanwhile: its length is measured by
`Store.monotonic`. The board's clock only says what is due. If it is set forward during a sleep, the waiter sees what
has become due at the end of that sleep, after two seconds at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agentmesh.errors import StoreError
from agentmesh.store.base import Store

T = TypeVar("T")
Cancel = Callable[[], bool]


def until(
    store: Store,
    ask: Callable[[], T],
    wait_us: int,
    *,
    next_due: Callable[[], int | None],
    worth_asking: Callable[[], bool],
    for_tasks: bool,
    cancel: Cancel | None = None,
) -> T:
    """Ask until the answer is truthy or the time is over; the last answer.

    Args:
        store: the board's store.
        ask: the question; it may write.
        wait_us: how long to wait at most; in real time, on a test board by its clock.
        next_due: the next instant at which time alone may change the answer.
        worth_asking: a plain read that says whether asking could help; a waiter that is not poked looks here first.
        for_tasks: whether it is ready tasks that are waited for, so that whoever makes some ready wakes this waiter.
        cancel: asked at each wake-up; true ends the wait.
    """
    if wait_us <= 0:
        return ask()
    waiter = store.waiter(for_tasks=for_tasks)
    try:
        deadline = store.monotonic.now_us() + wait_us  # a test clock that is turned now waits for this waiter
        answer = ask()
        if answer:
            return answer
        due, stale = next_due(), False
        while not answer and not (cancel and cancel()):
            left_us = deadline - store.monotonic.now_us()
            if left_us <= 0:
                return ask() if stale else answer
            poked = waiter.wait(left_us if due is None else min(left_us, max(due - store.clock.now_us(), 0)))
            if cancel and cancel():
                waiter.pass_on()
                break
            if not (poked or waiter.changed() or (due is not None and store.clock.now_us() >= due)):
                continue
            stale = not worth_asking()
            if not stale:
                answer = ask()
            if poked and (not answer or _still(worth_asking)):
                waiter.pass_on()  # a loser hands it on; so does a winner that leaves something behind
            if answer:
                return answer
            due = next_due()
        return answer
    finally:
        waiter.close()


def _still(worth_asking: Callable[[], bool]) -> bool:
    """Whether others could get something, too; true if it cannot be read. A claim that was made is not lost by it."""
    try:
        return worth_asking()
    except StoreError:
        return True
