"""What a session is offered: one place from which every front takes its lists and what stands behind them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentmesh.mcp_server.about import INSTRUCTIONS
from agentmesh.mcp_server.profiles import Profile
from agentmesh.mcp_server.prompts import Prompt, prompts
from agentmesh.mcp_server.protocol import Message
from agentmesh.mcp_server.resources import RESOURCES
from agentmesh.mcp_server.tools import Tool, tools


@dataclass(frozen=True, slots=True)
class Offer:
    """What a profile lists. All of it is constant while the process lives."""

    instructions: str
    tools: Mapping[str, Tool]
    prompts: Mapping[str, Prompt]

    def lists(self, agent: str | None) -> dict[str, list[Message]]:
        """The answers to the four list methods, for a session of this name, or of none."""
        return {
            "tools": [tool.listing(agent) for tool in self.tools.values()],
            "resources": [resource.listing() for resource in RESOURCES if not resource.is_template],
            "resourceTemplates": [resource.listing() for resource in RESOURCES if resource.is_template],
            "prompts": [prompt.listing() for prompt in self.prompts.values()],
        }


def offer(profile: Profile) -> Offer:
    """What a profile lists."""
    return Offer(INSTRUCTIONS[profile], {tool.name: tool for tool in tools(profile)}, prompts(profile))
