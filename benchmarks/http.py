"""The server on HTTP: eight clients at once, and what a heartbeat costs while sixty calls wait.

The server is a process of its own; the clients are plain, so that it is the server that is measured. A client speaks
the newest era of the protocol over one connection.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from agentmesh import Board
from benchmarks import boards
from benchmarks.crew import Crew
from benchmarks.report import Figure, progress
from benchmarks.rounds import alternate, timed
from benchmarks.settings import Settings

CLIENTS = 8
WAITING = 60
BEATS = 100
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
    "Mcp-Method": "tools/call",
}


class Client:
    """One agent's client."""

    def __init__(self, port: int, name: str) -> None:
        self._line = HTTPConnection("127.0.0.1", port, timeout=60)
        self._name = name

    def begin(self, tool: str, **arguments: Any) -> None:
        """Send a call."""
        params = {"name": tool, "arguments": {"agent_id": self._name} | arguments, "_meta": ENVELOPE}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        self._line.request("POST", "/mcp", body, HEADERS | {"Mcp-Name": tool})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Send a call; what it gives.

        Raises:
            RuntimeError: it was refused.
        """
        self.begin(tool, **arguments)
        answer = json.loads(self._line.getresponse().read())
        if answer.get("error") or answer["result"]["isError"]:
            raise RuntimeError(f"{tool} was refused: {answer}")
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def close(self) -> None:
        """Hang up."""
        self._line.close()


class Worker:
    """Claims and completes until nothing is left."""

    def __init__(self, number: int, port: int) -> None:
        self._client = Client(port, f"worker-{number}")

    def __call__(self, _: object) -> list[str]:
        """Work; which tasks it completed."""
        done = []
        while (claim := self._client.call("claim_task"))["claimed"]:
            task_id = claim["task"]["id"]
            self._client.call("complete_task", task_id=task_id, result=boards.RESULT)
            done.append(task_id)
        return done


def figures(settings: Settings) -> Iterator[Figure]:
    """Work by several clients, then heartbeats beside calls that wait."""
    yield from _clients(settings, settings.size(800, 200))
    yield _heartbeats(settings, settings.size(9, 3))


def _clients(settings: Settings, tasks: int) -> Iterator[Figure]:
    rates = {}
    for count in (1, CLIENTS):
        path = settings.place("http")
        with ExitStack() as stack:
            with Board.open(path) as board:
                boards.fill(board, boards.plain(tasks))
            port = stack.enter_context(_server(path))
            crew = stack.enter_context(Crew(count, Worker, port))
            progress(f"http: {count} clients")
            began = time.perf_counter()
            crew.order("work")
            done = [task_id for worker in crew.answers() for task_id in worker]
            rates[count] = tasks / (time.perf_counter() - began)
            with Board.open(path) as board:
                completed = board.status().counts["completed"]
    lost = tasks - min(completed, len(set(done))) + len(done) - len(set(done))
    yield Figure(
        f"{CLIENTS} clients over HTTP, `full`: tasks lost or done twice", lost, "tasks", "<=", 0, f"of {tasks}"
    )
    absolute = f"pairs a second: {rates[CLIENTS]:,.0f} against {rates[1]:,.0f}"
    yield Figure(f"{CLIENTS} clients over HTTP, `full`: rate against one", rates[CLIENTS] / rates[1], absolute=absolute)


def _heartbeats(settings: Settings, rounds: int) -> Figure:
    path = settings.place("http")
    with Board.open(path) as board:
        boards.fill(board, boards.plain(1))
    with _server(path) as port:
        client = Client(port, boards.AGENT)
        task_id = client.call("claim_task")["task"]["id"]

        def beats() -> float:
            return timed(lambda _: client.call("heartbeat", task_id=task_id), range(BEATS))

        def beats_beside_waits() -> float:
            waiting = [Client(port, f"waiting-{number}") for number in range(WAITING)]
            for other in waiting:
                other.begin("claim_task", wait_sec=50)
            _until_waiting(port, WAITING)
            taken = beats()
            for other in waiting:
                other.close()
            _until_waiting(port, 0)
            return taken

        progress("http: heartbeats")
        found = alternate(beats_beside_waits, beats, rounds)
        client.close()
    name = f"a heartbeat over HTTP while {WAITING} calls wait, against none"
    return Figure(name, found.ratio, "x", "<=", 3, found.absolute("beside waits", "alone"))


def _until_waiting(port: int, count: int) -> None:
    """Wait until the server says that so many calls wait."""
    wanted = f"agentmesh_waiting_calls {count}.0".encode()
    line = HTTPConnection("127.0.0.1", port, timeout=60)
    line.request("GET", "/metrics")
    while wanted not in line.getresponse().read():
        time.sleep(0.01)
        line.request("GET", "/metrics")
    line.close()


@contextmanager
def _server(path: Path) -> Iterator[int]:
    """`agentmesh serve` on a board; its port."""
    command = [sys.executable, "-m", "agentmesh.cli", "serve", "--board", str(path), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            named = re.search(r"127\.0\.0\.1:(\d+)/mcp", process.stderr.readline())
            if named is None:
                raise RuntimeError("the server did not start")
            yield int(named[1])
        finally:
            process.terminate()
