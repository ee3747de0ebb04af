"""Who is who: the sessions of the MCP protocol, and what the server remembers of each caller.

Until 2025-11-25 a client opens a session and shows its id from then on; the newer protocol has none.
So the leases that a caller claimed are remembered under the best name there is for it: the agent of
its token, in both eras and over reconnects; without tokens the session; and without either, everybody
on this machine together (a lease is then remembered under the agent_id that claimed it).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Final

from pydantic_core import from_json

from agentmesh.clock import Clock
from agentmesh.mcp_server.http.exchange import Exchange, Refusal
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from agentmesh.mcp_server.protocol import ENVELOPE, is_id
from agentmesh.mcp_server.sdk import Subscriber
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.tokens import Token

MOST_SESSIONS: Final = 100
MOST_STREAMS: Final = 4
"""Streams without a request that one token may have open."""

IDLE_US: Final = 30 * 60 * 1_000_000
ID: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
RETRY: Final = {"retry-after": "5"}


@dataclass(slots=True, eq=False)
class Opened:
    """A session of the protocol: with which token it was opened, what of it is under way, and since when nothing is."""

    id: str
    owner: Token | None
    idle_us: int
    exchanges: set[Exchange] = field(default_factory=set)
    requests: set[str] = field(default_factory=set)
    session: Session | None = None
    subscriber: Subscriber = field(default_factory=Subscriber)

    def close(self) -> None:
        """Renew none of its leases any more, and tell it of nothing."""
        self.subscriber.close()
        if self.session is not None:
            self.session.close()


class Sessions:
    """All sessions of this server. Lives in the event loop.

    Args:
        new: makes what is remembered of an agent under a profile, or of a caller without a token.
        end: ends a session of the protocol.
        clock: what measures for how long they are idle.
    """

    def __init__(
        self, new: Callable[[str | None, Profile], Session], end: Callable[[str], Awaitable[None]], clock: Clock
    ) -> None:
        self._new = new
        self._end = end
        self._clock = clock
        self._opened: dict[str, Opened] = {}
        self._opening = 0
        self._agents: dict[tuple[str, Profile], Session] = {}
        self._anybody: Session | None = None

    def __len__(self) -> int:
        return len(self._opened)

    def of(self, exchange: Exchange) -> Session:
        """What is remembered of the caller."""
        if (token := exchange.token) is not None:
            key = token.agent, token.profile
            if key not in self._agents:
                self._agents[key] = self._new(*key)
            return self._agents[key]
        if (opened := self._opened.get(exchange.header(ID) or "")) is not None:
            opened.session = opened.session or self._new(None, DEFAULT)
            return opened.session
        self._anybody = self._anybody or self._new(None, DEFAULT)
        return self._anybody

    def subscriber(self, exchange: Exchange) -> Subscriber:
        """What the caller's session of the protocol has subscribed to."""
        opened = self._opened.get(exchange.header(ID) or "")
        return Subscriber() if opened is None else opened.subscriber

    @asynccontextmanager
    async def within(self, exchange: Exchange, body: bytes) -> AsyncIterator[None]:
        """Serve a request in the session it belongs to, or in the one that it opens.

        Raises:
            Refusal: the session is not there or another token's, or there is no room.
        """
        session_id = exchange.header(ID)
        if exchange.header(VERSION) in ENVELOPE:
            yield
            return
        method, request_id = read(body)
        if session_id is not None:
            with self._under_way(self._known(session_id, exchange), exchange, request_id):
                yield
            return
        exchange.on_start = partial(self._started, exchange)
        if method == "initialize":
            async with self._room():
                yield
        else:
            yield

    async def sweep(self, good: Callable[[Token | None], bool], tokens: Iterable[Token]) -> None:
        """End what is idle for too long, and what belongs to a token that was revoked."""
        oldest_us = self._clock.now_us() - IDLE_US
        for opened in list(self._opened.values()):
            if not good(opened.owner) or (not opened.exchanges and opened.idle_us <= oldest_us):
                await self._drop(opened)
        kept = {(token.agent, token.profile) for token in tokens}
        for key in [key for key in self._agents if key not in kept]:
            self._agents.pop(key).close()

    def close(self) -> None:
        """Renew no lease any more, and tell of nothing."""
        for kept in (*self._opened.values(), *self._agents.values(), self._anybody):
            if kept is not None:
                kept.close()

    def _known(self, session_id: str, exchange: Exchange) -> Opened:
        opened = self._opened.get(session_id)
        if opened is None or opened.owner != exchange.token:
            raise Refusal(404, "no_session", "Session not found.")
        return opened

    @contextmanager
    def _under_way(self, opened: Opened, exchange: Exchange, request: str | None) -> Iterator[None]:
        if request in opened.requests:
            raise Refusal(400, "repeated_id", "A request with this id is still under way.")
        if exchange.is_stream:
            self._check_streams(exchange.token)
        opened.exchanges.add(exchange)
        opened.requests |= {request} if request is not None else set()
        try:
            yield
        finally:
            opened.exchanges.discard(exchange)
            opened.requests.discard(request or "")
            opened.idle_us = self._clock.now_us()
        if exchange.status == HTTPStatus.NOT_FOUND or (
            exchange.scope["method"] == "DELETE" and exchange.status == HTTPStatus.OK
        ):
            self._forget(opened)

    def _check_streams(self, token: Token | None) -> None:
        open_now = sum(e.is_stream and e.token == token for o in self._opened.values() for e in o.exchanges)
        if token is not None and open_now >= MOST_STREAMS:
            raise Refusal(429, "too_many_streams", "This token has as many streams open as it may.", RETRY)

    @asynccontextmanager
    async def _room(self) -> AsyncIterator[None]:
        """Make room for one session: of the owner with the most, the one that is idle for longest has to go."""
        self._opening += 1
        try:
            while len(self._opened) + self._opening > MOST_SESSIONS:
                many = Counter(opened.owner for opened in self._opened.values())
                idle = [opened for opened in self._opened.values() if not opened.exchanges]
                if not idle:
                    raise Refusal(503, "too_many_sessions", "As many sessions are open as may be.", RETRY)
                await self._drop(max(idle, key=lambda opened: (many[opened.owner], -opened.idle_us)))
            yield
        finally:
            self._opening -= 1

    def _started(self, exchange: Exchange, status: int, headers: Mapping[str, str]) -> None:
        session_id = headers.get(ID)
        if status == HTTPStatus.OK and session_id is not None:
            self._opened[session_id] = Opened(session_id, exchange.token, self._clock.now_us())

    async def _drop(self, opened: Opened) -> None:
        self._forget(opened)
        await self._end(opened.id)

    def _forget(self, opened: Opened) -> None:
        self._opened.pop(opened.id, None)
        opened.close()


def read(body: bytes) -> tuple[str | None, str | None]:
    """The method of the request in a body, and its id as the SDK tells answers apart; None for what is not to be found.

    It is read by the SDK's own parser: where two disagree, one of them can be led past.
    """
    try:
        message = from_json(body)
    except ValueError:
        return None, None
    if not isinstance(message, dict) or not isinstance(method := message.get("method"), str):
        return None, None
    return method, str(message["id"]) if is_id(message.get("id")) else None
