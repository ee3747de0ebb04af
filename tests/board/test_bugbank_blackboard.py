"""Public faults of systems like ours, section C of the bug bank: blackboard, namespaces, time to live."""

import threading

import pytest

from agentmesh.errors import VersionConflict
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock
from tests.support.processes import barrier, results

YEAR = 365 * 86_400


def names(page):
    """The places on a page, as one text each."""
    return [f"{entry.namespace}/{entry.key}" for entry in page.entries]


def test_c1_no_character_is_a_wildcard(board):
    """langgraph#8300, ai-memory-mcp#217: `_` and `%` in a namespace or a prefix stand for themselves."""
    bb = board.blackboard
    for namespace in ("john-doe", "john_doe", "%", "_", "johnxdoe"):
        bb.put(namespace, "k", namespace)
        bb.put(namespace, f"{namespace}-1", namespace)
    for namespace in ("john-doe", "john_doe", "%", "_"):
        assert {entry.namespace for entry in bb.list(namespace).entries} == {namespace}
        assert names(bb.list(namespace, prefix=namespace)) == [f"{namespace}/{namespace}-1"]
    assert bb.list("john%").entries == ()
    assert names(bb.list(prefix="%")) == ["%/%-1"]


def test_c2_a_namespace_ends_where_its_segment_ends(board):
    """CVE-2026-71433, langgraph PR#8478: `tenant/a` does not show what `tenant/ab` has."""
    bb = board.blackboard
    for namespace in ("tenant/a", "tenant/ab", "tenant/a/x", "tenant/a-b", "tenant/a.b", "tenant/a0", "tenant"):
        bb.put(namespace, "k", 1)
    assert names(bb.list("tenant/a")) == ["tenant/a/k", "tenant/a/x/k"]
    cursor = bb.list("tenant/a", limit=1).cursor
    assert names(bb.list("tenant/a", cursor=cursor)) == ["tenant/a/x/k"]
    assert bb.list("tenant/a", cursor=bb.list("tenant", limit=6).cursor).entries == ()


@pytest.mark.parametrize("value", ["", 0, False, None, [], {}, b"", 0.0])
def test_c4_what_is_empty_is_not_missing(board, value):
    """In langgraphjs PR#582: the root namespace, the key "0", empty values are all there; only a deletion ends them."""
    bb = board.blackboard
    bb.put("", "0", value)
    found = bb.get("", "0")
    assert (found.value, type(found.value)) == (value, type(value))
    assert names(bb.list("")) == names(bb.list(recursive=False)) == ["/0"]
    with pytest.raises(VersionConflict):
        bb.put("", "0", 1, if_version=0)
    assert bb.delete("", "0")
    assert bb.get("", "0") is None


@pytest.mark.parametrize("value", ["123", "null", "true", "[1]", '{"a":1}', "1e5", "", None, 0, False, "1.0", [], 5])
def test_c5_a_string_that_looks_like_json_stays_a_string(board, value):
    """python-sdk#381, fastmcp#251, #3931: through the MCP tools, there and back, and on the board itself."""
    call = Call(Session(board, keepalive_sec=0))
    tools = {tool.name: tool for tool in TABLE}
    tools["put_entry"].run(call, {"key": "k", "value": value})
    answer = tools["get_entry"].run(call, {"key": "k"})
    for found in (answer["value"], board.blackboard.get("", "k").value):
        assert (found, type(found)) == (value, type(value))


def test_c7_c8_without_a_sweeper_what_is_expired_is_gone_everywhere(board, clock):
    """etcd#1068, #2802, dragonfly PR#8181: a day later nothing shows it, and no time that remains is below zero."""
    bb = board.blackboard
    bb.put("a", "k", 1, ttl_sec=60)
    clock.advance(59)
    assert bb.get("a", "k").expires_us - clock.now_us() == 1_000_000
    clock.advance(86_400)
    assert bb.get("a", "k") is None
    assert bb.list("a").entries == bb.list().entries == ()
    assert (bb.stats().entries, bb.stats().expired) == (0, 1)
    with pytest.raises(VersionConflict) as caught:
        bb.put("a", "k", 2, if_version=1)
    assert caught.value.version == 0
    assert not bb.delete("a", "k")


def test_c10_a_step_of_the_clock_takes_nothing_without_an_end(board, clock):
    """valkey#2651, redis#217: a year on and back. What has an end goes by the clock; if unswept, it is back with it."""
    bb = board.blackboard
    bb.put("a", "for-ever", 1)
    bb.put("a", "an-hour", 2, ttl_sec=3600)
    clock.advance(YEAR)
    assert names(bb.list("a")) == ["a/for-ever"]
    clock.advance(-YEAR)
    assert names(bb.list("a")) == ["a/an-hour", "a/for-ever"]
    clock.advance(YEAR)
    bb.put("b", "sees-the-time", 3)
    bb.put("b", "sweeps", 3)
    clock.advance(-YEAR)
    assert names(bb.list("a")) == ["a/for-ever"]
    clock.advance(-YEAR)
    assert bb.put("a", "for-ever", 4).version == 2


def test_c11_readers_around_an_expiry_see_the_value_or_nothing(board, clock):
    """cachetools#80, #115, #245: eight readers while the clock passes the end: a value or None, no exception."""
    bb = board.blackboard
    seen, start = [], threading.Barrier(9)

    def read():
        start.wait(30)
        for _ in range(200):
            entry = bb.get("a", "k")
            seen.append(entry.value if entry else None)
            seen.append(bool(bb.list("a").entries))

    bb.put("a", "k", "here", ttl_sec=1)
    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    start.wait(30)
    for _ in range(100):
        clock.advance(0.01)
        bb.put("b", "k", 1)
    for reader in readers:
        reader.join(60)
    assert len(seen) == 8 * 400
    assert set(seen) <= {"here", None, True, False}
    assert bb.get("a", "k") is None


def test_c13_nothing_without_an_end_is_ever_evicted(board, clock):
    """diskcache#256, #342: a crowd of entries later all are there; what waits to be swept is counted."""
    bb = board.blackboard
    for number in range(50):
        bb.put("kept", f"k{number}", "x" * 10_000)
        bb.put("brief", f"k{number}", "x", ttl_sec=1)
    clock.advance(YEAR)
    assert bb.stats().expired == 50
    assert len(bb.list("kept", limit=500).entries) == 50
    assert bb.stats().entries == 50


def count_up(line, path, start, steps, number):
    """Take the counter from what it is to one more, `steps` times, by compare-and-set; how often others were first."""
    with open_board(path, TurnableClock(), seed=number) as board:
        bb, lost = board.blackboard, 0
        start.wait()
        for _ in range(steps):
            while True:
                entry = bb.get("a", "n")
                value, version = (entry.value, entry.version) if entry else (0, 0)
                try:
                    bb.put("a", "n", value + 1, if_version=version)
                    break
                except VersionConflict:
                    lost += 1
        line.send(lost)


@pytest.mark.multiproc
@pytest.mark.parametrize("steps", [125, pytest.param(1_000, marks=pytest.mark.slow)])
def test_c14_eight_who_compare_and_set_lose_no_step(board_path, clock, steps):
    """8 processes on a counter that is not there yet: it counts each step of each, and so does its version."""
    with open_board(board_path, clock, seed=99) as board:
        lost = results(8, count_up, board_path, barrier(8), steps)
        entry = board.blackboard.get("a", "n")
        assert (entry.value, entry.version) == (8 * steps, 8 * steps)
        assert sum(lost) > 0  # they did meet
        assert violations(board) == {}


def add_up(line, path, start, number):
    """Increment and append, without a look."""
    with open_board(path, TurnableClock(), seed=number) as board:
        start.wait()
        for step in range(60):
            board.blackboard.increment("a", "n")
            board.blackboard.append("a", "l", [number, step])
        line.send(None)


@pytest.mark.multiproc
def test_c14_eight_who_add_lose_nothing(board_path, clock):
    """The same for counters and lists; each one's items stand in its order."""
    with open_board(board_path, clock, seed=99) as board:
        results(8, add_up, board_path, barrier(8))
        assert board.blackboard.get("a", "n").value == 480
        items = board.blackboard.get("a", "l").value
        for number in range(8):
            assert [step for who, step in items if who == number] == list(range(60))
