"""Anthropic's messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from agentmesh.model import Usage
from agentmesh.usage import Dialect
from pytest_agentmesh.endpoint.form import Conversation, Spoken, SpokenCall, Stop, StreamEvent, pieces
from pytest_agentmesh.endpoint.reading import TextPart, read, text_of
from pytest_agentmesh.replies import Tool

STOP: Final[Mapping[Stop, str]] = {"said": "end_turn", "calls": "tool_use", "length": "max_tokens"}
TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


class _Block(BaseModel):
    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    tool_use_id: str = ""
    content: str | list[TextPart] | None = None
    is_error: bool | None = None


class _Message(BaseModel):
    role: str
    content: str | list[_Block]


class _Tool(BaseModel):
    name: str
    description: str | None = None
    input_schema: dict[str, Any] | None = None


class _Request(BaseModel):
    model: str
    max_tokens: int = Field(ge=1)
    messages: list[_Message] = Field(min_length=1)
    system: str | list[TextPart] | None = None
    tools: list[_Tool] | None = None
    stream: bool | None = None


class AnthropicMessages:
    """`POST /v1/messages`."""

    dialect: Dialect = "anthropic"

    def read(self, document: Mapping[str, Any]) -> Conversation:
        """The conversation of a request. Tools of the vendor's own, which have no schema, are none of the agent's."""
        asked = read(_Request, document)
        offered = (tool for tool in asked.tools or () if tool.input_schema is not None)
        tools = tuple(Tool(each.name, each.description or "", each.input_schema or {}) for each in offered)
        talk = Conversation(asked.model, bool(asked.stream), tools)
        talk.say("system", text_of(asked.system))
        for message in asked.messages:
            if isinstance(message.content, str):
                talk.say(message.role, message.content)
                continue
            for block in message.content:
                if block.type == "tool_use":
                    talk.call(block.id, block.name, json.dumps(block.input))
                elif block.type == "tool_result":
                    talk.answer(block.tool_use_id, text_of(block.content), is_error=bool(block.is_error))
                else:
                    talk.say(message.role, block.text)
        return talk.finished()

    def whole(self, spoken: Spoken) -> dict[str, Any]:
        """A message."""
        words = [{"type": "text", "text": spoken.words, "citations": None}] if spoken.words else []
        uses = [{**_use(call), "input": _input(call, spoken.stop)} for call in spoken.calls]
        return {**_head(spoken), "content": [*words, *uses], "usage": usage_block(spoken.usage)}

    def events(self, spoken: Spoken) -> Iterator[StreamEvent]:
        """The events of a message."""
        for told, piece in _events(spoken):
            yield StreamEvent(told, name=told["type"], piece=piece)

    def error(self, status: int, message: str) -> tuple[int, dict[str, Any]]:
        """An error."""
        kind = TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")  # noqa: PLR2004 - as HTTP has it
        return status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": None}


def usage_block(usage: Usage) -> dict[str, Any]:
    """Usage as Anthropic tells it: what has to do with a cache stands beside the input."""
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
    }


def _events(spoken: Spoken) -> Iterator[tuple[dict[str, Any], bool]]:
    """Each event, and whether it brings a part of what the model says."""
    usage = usage_block(spoken.usage)
    empty = {**_head(spoken), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": empty}, False
    blocks: list[tuple[dict[str, Any], str, str, str]] = []
    if spoken.words:
        blocks.append(({"type": "text", "text": "", "citations": None}, "text_delta", "text", spoken.words))
    blocks += [
        ({**_use(call), "input": {}}, "input_json_delta", "partial_json", call.arguments) for call in spoken.calls
    ]
    for index, (begun, kind, field, told) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": begun}, True
        for piece in pieces(told):
            yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: piece}}, True
        yield {"type": "content_block_stop", "index": index}, False
    stopped = {"stop_reason": STOP[spoken.stop], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stopped, "usage": usage}, False
    yield {"type": "message_stop"}, False


def _head(spoken: Spoken) -> dict[str, Any]:
    told = {"id": f"msg_{spoken.id}", "type": "message", "role": "assistant", "model": spoken.model}
    return {**told, "stop_reason": STOP[spoken.stop], "stop_sequence": None}


def _use(call: SpokenCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _input(call: SpokenCall, stop: Stop) -> Any:
    """The arguments as an object. Of half ones the vendor tells nothing; garbled ones are told as they are."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return {} if stop == "length" else call.arguments
