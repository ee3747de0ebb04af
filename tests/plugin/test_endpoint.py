"""The scripted endpoint, byte for byte: three APIs, streaming or not, and every agent its own script."""

import json
import threading

import pytest

from agentmesh.errors import InvalidArgument
from agentmesh.model import Usage
from agentmesh.usage import read_usage
from pytest_agentmesh.endpoint import Endpoint
from pytest_agentmesh.replies import Message, Turn, call, calls, text
from tests.plugin.raw_clients import CLIENTS, TOOL, Chat, Messages, Responses, post

each_api = pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.dialect)
streaming_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
def mesh_model():
    """An endpoint without a board; what is scripted must be said."""
    with Endpoint() as endpoint:
        yield endpoint
        endpoint.verify()


@each_api
@streaming_or_not
def test_words_are_told_in_every_form(mesh_model, api, stream):
    """What the script says arrives as it is, also what is not ASCII, and says that it ends there."""
    mesh_model.script(text("Grün wird's, \u2028 wenn's regnet: 🌧 and on."))
    said = api(mesh_model).ask(stream=stream)
    assert (said.words, said.calls, said.stop) == ("Grün wird's, \u2028 wenn's regnet: 🌧 and on.", [], api.stops[0])


@each_api
@streaming_or_not
def test_an_answer_uses_the_result_of_the_call_before_it(mesh_model, api, stream):
    """An agent's loop runs through: a call by the agent's name of the tool, its result read, an answer made of it."""
    mesh_model.script(
        call("claim_task", agent_id="ada"),
        text(lambda turn: f"lease {turn.last_result('claim_task')['lease']}"),
    )
    client = api(mesh_model)
    [(call_id, name, arguments)] = client.ask(stream=stream).calls
    client.result(call_id, '{"lease": "1.abc"}')
    assert (name, json.loads(arguments)) == (TOOL, {"agent_id": "ada"})
    assert client.ask(stream=stream).words == "lease 1.abc"


@each_api
@streaming_or_not
def test_calls_stand_beside_each_other_and_beside_words(mesh_model, api, stream):
    """Several calls in one answer have ids of their own, and the model may say something with them."""
    mesh_model.script(calls(call("claim_task", agent_id="a"), call("claim_task", agent_id="b"), text="Two at once."))
    said = api(mesh_model).ask(stream=stream)
    assert [json.loads(arguments)["agent_id"] for _, _, arguments in said.calls] == ["a", "b"]
    assert [name for _, name, _ in said.calls] == [TOOL, TOOL]
    assert len({call_id for call_id, _, _ in said.calls}) == 2
    assert (said.words, said.stop) == ("Two at once.", api.stops[1])


@each_api
@streaming_or_not
def test_usage_is_told_in_the_words_of_each_vendor(mesh_model, api, stream):
    """Buckets that are disjoint here come back the same from the vendor's block, read as our ledger reads it."""
    usage = Usage(input_tokens=100, cached_input_tokens=30, cache_write_tokens=20, output_tokens=7)
    mesh_model.script(text("x", usage=usage))
    reading = read_usage(api(mesh_model).ask(stream=stream).usage, dialect=api.dialect)
    assert (reading.usage, reading.unknown) == (usage, ())


@each_api
def test_tokens_are_counted_by_length_where_nobody_says_how_many(mesh_model, api):
    """A token is four characters of what was said, called, answered and offered: the same for every API."""
    schema = {"type": "object", "properties": {}}
    mesh_model.script(text("12345"), call("claim_task"), text("12345678"))
    client = api(mesh_model, schema=schema)
    heard = [client.ask() for _ in range(2)]
    client.result(heard[1].calls[0][0], "1234")
    usages = [read_usage(said.usage, dialect=api.dialect).usage for said in [*heard, client.ask()]]
    begin = len("Work.") + len(TOOL) + len(json.dumps(schema))
    lengths = [begin, begin + len("12345"), begin + len("12345") + len(TOOL) + len("{}") + len("1234")]
    assert [usage.input_tokens for usage in usages] == [-(-length // 4) for length in lengths]
    assert [usage.output_tokens for usage in usages] == [2, -(-(len(TOOL) + len("{}")) // 4), 2]


def test_chat_streams_tell_usage_only_if_asked(mesh_model):
    """As the vendor does: without `stream_options` there is none, and no chunk without a choice."""
    mesh_model.script(text("x"))
    _, _, data = Chat(mesh_model).send(stream=True, stream_options=None)
    assert b"usage" not in data
    assert data.endswith(b"data: [DONE]\n\n")


def test_a_response_goes_on_from_the_one_before(mesh_model):
    """The endpoint remembers a response's conversation; one that it does not know is refused."""
    mesh_model.script(call("claim_task", agent_id="a"), text(lambda turn: f"{turn.messages[0].text} {turn.last_text}"))
    client = Responses(mesh_model)
    _, _, data = client.send()
    first = json.loads(data)
    output = {"type": "function_call_output", "call_id": first["output"][0]["call_id"], "output": "{}"}
    client.talk = [output]
    assert client.ask(previous_response_id=first["id"]).words == "Work. {}"


@pytest.mark.parametrize(
    ("api", "more"),
    [
        (Chat, {"messages": [{"role": "developer", "content": [{"type": "text", "text": "Be kind."}]}]}),
        (Responses, {"instructions": "Be kind."}),
        (Messages, {"system": [{"type": "text", "text": "Be kind."}]}),
    ],
)
def test_what_the_system_says_is_the_first_message(mesh_model, api, more):
    """Wherever the vendor wants it."""
    mesh_model.script(text(lambda turn: f"{turn.messages[0].role}: {turn.messages[0].text}"))
    assert api(mesh_model).ask(**more).words == "system: Be kind."


@pytest.mark.parametrize(
    ("api", "tool"),
    [
        (Chat, {"type": "custom", "custom": {"name": "grep"}}),
        (Responses, {"type": "web_search"}),
        (Messages, {"type": "web_search_20250305", "name": "web_search"}),
    ],
)
def test_tools_of_the_vendors_own_are_none_of_the_agents(mesh_model, api, tool):
    """They may be offered beside the agent's, and are not called."""
    client = api(mesh_model)
    mesh_model.script(text(lambda turn: ", ".join(tool.name for tool in turn.tools)))
    assert client.ask(tools=[tool, *client.body()["tools"]]).words == TOOL


def test_a_tool_of_the_very_name_is_meant_before_all_that_end_in_it(mesh_model):
    """Two servers have a tool of that name, one of them without a prefix."""
    mesh_model.script(call("note", text="x"))
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("diary_note", "note")]
    assert Messages(mesh_model).ask(tools=tools).calls[0][1] == "note"


def test_the_newest_result_of_a_tool_counts(mesh_model):
    """An agent that claims again speaks of what it got then."""
    mesh_model.script(
        call("claim_task", agent_id="a"),
        call("claim_task", agent_id="a"),
        text(lambda turn: turn.last_result("claim_task")),
    )
    client = Chat(mesh_model)
    for result in ("first", "second"):
        client.result(client.ask().calls[0][0], result)
    assert client.ask().words == "second"


def test_every_agent_has_its_own_script(mesh_model):
    """One address serves all; a key, or a URL, says who asks. A name may be anything that the board takes."""
    names = ("coder-1", "größe/2", "größe")
    for name in names:
        mesh_model.agent(name).script(text(f"for {name}"), text(f"again for {name}"))
    for name in names:
        agent = mesh_model.agent(name)
        by_key = post(
            f"{mesh_model.url}/v1/messages?beta=true",
            Messages(agent).body() | {"model": "m"},
            **{"x-api-key": agent.key},
        )
        by_url = post(
            f"{agent.openai_url}/chat/completions", Chat(agent).body() | {"model": "m"}, Authorization="Bearer x"
        )
        assert json.loads(by_key[2])["content"][0]["text"] == f"for {name}"
        assert json.loads(by_url[2])["choices"][0]["message"]["content"] == f"again for {name}"
    with pytest.raises(InvalidArgument):
        mesh_model.agent("two words")


def test_a_policy_answers_what_no_script_does(mesh_model):
    """It sees the turn, may be asked for ever or never, and leaves nothing over."""

    def count(turn):
        return text(f"{turn.agent} {turn.number}: {turn.last_text}")

    mesh_model.agent("never").policy(count)
    mesh_model.agent("a").script(text("first")).policy(count)
    client = Chat(mesh_model.agent("a"))
    assert [client.ask().words for _ in range(3)] == ["first", "a 2: first", "a 3: a 2: first"]


def test_a_turn_is_the_same_whatever_api_it_came_by(mesh_model):
    """Messages, tools and results read alike; only the request itself is the vendor's."""
    turns = []
    for api in CLIENTS:
        agent = mesh_model.agent(api.dialect).script(
            calls(call("claim_task", agent_id="a"), text="I do."), text("Bye.")
        )
        client = api(agent)
        [(call_id, _, _)] = client.ask().calls
        client.result(call_id, "[1, 2]")
        client.ask()
        turns.append(agent.requests[-1])
    for turn in turns:
        assert isinstance(turn, Turn)
        assert turn.messages == (Message("user", "Work."), Message("assistant", "I do."), Message("tool", "[1, 2]"))
        assert [(result.tool.name, result.value) for result in turn.results] == [(TOOL, [1, 2])]
        assert [tool.name for tool in turn.tools] == [TOOL]
        assert turn.request["model"] == turn.model
    assert len(mesh_model.requests) == 6


@pytest.mark.parametrize(
    "told",
    [
        '{"task": "t"}',
        '[{"type": "text", "text": "{\\"task\\": \\"t\\"}"}]',
        '{"type": "text", "text": "{\\"task\\": \\"t\\"}", "annotations": null}',
    ],
    ids=["plain", "blocks", "block"],
)
def test_a_result_is_read_through_what_adapters_wrap_it_in(mesh_model, told):
    """LangChain hands on a list of content blocks as text, OpenAI's Agents SDK a single one."""
    mesh_model.script(call("claim_task", agent_id="a"), text(lambda turn: turn.last_result("claim_task")["task"]))
    client = Chat(mesh_model)
    client.result(client.ask().calls[0][0], told)
    assert client.ask().words == "t"


def test_the_environment_leads_here_and_nowhere_else(mesh_model):
    """Every address is on loopback, proxies and other vendors are gone, nobody is told of the run."""
    env = mesh_model.agent("a").env()
    urls = [value for name, value in env.items() if name.endswith(("_URL", "_BASE")) and value is not None]
    assert len(urls) == 5
    assert all(url.startswith(f"{mesh_model.url}/agents/a") for url in urls)
    assert env["OPENAI_API_KEY"] == env["ANTHROPIC_API_KEY"] == "mesh-a"
    assert env["HTTPS_PROXY"] is env["ANTHROPIC_AUTH_TOKEN"] is env["OPENAI_ORG_ID"] is None
    assert mesh_model.env()["OPENAI_BASE_URL"] == f"{mesh_model.url}/v1"


def test_agents_are_served_at_once(mesh_model):
    """Twenty agents on threads of their own each get what was scripted for them."""
    for number in range(20):
        mesh_model.agent(f"a{number}").script(*(text(f"{number}.{turn}") for turn in range(5)))
    heard = {}

    def talk(number):
        client = CLIENTS[number % 3](mesh_model.agent(f"a{number}"))
        heard[number] = [client.ask(stream=number % 2 == 0).words for _ in range(5)]

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == {number: [f"{number}.{turn}" for turn in range(5)] for number in range(20)}
