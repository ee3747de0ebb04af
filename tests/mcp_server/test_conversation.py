"""What is said to a client, request by request, in both eras."""

import pytest

from agentmesh.mcp_server import protocol
from agentmesh.mcp_server.conversation import Conversation, Listen, PromptGet, ResourceRead, Subscribe, ToolCall
from agentmesh.mcp_server.protocol import LISTS, Refused, Request
from tests.mcp_server.driver import ENVELOPE, HELLO

TOOL = {"name": "hello", "description": "Say hello.", "inputSchema": {"type": "object"}}
SHOWN = {
    "tools": [TOOL],
    "resources": [{"uri": "mesh://board"}],
    "resourceTemplates": [{"uriTemplate": "mesh://{id}"}],
    "prompts": [{"name": "greet"}],
}


@pytest.fixture
def talk():
    """A conversation about one tool, in which nothing was said yet."""
    return Conversation({"name": "mesh", "title": "Mesh", "version": "1"}, "Be nice.", SHOWN)


def modern(method, **params):
    """A request with the envelope of 2026-07-28."""
    return Request(1, method, params | {"_meta": ENVELOPE})


def refusal(talk, request):
    """The code with which a request is refused."""
    with pytest.raises(Refused) as caught:
        talk.answer(request)
    return caught.value.code


@pytest.mark.parametrize("version", protocol.HANDSHAKE)
def test_the_handshake_agrees_on_every_version_it_knows(talk, version):
    """A known version is echoed."""
    answer = talk.answer(Request(1, "initialize", HELLO | {"protocolVersion": version}))
    assert answer["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2099-01-01", "1", "2026-07-28"])
def test_an_unknown_version_is_answered_with_the_newest_of_the_handshake(talk, version):
    """The client decides whether it can live with that; 2026-07-28 has no handshake."""
    answer = talk.answer(Request(1, "initialize", HELLO | {"protocolVersion": version}))
    assert answer["protocolVersion"] == "2025-11-25"


def test_initialize_tells_who_is_there(talk):
    """Name, version, instructions and capabilities stand in the answer."""
    answer = talk.answer(Request(1, "initialize", HELLO))
    assert answer["serverInfo"] == {"name": "mesh", "title": "Mesh", "version": "1"}
    assert answer["capabilities"] == {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
    assert answer["instructions"] == "Be nice."


def test_nothing_but_ping_goes_before_the_handshake(talk):
    """Without handshake and envelope the tools are not shown."""
    assert talk.answer(Request(1, "ping", {})) == {}
    assert refusal(talk, Request(1, "tools/list", {})) == protocol.INVALID_PARAMS


def test_the_handshake_opens_the_tools(talk):
    """After initialize they are listed and called."""
    talk.answer(Request(1, "initialize", HELLO))
    assert talk.answer(Request(2, "tools/list", {})) == {"tools": [TOOL]}
    call = talk.answer(Request(3, "tools/call", {"name": "hello"}))
    assert isinstance(call, ToolCall)
    assert call.arguments == {}


def test_the_envelope_needs_no_handshake(talk):
    """A request of 2026-07-28 is served at once, and so is server/discover."""
    assert talk.answer(modern("tools/list"))["tools"] == [TOOL]
    assert talk.answer(modern("server/discover"))["supportedVersions"] == ["2026-07-28"]
    assert isinstance(talk.answer(modern("tools/call", name="hello")), ToolCall)


def test_a_version_from_the_future_is_named_as_unsupported(talk):
    """The error lists what is supported, so that the client can choose."""
    meta = ENVELOPE | {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    with pytest.raises(Refused) as caught:
        talk.answer(Request(1, "tools/list", {"_meta": meta}))
    assert caught.value.code == protocol.UNSUPPORTED_VERSION
    assert caught.value.data == {"supported": ["2026-07-28"], "requested": "2099-01-01"}


def test_half_an_envelope_is_refused(talk):
    """The client's capabilities belong into it."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    assert refusal(talk, Request(1, "tools/list", {"_meta": meta})) == protocol.INVALID_PARAMS


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/subscribe", "completion/complete", "no/such"]
)
def test_methods_that_are_not_there_are_called_unknown(talk, method):
    """2026-07-28 has neither ping nor log levels, and subscribes in another way."""
    assert refusal(talk, modern(method)) == protocol.METHOD_NOT_FOUND


@pytest.mark.parametrize(
    "params",
    [{}, {"name": 5}, {"name": "nobody"}, {"name": "hello", "arguments": [1]}],
)
def test_a_tool_call_that_is_no_call_is_bad_params(talk, params):
    """Its name has to be one of the list, its arguments an object."""
    assert refusal(talk, modern("tools/call", **params)) == protocol.INVALID_PARAMS


def test_an_invented_cursor_is_refused(talk):
    """The list has one page."""
    assert refusal(talk, modern("tools/list", cursor="x")) == protocol.INVALID_PARAMS


@pytest.mark.parametrize("method", LISTS)
def test_every_list_has_its_key(talk, method):
    """In both eras, and with no more than one page."""
    talk.answer(Request(1, "initialize", HELLO))
    expected = {LISTS[method]: SHOWN[LISTS[method]]}
    assert talk.answer(Request(2, method, {})) == talk.answer(modern(method)) == expected
    assert refusal(talk, modern(method, cursor="x")) == protocol.INVALID_PARAMS


def test_both_eras_announce_what_there_is(talk):
    """Tools, prompts, and resources that can be subscribed to."""
    announced = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
    assert talk.answer(modern("server/discover"))["capabilities"] == announced


def test_what_needs_the_board_is_handed_on(talk):
    """Checked as far as the protocol goes."""
    assert talk.answer(modern("resources/read", uri="mesh://board")) == ResourceRead("mesh://board")
    assert talk.answer(modern("prompts/get", name="greet", arguments={"to": "ada"})) == PromptGet(
        "greet", {"to": "ada"}
    )
    wanted = {"resourceSubscriptions": ["mesh://board"], "toolsListChanged": True}
    assert talk.answer(modern("subscriptions/listen", notifications=wanted)) == Listen(("mesh://board",))
    talk.answer(Request(1, "initialize", HELLO))
    assert talk.answer(Request(2, "resources/subscribe", {"uri": "a"})) == Subscribe("a", ends=False)
    assert talk.answer(Request(2, "resources/unsubscribe", {"uri": "a"})) == Subscribe("a", ends=True)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("resources/read", {}),
        ("resources/read", {"uri": 5}),
        ("prompts/get", {"name": "nobody"}),
        ("prompts/get", {"name": "greet", "arguments": "ada"}),
        ("subscriptions/listen", {}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": "mesh://board"}}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [5]}}),
    ],
)
def test_what_cannot_be_handed_on_is_bad_params(talk, method, params):
    """Nothing behind it is asked."""
    assert refusal(talk, modern(method, **params)) == protocol.INVALID_PARAMS


def test_the_older_era_does_not_listen(talk):
    """There is a handshake, and it agreed on a version without it."""
    talk.answer(Request(1, "initialize", HELLO))
    assert refusal(talk, Request(2, "subscriptions/listen", {"notifications": {}})) == protocol.INVALID_PARAMS
