"""OpenAI's responses. A request may name the response it goes on from: then the endpoint remembers, not the agent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from agentmesh.model import Usage
from agentmesh.usage import Dialect
from pytest_agentmesh.endpoint import openai_error
from pytest_agentmesh.endpoint.form import BadRequest, Conversation, Spoken, SpokenCall, StreamEvent, pieces
from pytest_agentmesh.endpoint.reading import TextPart, read, text_of
from pytest_agentmesh.replies import Tool

CALL: Final = "function_call"
RESULT: Final = "function_call_output"


class _Item(BaseModel):
    type: str = "message"
    role: str = "assistant"
    content: str | list[TextPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[TextPart] | None = None


class _Tool(BaseModel):
    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _Request(BaseModel):
    model: str
    input: str | list[_Item] = Field(min_length=1)
    instructions: str | None = None
    tools: list[_Tool] | None = None
    stream: bool | None = None
    previous_response_id: str | None = None


class OpenAIResponses:
    """`POST /v1/responses`."""

    dialect: Dialect = "openai_responses"

    def __init__(self) -> None:
        self._known: dict[str, list[_Item]] = {}

    def read(self, document: Mapping[str, Any]) -> Conversation:
        """The conversation of a request, what it goes on from included."""
        asked = read(_Request, document)
        functions = (tool for tool in asked.tools or () if tool.type == "function")
        tools = tuple(Tool(each.name, each.description or "", each.parameters or {}) for each in functions)
        talk = Conversation(asked.model, bool(asked.stream), tools)
        talk.say("system", asked.instructions or "")
        for item in self._items(asked):
            if item.type == CALL:
                talk.call(item.call_id, item.name, item.arguments)
            elif item.type == RESULT:
                talk.answer(item.call_id, text_of(item.output))
            elif item.type == "message":
                talk.say("system" if item.role == "developer" else item.role, text_of(item.content))
        return talk.finished()

    def whole(self, spoken: Spoken) -> dict[str, Any]:
        """A response; it is remembered."""
        output = _output(spoken)
        asked = read(_Request, spoken.request)
        self._known[_id(spoken)] = [*self._items(asked), *(read(_Item, item) for item in output)]
        cut = spoken.stop == "length"
        return {
            **_head(spoken),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": output,
            "usage": usage_block(spoken.usage),
        }

    def events(self, spoken: Spoken) -> Iterator[StreamEvent]:
        """The events of a response, numbered."""
        for number, (kind, told) in enumerate(self._events(spoken)):
            yield StreamEvent(
                {"type": kind, "sequence_number": number, **told},
                name=kind,
                piece=kind.endswith(".delta"),
            )

    def _events(self, spoken: Spoken) -> Iterator[tuple[str, dict[str, Any]]]:
        begun = {**_head(spoken), "status": "in_progress", "output": [], "usage": None}
        yield "response.created", {"response": begun}
        yield "response.in_progress", {"response": begun}
        for index, item in enumerate(_output(spoken)):
            empty: dict[str, Any] = {"arguments": ""} if item["type"] == CALL else {"content": []}
            yield (
                "response.output_item.added",
                {"output_index": index, "item": {**item, **empty, "status": "in_progress"}},
            )
            place = {"output_index": index, "item_id": item["id"]}
            yield from _call_events(item, place) if item["type"] == CALL else _text_events(item, place)
            yield "response.output_item.done", {"output_index": index, "item": item}
        ended = self.whole(spoken)
        yield f"response.{ended['status']}", {"response": ended}

    def _items(self, asked: _Request) -> list[_Item]:
        """All items of the conversation, oldest first."""
        before: list[_Item] = []
        if asked.previous_response_id is not None:
            known = self._known.get(asked.previous_response_id)
            if known is None:
                raise BadRequest("there is no response with the id in previous_response_id")
            before = known
        new = [_Item(role="user", content=asked.input)] if isinstance(asked.input, str) else asked.input
        return [*before, *new]

    error = staticmethod(openai_error.error)


def usage_block(usage: Usage) -> dict[str, Any]:
    """Usage as responses tell it: the input holds what came from a cache, and what went into one."""
    return {
        "input_tokens": usage.total_tokens - usage.output_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }


def _text_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    part, at = item["content"][0], {**place, "content_index": 0}
    yield "response.content_part.added", {**at, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield "response.output_text.delta", {**at, "delta": piece, "logprobs": []}
    yield "response.output_text.done", {**at, "text": part["text"], "logprobs": []}
    yield "response.content_part.done", {**at, "part": part}


def _call_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for piece in pieces(item["arguments"]):
        yield "response.function_call_arguments.delta", {**place, "delta": piece}
    yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}


def _id(spoken: Spoken) -> str:
    return f"resp_{spoken.id}"


def _head(spoken: Spoken) -> dict[str, Any]:
    """What a response says of itself from the first event on; the SDK requires the fields of the request."""
    request = spoken.request
    return {
        "id": _id(spoken),
        "object": "response",
        "created_at": spoken.at_sec,
        "model": spoken.model,
        "error": None,
        "incomplete_details": None,
        "instructions": request.get("instructions"),
        "metadata": request.get("metadata") or {},
        "parallel_tool_calls": request.get("parallel_tool_calls", True),
        "previous_response_id": request.get("previous_response_id"),
        "temperature": request.get("temperature", 1.0),
        "tool_choice": request.get("tool_choice", "auto"),
        "tools": request.get("tools") or [],
        "top_p": request.get("top_p", 1.0),
    }


def _output(spoken: Spoken) -> list[dict[str, Any]]:
    """The items that the model adds to the conversation."""
    last = len(spoken.calls) - 1 if spoken.calls else -1
    status = {
        index: "incomplete" if spoken.stop == "length" and index == last else "completed"
        for index in range(-1, last + 1)
    }
    said = {"type": "output_text", "text": spoken.words, "annotations": [], "logprobs": []}
    message = {
        "id": f"msg_{spoken.id}",
        "type": "message",
        "role": "assistant",
        "status": status[-1],
        "content": [said],
    }
    return [
        *([message] if spoken.words or not spoken.calls else []),
        *({**_call(call), "status": status[index]} for index, call in enumerate(spoken.calls)),
    ]


def _call(call: SpokenCall) -> dict[str, Any]:
    return {"id": f"fc_{call.id}", "type": CALL, "call_id": call.id, "name": call.name, "arguments": call.arguments}
