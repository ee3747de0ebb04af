"""Runs beside the vendors' SDKs, in their own environment: talks to the endpoint at argv[1], and tells what came of it.

Each conversation has an agent of its own, named `dialect.name`. What the SDK got is held against its own types, which
are strict here, as they are not when it reads an answer.
"""

import asyncio
import json
import sys

import anthropic
import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

ROOT = sys.argv[1]
SCHEMA = {"type": "object", "properties": {"agent_id": {"type": "string"}}, "additionalProperties": False}
TOOL = "mcp__agentmesh__claim_task"
RESULT = '{"task": "t1"}'
QUICK = {"max_retries": 0}


def strict(kind, told):
    """What the SDK was told, as it is, if its own type takes it."""
    TypeAdapter(kind).validate_python(told.model_dump(exclude_unset=True), strict=False, extra="forbid")
    return told


def outcome(function, *arguments):
    """What a call gives, or the name of the error that it ends in."""
    try:
        return function(*arguments)
    except (openai.APIError, anthropic.APIError) as error:
        return type(error).__name__
    except Exception as error:  # noqa: BLE001 - also what the library below the SDKs raises
        return f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}"


class Chat:
    """OpenAI's chat completions."""

    dialect = "openai_chat"
    tools = ({"type": "function", "function": {"name": TOOL, "parameters": SCHEMA}},)

    def __init__(self, name, **options):
        self.client = openai.OpenAI(base_url=f"{ROOT}/v1", api_key=f"mesh-{self.dialect}.{name}", **options)
        self.messages = [{"role": "user", "content": "Work."}]

    def ask(self, **more):
        """The answer in one piece."""
        made = self.client.chat.completions.create(model="gpt-5", messages=self.messages, tools=self.tools, **more)
        return self.told(strict(ChatCompletion, made))

    def stream(self):
        """The answer in pieces, put together by the SDK."""
        with self.client.chat.completions.stream(
            model="gpt-5", messages=self.messages, tools=self.tools, stream_options={"include_usage": True}
        ) as stream:
            for event in stream:
                if event.type == "chunk":
                    strict(ChatCompletionChunk, event.chunk)
            return self.told(stream.get_final_completion())

    def told(self, made):
        """What matters of an answer."""
        [choice] = made.choices
        self.messages.append(choice.message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        calls = [[call.id, call.function.name, call.function.arguments] for call in choice.message.tool_calls or ()]
        return {
            "words": choice.message.content or "",
            "calls": [call[1:] for call in calls],
            "stop": choice.finish_reason,
            "usage": made.usage.model_dump(exclude_unset=True),
            "ids": [call[0] for call in calls],
        }

    def result(self, call_id):
        """Hand in the result of a tool."""
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": RESULT})


class Responses:
    """OpenAI's responses."""

    dialect = "openai_responses"
    tools = ({"type": "function", "name": TOOL, "parameters": SCHEMA, "strict": False},)

    def __init__(self, name, **options):
        self.client = openai.OpenAI(base_url=f"{ROOT}/v1", api_key=f"mesh-{self.dialect}.{name}", **options)
        self.input = [{"role": "user", "content": "Work."}]
        self.last = None

    def ask(self, **more):
        """The answer in one piece."""
        made = self.client.responses.create(model="gpt-5", input=self.input, tools=self.tools, **more)
        return self.told(strict(Response, made))

    def stream(self):
        """The answer in pieces, put together by the SDK."""
        with self.client.responses.create(model="gpt-5", input=self.input, tools=self.tools, stream=True) as stream:
            kinds = [strict(ResponseStreamEvent, event).type for event in stream]
        assert kinds[-1] in ("response.completed", "response.incomplete"), kinds
        with self.client.responses.stream(model="gpt-5", input=self.input, tools=self.tools) as stream:
            return self.told(stream.get_final_response())

    def told(self, made):
        """What matters of an answer."""
        self.last = made.id
        self.input += [item.model_dump(exclude_unset=True) for item in made.output]
        calls = [[item.call_id, item.name, item.arguments] for item in made.output if item.type == "function_call"]
        reason = made.incomplete_details and made.incomplete_details.reason
        return {
            "words": made.output_text,
            "calls": [call[1:] for call in calls],
            "stop": reason or made.status,
            "usage": made.usage.model_dump(exclude_unset=True),
            "ids": [call[0] for call in calls],
        }

    def result(self, call_id):
        """Hand in the result of a tool."""
        self.input.append({"type": "function_call_output", "call_id": call_id, "output": RESULT})


class Messages:
    """Anthropic's messages."""

    dialect = "anthropic"
    tools = ({"name": TOOL, "input_schema": SCHEMA},)

    def __init__(self, name, **options):
        self.client = anthropic.Anthropic(base_url=ROOT, api_key=f"mesh-{self.dialect}.{name}", **options)
        self.messages = [{"role": "user", "content": "Work."}]

    def options(self):
        """What every request says."""
        return {"model": "claude-next", "max_tokens": 500, "messages": self.messages, "tools": self.tools}

    def ask(self, **more):
        """The answer in one piece."""
        return self.told(strict(anthropic.types.Message, self.client.messages.create(**self.options(), **more)))

    def stream(self):
        """The answer in pieces, put together by the SDK."""
        with self.client.messages.create(**self.options(), stream=True) as raw:
            kinds = [strict(anthropic.types.RawMessageStreamEvent, event).type for event in raw]
        assert kinds[-1] == "message_stop", kinds
        with self.client.messages.stream(**self.options()) as stream:
            return self.told(stream.get_final_message())

    def told(self, made):
        """What matters of an answer."""
        blocks = [block.model_dump(exclude_unset=True) for block in made.content]
        self.messages.append({"role": "assistant", "content": blocks})
        calls = [[block.id, block.name, json.dumps(block.input)] for block in made.content if block.type == "tool_use"]
        return {
            "words": "".join(block.text for block in made.content if block.type == "text"),
            "calls": [call[1:] for call in calls],
            "stop": made.stop_reason,
            "usage": made.usage.model_dump(exclude_unset=True),
            "ids": [call[0] for call in calls],
        }

    def result(self, call_id):
        """Hand in the result of a tool."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": RESULT}]}
        self.messages.append({"role": "user", "content": [block]})


def work(api, *, streams):
    """A loop such as agents have: ask, do what is asked for, until nothing is."""
    told = []
    while not told or told[-1]["calls"]:
        told.append(api.stream() if streams else api.ask())
        for call_id in told[-1].pop("ids"):
            api.result(call_id)
    return told


def conversations(api):
    """Every conversation of an API: its name, and what came of it."""
    yield "whole", outcome(lambda: work(api("whole"), streams=False))
    yield "stream", outcome(lambda: work(api("stream"), streams=True))
    yield "rate_limit", outcome(api("rate_limit", max_retries=1).ask)
    for name in ("overloaded", "broken", "cut", "garbled", "forbidden"):
        yield name, outcome(api(name, **QUICK).ask)
    yield "exhausted", outcome(api("exhausted", max_retries=2).ask)
    yield "broken_stream", outcome(api("broken_stream", **QUICK).stream)
    yield "garbled_stream", outcome(api("garbled_stream", **QUICK).stream)
    yield "hang", outcome(api("hang", timeout=0.2, **QUICK).ask)
    yield "stranger", outcome(api("nobody", **QUICK).ask)


def goes_on():
    """A conversation that the endpoint remembers."""
    api = Responses("goes_on")
    first = api.ask()
    api.input = [{"type": "function_call_output", "call_id": first["ids"][0], "output": RESULT}]
    return api.ask(previous_response_id=api.last)["words"]


def from_the_environment():
    """Clients that are told nothing but what the environment tells them."""
    chat = openai.OpenAI().chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "x"}])
    message = anthropic.Anthropic().messages.create(
        model="claude-next", max_tokens=5, messages=[{"role": "user", "content": "x"}]
    )
    return [chat.choices[0].message.content, message.content[0].text]


async def at_once():
    """The asynchronous clients, all in the air together."""
    chat = openai.AsyncOpenAI(base_url=f"{ROOT}/v1", api_key="mesh-async")
    message = anthropic.AsyncAnthropic(base_url=ROOT, api_key="mesh-async")
    said = [{"role": "user", "content": "x"}]
    async with chat, message:
        asked = [chat.responses.create(model="gpt-5", input="x") for _ in range(4)]
        asked += [message.messages.create(model="claude-next", max_tokens=5, messages=said) for _ in range(4)]
        return sorted(
            getattr(made, "output_text", None) or made.content[0].text for made in await asyncio.gather(*asked)
        )


told = {api.dialect: dict(conversations(api)) for api in (Chat, Responses, Messages)}
told["goes_on"] = outcome(goes_on)
told["at_once"] = outcome(lambda: asyncio.run(at_once()))
told["environment"] = outcome(from_the_environment)
json.dump(told, sys.stdout)
