"""Calls under way: one answer at most, and nothing left behind by those that nobody hears of."""

import contextlib
import threading
from types import SimpleNamespace

import pytest

from agentmesh.mcp_server import calls as calls_module
from agentmesh.mcp_server.calls import Calls, Flight
from agentmesh.mcp_server.protocol import Refused, Request
from tests.support.patience import until

DEADLINE_SEC = 20


class Stage:
    """Calls of one tool that begins, waits to be let go, and can be undone."""

    def __init__(self):
        board, self.quiet = SimpleNamespace(wake_waits=lambda: None), True
        session = SimpleNamespace(board=board, agent=None)
        self.calls = Calls(session, {"name": "mesh"}, lambda _: True, quiet=lambda: self.quiet)
        self.begun, self.let_go, self.undone = (threading.Event() for _ in range(3))
        self.answers, self.threads, self.steps = [], [], []

    def work(self, call):
        """What a call does."""
        call.undo = self.undone.set
        self.threads.append(threading.get_ident())
        self.steps.append("begins")
        self.begun.set()
        assert self.let_go.wait(DEADLINE_SEC)
        self.steps.append("ends")
        return {}

    def start(self, number, *, delivered=True, wait_sec=0):
        """Begin a call."""

        def send(answer):
            self.answers.append(answer)
            return delivered

        self.calls.start(Flight(Request(number, "tools/call", {}), self.work, send, wait_sec))

    @contextlib.contextmanager
    def kept_reader(self):
        """A reader that is at a call; in the end it says whether it still reads."""
        said = []

        def read():
            assert self.calls.take_reading()
            self.start(1)
            said.append(self.calls.reading)

        thread = threading.Thread(target=read)
        thread.start()
        assert self.begun.wait(DEADLINE_SEC)
        yield said
        self.let_go.set()
        thread.join(DEADLINE_SEC)

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


def test_a_lone_call_is_done_by_the_thread_that_reads(stage):
    """To wake another thread takes longer than a heartbeat."""
    stage.let_go.set()
    assert stage.calls.take_reading()
    for number in (1, 2):
        stage.start(number)
        assert stage.answers[-1]["id"] == number
    assert stage.threads == [threading.get_ident()] * 2
    assert stage.calls.reading


@pytest.mark.parametrize("case", ["more has come in", "it may wait", "another is ahead", "another thread reads"])
def test_other_calls_leave_the_thread_that_reads_alone(stage, case, monkeypatch):
    """It reads on: what is in the pipe may be a cancellation."""
    monkeypatch.setattr(Calls, "_run_apart", Calls._run)  # where the system has no thread left
    if case != "another thread reads":
        assert stage.calls.take_reading()
    stage.quiet = case not in ("more has come in", "another is ahead")
    if case == "another is ahead":
        stage.start(0)
        assert stage.begun.wait(DEADLINE_SEC)
        stage.quiet = True
    stage.start(1, wait_sec=case == "it may wait")
    assert not stage.calls.reader_calls
    assert stage.finish()
    assert threading.get_ident() not in stage.threads


def test_a_reader_kept_by_its_call_is_relieved(stage):
    """Another thread reads from then on; the one before learns of it when its call has ended."""
    with stage.kept_reader() as reads_on:
        assert stage.calls.reader_calls
        assert stage.calls.take_reading()
        assert not stage.calls.reader_calls
    assert reads_on == [False]
    assert stage.calls.reading


def test_only_a_reader_kept_by_its_call_is_relieved(stage):
    """One that reads goes on reading, and so does one whose call ended in time."""
    with stage.kept_reader() as reads_on:
        pass
    assert reads_on == [True]
    assert not stage.calls.reader_calls
    assert not stage.calls.take_reading()


def test_calls_after_the_one_that_keeps_its_reader_wait_for_it(stage):
    """Whoever does them, they have their turns in the order in which they came."""
    with stage.kept_reader():
        assert stage.calls.take_reading()
        stage.start(2)
        until(stage.calls._queue.empty)
        assert stage.steps == ["begins"]
    assert stage.finish()
    assert stage.steps == ["begins", "ends"] * 2
    assert [answer["id"] for answer in stage.answers] == [1, 2]


def test_the_call_that_keeps_its_reader_can_be_cancelled(stage):
    """Its cancellation is read by the thread that took over."""
    with stage.kept_reader():
        assert stage.calls.take_reading()
        stage.calls.cancel(1)
    assert stage.answers == [None]
    assert stage.undone.is_set()


def test_the_end_takes_the_threads_along(stage):
    """Of short calls and of calls that wait; a test bench has many servers in one process."""
    before = set(threading.enumerate())
    stage.start(1)
    stage.calls.start(Flight(Request(2, "tools/call", {}), stage.work, lambda _: True, wait_sec=30))
    assert set(threading.enumerate()) > before
    assert stage.finish()
    assert set(threading.enumerate()) <= before
