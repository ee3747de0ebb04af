"""From what the script says to what the agent is told: functions asked, tools found, the length counted and cut."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from agentmesh.model import Usage
from pytest_agentmesh.endpoint import tools
from pytest_agentmesh.endpoint.form import ScriptError, Spoken, SpokenCall
from pytest_agentmesh.replies import Answer, Call, Hang, Refusal, Reply, Scripted, Turn

T = TypeVar("T")
LINE: Final = 100
CHARS_PER_TOKEN: Final = 4
"""What a token comes to where nobody says how many there are: English, by the usual tokenizers."""


def decide(scripted: Scripted, turn: Turn) -> Reply:
    """The reply to a turn: a function is asked for it.

    Raises:
        ScriptError: it raised, or gave something else.
    """
    reply = _ask(scripted, turn) if callable(scripted) else scripted
    if isinstance(reply, (Answer, Refusal, Hang)):
        return reply
    raise ScriptError(f"{_name(scripted)} gave {type(reply).__name__}, not a reply such as text() or call()")


def speak(answer: Answer, turn: Turn, *, id: str, at_sec: int, heard_chars: int, strict: bool) -> Spoken:
    """An answer as this agent is told it: with its names of the tools, counted, and cut where it shall be.

    Raises:
        ScriptError: a function in it raised, a tool was not offered, or its arguments do not fit.
    """
    words = _ask(answer.words, turn) if callable(answer.words) else answer.words
    if not isinstance(words, str):
        raise ScriptError(f"the words of text() came to {type(words).__name__}, not to text")
    called = [_called(each, turn, f"call_{id}_{index}", strict=strict) for index, each in enumerate(answer.calls)]
    if answer.cut_after is not None and (turn.stream or not answer.broken):
        words, called = _cut(words, called, answer.cut_after * CHARS_PER_TOKEN)
    spoken_chars = len(words) + sum(len(each.name) + len(each.arguments) for each in called)
    return Spoken(
        request=turn.request,
        id=id,
        model=turn.model,
        at_sec=at_sec,
        words=words,
        calls=tuple(called),
        usage=answer.usage or Usage(input_tokens=_tokens(heard_chars), output_tokens=_tokens(spoken_chars)),
        stop="length" if answer.cut_after is not None else "calls" if called else "said",
    )


def _called(called: Call, turn: Turn, call_id: str, *, strict: bool) -> SpokenCall:
    """A tool call by the name that the agent has for the tool, held against its schema."""
    arguments = {name: _ask(value, turn) if callable(value) else value for name, value in called.arguments.items()}
    told = _json(called, arguments)
    if not strict and not any(tool.answers_to(called.tool) for tool in turn.tools):
        return SpokenCall(call_id, called.tool, told if called.raw is None else called.raw)
    tool = tools.find(called.tool, turn.tools)
    if called.raw is not None:
        return SpokenCall(call_id, tool.name, called.raw)
    if strict:
        told = _json(called, tools.filled(tool, arguments))
        tools.check(tool, json.loads(told))
    return SpokenCall(call_id, tool.name, told)


def _json(called: Call, arguments: Mapping[str, Any]) -> str:
    try:
        return json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ScriptError(f"the arguments of {called} are no JSON: {error}") from error


def _ask(function: Callable[[Turn], T], turn: Turn) -> T:
    """What a function of the test says to a turn."""
    try:
        return function(turn)
    except BaseException as error:  # pytest.fail() raises one
        at = traceback.extract_tb(error.__traceback__)[:2][-1]  # the function's own frame, if it has one
        what = str(error) if type(error) is LookupError else repr(error)
        raise ScriptError(f"{_name(function)} failed: {what}, at: {(at.line or '')[:LINE]}") from error


def _name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "the function of the script" if name == "<lambda>" else f"{name}()"


def _cut(words: str, called: list[SpokenCall], chars: int) -> tuple[str, list[SpokenCall]]:
    """The first characters of an answer: its words, then the arguments of its calls."""
    left, kept = chars - len(words), []
    for each in called:
        if left <= 0:
            break
        kept.append(replace(each, arguments=each.arguments[:left]))
        left -= len(each.arguments)
    return words[:chars], kept


def _tokens(chars: int) -> int:
    return -(-chars // CHARS_PER_TOKEN)
