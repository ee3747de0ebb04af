"""Laying text out: whatever the text and the width, nothing is lost and nothing sticks out."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from agentmesh.cli.screen import Column, Line, fold, table_lines, wrap
from agentmesh.cli.text import one_line

AWKWARD = st.sampled_from("ab \t\n漢🎉e\u0301\u200d\u202e")
TEXT = st.text(st.one_of(st.characters(), AWKWARD), max_size=80)
COLUMNS = [Column("ID"), Column("N", right=True), Column("TITLE", wraps=True), Column("X")]


def shown(line: Line) -> str:
    """A line as it comes to the screen."""
    return "".join(one_line(part if isinstance(part, str) else part[0]) for part in line)


@given(st.lists(TEXT, max_size=4), st.integers(8, 60))
def test_a_wrapped_line_loses_nothing_but_blanks(parts, width):
    """Words move to the next line, long ones break, and no line is too wide."""
    wrapped = [shown(line) for line in wrap(parts, width)]

    assert all(cell_len(line) <= width for line in wrapped)
    assert "".join(wrapped).replace(" ", "") == shown(parts).replace(" ", "")


@given(st.lists(TEXT, max_size=4), st.integers(12, 60))
def test_a_folded_line_fits(parts, width):
    """With its further lines indented."""
    assert all(cell_len(shown(line)) <= width for line in fold(parts, width))


@given(st.lists(st.tuples(TEXT, TEXT, TEXT, TEXT), max_size=4), st.integers(12, 100))
def test_a_table_fits(rows, width):
    """As a table, or as stacked records."""
    assert all(cell_len(shown(line)) <= width for line in table_lines(COLUMNS, [list(row) for row in rows], width))
