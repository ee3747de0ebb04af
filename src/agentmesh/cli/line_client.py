"""A small MCP client on a child's stdio: JSON-RPC, one message a line.

For the demo, which must not ask its users to install an SDK. It makes one call at a time.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

PROTOCOL: Final = "2025-06-18"
_NO_SUCH_METHOD: Final = -32601
_LAST_WORDS_SEC: Final = 10


class CallFailed(Exception):
    """The server refused a call; `code` is the board's word for why."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class LineClient:
    """A session with an MCP server that runs as our child."""

    def __init__(self, command: Sequence[str], name: str) -> None:
        self._last_id = 0
        self._server = subprocess.Popen(  # noqa: S603 - our own server
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        hello = {
            "protocolVersion": PROTOCOL,
            "capabilities": {},
            "clientInfo": {"name": name, "version": "1"},
        }
        self.server_info: dict[str, Any] = self._request("initialize", hello)["serverInfo"]
        self._send({"method": "notifications/initialized"})

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._server.pid

    def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Call a tool; its structured content is the answer.

        Raises:
            CallFailed: the tool, or the server, refused.
        """
        reply = self._request("tools/call", {"name": tool, "arguments": arguments})
        content = reply.get("structuredContent") or json.loads(reply["content"][0]["text"])
        if reply.get("isError"):
            raise CallFailed(content.get("code", "error"), content.get("message", ""))
        answer: dict[str, Any] = content
        return answer

    def __enter__(self) -> Self:
        """The session, to be closed at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the session: the server leaves when its input ends."""
        if self._server.stdin is not None:
            self._server.stdin.close()
        try:
            self._server.wait(_LAST_WORDS_SEC)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        if self._server.stdout is not None:
            self._server.stdout.close()

    def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message:
                self._decline(message)
            elif message.get("id") == self._last_id:
                break
        if "error" in message:
            raise CallFailed("protocol", message["error"].get("message", ""))
        result: dict[str, Any] = message["result"]
        return result

    def _decline(self, message: dict[str, Any]) -> None:
        """Answer what the server asks of us: nothing is on offer."""
        if "id" in message:
            error = {"code": _NO_SUCH_METHOD, "message": "not offered by this client"}
            self._send({"id": message["id"], "error": error})

    def _send(self, message: dict[str, Any]) -> None:
        if self._server.stdin is None:  # pragma: no cover - we asked for the pipe
            raise ConnectionError
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()

    def _receive(self) -> dict[str, Any]:
        line = self._server.stdout.readline() if self._server.stdout is not None else ""
        if not line:
            message = "the server has ended"
            raise ConnectionError(message)
        received: dict[str, Any] = json.loads(line)
        return received
