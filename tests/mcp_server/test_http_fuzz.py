"""Whatever is sent, the process goes on, nothing of it is an error of ours, and the next good call works."""

import json
import logging
import random
import socket

from agentmesh.mcp_server.tools import TABLE
from tests.mcp_server.driver import DEADLINE_SEC, ENVELOPE, HELLO
from tests.mcp_server.live import ACCEPT, HANDSHAKE, NEWEST
from tests.support.boards import event_count

CASES = 600
LINES = 150
ODD = (
    None, True, 0, -1, 2**53 + 1, 2**63, 10**400, 1e308, "", " ", "\0", "\ud800", "\u202e", "x" * 5000, "__proto__",
    "1e400", "NaN", [], {}, [[]], {"": {}}, [None] * 100, {"a": {"b": {"c": None}}},
)  # fmt: skip
KEYS = ("jsonrpc", "id", "method", "params", "name", "arguments", "_meta", "result", "error", "title", *ENVELOPE)
METHODS = ("initialize", "ping", "tools/list", "server/discover", "notifications/cancelled", "no/such", "")
GOOD = {"string": "task", "integer": 1, "number": 1, "strings": ["a"], "objects": [{"title": "t"}], "json": 1}
TEXTS = (
    b"", b"{", b"[]", b"null", b"nul", b"0", b'""', b"\xff\xfe", b"[" * 100_000, b'{"a":' * 5000, b"NaN", b'{"id":NaN}',
    b'{"jsonrpc":"2.0","id":1e400,"method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}', b"\0" * 100,
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', b'{"jsonrpc":"2.0","id":' + b"9" * 5000 + b',"method":"ping"}',
)  # fmt: skip


class Fuzz:
    """Makes requests that are wrong in some way, the same ones for the same seed."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def body(self):
        """A text that is no JSON, or a message with something wrong in it, or that with a few bytes changed."""
        if self._random.random() < 0.1:
            return self._random.choice(TEXTS)
        text = json.dumps(self._message()).encode()
        if self._random.random() < 0.3:
            text = bytearray(text)
            for _ in range(self._random.randint(1, 4)):
                text[self._random.randrange(len(text))] = self._random.randrange(256)
        return bytes(text)

    def headers(self, session):
        """Those of one of the eras, or some that do not fit."""
        eras = (NEWEST, HANDSHAKE, session, {}, {"MCP-Protocol-Version": "1999-01-01"}, {"Mcp-Session-Id": "x"})
        found = ACCEPT | self._random.choice(eras)
        return found if self._random.random() < 0.9 else found | {"Accept": "text/html"}

    def line(self):
        """The beginning of something that may be HTTP."""
        text = bytearray(
            b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n{}"
        )
        for _ in range(self._random.randint(1, 20)):
            text[self._random.randrange(len(text))] = self._random.randrange(256)
        return bytes(text[: self._random.randrange(len(text))])

    def _message(self):
        meta = dict(ENVELOPE)
        params = HELLO | self._call() | {"_meta": meta}
        message = {"jsonrpc": "2.0", "id": 1, "method": self._method(), "params": params}
        for _ in range(self._random.randint(0, 3)):
            place = self._random.choice((message, params, meta))
            place[self._random.choice(KEYS)] = self._odd()
        return message if self._random.random() < 0.9 else [message, message]

    def _method(self):
        return "tools/call" if self._random.random() < 0.7 else self._random.choice(METHODS)

    def _call(self):
        """A call with what it needs, and one argument that is odd."""
        tool = self._random.choice(TABLE)
        arguments = {argument.name: GOOD[argument.kind] for argument in tool.arguments if argument.required}
        arguments[self._random.choice([a.name for a in tool.arguments] or ["x"])] = self._odd()
        name = tool.name if self._random.random() < 0.9 else self._random.choice(("no_such", "", 1))
        return {"name": name, "arguments": arguments}

    def _odd(self):
        return self._random.choice(ODD)


def test_no_body_ends_the_server(live, caplog):
    """Each is answered with what is no error of ours, in any state of the session."""
    fuzz, client = Fuzz(1), live.client()
    client.greet()
    seen = set()
    for number in range(CASES):
        if number % 100 == 0:
            client.greet()
        answer = client.ask("POST", "/mcp", fuzz.body(), fuzz.headers(client.session))
        seen.add(answer.status)
        assert b'"internal"' not in answer.body
    assert seen <= {200, 202, 400, 404, 406}
    assert len(seen) == 5, "the fuzz reaches too little"
    _is_well(live, caplog)


def test_no_line_ends_the_server(live, caplog):
    """What is no HTTP, or the beginning of some, costs nobody else anything."""
    fuzz = Fuzz(2)
    for _ in range(LINES):
        with socket.create_connection(("127.0.0.1", live.port), DEADLINE_SEC) as line:
            line.sendall(fuzz.line())
    _is_well(live, caplog)


def _is_well(live, caplog):
    """It serves, and did not complain."""
    client, before = live.client(), event_count(live.board)
    assert client.tool("create_task", title="after all that")["state"] == "pending"
    assert event_count(live.board) == before + 1
    client.greet()
    assert client.old_tool("board_status")["total"] >= 1
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR and r.name != "asyncio"] == []
