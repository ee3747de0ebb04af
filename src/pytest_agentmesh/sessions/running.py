"""Servers of one session each: our front on a thread of this process, or in a process of its own.

Both have one end of a socket pair for stdin and stdout, as if a client had started them; the other end is the client's.
When that is closed they end, and whatever they still do ends with them.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from agentmesh.board.facade import Board
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.profiles import Profile
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.stdio import Front
from agentmesh.mcp_server.wire import Wire

PATIENCE_SEC: Final = 10.0
"""How long a server may take to end; only a broken one takes it."""

WORDS: Final = "Connection closed"


class NotEnded(RuntimeError):
    """A server did not end when its client had gone."""

    def __init__(self) -> None:
        super().__init__(f"A server of this test was still at work {PATIENCE_SEC:g} s after its client had gone.")


class Running(Protocol):
    """A server that runs."""

    end: socket.socket
    """The client's end; it is the client's to close."""

    def wait(self) -> None:
        """Let it end, once the client has closed its end.

        Raises:
            NotEnded: it does not.
        """
        ...

    def last_words(self) -> str:
        """What a caller is told when the server has gone."""
        ...


class ThreadServer:
    """On threads of this process, on the test's own board object."""

    def __init__(self, board: Board, agent: str | None, profile: Profile, keepalive_sec: float) -> None:
        self.end, self._own = socket.socketpair()
        session = Session(board, agent=agent, profile=profile, keepalive_sec=keepalive_sec)
        self._front = Front(Wire(self._own.fileno(), self._own.fileno()), session, offer(profile))
        self._thread = threading.Thread(target=self._serve, name="mesh_session", daemon=True)
        self._ended = False
        self._thread.start()

    def _serve(self) -> None:
        with self._own:
            self._front.read()
            self._ended = self._front.close(answer=True, patience_sec=PATIENCE_SEC)

    def wait(self) -> None:
        """Let it end, once the client has closed its end.

        Raises:
            NotEnded: a call under way does not.
        """
        self._thread.join(2 * PATIENCE_SEC)
        if not self._ended:
            raise NotEnded

    def last_words(self) -> str:
        """What a caller is told when the server has gone."""
        return WORDS


class ProcessServer:
    """A process of its own; what it says on stderr is the test's."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.end, own = socket.socketpair()
        with own:
            self._process = subprocess.Popen(command, stdin=own.fileno(), stdout=own.fileno(), env=dict(env))  # noqa: S603 - the command is our own

    def wait(self) -> None:
        """Let it end, once the client has closed its end.

        Raises:
            NotEnded: it does not; it is killed then.
        """
        try:
            self._process.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise NotEnded from None

    def last_words(self) -> str:
        """What a caller is told when the server has gone."""
        try:
            code = self._process.wait(PATIENCE_SEC)
        except subprocess.TimeoutExpired:
            return WORDS
        return WORDS if code == 0 else f"{WORDS}: the server ended with exit code {code}; its stderr says why"
