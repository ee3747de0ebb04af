"""Under pytest-asyncio, strict and auto."""

import asyncio

import pytest
import pytest_asyncio
from agent import told, work
from mcp import ClientSession

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def session(mesh_session):
    """A session in a fixture, whose end pytest-asyncio runs in another task."""
    async with mesh_session.owned("mine", profile="worker") as session:
        yield session


@pytest_asyncio.fixture
async def misplaced(mesh_session):
    """What everybody writes first."""
    async with mesh_session("mine") as session:
        yield session


@pytest.mark.parametrize("transport", ["memory", "stdio"])
async def test_a_lost_reply_costs_nothing(mesh_session, mesh_board, transport):
    """An agent that says again what was not answered is done once."""
    mesh_board.create_task("x", id="t1")
    async with mesh_session("mine", transport=transport, faults=["complete_task:lost_reply@1"]) as session:
        assert isinstance(session, ClientSession)
        await work(session)
    assert [event.kind for event in mesh_board.events()].count("task_completed") == 1


async def test_a_fixture_may_own_a_session(session, mesh_board):
    """It is the session of the test."""
    mesh_board.create_task("x", id="t1")
    await work(session)
    assert mesh_board.get_task("t1").state == "completed"


async def test_a_misplaced_fixture_works_until_its_end(misplaced):
    """Then its user is told what to write."""
    await told(misplaced, "board_status")


async def test_many_at_once(mesh_session, mesh_board):
    """Each agent gets a task."""

    async def agent(name):
        async with mesh_session(name, profile="worker") as session:
            await work(session)

    for number in range(8):
        mesh_board.create_task("x", id=f"t{number}")
    await asyncio.gather(*(agent(f"a{number}") for number in range(8)))
    assert {mesh_board.get_task(f"t{number}").state for number in range(8)} == {"completed"}


async def test_that_fails(mesh_session):
    """With its own failure, whatever is around it."""
    async with mesh_session("mine") as session:
        status = await told(session, "board_status")
        assert status == "another"


async def test_that_is_skipped_inside(mesh_session):
    """It is skipped, not broken."""
    async with mesh_session("mine"):
        pytest.skip("on purpose")


async def test_a_cancelled_agent_leaves_nothing(mesh_session):
    """In the middle of a call that waits."""
    opened = asyncio.Event()

    async def agent():
        async with mesh_session("mine") as session:
            opened.set()
            await told(session, "claim_task", wait_sec=30)

    running = asyncio.create_task(agent())
    await opened.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
