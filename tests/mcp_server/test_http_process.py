"""`agentmesh serve` as a process: where it listens, what it logs, how it ends."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.errors import BoardNotFound, InvalidArgument
from agentmesh.mcp_server.http.server import listen, serve_http
from tests.mcp_server.driver import DEADLINE_SEC, serve_command
from tests.mcp_server.live import Client
from tests.support.patience import until

pytestmark = pytest.mark.multiproc

MOST_SEC = 3.0
"""How long the server may take to end."""


@pytest.fixture
def board_path(tmp_path):
    """The place of a new board."""
    Board.open(tmp_path / "board.db").close()
    return tmp_path / "board.db"


@pytest.fixture
def start(board_path):
    """Start a server; the process, and the port that it named."""
    running = []

    def start(*options):
        command = serve_command(board_path, *options)
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        for line in process.stderr:
            if found := re.search(r"serving http://127\.0\.0\.1:(\d+)/mcp", line):
                return process, int(found[1])
        raise AssertionError("the server did not start")

    yield start
    for process in running:
        process.kill()
        process.communicate()


def agentmesh(board_path, *words):
    """Another command on the board."""
    command = [sys.executable, "-m", "agentmesh.cli", *words, "--board", str(board_path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=DEADLINE_SEC)


def test_a_signal_ends_it_with_streams_and_waits_open(start):
    """Soon, without a traceback; a call that waits is answered."""
    process, port = start()
    listening, waiting, newest, looking = (Client(port) for _ in range(4))
    listening.greet()
    stream = listening.listen()
    waiting.greet()
    waiting.begin_old_tool("claim_task", agent_id="ada", wait_sec=50)
    newest.begin_tool("claim_task", agent_id="bob", wait_sec=50)
    until(lambda: b"agentmesh_waiting_calls 2.0" in looking.ask("GET", "/metrics").body)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert [client.end().document["claimed"] for client in (waiting, newest)] == [False, False]
    assert stream.read() == b""
    assert process.wait(DEADLINE_SEC) == 0
    assert time.monotonic() - began < MOST_SEC
    assert process.stdout.read() == ""
    assert "Traceback" not in process.stderr.read()
    for client in (listening, waiting, newest, looking):
        client.close()


def test_a_token_is_nowhere_to_be_seen(start, board_path):
    """Neither in the log, whatever happens, nor in the list of processes, nor in the file."""
    secret = agentmesh(board_path, "token", "add", "ada", "--quiet").stdout.strip()
    process, port = start()
    client = Client(port, secret)
    client.greet()
    assert client.old_tool("claim_task")["claimed"] is False
    assert client.ask("GET", f"/mcp?token={secret}").status == 400
    assert client.ask("POST", "/mcp", f'{{"{secret}": [', {"Content-Type": "application/json"}).status >= 400
    client.close()
    commands = b" ".join(path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if _readable(path))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=DEADLINE_SEC)
    assert process.returncode == 130
    kept = (board_path.parent / "board.db.tokens").read_text()
    assert secret.startswith("agentmesh_")
    assert [text for text in (out, err, kept) if secret in text] == []
    assert secret.encode() not in commands


def _readable(path):
    try:
        path.read_bytes()
    except OSError:
        return False
    return True


def test_what_the_server_needs_is_named(board_path):
    """Without the extra there is one sentence and one command, no traceback."""
    code = (
        "import sys; sys.modules.update(mcp=None, uvicorn=None)\n"
        "import importlib.metadata as m\n"
        "def gone(name): raise m.PackageNotFoundError(name)\n"
        "m.version = gone\n"
        "from agentmesh.cli.main import main; main()\n"
    )
    for words in (["serve"], ["run", "--front", "sdk"]):
        command = [sys.executable, "-c", code, *words, "--board", str(board_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == 37
        assert "pip install 'pytest-agentmesh[http]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_nothing_of_it_is_imported_before_it_is_asked_for(board_path):
    """Neither by the package nor by a server on stdio: each agent pays for what its server imports."""
    code = (
        "import sys, os, agentmesh, agentmesh.cli.run, agentmesh.mcp_server\n"
        "from agentmesh.cli.main import cli\n"
        "try: cli.main(['run', '--board', sys.argv[1]])\n"
        "except SystemExit: pass\n"
        "heavy = {'mcp', 'mcp_types', 'uvicorn', 'starlette', 'anyio', 'asyncio', 'prometheus_client', 'pydantic'}\n"
        "os.write(2, repr(sorted(heavy & set(sys.modules))).encode())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(board_path)], input="", capture_output=True, text=True, check=True
    )
    assert done.stderr.endswith("[]")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0", "::ffff:10.0.0.1"])
def test_an_address_that_others_reach_needs_a_token(board_path, host):
    """Without one nothing listens, and the way to one is named."""
    with pytest.raises(InvalidArgument) as refused:
        serve_http(board_path, host=host)
    assert "agentmesh token add" in refused.value.hint


@pytest.mark.parametrize("host", ["\0", "x" * 70 + ".example"])
def test_what_is_no_address_is_said_to_be_none(board_path, host):
    """Whatever the resolver says."""
    with pytest.raises(InvalidArgument, match="--host"):
        serve_http(board_path, host=host)


def test_the_port_is_taken_by_another(board_path):
    """One sentence, with the reason."""
    with listen("127.0.0.1", 0) as taken, pytest.raises(InvalidArgument, match="cannot listen on"):
        serve_http(board_path, port=taken.getsockname()[1])


def test_there_must_be_a_board(tmp_path):
    """A typing error does not become an empty board."""
    with pytest.raises(BoardNotFound):
        serve_http(tmp_path / "typo.db")
    assert list(tmp_path.iterdir()) == []
