"""Sessions come and go; what is kept for them stays the same."""

import gc
import json
import threading

import pytest

from agentmesh.mcp_server.http import app as app_module, sessions as sessions_module
from agentmesh.mcp_server.http.sessions import IDLE_US, MOST_STREAMS, Sessions
from tests.mcp_server.driver import HELLO
from tests.mcp_server.live import ACCEPT
from tests.support.boards import put
from tests.support.patience import until

PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


@pytest.fixture(autouse=True)
def idle_clock(board, clock, monkeypatch):
    """How long a session is idle is real time; here the test turns it."""
    monkeypatch.setattr(board.store, "monotonic", clock)


@pytest.fixture(autouse=True)
def sweeps(monkeypatch):
    """Let the sessions be swept often; the fixture waits until that has happened so many times more."""
    monkeypatch.setattr(app_module, "HOUSEKEEPING_SEC", 0.01)
    done, sweep = [], Sessions.sweep

    async def counted(*args):
        await sweep(*args)
        done.append(None)

    def wait(times):
        enough = len(done) + times
        until(lambda: len(done) >= enough)

    monkeypatch.setattr(Sessions, "sweep", counted)
    return wait


def known(live):
    """How many sessions we know, and how many the SDK has: they have to be the same."""
    assert len(live.app._sessions) == len(live.app._manager._server_instances)
    return len(live.app._sessions)


def settled(live, count):
    """Wait until nothing is under way and so many sessions are left."""
    until(lambda: not live.app._open)
    until(lambda: len(live.app._sessions) == len(live.app._manager._server_instances) == count)


def opened(live, secret=None):
    """A client with a session."""
    client = live.client(secret)
    assert client.greet().status == 200
    return client


def test_a_session_ends_when_its_client_says_so(live):
    """Then its id is not found."""
    client = opened(live)
    assert known(live) == 1
    assert client.ask("DELETE", "/mcp", headers=ACCEPT | client.session).status == 200
    assert client.ask("POST", "/mcp", PING, ACCEPT | client.session).code == "no_session"
    settled(live, 0)


@pytest.mark.parametrize(
    "written", [b'"\\u0069nitialize"', b'"initialize", "x": ' + b"9" * 5000, b'"initialize"\xef\xbb\xbf']
)
def test_no_session_is_opened_unseen(live, written):
    """However its request is written: what the SDK takes for an opening, we take for one."""
    body = json.dumps(live.client().request("initialize", HELLO)).encode().replace(b'"initialize"', written)
    live.client().ask("POST", "/mcp", body, ACCEPT)
    until(lambda: not live.app._open)
    known(live)


def test_an_idle_session_ends(live, clock):
    """Half an hour after its last request, and not before."""
    idle, used = opened(live), opened(live)
    clock.advance(IDLE_US / 1_000_000 - 1)
    assert used.ask("POST", "/mcp", PING, ACCEPT | used.session).status == 200
    clock.advance(1)
    settled(live, 1)
    assert idle.ask("POST", "/mcp", PING, ACCEPT | idle.session).status == 404


def test_a_session_with_an_open_stream_is_not_idle(live, clock, sweeps):
    """Its client listens; when it hangs up, the time begins."""
    client = opened(live)
    stream = client.listen()
    clock.advance(IDLE_US / 1_000_000 + 1)
    sweeps(2)
    assert known(live) == 1
    stream.close()
    client.close()
    until(lambda: not live.app._open)
    clock.advance(IDLE_US / 1_000_000 + 1)
    settled(live, 0)


def test_a_new_session_takes_the_place_of_the_longest_idle(live, clock, monkeypatch):
    """Of whoever has the most; clients that died without a word keep nobody out."""
    monkeypatch.setattr(sessions_module, "MOST_SESSIONS", 3)
    few, many = live.token("few"), live.token("many")
    sessions = [opened(live, few)]
    for _ in range(2):
        clock.advance(1)
        sessions.append(opened(live, many))
    opened(live, few)
    gone = [c.ask("POST", "/mcp", PING, ACCEPT | c.session).status for c in sessions]
    assert gone == [200, 404, 200]
    settled(live, 3)


def test_with_all_sessions_in_use_a_new_one_is_refused(live, monkeypatch):
    """It is told when to come back; those that are open are not touched."""
    monkeypatch.setattr(sessions_module, "MOST_SESSIONS", 1)
    client = opened(live)
    stream = client.listen()
    answer = live.client().greet()
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "too_many_sessions", "5")
    stream.close()


def test_a_token_has_so_many_streams(live):
    """One more is refused; the sessions go on without."""
    secret = live.token("ada")
    streams = [opened(live, secret).listen() for _ in range(MOST_STREAMS)]
    client = opened(live, secret)
    assert client.ask("GET", "/mcp", headers=ACCEPT | client.session).code == "too_many_streams"
    assert opened(live, live.token("bob")).listen().status == 200
    assert client.old_tool("board_status")["total"] == 0
    for stream in streams:
        stream.close()


def test_a_second_stream_does_not_take_over(live):
    """The first one stays."""
    client, other = opened(live), live.client()
    first = client.listen()
    assert other.ask("GET", "/mcp", headers=ACCEPT | client.session).status == 409
    first.close()


def test_what_is_kept_does_not_grow(live, monkeypatch):
    """Clients come, call, and go: properly, without a word, in the middle, and refused."""
    monkeypatch.setattr(sessions_module, "MOST_SESSIONS", 10)
    put(live.board, *(f"task-{n}" for n in range(100)))

    def come_and_go(rounds):
        for number in range(rounds):
            client = live.client()
            client.greet()
            client.old_tool("claim_task", agent_id=f"agent-{number}", task_id=f"task-{number}")
            if number % 4 == 0:
                client.ask("DELETE", "/mcp", headers=ACCEPT | client.session)
            elif number % 4 == 1:
                client.begin_old_tool("claim_task", agent_id="ada", wait_sec=50)
            elif number % 4 == 2:
                client.ask("POST", "/mcp", "{", ACCEPT)
            client.close()
        until(lambda: not live.app._open and live.waiting == 0)

    come_and_go(40)
    before = kept()
    come_and_go(100)
    assert known(live) <= 10
    after = kept()
    assert {kind: count for kind, count in after.items() if count > before[kind] + 5} == {}


def kept():
    """What could pile up, counted."""
    gc.collect()
    kinds = {"Exchange": 0, "Session": 0, "Opened": 0, "Flight": 0, "Task": 0, "StreamableHTTPServerTransport": 0}
    for thing in gc.get_objects():
        name = type(thing).__name__
        if name in kinds:
            kinds[name] += 1
    return kinds | {"threads": threading.active_count()}
