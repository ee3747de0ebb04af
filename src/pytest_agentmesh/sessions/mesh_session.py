"""`mesh_session`: sessions of the user's own agents at the test's board."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from typing import Any, Self

from agentmesh.board.facade import Board
from agentmesh.cell import AGENT, CellClock
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from pytest_agentmesh.faults import Fault, FaultMark
from pytest_agentmesh.sessions.connection import Connection, Incoming, IncomingEnd, Outgoing, OutgoingEnd
from pytest_agentmesh.sessions.over_http import begin
from pytest_agentmesh.sessions.pipe import Pipe
from pytest_agentmesh.sessions.running import WORDS, ProcessServer, Running, ThreadServer
from pytest_agentmesh.sessions.scopes import Owned, plainly
from pytest_agentmesh.sessions.sdk import Sdk, load
from pytest_agentmesh.sessions.server import Server
from pytest_agentmesh.sessions.strikes import Strikes
from pytest_agentmesh.settings import Transport

Ends = tuple[IncomingEnd, OutgoingEnd]
Reached = tuple[Incoming, Outgoing, Callable[[], str]]
"""A connection, and what a caller is told when it has gone."""


class Sessions:
    """Opens sessions at one board: `async with mesh_session(agent="mine") as session`.

    A session is a plain `mcp.ClientSession` of the SDK that the user's environment has, 1.x or 2.x, in asyncio or trio.
    It talks to a server of its own, as agents do. `server` is the one for frameworks that connect by themselves.
    """

    def __init__(self, board: Board, *, transport: Transport = "memory", marks: list[FaultMark] | None = None) -> None:
        """Nothing is started, and the SDK is not imported yet.

        Args:
            board: The test's board.
            transport: How sessions reach their server unless they say so: `memory` is our front on threads of this
                process, on the test's own board object; `stdio` a process of its own; `http` our HTTP server, in
                the process that serves all tests of this pytest process.
            marks: Where the faults that struck are written down; a list of its own by default.
        """
        self.server = Server(board, transport=transport)
        self.marks: list[FaultMark] = [] if marks is None else marks
        self._board = board
        self._strikes: list[Strikes] = []
        self._servers: list[Server] = []
        self._open: dict[Pipe, Running] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @asynccontextmanager
    async def __call__(
        self,
        agent: str | None = None,
        *,
        profile: Profile = DEFAULT,
        transport: Transport | None = None,
        faults: Iterable[Fault | str] = (),
        keepalive: float | bool = False,
        strict: bool = True,
        initialize: bool = True,
        **options: Any,
    ) -> AsyncIterator[Any]:
        """A session for as long as this lasts; to be left by the task that entered it.

        Args:
            agent: Whom it speaks for; None if each call says so.
            profile: Which tools it has.
            transport: How it reaches its server.
            faults: What goes wrong, as `pytest_agentmesh.faults` or as text: `"complete_task:lost_reply@1"`. A fault's
                `nth` counts this session's calls of that tool.
            keepalive: Whether its server renews its leases by itself, as a real one does, or for how many seconds; off,
                so that a lease ends when the test's clock says so.
            strict: Whether a fault that never struck fails the test when the session is left.
            initialize: Whether the handshake is made.
            options: What the SDK's `ClientSession` takes: `read_timeout_seconds`, `message_handler`, ...

        Raises:
            MissingSdk: there is no SDK.
            MissingExtra: this SDK can serve no HTTP.
            ServerFailed: the HTTP server cannot be started, or its process has ended.
            InvalidArgument: there is no such transport or profile, nobody can be called so, a fault cannot strike.
            FaultNeverStruck: in a strict session, when its body did not fail.
            WrongTask: it is left by another task.
        """
        to = {"profile": profile, "transport": transport, "faults": faults, "keepalive": keepalive, "strict": strict}
        async with (
            self.streams(agent, **to) as ends,  # type: ignore[arg-type]  # each is what the parameter is
            plainly(load().session(*ends, options)) as session,
        ):
            if initialize:
                await session.initialize()
            yield session

    def owned(self, agent: str | None = None, **how: Any) -> AbstractAsyncContextManager[Any]:
        """The same for async fixtures: a task of its own holds the session, so any task may end it.

        Raises:
            MissingSdk: and what else opening a session raises.
        """
        return Owned(self(agent, **how))

    @asynccontextmanager
    async def streams(
        self,
        agent: str | None = None,
        *,
        profile: Profile = DEFAULT,
        transport: Transport | None = None,
        faults: Iterable[Fault | str] = (),
        keepalive: float | bool = False,
        strict: bool = True,
    ) -> AsyncIterator[Ends]:
        """The two streams of a session, for clients that make their own: `mcp.Client(mesh_session.streams("mine"))`.

        Raises:
            MissingSdk: and what else opening a session raises.
        """
        transport = transport or self.server.transport
        if transport == "http":
            begin()  # it starts while this process imports the SDK
        sdk = load()
        server = Server(self._board, transport=transport, agent=agent, profile=profile, keepalive=keepalive)
        strikes = Strikes(faults, agent, self._board.store.clock, offer(profile).tools, self.marks, strict=strict)
        self._strikes.append(strikes)
        self._servers.append(server)
        with server, self._taking_part():
            reach = self._over_http if transport == "http" else self._over_pipe
            async with reach(sdk, server) as (incoming, outgoing, words):
                connection = Connection(sdk, incoming, outgoing, strikes, words=words)
                yield connection.incoming, connection.outgoing
        strikes.check()

    @property
    def unused_faults(self) -> tuple[Fault, ...]:
        """The faults of all sessions so far that never struck."""
        return tuple(fault for strikes in self._strikes for fault in strikes.unused)

    def verify(self) -> None:
        """See that the faults of all strict sessions struck, also of those that are still open in a fixture.

        Raises:
            FaultNeverStruck: not all, and it was not said yet.
        """
        for strikes in self._strikes:
            strikes.check()

    def close(self) -> None:
        """End what a test left behind.

        Raises:
            NotEnded: a server does not end.
            ServerFailed: the process of an HTTP server has ended before.
        """
        with ExitStack() as stack:
            for pipe in self._open:
                stack.callback(self._end, pipe)
            for server in (self.server, *self._servers):
                stack.callback(server.close)

    @asynccontextmanager
    async def _over_pipe(self, sdk: Sdk, server: Server) -> AsyncIterator[Reached]:
        running: Running
        if server.transport == "stdio":
            running = ProcessServer([server.command, *server.args], server.env)
        else:
            running = ThreadServer(self._board, server.agent, server.profile, server.keepalive_sec)
        pipe = Pipe(sdk, running.end)
        self._open[pipe] = running
        try:
            yield pipe, pipe, running.last_words
        finally:
            self._end(pipe)

    @asynccontextmanager
    async def _over_http(self, sdk: Sdk, server: Server) -> AsyncIterator[Reached]:
        client, transport = sdk.over_http(server.url, server.headers)
        async with plainly(client), plainly(transport) as (incoming, outgoing):
            yield incoming, outgoing, lambda: WORDS

    def _end(self, pipe: Pipe) -> None:
        if (running := self._open.pop(pipe, None)) is not None:
            pipe.close()
            running.wait()

    @contextmanager
    def _taking_part(self) -> Iterator[None]:
        """A clock that moves by itself does so only while the agent of each open session waits."""
        clock = self._board.store.clock
        if not isinstance(clock, CellClock):
            yield
            return
        place = clock.take_part(AGENT)
        try:
            yield
        finally:
            place.leave()
