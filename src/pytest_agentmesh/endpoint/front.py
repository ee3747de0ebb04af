"""The HTTP side: a thread accepts, a thread serves each connection, and all are gone when it is closed."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Lock, Thread
from typing import Any

from pytest_agentmesh.endpoint.form import StreamEvent


@dataclass(frozen=True, slots=True)
class Asked:
    """A request; `key` is what it shows to say whose it is."""

    path: str
    key: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """What is sent: a document, or events. `broken`: only half of the document, or no end of the stream."""

    status: int
    told: Mapping[str, Any] | Iterator[StreamEvent]
    headers: Mapping[str, str] = field(default_factory=dict)
    broken: bool = False


Respond = Callable[[Asked], Sent | None]
"""Answers a request; None closes the connection without a word."""


class Front(ThreadingTCPServer):
    """Serves on a free port of loopback from the moment it is made until it is closed.

    It is no `HTTPServer`, which asks the name service who 127.0.0.1 is.
    """

    allow_reuse_address = True
    daemon_threads = False
    request_queue_size = 128  # the default of 5 turns away agents that begin together

    def __init__(self, respond: Respond, crashed: Callable[[BaseException], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.respond = respond
        self._crashed = crashed
        self._connections: set[socket.socket] = set()
        self._lock = Lock()
        self._closing = False
        self._thread = Thread(target=self._serve, name="mesh_model")
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def close(self) -> None:
        """End at once: connections are cut, threads waited for. Whoever waits in `respond` must have been let go."""
        with self._lock:
            if self._closing:
                return
            self._closing = True
            for connection in self._connections:
                _cut(connection)
        socket.create_connection(("127.0.0.1", self.server_address[1])).close()  # it wakes the thread that accepts
        self._thread.join()
        self.server_close()

    def _serve(self) -> None:
        while not self._closing:  # serve_forever would look at a flag every so often: slow to end, or busy
            self.handle_request()

    def verify_request(self, request: Any, _client_address: Any) -> bool:
        """Take a connection, unless it is only there to wake us."""
        with self._lock:
            if not self._closing:
                self._connections.add(request)
            return not self._closing

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that is over."""
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """Nothing is printed: whoever owns the front is told."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):  # a client may go when it likes
            self._crashed(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Front

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: what came is kept, and told when a test fails."""

    def do_POST(self) -> None:
        """Answer a request."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()):
            self.send_error(411)
            return
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # the client has gone, or we are going
            self.close_connection = True
            return
        bearer = self.headers.get("Authorization", "").removeprefix("Bearer ")
        key = self.headers.get("x-api-key") or bearer
        self._send(self.server.respond(Asked(self.path.partition("?")[0], key, body)))

    def do_GET(self) -> None:
        """There is nothing to be fetched."""
        self.send_error(404)

    def _send(self, sent: Sent | None) -> None:
        if sent is None:
            self.close_connection = True
        elif isinstance(sent.told, Mapping):
            self._send_whole(sent, json.dumps(sent.told).encode())
        else:
            self._send_stream(sent, sent.told)

    def _send_whole(self, sent: Sent, body: bytes) -> None:
        self._head(sent, {"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body[: len(body) // 2] if sent.broken else body)
        self.close_connection |= sent.broken

    def _send_stream(self, sent: Sent, events: Iterator[StreamEvent]) -> None:
        self._head(sent, {"Content-Type": "text/event-stream; charset=utf-8", "Transfer-Encoding": "chunked"})
        for event in events:
            data = event.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if not sent.broken:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection |= sent.broken

    def _head(self, sent: Sent, headers: Mapping[str, str]) -> None:
        self.send_response(sent.status)
        for name, value in {**headers, **sent.headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _cut(connection: socket.socket) -> None:
    """End both directions of a connection, which wakes the thread that reads from it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the client was faster
