"""The graph of tasks, drawn: as text, Mermaid or DOT, or given as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from agentmesh.cli.command import App, command
from agentmesh.cli.screen import Screen
from agentmesh.cli.tree import draw_tree
from agentmesh.documents import document
from agentmesh.drawing import Drawing, as_dot, as_mermaid
from agentmesh.model import Task

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

PAGE = 200


@command()
@click.option("--plan", metavar="NAME", help="Only this plan.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "mermaid", "dot", "json"]),
    default="text",
    show_default=True,
)
@click.pass_obj
def graph(app: App, plan: str | None, form: str) -> None:
    """Draw what waits for what."""
    with app.open() as board:
        drawing = read_drawing(board, plan)
    app.json = app.json or form == "json"
    edges = [{"task": c, "depends_on": p, "condition": how} for c, p, how in drawing.edges]
    whole = {"tasks": [document(task) for task in drawing.tasks], "edges": edges}

    def people(screen: Screen) -> None:
        if form == "mermaid":
            click.echo(as_mermaid(drawing))
        elif form == "dot":
            click.echo(as_dot(drawing))
        else:
            show_tree(screen, drawing)

    app.answer(whole, people)


def read_drawing(board: Board, plan: str | None) -> Drawing:
    """The tasks of a plan, or of the whole board, and the edges between them."""
    page = board.list_tasks(plan=plan, limit=PAGE)
    tasks: list[Task] = list(page.tasks)
    while page.cursor is not None:
        page = board.list_tasks(plan=plan, limit=PAGE, cursor=page.cursor)
        tasks += page.tasks
    return Drawing(tuple(tasks), tuple(board.edges(plan)))


def show_tree(screen: Screen, drawing: Drawing) -> None:
    """The graph as a picture in text."""
    if not drawing.tasks:
        screen.line("There are no tasks to draw.")
    for line in draw_tree(drawing, screen.width, screen.symbol, unicode=screen.unicode):
        screen.copyable(*line)
