"""The process of the HTTP servers: what of the test's process does not reach it, how it ends, what it keeps apart."""

import os
import signal
from pathlib import Path

import anyio
import httpx2
import pytest
import time_machine
import trio
from freezegun import freeze_time

from agentmesh.cell import alive
from pytest_agentmesh.sessions import Server, Sessions
from pytest_agentmesh.sessions.over_http import KEPT, ServerFailed
from pytest_agentmesh.sessions.running import NotEnded
from tests.support.patience import until

TRANSPORTS = pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
PATCHES = {
    "freezegun": freeze_time("2030-01-01", ignore=["_pytest.timing"]),  # it measures how long tests take
    "time-machine": time_machine.travel("2030-01-01", tick=False),
}
KILLED = """
    import os, pathlib, signal
    from pytest_agentmesh.sessions.over_http import KEPT

    def test_is_killed(mesh_server):
        assert mesh_server.url
        forked = os.fork()
        if not forked:
            signal.pause()  # with a copy of all descriptors
        pathlib.Path("pids").write_text(f"{KEPT.begin().server_pid} {forked}")
        os.kill(os.getpid(), signal.SIGKILL)
"""
NOISY = """
    import socket
    from urllib.parse import urlsplit

    def test_fails(mesh_server):
        address = urlsplit(mesh_server.url)
        with socket.create_connection((address.hostname, address.port)) as line:
            line.sendall(b"no request at all\\r\\n\\r\\n")
            assert not line.recv(1000)
"""


@pytest.fixture(params=PATCHES)
def stopped_time(request):
    """The clocks of this process stand still, from before the session's fixture to after its end."""
    with PATCHES[request.param]:
        yield


async def work(mesh_session, mesh_board, transport):
    """An agent does a task, and says again what was not answered."""
    mesh_board.create_task("x", id="t")
    async with mesh_session("mine", transport=transport, faults=["complete_task:lost_reply"]) as session:
        await session.call_tool("claim_task", {})
        done = {"task_id": "t", "result": {"ok": True}}
        with pytest.raises(Exception, match="lost_reply at complete_task"):
            await session.call_tool("complete_task", done)
        await session.call_tool("complete_task", done)
    assert mesh_board.get_task("t").state == "completed"


@TRANSPORTS
@pytest.mark.usefixtures("stopped_time")
def test_a_stopped_clock_stops_no_session(mesh_session, mesh_board, transport):
    """Of the test's process, that is; the fixtures end under it, too."""
    anyio.run(work, mesh_session, mesh_board, transport)


@TRANSPORTS
@pytest.mark.filterwarnings("ignore:Async generator:ResourceWarning")  # over HTTP mcp 2.3 leaves some, as trio says
def test_a_session_is_used_from_trio(mesh_session, mesh_board, transport):
    """Without a plugin for it."""
    trio.run(work, mesh_session, mesh_board, transport)


def test_servers_of_one_process_share_nothing(mesh_board):
    """A token of one is none of another, and they end one by one."""
    with Server(mesh_board, agent="ada") as ada:
        with Server(mesh_board, agent="bob") as bob:
            address = bob.url
            assert ada.url != address
            assert KEPT.begin().serving == 2
            assert httpx2.post(bob.url, headers=ada.headers, json={}).status_code == 401
            assert httpx2.post(bob.url, headers=bob.headers, json={}).status_code == 400
        with pytest.raises(httpx2.ConnectError):
            httpx2.get(address)
        assert httpx2.get(ada.url.replace("mcp", "healthz")).status_code == 200


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="the system does not tell what a process has open")
def test_the_process_keeps_nothing_of_a_test(mesh_board_factory):
    """Of the boards that it served there is no descriptor left, and no thread."""
    sizes = []
    for _ in range(3):
        with mesh_board_factory() as board, Server(board) as server:
            assert httpx2.get(server.url.replace("mcp", "healthz")).status_code == 200
            process = Path("/proc", str(KEPT.begin().server_pid))
        files = [str(link.readlink()) for link in (process / "fd").iterdir()]
        assert not [file for file in files if "board.db" in file or "TCP" in file]
        sizes.append(len(files))
    assert sizes == sizes[:1] * 3
    until(lambda: len(list((process / "task").iterdir())) == 1)  # the system takes a while to forget one that ended


def test_a_process_that_died_is_named_and_replaced(mesh_board):
    """By the test that it died in; the next one does not notice."""
    server = Server(mesh_board)
    assert server.url
    os.kill(KEPT.begin().server_pid, signal.SIGKILL)
    with pytest.raises(ServerFailed, match="The process of the HTTP server ended with exit code -9"):
        server.close()
    with Server(mesh_board) as server:
        assert httpx2.get(server.url.replace("mcp", "healthz")).status_code == 200


def test_a_board_that_cannot_be_served_is_named(mesh_board):
    """With the reason that the process gave."""
    with Server(mesh_board) as server:
        mesh_board.path.rename(mesh_board.path.with_name("elsewhere"))
        with pytest.raises(ServerFailed, match=r"The HTTP server of this test failed: .*board\.db"):
            _ = server.url
        mesh_board.path.with_name("elsewhere").rename(mesh_board.path)


@pytest.mark.slow
def test_a_call_that_does_not_end_is_reported(mesh_board):
    """It waits for the test's own transaction; its process is killed, and nothing of it is on the board."""

    async def give_up(sessions):
        async with sessions("mine", transport="http") as session:
            with anyio.move_on_after(0.5):
                await session.call_tool("create_task", {"title": "x"})

    with Sessions(mesh_board) as sessions:
        mesh_board.store._writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(NotEnded, match="still under way when its server had been stopped: the process of its HTTP"):
            anyio.run(give_up, sessions)
        mesh_board.store._writer.execute("ROLLBACK")
    assert mesh_board.list_tasks().tasks == ()


def test_the_log_is_shown_with_a_failed_test(pytester):
    """As what it wrote to stderr; a run within a run leaves the process to the outer one."""
    pytester.makepyfile(NOISY)
    pytester.runpytest("-p", "no:cacheprovider").stdout.fnmatch_lines(
        ["*Captured stderr*", "agentmesh: uvicorn.error says WARNING at *"]
    )


@pytest.mark.multiproc
@pytest.mark.kill
def test_it_ends_with_a_pytest_that_is_killed(pytester):
    """Even if a process that pytest forked goes on."""
    pytester.makepyfile(KILLED)
    assert pytester.runpytest_subprocess("-p", "no:cacheprovider").ret == -signal.SIGKILL
    server, forked = map(int, (pytester.path / "pids").read_text().split())
    try:
        until(lambda: not alive(server))
    finally:
        os.kill(forked, signal.SIGKILL)


@pytest.mark.multiproc
def test_it_ends_with_pytest(pytester):
    """Before anything else that looks at what is left."""
    pytester.makeconftest(
        "from pytest_agentmesh.sessions.over_http import KEPT\n"
        "def pytest_unconfigure():\n    print('kept:', KEPT._process)\n"
    )
    pytester.makepyfile("def test_url(mesh_server):\n    assert mesh_server.url\n")
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines("kept: None")
