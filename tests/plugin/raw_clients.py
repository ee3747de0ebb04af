"""Clients of the vendors' APIs that see every byte: what a stream says is put together here, event by event."""

import json
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from types import SimpleNamespace
from urllib.parse import urlsplit

TOOL = "mcp__agentmesh__claim_task"
SCHEMA = {
    "type": "object",
    "properties": {"agent_id": {"type": "string"}, "wait_sec": {"type": "number"}},
    "required": ["agent_id"],
    "additionalProperties": False,
}


def post(url, body, **headers):
    """What is sent back: status, headers, body."""
    place = urlsplit(url)
    with closing(HTTPConnection(place.netloc, timeout=10)) as connection:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", f"{place.path}?{place.query}", data, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()


def events(data):
    """The documents of a stream; the name of an event, where it has one, is the type of its document."""
    found = []
    for block in data.decode().removesuffix("\n\n").split("\n\n"):
        name, _, told = block.rpartition("data: ")
        if told == "[DONE]":
            continue
        document = json.loads(told)
        assert name in ("", f"event: {document.get('type')}\n"), name
        found.append(document)
    return found


@dataclass
class Client:
    """A client and its conversation."""

    model: object
    name: str = TOOL
    schema: dict = field(default_factory=lambda: SCHEMA)
    talk: list = field(default_factory=lambda: [{"role": "user", "content": "Work."}])
    llm = "gpt-5"

    def send(self, *, stream=False, **more):
        """The raw answer."""
        body = {"model": self.llm, "stream": stream, **self.body(), **more}
        return post(f"{self.model.url}{self.path}", body, **self.headers())

    def hear(self, *, stream=False, **more):
        """What is said: words, calls, stop, usage."""
        status, _, data = self.send(stream=stream, **more)
        assert status == 200, data
        return self.joined(events(data)) if stream else self.whole(json.loads(data))

    def ask(self, **more):
        """What is said; it joins the conversation."""
        said = self.hear(**more)
        self.said(said)
        return said

    def headers(self):
        """How it says who it is."""
        return {"Authorization": f"Bearer {self.model.key}"}


class Chat(Client):
    """OpenAI's chat completions."""

    dialect, path = "openai_chat", "/v1/chat/completions"
    stops = ("stop", "tool_calls", "length")

    def body(self):
        """A request."""
        return {
            "messages": self.talk,
            "stream_options": {"include_usage": True},
            "tools": [{"type": "function", "function": {"name": self.name, "parameters": self.schema}}],
        }

    def whole(self, document):
        """An answer in one piece."""
        [choice] = document["choices"]
        message = choice["message"]
        calls = [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls", ())]
        return SimpleNamespace(
            words=message["content"] or "", calls=calls, stop=choice["finish_reason"], usage=document["usage"]
        )

    def joined(self, told):
        """An answer from its chunks."""
        words, calls, stop = "", {}, None
        for choice in (choice for chunk in told for choice in chunk["choices"]):
            words += choice["delta"].get("content") or ""
            stop = choice["finish_reason"] or stop
            for part in choice["delta"].get("tool_calls", ()):
                call = calls.setdefault(part["index"], [part.get("id"), part["function"].get("name"), ""])
                call[2] += part["function"]["arguments"]
        return SimpleNamespace(
            words=words, calls=list(map(tuple, calls.values())), stop=stop, usage=told[-1].get("usage")
        )

    def said(self, said):
        """Keep what the model said."""
        calls = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in said.calls]
        self.talk.append({"role": "assistant", "content": said.words, **({"tool_calls": calls} if calls else {})})

    def result(self, call_id, text):
        """Hand in the result of a tool."""
        self.talk.append({"role": "tool", "tool_call_id": call_id, "content": text})


class Responses(Client):
    """OpenAI's responses."""

    dialect, path = "openai_responses", "/v1/responses"
    stops = ("completed", "completed", "max_output_tokens")

    def body(self):
        """A request."""
        return {"input": self.talk, "tools": [{"type": "function", "name": self.name, "parameters": self.schema}]}

    def whole(self, document):
        """An answer in one piece."""
        output = document["output"]
        words = "".join(part["text"] for item in output if item["type"] == "message" for part in item["content"])
        calls = [(c["call_id"], c["name"], c["arguments"]) for c in output if c["type"] == "function_call"]
        stop = (document["incomplete_details"] or {}).get("reason", document["status"])
        return SimpleNamespace(words=words, calls=calls, stop=stop, usage=document["usage"])

    def joined(self, told):
        """An answer from its last event, which must say what the others said."""
        assert [event["sequence_number"] for event in told] == list(range(len(told)))
        said = self.whole(told[-1]["response"])
        deltas = [event["delta"] for event in told if event["type"].endswith(".delta")]
        assert "".join(deltas) == said.words + "".join(arguments for _, _, arguments in said.calls)
        return said

    def said(self, said):
        """Keep what the model said."""
        self.talk += [{"role": "assistant", "content": said.words}] if said.words else []
        self.talk += [{"type": "function_call", "call_id": i, "name": n, "arguments": a} for i, n, a in said.calls]

    def result(self, call_id, text):
        """Hand in the result of a tool."""
        self.talk.append({"type": "function_call_output", "call_id": call_id, "output": text})


class Messages(Client):
    """Anthropic's messages."""

    dialect, path, llm = "anthropic", "/v1/messages", "claude-sonnet-4-5"
    stops = ("end_turn", "tool_use", "max_tokens")

    def headers(self):
        """How it says who it is."""
        return {"x-api-key": self.model.key, "anthropic-version": "2023-06-01"}

    def body(self):
        """A request."""
        return {"max_tokens": 500, "messages": self.talk, "tools": [{"name": self.name, "input_schema": self.schema}]}

    def whole(self, document):
        """An answer in one piece."""
        blocks = document["content"]
        words = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [(b["id"], b["name"], json.dumps(b["input"])) for b in blocks if b["type"] == "tool_use"]
        return SimpleNamespace(words=words, calls=calls, stop=document["stop_reason"], usage=document["usage"])

    def joined(self, told):
        """An answer from its events."""
        blocks, ended = {}, {}
        for event in told:
            if event["type"] == "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "told": ""}
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                blocks[event["index"]]["told"] += delta.get("text") or delta.get("partial_json") or ""
            elif event["type"] == "message_delta":
                ended = event
        words = "".join(block["told"] for block in blocks.values() if block["type"] == "text")
        calls = [(b["id"], b["name"], b["told"]) for b in blocks.values() if b["type"] == "tool_use"]
        stop = ended.get("delta", {}).get("stop_reason")
        return SimpleNamespace(words=words, calls=calls, stop=stop, usage=ended.get("usage"))

    def said(self, said):
        """Keep what the model said."""
        words = [{"type": "text", "text": said.words}] if said.words else []
        uses = [{"type": "tool_use", "id": i, "name": n, "input": json.loads(a)} for i, n, a in said.calls]
        self.talk.append({"role": "assistant", "content": [*words, *uses]})

    def result(self, call_id, text):
        """Hand in the result of a tool."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": [{"type": "text", "text": text}]}
        if self.talk[-1]["role"] == "assistant":
            self.talk.append({"role": "user", "content": []})
        self.talk[-1]["content"].append(block)


CLIENTS = (Chat, Responses, Messages)
