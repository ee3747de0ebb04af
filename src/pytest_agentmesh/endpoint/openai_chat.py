"""OpenAI's chat completions, which many others have copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from agentmesh.model import Usage
from agentmesh.usage import Dialect
from pytest_agentmesh.endpoint import openai_error
from pytest_agentmesh.endpoint.form import Conversation, Spoken, SpokenCall, Stop, StreamEvent, pieces
from pytest_agentmesh.endpoint.reading import TextPart, read, text_of
from pytest_agentmesh.replies import Tool

FINISH: Final[Mapping[Stop, str]] = {"said": "stop", "calls": "tool_calls", "length": "length"}


class _Function(BaseModel):
    name: str
    arguments: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class _ToolCall(BaseModel):
    id: str
    function: _Function | None = None


class _Message(BaseModel):
    role: str
    content: str | list[TextPart] | None = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str = ""


class _Tool(BaseModel):
    function: _Function | None = None


class _StreamOptions(BaseModel):
    include_usage: bool | None = None


class _Request(BaseModel):
    model: str
    messages: list[_Message] = Field(min_length=1)
    tools: list[_Tool] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None


class OpenAIChat:
    """`POST /v1/chat/completions`."""

    dialect: Dialect = "openai_chat"

    def read(self, document: Mapping[str, Any]) -> Conversation:
        """The conversation of a request."""
        asked = read(_Request, document)
        offered = (tool.function for tool in asked.tools or () if tool.function)
        tools = tuple(Tool(each.name, each.description or "", each.parameters or {}) for each in offered)
        talk = Conversation(asked.model, bool(asked.stream), tools)
        for message in asked.messages:
            words = text_of(message.content)
            if message.role == "tool":
                talk.answer(message.tool_call_id, words)
                continue
            talk.say("system" if message.role == "developer" else message.role, words)
            for call in message.tool_calls or ():
                if call.function:
                    talk.call(call.id, call.function.name, call.function.arguments)
        return talk.finished()

    def whole(self, spoken: Spoken) -> dict[str, Any]:
        """A chat completion."""
        message: dict[str, Any] = {"role": "assistant", "content": spoken.words or None, "refusal": None}
        if spoken.calls:
            message["tool_calls"] = [_call(call) for call in spoken.calls]
        choice = {"index": 0, "message": message, "finish_reason": FINISH[spoken.stop], "logprobs": None}
        return {**_head(spoken, "chat.completion"), "choices": [choice], "usage": usage_block(spoken.usage)}

    def events(self, spoken: Spoken) -> Iterator[StreamEvent]:
        """Its chunks; the last holds the usage, if the request wants it, as the vendor's does."""
        wants_usage = bool((spoken.request.get("stream_options") or {}).get("include_usage"))
        head = {**_head(spoken, "chat.completion.chunk"), **({"usage": None} if wants_usage else {})}

        def chunk(delta: Mapping[str, Any], finish: str | None = None, *, piece: bool = False) -> StreamEvent:
            choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
            return StreamEvent({**head, "choices": [choice]}, piece=piece)

        yield chunk({"role": "assistant", "content": None if spoken.calls else "", "refusal": None})
        for piece in pieces(spoken.words):
            yield chunk({"content": piece}, piece=True)
        for index, call in enumerate(spoken.calls):
            begun = _call(SpokenCall(call.id, call.name, ""))
            yield chunk({"tool_calls": [{"index": index, **begun}]}, piece=True)
            for piece in pieces(call.arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, piece=True)
        yield chunk({}, FINISH[spoken.stop])
        if wants_usage:
            yield StreamEvent({**head, "choices": [], "usage": usage_block(spoken.usage)})
        yield StreamEvent("[DONE]")

    error = staticmethod(openai_error.error)


def usage_block(usage: Usage) -> dict[str, Any]:
    """Usage as chat completions tell it: the prompt holds what came from a cache, and what went into one."""
    prompt = usage.total_tokens - usage.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def _head(spoken: Spoken, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{spoken.id}", "object": kind, "created": spoken.at_sec, "model": spoken.model}


def _call(call: SpokenCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
