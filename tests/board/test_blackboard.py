"""The blackboard: entries with versions, ends, authors and types, found by whole segments and exact prefixes."""

import itertools

import pytest

from agentmesh.documents import document
from agentmesh.errors import InvalidArgument, LeaseLost, TaskCancelled, VersionConflict, WrongKind
from tests.support.boards import claimed, event_count, kinds, put, rows

SECOND = 1_000_000


@pytest.fixture
def bb(board):
    """The blackboard of a new board."""
    return board.blackboard


def keys(page):
    """The names on a page."""
    return [(entry.namespace, entry.key) for entry in page.entries]


# Values and versions


@pytest.mark.parametrize(
    "value", ["", "0", "123", "null", 0, 1.5, False, True, None, [], {}, [None], {"a": [1]}, "é\n🎉"]
)
def test_json_comes_back_as_it_was(bb, value):
    """With its type: text that looks like a number is text, and nothing is taken for missing."""
    written, read = bb.put("a", "k", value), bb.get("a", "k")
    assert written == read
    assert (read.value, type(read.value)) == (value, type(value))
    assert read.content_type is None


@pytest.mark.parametrize("data", [b"", b"\x00\xff", bytearray(b"x"), memoryview(b"yz")])
def test_bytes_come_back_with_their_type(bb, data):
    """Empty ones too, from whatever they were in."""
    entry = bb.put("a", "k", data, content_type="text/plain; charset=utf-8")
    assert entry == bb.get("a", "k")
    assert (entry.value, entry.size, entry.content_type) == (bytes(data), len(data), "text/plain; charset=utf-8")
    assert bb.put("a", "other", data).content_type == "application/octet-stream"


def test_bytes_and_json_take_each_others_place(bb):
    """A write leaves nothing of what was there."""
    bb.put("a", "k", b"x", content_type="image/png", ttl_sec=5)
    entry = bb.put("a", "k", {"x": 1})
    assert (entry.value, entry.content_type, entry.expires_us, entry.version) == ({"x": 1}, None, None, 2)
    assert bb.get("a", "k") == entry
    bb.put("a", "k", b"y")
    assert bb.get("a", "k").value == b"y"


def test_what_was_never_put_is_missing(bb):
    """None, and no error; an entry of null is not missing."""
    assert bb.get("a", "k") is None
    bb.put("a", "k", None)
    assert bb.get("a", "k").value is None


def test_a_version_counts_the_writes_of_a_name(board, clock):
    """Also over a deletion, an expiry, and an expiry that was swept: no version ever stands for two values."""
    bb = board.blackboard
    found = [bb.put("a", "k", 1).version, bb.increment("a", "k").version]
    bb.delete("a", "k")
    found.append(bb.put("a", "k", 3, ttl_sec=1).version)
    clock.advance(1)
    found.append(bb.put("a", "k", 4, ttl_sec=1).version)
    clock.advance(1)
    for _ in range(2):  # the second sees by the first that its time is over
        bb.put("a", "other", 0)
    assert rows(board, "SELECT count(*) FROM entry WHERE key = 'k'") == [(0,)]
    found.append(bb.append("a", "k", 5).version)
    assert found == [1, 2, 3, 4, 5]


# Compare and set


def test_a_write_may_ask_for_a_version(bb):
    """The one it read, or 0 for none at all."""
    assert bb.put("a", "k", "x", if_version=0).version == 1
    assert bb.put("a", "k", "y", if_version=1).version == 2
    assert bb.delete("a", "k", if_version=2)


@pytest.mark.parametrize(("there", "asked", "found"), [(0, 3, 0), (1, 0, 1), (2, 1, 2), (2, 3, 2)])
def test_another_version_is_refused_and_named(board, there, asked, found):
    """Nothing is written, no event either; 0 stands for a missing entry."""
    for _ in range(there):
        board.blackboard.put("a", "k", "x")
    before = event_count(board)
    for call in (
        lambda: board.blackboard.put("a", "k", "z", if_version=asked),
        lambda: board.blackboard.delete("a", "k", if_version=asked),
    ):
        with pytest.raises(VersionConflict) as caught:
            call()
        assert (caught.value.code, caught.value.version, caught.value.expected) == ("version_conflict", found, asked)
    assert event_count(board) == before


@pytest.mark.parametrize("gone", ["deleted", "expired", "swept"])
def test_a_compare_and_set_on_what_is_gone_is_one_on_what_is_missing(board, clock, gone):
    """Its last version is worth nothing any more."""
    bb = board.blackboard
    bb.put("a", "k", 1, ttl_sec=1)
    if gone == "deleted":
        bb.delete("a", "k")
    else:
        clock.advance(1)
    if gone == "swept":
        for _ in range(2):
            bb.put("a", "other", 1)
    with pytest.raises(VersionConflict) as caught:
        bb.put("a", "k", 2, if_version=1)
    assert caught.value.version == 0
    assert bb.put("a", "k", 2, if_version=0).version == 2


# Ends


def test_an_expired_entry_is_gone_for_every_call(bb, clock):
    """P9: at its last instant and not before it; nobody has swept."""
    bb.put("a", "n", 5, ttl_sec=1)
    bb.put("a", "l", [5], ttl_sec=1)
    clock.advance(0.999999)
    assert [bb.get("a", "n").value, len(bb.list("a").entries)] == [5, 2]
    clock.advance(0.000001)
    assert bb.get("a", "n") is None
    assert (bb.list("a").entries, bb.list("a", prefix="n").entries, bb.list().entries) == ((), (), ())
    assert bb.stats().expired == 2
    assert not bb.delete("a", "n")
    assert bb.increment("a", "n").value == 1
    assert bb.append("a", "l", "x").value == ["x"]


def test_a_put_without_an_end_takes_the_old_one_away_a_growing_entry_keeps_it(bb, clock):
    """A counter of this hour stays one of this hour, unless a new end is given."""
    end = clock.now_us() + 10 * SECOND
    bb.put("a", "k", 1, ttl_sec=10)
    clock.advance(1)
    assert bb.increment("a", "k").expires_us == end
    assert bb.increment("a", "k", ttl_sec=20).expires_us == end + 11 * SECOND
    assert bb.put("a", "k", 1).expires_us is None
    assert bb.increment("a", "k").expires_us is None


def test_who_writes_over_an_expired_entry_takes_it_away_if_the_sweep_does_not(bb, clock):
    """Ten others were due before it, and go; it counts on from where it was."""
    for number in range(20):
        bb.put("a", f"k{number}", 1, ttl_sec=1)
    bb.put("a", "last", 1, ttl_sec=2)
    clock.advance(2)
    bb.put("b", "seen", 0)
    assert bb.put("a", "last", 2).version == 2
    assert (bb.stats().entries, bb.stats().expired, bb.stats().tombstones) == (2, 10, 10)


def test_writers_sweep_a_few_at_a_time(board, clock):
    """Ten with each write, oldest first, and no event tells of it: they were gone before."""
    bb = board.blackboard
    for number in range(25):
        bb.put("a", f"k{number}", "x" * 100, ttl_sec=1 + number / 1000)
    clock.advance(10)
    assert bb.stats().expired == 25
    left = []
    for _ in range(4):
        before = event_count(board)
        bb.put("b", "k", 1)
        left.append(bb.stats().expired)
        assert kinds(board, before) == ["entry_put"]
    assert left == [25, 15, 5, 0]
    assert rows(board, "SELECT count(*) FROM entry_value") == [(1,)]


def test_one_wrong_instant_sweeps_no_entry_that_is_alive(bb, clock):
    """A clock that was a day ahead for one write."""
    bb.put("a", "k", "kept", ttl_sec=3600)
    clock.advance(86_400)
    bb.put("a", "other", 1)
    assert bb.get("a", "k") is None
    clock.advance(-86_400)
    assert bb.get("a", "k").value == "kept"


# Counters and lists


def test_a_counter_counts(bb):
    """From nothing, up and down, to the ends of 64 bits and no further."""
    assert [bb.increment("a", "n").value, bb.increment("a", "n", 5).value, bb.increment("a", "n", -10).value] == [
        1,
        6,
        -4,
    ]
    bb.put("a", "n", 2**63 - 2)
    assert bb.increment("a", "n").value == 2**63 - 1
    with pytest.raises(InvalidArgument, match="64 bits"):
        bb.increment("a", "n")
    assert bb.get("a", "n").value == 2**63 - 1


@pytest.mark.parametrize("value", ["1", 1.0, True, None, [1], {"a": 1}, b"1"])
def test_only_whole_numbers_count(board, value):
    """Nothing is guessed, nothing changes."""
    board.blackboard.put("a", "k", value)
    with pytest.raises(WrongKind, match="not a whole number") as caught:
        board.blackboard.increment("a", "k")
    assert caught.value.code == "wrong_kind"
    assert board.blackboard.get("a", "k").version == 1


def test_a_list_grows(bb):
    """From nothing, by any JSON."""
    for item in (1, "x", None, [], {"a": "]"}):
        grown = bb.append("a", "l", item)
    assert grown.value == [1, "x", None, [], {"a": "]"}]
    assert bb.get("a", "l") == grown


@pytest.mark.parametrize("value", ["[]", 1, None, {"a": 1}, b"[]"])
def test_only_lists_grow(bb, value):
    """An object, or text that looks like a list, does not."""
    bb.put("a", "k", value)
    with pytest.raises(WrongKind, match="not a list"):
        bb.append("a", "k", 1)
    assert bb.get("a", "k").version == 1


# Names and listings


def test_namespaces_match_by_segment(bb):
    """What only begins alike is elsewhere."""
    for namespace in ("a", "a/b", "a/bc", "a/b/c", "a!", "a0", "ab", ""):
        bb.put(namespace, "k", namespace)
    assert keys(bb.list("a/b")) == [("a/b", "k"), ("a/b/c", "k")]
    assert keys(bb.list("a")) == [("a", "k"), ("a/b", "k"), ("a/b/c", "k"), ("a/bc", "k")]
    assert keys(bb.list("a", recursive=False)) == [("a", "k")]
    assert keys(bb.list(recursive=False)) == [("", "k")]
    assert len(bb.list().entries) == 8


@pytest.mark.parametrize("recursive", [True, False])
def test_a_prefix_is_exact(bb, recursive):
    """Characters that mean something in patterns elsewhere mean nothing here; case matters."""
    for key in ("a%", "a_b", "axb", "A", "a", "b", "a\U0001f600", "*", "["):
        bb.put("n", key, 1)
    found = {prefix: [key for _, key in keys(bb.list("n", prefix=prefix, recursive=recursive))] for prefix in "a%_*[A"}
    assert found == {
        "a": ["a", "a%", "a_b", "axb", "a\U0001f600"],
        "%": [],
        "_": [],
        "*": ["*"],
        "[": ["["],
        "A": ["A"],
    }
    assert [key for _, key in keys(bb.list("n", prefix="a_", recursive=recursive))] == ["a_b"]


@pytest.mark.parametrize("where", ["", "n", "n/a"])
@pytest.mark.parametrize("prefix", [None, "k1"])
@pytest.mark.parametrize("recursive", [True, False])
def test_pages_together_are_the_whole(bb, where, prefix, recursive):
    """In order, each entry once, whatever the size of a page."""
    for namespace, number in itertools.product(("", "n", "n/a", "n/a/x", "n/b", "na", "m"), range(8, 14)):
        bb.put(namespace, f"k{number}", number)
    asked = {"prefix": prefix, "recursive": recursive}
    whole = keys(bb.list(where, limit=500, **asked))
    assert whole
    assert whole == sorted(whole)
    for limit in (1, 4, 7):
        found, cursor = [], None
        while True:
            page = bb.list(where, limit=limit, cursor=cursor, **asked)
            found += keys(page)
            assert len(page.entries) <= limit
            cursor = page.cursor
            if cursor is None:
                break
        assert found == whole


def test_a_listing_shows_facts_and_no_values(bb):
    """An agent that wants a megabyte asks for it."""
    bb.put("a", "k", b"x" * 1000, content_type="text/plain", agent_id="ann")
    shown = document(bb.list())
    assert [entry["size"] for entry in shown["entries"]] == [1000]
    assert "value" not in shown["entries"][0]
    assert document(bb.list("empty")) == {"entries": []}


# Authors, events, repeats


def test_an_entry_says_who_wrote_it(board):
    """The agent; with a lease its holder, task and attempt."""
    put(board, "t")
    claim = claimed(board, "t", "ann")
    bb = board.blackboard
    assert (bb.put("a", "k", 1).agent_id, bb.put("a", "k", 1, agent_id="bob").agent_id) == ("operator", "bob")
    signed = bb.put("a", "k", 1, lease=claim)
    assert (signed.agent_id, signed.task_id, signed.fence) == ("ann", "t", 1)
    assert bb.get("a", "k") == signed
    again = bb.increment("a", "k", agent_id="bob")
    assert (again.agent_id, again.task_id, again.fence) == ("bob", None, None)
    with pytest.raises(InvalidArgument, match="agent_id"):
        bb.put("a", "k", 1, lease=claim, agent_id="bob")


def test_a_lost_lease_writes_nothing(board, clock):
    """What a zombie left would look like its successor's."""
    put(board, "t", "gone")
    claim, gone = claimed(board, "t"), claimed(board, "gone")
    board.cancel_task("gone")
    clock.advance(60)
    board.reclaim_zombies()
    bb = board.blackboard
    bb.put("a", "k", 1)
    for lease, error in ((claim, LeaseLost), (gone, TaskCancelled)):
        for call in (
            lambda lease=lease: bb.put("a", "k", 2, lease=lease),
            lambda lease=lease: bb.increment("a", "k", lease=lease),
            lambda lease=lease: bb.delete("a", "k", lease=lease),
            lambda lease=lease: bb.append("a", "l", 1, lease=lease),
        ):
            with pytest.raises(error):
                call()
    assert keys(bb.list()) == [("a", "k")]
    assert bb.get("a", "k").value == 1


def test_every_write_tells_and_keeps_the_value_to_itself(board):
    """Name, version, author; never what was written."""
    put(board, "t")
    claim = claimed(board, "t", "ann")
    before = event_count(board)
    board.blackboard.put("a", "k", "secret", lease=claim)
    board.blackboard.append("a", "l", "secret", agent_id="bob", ttl_sec=5)
    board.blackboard.delete("a", "k")
    first, second, third = board.events(before)
    assert [first.kind, second.kind, third.kind] == ["entry_put", "entry_put", "entry_deleted"]
    assert (first.agent_id, first.task_id, first.fence, first.plan) == ("ann", "t", 1, "default")
    assert (second.agent_id, second.task_id) == ("bob", None)
    assert first.data == {"namespace": "a", "key": "k", "version": 1, "size": 8}
    assert third.data == {"namespace": "a", "key": "k", "version": 1}
    assert "secret" not in "".join(data for (data,) in rows(board, "SELECT data FROM event"))


@pytest.mark.parametrize(
    "call",
    [
        lambda bb: bb.put("a", "k", b"x", agent_id="me", request_id="r"),
        lambda bb: bb.put("a", "k", ["y"], agent_id="me", request_id="r", ttl_sec=3),
        lambda bb: bb.increment("a", "n", agent_id="me", request_id="r"),
        lambda bb: bb.append("a", "l", 1, agent_id="me", request_id="r"),
        lambda bb: bb.delete("a", "old", agent_id="me", request_id="r"),
    ],
    ids=["put bytes", "put", "increment", "append", "delete"],
)
def test_a_repeat_gives_the_first_answer_whatever_happened_since(board, clock, call):
    """Others have written, the entry is gone: the answer is that of then, and nothing is done."""
    bb = board.blackboard
    bb.put("a", "old", 1)
    first = call(bb)
    clock.advance(10)
    bb.put("a", "old", 2)
    bb.increment("a", "n", agent_id="other")
    for key in ("k", "l"):
        bb.delete("a", key)
    before = event_count(board)
    assert call(bb) == first
    assert event_count(board) == before


# Limits

NAMES = ["x" * 257, "a b", "a\n", "\ud800", "a\0", "\u202e", 5, None]


@pytest.mark.parametrize(
    ("field", "call"),
    [
        *[("namespace", lambda bb, n=n: bb.put(n, "k", 1)) for n in (*NAMES, "/", "/a", "a/", "a//b")],
        *[("namespace", lambda bb, n=n: bb.list(n)) for n in ("a/", "x" * 257)],
        *[("key", lambda bb, n=n: bb.put("a", n, 1)) for n in (*NAMES, "")],
        *[("key", lambda bb, n=n: bb.get("a", n)) for n in ("", "a b")],
        *[("value", lambda bb, v=v: bb.put("a", "k", v)) for v in (float("nan"), "\ud800", {1: 2}, {1}, 2**63, "\0")],
        ("value", lambda bb: bb.put("a", "k", "x" * (256 * 1024 - 1))),
        ("value", lambda bb: bb.put("a", "k", b"x" * (1024 * 1024 + 1))),
        ("content_type", lambda bb: bb.put("a", "k", "x", content_type="text/plain")),
        *[
            ("content_type", lambda bb, t=t: bb.put("a", "k", b"x", content_type=t))
            for t in ("", "text", "a/b\n", "a/b c", "é/x", "a/" + "b" * 127, 5)
        ],
        *[("ttl_sec", lambda bb, t=t: bb.put("a", "k", 1, ttl_sec=t)) for t in (0, -1, 1e12, "5", True, float("nan"))],
        *[("if_version", lambda bb, v=v: bb.put("a", "k", 1, if_version=v)) for v in (-1, "1", True, 1.0, 2**63)],
        *[("amount", lambda bb, v=v: bb.increment("a", "k", v)) for v in (1.5, "1", True, 2**63)],
        *[("item", lambda bb, v=v: bb.append("a", "k", v)) for v in (float("inf"), "x" * (256 * 1024), b"x")],
        *[("prefix", lambda bb, v=v: bb.list(prefix=v)) for v in ("", "a b", 5)],
        *[("limit", lambda bb, v=v: bb.list(limit=v)) for v in (0, 501, "5")],
        *[("cursor", lambda bb, v=v: bb.list(cursor=v)) for v in ("", " ", "k a/", "k a b", 5, "\ud800")],
        ("recursive", lambda bb: bb.list(recursive="yes")),
        ("agent_id", lambda bb: bb.put("a", "k", 1, agent_id="")),
        ("lease", lambda bb: bb.put("a", "k", 1, lease="1.x")),
    ],
)
def test_what_is_out_of_its_limits_is_refused_by_name(board, field, call):
    """Before anything is written."""
    with pytest.raises(InvalidArgument) as caught:
        call(board.blackboard)
    assert caught.value.field == field
    assert event_count(board) == 0


def test_the_limits_themselves_are_allowed(bb):
    """The largest of each."""
    bb.put("x" * 256, "y" * 256, "x" * (256 * 1024 - 2))
    bb.put("a", "k", b"x" * 1024 * 1024)
    assert bb.get("a", "k").size == 1024 * 1024
    bb.append("a", "l", "x" * 131_000)
    with pytest.raises(InvalidArgument, match="would make a list"):
        bb.append("a", "l", "x" * 131_200)
    assert len(bb.get("a", "l").value) == 1


def test_the_stats_count(bb, clock):
    """Entries, their bytes, the expired that are not swept, the names that are gone."""
    bb.put("a", "k", "xx")
    bb.put("a", "b", b"123", ttl_sec=1)
    bb.put("a", "gone", 1)
    bb.delete("a", "gone")
    assert bb.stats() == type(bb.stats())(entries=2, size=7, expired=0, tombstones=1)
    clock.advance(1)
    assert bb.stats() == type(bb.stats())(entries=1, size=4, expired=1, tombstones=1)
