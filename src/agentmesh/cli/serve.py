"""Start the MCP server on HTTP."""

from __future__ import annotations

from typing import Any

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.params import durability_option, keepalive_option, test_clock_option

PORT = 8765


@command()
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="0 takes a free one; stderr names it.",
)
@click.option(
    "--allow-host",
    "names",
    metavar="NAME[:PORT]",
    multiple=True,
    help="A further name that clients, or a proxy, ask for this server by. Can be repeated.",
)
@keepalive_option(900.0)
@durability_option()
@test_clock_option()
@click.pass_obj
def serve(app: App, /, **how: Any) -> int:
    """Serve the board to many agents over MCP, on HTTP."""
    target = app.existing()
    app.json = False  # nothing is answered on standard output
    from agentmesh.mcp_server.extra import http_front

    return http_front()(target, **how)
