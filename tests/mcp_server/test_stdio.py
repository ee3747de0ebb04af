"""The server as a process: what is on the wire, what is not, and how it ends."""

import json
import os
import signal
import subprocess
import sys

import pytest

from agentmesh import Board
from tests.mcp_server.driver import DEADLINE_SEC, ENVELOPE, Server, content, run_command

PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": "ping", "result": {}}

SCRIPT = """
import os, sys, warnings
{before}
from dataclasses import replace
from agentmesh.board.facade import Board
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.stdio import serve
from agentmesh.mcp_server.tools import READS, Tool
from agentmesh.mcp_server.wire import Wire

def work(call, arguments):
{work}
    return {{"done": True}}

wire = Wire.take()
with Board.open(sys.argv[1]) as board:
    tools = {{"work": Tool("work", "Work.", (), work, READS)}}
    sys.exit(serve(wire, Session(board), replace(offer("all"), tools=tools)))
"""


def script(board, work, before=""):
    """A server with one tool that does what the text `work` says."""
    return [sys.executable, "-c", SCRIPT.format(before=before, work=f"    {work}"), str(board)]


@pytest.fixture
def board(tmp_path):
    """The place of a new board."""
    Board.open(tmp_path / "board.db").close()
    return tmp_path / "board.db"


@pytest.fixture
def server(board):
    """The server as clients start it."""
    with Server(run_command(board)) as running:
        yield running


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"null", -32600),
        (b"[]", -32600),
        (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', -32601),
        (b"[" * 100_000, -32700),
        (b" " * (10 * 1024 * 1024 + 1), -32600),
    ],
    ids=lambda value: repr(value[:40]) if isinstance(value, bytes) else None,
)
def test_a_bad_line_is_answered_and_the_next_one_served(server, line, code):
    """Whatever comes, there is an error, and then a pong."""
    server.send_bytes(line + b"\n")
    assert server.receive()["error"]["code"] == code
    server.send(PING)
    assert server.receive() == PONG


@pytest.mark.parametrize(
    "line", [b"", b"  \t", b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","method":"x"}']
)
def test_what_wants_no_answer_gets_none(server, line):
    """Blank lines, responses and notifications pass in silence, with any line ending."""
    server.send_bytes(line + b"\r\n")
    server.send(PING)
    assert server.receive() == PONG


def test_half_a_surrogate_pair_goes_back_as_it_came(server):
    """An id is the client's own affair; the answer is still good UTF-8."""
    server.send_bytes(b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}\n')
    assert server.receive()["id"] == "\ud800"
    refusal = server.tool("create_task", title="x\ud800")
    assert refusal["code"] == "invalid_argument"


def test_a_batch_is_served_in_the_one_version_that_has_it(server):
    """One array comes back, with an answer for each request in it."""
    server.greet("2025-03-26")
    call = {"name": "create_task", "arguments": {"title": "one"}}
    server.send(
        [
            {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": call},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": "b", "method": "no/such"},
            5,
        ]
    )
    answers = {answer["id"]: answer for answer in server.receive()}
    assert content(answers["a"])["title"] == "one"
    assert answers["b"]["error"]["code"] == -32601
    assert answers[None]["error"]["code"] == -32600


def test_lines_piped_in_are_served_in_their_order(board):
    """A script without a client works: what it asked is done and answered before the end."""
    calls = [
        ("create_task", {"title": "Refactor auth module", "id": "task_abc", "priority": 5}),
        ("claim_task", {"agent_id": "claude-3-7-sonnet"}),
        ("complete_task", {"task_id": "task_abc", "agent_id": "claude-3-7-sonnet", "result": {"diff": "+12 -4"}}),
        ("claim_task", {"agent_id": "claude-3-7-sonnet", "wait_sec": 50}),
    ]
    lines = [
        {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": n, "arguments": a, "_meta": ENVELOPE}}
        for i, (n, a) in enumerate(calls)
    ]
    text = "\n".join(map(json.dumps, lines))
    done = subprocess.run(
        run_command(board), input=text, capture_output=True, text=True, timeout=DEADLINE_SEC, check=True
    )
    answers = {answer["id"]: content(answer) for answer in map(json.loads, done.stdout.splitlines())}
    assert answers[2]["state"] == "completed"
    assert answers[3]["claimed"] is False


@pytest.mark.parametrize(
    ("before", "work"),
    [
        ("print('noise')", "print('noise')"),
        ("pass", "print('noise', flush=True)"),
        ("pass", "os.write(1, b'noise')"),
        ("pass", "os.system('echo noise')"),
        ("warnings.warn('noise')", "warnings.warn('noise')"),
        ("import logging; logging.basicConfig(level=0, stream=sys.stdout)", "logging.error('noise')"),
    ],
)
def test_noise_is_never_on_the_wire(board, before, work):
    """Prints, warnings, logs and children end up in the log, all lines out are messages."""
    with Server(script(board, work, before)) as server:
        assert server.tool("work") == {"done": True}
        server.process.stdin.close()
        assert server.rest() == []
        assert server.process.wait(DEADLINE_SEC) == 0
    assert "noise" in "".join(server.log)


def test_a_child_does_not_read_the_wire(board):
    """What a tool starts sees an empty stdin."""
    with Server(script(board, "assert os.system('read line') != 0")) as server:
        assert server.tool("work") == {"done": True}


def test_a_tool_that_breaks_tells_nothing_and_the_server_goes_on(board):
    """The client gets code internal, the log the traceback."""
    with Server(script(board, "raise ValueError('secret')")) as server:
        assert server.tool("work")["code"] == "internal"
        assert server.ask("ping")["result"] == {}
    assert "secret" in "".join(server.log)


def test_a_cancelled_wait_ends_without_an_answer(server):
    """The waiting call is over at once, and the server goes on."""
    waiting = server.begin_tool("claim_task", agent_id="ada", wait_sec=50)
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": waiting}})
    made = server.tool("create_task", title="later")
    assert server.tool("claim_task", agent_id="bob", wait_sec=20)["task"]["id"] == made["id"]
    server.process.stdin.close()
    assert server.rest() == []
    assert server.unclaimed == []


def test_a_heartbeat_answers_while_twenty_calls_wait(server):
    """Waits use up nothing that others need; a new task ends one of them."""
    server.tool("create_task", title="held", id="held")
    server.tool("claim_task", agent_id="ada")
    waits = [server.begin_tool("claim_task", agent_id=f"w{i}", wait_sec=50) for i in range(20)]
    waits += [server.begin_tool("read_events", after=10, wait_sec=50)]
    assert server.tool("heartbeat", task_id="held", agent_id="ada")["task_id"] == "held"
    assert not any(message.get("id") in waits[:20] for message in server.unclaimed)
    server.begin_tool("create_task", title="wanted", id="wanted")
    claimed = next(c for c in iter(lambda: content_or_none(server.receive()), 0) if c and "claimed" in c)
    assert claimed["task"]["id"] == "wanted"


def test_a_call_that_takes_long_holds_up_no_ping(board):
    """It has the thread that reads to itself; then another reads, as often as it takes."""
    gate = board.with_name("gate")
    os.mkfifo(gate)
    with Server(script(board, "open(sys.argv[1].replace('board.db', 'gate')).read()")) as server:
        for _ in range(2):
            asked = server.begin_tool("work")
            with gate.open("w"):  # the call has begun once this is open, and ends when it is closed
                server.send(PING)
                assert server.receive() == PONG
            assert content(server.end(asked)) == {"done": True}
    assert server.log == []


def content_or_none(message):
    """The document of a tool's answer; None for other messages."""
    return content(message) if "result" in message else None


def test_progress_is_told_to_those_who_ask(server):
    """It grows, and the answer comes last."""
    asked = {"progressToken": "p1"}
    waiting = server.begin_tool("claim_task", meta=asked, agent_id="ada", wait_sec=3.2)
    assert content(server.end(waiting))["claimed"] is False
    told = [message["params"] for message in server.unclaimed]
    assert {params["progressToken"] for params in told} == {"p1"}
    seconds = [params["progress"] for params in told]
    assert seconds == sorted(set(seconds))
    assert len(seconds) >= 2


@pytest.mark.parametrize("waiting", [False, True])
def test_the_end_of_input_ends_the_process(server, waiting):
    """Also while a call waits; it is answered."""
    asked = server.begin_tool("claim_task", agent_id="ada", wait_sec=50 if waiting else 0)
    server.process.stdin.close()
    assert [message["id"] for message in server.rest()] == [asked]
    assert server.process.wait(DEADLINE_SEC) == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_signal_ends_the_process(server, number, code, waiting):
    """With input still open, and with a call waiting."""
    server.greet()
    if waiting:
        server.begin_tool("claim_task", agent_id="ada", wait_sec=50)
        server.ask("ping")
    server.process.send_signal(number)
    assert server.process.wait(DEADLINE_SEC) == code


def test_a_call_that_hangs_does_not_hold_up_the_end(board):
    """After a moment of patience the process goes all the same."""
    with Server(script(board, "__import__('threading').Event().wait()")) as server:
        server.begin_tool("work")
        server.process.stdin.close()
        assert server.process.wait(DEADLINE_SEC) == 0


ORPHAN = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=int(sys.argv[1]), stdout=1)
sys.stdin.readline()
os._exit(0)
"""


def test_the_death_of_the_parent_ends_the_process(board):
    """Even when somebody else still holds its input open."""
    held, kept = os.pipe()
    command = [sys.executable, "-c", ORPHAN, str(held), *run_command(board)]
    with os.fdopen(kept, "wb", buffering=0) as wire, Server(command, pass_fds=[held]) as parent:
        os.close(held)
        wire.write(json.dumps(PING).encode() + b"\n")
        assert parent.receive() == PONG
        parent.process.stdin.close()
        assert parent.rest() == []  # the server held its end until now


def test_a_client_that_stops_reading_ends_the_process(board):
    """An answer that cannot be delivered is the end of the session."""
    with subprocess.Popen(run_command(board), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.close()
        process.stdin.write(json.dumps(PING).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(DEADLINE_SEC) == 0


def test_a_pipe_that_does_not_block_works(board):
    """Some clients hand such pipes over; nothing is lost, however large."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with subprocess.Popen(run_command(board), stdin=subprocess.PIPE, stdout=write) as process:
        os.close(write)
        for number in range(200):
            asked = {"jsonrpc": "2.0", "id": number, "method": "tools/list", "params": {"_meta": ENVELOPE}}
            process.stdin.write(json.dumps(asked).encode() + b"\n")
        process.stdin.close()
        with os.fdopen(read, "rb") as answers:
            assert [json.loads(line)["id"] for line in answers] == list(range(200))
        assert process.wait(DEADLINE_SEC) == 0


def test_a_bad_board_fails_before_the_handshake(tmp_path):
    """One sentence on stderr, nothing on the wire, an exit code that is not zero."""
    (tmp_path / "letter.txt").write_text("Dear reader, this is no board.")
    done = subprocess.run(
        run_command(tmp_path / "letter.txt"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SEC,
        check=False,
    )
    assert done.returncode not in (0, 1)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert done.stderr.strip()
