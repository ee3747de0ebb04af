"""The MCP SDK's own client over HTTP, where that differs from stdio: many at once, and results to the letter."""

import anyio
import pytest
from mcp import Client

from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.protocol import METHOD_NOT_FOUND
from agentmesh.mcp_server.reply import result_of
from agentmesh.mcp_server.session import Call, Session
from tests.mcp_server.driver import ENVELOPE, Server, run_command
from tests.mcp_server.live import ACCEPT, NEWEST
from tests.support.boards import open_board, put, states
from tests.support.patience import until

pytestmark = pytest.mark.anyio
ERAS = ("auto", "legacy")

SCRIPT = (
    ("create_task", {"title": "größer", "id": "one", "payload": {"n": [1, None, "2"], "z": None}}),
    ("create_task", {"title": "two", "id": "two", "depends_on": ["one"]}),
    ("create_task", {"title": "again", "id": "one"}),
    ("create_task", {"titel": "typo"}),
    ("claim_task", {"agent_id": "ada"}),
    ("heartbeat", {"agent_id": "ada", "task_id": "one"}),
    ("heartbeat", {"agent_id": "bob", "task_id": "one"}),
    ("note", {"agent_id": "ada", "task_id": "one", "text": "x" * 70_000}),
    ("note", {"agent_id": "ada", "task_id": "one", "text": '</system>"result": \\u2028\x1b[31m'}),
    ("complete_task", {"agent_id": "ada", "task_id": "one", "result": {"empty": {}, "none": None, "list": "[1]"}}),
    ("get_task", {"task_id": "one"}),
    ("claim_task", {"agent_id": "ada"}),
    ("fail_task", {"agent_id": "ada", "task_id": "two", "error": "no", "retry": False}),
    ("list_tasks", {}),
    ("put_entry", {"key": "k", "value": None}),
    ("get_entry", {"key": "k"}),
    ("put_entry", {"key": "long", "value": "ü" * 100_000}),
    ("get_entry", {"key": "long"}),
    ("read_events", {"limit": 3}),
    ("set_budget", {"usd": 1}),
    ("usage_report", {}),
    ("board_status", {}),
    ("explain", {}),
    ("reclaim_zombies", {}),
)


def connect(live, era):
    """A client of the SDK's."""
    return Client(live.url, mode=era)


@pytest.mark.parametrize("era", ERAS)
async def test_results_are_those_of_the_other_front(live, clock, tmp_path, era):
    """The same calls on a board of the same seed give the same results, errors and cuts included."""
    tools = offer("all").tools
    with open_board(tmp_path / "twin.db", clock) as twin:
        session = Session(twin)
        async with connect(live, era) as client:
            for name, arguments in SCRIPT:
                expected = result_of(lambda: tools[name].run(Call(session), dict(arguments)))  # noqa: B023 - it is used at once
                result = await client.call_tool(name, arguments)
                assert result.is_error == expected["isError"]
                assert result.content[0].text == expected["content"][0]["text"], name
                assert result.structured_content == expected["structuredContent"]
        session.close()


def test_the_newest_era_is_the_same_on_the_wire(live, board_path):
    """Lists, results and refusals as our front on stdio gives them, keys of the protocol included."""
    asks = (
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("prompts/get", {"name": "plan_work", "arguments": {"goal": "ship"}}),
        ("prompts/get", {"name": "plan_work", "arguments": {}}),
        ("resources/read", {"uri": "agentmesh://session"}),
        ("resources/read", {"uri": "agentmesh://tasks/nobody"}),
        ("resources/read", {"uri": "agentmesh://nothing"}),
        ("server/discover", {}),
        ("tools/list", {"cursor": "x"}),
        ("tools/call", {"name": "list_tasks", "arguments": {}}),
        ("tools/call", {"name": "heartbeat", "arguments": {}}),
        ("tools/call", {"name": "nobody", "arguments": {}}),
    )
    client = live.client()
    with Server(run_command(board_path)) as server:
        for method, params in asks:
            named = {"Mcp-Name": params.get("name", params.get("uri", ""))}
            body = client.request(method, params | {"_meta": ENVELOPE})
            ours = server.ask(method, params | {"_meta": ENVELOPE})
            theirs = client.ask("POST", "/mcp", body, ACCEPT | NEWEST | {"Mcp-Method": method} | named).message
            assert (theirs.get("result"), theirs.get("error")) == (ours.get("result"), ours.get("error"))


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe"])
def test_methods_that_are_not_there_are_not_found(live, method):
    """2026-07-28 has neither ping nor log levels, and subscribes in another way."""
    client = live.client()
    body = client.request(method, {"_meta": ENVELOPE, "level": "info", "uri": "agentmesh://board"})
    answer = client.ask("POST", "/mcp", body, ACCEPT | NEWEST | {"Mcp-Method": method})
    assert (answer.status, answer.message["error"]["code"]) == (404, METHOD_NOT_FOUND)


async def test_ten_clients_share_a_board(live):
    """Of either era; each task is done once, nothing is lost, and no call finds the board locked."""
    put(live.board, *(f"task-{n}" for n in range(40)))
    done = []

    async def work(number):
        async with connect(live, ERAS[number % 2]) as client:
            while True:
                claim = (await client.call_tool("claim_task", {"agent_id": f"agent-{number}"})).structured_content
                if not claim["claimed"]:
                    assert claim["advice"] in ("stop", "wait"), claim
                    return
                mine = {"agent_id": f"agent-{number}", "task_id": claim["task"]["id"]}
                result = await client.call_tool("complete_task", mine | {"result": number})
                assert not result.is_error, result
                done.append(claim["task"]["id"])

    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(work, number)
    assert sorted(done) == sorted(states(live.board))
    assert set(states(live.board).values()) == {"completed"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_cancels_its_wait(live, era):
    """In the way of its era; the next call is served, and the task is nobody's."""
    async with connect(live, era) as client:
        with anyio.move_on_after(60) as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "claim_task", {"agent_id": "ada", "wait_sec": 50})
                await anyio.to_thread.run_sync(until, lambda: live.waiting == 1)
                scope.cancel()
        await anyio.to_thread.run_sync(until, lambda: live.waiting == 0)
        put(live.board, "task")
        result = await client.call_tool("claim_task", {"agent_id": "bob"})
        assert result.structured_content["task"]["id"] == "task"


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_reads_its_answer_keeps_its_claim(live, era):
    """It closes each response as soon as the answer is there: that is no hanging up."""
    put(live.board, *(f"task-{n}" for n in range(10)))
    async with connect(live, era) as client:
        for _ in range(10):
            claim = await client.call_tool("claim_task", {"agent_id": "ada", "wait_sec": 1})
            assert claim.structured_content["claimed"]
    await anyio.to_thread.run_sync(until, lambda: not live.app._open)
    assert set(states(live.board).values()) == {"in_progress"}
