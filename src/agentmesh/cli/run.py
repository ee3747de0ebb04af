"""Start the MCP server on stdio; standard output belongs to the protocol alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import AGENT_VARIABLE
from agentmesh.cli.text import place
from agentmesh.errors import BoardNotFound

KEEPALIVE_SEC = 900.0
PROFILES = ("worker", "lead", "observer", "all")
"""As the server has them; a test compares the two. Importing it takes half of what `--help` takes."""


@command()
@click.option(
    "--agent",
    metavar="NAME",
    envvar=AGENT_VARIABLE,
    help=f"The agent this session speaks for. Else {AGENT_VARIABLE}; else each call names one.",
)
@click.option(
    "--profile",
    type=click.Choice(PROFILES),
    default="all",
    show_default=True,
    help="What the session is shown: tools to work, to plan and steer, to look, or all.",
)
@click.option(
    "--keepalive",
    "keepalive_sec",
    metavar="SEC",
    type=click.FloatRange(min=0),
    default=KEEPALIVE_SEC,
    show_default=True,
    help="Renew a claimed task for so long after the last call that named it.",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="normal is faster; a power cut may cost the last writes.",
)
@click.pass_obj
def run(app: App, /, **how: Any) -> int:
    """Serve the board to one agent over MCP, on stdin and stdout."""
    target = app.find().target
    if "://" not in target and not Path(target).exists():
        raise BoardNotFound(f"There is no board at {place(target)!r}.")
    app.json = False  # standard output is not ours
    from agentmesh.mcp_server import serve_stdio

    return serve_stdio(target, **how)
