"""Calls over HTTP: waits, ends that come early, and who is taken for whom."""

import logging
import socket
import threading

import pytest

from agentmesh.mcp_server import lanes as lanes_module
from agentmesh.mcp_server.flights import Flight
from agentmesh.mcp_server.http.quiet import Places
from agentmesh.mcp_server.offer import Offer
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.tools import TABLE, WRITES, Tool
from tests.mcp_server.driver import DEADLINE_SEC, ENVELOPE
from tests.mcp_server.live import ACCEPT, NEWEST, serving
from tests.support.boards import claimed, put, states
from tests.support.patience import until

CLAIM = next(tool for tool in TABLE if tool.name == "claim_task")
WAITS = {"agent_id": "ada", "wait_sec": 50}


def wait_for(live, count):
    """Wait until so many calls wait."""
    until(lambda: live.waiting == count)


def test_sixty_waiting_calls_hold_up_no_heartbeat(live):
    """The heartbeat is answered while all sixty still wait; the end of the server ends them all."""
    put(live.board, "task")
    worker = live.client()
    worker.tool("claim_task", agent_id="bob")
    waiting = [live.client() for _ in range(60)]
    for client in waiting:
        client.begin_tool("claim_task", **WAITS)
    wait_for(live, 60)
    assert worker.tool("heartbeat", agent_id="bob", task_id="task")["fence"] == 1
    assert live.waiting == 60
    live.server.stop()
    assert [client.end().document["claimed"] for client in waiting] == [False] * 60
    until(lambda: live.ended_in_time)


def test_more_waits_than_may_be_are_refused(live, monkeypatch):
    """With a word of its own; calls that do not wait go on."""
    monkeypatch.setattr(live.app.lanes, "_most", 1)
    live.client().begin_tool("claim_task", **WAITS)
    wait_for(live, 1)
    assert live.client().tool("claim_task", **WAITS)["code"] == "overloaded"
    assert live.client().tool("board_status")["total"] == 0


def test_a_waiting_claim_gets_the_task_that_comes(live):
    """It is woken, it does not poll."""
    client = live.client()
    client.begin_tool("claim_task", **WAITS)
    wait_for(live, 1)
    put(live.board, "task")
    assert client.end().document["task"]["id"] == "task"


def test_a_cancelled_wait_ends_and_takes_nothing(live):
    """In the handshake era: a notification, which is answered as the SDK does it."""
    client, other = live.client(), live.client()
    client.greet()
    other.session = client.session
    number = client.begin_old_tool("claim_task", **WAITS)
    wait_for(live, 1)
    other.say("notifications/cancelled", {"requestId": number})
    assert "error" in client.end().message
    wait_for(live, 0)


@pytest.mark.parametrize("era", ["newest", "handshake"])
def test_a_client_that_hangs_up_ends_its_wait(live, era):
    """In both eras: the answer has nowhere to go."""
    client = live.client()
    if era == "handshake":
        client.greet()
        client.begin_old_tool("claim_task", **WAITS)
    else:
        client.begin_tool("claim_task", **WAITS)
    wait_for(live, 1)
    client.close()
    wait_for(live, 0)
    put(live.board, "task")
    assert states(live.board) == {"task": "pending"}


class Held:
    """A claim that has the task in hand and does not get to say so until it may."""

    def __init__(self):
        self.begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self, call, _arguments):
        """Claim, then hang."""
        claim = call.board.claim_task("ada")
        call.undo = lambda: call.board.release_task(claim.lease)
        self.begun.set()
        assert self.may_end.wait(DEADLINE_SEC)
        return {"claimed": True}


@pytest.mark.parametrize("era", ["newest", "handshake"])
def test_a_claim_that_nobody_sees_is_given_back(board, board_path, era):
    """The client hangs up after the claim was made and before it was answered."""
    held = Held()
    put(board, "task")
    tool = Tool("claim", "Claim.", (), held, WRITES)
    with serving(board, board_path, offers={"all": Offer("", {"claim": tool}, {})}) as live:
        client = live.client()
        if era == "handshake":
            client.greet()
            client.begin_old_tool("claim")
        else:
            client.begin_tool("claim")
        assert held.begun.wait(DEADLINE_SEC)
        assert states(board) == {"task": "in_progress"}
        client.close()
        until(lambda: all(flight._lost.is_set() for exchange in live.app._open for flight in exchange._flights))
        held.may_end.set()
        until(lambda: states(board) == {"task": "pending"})


def test_a_claim_that_was_seen_is_kept(live):
    """Hanging up right after the answer is how clients end."""
    put(live.board, "one", "two")
    for client in (live.client(), live.client()):
        client.greet()
        assert client.old_tool("claim_task", agent_id="ada")["claimed"]
        client.close()
    until(lambda: not live.app._open)
    assert set(states(live.board).values()) == {"in_progress"}


def test_without_tokens_a_session_knows_its_own_leases(live):
    """Another session that goes by the same name does not hold them."""
    put(live.board, "task")
    one, two = live.client(), live.client()
    one.greet()
    two.greet()
    assert one.old_tool("claim_task", agent_id="ada")["claimed"]
    assert two.old_tool("complete_task", agent_id="ada", task_id="task")["code"] == "lease_unknown"
    assert one.old_tool("complete_task", agent_id="ada", task_id="task")["state"] == "completed"


def test_in_the_newest_era_a_lease_is_known_by_its_agent(live):
    """There are no sessions: what one call claimed another may complete, under the same name only."""
    put(live.board, "task")
    assert live.client().tool("claim_task", agent_id="ada")["claimed"]
    assert live.client().tool("complete_task", agent_id="bob", task_id="task")["code"] == "lease_unknown"
    assert live.client().tool("complete_task", agent_id="ada", task_id="task")["state"] == "completed"


def test_a_token_is_the_agent(live):
    """Its leases are known in both eras and over reconnects, and to no other token."""
    put(live.board, "one", "two")
    ada, bob = live.token("ada"), live.token("bob")
    first = live.client(ada)
    first.greet()
    assert first.old_tool("claim_task")["task"]["id"] == "one"
    assert live.client(bob).tool("complete_task", task_id="one")["code"] == "lease_unknown"
    assert live.client(ada).tool("complete_task", task_id="one")["state"] == "completed"
    refused = live.client(ada).tool("claim_task", agent_id="bob")
    assert (refused["code"], refused["field"]) == ("invalid_argument", "agent_id")


def test_a_lost_lease_stays_lost(live):
    """A remembered token is no right: the board decides."""
    put(live.board, "task", lease_timeout_sec=60)
    ada = live.client(live.token("ada"))
    ada.tool("claim_task")
    live.board.store.clock.advance(3600)
    claimed(live.board, "task")
    assert ada.tool("complete_task", task_id="task")["code"] == "lease_lost"


def test_a_subscription_ends_with_the_server(live):
    """Properly, with its result; meanwhile it holds up nobody."""
    client = live.client()
    params = {"notifications": {"resourceSubscriptions": ["agentmesh://board"]}, "_meta": ENVELOPE}
    headers = ACCEPT | NEWEST | {"Mcp-Method": "subscriptions/listen"}
    client.begin("POST", "/mcp", client.request("subscriptions/listen", params), headers)
    response = client.connection.getresponse()
    assert b"acknowledged" in response.readline() + response.readline()
    assert live.client().tool("board_status")["total"] == 0
    live.server.stop()
    assert b'"resultType":"complete"' in response.read()


def test_a_client_that_hangs_up_hears_of_no_more_changes(live):
    """Its subscription ends with its stream, or with its session."""
    newer, older = live.client(), live.client()
    params = {"notifications": {"resourceSubscriptions": ["agentmesh://board"]}, "_meta": ENVELOPE}
    headers = ACCEPT | NEWEST | {"Mcp-Method": "subscriptions/listen"}
    newer.begin("POST", "/mcp", newer.request("subscriptions/listen", params), headers)
    wait_for(live, 1)
    older.greet()
    uri = {"uri": "agentmesh://board"}
    older.ask("POST", "/mcp", older.request("resources/subscribe", uri), ACCEPT | older.session)
    assert [thread.name for thread in threading.enumerate()].count("updates") == 1
    newer.close()
    older.ask("DELETE", "/mcp", headers=ACCEPT | older.session)
    wait_for(live, 0)
    until(lambda: "updates" not in [thread.name for thread in threading.enumerate()])


def test_a_repeated_id_is_refused_while_it_is_under_way(live):
    """Two answers of one id could not be told apart."""
    client, other = live.client(), live.client()
    client.greet()
    other.session = client.session
    number = client.begin_old_tool("claim_task", **WAITS)
    wait_for(live, 1)
    again = {"jsonrpc": "2.0", "id": number, "method": "ping"}
    assert other.ask("POST", "/mcp", again, ACCEPT | other.session).code == "repeated_id"
    put(live.board, "task")
    assert client.end().document["claimed"]


def test_a_wait_tells_of_its_progress(live, monkeypatch):
    """Once it has waited for long enough, if the client gave a token."""
    monkeypatch.setattr("agentmesh.mcp_server.flights.PROGRESS_SEC", 0)
    client = live.client()
    client.begin_tool("claim_task", {"progressToken": "p"}, **WAITS)
    wait_for(live, 1)
    live.board.wake_waits()
    response = client.connection.getresponse()
    assert b'"method":"notifications/progress"' in response.readline() + response.readline()
    put(live.board, "task")
    assert b'"claimed":true' in response.read()


def test_answers_are_not_held_back(live):
    """Nagle's algorithm is off: an answer in two pieces would take 40 ms."""
    live.client().tool("board_status")
    [connection] = live.server.server_state.connections
    assert connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_claim_whose_answer_is_lost_on_the_way_is_given_back(board):
    """It was made, then the client went: once, however often it is said."""
    put(board, "task")
    lanes, session = lanes_module.Lanes(), Session(board, keepalive_sec=0)
    flight = Flight(session, lanes)
    flight.work(lambda call: CLAIM.run(call, {"agent_id": "ada"}))
    assert states(board) == {"task": "in_progress"}
    flight.lose()
    flight.lose()
    assert lanes.close(DEADLINE_SEC)
    assert states(board) == {"task": "pending"}


def test_nothing_is_renewed_once_the_server_has_ended(board, board_path):
    """Neither for tokens, nor for sessions, nor for anybody."""
    put(board, "one", "two", "three")
    with serving(board, board_path) as live:
        live.client().tool("claim_task", agent_id="ada")
        client = live.client()
        client.greet()
        client.old_tool("claim_task", agent_id="bob")
        live.client(live.token("eve")).tool("claim_task")
        keepers = [thread for thread in threading.enumerate() if thread.name == "keepalive"]
        assert len(keepers) == 3
    until(lambda: not any(thread.is_alive() for thread in keepers))


def test_what_libraries_say_is_logged_by_its_place(capfd):
    """Their words, and those of their exceptions, may quote a request."""
    logger, places = logging.getLogger("a.library"), Places()
    logger.addHandler(places)
    try:
        int("secret")
    except ValueError:
        logger.exception("failed on %s", "secret")
    for _ in range(100):
        logger.warning("said often")
    logger.removeHandler(places)
    said = capfd.readouterr().err
    assert "a.library says ERROR at test_http.py:" in said
    assert "ValueError < " in said
    assert len(said.splitlines()) == 2
    assert "secret" not in said


def test_lanes_say_what_did_not_end():
    """So that the process can go all the same."""
    lanes, may_end = lanes_module.Lanes(), threading.Event()
    lanes.run(may_end.wait)
    assert not lanes.close(0)
    may_end.set()
    assert lanes.close(DEADLINE_SEC)
