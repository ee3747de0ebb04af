"""The verbs that can wait, for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from agentmesh import limits
from agentmesh.board.claim import Claim
from agentmesh.board.verbs.holding import Holding
from agentmesh.board.verbs.reading import Reading
from agentmesh.board.waits import Cancel
from agentmesh.errors import LeaseLost
from agentmesh.loading import loading
from agentmesh.model import Event, NoClaim, PlanStatus, Task

T = TypeVar("T")


class Awaiting(Holding, Reading):
    """Coroutines that wait without blocking their event loop, each in a thread of its own.

    Cancelling one (`task.cancel()`, `asyncio.timeout`) ends its wait at once. It is over, and its effect undone, when
    `CancelledError` is raised.
    """

    async def claim_task_async(
        self,
        agent_id: str,
        *,
        plan: str | None = None,
        task_id: str | None = None,
        capabilities: Iterable[str] = (),
        tags: Iterable[str] = (),
        wait_sec: float = 0,
        resume: bool = False,
        take_over: bool = False,
        request_id: str | None = None,
    ) -> Claim | NoClaim:
        """Get the most urgent ready task, or the one named: `claim_task` for asyncio, with the same arguments.

        A task that was claimed although the call was cancelled is given back: the hand-out is not charged, and the same
        agent may be offered it again. With a `request_id` it is kept, for the repeated call gives it.

        Raises:
            AlreadyClaimed: see `claim_task`.
            NotFound: see `claim_task`.
            ResourcesExhausted: the system has no thread left for the call.
        """

        def claim(cancel: Cancel) -> Claim | NoClaim:
            return self.claim_task(
                agent_id,
                plan=plan,
                task_id=task_id,
                capabilities=capabilities,
                tags=tags,
                wait_sec=wait_sec,
                resume=resume,
                take_over=take_over,
                request_id=request_id,
                cancel=cancel,
            )

        def give_back(found: Claim | NoClaim) -> None:
            if isinstance(found, Claim) and not found.resumed and request_id is None:
                with suppress(LeaseLost):  # it is over already
                    self.give_back(found)

        return await self._awaited(claim, give_back)

    async def events_async(self, after: int = 0, *, limit: int = 200, wait_sec: float = 0) -> list[Event]:
        """History after a cursor, waiting for news if told to: `events` for asyncio, with the same arguments.

        Raises:
            CursorExpired: the cursor lies outside the history that is kept.
            ResourcesExhausted: the system has no thread left for the call.
        """
        return await self._awaited(
            lambda cancel: self.events(after, limit=limit, wait_sec=wait_sec, cancel=cancel), lambda _: None
        )

    async def wait_for_async(
        self, task_id: str | None = None, *, plan: str | None = None, wait_sec: float = limits.WAIT_SEC
    ) -> Task | PlanStatus:
        """Wait until a task or every task of a plan is final: `wait_for` for asyncio, with the same arguments.

        Raises:
            NotFound: there is no such task or plan (`Pruned` if the task was there).
            ResourcesExhausted: the system has no thread left for the call.
        """
        return await self._awaited(
            lambda cancel: self.wait_for(task_id, plan=plan, wait_sec=wait_sec, cancel=cancel), lambda _: None
        )

    async def _awaited(self, work: Callable[[Cancel], T], undo: Callable[[T], None]) -> T:
        with loading():
            from agentmesh.board.awaiting import ThreadCall  # noqa: PLC0415 - asyncio is slow to import where nobody uses it

        return await ThreadCall(work, self.wake_waits, undo).result()
