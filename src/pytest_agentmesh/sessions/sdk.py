"""The MCP SDK of the user's environment, and what its majors do not have in common.

Frameworks pin it: `langchain-mcp-adapters` and CrewAI to 1.x, others allow 2.x. So nothing of it is imported before a
session is opened, and only this module knows which one is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final

from agentmesh.model import Json

Message = dict[str, Json]

OLDER_TIMEOUT: Final = 408
NEWER_TIMEOUT: Final = -32001
"""What each major itself says when an answer does not come in time."""

CLOSED: Final = -32000
"""What both say when the connection has gone."""


class MissingSdk(ImportError):
    """A session needs the MCP SDK, and none that it can use is installed."""

    def __init__(self) -> None:
        super().__init__("mesh_session needs the MCP SDK, 1.9 or newer, which is not installed here: pip install mcp")


class Sdk:
    """The SDK that is installed. It is the same everywhere: `load` gives it."""

    def __init__(self) -> None:
        try:
            self._mcp = import_module("mcp")
            self._types: Any = import_module("mcp.types")
            self._message = import_module("mcp.shared.message")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "mcp":
                raise
            raise MissingSdk from error
        self.newer = hasattr(self._mcp, "MCPError")

    def session(self, read: object, write: object, options: dict[str, Any]) -> Any:
        """A client's session on these streams; the options are the SDK's own."""
        return self._mcp.ClientSession(read, write, **options)

    def line(self, item: Any) -> bytes:
        """A message on its way out, as one line."""
        return str(item.message.model_dump_json(by_alias=True, **self._sparing())).encode() + b"\n"

    def item(self, line: bytes | str) -> Any:
        """A line that came in, as the message that a session takes; if it is none, the error, which it takes too."""
        try:
            if self.newer:
                message = self._types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            else:
                message = self._types.JSONRPCMessage.model_validate_json(line)
        except ValueError as error:
            return error
        return self._message.SessionMessage(message)

    def document(self, item: Any) -> Message:
        """A message as JSON; empty for an error of the transport."""
        if isinstance(item, Exception):
            return {}
        return dict(item.message.model_dump(by_alias=True, mode="json", **self._sparing()))

    def altered(self, item: Any, request_id: Json, params: Message) -> Any:
        """A request under another id, with other parameters."""
        message = item.message if self.newer else item.message.root
        copy = message.model_copy(update={"id": request_id, "params": params})
        return self._message.SessionMessage(copy if self.newer else type(item.message)(copy), item.metadata)

    def refusal(self, request_id: Json, code: int, words: str) -> Any:
        """An answer that is an error."""
        error = self._types.ErrorData(code=code, message=words)
        answer = self._types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
        return self._message.SessionMessage(answer if self.newer else self._types.JSONRPCMessage(answer))

    def over_http(self, url: str, headers: Mapping[str, str]) -> tuple[Any, Any]:
        """A client of HTTP and, within it, the two streams of a session over it. Only of a newer SDK."""
        client = import_module("httpx2").AsyncClient(headers=dict(headers), timeout=None)
        streams = import_module("mcp.client.streamable_http").streamable_http_client
        return client, streams(url, http_client=client, terminate_on_close=False)  # its server ends with it

    @property
    def timeout_code(self) -> int:
        """The code of the error that a session raises when an answer does not come in time."""
        return NEWER_TIMEOUT if self.newer else OLDER_TIMEOUT

    def timed_out(self, words: str) -> Exception:
        """The error that a session raises when an answer does not come in time."""
        if self.newer:
            raisable: Exception = self._mcp.MCPError(code=self.timeout_code, message=words)
        else:
            raisable = self._mcp.McpError(self._types.ErrorData(code=self.timeout_code, message=words))
        return raisable

    def _sparing(self) -> dict[str, bool]:
        """What is left out of a message, as its own transports do it."""
        return {"exclude_unset": True} if self.newer else {"exclude_none": True}


@cache
def load() -> Sdk:
    """The SDK.

    Raises:
        MissingSdk: there is none.
    """
    return Sdk()
