"""A client of the SDK's 1.x: `v1.py stdio COMMAND...` or `v1.py http URL [TOKEN]`."""

import os
import sys

import anyio
from asks import answer_asks, bearer
from mcp import ClientSession, McpError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client


def transport(front, address, *rest):
    """How the server is reached."""
    if front == "stdio":
        return stdio_client(StdioServerParameters(command=address, args=rest, env=dict(os.environ)))
    return streamablehttp_client(address, headers=bearer(rest))


async def main():
    """Connect and answer."""
    async with transport(*sys.argv[1:]) as (read, write, *_), ClientSession(read, write) as client:
        greeting = await client.initialize()
        await answer_asks(client, greeting.instructions, McpError)


anyio.run(main)
