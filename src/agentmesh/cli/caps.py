"""Caps on claims: how many tasks an agent may hold at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from agentmesh.cli.command import App, group
from agentmesh.cli.screen import Column, Screen
from agentmesh.cli.text import count
from agentmesh.documents import document
from agentmesh.model import ClaimCap


@group()
def cap() -> None:
    """Limit how many tasks an agent may hold at once."""


def _whose(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whose cap it is; AGENTMESH_AGENT is no answer to this."""
    words = "Of this agent; of each agent without a cap of its own, where none is named."
    return click.option("--agent", metavar="NAME", help=words)(function)


@cap.command("set")
@click.argument("most", metavar="N", type=int)
@_whose
@click.pass_obj
def set_(app: App, most: int, agent: str | None) -> None:
    """Let an agent hold at most N tasks at once."""
    with app.open() as board:
        found = board.set_claim_cap(most, agent=agent)

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line(f"{_name(found)} may hold {count(found.most, 'task')} at once.")

    app.answer(document(found), people)


@cap.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the caps."""
    with app.open() as board:
        found = board.claim_caps()

    def people(screen: Screen) -> None:
        if found:
            screen.table([Column("AGENT"), Column("TASKS", right=True)], [[_name(one), str(one.most)] for one in found])
        else:
            screen.line("There is no cap.")

    app.answer({"caps": [document(one) for one in found]}, people)


@cap.command("clear")
@_whose
@click.pass_obj
def clear(app: App, agent: str | None) -> None:
    """Take a cap away."""
    with app.open() as board:
        cleared = board.clear_claim_cap(agent=agent)

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line("Cleared." if cleared else "There is no such cap.")

    app.answer({"cleared": cleared}, people)


def _name(cap: ClaimCap) -> str:
    return "each agent" if cap.agent_id is None else cap.agent_id
