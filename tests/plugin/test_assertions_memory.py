"""Assertions on the entries of the blackboard."""

import pytest

from pytest_agentmesh.assertions import assert_entry, assert_no_entry
from tests.support.boards import claimed, put
from tests.support.failing import fails


def test_an_entry_is_there_with_what_is_asked_of_it(board):
    """Its value, version and writer, each only if it is named."""
    board.blackboard.put("n/m", "k", {"v": [1]}, agent_id="x")
    assert_entry(board, "n/m", "k")
    assert_entry(board, "n/m", "k", {"v": [1]}, version=1, by="x")
    with fails(r"it has another value.*\.v\[0\] is 1, expected 2"):
        assert_entry(board, "n/m", "k", {"v": [2]})
    with fails("it is at version 1, expected 2"):
        assert_entry(board, "n/m", "k", version=2)
    with fails("x wrote it last, expected y"):
        assert_entry(board, "n/m", "k", by="y")


def test_null_is_a_value(board):
    """It is not the same as to expect nothing of the value."""
    board.blackboard.put("", "k", None)
    assert_entry(board, "", "k", None)
    with fails("expected null"):
        board.blackboard.put("", "k", 0)
        assert_entry(board, "", "k", None)


def test_bytes_are_compared_as_bytes(board):
    """Text of the same letters is something else."""
    board.blackboard.put("", "k", b"diff")
    assert_entry(board, "", "k", b"diff")
    with fails("actual 4 bytes, b'diff'"):
        assert_entry(board, "", "k", "diff")


def test_an_entry_is_gone_at_the_instant_of_its_end(board, clock):
    """Swept or not."""
    board.blackboard.put("n", "k", 1, agent_id="x", ttl_sec=60)
    clock.advance(59.999999)
    assert_entry(board, "n", "k", 1)
    with fails("it expires at 1min, 0.000001s from now"):
        assert_no_entry(board, "n", "k")
    clock.advance(0.000001)
    assert_no_entry(board, "n", "k")
    with fails("it expired at 1min, 0s ago: x put it with a TTL of 1min"):
        assert_entry(board, "n", "k", 1)


def test_an_entry_that_is_there_says_who_wrote_it_for_what(board):
    """The lease that signed it names the task."""
    put(board, "a")
    board.blackboard.put("n", "k", 1, lease=claimed(board, "a", "x"))
    with fails(r"x wrote version 1 at 0s \(event 3\) for a, attempt 1: 1"):
        assert_no_entry(board, "n", "k")


def test_a_deleted_entry_says_who_deleted_it(board):
    """An entry that was never there says that."""
    assert_no_entry(board, "n", "k")
    with fails("nobody ever put it; there is nothing"):
        assert_entry(board, "n", "k")
    board.blackboard.put("n", "k", 1)
    board.blackboard.delete("n", "k", agent_id="y")
    assert_no_entry(board, "n", "k")
    with fails(r"y deleted version 1 at 0s \(event 2\)"):
        assert_entry(board, "n", "k")


def test_a_foreign_value_is_shown_and_not_obeyed(board):
    """No control character reaches the terminal."""
    board.blackboard.put("n", "k", "\x1b[2Jgone\u202e")
    with pytest.raises(AssertionError) as failure:
        assert_entry(board, "n", "k", "x")
    assert "\x1b" not in str(failure.value)
    assert "\u202e" not in str(failure.value)
