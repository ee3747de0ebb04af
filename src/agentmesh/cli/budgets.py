"""Budgets: what the board, a plan, a task or an agent may use, and how each of them stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from agentmesh.cli.bars import meter
from agentmesh.cli.command import App, group
from agentmesh.cli.money import OVER, UNPRICED, Side, budget_left, budget_name, dollars, sides
from agentmesh.cli.params import given
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.documents import document
from agentmesh.model import Budget, Period


@group()
def budget() -> None:
    """Limit what is used: by the board, a plan, a task or an agent."""


def _scope(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whose budget it is; AGENTMESH_AGENT is no answer to this."""
    for option in (
        click.option(
            "--period", type=click.Choice(get_args(Period)), help="For ever (the default), or each day (UTC)."
        ),
        click.option("--agent", metavar="NAME", help="Of this agent."),
        click.option("--task", "task_id", metavar="ID", help="Of this task."),
        click.option("--plan", metavar="NAME", help="Of this plan; of the board, where nothing is named."),
    ):
        function = option(function)
    return function


@budget.command("set")
@_scope
@click.option("--usd", metavar="USD", help="The limit in dollars.")
@click.option("--tokens", metavar="N", type=int, help="The limit in tokens of all kinds.")
@click.option("--strict", is_flag=True, help="Hand out nothing while there is usage without a known price.")
@click.pass_obj
def set_(app: App, /, **how: object) -> None:
    """Set a budget, in place of the limits that it had."""
    with app.open() as board:
        found = board.budgets.set(**given(how))

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line("Set. ", *budget_left(found))
            if _closed(found):
                screen.line((_closed(found), OVER))

    app.answer(document(found), people)


@budget.command("list")
@click.pass_obj
def list_(app: App) -> None:
    """List the budgets: limit, spent, reserved, left."""
    with app.open() as board:
        found = board.budgets.list()

    def people(screen: Screen) -> None:
        if not found:
            screen.line("There is no budget.")
            return
        columns = [
            Column("BUDGET"),
            Column("LIMIT", right=True),
            Column("SPENT", right=True),
            Column("RESERVED", right=True, spare=True),
            Column("LEFT", right=True),
            Column("USED", spare=True),
            Column("NOTE", wraps=True),
        ]
        screen.table(columns, [_row(screen, one, side) for one in found for side in sides(one)])

    app.answer({"budgets": [document(one) for one in found]}, people)


@budget.command("clear")
@_scope
@click.pass_obj
def clear(app: App, /, **how: object) -> None:
    """Take a budget away."""
    with app.open() as board:
        cleared = board.budgets.clear(**given(how))

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line("Cleared." if cleared else "There is no such budget.")

    app.answer({"cleared": cleared}, people)


def _row(screen: Screen, budget: Budget, side: Side) -> list[Part]:
    limit = side.limit or 0
    left = side.number(side.left) if side.over is None else f"-{side.number(side.over)}"
    drawn = meter(side.spent, side.reserved, limit, unicode=screen.unicode)
    return [
        (budget_name(budget), "bold"),
        side.amount(limit),
        side.number(side.spent),
        side.number(side.reserved) if side.reserved else "",
        (left, side.style),
        (f"{drawn} {side.percent}%", side.style or "green"),
        _note(budget) if side.amount is dollars else "",
    ]


def _note(budget: Budget) -> Part:
    if _closed(budget):
        return (_closed(budget), OVER)
    unpriced = f"{budget.unpriced:,} unpriced" if budget.unpriced else ""
    return (", ".join(filter(None, ["strict" if budget.strict else "", unpriced])), UNPRICED)


def _closed(budget: Budget) -> str:
    """Why a strict budget hands out nothing; empty when it does not come to that."""
    if not (budget.strict and budget.unpriced and budget.limit_pusd is not None):
        return ""
    return f"strict, with {budget.unpriced:,} unpriced: hands out nothing"
