"""A LangGraph agent that works off a board: its tools come from the board over MCP, and a model decides what to do."""

from __future__ import annotations

import asyncio
import sys

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai import ChatOpenAI
from mcp import ClientSession, McpError

JOB = "Claim a task, do it, and complete it with a result; then claim the next. Stop when a claim says so."
AGAIN = ToolRetryMiddleware(retry_on=(McpError,), initial_delay=0.1)  # an answer that was lost is asked for again


async def work_off(session: ClientSession, model: BaseChatModel, *, steps: int = 1000) -> str:
    """Work until the model calls no more tools, in at most so many steps; its last words."""
    agent = create_agent(model, await load_mcp_tools(session), system_prompt=JOB, middleware=[AGAIN])
    end = await agent.ainvoke({"messages": [("user", "Work off the board.")]}, {"recursion_limit": steps})
    return end["messages"][-1].text


async def main(board: str, name: str) -> None:
    """Start a server on the board for this agent alone, and work."""
    args = ["-P", "-m", "agentmesh.cli", "run", "--board", board, "--agent", name, "--profile", "worker"]
    client = MultiServerMCPClient({"board": {"transport": "stdio", "command": sys.executable, "args": args}})
    async with client.session("board") as session:  # one session for all of the work: its server keeps the leases
        print(await work_off(session, ChatOpenAI(model="gpt-5-mini")))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
