"""The server for frameworks that connect by themselves: what they are given works as it is."""

import json
import subprocess

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from agentmesh import Board
from agentmesh.errors import InvalidArgument
from pytest_agentmesh.sessions import Server

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    """The SDK runs on asyncio here."""
    return "asyncio"


@pytest.fixture
def server(mesh_board):
    """The server of the test's board."""
    with Server(mesh_board) as server:
        yield server


async def claimed(client, **arguments):
    """Whom a claim was made for."""
    answer = json.loads((await client.call_tool("claim_task", arguments)).content[0].text)
    return answer["task"]["holder"]


async def test_a_framework_starts_the_command(server, mesh_board, mesh_clock):
    """On the clock of the test, with nothing of its own that renews leases."""
    mesh_board.create_task("x", id="t")
    ada = server.named("ada", profile="worker")
    parameters = StdioServerParameters(command=ada.command, args=ada.args, env=ada.env)
    async with Client(parameters) as client:
        assert await claimed(client) == "ada"
        mesh_clock.advance("1h")
        assert mesh_board.reclaim_zombies()


async def test_a_framework_calls_the_address(server, mesh_board):
    """Under any name."""
    mesh_board.create_task("x", id="t")
    async with Client(server.url) as client:
        assert await claimed(client, agent_id="ada") == "ada"


async def test_an_address_for_one_agent_has_a_token(server, mesh_board):
    """Nobody else gets in."""
    mesh_board.create_task("x", id="t")
    ada = server.named("ada")
    async with (
        httpx2.AsyncClient(headers=ada.headers) as http,
        Client(streamable_http_client(ada.url, http_client=http)) as client,
    ):
        assert await claimed(client) == "ada"
    async with httpx2.AsyncClient() as http:
        assert (await http.post(ada.url, json={})).status_code == 401


def test_the_configuration_has_the_usual_shape(mesh_board):
    """Of the transport that was chosen; for memory it is a command, since there is nothing else to give."""
    with Server(mesh_board) as server:
        config = server.config("board")["mcpServers"]["board"]
        assert config == {"type": "stdio", "command": server.command, "args": server.args, "env": server.env}
    with Server(mesh_board, transport="http", agent="ada") as server:
        config = server.config()["mcpServers"]["agentmesh"]
        assert config == {"type": "http", "url": server.url, "headers": server.headers}


@pytest.mark.agentmesh(transport="http")
def test_a_marker_chooses_the_transport(mesh_server, mesh_session):
    """For sessions that do not say, and for the server's configuration."""
    assert mesh_server is mesh_session.server
    assert mesh_server.config()["mcpServers"]["agentmesh"]["url"].startswith("http://127.0.0.1:")


def test_nothing_secret_is_in_the_configuration(server, monkeypatch):
    """Frameworks print it."""
    monkeypatch.setenv("API_KEY", "sk-secret")
    assert "sk-secret" not in json.dumps(server.config())


def test_a_real_board_is_served_without_the_clock_of_a_test(tmp_path):
    """Its server obeys the system's clock."""
    with Board.open(tmp_path / "board.db") as board, Server(board) as server:
        assert "--test-clock" not in server.args
        done = subprocess.run([server.command, *server.args], stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"transport": "pigeon"}, "transport: must be one of memory, stdio, http"),
        ({"profile": "boss"}, "profile: must be one of"),
        ({"agent": ""}, "agent"),
    ],
)
def test_what_cannot_be_is_refused_at_once(mesh_board, said, words):
    """Before anything is started."""
    with pytest.raises(InvalidArgument, match=words):
        Server(mesh_board, **said)


def test_over_http_a_profile_needs_an_agent(mesh_board):
    """A token stands for both."""
    with Server(mesh_board, profile="worker") as server, pytest.raises(InvalidArgument, match="belongs to a token"):
        _ = server.url
