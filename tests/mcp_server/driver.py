"""A server process and the two ends of its pipes, for tests that look at the wire itself."""

import json
import os
import queue
import subprocess
import sys
import threading
from itertools import count

DEADLINE_SEC = 20
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
BUFFERED = {"PYTHONUNBUFFERED": ""}
"""As a user's shell has it: what is printed before the server runs must not slip through either."""

END = object()


def run_command(board, *options):
    """How a client's configuration starts the server."""
    return [sys.executable, "-m", "agentmesh.cli", "run", "--board", str(board), *options]


def serve_command(board, *options):
    """How the server on HTTP is started, on a port that is free."""
    return [sys.executable, "-m", "agentmesh.cli", "serve", "--board", str(board), "--port", "0", *options]


class Server:
    """A running server, spoken to line by line."""

    def __init__(self, command, pass_fds=()):
        pipe = subprocess.PIPE
        env = os.environ | BUFFERED
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=env, pass_fds=pass_fds)
        self.lines = queue.SimpleQueue()
        self.log = []
        self.unclaimed = []
        self._ids = count(1)
        self._threads = [threading.Thread(target=target) for target in (self._read, self._read_log)]
        for thread in self._threads:
            thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(DEADLINE_SEC)
        finally:
            self.process.kill()
            for thread in self._threads:
                thread.join(DEADLINE_SEC)
            self.process.stdout.close()
            self.process.stderr.close()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(END)

    def _read_log(self):
        self.log.extend(line.decode(errors="replace") for line in self.process.stderr)

    def send_bytes(self, data):
        """Put bytes on the wire as they are."""
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        """Put one message on the wire."""
        self.send_bytes(json.dumps(message).encode() + b"\n")

    def receive(self):
        """The next message from the server; every line of it has to be JSON."""
        line = self.lines.get(timeout=DEADLINE_SEC)
        assert line is not END, "the server has gone"
        return json.loads(line)

    def rest(self):
        """All further messages until the server closes its end."""
        found = list(iter(lambda: self.lines.get(timeout=DEADLINE_SEC), END))
        return [json.loads(line) for line in found]

    def begin(self, method, params=None):
        """Send a request; its id."""
        number = next(self._ids)
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return number

    def end(self, number):
        """The answer to a request; others that come before it are kept in `unclaimed`."""
        while (message := self.receive()).get("id") != number:
            self.unclaimed.append(message)
        return message

    def ask(self, method, params=None):
        """A request and its answer."""
        return self.end(self.begin(method, params))

    def greet(self, version="2025-11-25"):
        """The handshake."""
        answer = self.ask("initialize", HELLO | {"protocolVersion": version})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def begin_tool(self, tool, meta=None, **arguments):
        """Begin a call of a tool in the era without a handshake; its id."""
        envelope = ENVELOPE | (meta or {})
        return self.begin("tools/call", {"name": tool, "arguments": arguments, "_meta": envelope})

    def tool(self, tool, **arguments):
        """What a tool answers, taken from its text."""
        return content(self.end(self.begin_tool(tool, **arguments)))


def content(answer):
    """The document in a tool's answer; text and structure have to agree."""
    result = answer["result"]
    document = json.loads(result["content"][0]["text"])
    assert document == result["structuredContent"]
    return document
