"""The server that a framework starts or calls by itself: a command for stdio, an address for HTTP."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Self, get_args

from agentmesh import limits
from agentmesh.board.facade import Board
from agentmesh.mcp_server.profiles import DEFAULT, PROFILES, Profile
from agentmesh.mcp_server.session import KEEPALIVE_SEC
from pytest_agentmesh.sessions.over_http import HttpServer
from pytest_agentmesh.sessions.running import inherited, path_of
from pytest_agentmesh.settings import Transport


class Server:
    """The server on a test's board, for one agent or for whoever names itself."""

    def __init__(
        self,
        board: Board,
        *,
        transport: Transport = "memory",
        agent: str | None = None,
        profile: Profile = DEFAULT,
        keepalive: float | bool = False,
    ) -> None:
        """Say what is to be served; nothing is started.

        Args:
            board: The test's board.
            transport: Which of its forms `config` has; a framework that takes no session has no use for `memory`, so
                that means a command too.
            agent: Whom it speaks for; None if each call says so.
            profile: What it shows.
            keepalive: Whether it renews the leases of its sessions, as a real server does, or for how many seconds.

        Raises:
            InvalidArgument: there is no such transport or profile, or nobody can be called so.
        """
        limits.choice("transport", transport, get_args(Transport))
        limits.choice("profile", profile, PROFILES)
        if agent is not None:
            limits.name("agent", agent)
        self.board = board
        self.transport: Transport = transport
        self.agent = agent
        self.profile: Profile = profile
        self.keepalive_sec = keepalive_sec(keepalive)
        self._http: HttpServer | None = None
        self._others: list[Server] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def named(self, agent: str, *, profile: Profile = DEFAULT) -> Server:
        """The same for one agent: it speaks for nobody else, and ends with this one."""
        keepalive = self.keepalive_sec
        other = Server(self.board, transport=self.transport, agent=agent, profile=profile, keepalive=keepalive)
        self._others.append(other)
        return other

    @property
    def command(self) -> str:
        """The program of a server on stdio: this Python."""
        return sys.executable

    @property
    def args(self) -> list[str]:
        """Its arguments."""
        named = [] if self.agent is None else ["--agent", self.agent]
        timed = ["--test-clock"] if self.board.store.on_test_clock else []
        shown = ["--profile", self.profile, "--keepalive", f"{self.keepalive_sec:g}", "--durability", "normal"]
        return ["-m", "agentmesh.cli", "run", "--board", str(path_of(self.board)), *named, *shown, *timed]

    @property
    def env(self) -> dict[str, str]:
        """What it needs of the environment."""
        return inherited()

    @property
    def url(self) -> str:
        """The address of a server on HTTP, which runs from the first time that it is asked for.

        Raises:
            MissingExtra: this environment's SDK can serve no HTTP.
            ServerFailed: it cannot be started.
        """
        return self._serving().url

    @property
    def headers(self) -> dict[str, str]:
        """What each request to `url` has to carry: the token, if it is for one agent."""
        return dict(self._serving().headers)

    def config(self, name: str = "agentmesh") -> dict[str, Any]:
        """What most clients take: a `mcpServers` with this server in it."""
        if self.transport == "http":
            how: dict[str, Any] = {"type": "http", "url": self.url, "headers": self.headers}
        else:
            how = {"type": "stdio", "command": self.command, "args": self.args, "env": self.env}
        return {"mcpServers": {name: how}}

    def close(self) -> None:
        """Stop what was started.

        Raises:
            NotEnded: it does not end.
            ServerFailed: its process has ended before.
        """
        with contextlib.ExitStack() as stack:
            if self._http is not None:
                stack.callback(self._http.close)
                self._http = None
            for other in self._others:
                stack.callback(other.close)

    def _serving(self) -> HttpServer:
        if self._http is None:
            self._http = HttpServer(self.board, self.agent, self.profile, self.keepalive_sec)
        return self._http


def keepalive_sec(asked: float | bool) -> float:  # noqa: FBT001 - the one value of a setting
    """The setting in seconds; True is what a server does by itself."""
    return KEEPALIVE_SEC if asked is True else float(asked)
