"""Context managers of the SDK, left in such a way that a test fails with what it raised.

The SDK's sessions hold a task group. Two things follow: whatever is raised inside comes out in an ExceptionGroup, and a
session can only be left by the task that entered it. pytest-asyncio runs the end of an async fixture in a task of its
own, so there an owner task enters and leaves.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WrongTask(RuntimeError):
    """A session is left by another task than the one that entered it."""

    def __init__(self) -> None:
        super().__init__(
            "This session was opened in another task: pytest-asyncio ends a fixture in a task of its own. "
            "In a fixture write `async with mesh_session.owned(...)`; in a test, `async with mesh_session(...)`."
        )


@asynccontextmanager
async def plainly(manager: AbstractAsyncContextManager[T]) -> AsyncIterator[T]:
    """Enter it; what is raised inside goes past it as it is, unless that is a cancellation, which is its business.

    Raises:
        WrongTask: it is to be left in another task; it is left alone then.
    """
    import anyio

    home = anyio.get_current_task().id

    def check() -> None:
        if anyio.get_current_task().id != home:
            raise WrongTask

    entered = await manager.__aenter__()
    try:
        yield entered
    except GeneratorExit:
        raise  # nobody will ever leave it; what it holds is closed by those beneath it
    except anyio.get_cancelled_exc_class():
        check()
        if not await manager.__aexit__(*sys.exc_info()):
            raise
    except BaseException:
        check()
        await manager.__aexit__(None, None, None)
        raise
    else:
        check()
        await manager.__aexit__(None, None, None)


class Owned(AbstractAsyncContextManager[T], Generic[T]):
    """Another manager, entered and left by a task of its own wherever tasks are asyncio's.

    Under trio, no plugin ends a fixture in another task, and none is needed.
    """

    def __init__(self, manager: AbstractAsyncContextManager[T]) -> None:
        self._manager = manager
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> T:
        if not _on_asyncio():
            return await self._manager.__aenter__()
        self._leave = asyncio.Event()
        self._failed = False
        entered: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._own(entered), name="mesh_session")
        try:
            awaited: set[asyncio.Future[Any]] = {self._task, entered}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        if not entered.done():
            await self._task  # it could not enter, and says why
        return entered.result()

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self._task is None:
            await self._manager.__aexit__(kind, *rest)  # type: ignore[arg-type]  # passed on as it came
            return
        self._failed = kind is not None
        self._leave.set()
        await self._task

    async def _own(self, entered: asyncio.Future[T]) -> None:
        with contextlib.suppress(_Failed):
            async with self._manager as inner:
                entered.set_result(inner)
                await self._leave.wait()
                if self._failed:
                    raise _Failed


class _Failed(Exception):
    """The body failed; the manager sees that it did, and not why."""


def _on_asyncio() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
