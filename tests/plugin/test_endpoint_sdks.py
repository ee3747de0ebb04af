"""The vendors' own SDKs at the endpoint, in an environment of their own: they are the judges of its forms.

`sdks/talk.py` runs there. It holds every answer and every event against the SDKs' types, more strictly than they do.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from pytest_agentmesh.endpoint import Endpoint
from pytest_agentmesh.replies import broken, call, calls, cut, error, garbled, hang, overloaded, rate_limit, text
from tests.plugin.raw_clients import TOOL
from tests.support.environments import NEEDS_AN_INDEX, python_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(300),  # the first run installs the SDKs
    NEEDS_AN_INDEX,
]

TALK = Path(__file__).parent / "sdks" / "talk.py"
DIALECTS = ("openai_chat", "openai_responses", "anthropic")
STOPS = {
    "openai_chat": ("tool_calls", "stop", "length"),
    "openai_responses": ("completed", "completed", "max_output_tokens"),
    "anthropic": ("tool_use", "end_turn", "max_tokens"),
}
BOTH = calls(call("claim_task", agent_id="a"), call("claim_task"), text="On it, both at once.")
each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


def work(turn):
    """Claim twice at once, then tell of what came."""
    return text(f"Got {turn.last_result('claim_task')['task']}, and that is all there is.") if turn.results else BOTH


def script(endpoint, dialect):
    """What each of the agents shall hear that `talk.py` plays."""

    def agent(name):
        return endpoint.agent(f"{dialect}.{name}")

    agent("whole").policy(work)
    agent("stream").policy(work)
    agent("rate_limit").script(rate_limit(0.01), text("ok"))
    agent("overloaded").script(overloaded())
    agent("forbidden").script(error(403))
    agent("exhausted")
    agent("cut").script(cut(text("half of this"), after=1))
    agent("garbled").script(garbled("claim_task"))
    agent("garbled_stream").policy(lambda _: garbled("claim_task"))
    agent("broken").script(broken(text("half of this")))
    agent("broken_stream").script(broken(text("half of this, at the most"), after=3))
    agent("hang").script(hang())


@pytest.fixture(scope="module")
def spoken(request, tmp_path_factory):
    """What came of every conversation, and what the endpoint was asked in it."""
    python = python_with(request, tmp_path_factory, "openai", "anthropic")
    with Endpoint() as endpoint:
        for dialect in DIALECTS:
            script(endpoint, dialect)
        endpoint.agent("openai_responses.goes_on").script(
            call("claim_task"), text(lambda turn: turn.last_result("claim_task")["task"])
        )
        endpoint.agent("async").script(*(text(f"answer {number}") for number in range(8)))
        env = {**os.environ, **endpoint.agent("env").script(text("one"), text("two")).env()}
        command = [python, TALK, endpoint.url]
        done = subprocess.run(
            command,
            env={name: value for name, value in env.items() if value is not None},
            stdout=subprocess.PIPE,
            check=False,
        )
        assert done.returncode == 0, "talk.py failed; its last words are among what was captured"
        asked = {dialect: len(endpoint.agent(f"{dialect}.exhausted").requests) for dialect in DIALECTS}
    return {**json.loads(done.stdout), "asked": asked}


@each_dialect
@pytest.mark.parametrize("how", ["whole", "stream"])
def test_an_agents_loop_runs_through(spoken, dialect, how):
    """Parallel calls, their results, an answer made of them: put together by the SDK, with its usage."""
    first, second = spoken[dialect][how]
    assert [(name, json.loads(arguments)) for name, arguments in first["calls"]] == [
        (TOOL, {"agent_id": "a"}),
        (TOOL, {}),
    ]
    assert (first["words"], second["words"]) == ("On it, both at once.", "Got t1, and that is all there is.")
    assert (first["stop"], second["stop"]) == STOPS[dialect][:2]
    assert all(
        value > 0 for name, value in first["usage"].items() if name in ("prompt_tokens", "input_tokens", "total_tokens")
    )


@each_dialect
def test_streamed_and_whole_say_the_same(spoken, dialect):
    """To the last token of the usage."""
    assert spoken[dialect]["stream"] == spoken[dialect]["whole"]


@each_dialect
def test_a_rate_limit_is_waited_out(spoken, dialect):
    """The SDK tries again by itself."""
    assert spoken[dialect]["rate_limit"]["words"] == "ok"


@each_dialect
def test_errors_are_what_the_sdk_calls_them(spoken, dialect):
    """Each is raised as the class that stands for it."""
    told = spoken[dialect]
    assert told["overloaded"] in ("InternalServerError", "OverloadedError")
    assert told["forbidden"] == "PermissionDeniedError"
    assert told["stranger"] == "AuthenticationError"
    assert told["hang"] == "APITimeoutError"
    assert told["broken"] == "APIConnectionError"
    assert told["broken_stream"] in ("APIConnectionError", "httpx2.RemoteProtocolError", "httpx.RemoteProtocolError")


@each_dialect
def test_a_mistake_of_the_script_is_not_asked_for_again(spoken, dialect):
    """The client would retry twice; it is told not to."""
    assert (spoken[dialect]["exhausted"], spoken["asked"][dialect]) == ("InternalServerError", 1)


@each_dialect
def test_bad_answers_arrive_as_bad_as_they_are(spoken, dialect):
    """Cut ones with their reason; arguments that are no JSON, for the agent to find out."""
    told = spoken[dialect]
    assert (told["cut"]["words"], told["cut"]["stop"]) == ("half", STOPS[dialect][2])
    if dialect == "anthropic":  # it says objects only: its own type does not take a text, and a stream stays empty
        assert (told["garbled"], told["garbled_stream"]["calls"]) == ("pydantic_core.ValidationError", [[TOOL, "{}"]])
    else:
        assert told["garbled"]["calls"] == told["garbled_stream"]["calls"] == [[TOOL, '{"task_id": "unfin']]


def test_a_response_goes_on_from_the_one_before(spoken):
    """By `previous_response_id`."""
    assert spoken["goes_on"] == "t1"


def test_asynchronous_clients_are_served_at_once(spoken):
    """Eight requests in the air together get the eight replies of the script."""
    assert spoken["at_once"] == [f"answer {number}" for number in range(8)]


def test_the_environment_is_enough(spoken):
    """Clients that are told nothing find the endpoint, and their agent."""
    assert spoken["environment"] == ["one", "two"]
