"""What we write into clients' files starts our server: each entry is started as written, by the SDK's own client."""

import json
import os
import sys
import tomllib
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from agentmesh.cli.clients import CLIENTS

pytestmark = [pytest.mark.anyio, pytest.mark.multiproc]
AGENT = "claude-3-7-sonnet"


@pytest.fixture
def anyio_backend():
    """The SDK runs on asyncio here."""
    return "asyncio"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home folder of the test's own."""
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def entry_in(config):
    """The entry as the client reads it."""
    text = config.read_text()
    servers = tomllib.loads(text)["mcp_servers"] if config.suffix == ".toml" else json.loads(text)["mcpServers"]
    return servers["agentmesh"]


async def work_through_a_task(entry, cwd, env=None):
    """Start the server, list its tools, and make the five calls of a worker's day."""
    server = StdioServerParameters(command=entry["command"], args=entry["args"], cwd=str(cwd), env=env)
    async with Client(server) as client:
        assert "claim_task" in {tool.name for tool in (await client.list_tools()).tools}

        async def call(tool, **arguments):
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        task = await call("create_task", title="Refactor auth module", priority=5)
        held = {"task_id": task["id"], "agent_id": AGENT}
        assert (await call("claim_task", agent_id=AGENT))["task"]["id"] == task["id"]
        assert "lease_expires_at" in await call("heartbeat", **held)
        assert (await call("complete_task", **held, result={"diff": "+12 -4"}))["state"] == "completed"
        assert (await call("reclaim_zombies"))["count"] == 0
        return task["id"]


@pytest.mark.parametrize(("client", "scope"), [(c.name, scope) for c in CLIENTS.values() for scope in c.places])
async def test_an_installed_server_works_as_it_is_written(mesh, tmp_path, client, scope):
    """In whatever folder, with no environment but a client's own: modules that lie there are not imported."""
    entry = entry_in(Path(mesh.json("install", client, "--scope", scope)["config"]))
    for name in ("agentmesh", "click", "json"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported from the folder of the client')\n")

    task = await work_through_a_task(entry, tmp_path)
    assert mesh.json("show", task)["task"]["state"] == "completed"


@pytest.mark.parametrize("by", ["folder", "environment"])
async def test_a_config_written_by_hand_works(call, tmp_path, by):
    """`python` from the PATH, the board from the folder or the environment."""
    entry = json.loads('{"command": "python", "args": ["-m", "agentmesh.cli", "run"]}')
    env = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    board = {"AGENTMESH_BOARD": str(call.board_path)} if by == "environment" else {}

    task = await work_through_a_task(entry, Path.cwd() if by == "folder" else tmp_path, env | board)
    assert call.json("show", task)["task"]["state"] == "completed"
