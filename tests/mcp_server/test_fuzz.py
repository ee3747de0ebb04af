"""Frames that are none, from a seed: each is answered where the protocol allows an answer, and none ends it all."""

import json
import random

import pytest

from agentmesh import Board
from tests.mcp_server.driver import ENVELOPE, HELLO, Server, content, run_command
from tests.support.hostile import NUMBERS, TEXTS

SEED = 20260728
CASES = 800

TASK = {"title": "t", "tags": ["a"], "payload": {"n": [1, None]}}
CALL = {"name": "create_task", "arguments": TASK, "_meta": ENVELOPE}
LISTEN = {"notifications": {"resourceSubscriptions": ["agentmesh://board"]}, "_meta": ENVELOPE}
GOOD = [
    {"method": "tools/call", "params": CALL},
    {"method": "tools/call", "params": {"name": "claim_task", "arguments": {"agent_id": "a"}, "_meta": ENVELOPE}},
    {"method": "tools/list", "params": {"_meta": ENVELOPE}},
    {"method": "resources/read", "params": {"uri": "agentmesh://tasks/a", "_meta": ENVELOPE}},
    {"method": "resources/templates/list", "params": {"_meta": ENVELOPE}},
    {"method": "prompts/get", "params": {"name": "plan_work", "arguments": {"goal": "g"}, "_meta": ENVELOPE}},
    {"method": "subscriptions/listen", "params": LISTEN},
    {"method": "server/discover", "params": {"_meta": ENVELOPE}},
    {"method": "initialize", "params": HELLO},
    {"method": "resources/subscribe", "params": {"uri": "agentmesh://board"}},
    {"method": "ping"},
]
BITS = [b"{", b"}", b"[", b'"', b"\\", b"\0", b"\xff", b"\xed\xa0\x80", b"NaN,", b"\r"]
ODD = [None, True, [], {}, [[]], {"a": {}}, "", *NUMBERS, *TEXTS]


def spoilt_text(chance, line):
    """A line that is hardly JSON any more."""
    raw = bytearray(line)
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(len(raw) or 1)
        match chance.randrange(5):
            case 0:
                del raw[at:]
            case 1:
                del raw[at : at + chance.randrange(1, 9)]
            case 2:
                raw[at:at] = chance.choice(BITS)
            case 3:
                raw[at:at] = raw[at : at + chance.randrange(1, 40)]
            case _:
                raw[at : at + 1] = bytes([chance.randrange(256)])
    return bytes(raw).replace(b"\n", b" ")


def spoilt_value(chance, frame):
    """A frame in which something is of another kind, missing, or beside itself."""
    holder, frame = None, json.loads(json.dumps(frame))
    node = frame
    while isinstance(node, dict) and node and (holder is None or chance.random() < 0.6):
        holder, key = node, chance.choice(list(node))
        node = node[key]
    match chance.randrange(4):
        case 0:
            del holder[key]
        case 1:
            holder[chance.choice(["x", "id", "method", "_meta", "__proto__", ""])] = chance.choice(ODD)
        case _:
            holder[key] = chance.choice(ODD)
    return json.dumps(frame).encode()


def lines():
    """All the lines, the same in every run."""
    chance = random.Random(SEED)
    found = [b"[" * 100_000, b"{" * 100_000, b"9" * 10_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000, b"\xef\xbb\xbf{}"]
    while len(found) < CASES:
        frame = {"jsonrpc": "2.0", "id": len(found), **chance.choice(GOOD)}
        spoil = chance.choice([spoilt_text, spoilt_value, spoilt_value])
        found.append(spoil(chance, json.dumps(frame).encode() if spoil is spoilt_text else frame))
    return found


def wants_answer(line):
    """Whether a line is to be answered: all but blank ones, notifications, and what claims to be a response."""
    if not line.strip():
        return False
    try:
        message = json.loads(line.decode(), parse_constant=lambda _: 1 / 0)
    except (ValueError, RecursionError, ZeroDivisionError):
        return True
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return True
    if "method" not in message and ("result" in message or "error" in message):
        return False
    return "id" in message or not isinstance(message.get("method"), str)


@pytest.fixture
def server(tmp_path):
    """The server as clients start it."""
    Board.open(tmp_path / "board.db").close()
    with Server(run_command(tmp_path / "board.db")) as running:
        yield running


@pytest.mark.multiproc
def test_no_line_ends_the_server_and_each_is_answered_once(server):
    """A good call works right after; what is no good is an error, never a failure of ours."""
    wanted = [line for line in lines() if wants_answer(line)]
    assert 500 < len(wanted) < CASES
    for line in lines():
        server.send_bytes(line + b"\n")
    made = content(server.end(server.begin_tool("create_task", title="after all that")))
    assert made["title"] == "after all that"
    assert content(server.end(server.begin_tool("get_task", task_id=made["id"])))["state"] == "pending"
    server.process.stdin.close()
    answers = [message for message in (*server.unclaimed, *server.rest()) if "method" not in message]
    assert len(answers) == len(wanted)
    codes = {answer["error"]["code"] for answer in answers if "error" in answer}
    assert codes == {-32700, -32600, -32601, -32602, -32022}
    documents = [content(answer) for answer in answers if "content" in answer.get("result", {})]
    assert "internal" not in {document.get("code") for document in documents}
    assert "Traceback" not in "".join(server.log)
