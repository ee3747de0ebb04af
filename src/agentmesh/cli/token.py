"""The tokens by which the HTTP server tells agents: add one, list them, take one away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmesh.cli.command import App, group
from agentmesh.cli.params import profile_option
from agentmesh.cli.screen import Column, Screen
from agentmesh.cli.text import instant
from agentmesh.documents import rfc3339

if TYPE_CHECKING:
    from agentmesh.mcp_server.profiles import Profile
    from agentmesh.mcp_server.tokens import Token, TokenFile


@group()
def token() -> None:
    """Let agents in at the HTTP server, each under its own name."""


@token.command("add")
@click.argument("agent")
@profile_option("worker")
@click.pass_obj
def add(app: App, agent: str, profile: Profile) -> None:
    """Make a token for AGENT and show it, this once."""
    from agentmesh.clock import SystemClock, system_chance

    made, secret = _tokens(app).add(agent, profile, SystemClock().now_us(), system_chance())

    def people(screen: Screen) -> None:
        screen.copyable(secret)
        if not app.quiet:
            screen.line(("It is not shown again. Clients send the header Authorization: Bearer TOKEN.", "dim"))

    app.answer({"token": secret, **_shown(made)}, people)


@token.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the tokens, by what names them; they themselves are not kept."""
    found = _tokens(app).read()

    def people(screen: Screen) -> None:
        rows = [[token.id, token.agent, token.profile, instant(token.created_us)] for token in found]
        screen.table([Column("ID"), Column("AGENT"), Column("PROFILE"), Column("CREATED")], rows)

    app.answer({"tokens": [_shown(token) for token in found]}, people)


@token.command("revoke")
@click.argument("name", metavar="ID|AGENT")
@click.pass_obj
def revoke(app: App, name: str) -> None:
    """Take a token away by its ID, or all tokens of an AGENT; servers that run know at once."""
    from agentmesh.clock import system_chance

    gone = _tokens(app).revoke(name, system_chance())
    words = f"Revoked {len(gone)} token{'s' if len(gone) > 1 else ''}."
    app.answer(
        {"revoked": [_shown(token) for token in gone]},
        lambda screen: None if app.quiet else screen.line(words),
    )


def _tokens(app: App) -> TokenFile:
    from agentmesh.mcp_server.tokens import TokenFile

    return TokenFile.beside(app.existing())


def _shown(token: Token) -> dict[str, str]:
    """A token without its hash."""
    return {
        "id": token.id,
        "agent": token.agent,
        "profile": token.profile,
        "created_at": rfc3339(token.created_us),
    }
