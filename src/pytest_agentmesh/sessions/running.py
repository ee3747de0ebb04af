"""Servers of one session each: our front on a thread of this process, or in a process of its own.

Both have one end of a socket pair for stdin and stdout, as if a client had started them; the other end is the client's.
When that is closed they end, and whatever they still do ends with them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from agentmesh.board.facade import Board
from agentmesh.errors import InvalidArgument
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.profiles import Profile
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.stdio import Front
from agentmesh.mcp_server.wire import Wire

PATIENCE_SEC: Final = 10.0
"""How long a server may take to end; only a broken one takes it."""

WORDS: Final = "Connection closed"
LOOPBACK: Final = "127.0.0.1"

INHERITED: Final = ("COVERAGE_PROCESS_CONFIG", "COVERAGE_PROCESS_START", "PATH", "PYTHONPATH", "TMPDIR", "VIRTUAL_ENV")
"""What a server process needs to run as this one does. Frameworks print what they are given: nothing else is in it."""


class NotEnded(RuntimeError):
    """A call was still under way when the server of a test had been stopped."""

    def __init__(self, then: str) -> None:
        super().__init__(
            f"A call of this test was still under way when its server had been stopped: {then}. "
            "It may wait for a transaction that the test has open; let it end before its session ends."
        )


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
            raise NotEnded(f"it did not end within {PATIENCE_SEC:g} s, and its thread goes on")

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
        if not ended(self._process, PATIENCE_SEC):
            self._process.kill()
            self._process.wait()
            raise NotEnded(f"it did not end within {PATIENCE_SEC:g} s, and the process was killed")

    def last_words(self) -> str:
        """What a caller is told when the server has gone."""
        if not ended(self._process, PATIENCE_SEC) or (code := self._process.returncode) == 0:
            return WORDS
        return f"{WORDS}: the server ended with exit code {code}; its stderr says why"


def ended(process: subprocess.Popen[Any], sec: float) -> bool:
    """Whether a process ends within so many seconds of real time.

    `Popen.wait(timeout)` counts by `time.monotonic`, which a test may have stopped; joining a thread does not.
    """
    waiter = threading.Thread(target=process.wait, name="process-end", daemon=True)
    waiter.start()
    waiter.join(sec)
    return not waiter.is_alive()


def inherited() -> dict[str, str]:
    """The environment of a server process."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}


def path_of(board: Board) -> os.PathLike[str]:
    """The file of a board.

    Raises:
        InvalidArgument: it has none, so another process cannot open it.
    """
    path = getattr(board.store, "path", None)
    if not isinstance(path, os.PathLike):
        problem = "stdio and http need a board in a file, and this one has none"
        raise InvalidArgument("transport", problem, hint="Use memory.")
    return path
