"""What goes wrong on a session's way, on every transport: what the caller gets, what the board has, what is noted."""

import json

import anyio
import pytest
from mcp import MCPError
from mcp.types import REQUEST_TIMEOUT

from agentmesh.errors import InvalidArgument
from pytest_agentmesh.faults import delay, disconnect, duplicate, kill, lost_reply, lost_request
from pytest_agentmesh.sessions import FaultNeverStruck, Sessions
from pytest_agentmesh.sessions.connection import Connection
from pytest_agentmesh.sessions.sdk import load
from pytest_agentmesh.sessions.strikes import Strikes

pytestmark = pytest.mark.anyio
CLOSED = -32000
EVERYWHERE = pytest.mark.parametrize("transport", ["memory", "stdio", "http"])


@pytest.fixture
def anyio_backend():
    """The trio of each SDK is in test_sessions_sdks.py."""
    return "asyncio"


@pytest.fixture
def sessions(mesh_board):
    """Sessions at the board of the test."""
    with Sessions(mesh_board) as sessions:
        yield sessions


async def told(session, tool, **arguments):
    """What a tool answers."""
    return json.loads((await session.call_tool(tool, arguments)).content[0].text)


async def error_of(session, tool, **arguments):
    """The error of a call without an answer."""
    with pytest.raises(MCPError) as caught:
        await session.call_tool(tool, arguments)
    return caught.value


@EVERYWHERE
async def test_after_a_lost_reply_it_was_done(sessions, mesh_board, transport):
    """The caller sees the SDK's own timeout, at once."""
    async with sessions("mine", transport=transport, faults=[lost_reply("create_task")]) as session:
        error = await error_of(session, "create_task", title="x", id="t")
        assert error.code == REQUEST_TIMEOUT
        assert str(error) == "Request 'tools/call' timed out (lost_reply at create_task)"
        assert mesh_board.get_task("t").title == "x"
        await told(session, "create_task", title="y", id="u")


@EVERYWHERE
async def test_a_lost_request_is_never_done(sessions, mesh_board, transport):
    """The caller sees the same, the board nothing."""
    async with sessions("mine", transport=transport, faults=[lost_request("create_task")]) as session:
        assert (await error_of(session, "create_task", title="x", id="t")).code == REQUEST_TIMEOUT
        assert mesh_board.list_tasks().tasks == ()
        await told(session, "create_task", title="x", id="t")


@EVERYWHERE
async def test_a_duplicate_is_done_twice_before_its_answer(sessions, mesh_board, transport):
    """So a test sees both effects; with a request_id there is one."""
    async with sessions("mine", transport=transport, faults=[duplicate("create_task")]) as session:
        await told(session, "create_task", title="twice")
        assert [task.title for task in mesh_board.list_tasks().tasks] == ["twice", "twice"]
    async with sessions("mine", transport=transport, faults=[duplicate("create_task")]) as session:
        await told(session, "create_task", title="once", request_id="r")
    assert len(mesh_board.list_tasks().tasks) == 3


async def test_the_first_answer_is_kept_until_the_second_is_there(mesh_board):
    """What a test sees then is the whole of it."""
    sdk, clock = load(), mesh_board.store.clock
    to_server, at_server = anyio.create_memory_object_stream(2)
    from_server, at_client = anyio.create_memory_object_stream(2)
    strikes = Strikes([duplicate("note")], "mine", clock, ["note"], [], strict=True)
    connection = Connection(sdk, at_client, to_server, strikes, words=str)
    with to_server, at_server, from_server, at_client:
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "note", "arguments": {}}}
        await connection.outgoing.send(sdk.item(json.dumps(call)))
        assert sdk.document(at_server.receive_nowait())["id"] == 7
        await from_server.send(sdk.refusal(7, -1, "the first"))
        with anyio.move_on_after(0.01) as scope:
            await connection.incoming.receive()
        assert scope.cancelled_caught
        assert sdk.document(at_server.receive_nowait())["id"] == "again-7"
        await from_server.send(sdk.refusal("again-7", -1, "the second"))
        assert sdk.document(await connection.incoming.receive())["error"]["message"] == "the first"


@EVERYWHERE
async def test_a_delayed_request_arrives_by_the_boards_clock(sessions, mesh_board, mesh_clock, transport):
    """It is one of the clock's deadlines, and nobody waits in real time."""
    async with sessions("mine", transport=transport, faults=[delay("create_task", sec=90)]) as session:
        with mesh_clock.autojump():
            await told(session, "create_task", title="late", id="t")
    [mark] = sessions.marks
    assert (mark.what, mark.at_us) == ("the request arrived 1min 30s late", mesh_board.get_task("t").created_us)


@EVERYWHERE
async def test_a_broken_connection_ends_all_calls_and_the_session(sessions, mesh_board, transport):
    """The call never arrives; the agent has to open another session, and gets its lease back by resuming."""
    mesh_board.create_task("x", id="t")
    async with sessions("mine", transport=transport, faults=[disconnect("release_task")]) as session:
        await told(session, "claim_task")
        async with anyio.create_task_group() as group:
            group.start_soon(error_of, session, "claim_task")
            assert (await error_of(session, "release_task", task_id="t")).code == CLOSED
        assert (await error_of(session, "board_status")).code == CLOSED
    async with sessions("mine", transport=transport) as session:
        await told(session, "claim_task", task_id="t", resume=True, take_over=True)
        await told(session, "release_task", task_id="t")
    assert mesh_board.get_task("t").state == "pending"


async def test_a_fault_strikes_the_nth_call_of_its_tool_in_its_session(sessions):
    """As text, too; a star stands for any tool."""
    faults = ["board_status:lost_request@2", "*:lost_request@4"]
    async with sessions("mine", faults=faults) as session, sessions("other") as other:
        await told(session, "board_status")
        await told(other, "board_status")
        assert "board_status, call 2" in str(await error_of(session, "board_status"))
        await told(session, "board_status")
        assert "lost_request, call 4" in str(await error_of(session, "explain"))
    assert [(mark.agent, mark.at) for mark in sessions.marks] == [("mine", "board_status"), ("mine", "explain")]


async def test_a_fault_for_one_agent_spares_the_others(sessions):
    """They may share a list of faults."""
    faults = [lost_request("board_status", agent="ada")]
    async with sessions("bob", faults=faults) as session:
        await told(session, "board_status")
    async with sessions("ada", faults=faults) as session:
        await error_of(session, "board_status")


async def test_a_fault_that_never_struck_fails_the_test(sessions):
    """It would not have tested what it says. A body that fails by itself keeps its failure."""
    with pytest.raises(FaultNeverStruck) as caught:
        async with sessions("mine", faults=[lost_reply("complete_task", 2), "note:duplicate"]) as session:
            await told(session, "board_status")
    assert str(caught.value) == (
        "This never struck: lost_reply at complete_task, call 2; duplicate at note.\n"
        "The session of mine called: board_status 1x.\n"
        "Let the agent get there, correct the fault, or open the session with strict=False."
    )
    with pytest.raises(ZeroDivisionError):
        async with sessions("mine", faults=["note:duplicate"]):
            _ = 1 / 0
    async with sessions("mine", faults=["note:duplicate"], strict=False):
        pass
    assert len(sessions.unused_faults) == 4


async def test_a_fault_of_an_open_session_is_missed_when_the_body_has_passed(sessions):
    """A fixture that owns a session leaves it only later, and then nothing is said twice."""
    async with sessions.owned("mine", faults=["note:duplicate"]):
        with pytest.raises(FaultNeverStruck):
            sessions.verify()
    sessions.verify()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("complete_task:lost", "'complete_task:lost' is no fault"),
        ("claim_task:delay=soon", "not a duration: 'soon'"),
        ("claim_task:delay", "a delay takes seconds"),
        ("complet_task:lost_reply", "this session has no tool 'complet_task'"),
        ("create_task:lost_reply", "this session has no tool 'create_task'"),
        (kill("claim_task"), "kill strikes an agent of a scripted swarm, not a session"),
    ],
)
async def test_a_fault_that_cannot_strike_is_refused(sessions, fault, words):
    """Before anything runs."""
    with pytest.raises(InvalidArgument, match="faults: ") as caught:
        async with sessions("mine", profile="worker", faults=[fault]):
            pass
    assert words in str(caught.value)


async def test_a_call_that_arrives_again_does_not_wait(sessions, mesh_board):
    """Nobody might turn the clock; what it can do at once it does, and with a request_id that is nothing."""
    mesh_board.create_tasks([{"title": "x", "id": task_id} for task_id in ("t1", "t2", "t3")])
    async with sessions("mine", faults=[duplicate("claim_task"), duplicate("claim_task", 2)]) as session:
        assert (await told(session, "claim_task", wait_sec=30))["task"]["id"] == "t1"
        assert mesh_board.get_task("t2").holder == "mine"
        assert (await told(session, "claim_task", wait_sec=30, request_id="r"))["task"]["id"] == "t3"
        mesh_board.create_task("x", id="t4")
    assert mesh_board.get_task("t4").state == "pending"
    async with sessions("other", faults=[duplicate("claim_task")]) as session:
        assert (await told(session, "claim_task", wait_sec=30))["task"]["id"] == "t4"


async def test_the_agent_of_a_mark_is_the_one_who_called(sessions):
    """Where the session has no name of its own."""
    async with sessions(profile="worker", faults=[lost_request("claim_task")]) as session:
        await error_of(session, "claim_task", agent_id="ada")
    assert [mark.agent for mark in sessions.marks] == ["ada"]
