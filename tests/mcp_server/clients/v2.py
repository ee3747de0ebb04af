"""A client of the SDK's 2.x: `v2.py stdio COMMAND...` or `v2.py http URL [TOKEN]`."""

import os
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
from asks import answer_asks, bearer
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def connected(front, address, *rest):
    """A client of the server."""
    if front == "stdio":
        async with Client(StdioServerParameters(command=address, args=rest, env=dict(os.environ))) as client:
            yield client
    else:
        async with (
            httpx2.AsyncClient(headers=bearer(rest), timeout=60) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            yield client


async def main():
    """Connect and answer."""
    async with connected(*sys.argv[1:]) as client:
        await answer_asks(client, client.instructions, MCPError)


anyio.run(main)
