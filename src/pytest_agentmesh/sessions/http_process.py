"""The process in which the HTTP servers of tests run. `over_http` starts it and tells it what to serve.

It serves any number of boards, each on a port of its own and with its own sessions and tokens, so the SDK is imported
once for many tests. It takes orders on the socket that is its standard input, one JSON document a line, and answers
each with one line. It ends when that socket is closed, or when the process that started it has ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from agentmesh.cell import CellClock
from agentmesh.errors import AgentMeshError
from agentmesh.mcp_server.http.app import Serving
from agentmesh.mcp_server.http.quiet import quiet_logs
from agentmesh.mcp_server.http.server import Server, listen
from agentmesh.mcp_server.log import flush, log_exception
from agentmesh.mcp_server.opening import open_served
from agentmesh.mcp_server.tokens import Keyring, Token, TokenFile
from pytest_agentmesh.sessions.running import LOOPBACK, PATIENCE_SEC

LOOK_SEC: Final = 1.0
"""How often it looks whether its parent still runs: a process forked by the parent may keep the socket open."""

CHUNK: Final = 65_536


class GivenTokens(TokenFile):
    """The tokens of a server, which are in no file. With none, every caller may speak under any name."""

    def __init__(self, *tokens: Token) -> None:
        super().__init__(Path())
        self._given = tokens

    def read(self) -> tuple[Token, ...]:
        """All of them."""
        return self._given

    def mark(self) -> tuple[int, ...]:
        """They never change."""
        return ()


class Served:
    """One board, served on one port by one thread."""

    def __init__(self, *, board: str, test_clock: bool, keepalive_sec: float, token: dict[str, Any] | None) -> None:
        """Serve the board from now on.

        Raises:
            AgentMeshError: the board cannot be opened, or no port is free.
        """
        tokens = GivenTokens() if token is None else GivenTokens(Token(**token))
        with ExitStack() as opening:
            opened = opening.enter_context(open_served(board, create=False, durability="normal", test_clock=test_clock))
            if isinstance(opened.store.clock, CellClock):
                opening.callback(opened.store.clock.close)  # it is mapped for this board only
            listener = opening.enter_context(listen(LOOPBACK, 0))
            self.port = int(listener.getsockname()[1])
            self._server = Server(Serving(opened, Keyring(tokens), keepalive_sec=keepalive_sec), listener)
            self._in_time: Future[bool] = Future()
            self._thread = threading.Thread(target=self._serve, name=f"port-{self.port}", daemon=True)
            self._thread.start()
            self._open = opening.pop_all()

    def close(self) -> bool:
        """Stop, and close the board; whether all calls under way ended in time. If not, the board stays open.

        What the thread raised is raised here.
        """
        self._server.stop()
        self._thread.join(PATIENCE_SEC)
        if not self._in_time.done() or (self._in_time.exception() is None and not self._in_time.result()):
            return False
        self._open.close()
        return self._in_time.result()

    def _serve(self) -> None:
        try:
            self._in_time.set_result(asyncio.run(self._server.run_here()))
        except BaseException as error:  # noqa: BLE001 - `close` raises it
            self._in_time.set_exception(error)


class Desk:
    """Knows what is served, and changes it as it is told."""

    def __init__(self) -> None:
        self._served: dict[int, Served] = {}

    def answer(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order: serve a board, or stop a port. The answer says how it went."""
        try:
            if "stop" in order:
                return {"in_time": self._served.pop(order["stop"]).close()}
            served = Served(**order["serve"])
        except AgentMeshError as error:
            return {"error": error.message}
        except Exception as error:  # noqa: BLE001 - the test that gave the order raises it, the log has the traceback
            log_exception(f"the order {'to stop' if 'stop' in order else 'to serve'}")
            return {"error": repr(error)}
        self._served[served.port] = served
        return {"port": served.port}

    def close(self) -> bool:
        """Stop all ports; whether all calls under way ended in time."""
        ended = [served.close() for served in self._served.values()]
        return all(ended)


def run(parent: int) -> None:
    """Take orders until the process `parent` closes the socket or ends."""
    quiet_logs()
    desk = Desk()
    with socket.socket(fileno=sys.stdin.fileno()) as control:
        for line in orders(control, parent):
            control.sendall(json.dumps(desk.answer(json.loads(line))).encode() + b"\n")
    if not desk.close():
        flush()
        os._exit(1)  # a call that does not end would keep the process


def orders(control: socket.socket, parent: int) -> Iterator[bytes]:
    """The lines that come, until there will be no more."""
    rest = b""
    while os.getppid() == parent:
        if not select.select([control], [], [], LOOK_SEC)[0]:
            continue
        try:
            chunk = control.recv(CHUNK)
        except ConnectionError:
            return
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


if __name__ == "__main__":
    run(int(sys.argv[1]))
