"""The server that each agent's client starts, against one of the SDK's with a single tool that does nothing.

Both are processes on stdio and are spoken to by the same plain client, in the handshake's era, which is what clients
start with. Ours opens its board, and a heartbeat of ours is the whole call: read, checked, committed and answered. The
SDK's is as its documentation begins; its call answers at once. So only ours does any work.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Self

from agentmesh import Board
from benchmarks import boards
from benchmarks.report import Figure, progress
from benchmarks.rounds import Compared, Side, alternate, timed
from benchmarks.settings import Settings

AT_ONCE = 16
BEATS = 200
TASKS = 100
ENDING_SEC = 20
AS_INSTALLED = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONUNBUFFERED": ""}
"""Both sides find their modules compiled, as pip leaves them; the round that warms up compiles those of a clone."""

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
EMPTY = """
from mcp.server import MCPServer

server = MCPServer("empty")


@server.tool()
def heartbeat(agent_id: str, task_id: str) -> dict[str, str]:
    return {}


server.run("stdio")
"""


class Server:
    """A server, and the client that started it."""

    def __init__(self, command: Sequence[str]) -> None:
        env = os.environ | AS_INSTALLED
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._begin("initialize", HELLO)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=ENDING_SEC)
        finally:
            self._process.kill()

    def greeted(self) -> Self:
        """Wait until it has answered the first request."""
        self._end()
        self._write({"method": "notifications/initialized"})
        return self

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; what it gives.

        Raises:
            RuntimeError: it was refused.
        """
        self._begin("tools/call", {"name": tool, "arguments": arguments})
        answer = self._end()
        if answer["isError"]:
            raise RuntimeError(f"{tool} was refused: {answer}")
        found: dict[str, Any] = answer["structuredContent"]
        return found

    @property
    def resident_mb(self) -> float:
        """What it holds in memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def _begin(self, method: str, params: dict[str, Any]) -> None:
        self._write({"id": 1, "method": method, "params": params})

    def _write(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self._process.stdin.flush()

    def _end(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())["result"]
        return found


class Ours(Server):
    """`agentmesh run`."""

    def __init__(self, path: Path, *options: str) -> None:
        super().__init__([sys.executable, "-m", "agentmesh.cli", "run", "--board", str(path), *options])

    def hold(self) -> str:
        """A task to send heartbeats for."""
        task_id: str = self.call("claim_task", agent_id=boards.AGENT)["task"]["id"]
        return task_id


class Theirs(Server):
    """The SDK's, as its documentation begins."""

    def __init__(self) -> None:
        super().__init__([sys.executable, "-c", EMPTY])

    def hold(self) -> str:
        """Any word will do."""
        return "task"


Start = Callable[[], Ours | Theirs]


def figures(settings: Settings) -> Iterator[Figure]:
    """Start, memory, a call, and many starts at once."""
    path = settings.place("servers")
    with Board.open(path) as board:
        boards.fill(board, boards.plain(TASKS))
    ours = partial(Ours, path)
    progress("servers: start")
    starts = alternate(lambda: _start(ours, 1), lambda: _start(Theirs, 1), settings.size(7, 3))
    yield _figure("start to the first answer", 0.25, starts)
    progress("servers: memory")
    yield _memory(alternate(lambda: _resident_mb(ours), lambda: _resident_mb(Theirs), settings.size(2, 1)))
    for durability in ("normal", "full"):
        progress(f"servers: heartbeats, {durability}")
        beats = _heartbeats(partial(Ours, path, "--durability", durability), settings.size(9, 3))
        yield _figure(f"a heartbeat, `{durability}`", 0.3, beats)
    progress(f"servers: {AT_ONCE} at once")
    crowds = alternate(lambda: _start(ours, AT_ONCE), lambda: _start(Theirs, AT_ONCE), settings.size(2, 1))
    yield _figure(f"{AT_ONCE} started at once, to the last first answer", 0.25, crowds)


def _figure(name: str, bar: float, found: Compared) -> Figure:
    return Figure(
        f"{name}: our server against one of the SDK's", found.ratio, "x", "<=", bar, found.absolute("ours", "theirs")
    )


def _start(start: Start, count: int) -> float:
    """Seconds until all of so many servers have answered."""
    with ExitStack() as stack:
        began = time.perf_counter()
        servers = [stack.enter_context(start()) for _ in range(count)]
        for server in servers:
            server.greeted()
        return time.perf_counter() - began


def _resident_mb(start: Start) -> float:
    """What a server holds in memory once it has done something."""
    with start() as server:
        server.greeted()
        server.call("heartbeat", agent_id=boards.AGENT, task_id=server.hold())
        return server.resident_mb


def _memory(found: Compared) -> Figure:
    absolute = f"ours {median(found.ours):.1f} MB, theirs {median(found.theirs):.1f} MB"
    return Figure("resident memory: our server against one of the SDK's", found.ratio, "x", "<=", 0.5, absolute)


def _heartbeats(ours: Start, rounds: int) -> Compared:
    with ours() as mine, Theirs() as other:

        def beats(server: Ours | Theirs) -> Side:
            server.greeted()
            beat = partial(server.call, "heartbeat", agent_id=boards.AGENT, task_id=server.hold())
            return lambda: timed(lambda _: beat(), range(BEATS))

        return alternate(beats(mine), beats(other), rounds)
