"""Sessions of an agent at a test's board, on every transport: what they are, how they end, what they leave."""

import asyncio
import contextlib
import gc
import json
import threading

import anyio
import pytest
from anyio import to_thread
from mcp import Client, ClientSession, MCPError
from mcp.shared.exceptions import MCPDeprecationWarning

from agentmesh.errors import InvalidArgument
from pytest_agentmesh.sessions import MissingSdk, Sessions, WrongTask, sdk as sdk_module
from pytest_agentmesh.sessions.over_http import KEPT
from tests.support.processes import descriptors

pytestmark = pytest.mark.anyio
TRANSPORTS = ("memory", "stdio", "http")
MANY = 50


@pytest.fixture
def anyio_backend():
    """The trio of each SDK is in test_sessions_sdks.py."""
    return "asyncio"


@pytest.fixture
def sessions(mesh_board):
    """Sessions at the board of the test; no thread of theirs goes on."""
    before = threads()
    with Sessions(mesh_board) as sessions:
        yield sessions
    assert threads() <= before


def threads():
    """Those that are alive, but for the ones that anyio keeps for its event loop."""
    return {thread for thread in threading.enumerate() if not thread.name.startswith("AnyIO")}


async def told(session, tool, **arguments):
    """What a tool answers."""
    return json.loads((await session.call_tool(tool, arguments)).content[0].text)


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_session_is_the_sdks_own_and_speaks_for_its_agent(sessions, mesh_board, transport):
    """With the tools of its profile."""
    mesh_board.create_task("Refactor auth", id="auth")
    async with sessions("mine", profile="worker", transport=transport) as session:
        assert type(session) is ClientSession
        assert "create_task" not in {tool.name for tool in (await session.list_tools()).tools}
        await told(session, "claim_task")
        await told(session, "complete_task", task_id="auth", result={"ok": True})
    assert mesh_board.get_task("auth").state == "completed"
    assert mesh_board.attempts("auth")[0].agent_id == "mine"


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_session_goes_by_the_clock_of_the_test(sessions, mesh_board, mesh_clock, transport):
    """Nothing renews its leases by itself, so an hour is over in no time."""
    mesh_board.create_task("x", id="t", lease_timeout_sec=3600)
    async with sessions("mine", transport=transport) as session:
        await told(session, "claim_task")
        mesh_clock.advance("59min")
        assert mesh_board.reclaim_zombies() == []
        mesh_clock.advance("1min")
        assert [attempt.task_id for attempt in mesh_board.reclaim_zombies()] == ["t"]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_keepalive_is_there_when_asked_for(sessions, mesh_board, mesh_clock, transport):
    """For a quarter of an hour after the last call that named the task, as a real server does it."""
    mesh_board.create_task("x", id="t", lease_timeout_sec=60)
    async with sessions("mine", transport=transport, keepalive=True) as session:
        await told(session, "claim_task")
        mesh_clock.advance("14min")
        assert mesh_board.reclaim_zombies() == []
        mesh_clock.advance("5min")
        assert mesh_board.reclaim_zombies()


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_the_clock_moves_by_itself_while_all_sessions_wait(sessions, mesh_clock, transport):
    """A session without a call that waits is an agent at work."""
    began = mesh_clock.now
    async with sessions("a", transport=transport) as a, sessions("b", transport=transport) as b:
        with mesh_clock.autojump():
            async with anyio.create_task_group() as agents:
                agents.start_soon(lambda: told(a, "claim_task", wait_sec=50))
                await to_thread.run_sync(mesh_clock.until_waiting)
                await anyio.wait_all_tasks_blocked()
                assert mesh_clock.now == began
                await told(b, "claim_task", wait_sec=20)
                assert (mesh_clock.now - began).total_seconds() == 20
                agents.start_soon(lambda: told(b, "claim_task", wait_sec=30))
    assert (mesh_clock.now - began).total_seconds() == 50


async def test_the_newer_client_takes_the_streams(sessions):
    """It opens its own session on them, in the newest era of the protocol."""
    async with Client(sessions.streams("mine", profile="observer")) as client:
        assert (await client.call_tool("board_status")).structured_content["last_seq"] == 0


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_what_a_test_raises_is_what_it_fails_with(sessions, transport):
    """Not a group of it."""
    with pytest.raises(AssertionError, match="as written"):
        async with sessions("mine", transport=transport):
            raise AssertionError("as written")
    with pytest.raises(pytest.fail.Exception, match="as written"):
        async with sessions("mine", transport=transport):
            pytest.fail("as written")


async def test_a_cancelled_body_is_cancelled(sessions):
    """By the scope around the session, which then goes on."""
    with anyio.move_on_after(0.01) as scope:
        async with sessions("mine") as session:
            await told(session, "claim_task", wait_sec=30)
    assert scope.cancelled_caught


async def test_many_sessions_leave_no_descriptor(sessions):
    """Nor a thread, whether their tests fail or not.

    Fifty sessions that each leave one leave fifty. What else comes and goes meanwhile in this process, such as what
    earlier tests left to the garbage collector, is a few at most and does not grow with their number.
    """
    gc.collect()
    before = descriptors(), len(threads())
    for _ in range(MANY):
        with pytest.raises(AssertionError):
            async with sessions("mine") as session:
                assert await session.list_tools() is None
    gc.collect()
    grown = descriptors() - before[0], len(threads()) - before[1]
    assert max(grown) < MANY / 5, grown


async def test_subscriptions_end_with_their_session(sessions, mesh_board):
    """The thread that tells of changes, too."""
    heard = anyio.Event()

    async def hear(_):
        heard.set()

    async with sessions("mine", message_handler=hear) as session:
        with pytest.warns(MCPDeprecationWarning, match="resources/subscribe"):  # the older way still has a thread
            await session.subscribe_resource("agentmesh://board")
        mesh_board.create_task("x")
        with anyio.fail_after(20):
            await heard.wait()


async def test_a_session_that_another_task_leaves_says_what_to_write(sessions):
    """That is what pytest-asyncio does with fixtures; its server ends all the same."""
    opened = sessions("mine")
    await asyncio.create_task(opened.__aenter__())
    with pytest.raises(WrongTask, match=r"mesh_session\.owned"):
        await opened.__aexit__(None, None, None)
    assert not [thread for thread in threading.enumerate() if thread.name == "mesh_session"]


async def test_an_owned_session_is_left_by_any_task(sessions):
    """Its owner leaves it."""
    opened = sessions.owned("mine")
    session = await asyncio.create_task(opened.__aenter__())
    assert (await told(session, "board_status"))["last_seq"] == 0
    await opened.__aexit__(None, None, None)


async def test_a_failure_in_an_owned_session_is_what_it_was(sessions):
    """And no fault that never struck takes its place."""
    with pytest.raises(AssertionError, match="as written"):
        async with sessions.owned("mine", faults=["note:lost_reply"]):
            raise AssertionError("as written")


async def test_an_owned_session_that_cannot_be_opened_says_why(sessions):
    """In the task that wanted it."""
    with pytest.raises(InvalidArgument, match="transport: must be one of memory, stdio, http"):
        async with sessions.owned("mine", transport="carrier pigeon"):
            pass
    with pytest.raises(InvalidArgument, match="profile: must be one of"):
        async with sessions.owned("mine", profile="boss"):
            pass


async def test_a_server_that_dies_is_named(sessions, monkeypatch):
    """It is no wonder then that the connection is closed."""
    monkeypatch.setattr(type(sessions.server), "args", ["-c", "raise SystemExit(3)"])
    with pytest.raises(MCPError, match="Connection closed: the server ended with exit code 3; its stderr says why"):
        async with sessions("mine", transport="stdio"):
            pass


async def test_without_an_sdk_its_name_is_said(sessions, monkeypatch):
    """And how it is installed."""

    def missing(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sdk_module, "import_module", missing)
    sdk_module.load.cache_clear()
    with pytest.raises(
        MissingSdk, match=r"needs the MCP SDK, 1\.9 or newer, which is not installed here: pip install mcp"
    ):
        async with sessions("mine"):
            pass


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_a_test_left_open_ends_with_the_fixture(mesh_board, transport):
    """Even when its event loop is gone, and has closed nothing."""
    sessions = Sessions(mesh_board)
    left = sessions.streams("mine", transport=transport)
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(left.__aenter__())
        sessions.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "mesh_session"]
    assert not KEPT.begin().serving
