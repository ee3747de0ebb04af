"""A crew of one that works off a board: its tools come from the board over MCP, and a model decides what to do."""

from __future__ import annotations

import sys

from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from crewai_tools import MCPServerAdapter
from mcp import StdioServerParameters

JOB = "Claim a task, do it, and finish it with a result; then claim the next. Stop when a claim says so."


def work_off(server: StdioServerParameters, llm: LLM) -> str:
    """Work until the model calls no more tools; its last words."""
    with MCPServerAdapter(
        server, "claim_task", "complete_task", "fail_task"
    ) as tools:  # one server: it keeps the leases

        @tool
        def finish_task(task_id: str, result: str) -> str:
            """Complete your task with its result."""  # CrewAI has no argument that takes any JSON: here it is text
            return tools["complete_task"].run(task_id=task_id, result=result)

        own = [tools["claim_task"], finish_task, tools["fail_task"]]
        coder = Agent(role="Coder", goal="Work off the board", backstory="One of a swarm.", tools=own, llm=llm)
        job = Task(description=JOB, expected_output="What was done, in a sentence.", agent=coder)
        return Crew(agents=[coder], tasks=[job]).kickoff().raw


def main(board: str, name: str) -> None:
    """Start a server on the board for this agent alone, and work."""
    args = ["-P", "-m", "agentmesh.cli", "run", "--board", board, "--agent", name, "--profile", "worker"]
    print(work_off(StdioServerParameters(command=sys.executable, args=args), LLM(model="openai/gpt-5-mini")))


if __name__ == "__main__":
    main(*sys.argv[1:])
