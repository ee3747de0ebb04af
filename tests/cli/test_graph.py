"""The graph, drawn."""

import re
from itertools import pairwise

import pytest

from agentmesh.cli.tree import draw_tree
from agentmesh.drawing import Drawing
from agentmesh.model import Task


def task(task_id: str, title: str = "title", state: str = "pending") -> Task:
    """A task of which only the picture matters."""
    return Task(task_id, title, "default", state, 0, 0, 0, 0, 3, 60, 60, 0)


def drawing(*edges: str, titles: dict[str, str] | None = None) -> Drawing:
    """A graph from edges such as `a>b` or `a>b:failed`."""
    found = [re.fullmatch(r"(\w+)>(\w+):?(\w*)", edge).groups() for edge in edges]
    ids = dict.fromkeys(end for parent, child, _ in found for end in (parent, child))
    tasks = tuple(task(i, (titles or {}).get(i, i.upper())) for i in ids)
    return Drawing(tasks, tuple((child, parent, how or "completed") for parent, child, how in found))


def picture(graph: Drawing, width: int | None = None) -> list[str]:
    """The picture's lines, without signs."""
    lines = draw_tree(graph, width, lambda _: "o")
    return ["".join(p if isinstance(p, str) else p[0] for p in line).rstrip() for line in lines]


def test_a_diamond_is_drawn_once_and_named_beside():
    """The tip stands below its last parent; the other one is named."""
    assert picture(drawing("a>b", "a>c", "b>d", "c>d")) == [
        "o a        A",
        "├─ o b     B",
        "│  └─ o d  D  (also after c)",
        "└─ o c     C",
    ]


def test_a_task_hangs_below_the_deepest_of_its_parents():
    """So it comes after all of them."""
    assert picture(drawing("a>b", "b>c", "a>c"))[-1].startswith("   └─ o c")


def test_a_condition_is_named():
    """Unless it is the usual one."""
    assert "(after a:finished)" in picture(drawing("a>b:finished"))[1]
    assert "(also after b:failed)" in picture(drawing("a>b", "b>c", "c>d", "b>d:failed"))[-1]


def test_an_edge_from_another_plan_is_named():
    """The foreign task is not drawn."""
    graph = Drawing((task("b"),), (("b", "elsewhere", "completed"),))
    assert picture(graph) == ["o b  title  (after elsewhere)"]


def test_a_long_chain_neither_runs_off_nor_blows_up():
    """It goes on below, as often as needed."""
    ids = [f"n{number}" for number in range(3000)]
    lines = picture(drawing(*(f"{a}>{b}" for a, b in pairwise(ids))), 60)

    assert max(map(len, lines)) <= 60
    assert all(any(f" {name}" in line for line in lines[i : i + 200]) for i, name in enumerate(ids[:100]))


@pytest.mark.parametrize("width", [40, 80])
def test_a_picture_fits_the_terminal(width):
    """Titles wrap beside the lines of the tree."""
    graph = drawing("a>b", "a>c", "b>d", "c>d", titles=dict.fromkeys("abcd", "some words " * 12))
    assert max(map(len, picture(graph, width))) <= width


def test_graph_draws_the_board(call, board):
    """In each of its forms; another plan is left out on request."""
    board.create_task("A", id="a")
    board.create_task("B", id="b", depends_on=["a:finished"])
    board.create_task("C", id="c", plan="other")

    assert call("graph", "--plan", "default").stdout.splitlines()[0].endswith("a     A")
    assert call("graph", "--format", "mermaid").stdout.startswith("flowchart TD\n")
    assert call("graph", "--format", "dot").stdout.endswith("}\n")
    graph = call.json("graph", "--plan", "default")
    assert [found["id"] for found in graph["tasks"]] == ["a", "b"]
    assert graph["edges"] == [{"task": "b", "depends_on": "a", "condition": "finished"}]


def test_a_board_of_many_pages_is_drawn_whole(call, board):
    """No task is left out because a page ended."""
    board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(450)])
    assert len(call.json("graph")["tasks"]) == 450
