"""The wire: what it knows of the lines that have come in."""

import os

import pytest

from agentmesh.mcp_server.wire import Wire


@pytest.fixture
def pipe():
    """A wire that hears what is written into a pipe, and says nothing."""
    source, into = os.pipe()
    with os.fdopen(into, "wb", buffering=0) as client:
        yield client, Wire(source, -1)
    os.close(source)


def test_after_the_last_line_it_is_quiet(pipe):
    """Until something else comes in."""
    client, wire = pipe
    lines = wire.lines()
    client.write(b"one\n")
    assert next(lines) == b"one"
    assert wire.quiet
    client.write(b"t")
    assert not wire.quiet


@pytest.mark.parametrize("more", [b"two\n", b"half"])
def test_with_more_in_the_same_breath_it_is_not(pipe, more):
    """A whole line, or the beginning of one."""
    client, wire = pipe
    client.write(b"one\n" + more)
    assert next(wire.lines()) == b"one"
    assert not wire.quiet


def test_at_the_end_it_is_not(pipe):
    """The end is something to be read, too."""
    client, wire = pipe
    client.write(b"one\n")
    client.close()
    assert next(wire.lines()) == b"one"
    assert not wire.quiet
