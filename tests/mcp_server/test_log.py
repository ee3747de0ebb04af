"""The log: for people, if there are any who read it."""

import os

import pytest

from agentmesh.mcp_server import log as log_module


@pytest.fixture
def pipe(monkeypatch):
    """A stderr that is a pipe; the end from which it is read."""
    reads, writes = os.pipe()
    monkeypatch.setattr(log_module, "STDERR", writes)
    yield reads
    os.close(reads)
    os.close(writes)


def test_a_log_that_nobody_reads_keeps_nobody(pipe):
    """A pipe that is full takes no more; once it is read, new lines come."""
    for _ in range(10_000):
        log_module.log("x" * 100)
    while not log_module._takes_more():
        os.read(pipe, 65_536)
    log_module.log("again")
    assert os.read(pipe, 65_536).endswith(b"agentmesh: again\n")


def test_a_long_line_is_written_whole(pipe):
    """A traceback, for one; half of a character is written as its number."""
    log_module.log("ü" * 10_000 + "\ud800")
    assert os.read(pipe, 65_536).decode() == "agentmesh: " + "ü" * 10_000 + "\\ud800\n"


def test_a_closed_log_is_nobodys_trouble(monkeypatch):
    """Nothing is raised."""
    monkeypatch.setattr(log_module, "STDERR", 10_000)
    log_module.log("x")
