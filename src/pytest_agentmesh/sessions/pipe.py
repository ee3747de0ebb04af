"""The client's end of a socket pair, as the two streams that a session of the SDK reads and writes.

No task stands between the session and the socket: the session's own task sleeps until the socket has something. So a
session can be closed from anywhere, also when its event loop has gone.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pytest_agentmesh.sessions.sdk import Sdk

CHUNK: Final = 65_536


class Pipe:
    """One connection, seen from the client. `receive` ends with `anyio.EndOfStream` when the server has gone."""

    def __init__(self, sdk: Sdk, end: socket.socket) -> None:
        import anyio

        self._sdk = sdk
        self._anyio = anyio
        self._end = end
        self._end.setblocking(False)  # noqa: FBT003 - the standard library takes it by place
        self._turn = anyio.Lock()
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._sleeping = self._over = False

    async def send(self, item: Any) -> None:
        """Send a message, whole."""
        left = memoryview(self._sdk.line(item))
        async with self._turn:
            while left:
                try:
                    left = left[self._end.send(left) :]
                except BlockingIOError:
                    await writable(self._end)
                except OSError as error:
                    raise self._anyio.BrokenResourceError from error

    async def receive(self) -> Any:
        """The next message."""
        while not self._lines:
            await self._sleep()
            self._take()
        return self._sdk.item(self._lines.popleft())

    async def aclose(self) -> None:
        """Send nothing more; the server hears that at once, and goes."""
        self.hang_up()

    def hang_up(self) -> None:
        """The same, from anywhere."""
        try:
            self._end.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the server was the first

    def close(self) -> None:
        """Let go of the socket; if somebody sleeps on it, an event loop knows it, and it is closed when they wake."""
        self.hang_up()
        self._over = True
        if not self._sleeping:
            self._end.close()

    async def _sleep(self) -> None:
        self._sleeping = True
        try:
            await readable(self._end)
        finally:
            self._sleeping = False
            if self._over:
                self._end.close()

    def _take(self) -> None:
        try:
            chunk = self._end.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            raise self._anyio.EndOfStream
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._lines.extend(lines)


async def readable(end: socket.socket) -> None:
    """Sleep until something can be read."""
    await _anyio("wait_readable", "wait_socket_readable")(end)


async def writable(end: socket.socket) -> None:
    """Sleep until something can be written."""
    await _anyio("wait_writable", "wait_socket_writable")(end)


def _anyio(newer: str, older: str) -> Callable[[socket.socket], Awaitable[None]]:
    """A function that was renamed in anyio 4.7."""
    import anyio

    found: Callable[[socket.socket], Awaitable[None]] = getattr(anyio, newer, None) or getattr(anyio, older)
    return found
