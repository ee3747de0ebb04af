"""The HTTP server: an address, uvicorn on it, and an end within three seconds."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_address
from types import FrameType
from typing import Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from agentmesh.errors import InvalidArgument
from agentmesh.mcp_server.http.app import App, Serving
from agentmesh.mcp_server.http.guards import MOST_HEAD, Hosts
from agentmesh.mcp_server.http.quiet import quiet_logs
from agentmesh.mcp_server.log import flush, log
from agentmesh.mcp_server.opening import open_served
from agentmesh.mcp_server.session import KEEPALIVE_SEC
from agentmesh.mcp_server.tokens import Keyring, TokenFile
from agentmesh.store.base import Durability

MOST_CONNECTIONS: Final = 512
HEAD_SEC: Final = 10.0
"""How long the head of a request may take to come."""

ANSWERS_SEC: Final = 1.0
"""How long calls under way may take to be answered when the server stops."""

GRACE_SEC: Final = 2
PATIENCE_SEC: Final = 0.5
INTERRUPTED: Final = 130


class Protocol(H11Protocol):
    """Closes a connection whose next request does not get past its head: uvicorn would keep it for ever."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for the first head."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._have_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Wait for a head from its first byte on, until the state of the connection shows that it is whole."""
        if self._deadline is None:
            self._expect_head()
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._have_head()

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SEC, self.timeout_keep_alive_handler)

    def _have_head(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """Serves until it is told to stop, by `stop` from any thread or by a signal."""

    def __init__(self, serving: Serving, listener: socket.socket, names: Sequence[str] = ()) -> None:
        self._listener = listener
        self._app = App(serving, Hosts(names, listener.getsockname()[1]))
        self.signal = 0
        super().__init__(
            uvicorn.Config(
                self._app,
                http=Protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=MOST_CONNECTIONS,
                h11_max_incomplete_event_size=MOST_HEAD,
                timeout_graceful_shutdown=GRACE_SEC,
            )
        )

    def stop(self) -> None:
        """Stop soon."""
        self.should_exit = True

    async def run_here(self) -> bool:
        """Serve in this event loop; whether all calls under way ended in time."""
        async with self._app.running():
            await self.serve([self._listener])
        return self._app.lanes.close(PATIENCE_SEC)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End what would otherwise go on for as long as clients like, then do as uvicorn does."""
        self._app.stop()
        asyncio.get_running_loop().call_later(ANSWERS_SEC, self._app.abandon)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Nothing: whoever has the main thread hears the signals."""
        yield

    def heard(self, number: int, _: FrameType | None) -> None:
        """A signal: stop, and remember why."""
        self.signal = number
        self.stop()


def serve_http(
    board_path: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    names: Sequence[str] = (),
    keepalive_sec: float = KEEPALIVE_SEC,
    durability: Durability = "full",
    test_clock: bool = False,
) -> int:
    """Serve the board over HTTP until a signal ends it. To be called in the main thread.

    Args:
        board_path: The board; it has to be there.
        host: The address to listen on, or a name of it.
        port: The port; 0 takes a free one.
        names: Further names under which clients ask for this server, each with its port unless it is the same.
        keepalive_sec: How long after the last call that named a task its lease is renewed.
        durability: As `Board.open` takes it.
        test_clock: Whether it is a test's board, which goes by the clock cell beside it.

    Returns:
        The exit code of the process.

    Raises:
        AgentMeshError: the board or its tokens cannot be opened, the address cannot be had, or would be open to all.
    """
    keyring = Keyring(TokenFile.beside(board_path))
    address = _resolved(host, port)
    public = not ip_address(address).is_loopback
    if public and not keyring.needed:
        raise InvalidArgument(
            "--host",
            "other machines could reach this address, and the board has no tokens",
            hint="Add one with `agentmesh token add AGENT`, or listen on 127.0.0.1.",
        )
    opening = partial(open_served, board_path, create=False, durability=durability, test_clock=test_clock)
    with listen(address, port) as listener, opening() as board:
        served = Serving(board, keyring, keepalive_sec=keepalive_sec)
        server = Server(served, listener, [*names, *_names_of(host, address)])
        quiet_logs()
        _tell(listener, keyring)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, server.heard)
        in_time = asyncio.run(server.run_here())
        code = INTERRUPTED if server.signal == signal.SIGINT else 0
        if not in_time:
            log("calls under way did not end in time; their transactions are rolled back")
            flush()
            os._exit(code)
    return code


def _resolved(host: str, port: int) -> str:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise InvalidArgument("--host", "this is no address and no name of one") from None
    return str(found[0][4][0])


def listen(address: str, port: int) -> socket.socket:
    """A socket that listens.

    Its protocol is named: what is accepted inherits the name, and asyncio turns Nagle's algorithm off for sockets that
    say they are TCP. With it, each answer that is written in two pieces takes 40 ms.

    Raises:
        InvalidArgument: the address cannot be had.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen()
    except OSError as error:
        listener.close()
        problem = os.strerror(error.errno) if error.errno else "it cannot be had"
        raise InvalidArgument("--port", f"cannot listen on {port}: {problem}", hint="Name another port.") from None
    return listener


def _names_of(host: str, address: str) -> list[str]:
    """What clients ask for when they use the address; that of all interfaces is nobody's name."""
    if ip_address(address).is_unspecified:
        return []
    return [host, f"[{address}]" if ":" in address else address]


def _tell(listener: socket.socket, keyring: Keyring) -> None:
    address, port = listener.getsockname()[:2]
    shown = f"[{address}]" if ":" in address else address
    log(f"serving http://{shown}:{port}/mcp")
    if not keyring.needed:
        log("no token is needed: whoever can reach this port may call, under any name")
