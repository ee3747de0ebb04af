"""The routes of the HTTP front: /mcp, /healthz and /metrics, and what stands before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message, Receive, Scope, Send

from agentmesh.board.facade import Board
from agentmesh.clock import monotonic_sec
from agentmesh.errors import AgentMeshError
from agentmesh.mcp_server import about
from agentmesh.mcp_server.http import metrics
from agentmesh.mcp_server.http.exchange import KEY, Exchange, Refusal
from agentmesh.mcp_server.http.guards import Doorkeeper, Hosts, check_head, check_json
from agentmesh.mcp_server.http.sessions import ID, MOST_SESSIONS, Sessions
from agentmesh.mcp_server.lanes import Lanes
from agentmesh.mcp_server.log import log_exception
from agentmesh.mcp_server.offer import Offer, offer
from agentmesh.mcp_server.profiles import PROFILES, Profile
from agentmesh.mcp_server.reply import compact
from agentmesh.mcp_server.sdk import Caller, Context, Desk
from agentmesh.mcp_server.session import KEEPALIVE_SEC, Session
from agentmesh.mcp_server.tokens import Keyring

MOST_BODY: Final = 1024 * 1024
BODY_SEC: Final = 10.0
HOUSEKEEPING_SEC: Final = 1.0
NO_STORE: Final = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Serving:
    """What is served: a board, to whom, and what each profile is offered."""

    board: Board
    keyring: Keyring
    offers: Mapping[Profile, Offer] = field(default_factory=lambda: {profile: offer(profile) for profile in PROFILES})
    keepalive_sec: float = KEEPALIVE_SEC


class App:
    """The ASGI application. It is used once."""

    def __init__(self, serving: Serving, hosts: Hosts) -> None:
        self._serving = serving
        self._hosts = hosts
        self._open: set[Exchange] = set()
        self.lanes = Lanes()
        self._doorkeeper = Doorkeeper(serving.keyring)
        self._metrics = metrics.Metrics(serving.board)
        self._manager = StreamableHTTPSessionManager(
            Desk(self._caller, self.lanes, self._metrics.called).server(),
            session_idle_timeout=None,  # `sessions` ends them, and sees that they are not too many
            max_sessions=2 * MOST_SESSIONS,  # to the SDK each request without one is a session until it is refused
            max_request_body_size=MOST_BODY,
        )
        self._sessions = Sessions(self._new_session, self._end_session, serving.board.store.monotonic)
        self._metrics.watch("agentmesh_http_sessions", "Open sessions.", lambda: len(self._sessions))
        self._metrics.watch("agentmesh_http_exchanges", "Requests under way.", lambda: len(self._open))
        self._metrics.watch("agentmesh_waiting_calls", "Calls that wait.", lambda: self.lanes.waiting)
        self._routes: dict[str, tuple[tuple[str, ...], Callable[[Exchange], Awaitable[None]]]] = {
            "/mcp": (("GET", "POST", "DELETE"), self._mcp),
            "/healthz": (("GET",), self._healthz),
            "/metrics": (("GET",), self._show_metrics),
        }

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Within this, requests can be served."""
        async with self._manager.run():
            keeping = asyncio.create_task(self._keep_house())
            try:
                yield
            finally:
                keeping.cancel()
                self._sessions.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send)
        self._open.add(exchange)
        try:
            await self._serve(exchange)
        except Refusal as refusal:
            self._metrics.refused(refusal.code)
            if not exchange.status:
                await exchange.refuse(refusal)
        finally:
            self._open.discard(exchange)
            await exchange.finish()

    def stop(self) -> None:
        """End the waits and the streams; calls under way are still answered."""
        self.lanes.closing = True
        self._serving.board.wake_waits()
        for exchange in self._open:
            if exchange.is_stream:
                exchange.end()

    def abandon(self) -> None:
        """End everything."""
        for exchange in self._open:
            exchange.end()

    async def _serve(self, exchange: Exchange) -> None:
        check_head(exchange)
        self._hosts.check(exchange)
        route = self._routes.get(exchange.scope["path"])
        if route is None:
            raise Refusal(404, "no_such_path", "There is /mcp, /healthz and /metrics.")
        methods, serve = route
        if exchange.scope["method"] not in methods:
            raise Refusal(405, "no_such_method", "Not with this method.", {"allow": ", ".join(methods)})
        if serve != self._healthz:
            exchange.token = self._doorkeeper.check(exchange)
        await serve(exchange)

    async def _mcp(self, exchange: Exchange) -> None:
        if exchange.token is not None:
            self._doorkeeper.take_turn(exchange.token, monotonic_sec())
        if exchange.scope["method"] == "POST":
            check_json(exchange)
        body = await exchange.body(MOST_BODY, BODY_SEC)
        async with self._sessions.within(exchange, body):
            await self._manager.handle_request(exchange.scope, exchange.receive, exchange.send)

    async def _healthz(self, exchange: Exchange) -> None:
        """Whether the board can be read; nothing of what is on it."""
        try:
            await self.lanes.ask(self._serving.board.status)
        except AgentMeshError as error:
            status, found = HTTPStatus.SERVICE_UNAVAILABLE, {"ok": False, "code": error.code}
        else:
            status, found = HTTPStatus.OK, {"ok": True, "version": about.VERSION}
        await exchange.answer(status, NO_STORE | {"content-type": "application/json"}, compact(found).encode())

    async def _show_metrics(self, exchange: Exchange) -> None:
        try:
            text = await self.lanes.ask(self._metrics.text)
        except AgentMeshError as error:
            raise Refusal(503, error.code, error.message) from None
        await exchange.answer(200, NO_STORE | {"content-type": metrics.CONTENT_TYPE}, text)

    def _caller(self, context: Context) -> Caller:
        exchange: Exchange = context.request.scope[KEY]  # type: ignore[union-attr]  # over HTTP there is a request
        session = self._sessions.of(exchange)
        subscriber = self._sessions.subscriber(exchange)
        offered = self._serving.offers[session.profile]
        return Caller(session, offered, subscriber, exchange.departs, client=exchange.header(ID))

    def _new_session(self, agent: str | None, profile: Profile) -> Session:
        keepalive_sec = self._serving.keepalive_sec
        return Session(self._serving.board, agent=agent, profile=profile, keepalive_sec=keepalive_sec)

    async def _end_session(self, session_id: str) -> None:
        """End a session of the SDK in the way a client does it: it offers no other."""
        headers = [(ID.encode(), session_id.encode())]
        scope: Scope = {"type": "http", "method": "DELETE", "path": "/mcp", "query_string": b"", "headers": headers}

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: Message) -> None:
            pass

        await self._manager.handle_request(scope, receive, send)

    async def _keep_house(self) -> None:
        """Let go of what is idle, and of what a token that was revoked still has open."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_SEC)
            try:
                await self._sessions.sweep(self._doorkeeper.good, self._serving.keyring.tokens())
                for exchange in self._open:
                    if not self._doorkeeper.good(exchange.token):
                        exchange.end()
            except Exception:  # noqa: BLE001 - the next time must come, or no token could be revoked any more
                log_exception("housekeeping")
