"""The messages of MCP in both eras of the protocol, as functions on decoded JSON.

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
from dataclasses import dataclass
from typing import Final, TypeGuard

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

SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"

LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""Each list, and the key under which its answer has it."""

KEPT_MS: Final = dict.fromkeys(("server/discover", *LISTS), 3_600_000) | {"resources/read": 0}
"""How long a client may keep an answer: lists are constants of the process, what stands on the board is none."""

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


def is_id(value: Json) -> TypeGuard[Id]:
    """Whether this may be the id of a request."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def decoded(line: bytes) -> Json:
    """The JSON of a line.

    Raises:
        Refused: it is no JSON.
    """
    try:
        return _DECODER.decode(line.decode())
    except (ValueError, RecursionError):
        raise Refused(PARSE_ERROR, "Parse error: this line is not one JSON value.") from None


def _no_constant(_: str) -> Json:
    raise ValueError


_DECODER: Final = json.JSONDecoder(parse_constant=_no_constant)
"""Made once: `json.loads` makes one for each call that is not plain."""


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
        meta = {**result.get("_meta", {}), SERVER_KEY: server}
        result = {"resultType": "complete", **result, "_meta": meta}
        if request.method in KEPT_MS:
            result |= {"ttlMs": KEPT_MS[request.method], "cacheScope": "private"}
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


def acknowledged(subscription: Id, uris: list[str]) -> Message:
    """The notification that a subscription holds, and for which resources."""
    params = {
        "notifications": {"resourceSubscriptions": uris} if uris else {},
        "_meta": {SUBSCRIPTION_KEY: subscription},
    }
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}


def updated(uri: str, subscription: Id | None = None) -> Message:
    """The notification that a resource changed; in the newer era it names the subscription."""
    params: Message = {"uri": uri}
    if subscription is not None:
        params["_meta"] = {SUBSCRIPTION_KEY: subscription}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
