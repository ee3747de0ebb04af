"""Under anyio's own plugin, on asyncio and on trio."""

import anyio
import pytest
from agent import told, work

pytestmark = pytest.mark.anyio


@pytest.fixture
async def session(mesh_session):
    """A session in a fixture, whose end anyio runs in the same task."""
    async with mesh_session("mine", profile="worker") as session:
        yield session


@pytest.fixture
async def owned(mesh_session):
    """The same as pytest-asyncio needs it."""
    async with mesh_session.owned("mine", profile="worker") as session:
        yield session


async def test_a_fixture_may_hold_a_session(session, mesh_board):
    """It is the session of the test."""
    mesh_board.create_task("x", id="t1")
    await work(session)
    assert mesh_board.get_task("t1").state == "completed"


async def test_a_fixture_may_own_a_session(owned, mesh_board):
    """The same, held by a task of its own."""
    mesh_board.create_task("x", id="t1")
    await work(owned)
    assert mesh_board.get_task("t1").state == "completed"


async def test_every_fault(mesh_session, mesh_board, mesh_clock):
    """Each strikes once, and is written down."""
    faults = ["create_task:duplicate", "note:lost_request", "claim_task:delay=1min", "release_task:disconnect"]
    async with mesh_session("mine", faults=faults) as session:
        await told(session, "create_task", title="twice")
        with mesh_clock.autojump():
            task_id = (await told(session, "claim_task"))["task"]["id"]
        with pytest.raises(Exception, match=r"timed out \(lost_request at note\)"):
            await told(session, "note", task_id=task_id, text="lost")
        with pytest.raises(Exception, match="Connection closed"):
            await told(session, "release_task", task_id=task_id)
        with pytest.raises((anyio.ClosedResourceError, Exception)):
            await told(session, "board_status")
    assert [mark.fault.kind for mark in mesh_session.marks] == ["duplicate", "delay", "lost_request", "disconnect"]
    assert len(mesh_board.list_tasks().tasks) == 2


async def test_that_fails(mesh_session):
    """With its own failure, whatever is around it."""
    async with mesh_session("mine") as session:
        status = await told(session, "board_status")
        assert status == "another"


async def test_a_call_that_waits_ends_with_its_scope(mesh_session):
    """The session goes on."""
    async with mesh_session("mine") as session:
        with anyio.move_on_after(0.01) as scope:
            await told(session, "claim_task", wait_sec=30)
        assert scope.cancelled_caught
        await told(session, "board_status")
