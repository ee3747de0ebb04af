"""The MCP SDK's own client drives both fronts, in both eras of the protocol: they are the same to it."""

import json
from contextlib import asynccontextmanager

import anyio
import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from agentmesh import Board
from agentmesh.mcp_server.profiles import PROFILES
from tests.mcp_server import golden
from tests.mcp_server.driver import run_command
from tests.mcp_server.live import serving

pytestmark = pytest.mark.anyio


class OnStdio:
    """Clients that start a server each, on one board."""

    knows_every_lease = False
    agent = None

    def __init__(self, path, era):
        self._path = path
        self._era = era

    def __call__(self, agent=None, profile=None, era=None, **options):
        """One more client, for this agent and profile."""
        given = {"--agent": agent, "--profile": profile}
        command, *arguments = run_command(self._path, *(w for pair in given.items() if pair[1] for w in pair))
        return Client(StdioServerParameters(command=command, args=arguments), mode=era or self._era, **options)


class OnHttp:
    """Clients of one server; an agent and a profile are a token's."""

    agent = "ada"

    def __init__(self, live, era):
        self.knows_every_lease = era == "auto"
        self._live = live
        self._era = era

    @asynccontextmanager
    async def __call__(self, agent=None, profile=None, era=None, **options):
        """One more client, for this agent and profile."""
        secret = self._live.token(agent or self.agent, profile or "all") if agent or profile else None
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
            transport = streamable_http_client(self._live.url, http_client=http)
            async with Client(transport, mode=era or self._era, **options) as client:
                yield client


@pytest.fixture(params=["auto", "legacy"])
def era(request):
    """The newest era of the protocol, or the one with the handshake."""
    return request.param


@pytest.fixture(params=["stdio", "http"])
def connect(request, era, tmp_path):
    """Start a client, of either front, on one board."""
    path = tmp_path / "board.db"
    with Board.open(path) as board:
        if request.param == "stdio":
            yield OnStdio(path, era)
        else:
            with serving(board, path) as live:
                yield OnHttp(live, era)


async def call(client, tool, **arguments):
    """What a tool answers; text and structure have to agree."""
    result = await client.call_tool(tool, arguments)
    document = json.loads(result.content[0].text)
    assert document == result.structured_content
    assert result.is_error == ("code" in document and "hint" in document)
    return document


async def test_the_quoted_calls_work_as_written(connect):
    """Create, claim, heartbeat, complete and reclaim, word for word."""
    async with connect() as client:
        made = await call(client, "create_task", title="Refactor auth module", priority=5)
        assert (made["title"], made["priority"], made["state"]) == ("Refactor auth module", 5, "pending")
        claim = await call(client, "claim_task", agent_id="claude-3-7-sonnet")
        assert claim["task"]["id"] == made["id"]
        beat = await call(client, "heartbeat", task_id=made["id"], agent_id="claude-3-7-sonnet")
        assert beat["lease_expires_at"] >= claim["lease_expires_at"]
        done = await call(
            client,
            "complete_task",
            task_id=made["id"],
            agent_id="claude-3-7-sonnet",
            result={"diff": "+12 -4"},
        )
        assert done["state"] == "completed"
        assert await call(client, "reclaim_zombies") == {"count": 0, "reclaimed": []}


async def test_what_was_said_is_stored(connect):
    """A second server on the board sees what the first one answered for."""
    async with connect() as first, connect() as second:
        made = await call(first, "create_task", title="größer", payload={"n": [1, "2", None]})
        found = await call(second, "get_task", task_id=made["id"])
        assert (found["title"], found["payload"]) == ("größer", {"n": [1, "2", None]})


async def test_usage_is_counted_against_a_budget(connect):
    """With its block as an object or as text; the report is the sum."""
    async with connect(agent="ada") as client:
        await call(client, "create_task", title="one", id="one", estimate_usd=0.01)
        await call(client, "set_budget", plan="default", usd=0.02)
        assert (await call(client, "claim_task"))["budgets"][0]["left_usd"] == "0.01"
        used = {"task_id": "one", "model": "claude-sonnet-4-5"}
        block = {"input_tokens": 1000, "cache_read_input_tokens": 5000, "output_tokens": 400}
        first = await call(client, "record_usage", **used, usage=block)
        assert (first["fence"], first["cost_usd"], first["budgets"][0]["left_usd"]) == (1, "0.0105", "0.0095")
        second = await call(client, "record_usage", **used, usage=json.dumps(block))
        assert second["budgets"][0]["over_usd"] == "0.001"
        report = await call(client, "usage_report", by="task")
        assert (report["lines"][0]["task_id"], report["total"]["cost_usd"]) == ("one", "0.021")


async def test_all_tools_are_listed(connect):
    """With schemas that every client understands."""
    async with connect() as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert len(tools) == 30
        assert tools["claim_task"].input_schema["required"] == ["agent_id"]
        assert tools["list_tasks"].annotations.read_only_hint is True
        assert tools["cancel_task"].annotations.destructive_hint is True


@pytest.mark.parametrize("profile", PROFILES)
async def test_every_profile_is_listed_as_it_stands_in_the_golden_copy(connect, profile):
    """Tools, resources, templates, prompts and their texts; a tool that is hidden is unknown."""
    expected = golden.shown(profile, connect.agent)
    async with connect(profile=profile) as client:
        listed = {
            "tools": (await client.list_tools()).tools,
            "resources": (await client.list_resources()).resources,
            "resourceTemplates": (await client.list_resource_templates()).resource_templates,
            "prompts": (await client.list_prompts()).prompts,
        }
        for key, items in listed.items():
            dump = [item.model_dump(mode="json", by_alias=True, exclude_none=True) for item in items]
            assert dump == expected[key]
        assert client.instructions == expected["instructions"]
        for name, text in expected["prompt_texts"].items():
            found = await client.get_prompt(name, {"goal": "ship"} if name == "plan_work" else {})
            assert found.messages[0].content.text == text
        if profile != "all":
            hidden = "pause" if profile == "worker" else "claim_task"
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool(hidden, {})


async def test_everything_that_is_announced_can_be_read(connect):
    """Each resource by its URI; what is not there is told with the URI."""
    async with connect(agent="ada") as client:
        announced = client.server_capabilities
        assert announced.resources.subscribe is True
        assert announced.prompts is not None
        await call(client, "create_task", title="one", id="a/b", plan="shop")
        await call(client, "claim_task")
        texts = {}
        for uri in ("board", "session", "tasks/a%2Fb", "plans/shop/graph"):
            found = await client.read_resource(f"agentmesh://{uri}")
            texts[uri] = found.contents[0].text
        assert json.loads(texts["board"])["counts"]["in_progress"] == 1
        assert json.loads(texts["session"])["attempts"][0]["task_id"] == "a/b"
        assert json.loads(texts["tasks/a%2Fb"])["title"] == "one"
        assert texts["plans/shop/graph"].startswith("flowchart TD")
        with pytest.raises(MCPError) as caught:
            await client.read_resource("agentmesh://tasks/nobody")
        assert (caught.value.code, caught.value.data["uri"]) == (-32602, "agentmesh://tasks/nobody")
        with pytest.raises(MCPError, match="goal"):
            await client.get_prompt("plan_work", {})


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.parametrize("era", ["auto"], indirect=True)
async def test_a_change_of_a_resource_reaches_who_asked_for_it(connect):
    """By the stream of the newer era, and one by one in the older."""
    heard = anyio.Event()

    async def on_message(message):
        if getattr(message, "method", None) == "notifications/resources/updated":
            heard.set()

    uri = "agentmesh://board"
    async with connect(era="legacy", message_handler=on_message) as older, connect() as newer:
        await older.subscribe_resource(uri)
        async with newer.listen(resource_subscriptions=[uri]) as stream:
            await call(newer, "create_task", title="one")
            with anyio.fail_after(20):
                assert (await anext(stream)).uri == uri
                await heard.wait()


async def test_a_session_with_a_name_speaks_as_nobody_else(connect):
    """agent_id leaves the schemas, its own name may be given, another one is refused."""
    async with connect(agent="ada") as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "agent_id" not in json.dumps([tool.input_schema for tool in tools.values()])
        await call(client, "create_task", title="one", id="one")
        assert (await call(client, "claim_task", agent_id="bob"))["code"] == "invalid_argument"
        assert (await call(client, "claim_task", agent_id="ada"))["task"]["holder"] == "ada"
        assert (await call(client, "complete_task", task_id="one"))["state"] == "completed"


async def test_a_token_that_was_lost_can_be_had_again(connect):
    """A new session knows no lease; the error tells the way back, and the way works."""
    async with connect() as first:
        await call(first, "create_task", title="one", id="one")
        token = (await call(first, "claim_task", agent_id="ada"))["lease"]
    async with connect() as second:
        held = {"task_id": "one", "agent_id": "ada"}
        if not connect.knows_every_lease:
            assert (await call(second, "heartbeat", **held))["code"] == "lease_unknown"
        assert "lease_expires_at" in await call(second, "heartbeat", **held, lease=token)
        again = await call(second, "claim_task", **held, resume=True, take_over=True)
        assert again["claimed"] is True
        assert (await call(second, "complete_task", **held, lease=token))["code"] == "lease_lost"
        assert (await call(second, "complete_task", **held))["state"] == "completed"


async def test_a_wrong_call_is_told_to_the_model(connect):
    """The error names the argument and what is expected."""
    async with connect() as client:
        wrong = await call(client, "create_task", title="x", priority="high")
        assert (wrong["code"], wrong["field"]) == ("invalid_argument", "priority")
        unknown = await call(client, "create_task", title="x", colour="red")
        assert (unknown["code"], unknown["field"]) == ("invalid_argument", "colour")


async def test_an_unknown_tool_is_an_error_of_the_protocol(connect):
    """As the specification has it."""
    async with connect() as client:
        with pytest.raises(MCPError, match="Unknown tool"):
            await client.call_tool("drop_table", {})


@pytest.mark.parametrize("text", ["123", "null", "true", "[1]", '{"a":1}', "1e5"])
async def test_a_string_that_looks_like_json_stays_a_string(connect, text):
    """Same type, same letters, through claim and result."""
    async with connect() as client:
        made = await call(client, "create_task", title=text, description=text, payload=text)
        await call(client, "claim_task", agent_id="ada")
        await call(client, "complete_task", task_id=made["id"], agent_id="ada", result=text)
        found = await call(client, "get_task", task_id=made["id"])
        assert [found[name] for name in ("title", "description", "payload", "result")] == [text] * 4


async def test_a_client_that_gives_up_leaves_no_claim_behind(connect):
    """Its wait is cancelled; the task that comes later goes to somebody else."""
    async with connect() as client:
        with pytest.raises(MCPError):
            await client.call_tool("claim_task", {"agent_id": "ada", "wait_sec": 50}, read_timeout_seconds=0.2)
        made = await call(client, "create_task", title="later")
        assert (await call(client, "claim_task", agent_id="bob", wait_sec=20))["task"]["id"] == made["id"]


async def test_a_huge_board_is_listed_in_pages(connect):
    """No answer is over 60 KiB, and the cursor leads through all of it."""
    async with connect() as client:
        for start in range(0, 1000, 250):
            tasks = [{"title": "t" * 300, "id": f"t{n}"} for n in range(start, start + 250)]
            await call(client, "create_tasks", tasks=tasks)
        seen, cursor = [], None
        while cursor is not None or not seen:
            page = await client.call_tool("list_tasks", {"limit": 500} | ({"cursor": cursor} if cursor else {}))
            assert len(page.content[0].text.encode()) <= 60 * 1024
            seen += [task["id"] for task in page.structured_content["tasks"]]
            cursor = page.structured_content.get("cursor")
        assert len(set(seen)) == len(seen) == 1000


async def test_a_huge_task_is_read_in_parts(connect):
    """What is cut is marked, and can be read on."""
    async with connect() as client:
        payload = {"text": "é" * 30_000}
        made = await call(client, "create_task", title="big", description="d" * 60_000, payload=payload)
        cut = await call(client, "get_task", task_id=made["id"])
        assert {mark["field"] for mark in cut["truncated"]} <= {"description", "payload"}
        parts, offset = "", 0
        while offset is not None:
            part = await call(client, "get_task", task_id=made["id"], field="payload", offset=offset)
            parts, offset = parts + part["text"], part.get("next_offset")
        assert json.loads(parts) == payload
