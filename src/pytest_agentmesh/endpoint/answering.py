"""A request on its way: whose it is, what it asks, what the script says to that, what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from agentmesh import AgentMeshError
from agentmesh.clock import Clock
from pytest_agentmesh.durations import micros
from pytest_agentmesh.endpoint.anthropic_messages import AnthropicMessages
from pytest_agentmesh.endpoint.booking import Booking
from pytest_agentmesh.endpoint.form import BadRequest, Conversation, Form, ScriptError, Spoken, StreamEvent
from pytest_agentmesh.endpoint.front import Asked, Sent
from pytest_agentmesh.endpoint.hanging import Hanging
from pytest_agentmesh.endpoint.openai_chat import OpenAIChat
from pytest_agentmesh.endpoint.openai_responses import OpenAIResponses
from pytest_agentmesh.endpoint.script import Failure, Script
from pytest_agentmesh.endpoint.speaking import speak
from pytest_agentmesh.replies import Answer, Hang, Refusal, Turn

PATH: Final = re.compile(r"(?:/agents/(?P<agent>[^/]+))?(?:/v1)?/(?P<form>chat/completions|responses|messages)")
NOBODY: Final = Failure(
    None,
    "a request showed no key that belongs to a scripted agent",
    "mesh_model.env(), or the url and key of mesh_model.agent(...), did not reach the agent's client",
)
SAID: Final = {429: "Rate limit reached.", 529: "Overloaded."}
NO_RETRY: Final = {"x-should-retry": "false"}
"""What both SDKs heed: a mistake of the test's does not get better by asking again."""


class Answering:
    """Answers requests from the scripts of the agents it is shown."""

    def __init__(
        self,
        find: Callable[[str, str | None], Script | None],
        clock: Clock,
        hanging: Hanging,
        booking: Booking | None,
    ) -> None:
        self._find = find
        self._clock = clock
        self._hanging = hanging
        self._booking = booking
        self._forms: Mapping[str, Form] = {
            "chat/completions": OpenAIChat(),
            "responses": OpenAIResponses(),
            "messages": AnthropicMessages(),
        }
        self.failures: list[Failure] = []
        """Those of nobody's."""

    def answer(self, asked: Asked) -> Sent | None:
        """What is sent; None for a connection that is closed without a word."""
        way = PATH.fullmatch(asked.path)
        form = self._forms[way["form"] if way else "chat/completions"]
        if way is None:
            what = f"nothing is served at {asked.path}; there are {', '.join(self._forms)}"
            return self._fail(form, None, 404, Failure(None, what))
        script = self._find(asked.key, unquote(way["agent"]) if way["agent"] else None)
        if script is None:
            return self._fail(form, None, 401, NOBODY)
        try:
            request = _loaded(asked.body)
            heard = form.read(request)
        except BadRequest as error:
            return self._fail(
                form, script, 400, Failure(None, f"a request by {form.dialect} was refused: {error}", error.likely)
            )
        return self._converse(form, script, request, heard)

    def _converse(self, form: Form, script: Script, request: Mapping[str, Any], heard: Conversation) -> Sent | None:
        with script.lock:
            turn = _turn(script, form, request, heard)
            exchange = script.hear(turn)
        try:
            reply, strict = script.reply(exchange)
            while isinstance(reply, Hang):
                wanted = self._hanging.keep(script.agent, None if reply.duration is None else micros(reply.duration))
                if not wanted or reply.then is None:
                    return None
                reply = reply.then
            if isinstance(reply, Refusal):
                return _refused(form, reply)
            spoken = speak(
                reply,
                turn,
                id=f"mesh_{script.number}_{turn.number}",
                at_sec=self._clock.now_us() // 1_000_000,
                heard_chars=heard.chars,
                strict=strict,
            )
        except ScriptError as error:
            return self._fail(form, script, 500, Failure(turn.number, str(error), error.likely, error.__cause__))
        self._book(script, turn.number, spoken)
        return _sent(form, reply, spoken, stream=heard.stream)

    def _book(self, script: Script, number: int, spoken: Spoken) -> None:
        """Charge an answer. A refusal of the ledger fails the test, not the agent."""
        if self._booking is None or not script.record:
            return
        try:
            self._booking.record(script.agent, spoken)
        except AgentMeshError as error:
            script.failures.append(Failure(number, f"the ledger did not take its usage: {error}", error.hint, error))

    def _fail(self, form: Form, script: Script | None, status: int, failure: Failure) -> Sent:
        """Answer that it cannot be answered, and remember why."""
        (self.failures if script is None else script.failures).append(failure)
        whose = "" if script is None else f", agent {script.agent}"
        told, document = form.error(status, f"mesh_model{whose}: {failure.what}")
        return Sent(told, document, NO_RETRY)


def _loaded(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BadRequest("the body is no JSON object")
    return document


def _turn(script: Script, form: Form, request: Mapping[str, Any], heard: Conversation) -> Turn:
    return Turn(
        agent=script.agent,
        number=len(script.exchanges) + 1,
        dialect=form.dialect,
        model=heard.model,
        messages=tuple(heard.messages),
        tools=heard.tools,
        results=tuple(heard.results),
        stream=heard.stream,
        request=request,
    )


def _refused(form: Form, refusal: Refusal) -> Sent:
    message = refusal.message or SAID.get(refusal.status, "An error of the endpoint.")
    status, document = form.error(refusal.status, f"{message} (scripted)")
    wait = {} if refusal.retry_after is None else {"retry-after": f"{refusal.retry_after:g}"}
    return Sent(status, document, wait)


def _sent(form: Form, answer: Answer, spoken: Spoken, *, stream: bool) -> Sent:
    if not stream:
        return Sent(200, form.whole(spoken), broken=answer.broken)
    events: Iterable[StreamEvent] = form.events(spoken)
    return Sent(200, _begun(events) if answer.broken else iter(events), broken=answer.broken)


def _begun(events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
    """The stream up to the last piece of what is said."""
    told = list(events)
    pieces = [index for index, event in enumerate(told) if event.piece]
    return iter(told[: pieces[-1] + 1 if pieces else 1])
