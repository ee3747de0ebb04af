"""Waiting for the board: sleep until something is ready, or time makes it so, or the caller gives up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

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
        wait_us: how long to wait at most.
        next_due: the next instant at which time alone may change the answer.
        worth_asking: a plain read that says whether asking could help; a waiter that is not poked looks here first.
        for_tasks: whether it is ready tasks that are waited for, so that whoever makes some ready wakes this waiter.
        cancel: asked at each wake-up; true ends the wait.
    """
    if wait_us <= 0:
        return ask()
    waiter = store.waiter(for_tasks=for_tasks)
    try:
        deadline = store.clock.now_us() + wait_us  # a test clock that is turned now waits for this waiter
        answer = ask()
        due, stale = next_due(), False
        while not answer and not (cancel and cancel()):
            now = store.clock.now_us()
            if now >= deadline:
                return ask() if stale else answer
            poked = waiter.wait(min(deadline, deadline if due is None else max(due, now)) - now)
            if cancel and cancel():
                waiter.pass_on()
                break
            if not (poked or waiter.changed() or (due is not None and store.clock.now_us() >= due)):
                continue
            stale = not worth_asking()
            if not stale:
                answer = ask()
            if poked and (not answer or worth_asking()):
                waiter.pass_on()  # a loser hands it on; so does a winner that leaves something behind
            due = next_due()
        return answer
    finally:
        waiter.close()
