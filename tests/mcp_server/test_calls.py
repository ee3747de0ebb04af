"""Calls under way: one answer at most, and nothing left behind by those that nobody hears of."""

import threading
from types import SimpleNamespace

import pytest

from agentmesh.mcp_server import calls as calls_module
from agentmesh.mcp_server.calls import Calls, Flight
from agentmesh.mcp_server.protocol import Refused, Request

DEADLINE_SEC = 20


class Stage:
    """Calls of one tool that begins, waits to be let go, and can be undone."""

    def __init__(self):
        board = SimpleNamespace(wake_waits=lambda: None)
        self.calls = Calls(SimpleNamespace(board=board, agent=None), {"name": "mesh"}, lambda _: True)
        self.begun, self.let_go, self.undone = (threading.Event() for _ in range(3))
        self.answers = []

    def work(self, call):
        """What a call does."""
        call.undo = self.undone.set
        self.begun.set()
        assert self.let_go.wait(DEADLINE_SEC)
        return {}

    def start(self, number, *, delivered=True):
        """Begin a call."""

        def send(answer):
            self.answers.append(answer)
            return delivered

        self.calls.start(Flight(Request(number, "tools/call", {}), self.work, send))

    def finish(self):
        """Let all calls go; whether they ended."""
        self.let_go.set()
        return self.calls.close(answer=True, patience_sec=DEADLINE_SEC)


@pytest.fixture
def stage():
    """A stage whose calls have all ended when the test is over."""
    stage = Stage()
    yield stage
    assert stage.finish()


def test_a_call_is_answered_once(stage):
    """And then it is over: cancelling it is too late."""
    stage.start(1)
    assert stage.finish()
    stage.calls.cancel(1)
    assert [answer["id"] for answer in stage.answers] == [1]
    assert not stage.undone.is_set()


def test_a_call_cancelled_at_work_is_undone_and_not_answered(stage):
    """What it did is worthless to a client that no longer listens."""
    stage.start(1)
    assert stage.begun.wait(DEADLINE_SEC)
    stage.calls.cancel(1)
    assert stage.finish()
    assert stage.answers == [None]
    assert stage.undone.is_set()


def test_a_call_cancelled_in_the_queue_never_begins(stage):
    """Nothing is done, nothing is answered."""
    stage.start(1)
    stage.start(2)
    stage.calls.cancel(2)
    assert stage.finish()
    assert [answer and answer["id"] for answer in stage.answers] == [1, None]


def test_a_call_whose_answer_gets_lost_is_undone(stage):
    """The client had gone."""
    stage.start(1, delivered=False)
    assert stage.finish()
    assert stage.undone.is_set()


def test_an_id_in_use_is_refused(stage):
    """Two calls of one id could not be told apart."""
    stage.start(1)
    with pytest.raises(Refused, match="still under way"):
        stage.start(1)
    stage.start("1")


def test_too_many_calls_are_refused(stage, monkeypatch):
    """The client is told to wait for answers."""
    monkeypatch.setattr(calls_module, "MOST_CALLS", 2)
    stage.start(1)
    stage.start(2)
    with pytest.raises(Refused, match="Too many"):
        stage.start(3)


def test_without_patience_the_end_does_not_wait(stage):
    """Calls that hang are reported, so that the process can go all the same."""
    stage.start(1)
    assert stage.calls.close(answer=False, patience_sec=0) is False
