"""The server on HTTP: in a process of its own, on a free port of loopback.

In the process of the test it would share what the test does to it: a patched clock (freezegun patches the monotonic
clock of the event loop too), another async library than asyncio. So it runs in `http_process`, as a server on stdio
does in its own.

That process is started for the first test that needs it, and serves the other tests of this pytest process (this
worker of pytest-xdist) as well, because importing the SDK takes most of the time of a start. Every server has its own
port, sessions, tokens and connection to its board, and all of it ends with the test. Measured on two cores, a test that
opens a session, makes a call and closes it: the first 1.5 s (0.9 s when servers ran in the test's process), later ones
0.21 s (before 0.21 s, of which 0.1 to 0.2 s is the end of uvicorn). One process for each test would cost 1.2 s each.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from agentmesh.board.facade import Board
from agentmesh.clock import system_chance, word
from agentmesh.errors import InvalidArgument, MissingExtra
from agentmesh.mcp_server.extra import require
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from agentmesh.mcp_server.tokens import LETTERS, PREFIX, Token, digest
from pytest_agentmesh.sessions.running import LOOPBACK, PATIENCE_SEC, NotEnded, ended, inherited, path_of

MODULE: Final = "pytest_agentmesh.sessions.http_process"
START_SEC: Final = 60.0
"""How long the process may take to start and to answer; it takes about a second."""

CHUNK: Final = 65_536
TOLD: Final = 4_000
"""How many of the last characters of the log an error repeats."""


class ServerFailed(RuntimeError):
    """The HTTP server of a test could not be started, or its process ended while it was in use."""


class HttpProcess:
    """The process, and our end of the socket on which it takes orders. Safe to use from several threads."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.serving = 0
        self._turn = threading.Lock()
        self._rest = b""
        with contextlib.ExitStack() as undo:
            self._log = undo.enter_context(tempfile.TemporaryFile())
            self._end, other = socket.socketpair()
            undo.callback(self._end.close)
            with other:
                self._process = subprocess.Popen(  # noqa: S603 - the command is our own
                    [sys.executable, "-P", "-m", MODULE, str(self.pid)],
                    stdin=other.fileno(),
                    stdout=self._log,
                    stderr=self._log,
                    env=inherited(),
                    process_group=0,  # Ctrl+C is for pytest, which ends it after the tests' fixtures
                )
            undo.pop_all()
        atexit.register(self.close)

    @property
    def server_pid(self) -> int:
        """The id of the process that serves."""
        return self._process.pid

    @property
    def usable(self) -> bool:
        """Whether it can be given orders: it runs, and is not that of the process we were forked from."""
        return self.pid == os.getpid() and self._process.poll() is None

    def ask(self, **order: Any) -> dict[str, Any]:
        """What it answers to an order.

        Raises:
            ServerFailed: it has ended, does not answer, or could not do it.
        """
        with self._turn:
            try:
                self._end.settimeout(START_SEC)  # by the system's clock, which no test patches
                self._end.sendall(json.dumps(order).encode() + b"\n")
                answer: dict[str, Any] = json.loads(self._line())
            except OSError as error:
                raise ServerFailed(self._last_words(error)) from None
        if "error" in answer:
            raise ServerFailed(f"The HTTP server of this test failed: {answer['error']}")
        return answer

    def log_size(self) -> int:
        """How much it has written to its log so far."""
        return os.fstat(self._log.fileno()).st_size

    def log_since(self, size: int) -> str:
        """What it has written to its log after it had this size."""
        return os.pread(self._log.fileno(), max(self.log_size() - size, 0), size).decode(errors="replace")

    def close(self) -> None:
        """End it; if it does not end by itself, kill it."""
        atexit.unregister(self.close)
        self._end.close()
        if self.pid == os.getpid() and not ended(self._process, PATIENCE_SEC):
            self.kill()
        self._log.close()

    def kill(self) -> None:
        """End it at once, with all that it serves."""
        self._process.kill()
        self._process.wait()

    def _line(self) -> bytes:
        while b"\n" not in self._rest:
            chunk = self._end.recv(CHUNK)
            if not chunk:
                raise ConnectionResetError
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _last_words(self, error: OSError) -> str:
        if isinstance(error, TimeoutError):
            self.kill()
            how = f"did not answer within {START_SEC:g} s, and was killed"
        else:
            how = f"ended with exit code {self._process.wait()}"
        log = self.log_since(0)[-TOLD:].rstrip() or "(empty)"
        return f"The process of the HTTP server {how}. Its log:\n{log}"


class Kept:
    """The one process that is kept running between tests."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: HttpProcess | None = None

    def begin(self) -> HttpProcess:
        """The process; it is started if there is none that can be used, and not waited for."""
        with self._turn:
            if self._process is None or not self._process.usable:
                self._drop()
                self._process = HttpProcess()
            return self._process

    def borrow(self) -> HttpProcess:
        """The process, for one more server; `give_back` ends that."""
        process = self.begin()
        with self._turn:
            process.serving += 1
        return process

    def give_back(self, process: HttpProcess) -> None:
        """One server fewer is in use; the process ends with its last server if it is not the one that is kept."""
        with self._turn:
            process.serving -= 1
            if process is not self._process and not process.serving:
                process.close()

    def retire(self) -> None:
        """End the process, unless a server in it is still in use: pytest may run within a test of another pytest."""
        with self._turn:
            if self._process is not None and not self._process.serving:
                self._drop()

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None and not process.serving:
            process.close()


KEPT: Final = Kept()


class HttpServer:
    """A server for one agent, or for all agents under any name."""

    def __init__(self, board: Board, agent: str | None, profile: Profile, keepalive_sec: float) -> None:
        """Start it.

        Raises:
            MissingExtra: this environment has no SDK that can serve HTTP.
            InvalidArgument: a profile without an agent, since over HTTP a token stands for both; or the board is in no
                file, so another process cannot open it.
            ServerFailed: the process does not start, or it cannot open the board.
        """
        _require()
        if agent is None and profile != DEFAULT:
            problem = "over HTTP a profile belongs to a token, and a token to an agent"
            raise InvalidArgument("profile", problem, hint="Name the agent too.")
        token: dict[str, Any] | None = None
        self.headers: dict[str, str] = {}
        if agent is not None:
            secret = PREFIX + word(system_chance(), LETTERS)
            token = asdict(Token(agent, profile, digest(secret), board.store.clock.now_us()))
            self.headers["Authorization"] = f"Bearer {secret}"
        how = {"board": str(Path(path_of(board)).absolute()), "test_clock": board.store.on_test_clock}
        self._process = KEPT.borrow()
        self._log_size = self._process.log_size()
        try:
            self._port = self._process.ask(serve={**how, "keepalive_sec": keepalive_sec, "token": token})["port"]
        except BaseException:
            KEPT.give_back(self._process)
            raise
        self.url = f"http://{LOOPBACK}:{self._port}/mcp"

    def close(self) -> None:
        """Stop it; what it has written to its log goes to stderr, which pytest shows with a failed test.

        Raises:
            NotEnded: a call under way does not end.
            ServerFailed: the process has ended before.
        """
        if self._process.pid != os.getpid():
            return  # a forked copy of the test, which has started nothing
        try:
            if not self._process.ask(stop=self._port)["in_time"]:
                self._process.kill()
                raise NotEnded("the process of its HTTP server was killed")
        finally:
            sys.stderr.write(self._process.log_since(self._log_size))
            KEPT.give_back(self._process)


def begin() -> None:
    """Start the process if it does not run, and do not wait for it."""
    with contextlib.suppress(MissingExtra):  # raised when a server is wanted
        require()
        KEPT.begin()


def _require() -> None:
    try:
        require()
    except MissingExtra as missing:
        missing.add_note(f"This environment has mcp {version('mcp')}; memory and stdio serve its clients as well.")
        raise
