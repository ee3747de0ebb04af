"""MCP for a server of tools: both eras of the protocol, as functions on decoded messages.

Why not the SDK, on stdio: every agent starts a server of its own, and importing the SDK alone costs
a multiple of what the whole server costs (the figures are in `stdio`). Its clients are the oracle
of our tests instead.

The eras: up to 2025-11-25 a client opens with `initialize`. From 2026-07-28 on it does not; each
request carries its version and the client's capabilities in `params._meta` (the envelope), and
`server/discover` tells what is there. Each request is served in the era that it shows itself, so
nothing depends on which came first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from agentmesh.model import Json

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
ENVELOPE: Final = ("2026-07-28",)
BATCHING: Final = "2025-03-26"
"""The only version in which a message may be an array of messages."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
UNSUPPORTED_VERSION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_KEY: Final = "io.modelcontextprotocol/serverInfo"

CACHEABLE: Final = frozenset({"server/discover", "tools/list"})
CACHE: Final = {"ttlMs": 3_600_000, "cacheScope": "private"}
"""Tools are constants of the process."""

Id = str | int
Message = dict[str, Json]


class Refused(Exception):
    """A message that is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, *, data: Json = None, request_id: Id | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.request_id = request_id


@dataclass(frozen=True, slots=True)
class Request:
    """A request; `enveloped` if it is of the era without a handshake."""

    id: Id
    method: str
    params: Message

    @property
    def meta(self) -> Message:
        """Its `_meta`, empty if it has none."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def enveloped(self) -> bool:
        """Whether it shows itself to be of the era without a handshake."""
        return VERSION_KEY in self.meta and self.method != "initialize"

    @property
    def progress_token(self) -> Id | None:
        """What the client wants progress to be reported under."""
        token = self.meta.get("progressToken")
        return token if is_id(token) else None


@dataclass(frozen=True, slots=True)
class Notification:
    """A message that wants no answer."""

    method: str
    params: Message


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tools/call that is in order as far as the protocol goes."""

    request: Request
    name: str
    arguments: Message


def is_id(value: Json) -> TypeGuard[Id]:
    """Whether this may be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def decoded(line: bytes) -> Json:
    """The JSON of a line.

    Raises:
        Refused: it is no JSON.
    """
    try:
        return json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "Parse error: this line is not one JSON value.") from None


def _no_constant(_: str) -> Json:
    raise ValueError


def read(message: Json) -> Request | Notification | None:
    """Tell what a message is; None for a response, since this server asks nothing.

    Raises:
        Refused: it is no JSON-RPC message, or one that MCP does not allow.
    """
    if not isinstance(message, dict):
        raise Refused(INVALID_REQUEST, "A message is a JSON object.")
    own_id = message.get("id")
    known_id = own_id if is_id(own_id) else None
    if message.get("jsonrpc") != "2.0":
        raise Refused(INVALID_REQUEST, 'jsonrpc must be "2.0".', request_id=known_id)
    if "method" not in message and ("result" in message or "error" in message):
        return None
    method, params = message.get("method"), message.get("params")
    if not isinstance(method, str):
        raise Refused(INVALID_REQUEST, "method must be a string.", request_id=known_id)
    if "id" not in message:
        return Notification(method, params if isinstance(params, dict) else {})
    if known_id is None:
        raise Refused(INVALID_REQUEST, "id must be a string or a whole number.")
    if params is not None and not isinstance(params, dict):
        raise Refused(INVALID_PARAMS, "params must be an object.", request_id=known_id)
    return Request(known_id, method, params or {})


def success(request: Request, result: Message, server: Message) -> Message:
    """The answer with a result, in the form of the request's era."""
    if request.enveloped:
        result = {"resultType": "complete", **result, "_meta": {SERVER_KEY: server}}
        if request.method in CACHEABLE:
            result |= CACHE
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def failure(refused: Refused, request_id: Id | None = None) -> Message:
    """The answer with an error; its id is null where the message's own could not be read."""
    error: Message = {"code": refused.code, "message": str(refused)}
    if refused.data is not None:
        error["data"] = refused.data
    own_id = request_id if request_id is not None else refused.request_id
    return {"jsonrpc": "2.0", "id": own_id, "error": error}


def progress(token: Id, done: float, total: float) -> Message:
    """The notification that a call is still waiting."""
    params = {"progressToken": token, "progress": done, "total": total}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


class Conversation:
    """What the server tells one client about itself, and the version the two agreed on, if any."""

    def __init__(self, server: Message, instructions: str, tools: Sequence[Message]) -> None:
        self.server = server
        self.version: str | None = None
        self._about = {"capabilities": {"tools": {}}, "instructions": instructions}
        self._tools = list(tools)
        self._names = frozenset(tool["name"] for tool in tools)

    @property
    def takes_batches(self) -> bool:
        """Whether an array of messages is in order."""
        return self.version == BATCHING

    def answer(self, request: Request) -> Message | ToolCall:
        """The result of a request, or the call of a tool that it asks for.

        Raises:
            Refused: it is not in order.
        """
        if request.enveloped:
            _check_envelope(request.meta)
        match request.method:
            case "initialize":
                return self._initialize(request.params)
            case "ping" | "logging/setLevel" if not request.enveloped:
                return {}
            case "server/discover" | "tools/list" | "tools/call":
                self._check_opened(request)
            case _:
                raise Refused(METHOD_NOT_FOUND, "Method not found.")
        if request.method == "server/discover":
            return {"supportedVersions": list(ENVELOPE), **self._about}
        return self._list(request.params) if request.method == "tools/list" else self._call(request)

    def _initialize(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise Refused(INVALID_PARAMS, "protocolVersion must be a string.")
        self.version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
        return {"protocolVersion": self.version, "serverInfo": self.server, **self._about}

    def _check_opened(self, request: Request) -> None:
        """A request without an envelope needs the handshake before it."""
        if request.enveloped or (self.version is not None and request.method != "server/discover"):
            return
        raise Refused(
            INVALID_PARAMS,
            "Begin with initialize, or give each request the 2026-07-28 envelope: params._meta with "
            f"{VERSION_KEY!r} and {CAPABILITIES_KEY!r}.",
        )

    def _list(self, params: Message) -> Message:
        if params.get("cursor") is not None:
            raise Refused(INVALID_PARAMS, "Unknown cursor: the list has one page.")
        return {"tools": self._tools}

    def _call(self, request: Request) -> ToolCall:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str):
            raise Refused(INVALID_PARAMS, "name must be a string.")
        if arguments is not None and not isinstance(arguments, dict):
            raise Refused(INVALID_PARAMS, "arguments must be an object.")
        if name not in self._names:
            raise Refused(INVALID_PARAMS, "Unknown tool: call one that tools/list shows.")
        return ToolCall(request, name, arguments or {})


def _check_envelope(meta: dict[str, Any]) -> None:
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise Refused(INVALID_PARAMS, f"params._meta must have the object {CAPABILITIES_KEY!r}.")
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, f"{VERSION_KEY!r} must be a string.")
    if version not in ENVELOPE:
        data = {"supported": list(ENVELOPE), "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version.", data=data)
