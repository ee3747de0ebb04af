"""What each profile is shown, word for word, as files that tests compare with; and docs/tools.md, made from the same.

A change of any word that a model reads shows up as a change of these files. If it is meant, write them anew:

    make golden
"""

import json
from pathlib import Path

from agentmesh.mcp_server.arguments import EXPECTED
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.profiles import PROFILES, listed
from agentmesh.mcp_server.prompts import PROMPTS
from agentmesh.mcp_server.reply import compact
from agentmesh.mcp_server.resources import RESOURCES
from agentmesh.mcp_server.tools import TABLE
from tests.support.tokens import tokens

HERE = Path(__file__).parent / "golden"
PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
ROLES = {
    "worker": "claims tasks and does them",
    "lead": "plans, steers, and watches the money",
    "observer": "looks, and changes nothing",
    "all": "everything; what a session gets that was given none",
}


def shown(profile, agent=None):
    """Everything constant that a session of this profile is told."""
    offered = offer(profile)
    prompts = {name: prompt.text for name, prompt in offered.prompts.items()}
    return {"instructions": offered.instructions, **offered.lists(agent), "prompt_texts": prompts}


def text_of(profile):
    """The same as a file."""
    return json.dumps(shown(profile), indent=1, ensure_ascii=False) + "\n"


def cost(profile, agent=None):
    """The tokens of a profile's tools: name, description and input schema, which is what a model reads of them."""
    words = ("name", "description", "inputSchema")
    tools = offer(profile).lists(agent)["tools"]
    return tokens(*(compact({word: tool[word] for word in words}) for tool in tools))


def page():
    """docs/tools.md."""
    return "\n".join([*_head(), *_tools(), *_resources(), *_prompts()])


def _head():
    yield "# The tools of the MCP server\n"
    yield "<!-- Written by `make golden` from the table of tools; changes made here are lost. -->\n"
    yield "[mcp.md](mcp.md) says how they are used. Each profile lists some of them:\n"
    yield "| profile | its session | tools | tokens | with `--agent` |"
    yield "|---|---|---:|---:|---:|"
    for profile in PROFILES:
        figures = f"{len(offer(profile).tools)} | {cost(profile):,} | {cost(profile, 'ada'):,}"
        yield f"| `{profile}` | {ROLES[profile]} | {figures} |"
    yield "\nTokens are those of name, description and input schema of all its tools, in the vocabulary `o200k_base`."
    yield "With a name of its own, given with `--agent` or by a token, a session is not asked for `agent_id`.\n"


def _tools():
    for tool in TABLE:
        yield f"## `{tool.name}`\n"
        yield f"{tool.text} In {_names(tool.profiles)}.\n"
        if not tool.arguments:
            yield "It takes no arguments.\n"
            continue
        yield "| argument | takes | | in |"
        yield "|---|---|---|---|"
        for argument in tool.arguments:
            takes = ", ".join(f"`{choice}`" for choice in argument.choices) or EXPECTED[argument.kind].partition(",")[0]
            about = "; ".join(filter(None, ("required" if argument.required else "", argument.about)))
            seen = tuple(profile for profile in tool.profiles if listed(argument.profiles, profile))
            yield f"| `{argument.name}` | {takes} | {about} | {'' if seen == tool.profiles else _names(seen)} |"
        yield ""


def _resources():
    yield "## Resources\n"
    yield "| URI | what it is |"
    yield "|---|---|"
    yield from (f"| `{resource.uri}` | {resource.text} |" for resource in RESOURCES)
    yield ""


def _prompts():
    yield "## Prompts\n"
    yield "| prompt | what it is for | takes | in | tokens |"
    yield "|---|---|---|---|---:|"
    for prompt in PROMPTS:
        takes = ", ".join(f"`{a.name}`: {a.about}" for a in prompt.arguments)
        yield f"| `{prompt.name}` | {prompt.about} | {takes} | {_names(prompt.profiles)} | {tokens(prompt.text)} |"
    yield ""


def _names(profiles):
    return ", ".join(f"`{profile}`" for profile in (*profiles, "all"))


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    for name in PROFILES:
        (HERE / f"{name}.json").write_text(text_of(name), "utf-8")
    PAGE.write_text(page(), "utf-8")
