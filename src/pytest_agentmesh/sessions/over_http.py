"""The server on HTTP, on a thread of this process and a free port of loopback."""

from __future__ import annotations

import asyncio
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Final

from agentmesh.board.facade import Board
from agentmesh.clock import system_chance, word
from agentmesh.errors import InvalidArgument, MissingExtra
from agentmesh.mcp_server.extra import http_front
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from agentmesh.mcp_server.tokens import LETTERS, PREFIX, Keyring, Token, TokenFile, digest
from pytest_agentmesh.sessions.running import PATIENCE_SEC, NotEnded

LOOPBACK: Final = "127.0.0.1"


class OneToken(TokenFile):
    """The only token of a server; it is in no file."""

    def __init__(self, token: Token) -> None:
        super().__init__(Path())
        self._token = token

    def read(self) -> tuple[Token, ...]:
        """The token."""
        return (self._token,)

    def mark(self) -> tuple[int, ...]:
        """It never changes."""
        return ()


class NoToken(OneToken):
    """Whoever can reach the server may call."""

    def __init__(self) -> None:
        TokenFile.__init__(self, Path())

    def read(self) -> tuple[Token, ...]:
        """None."""
        return ()


class HttpServer:
    """A server for one agent, or for everybody under any name."""

    def __init__(self, board: Board, agent: str | None, profile: Profile, keepalive_sec: float) -> None:
        """Start it.

        Raises:
            MissingExtra: this environment has no SDK that can serve HTTP.
            InvalidArgument: a profile without an agent: over HTTP a token stands for both.
        """
        _require()
        from agentmesh.mcp_server.http.app import Serving
        from agentmesh.mcp_server.http.server import Server, listen

        if agent is None and profile != DEFAULT:
            problem = "over HTTP a profile belongs to a token, and a token to an agent"
            raise InvalidArgument("profile", problem, hint="Name the agent too.")
        file: TokenFile = NoToken()
        self.headers: dict[str, str] = {}
        if agent is not None:
            secret = PREFIX + word(system_chance(), LETTERS)
            file = OneToken(Token(agent, profile, digest(secret), board.store.clock.now_us()))
            self.headers["Authorization"] = f"Bearer {secret}"
        self._listener = listen(LOOPBACK, 0)
        self.url = f"http://{LOOPBACK}:{self._listener.getsockname()[1]}/mcp"
        self._server = Server(Serving(board, Keyring(file), keepalive_sec=keepalive_sec), self._listener)
        self._in_time = False
        self._thread = threading.Thread(target=self._serve, name="mesh_server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop it.

        Raises:
            NotEnded: a call under way does not end.
        """
        self._server.stop()
        self._thread.join(PATIENCE_SEC)
        if not self._in_time:
            raise NotEnded

    def _serve(self) -> None:
        with self._listener:
            self._in_time = asyncio.run(self._server.run_here())


def _require() -> None:
    try:
        http_front()
    except MissingExtra as missing:
        missing.add_note(f"This environment has mcp {version('mcp')}; memory and stdio serve its clients as well.")
        raise
