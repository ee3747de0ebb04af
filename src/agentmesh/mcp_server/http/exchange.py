"""One HTTP request and its response, as the rest of the front sees them.

It knows who calls, whether the answer still can arrive, and it can be ended from outside: when the
server stops, and when its token is revoked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from agentmesh.mcp_server.flights import Flight
from agentmesh.mcp_server.protocol import INVALID_REQUEST
from agentmesh.mcp_server.reply import compact
from agentmesh.mcp_server.tokens import Token

KEY: Final = "agentmesh"
"""Under which an exchange stands in its ASGI scope."""

GONE: Final = {"type": "http.disconnect"}
ANSWERS: Final = (b'"result":', b'"error":')
"""One of them stands in each JSON-RPC answer, and in nothing else that is sent: words of progress, pings."""


class Refusal(Exception):
    """A request that gets no further."""

    def __init__(self, status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})

    @property
    def body(self) -> bytes:
        """A JSON-RPC error, the one form that MCP clients show to people."""
        error = {"code": INVALID_REQUEST, "message": str(self), "data": {"code": self.code}}
        return compact({"jsonrpc": "2.0", "id": None, "error": error}).encode()


class Exchange:
    """One request and its response. Lives in the event loop. `on_start` hears how the response begins."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope: Scope = {**scope, KEY: self}
        self.token: Token | None = None
        self.status = 0
        self.answered = False
        self.on_start: Callable[[int, Mapping[str, str]], object] = lambda *_: None
        self._receive = receive
        self._send = send
        self._flights: list[Flight] = []
        self._given: list[Message] = []
        self._ended = asyncio.Event()
        self._complete = False
        self.headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self.headers.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    @property
    def is_stream(self) -> bool:
        """Whether it is open for what the server has to say, without a request."""
        return bool(self.scope["method"] == "GET")

    def header(self, name: str) -> str | None:
        """The value of a header that may stand in a request once at most.

        Raises:
            Refusal: it stands there twice, so two readers could disagree.
        """
        values = self.headers.get(name, [])
        if len(values) > 1:
            raise Refusal(400, "repeated_header", f"The header {name} stands in this request more than once.")
        return values[0] if values else None

    def departs(self, flight: Flight) -> None:
        """A call of this exchange is under way: it shall know when its answer cannot arrive any more."""
        self._flights.append(flight)

    def end(self) -> None:
        """Let it be as if the client had gone."""
        self._ended.set()

    async def body(self, most: int, patience_sec: float) -> bytes:
        """Read the body, and give it back to whoever reads next.

        Raises:
            Refusal: it is too long, or does not come.
        """
        body = bytearray()
        try:
            async with asyncio.timeout(patience_sec):
                while (message := await self._receive())["type"] == "http.request":
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise Refusal(413, "too_large", f"A request has at most {most} bytes.", {"connection": "close"})
                    if not message.get("more_body", False):
                        break
        except TimeoutError:
            raise Refusal(408, "too_slow", "The request did not come in time.", {"connection": "close"}) from None
        self._given.append({"type": "http.request", "body": bytes(body), "more_body": False})
        return bytes(body)

    async def receive(self) -> Message:
        """What the application hears: its request, then that the client has gone."""
        if self._given:
            return self._given.pop(0)
        message = await self._next()
        if message["type"] == GONE["type"]:
            self.lose()
        return message

    async def send(self, message: Message) -> None:
        """What the application says."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.on_start(self.status, {n.decode("latin-1"): v.decode("latin-1") for n, v in message["headers"]})
        else:
            self._complete = not message.get("more_body", False)
            body = message.get("body", b"")
            self.answered = self.answered or any(mark in body for mark in ANSWERS)
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with an error."""
        headers = {"content-type": "application/json", "content-length": str(len(refusal.body))} | refusal.headers
        await self.answer(refusal.status, headers, refusal.body)

    async def answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer with a whole body."""
        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
        await self.send({"type": "http.response.body", "body": body})

    async def finish(self) -> None:
        """The application is done. Where it was ended before it was, the client gets a proper end, too."""
        self.lose()
        if self.status and not self._complete:
            await self._send({"type": "http.response.body", "body": b""})
        elif not self.status and self._ended.is_set():
            await self.refuse(Refusal(503, "ended", "The server ended this request.", {"connection": "close"}))

    def lose(self) -> None:
        """Nothing arrives any more: calls without an answer are lost."""
        if not self.answered:
            for flight in self._flights:
                flight.lose()

    async def _next(self) -> Message:
        if self._ended.is_set():
            return GONE
        waits: set[asyncio.Future[Any]] = {
            asyncio.ensure_future(self._receive()),
            ended := asyncio.ensure_future(self._ended.wait()),
        }
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        found: Message = GONE if ended in done else done.pop().result()
        return found
