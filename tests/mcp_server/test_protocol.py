"""Messages, one by one, in both eras."""

import pytest

from agentmesh.mcp_server import protocol
from agentmesh.mcp_server.protocol import Refused, Request
from tests.mcp_server.driver import ENVELOPE


def modern(method):
    """A request with the envelope of 2026-07-28."""
    return Request(1, method, {"_meta": ENVELOPE})


def test_each_era_gets_answers_of_its_own_form():
    """2026-07-28 wants a type, a stamp and, for lists, how long they keep."""
    server = {"name": "mesh", "version": "1"}
    old = protocol.success(Request(1, "tools/list", {}), {"tools": []}, server)
    new = protocol.success(modern("tools/list"), {"tools": []}, server)
    assert old["result"] == {"tools": []}
    assert new["result"]["resultType"] == "complete"
    assert new["result"]["cacheScope"] == "private"
    assert new["result"]["_meta"] == {"io.modelcontextprotocol/serverInfo": server}


def test_what_stands_on_the_board_is_never_kept():
    """A list keeps for an hour, a resource for no time at all, the result of a tool says nothing of it."""
    kept = {m: protocol.success(modern(m), {}, {})["result"].get("ttlMs") for m in ("tools/list", "resources/read")}
    assert kept == {"tools/list": 3_600_000, "resources/read": 0}
    assert "ttlMs" not in protocol.success(modern("tools/call"), {}, {})["result"]


def test_a_notice_of_the_newer_era_names_its_subscription():
    """The older era has but one."""
    assert protocol.updated("a")["params"] == {"uri": "a"}
    key = "io.modelcontextprotocol/subscriptionId"
    assert protocol.updated("a", 7)["params"] == {"uri": "a", "_meta": {key: 7}}
    assert protocol.acknowledged(7, ["a"])["params"] == {
        "notifications": {"resourceSubscriptions": ["a"]},
        "_meta": {key: 7},
    }


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
