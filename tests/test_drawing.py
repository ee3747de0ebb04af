"""A graph in the languages of Mermaid and Graphviz: what agents wrote is in the labels, and never syntax."""

import re

import pytest

from agentmesh.drawing import Drawing, as_dot, as_mermaid
from agentmesh.model import Task
from tests.support.hostile import TEXTS


def drawing(title):
    """Two tasks, of which `b` waits for the failure of the one with the title."""
    tasks = (
        Task(name, text, "default", "pending", 0, 0, 0, 0, 3, 60, 60, 0) for name, text in (("a", title), ("b", "B"))
    )
    return Drawing(tuple(tasks), (("b", "a", "failed"),))


@pytest.mark.parametrize("title", TEXTS)
def test_a_title_is_no_mermaid(title):
    """Whatever is not a plain character is an entity; the picture around it is always the same."""
    _, first, *rest = as_mermaid(drawing(title)).splitlines()

    assert re.fullmatch(r'    n0\["a<br/>[\w .,/#;-]*<br/>pending"\]:::pending', first)
    assert rest == as_mermaid(drawing("harmless")).splitlines()[2:]
    assert "    n0 -. failed .-> n1" in rest


@pytest.mark.parametrize("title", TEXTS)
def test_a_title_is_no_dot(title):
    """Quotes and backslashes stay inside the label."""
    lines, harmless = as_dot(drawing(title)).splitlines(), as_dot(drawing("harmless")).splitlines()

    assert re.fullmatch(r'    n0 \[label="(?:[^"\\]|\\.)*", fillcolor="#\w+", color="#\w+"\]', lines[3])
    assert lines[:3] + lines[4:] == harmless[:3] + harmless[4:]
    assert '    n0 -> n1 [label="failed", style=dashed]' in lines


def test_an_end_of_an_edge_that_is_not_drawn_is_named():
    """A task of another plan stands as its id alone."""
    graph = Drawing((), (("here", 'else"where', "completed"),))

    assert '    n1["else#34;where"]' in as_mermaid(graph)
    assert 'label="else\\"where", style=dashed' in as_dot(graph)
