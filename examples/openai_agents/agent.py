"""An agent of OpenAI's SDK that works off a board: its tools come from the board over MCP, and a model decides."""

from __future__ import annotations

import asyncio
import sys

from agents import Agent, OpenAIProvider, RunConfig, Runner
from agents.mcp import MCPServerStdio, MCPServerStdioParams
from openai import AsyncOpenAI

JOB = "Claim a task, do it, and complete it with a result; then claim the next. Stop when a claim says so."


async def work_off(server: MCPServerStdioParams, client: AsyncOpenAI) -> str:
    """Work until the model calls no more tools; its last words."""
    config = RunConfig(model="gpt-5-mini", model_provider=OpenAIProvider(openai_client=client))
    async with MCPServerStdio(server, client_session_timeout_seconds=60) as board:  # one server: it keeps the leases
        coder = Agent(name="Coder", instructions=JOB, mcp_servers=[board])
        end = await Runner.run(coder, "Work off the board.", max_turns=1000, run_config=config)
    return end.final_output


async def main(board: str, name: str) -> None:
    """Start a server on the board for this agent alone, and work."""
    args = ["-P", "-m", "agentmesh.cli", "run", "--board", board, "--agent", name, "--profile", "worker"]
    async with AsyncOpenAI() as client:
        print(await work_off({"command": sys.executable, "args": args}, client))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
