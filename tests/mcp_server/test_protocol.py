"""What is said to a client, message by message, in both eras."""

import pytest

from agentmesh.mcp_server import protocol
from agentmesh.mcp_server.protocol import Conversation, Refused, Request, ToolCall
from tests.mcp_server.driver import ENVELOPE, HELLO

TOOL = {"name": "hello", "description": "Say hello.", "inputSchema": {"type": "object"}}


@pytest.fixture
def talk():
    """A conversation about one tool, in which nothing was said yet."""
    return Conversation({"name": "mesh", "title": "Mesh", "version": "1"}, "Be nice.", [TOOL])


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
    assert answer["capabilities"] == {"tools": {}}
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


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/list", "no/such"])
def test_methods_that_are_not_there_are_called_unknown(talk, method):
    """2026-07-28 has neither ping nor log levels, and we have tools only."""
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


def test_each_era_gets_answers_of_its_own_form():
    """2026-07-28 wants a type, a stamp and, for lists, how long they keep."""
    server = {"name": "mesh", "version": "1"}
    old = protocol.success(Request(1, "tools/list", {}), {"tools": []}, server)
    new = protocol.success(modern("tools/list"), {"tools": []}, server)
    assert old["result"] == {"tools": []}
    assert new["result"]["resultType"] == "complete"
    assert new["result"]["cacheScope"] == "private"
    assert new["result"]["_meta"] == {"io.modelcontextprotocol/serverInfo": server}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", protocol.PARSE_ERROR),
        (b"nonsense", protocol.PARSE_ERROR),
        (b'{"a": NaN}', protocol.PARSE_ERROR),
        (b'"\xff"', protocol.PARSE_ERROR),
        (b"[" * 100_000, protocol.PARSE_ERROR),
        (b"1" * 5000, protocol.PARSE_ERROR),
    ],
)
def test_what_is_not_json_is_a_parse_error(line, code):
    """Whatever is wrong with it."""
    with pytest.raises(Refused) as caught:
        protocol.decoded(line)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("message", "answered_to"),
    [
        (5, None),
        ({}, None),
        ({"jsonrpc": "1.0", "id": 7, "method": "ping"}, 7),
        ({"jsonrpc": "2.0", "id": 7}, 7),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, 7),
        ({"jsonrpc": "2.0", "id": None, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, None),
        ({"jsonrpc": "2.0", "id": [1], "method": "ping"}, None),
    ],
)
def test_an_invalid_message_is_answered_to_its_id_if_that_is_one(message, answered_to):
    """An id that cannot be used is answered as null."""
    with pytest.raises(Refused) as caught:
        protocol.read(message)
    assert caught.value.code == protocol.INVALID_REQUEST
    assert protocol.failure(caught.value)["id"] == answered_to


def test_responses_are_not_for_us():
    """This server asks nothing, so it takes no answers."""
    assert protocol.read({"jsonrpc": "2.0", "id": 1, "result": {}}) is None


@pytest.mark.parametrize("token", [True, 1.5, None, [], {}])
def test_only_strings_and_whole_numbers_are_progress_tokens(token):
    """Anything else is as good as no token."""
    assert Request(1, "tools/call", {"_meta": {"progressToken": token}}).progress_token is None
