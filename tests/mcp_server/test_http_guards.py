"""What a request has to pass before anything is done for it."""

import os
import socket
import stat
from itertools import product

import pytest

from agentmesh.mcp_server.http.exchange import Refusal
from agentmesh.mcp_server.http.guards import BURST, MOST_HEAD, RATE, Doorkeeper, Hosts
from agentmesh.mcp_server.tokens import Keyring, Token
from tests.mcp_server.driver import DEADLINE_SEC
from tests.mcp_server.live import ACCEPT, NEWEST, serving
from tests.support.boards import event_count, open_board, put
from tests.support.patience import until

PATHS = ("/mcp", "/healthz", "/metrics", "/no/such", "/mcp/", "//mcp", "/.well-known/oauth-protected-resource")


def ping(client):
    """A request that is in order, save for what a test adds."""
    return client.request("ping")


FOREIGN_HOSTS = (
    "evil.example",
    "127.0.0.1.evil.example:{port}",
    "localhost.:{port}",
    "127.0.0.1:1",
    "127.0.0.1",
    "[::1",
    "",
)
FOREIGN_ORIGINS = ("null", "http://localhost:1", "file://", "https://evil.example", "http://127.0.0.1")


def test_a_foreign_host_is_refused_on_every_path(live):
    """Whatever name a page made resolve to this machine."""
    client = live.client()
    for path, host in product(PATHS, FOREIGN_HOSTS):
        answer = client.ask("GET", path, headers={"Host": host.format(port=live.port)})
        assert (answer.status, answer.code) == (421, "wrong_host")


def test_a_foreign_origin_is_refused_on_every_path(live):
    """A page of another origin, also one on this machine."""
    client = live.client()
    for path, origin in product(PATHS, FOREIGN_ORIGINS):
        answer = client.ask("GET", path, headers={"Origin": origin})
        assert (answer.status, answer.code) == (403, "foreign_origin")


def test_our_own_names_are_let_in(live):
    """With the port that we listen on, and as an origin, too."""
    for host in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]"):
        named = f"{host}:{live.port}"
        headers = {"Host": named, "Origin": f"http://{named}"}
        assert live.client().ask("GET", "/healthz", headers=headers).status == 200


def test_further_names_can_be_allowed():
    """As they are, or with our port; one with a port of its own only with that."""
    hosts = Hosts(["mesh.example", "proxy.example:444"], 8765)
    assert {"mesh.example", "mesh.example:8765", "proxy.example:444"} <= hosts._allowed
    assert not {"proxy.example", "proxy.example:8765", "127.0.0.1"} & hosts._allowed


ASKS = {
    405: (
        *(("/mcp", method) for method in ("PUT", "PATCH", "OPTIONS", "HEAD")),
        *(("/healthz", method) for method in ("POST", "OPTIONS", "TRACE")),
        ("/metrics", "DELETE"),
    ),
    404: (("/no/such", "GET"), ("/mcp/", "POST")),
    400: (("/metrics?token=x", "GET"), ("/mcp?access_token=x", "POST"), ("/mcp?", "POST")),
    200: (("/healthz", "GET"), ("/metrics", "GET")),
}


def test_only_what_is_there_is_served(live):
    """In the way it is there; a token is never read from where logs keep it."""
    for status, asks in ASKS.items():
        for path, method in asks:
            body = ping(live.client()) if method == "POST" else None
            assert live.client().ask(method, path, body, ACCEPT).status == status, (method, path)


def test_a_preflight_allows_nothing(live):
    """No answer of any kind has a CORS header."""
    asks = {"Origin": f"http://127.0.0.1:{live.port}", "Access-Control-Request-Method": "POST"}
    for method, path in (("OPTIONS", "/mcp"), ("GET", "/healthz"), ("GET", "/mcp"), ("POST", "/mcp")):
        answer = live.client().ask(method, path, "{}" if method == "POST" else None, asks | ACCEPT)
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert "server" not in answer.headers


NO_JSON = (
    "text/plain",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "",
    "application/jsonp",
    "text/json",
)


def test_a_body_must_say_that_it_is_json(live):
    """A form and plain text can be sent by any page without asking."""
    client = live.client()
    for content_type, era in product(NO_JSON, ({}, NEWEST)):
        headers = ACCEPT | era | {"Content-Type": content_type}
        assert client.ask("POST", "/mcp", "{}", headers).status == 415


def test_a_body_that_is_too_long_is_refused(live):
    """Said before it is sent, or found out on the way; up to the limit it is read."""
    most = 1024 * 1024
    for body, status in ((b" " * most, 400), (b" " * (most + 1), 413), (iter([b" " * most, b" "]), 413)):
        assert live.client().ask("POST", "/mcp", body, ACCEPT).status == status


def test_a_body_that_does_not_come_is_not_waited_for(live, monkeypatch):
    """Whoever opens a request and never ends it holds nothing."""
    monkeypatch.setattr("agentmesh.mcp_server.http.app.BODY_SEC", 0)
    client = live.client()
    client.connection.putrequest("POST", "/mcp")
    for name, value in ACCEPT.items():
        client.connection.putheader(name, value)
    client.connection.putheader("Content-Length", "5")
    client.connection.endheaders()
    assert client.end().code == "too_slow"


def test_a_head_that_does_not_come_is_not_waited_for(board, board_path, monkeypatch):
    """Neither the first one of a connection nor a later one, not even if it drips."""
    monkeypatch.setattr("agentmesh.mcp_server.http.server.HEAD_SEC", 0)
    for sent in (b"", b"GET /healthz HTTP/1.1\r\nHost: "):
        with serving(board, board_path) as live, socket.create_connection(("127.0.0.1", live.port)) as line:
            line.settimeout(DEADLINE_SEC)
            line.sendall(sent)
            assert line.recv(1) == b""


def test_a_head_that_is_too_long_is_refused(live):
    """Few long headers or many short ones; as soon as it shows, if it does not come in one piece."""
    for headers in ({"X": "x" * MOST_HEAD}, {f"X{n}": "" for n in range(MOST_HEAD // 4)}):
        answer = live.client().ask("GET", "/healthz", headers=headers)
        assert (answer.status, answer.code) == (431, "head_too_large")
    with socket.create_connection(("127.0.0.1", live.port)) as line:
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: " + b"x" * MOST_HEAD)
        assert line.recv(12) == b"HTTP/1.1 400"
    assert live.client().ask("GET", "/healthz").status == 200


def test_a_header_that_decides_stands_there_once(live):
    """Two readers of two hosts could disagree."""
    client = live.client(live.token("ada"))
    client.connection.putrequest("GET", "/metrics")
    client.connection.putheader("Authorization", "Bearer x")
    client.connection.putheader("Authorization", "Bearer y")
    client.connection.endheaders()
    assert client.end().code == "repeated_header"


def test_with_tokens_only_the_health_is_told_without_one(live):
    """Also on a server that was started without; nothing says why a token is not good."""
    secret = live.token("ada")
    for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Basic {secret}"}, {"Authorization": secret}):
        for method, path in (("GET", "/metrics"), ("GET", "/mcp"), ("POST", "/mcp"), ("DELETE", "/mcp")):
            answer = live.client().ask(method, path, "{}" if method == "POST" else None, ACCEPT | headers)
            assert (answer.status, answer.code) == (401, "unauthorized")
            assert answer.headers["www-authenticate"].startswith("Bearer")
    assert live.client().ask("GET", "/healthz").status == 200
    assert live.client(secret).ask("GET", "/metrics").status == 200
    assert live.client(secret).tool("board_status")["total"] == 0


def test_a_revoked_token_is_out_at_once(live):
    """For new requests, for its wait and for its session; the last one does not leave the door open."""
    secret = live.token("ada")
    client, newest = live.client(secret), live.client(secret)
    client.greet()
    client.begin_old_tool("claim_task", wait_sec=50)
    newest.begin_tool("claim_task", wait_sec=50)
    until(lambda: live.waiting == 2)
    live.tokens.revoke("ada", live._random)
    assert live.client().ask("GET", "/metrics").status == 401
    until(lambda: live.waiting == 0 and not live.app._open and not len(live.app._sessions))
    assert (newest.end().code, client.end().status) == ("ended", 200)


def test_nobody_is_let_in_by_a_file_that_others_could_read(live, capfd):
    """It is said once in the log, and healed by closing the file."""
    client = live.client(live.token("ada"))
    live.tokens.path.chmod(0o640)
    assert client.ask("GET", "/metrics").status == 401
    assert "Nobody is let in" in capfd.readouterr().err
    live.tokens.path.chmod(0o600)
    assert client.ask("GET", "/metrics").status == 200


def test_another_tokens_session_is_not_found(live):
    """An id of a session is no credential; without a token it is not even looked at."""
    ada = live.client(live.token("ada"))
    ada.greet()
    for client, status in ((live.client(live.token("bob")), 404), (live.client(live.token("ada")), 404)):
        for method in ("GET", "POST", "DELETE"):
            body = ping(client) if method == "POST" else None
            assert client.ask(method, "/mcp", body, ACCEPT | ada.session).status == status
    assert live.client().ask("POST", "/mcp", ping(ada), ACCEPT | ada.session).status == 401
    assert ada.old_tool("board_status")["total"] == 0


def test_a_token_that_calls_too_often_is_told_when_to_come_back(live):
    """After its burst it has so many calls a second; others are not held up."""
    keyring = Keyring(live.tokens)
    keeper, ada, bob = Doorkeeper(keyring), Token("ada", "all", "a" * 64, 0), Token("bob", "all", "b" * 64, 0)
    for _ in range(int(BURST)):
        keeper.take_turn(ada, 0.0)
    with pytest.raises(Refusal) as refused:
        keeper.take_turn(ada, 0.0)
    assert (refused.value.status, refused.value.headers) == (429, {"retry-after": "1"})
    keeper.take_turn(bob, 0.0)
    for _ in range(int(RATE)):
        keeper.take_turn(ada, 1.0)
    with pytest.raises(Refusal):
        keeper.take_turn(ada, 1.0)


def test_the_limit_of_calls_is_kept(live, monkeypatch):
    """Over the wire, with the header that says when."""
    monkeypatch.setattr("agentmesh.mcp_server.http.guards.BURST", 1.0)
    client = live.client(live.token("ada"))
    assert client.ask("POST", "/mcp", ping(client), ACCEPT).status == 400
    answer = client.ask("POST", "/mcp", ping(client), ACCEPT)
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")


def test_looking_changes_nothing(live):
    """No GET writes to the board."""
    put(live.board, "task")
    before = event_count(live.board)
    for path in PATHS:
        live.client().ask("GET", path, headers=ACCEPT)
    assert event_count(live.board) == before


def test_the_health_says_little_and_the_truth(board_path, clock):
    """What is on the board is nobody's business; that it cannot be read is everybody's."""
    with open_board(board_path, clock) as board, serving(board, board_path) as live:
        assert live.client().ask("GET", "/healthz").body == b'{"ok":true,"version":"0.1.0"}'
        board.close()
        answer = live.client().ask("GET", "/healthz")
        assert (answer.status, answer.body) == (503, b'{"ok":false,"code":"board_closed"}')


def test_the_file_of_tokens_is_closed_to_others(live):
    """Whatever the umask is."""
    before = os.umask(0)
    try:
        live.token("ada")
    finally:
        os.umask(before)
    assert stat.S_IMODE(live.tokens.path.stat().st_mode) == 0o600
