"""The SDK's server on stdio: `agentmesh run --front sdk`, to be compared with our own front."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any, Final, NoReturn

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from agentmesh import limits
from agentmesh.mcp_server.lanes import Lanes
from agentmesh.mcp_server.log import flush, log_exception
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.opening import open_served
from agentmesh.mcp_server.profiles import DEFAULT, Profile
from agentmesh.mcp_server.sdk import Caller, Desk
from agentmesh.mcp_server.session import KEEPALIVE_STDIO_SEC, Session
from agentmesh.mcp_server.stdio import INTERRUPTED, End
from agentmesh.store.base import Durability

PATIENCE_SEC: Final = 1.0


def serve_sdk_stdio(
    board_path: str | os.PathLike[str],
    *,
    agent: str | None = None,
    profile: Profile = DEFAULT,
    keepalive_sec: float = KEEPALIVE_STDIO_SEC,
    durability: Durability = "full",
    test_clock: bool = False,
) -> NoReturn:
    """Serve one MCP client, as `serve_stdio` does.

    The process ends here, and not by returning: the SDK's thread that reads stdin cannot be stopped.
    """
    if agent is not None:
        limits.name("agent", agent)
    lanes = Lanes()
    with open_served(board_path, durability=durability, test_clock=test_clock) as board:
        session = Session(board, agent=agent, profile=profile, keepalive_sec=keepalive_sec)
        caller = Caller(session, offer(profile), client=session)
        server = Desk(lambda _: caller, lanes).server()
        end = End()
        threading.Thread(target=_serve, args=(server, end), name="sdk", daemon=True).start()
        reason = end.wait()
        session.close()
        caller.subscriber.close()
        lanes.closing = True
        board.wake_waits()
        lanes.close(PATIENCE_SEC)
        flush()
        os._exit(INTERRUPTED if reason == signal.SIGINT else 0)


def _serve(server: Server[Any], end: End) -> None:
    try:
        asyncio.run(_until_the_client_goes(server))
    except Exception:  # noqa: BLE001 - whatever it was, the process ends
        log_exception("the SDK")
    end.say()


async def _until_the_client_goes(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
