"""What goes wrong with a model: limits, overload, silence, answers cut short; and an endpoint that ends at once."""

import gc
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import IncompleteRead, RemoteDisconnected
from urllib.parse import urlsplit

import pytest

from agentmesh.clock import Patience
from pytest_agentmesh.endpoint import Endpoint
from pytest_agentmesh.endpoint.hanging import Hanging
from pytest_agentmesh.replies import broken, call, calls, cut, error, garbled, hang, overloaded, rate_limit, text
from tests.plugin.raw_clients import CLIENTS, TOOL, Chat, Messages, events
from tests.support.clock import TurnableClock

each_api = pytest.mark.parametrize("api", CLIENTS, ids=lambda api: api.dialect)
streaming_or_not = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
LONG = "All work and no play makes a dull day."


@pytest.fixture
def clock():
    """A clock that tells nobody when it is turned."""
    return TurnableClock()


@pytest.fixture
def mesh_model(clock):
    """An endpoint on that clock; what is scripted must be said."""
    with Endpoint(clock=clock) as endpoint:
        yield endpoint
        endpoint.verify()


@pytest.fixture
def elsewhere():
    """Runs a call on a thread of its own."""
    with ThreadPoolExecutor() as pool:
        yield pool.submit


@each_api
def test_a_rate_limit_is_told_with_the_time_to_wait(mesh_model, api):
    """Status and type are the vendor's, twice as scripted; the third request is answered."""
    mesh_model.script(rate_limit(0.5, times=2), text("now"))
    client = api(mesh_model)
    for _ in range(2):
        status, headers, data = client.send(stream=True)
        assert (status, headers["retry-after"]) == (429, "0.5")
        told = json.loads(data)["error"]
        assert told.get("code", told["type"]) in ("rate_limit_exceeded", "rate_limit_error")
    assert client.ask().words == "now"


def test_a_function_that_refuses_twice_is_asked_once(mesh_model):
    """What it decided stands for as many requests as it says."""
    asked = []

    def decide(turn):
        asked.append(turn.number)
        return rate_limit(None, times=2)

    mesh_model.script(decide, text("now"))
    assert [Chat(mesh_model).send()[0] for _ in range(3)] == [429, 429, 200]
    assert asked == [1]


@pytest.mark.parametrize(
    ("api", "scripted", "status", "kind"),
    [
        (Chat, overloaded(), 503, "server_error"),
        (Messages, overloaded(), 529, "overloaded_error"),
        (Chat, error(500), 500, "server_error"),
        (Messages, error(500), 500, "api_error"),
        (Chat, error(400, "Too long."), 400, "invalid_request_error"),
        (Messages, error(413), 413, "request_too_large"),
    ],
)
def test_other_errors_have_the_form_of_their_vendor(mesh_model, api, scripted, status, kind):
    """So that a client takes them for what they are."""
    mesh_model.script(scripted)
    told, _, data = api(mesh_model).send()
    document = json.loads(data)["error"]
    assert (told, document["type"]) == (status, kind)
    assert (scripted.message or "") in document["message"]


@each_api
@streaming_or_not
def test_a_cut_answer_says_that_its_limit_was_met(mesh_model, api, stream):
    """Three tokens of it arrive, they are what it costs, and the reason to stop is the length."""
    mesh_model.script(cut(text(LONG), after=3))
    said = api(mesh_model).ask(stream=stream)
    assert (said.words, said.stop) == (LONG[:12], api.stops[2])
    assert said.usage.get("output_tokens", said.usage.get("completion_tokens")) == 3


@pytest.mark.parametrize(("after", "left"), [(1, ""), (3, '{"agent_')], ids=["in the words", "in the call"])
def test_a_cut_may_go_through_a_call(mesh_model, after, left):
    """The words come first; of a call that was begun, half the arguments are there, of a later one nothing."""
    both = calls(call("claim_task", agent_id="a"), call("claim_task", agent_id="b"), text="Yes.")
    mesh_model.script(cut(both, after=after))
    said = Chat(mesh_model).ask(stream=True)
    assert said.words == "Yes."
    assert [arguments for _, _, arguments in said.calls] == ([left] if left else [])


def test_half_a_call_reaches_anthropics_clients_as_an_empty_one(mesh_model):
    """In one piece the vendor sends objects, never half of one."""
    mesh_model.script(cut(call("claim_task", agent_id="a"), after=2))
    assert Messages(mesh_model).ask().calls[0][2] == "{}"


@each_api
def test_a_stream_breaks_in_the_middle(mesh_model, api):
    """What was said until then has arrived; no event says that it is over."""
    mesh_model.script(broken(text(LONG), after=3))
    with pytest.raises(IncompleteRead) as caught:
        api(mesh_model).send(stream=True)
    told = events(caught.value.partial)
    assert LONG[:12] in json.dumps(told[-1])
    assert not any(event.get("type", "").endswith((".done", "_stop", ".completed")) for event in told)


@each_api
def test_a_stream_breaks_before_anything_is_said(mesh_model, api):
    """It began, and that was all."""
    mesh_model.script(broken(text(LONG)))
    with pytest.raises(IncompleteRead) as caught:
        api(mesh_model).send(stream=True)
    assert len(events(caught.value.partial)) == 1


@each_api
@pytest.mark.parametrize("after", [0, 5])
def test_an_answer_in_one_piece_breaks_in_the_middle(mesh_model, api, after):
    """The client knows how much is missing."""
    mesh_model.script(broken(text(LONG * 50), after=after))
    with pytest.raises(IncompleteRead) as caught:
        api(mesh_model).send()
    assert LONG in caught.value.partial.decode()
    assert caught.value.expected > len(LONG)


@each_api
@streaming_or_not
def test_garbled_arguments_are_no_json(mesh_model, api, stream):
    """Clients get them as they are; where Anthropic sends an object, it is this text."""
    raw = '{"agent_id": nobody}'
    mesh_model.script(garbled("claim_task", raw))
    [(_, name, arguments)] = api(mesh_model).hear(stream=stream).calls
    assert name == TOOL
    assert arguments == (json.dumps(raw) if api is Messages and not stream else raw)


@each_api
@streaming_or_not
def test_silence_lasts_as_long_on_the_clock_as_scripted(mesh_model, clock, elsewhere, api, stream):
    """Until the clock says so, no byte arrives; then the answer does."""
    agent = mesh_model.agent("a").script(hang("10min", then=text("late")))
    asked = elsewhere(api(agent).ask, stream=stream)
    agent.until_hung()
    clock.advance(599)
    assert agent.hung == 1
    assert not asked.done()
    clock.advance(1)
    assert asked.result(10).words == "late"


def test_silence_on_a_test_board_is_a_deadline_of_its_clock(mesh_board, mesh_clock, elsewhere):
    """The test goes to its end like to that of a lease; when the clock has been turned, the request has seen it."""
    with Endpoint(mesh_board) as endpoint:
        agent = endpoint.agent("a").script(hang("30s", then=text("late")), hang(), text("x"))
        client = Chat(agent)
        asked = elsewhere(client.ask)
        agent.until_hung()
        began = mesh_clock.now
        assert mesh_clock.to_next().kind == "wait"
        assert (mesh_clock.now - began).total_seconds() == 30
        assert asked.result(10).words == "late"
        asked = elsewhere(client.send)
        agent.until_hung()
        assert mesh_clock.deadlines() == []
        mesh_clock.advance("1d")
        assert agent.hung == 1
        agent.release()
        assert isinstance(asked.exception(10), RemoteDisconnected)
        assert client.ask().words == "x"
        endpoint.verify()


def test_an_agent_in_the_tests_own_thread_waits_out_a_silence(mesh_board, mesh_clock):
    """With `autojump` the clock goes on to the end of it, past the leases that run out meanwhile."""
    mesh_board.create_task("Write the migration", id="migrate")
    mesh_board.claim_task("coder-1")
    began = mesh_clock.now
    with Endpoint(mesh_board) as endpoint, mesh_clock.autojump():
        assert Chat(endpoint.agent("coder-1").script(hang("10min", then=text("late")))).ask().words == "late"
    assert (mesh_clock.now - began).total_seconds() == 600
    assert mesh_board.claim_task("coder-2").task.id == "migrate"


def test_silence_is_released_for_one_agent_or_for_all(mesh_model, elsewhere):
    """What is scripted for afterwards is said then."""
    agents = [mesh_model.agent(name).script(hang(then=text(name))) for name in "ab"]
    asked = [elsewhere(Chat(agent).ask) for agent in agents]
    for agent in agents:
        agent.until_hung()
    agents[1].release()
    assert asked[1].result(10).words == "b"
    assert (agents[0].hung, agents[1].hung) == (1, 0)
    mesh_model.release()
    assert asked[0].result(10).words == "a"


def test_a_release_is_heard_at_once(monkeypatch, mesh_board, elsewhere):
    """Also if nobody on the board's clock would look again for an hour."""
    monkeypatch.setattr("agentmesh.store.parking.POLL_US", 3_600_000_000)
    with Endpoint(mesh_board) as endpoint:
        agent = endpoint.agent("a").script(hang(then=text("here")))
        asked = elsewhere(Chat(agent).ask)
        agent.until_hung()
        agent.release()
        assert asked.result(10).words == "here"


def test_after_the_end_nobody_waits_and_nothing_is_answered(board, elsewhere):
    """What hung when the endpoint was closed costs nothing; who comes to hang later does not."""
    with Endpoint(board) as endpoint:
        agent = endpoint.agent("a").script(hang(then=text("too late")))
        asked = elsewhere(Chat(agent).send)
        agent.until_hung()
    assert isinstance(asked.exception(10), ConnectionError)
    assert board.ledger.entries().entries == ()
    hanging = Hanging(TurnableClock())
    hanging.end()
    assert not hanging.keep("a", None)


def test_nobody_hangs_is_a_failure_of_its_own(mesh_model):
    """A test that waits for it learns whom it waited for."""
    with pytest.raises(AssertionError, match="no request of agent 'a' hangs after 0 s"):
        mesh_model.agent("a").until_hung(0)


@contextmanager
def asking(agent, **more):
    """A connection on which a request was sent, and nothing read."""
    body = json.dumps({"model": "m", **Chat(agent).body(), **more}).encode()
    place = urlsplit(agent.url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(
            b"POST %b/v1/chat/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%b"
            % (place.path.encode(), len(body), body)
        )
        yield connection


def test_a_client_that_gave_up_does_not_keep_the_next_request(mesh_model):
    """It went away from a silence, then from a long answer; what it asks then is the next of the script."""
    agent = mesh_model.agent("a").script(hang(), text("x" * 1_000_000), text("again"))
    with asking(agent):
        agent.until_hung()
    with asking(agent, stream=True) as connection:
        assert connection.recv(1) == b"H"
    assert Chat(agent).ask().words == "again"
    agent.release()
    mesh_model.close()  # now the one that was cut off has ended, too


def test_what_is_no_request_is_answered_and_fails_nothing(mesh_model):
    """Somebody who looks around, who does not say how long the body is, who goes away in the middle of it."""
    place = urlsplit(mesh_model.url)
    for asked, status in ((b"GET /v1/models", b"404"), (b"POST /v1/messages", b"411")):
        with socket.create_connection((place.hostname, place.port)) as connection:
            connection.sendall(asked + b" HTTP/1.1\r\n\r\n")
            assert connection.recv(100).split()[1] == status
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""


def test_a_mistake_of_the_endpoint_itself_reaches_the_test(monkeypatch):
    """The connection is closed, and the message names the error."""
    monkeypatch.setattr("pytest_agentmesh.endpoint.answering.speak", lambda *_, **__: 1 / 0)
    with Endpoint() as endpoint:
        with pytest.raises(RemoteDisconnected):
            Chat(endpoint.agent("a").script(text("x"))).send()
        with pytest.raises(AssertionError, match="the endpoint itself failed: ZeroDivisionError") as caught:
            endpoint.verify()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize("on_board", [False, True], ids=["clock", "board"])
def test_closing_ends_everything_at_once(request, on_board):
    """Requests that hang, streams nobody reads, connections kept open: no thread and no socket is left."""
    board = request.getfixturevalue("mesh_board") if on_board else None
    before = set(threading.enumerate())
    patience = Patience(5_000_000)
    with ThreadPoolExecutor() as pool, Endpoint(board) as endpoint:
        agents = [endpoint.agent(name).script(hang()) for name in ("a", "b")]
        asked = [pool.submit(Chat(agent).send) for agent in agents]
        with asking(endpoint.agent("c").script(text("x" * 1_000_000)), stream=True) as unread:
            assert unread.recv(1) == b"H"
            for agent in agents:
                agent.until_hung()
            endpoint.close()
        assert [type(each.exception(5)) for each in asked] == [RemoteDisconnected] * 2
        endpoint.close()
    assert patience.left_sec
    assert {thread for thread in threading.enumerate() if thread not in before} == set()
    gc.collect()  # warnings are errors: a socket left open would speak up here
    place = urlsplit(endpoint.url)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((place.hostname, place.port))
