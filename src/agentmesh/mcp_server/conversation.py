"""What one client may ask: each request is checked as far as the protocol goes, and either answered or handed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentmesh.mcp_server.protocol import (
    BATCHING,
    CAPABILITIES_KEY,
    ENVELOPE,
    HANDSHAKE,
    INVALID_PARAMS,
    LISTS,
    METHOD_NOT_FOUND,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Message,
    Refused,
    Request,
)
from agentmesh.model import Json

EITHER: Final = frozenset({*LISTS, "tools/call", "resources/read", "prompts/get"})
OLDER: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
NEWER: Final = frozenset({"server/discover", "subscriptions/listen"})
"""The methods of both eras, and those that only one of them has."""

CAPABILITIES: Final = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}


class ToolCall(NamedTuple):
    """A tools/call that is in order as far as the protocol goes."""

    name: str
    arguments: Message


class PromptGet(NamedTuple):
    """A prompts/get of a prompt that is there."""

    name: str
    arguments: Message


class ResourceRead(NamedTuple):
    """A resources/read."""

    uri: str


class Subscribe(NamedTuple):
    """A resources/subscribe, or with `ends` a resources/unsubscribe."""

    uri: str
    ends: bool


class Listen(NamedTuple):
    """A subscriptions/listen for changes of these resources."""

    uris: tuple[str, ...]


Ask = ToolCall | PromptGet | ResourceRead | Subscribe | Listen
"""What the conversation cannot answer by itself."""


class Conversation:
    """What the server tells one client about itself, and the version the two agreed on, if any."""

    def __init__(self, server: Message, instructions: str, lists: Mapping[str, Sequence[Message]]) -> None:
        """Begin a conversation.

        Args:
            server: Who answers.
            instructions: What a client's model is told.
            lists: What there is, under the keys of `LISTS`.
        """
        self.server = server
        self.version: str | None = None
        self._about = {"capabilities": CAPABILITIES, "instructions": instructions}
        self._lists = {key: list(lists[key]) for key in LISTS.values()}
        self._names = {key: frozenset(listed["name"] for listed in lists[key]) for key in ("tools", "prompts")}

    @property
    def takes_batches(self) -> bool:
        """Whether an array of messages is in order."""
        return self.version == BATCHING

    def answer(self, request: Request) -> Message | Ask:
        """The result of a request, or what it asks for.

        Raises:
            Refused: it is not in order.
        """
        method = request.method
        if request.enveloped:
            _check_envelope(request.meta)
        if method == "initialize":
            return self._initialize(request.params)
        if method not in EITHER | (NEWER if request.enveloped else OLDER | NEWER):
            raise Refused(METHOD_NOT_FOUND, "Method not found.")
        if method in ("ping", "logging/setLevel"):
            return {}
        self._check_opened(request)
        if method == "server/discover":
            return {"supportedVersions": list(ENVELOPE), **self._about}
        if method in LISTS:
            return self._list(LISTS[method], request.params)
        return self._ask(method, request.params)

    def _initialize(self, params: Message) -> Message:
        asked = params.get("protocolVersion")
        if not isinstance(asked, str):
            raise Refused(INVALID_PARAMS, "protocolVersion must be a string.")
        self.version = asked if asked in HANDSHAKE else HANDSHAKE[-1]
        return {"protocolVersion": self.version, "serverInfo": self.server, **self._about}

    def _check_opened(self, request: Request) -> None:
        """A request without an envelope needs the handshake before it."""
        if request.enveloped or (self.version is not None and request.method not in NEWER):
            return
        raise Refused(
            INVALID_PARAMS,
            "Begin with initialize, or give each request the 2026-07-28 envelope: params._meta with "
            f"{VERSION_KEY!r} and {CAPABILITIES_KEY!r}.",
        )

    def _list(self, key: str, params: Message) -> Message:
        if params.get("cursor") is not None:
            raise Refused(INVALID_PARAMS, "Unknown cursor: the list has one page.")
        return {key: self._lists[key]}

    def _ask(self, method: str, params: Message) -> Ask:
        match method:
            case "tools/call":
                return ToolCall(self._named("tools", params), _arguments(params))
            case "prompts/get":
                return PromptGet(self._named("prompts", params), _arguments(params))
            case "resources/read":
                return ResourceRead(_text(params, "uri"))
            case "subscriptions/listen":
                return Listen(_uris(params.get("notifications")))
            case _:
                return Subscribe(_text(params, "uri"), ends=method == "resources/unsubscribe")

    def _named(self, key: str, params: Message) -> str:
        name = _text(params, "name")
        if name not in self._names[key]:
            raise Refused(INVALID_PARAMS, f"Unknown {key[:-1]}: name one that {key}/list shows.")
        return name


def _text(params: Message, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise Refused(INVALID_PARAMS, f"{name} must be a string.")
    return value


def _arguments(params: Message) -> Message:
    arguments = params.get("arguments")
    if arguments is not None and not isinstance(arguments, dict):
        raise Refused(INVALID_PARAMS, "arguments must be an object.")
    return arguments or {}


def _uris(wanted: Json) -> tuple[str, ...]:
    """The resources among what a client wants to hear of; lists never change here."""
    uris = wanted.get("resourceSubscriptions") if isinstance(wanted, dict) else None
    if not isinstance(wanted, dict) or not isinstance(uris, list | None):
        raise Refused(INVALID_PARAMS, "notifications must be an object, resourceSubscriptions in it a list of URIs.")
    if not all(isinstance(uri, str) for uri in uris or ()):
        raise Refused(INVALID_PARAMS, "resourceSubscriptions must be a list of URIs.")
    return tuple(uris or ())


def _check_envelope(meta: dict[str, Any]) -> None:
    if not isinstance(meta.get(CAPABILITIES_KEY), dict):
        raise Refused(INVALID_PARAMS, f"params._meta must have the object {CAPABILITIES_KEY!r}.")
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise Refused(INVALID_PARAMS, f"{VERSION_KEY!r} must be a string.")
    if version not in ENVELOPE:
        data = {"supported": list(ENVELOPE), "requested": version}
        raise Refused(UNSUPPORTED_VERSION, "Unsupported protocol version.", data=data)
