"""An HTTP server in a thread, and a client for tests that look at the wire itself."""

import asyncio
import contextlib
import http.client
import json
import random
import threading
from dataclasses import dataclass
from itertools import count

from agentmesh.mcp_server.http.app import Serving
from agentmesh.mcp_server.http.server import Server, listen
from agentmesh.mcp_server.tokens import Keyring, TokenFile
from tests.mcp_server.driver import DEADLINE_SEC, ENVELOPE, HELLO
from tests.support.patience import until

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
NEWEST = {"MCP-Protocol-Version": "2026-07-28"}
HANDSHAKE = {"MCP-Protocol-Version": "2025-11-25"}


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def message(self):
        """The JSON-RPC message; the last one where it is a stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return json.loads(self.body.decode().strip().rpartition("data: ")[2])
        return json.loads(self.body)

    @property
    def code(self):
        """The word for what was refused."""
        return self.message["error"]["data"]["code"]

    @property
    def document(self):
        """What a tool answered; text and structure have to agree."""
        result = self.message["result"]
        document = json.loads(result["content"][0]["text"])
        assert document == result["structuredContent"]
        return document


class Client:
    """A client that says exactly what it is told, over one connection."""

    def __init__(self, port, secret=None):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_SEC)
        self.port = port
        self.session = {}
        self._ids = count(1)
        self._auth = {"Authorization": f"Bearer {secret}"} if secret else {}

    def begin(self, method, path, body=None, headers=None):
        """Send a request; its answer is still to be read."""
        if isinstance(body, dict | list):
            body = json.dumps(body)
        self.connection.request(method, path, body, self._auth | (headers or {}))

    def end(self):
        """Read the answer to the request that was begun."""
        response = self.connection.getresponse()
        return Answer(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())

    def ask(self, method, path, body=None, headers=None):
        """A request and its answer."""
        self.begin(method, path, body, headers)
        return self.end()

    def request(self, method, params=None):
        """A JSON-RPC request of the next id."""
        return {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}}

    def begin_tool(self, tool, meta=None, **arguments):
        """Begin a call of a tool in the newest era."""
        params = {"name": tool, "arguments": arguments, "_meta": ENVELOPE | (meta or {})}
        headers = ACCEPT | NEWEST | {"Mcp-Method": "tools/call", "Mcp-Name": tool}
        self.begin("POST", "/mcp", self.request("tools/call", params), headers)

    def tool(self, tool, **arguments):
        """What a tool answers in the newest era."""
        self.begin_tool(tool, **arguments)
        return self.end().document

    def greet(self):
        """Open a session by the handshake; the answer."""
        answer = self.ask("POST", "/mcp", self.request("initialize", HELLO), ACCEPT)
        if "mcp-session-id" in answer.headers:
            self.session = HANDSHAKE | {"Mcp-Session-Id": answer.headers["mcp-session-id"]}
            self.say("notifications/initialized")
        return answer

    def say(self, method, params=None):
        """Send a notification in the session."""
        body = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        assert self.ask("POST", "/mcp", body, ACCEPT | self.session).status == 202

    def begin_old_tool(self, tool, meta=None, **arguments):
        """Begin a call in the session; the id of the request."""
        params = {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {})
        request = self.request("tools/call", params)
        self.begin("POST", "/mcp", request, ACCEPT | self.session)
        return request["id"]

    def old_tool(self, tool, **arguments):
        """What a tool answers in the session."""
        self.begin_old_tool(tool, **arguments)
        return self.end().document

    def listen(self):
        """Open the stream of the session; it stays open."""
        self.begin("GET", "/mcp", headers=ACCEPT | self.session)
        return self.connection.getresponse()

    def close(self):
        """Hang up."""
        self.connection.close()


class Live:
    """A server in a thread, its tokens, and its clients."""

    def __init__(self, board, path, *, names=(), **served):
        self.board = board
        self.tokens = TokenFile.beside(path)
        self._random = random.Random(0)
        self._clients = []
        self._made = (Serving(board, Keyring(self.tokens), **served), names)
        self.ended_in_time = None

    def start(self):
        """Start it; it serves when this returns."""
        serving, names = self._made
        listener = listen("127.0.0.1", 0)
        self.port = listener.getsockname()[1]
        self.server = Server(serving, listener, names)
        self.app = self.server._app
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        until(lambda: self.server.started)
        return self

    def _run(self):
        self.ended_in_time = asyncio.run(self.server.run_here())

    def token(self, agent, profile="all"):
        """Add a token; the secret."""
        return self.tokens.add(agent, profile, 0, self._random)[1]

    def client(self, secret=None):
        """One more client."""
        self._clients.append(Client(self.port, secret))
        return self._clients[-1]

    @property
    def url(self):
        """Where the SDK's clients connect to."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def waiting(self):
        """How many calls wait."""
        return self.app.lanes.waiting

    def stop(self):
        """Stop it, and hang up."""
        self.server.stop()
        self._thread.join(DEADLINE_SEC)
        assert not self._thread.is_alive(), "the server does not end"
        for client in self._clients:
            client.close()


@contextlib.contextmanager
def serving(board, path, **options):
    """A server for as long as this lasts."""
    live = Live(board, path, **options).start()
    try:
        yield live
    finally:
        live.stop()
