"""What a script says in place of a language model, and what it is told of the conversation.

A script is a list of replies; a reply may be a function that is shown the turn and gives one, and so may each argument
of a tool call. A turn is the same whatever API the agent speaks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from agentmesh.model import Usage
from agentmesh.usage import Dialect
from pytest_agentmesh.durations import Duration, micros, words

SHOWN: Final = 60
"""How many characters of a text are shown in a message about it."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent offers the model; `schema` is the JSON schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]

    def answers_to(self, name: str) -> bool:
        """Whether it is meant by that name: adapters put one of their own before it (`mcp__agentmesh__claim_task`)."""
        before = self.name.removesuffix(name)
        return self.name.endswith(name) and not before[-1:].isalnum()


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered: `text` as the model is shown it, `value` as data, without an adapter's wrapping."""

    tool: Tool
    call_id: str
    text: str
    is_error: bool = False

    @property
    def value(self) -> Any:
        """The answer as data; the text itself where it is no JSON."""
        return _unwrapped(self.text)


@dataclass(frozen=True, slots=True)
class Message:
    """What somebody said in the conversation: `system`, `user`, `assistant` or `tool`."""

    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One request to the model: the conversation so far, whoever's API it came by.

    `number` counts the requests of this agent from 1; `request` is the body as it was sent.
    """

    agent: str
    number: int
    dialect: Dialect
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...]
    results: tuple[ToolResult, ...]
    stream: bool
    request: Mapping[str, Any] = field(repr=False)

    @property
    def last_text(self) -> str:
        """What was said last, whoever said it; empty in a conversation without words."""
        return self.messages[-1].text if self.messages else ""

    def last_result(self, tool: str) -> Any:
        """The newest answer of a tool, as data.

        Raises:
            LookupError: it has not answered yet.
        """
        for result in reversed(self.results):
            if result.tool.answers_to(tool):
                return result.value
        heard = ", ".join(dict.fromkeys(result.tool.name for result in self.results)) or "none"
        raise LookupError(f"{tool} has not answered yet; tools that have: {heard}")


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `raw` stands in place of its arguments where they shall be no JSON."""

    tool: str
    arguments: Mapping[str, Any]
    raw: str | None = None

    def __str__(self) -> str:
        """As a test would write it."""
        if self.raw is not None:
            return f'garbled("{self.tool}", {_quoted(self.raw)})'
        told = (f"{name}={'...' if callable(value) else _quoted(value)}" for name, value in self.arguments.items())
        return f"call({', '.join([_quoted(self.tool), *told])})"


@dataclass(frozen=True, slots=True)
class Answer:
    """Words, tool calls, or both. `cut_after` tokens it ends: by its limit, or with the connection if `broken`."""

    words: str | Callable[[Turn], str] = ""
    calls: tuple[Call, ...] = ()
    usage: Usage | None = None
    cut_after: int | None = None
    broken: bool = False

    def using(self, usage: Usage) -> Answer:
        """The same, at the price of these tokens instead of those that its length comes to."""
        return replace(self, usage=usage)

    def __str__(self) -> str:
        """As a test would write it."""
        words = "..." if callable(self.words) else _quoted(self.words)
        told = [str(call) for call in self.calls]
        if len(told) == 1 and not self.words:
            said = told[0]
        elif told:
            said = f"calls({', '.join([*told, *([f'text={words}'] if self.words else [])])})"
        else:
            said = f"text({words})"
        if self.cut_after is None:
            return said
        return f"{'broken' if self.broken else 'cut'}({said}, after={self.cut_after})"


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the vendor's, `times` requests long. Status 529 is how Anthropic says that it is overloaded."""

    status: int
    retry_after: float | None = None
    times: int = 1
    message: str | None = None

    def __str__(self) -> str:
        """Its status, and for how many requests."""
        return f"error {self.status}" + (f", {self.times} times" if self.times > 1 else "")


@dataclass(frozen=True, slots=True)
class Hang:
    """Silence for a time of the clock, or until it is released; afterwards `then`, or the connection closes."""

    duration: Duration | None = None
    then: Answer | Refusal | None = None

    def __str__(self) -> str:
        """As a test would write it."""
        told = [] if self.duration is None else [words(micros(self.duration))]
        return f"hang({', '.join([*told, *([f'then={self.then}'] if self.then else [])])})"


Reply = Answer | Refusal | Hang
Scripted = Reply | Callable[[Turn], Reply]


def text(words: str | Callable[[Turn], str], *, usage: Usage | None = None) -> Answer:
    """The model says something, and calls no tool."""
    return Answer(words, usage=usage)


def call(tool: str, /, **arguments: Any) -> Answer:
    """The model calls a tool.

    Args:
        tool: its name on the board; what an adapter puts before it is found by itself.
        arguments: each a value, or a function: `lease=lambda turn: turn.last_result("claim_task")["lease"]`.
    """
    return Answer(calls=(Call(tool, arguments),))


def calls(*several: Answer, text: str = "") -> Answer:
    """The model calls several tools at once, and may say something with it: `calls(call("a"), call("b"))`."""
    if any(answer.words or answer.usage or answer.cut_after is not None for answer in several):
        raise TypeError("calls() takes what call() and garbled() give; its own text= and .using() are for all of them")
    return Answer(text, tuple(each for answer in several for each in answer.calls))


def garbled(tool: str, /, raw: str = '{"task_id": "unfin') -> Answer:
    """The model calls a tool with arguments that are no JSON; where Anthropic sends an object, it is this text."""
    return Answer(calls=(Call(tool, {}, raw),))


def cut(answer: Answer, after: int) -> Answer:
    """The answer ends after so many tokens, as if it had met the limit of its length; a tool call may be half said."""
    return replace(answer, cut_after=after)


def broken(answer: Answer, after: int = 0) -> Answer:
    """The connection breaks in the middle of the answer, in a stream after so many tokens; its cost is charged."""
    return replace(answer, cut_after=after, broken=True)


def rate_limit(retry_after: float | None = 2, times: int = 1) -> Refusal:
    """Too many requests (429). Real clients really wait `retry_after` seconds before they try again; 0.01 will do."""
    return Refusal(429, retry_after, times)


def overloaded(times: int = 1) -> Refusal:
    """The vendor is overloaded: 529 from Anthropic, 503 from OpenAI."""
    return Refusal(529, None, times)


def error(status: int, message: str | None = None, times: int = 1) -> Refusal:
    """Any other error of the vendor's, by its HTTP status."""
    return Refusal(status, None, times, message)


def hang(duration: Duration | None = None, then: Answer | Refusal | None = None) -> Hang:
    """Nothing is sent for so long on the board's clock, or until `release()` or the end of the test; then `then` is.

    Without `then` the connection is closed unanswered, as a proxy does that has waited too long.
    """
    return Hang(duration, then)


def _quoted(value: Any) -> str:
    """A value as JSON, short enough for a message."""
    try:
        told = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        told = repr(value)
    return told if len(told) <= SHOWN else told[: SHOWN - 3] + "..."


def _unwrapped(told: str) -> Any:
    """JSON that is there in the end: adapters hand a text on as a content block, or as a list of one."""
    try:
        value = json.loads(told)
    except ValueError:
        return told
    block = value[0] if isinstance(value, list) and len(value) == 1 else value
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return _unwrapped(block["text"])
    return value
