"""What the forms of the vendors have in common: a conversation read, an answer to be told, an event of a stream."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

from agentmesh.model import Usage
from agentmesh.usage import Dialect
from pytest_agentmesh.replies import Message, Tool, ToolResult

Stop = Literal["said", "calls", "length"]
LOST: Final = "the agent's loop dropped a message: every tool call is followed by its result"
PIECE: Final = 16
"""How many characters an event of a stream brings."""


class Unanswered(Exception):
    """A request that gets no answer; `likely` says why, as far as one can tell."""

    def __init__(self, what: str, likely: str = "") -> None:
        super().__init__(what)
        self.likely = likely


class BadRequest(Unanswered):
    """The vendor would not take this request."""


class ScriptError(Unanswered):
    """The script has no answer to this request."""


@dataclass(frozen=True, slots=True)
class SpokenCall:
    """A tool call as it is told; its arguments are text, which need not be JSON."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """An answer as it is told, and the request that it answers; `id` tells it from all others of the endpoint."""

    request: Mapping[str, Any]
    id: str
    model: str
    at_sec: int
    words: str
    calls: tuple[SpokenCall, ...]
    usage: Usage
    stop: Stop


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """A server-sent event; `piece` if it brings a part of what the model says."""

    data: Mapping[str, Any] | str
    name: str | None = None
    piece: bool = False

    def encode(self) -> bytes:
        """Its bytes in the stream."""
        told = self.data if isinstance(self.data, str) else json.dumps(self.data)
        return (f"event: {self.name}\n" if self.name else "").encode() + f"data: {told}\n\n".encode()


@dataclass(slots=True)
class Conversation:
    """A request that is being read. A vendor refuses tool results out of the blue and calls left without one."""

    model: str
    stream: bool
    tools: tuple[Tool, ...]
    messages: list[Message] = field(default_factory=list)
    results: list[ToolResult] = field(default_factory=list)
    spoken_chars: int = 0
    _open: dict[str, str] = field(default_factory=dict)
    _called: dict[str, str] = field(default_factory=dict)

    def say(self, role: str, words: str) -> None:
        """Somebody said something; nothing is no message."""
        if words:
            self.messages.append(Message(role, words))

    def call(self, call_id: str, name: str, arguments: str) -> None:
        """The model called a tool."""
        self._open[call_id] = self._called[call_id] = name
        self.spoken_chars += len(name) + len(arguments)

    def answer(self, call_id: str, words: str, *, is_error: bool = False) -> None:
        """A tool answered.

        Raises:
            BadRequest: nobody called it.
        """
        name = self._called.get(call_id)
        if name is None:
            raise BadRequest(f"there is a result for tool call {call_id}, but no such call before it", LOST)
        self._open.pop(call_id, None)
        tool = next((tool for tool in self.tools if tool.name == name), Tool(name, "", {}))
        self.results.append(ToolResult(tool, call_id, words, is_error))
        self.messages.append(Message("tool", words))

    def finished(self) -> Conversation:
        """The same, if it is whole.

        Raises:
            BadRequest: a tool call has no result.
        """
        if self._open:
            left = ", ".join(f"{name} ({call_id})" for call_id, name in self._open.items())
            raise BadRequest(f"tool calls without a result: {left}", LOST)
        return self

    @property
    def chars(self) -> int:
        """How long it is: all that was said, called and answered, and the tools."""
        said = sum(len(message.text) for message in self.messages)
        offered = (len(tool.name) + len(tool.description) + len(json.dumps(tool.schema)) for tool in self.tools)
        return said + self.spoken_chars + sum(offered)


class Form(Protocol):
    """A vendor's API: how a request is read, and an answer or an error told."""

    @property
    def dialect(self) -> Dialect:
        """The name of its usage block."""

    def read(self, document: Mapping[str, Any]) -> Conversation:
        """The conversation of a request.

        Raises:
            BadRequest: it is not of this form.
        """

    def whole(self, spoken: Spoken) -> dict[str, Any]:
        """The answer in one document."""

    def events(self, spoken: Spoken) -> Iterator[StreamEvent]:
        """The answer in pieces."""

    def error(self, status: int, message: str) -> tuple[int, dict[str, Any]]:
        """An error: the status that this vendor gives it, and its document."""


def pieces(told: str) -> Iterator[str]:
    """A text as it streams."""
    return (told[start : start + PIECE] for start in range(0, len(told), PIECE))
