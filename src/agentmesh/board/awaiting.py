"""A blocking call in asyncio: it runs in a thread of its own, and a result that nobody takes is undone.

A wait may sleep for long. In asyncio's default executor, which has few threads, some waits would keep the others, and
all else that is run there, from beginning.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from agentmesh.board.waits import Cancel
from agentmesh.errors import AgentMeshError, ResourcesExhausted

T = TypeVar("T")


class ThreadCall(Generic[T]):
    """One call. Its result has one owner: the coroutine that awaits it or, once that has given up, `undo`."""

    def __init__(self, work: Callable[[Cancel], T], wake: Callable[[], None], undo: Callable[[T], None]) -> None:
        """Nothing runs yet.

        Args:
            work: the call; it is handed what tells it, at each of its wake-ups, to end.
            wake: wakes it up, from another thread.
            undo: takes back the effect of a result that nobody takes; it runs in a thread.
        """
        self._work = work
        self._wake = wake
        self._undo = undo
        self._lock = threading.Lock()
        self._given_up = False
        self._results: list[T] = []
        self._error: BaseException | None = None
        self._trouble: AgentMeshError | None = None

    async def result(self) -> T:
        """Run the call and wait for it. A cancellation ends it, undoes what it did, and is then raised.

        Raises:
            ResourcesExhausted: the system has no thread left.
        """
        over = _in_thread(self._run, self._unheard)
        try:
            await asyncio.shield(over)
        except asyncio.CancelledError as cancelled:
            await self._end(over)
            if self._trouble is not None:
                cancelled.add_note(f"What the call did could not be undone: {self._trouble.message}")
            raise
        except GeneratorExit:  # its loop was stopped for good: there is nothing left to wait in, and nobody to hold up
            self._drop(self._give_up())
            raise
        error, self._error = self._error, None
        if error is not None:
            raise error
        return self._results.pop()

    def _run(self) -> None:
        try:
            result = self._work(lambda: self._given_up)
        except BaseException as error:  # noqa: BLE001 - it is raised where the call is awaited
            self._error = error
            return
        with self._lock:
            unwanted = [result] if self._given_up else []
            self._results = [] if unwanted else [result]
        self._drop(unwanted)

    async def _end(self, over: asyncio.Future[None]) -> None:
        """Have the call end, and wait until it has, and its effect is undone."""
        late = self._give_up()
        await _until(over)
        if not late:
            return
        try:
            undone = _in_thread(partial(self._drop, late), lambda: None)
        except ResourcesExhausted:
            self._drop(late)  # better slow than never
        else:
            await _until(undone)

    def _give_up(self) -> list[T]:
        """Nobody waits for the result any more; it is returned if it came already."""
        with self._lock:
            self._given_up = True
            late, self._results = self._results, []
        self._wake()
        return late

    def _unheard(self) -> None:
        """The loop is closed: nobody will hear that the call is over."""
        self._drop(self._give_up())

    def _drop(self, results: list[T]) -> None:
        for result in results:
            try:
                self._undo(result)
            except AgentMeshError as error:
                self._trouble = error


async def _until(over: asyncio.Future[None]) -> None:
    """Wait for a thread that is about to end; another cancellation, meanwhile, adds nothing to the first."""
    while not over.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([over])


def _in_thread(work: Callable[[], None], unheard: Callable[[], None]) -> asyncio.Future[None]:
    """Run `work` in a thread; the future is done when it has ended. If the loop is closed by then, `unheard` runs."""
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    over: asyncio.Future[None] = loop.create_future()

    def run() -> None:
        try:
            context.run(work)
        finally:
            try:
                loop.call_soon_threadsafe(over.set_result, None)
            except RuntimeError:
                unheard()

    try:
        threading.Thread(target=run, name="agentmesh-call", daemon=True).start()
    except RuntimeError as error:
        hint = "Wait until other calls have ended, or raise the limit (`ulimit -u`), then call again."
        raise ResourcesExhausted("The system has no thread left for this call.", hint=hint) from error
    return over
