"""The tools of the blackboard: values keep their types, bytes travel as base64, long values come in parts."""

import base64

import pytest

from agentmesh.errors import InvalidArgument, LeaseLost, LeaseUnknown, NotFound, VersionConflict
from agentmesh.mcp_server import reply
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE

TOOLS = {tool.name: tool for tool in TABLE}


@pytest.fixture
def session(board):
    """A session on a new board, which renews nothing."""
    return Session(board, keepalive_sec=0)


@pytest.fixture
def do(session):
    """Call a tool by its name."""
    return lambda tool, **arguments: TOOLS[tool].run(Call(session), arguments)


def test_an_entry_is_put_shown_listed_and_deleted(do):
    """The answer to a put does not repeat the value."""
    put = do("put_entry", namespace="a", key="k", value={"x": 1}, ttl_sec=60, agent_id="ann")
    assert (put["version"], put["agent_id"], "value" in put, "expires_at" in put) == (1, "ann", False, True)
    assert do("get_entry", namespace="a", key="k")["value"] == {"x": 1}
    assert [entry["key"] for entry in do("list_entries")["entries"]] == ["k"]
    assert do("delete_entry", namespace="a", key="k", if_version=1) == {"deleted": True}
    assert do("delete_entry", namespace="a", key="k") == {"deleted": False}
    assert do("list_entries", namespace="a", recursive=False) == {"entries": []}
    with pytest.raises(NotFound):
        do("get_entry", namespace="a", key="k")


def test_a_value_has_to_be_given(do):
    """Null is a value, nothing is none."""
    do("put_entry", key="k", value=None)
    assert do("get_entry", key="k")["value"] is None
    with pytest.raises(InvalidArgument, match="value: is required"):
        do("put_entry", key="k")


def test_bytes_travel_as_base64(do, board):
    """With a content type, in both directions; what is no base64 is refused."""
    data = bytes(range(256))
    do("put_entry", key="k", value=base64.b64encode(data).decode(), content_type="image/png")
    assert board.blackboard.get("", "k").value == data
    shown = do("get_entry", key="k")
    assert (base64.b64decode(shown["value"]), shown["content_type"]) == (data, "image/png")
    for wrong in ("é", "a", "a b=", 5, None, ["x"]):
        with pytest.raises(InvalidArgument, match="value: must be base64"):
            do("put_entry", key="k", value=wrong, content_type="image/png")


def test_another_version_is_told(do):
    """The error document has it."""
    do("put_entry", key="k", value=1)
    with pytest.raises(VersionConflict):
        do("put_entry", key="k", value=2, if_version=0)
    result = reply.result_of(lambda: do("put_entry", key="k", value=2, if_version=5))
    assert result["structuredContent"]["version"] == 1


@pytest.mark.parametrize("value", ["é" * 100_000, ["x" * 1000] * 200])
def test_a_long_value_is_read_in_parts(do, value):
    """The first answer says how to go on; the parts together are the value."""
    do("put_entry", key="k", value=value)
    first = reply.fit(do("get_entry", key="k"))
    assert reply.size(first) <= reply.LIMIT
    assert first["truncated"][0]["field"] == "value"
    assert "get_entry" in first["truncated_hint"]
    text, offset = "", 0
    while offset is not None:
        part = do("get_entry", key="k", offset=offset)
        assert reply.size(part) <= reply.LIMIT
        assert part["version"] == 1
        text, offset = text + part["text"], part.get("next_offset")
    assert text == (value if isinstance(value, str) else reply.compact(value))


def test_many_entries_come_in_pages_that_fit(do, board):
    """With a cursor to go on."""
    for number in range(300):
        board.blackboard.put("n" * 200, f"{'k' * 200}{number:03}", number)
    found, cursor = [], {}
    while True:
        page = do("list_entries", limit=500, **cursor)
        assert reply.size(page) <= reply.LIMIT
        found += page["entries"]
        if "cursor" not in page:
            break
        cursor = {"cursor": page["cursor"]}
    assert len(found) == 300


def test_a_task_signs_by_the_lease_of_the_session(do, clock, board):
    """Whoever does not hold it cannot; who lost it neither."""
    do("create_task", title="t", id="t")
    do("claim_task", agent_id="ann")
    signed = do("put_entry", key="k", value=1, task_id="t", agent_id="ann")
    assert (signed["agent_id"], signed["task_id"], signed["fence"]) == ("ann", "t", 1)
    with pytest.raises(LeaseUnknown):
        do("put_entry", key="k", value=1, task_id="t", agent_id="bob")
    with pytest.raises(InvalidArgument, match="task_id"):
        do("put_entry", key="k", value=1, lease="1.x", agent_id="ann")
    clock.advance(60)
    board.reclaim_zombies()
    with pytest.raises(LeaseLost):
        do("delete_entry", key="k", task_id="t", agent_id="ann")


def test_a_session_with_a_name_writes_in_it(board):
    """And shows no agent_id."""
    call = Call(Session(board, agent="ann", keepalive_sec=0))
    assert TOOLS["put_entry"].run(call, {"key": "k", "value": 1})["agent_id"] == "ann"
    assert "agent_id" not in TOOLS["put_entry"].listing("ann")["inputSchema"]["properties"]
