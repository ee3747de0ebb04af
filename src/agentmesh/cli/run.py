"""Start the MCP server on stdio; standard output belongs to the protocol alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import AGENT_VARIABLE, durability_option, keepalive_option, profile_option, test_clock_option
from agentmesh.cli.streams import need_output, standard_input


@command()
@click.option(
    "--agent",
    metavar="NAME",
    envvar=AGENT_VARIABLE,
    help=f"The agent this session speaks for. Else {AGENT_VARIABLE}; else each call names one.",
)
@profile_option("all")
@keepalive_option(3600.0)
@durability_option()
@test_clock_option()
@click.option(
    "--front",
    type=click.Choice(["own", "sdk"]),
    default="own",
    show_default=True,
    help="sdk: the MCP SDK speaks with the client. It starts slowly, and needs the extra http.",
)
@click.pass_obj
def run(app: App, /, front: str, **how: Any) -> int:
    """Serve the board to one agent over MCP, on stdin and stdout."""
    need_output("every answer")
    standard_input("The server")
    target = app.existing()
    app.json = False  # standard output is not ours
    return _front(front)(target, **how)


def _front(name: str) -> Callable[..., int]:
    if name == "sdk":
        from agentmesh.mcp_server.extra import sdk_stdio_front

        return sdk_stdio_front()
    from agentmesh.mcp_server import serve_stdio

    return serve_stdio
