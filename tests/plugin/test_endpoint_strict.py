"""What a script does not foresee fails the test, with a message that shows both sides and names the likely cause."""

import json

import pytest

from pytest_agentmesh.endpoint import Endpoint
from pytest_agentmesh.endpoint.form import ScriptError
from pytest_agentmesh.endpoint.tools import check
from pytest_agentmesh.replies import Tool, call, calls, rate_limit, text
from tests.plugin import golden
from tests.plugin.raw_clients import CLIENTS, TOOL, Chat, Messages, Responses, post

MESSAGES = golden.HERE / "endpoint"


@pytest.fixture
def mesh_model():
    """An endpoint of which nothing is demanded but by the test."""
    with Endpoint() as endpoint:
        yield endpoint


def said_nothing(model):
    """The agent never called."""
    model.agent("coder").script(call("claim_task", agent_id="coder"), text("Done."))


def stopped_after_words(model):
    """The agent took words for the end."""
    agent = model.agent("coder")
    agent.script(call("claim_task", agent_id="coder"), text("Working."), call("complete_task", result={"ok": True}))
    client = Chat(agent)
    client.result(client.ask().calls[0][0], '{"task": {"id": "task_1", "title": "Refactor the parser of plan files"}}')
    client.ask()


def stopped_after_a_call(model):
    """The agent did not come back with what the tool answered."""
    agent = model.agent("coder").script(call("claim_task", agent_id="coder"), text("Done."))
    Chat(agent).ask()


def gave_up_at_once(model):
    """The agent did not bear a refusal."""
    Chat(model.agent("coder").script(rate_limit(), text("Done."))).send()


def gave_up(model):
    """The agent bore one of two."""
    agent = model.agent("coder").script(text("Hello."), rate_limit(times=2), text("Done."))
    for ask in (Messages(agent).ask, Messages(agent).send):
        ask()


def went_on(model):
    """The agent asked once more than was scripted."""
    agent = model.agent("coder").script(text("Done."))
    client = Responses(agent)
    client.ask()
    client.talk.append({"role": "user", "content": "And now the next one, please; there are a few more on the board."})
    client.send()


def was_not_scripted(model):
    """An agent that the test forgot."""
    Chat(model.agent("reviewer")).send()


def offered_no_tools(model):
    """The agent's tools never reached the model."""
    Chat(model.agent("coder").script(call("claim_task", agent_id="coder"))).send(tools=None)


def offered_other_tools(model):
    """The tool is not among those of its profile."""
    Chat(model.agent("coder").script(call("cancel_task", task_id="t"))).send()


def offered_one_that_only_sounds_alike(model):
    """The end of a word is not a name."""
    Chat(model.agent("coder").script(call("claim_task", agent_id="a")), name="mcp__agentmesh__reclaim_task").send()


def offered_two_that_fit(model):
    """Two servers, one name."""
    tools = [{"name": f"{server}_note", "input_schema": {"type": "object"}} for server in ("mesh", "diary")]
    Messages(model.agent("coder").script(call("note", text="x"))).send(tools=tools)


def called_wrongly(model):
    """The arguments are not those of the tool."""
    Chat(model.agent("coder").script(call("claim_task", agent="coder", wait_sec="30"))).send()


def failed_in_a_function(model):
    """A function of the test could not say what to say."""
    agent = model.agent("coder")
    agent.script(text(lambda turn: turn.last_result("claim_task")["lease"]))
    agent.script(call("claim_task", agent_id=lambda turn: turn.request["nothing"]))
    Chat(agent).send()
    Chat(agent).send()


def failed_and_ended_the_agent(model):
    """What is left was not left by the agent."""
    agent = model.agent("coder")
    agent.script(call("claim_task", agent_id=lambda turn: turn.request["nothing"]), text("Done."))
    Chat(agent).send()


def failed_on_purpose(model):
    """A policy found something wrong."""

    def policy(turn):
        """Look at what the agent said."""
        if "please" not in turn.last_text:
            pytest.fail("it does not say please")

    Responses(model.agent("coder").policy(policy)).send(instructions="Be polite.")


def decided_nothing(model):
    """A policy forgot to answer."""

    def policy(turn):
        """Nothing."""

    Chat(model.agent("coder").policy(policy)).send()


def lost_a_result(model):
    """The agent's loop did not hand in what a tool answered."""
    client = Chat(
        model.agent("coder").script(calls(call("claim_task", agent_id="a"), call("claim_task", agent_id="b")))
    )
    (first, _, _), _ = client.ask().calls
    client.result(first, "{}")
    client.send()


def invented_a_result(model):
    """The agent's loop cut the beginning of the conversation off."""
    client = Messages(model.agent("coder").policy(lambda _: text("x")))
    client.talk = [{"role": "assistant", "content": "I?"}]
    client.result("toolu_1", "{}")
    client.send()


def sent_nonsense(model):
    """The request is not one of this API's."""
    agent = model.agent("coder").policy(lambda _: text("x"))
    Messages(agent).send(max_tokens=None)
    Chat(agent).send(messages=[])
    Responses(agent).send(previous_response_id="resp_1")
    post(f"{agent.openai_url}/responses", b"{")
    post(f"{agent.openai_url}/responses", b"[" * 100_000)
    post(f"{agent.openai_url}/responses", [])


def asked_elsewhere(model):
    """No such place, and no such agent."""
    post(f"{model.openai_url}/embeddings", {"model": "m", "input": "x"})
    post(f"{model.openai_url}/responses", {"model": "m", "input": "x"}, Authorization="Bearer sk-from-my-shell")


def talked_long(model):
    """Of many requests only the last are shown."""
    agent = model.agent("coder").policy(lambda turn: text(f"Answer {turn.number}.")).script(text("Hello."))
    for _ in range(14):
        Chat(agent).send()
    Chat(agent).send(messages=[])


STORIES = [
    said_nothing,
    stopped_after_words,
    stopped_after_a_call,
    gave_up_at_once,
    gave_up,
    went_on,
    was_not_scripted,
    offered_no_tools,
    offered_other_tools,
    offered_one_that_only_sounds_alike,
    offered_two_that_fit,
    called_wrongly,
    failed_in_a_function,
    failed_and_ended_the_agent,
    failed_on_purpose,
    decided_nothing,
    lost_a_result,
    invented_a_result,
    sent_nonsense,
    asked_elsewhere,
    talked_long,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_failure_tells_both_sides_and_why_as_its_golden_file_has_it(mesh_model, story):
    """What was scripted, what came, the likely cause: each message, word for word."""
    story(mesh_model)
    with pytest.raises(AssertionError) as caught:
        mesh_model.verify()
    golden.same(f"endpoint/{story.__name__}", str(caught.value))


def test_every_golden_message_has_its_story():
    """None is left behind."""
    assert {path.stem for path in MESSAGES.iterdir()} == {story.__name__ for story in STORIES}


def test_an_endpoint_that_nobody_used_is_right(mesh_model):
    """No script, no request, nothing to say; a policy that is not asked neither."""
    mesh_model.agent("idle")
    mesh_model.policy(lambda _: text("x"))
    mesh_model.verify()


@pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.dialect)
def test_a_mistake_of_the_test_is_told_to_the_agent_as_one_not_to_be_repeated(mesh_model, api):
    """An error of the server's that SDKs are asked not to retry, with the reason in it."""
    status, headers, data = api(mesh_model.agent("b")).send()
    assert (status, headers["x-should-retry"]) == (500, "false")
    assert json.loads(data)["error"]["message"] == "mesh_model, agent b: there is no script for this agent"


def test_a_stranger_is_refused_unless_there_is_a_default(mesh_model):
    """401 at first; once the default agent is scripted, it answers for every key. The key itself is never told."""
    stranger = {"Authorization": "Bearer sk-secret"}
    assert mesh_model.env()["OPENAI_API_KEY"] == mesh_model.key  # that there is a default agent is no script
    refused, _, told = post(f"{mesh_model.openai_url}/responses", {"model": "m", "input": "x"}, **stranger)
    mesh_model.script(text("come in"))
    status, _, data = post(f"{mesh_model.openai_url}/responses", {"model": "m", "input": "x"}, **stranger)
    assert (refused, status) == (401, 200)
    assert b"come in" in data
    with pytest.raises(AssertionError) as caught:
        mesh_model.verify()
    assert "sk-secret" not in f"{caught.value}{told}"


def test_leniently_anything_is_called(mesh_model):
    """`strict=False`: a tool that nobody offered, arguments that fit nothing."""
    agent = mesh_model.agent("a").script(call("cancel_task", x=1), call("claim_task", x=1), strict=False)
    called = [Chat(agent).ask().calls[0][1:] for _ in range(2)]
    assert called == [("cancel_task", '{"x": 1}'), (TOOL, '{"x": 1}')]
    mesh_model.verify()


@pytest.mark.parametrize("maybe", [{"type": ["string", "null"]}, {"anyOf": [{"type": "string"}, {"type": "null"}]}])
def test_what_has_to_be_said_and_is_not_is_null_where_that_may_be(mesh_model, maybe):
    """As a model does that is held to a strict schema; what may not be null has to be in the script."""
    schema = {"properties": {"agent_id": {}, "plan": maybe, "tag": maybe}, "required": ["agent_id", "plan", "tag"]}
    agent = mesh_model.agent("a").script(call("claim_task", agent_id="a", tag="x"), call("claim_task"))
    [(_, _, said)] = Chat(agent, schema=schema).ask().calls
    assert json.loads(said) == {"agent_id": "a", "plan": None, "tag": "x"}
    Chat(agent, schema=schema).send()
    with pytest.raises(AssertionError, match="schema of mcp__agentmesh__claim_task: agent_id is missing\n"):
        mesh_model.verify()


def test_the_cause_of_a_failure_is_chained_to_it(mesh_model):
    """So that the traceback of a function in the test is shown."""
    failed_in_a_function(mesh_model)
    with pytest.raises(AssertionError) as caught:
        mesh_model.verify()
    assert isinstance(caught.value.__cause__, LookupError)


@pytest.mark.parametrize(
    ("schema", "arguments", "wrong"),
    [
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, None),
        ({"properties": {"a": {"type": "integer"}}}, {"a": True}, "a must be of type integer"),
        ({"properties": {"a": {"type": ["string", "null"]}}}, {"a": None}, None),
        ({"properties": {"a": {"type": "number"}}}, {"a": "1"}, "a must be of type number"),
        ({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}, {"a": None}, None),
        (
            {"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}},
            {"a": 1},
            "a must be of type string or a must be of type null",
        ),
        ({"properties": {"a": {"enum": ["x", "y"]}}}, {"a": "z"}, 'a must be one of ["x", "y"]'),
        ({"properties": {"a": {"const": 1}}}, {"a": 2}, "a must be 1"),
        (
            {"properties": {"a": {"type": "array", "items": {"type": "string"}}}},
            {"a": ["x", 1]},
            "a[1] must be of type string",
        ),
        (
            {"properties": {"a": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"properties": {"b": {}}, "required": ["b"]}}},
            {"a": {"c": 1}},
            "a.b is missing; a.c is not known; known: b",
        ),
        ({"properties": {}, "additionalProperties": {"type": "string"}}, {"a": 1}, "a must be of type string"),
        ({"properties": {}, "additionalProperties": True}, {"a": 1}, None),
        ({"properties": {}}, {"a": 1}, "a is not known; known: nothing"),
        ({}, {"a": 1}, None),
        ({"allOf": [{"required": ["a"]}]}, {}, "a is missing"),
    ],
)
def test_arguments_are_held_against_the_schema(schema, arguments, wrong):
    """Names, types and choices, at any depth, as pydantic and our own tools write them."""
    tool = Tool("t", "", schema)
    if wrong is None:
        check(tool, arguments)
    else:
        with pytest.raises(ScriptError) as caught:
            check(tool, arguments)
        assert str(caught.value) == f"these arguments do not fit the schema of t: {wrong}"
