"""Laying text out: whatever the text and the width, nothing is lost and nothing sticks out."""

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from agentmesh.cli.screen import Column, Line, fold, table_lines, wrap
from agentmesh.printable import one_line

AWKWARD = st.sampled_from("ab \t\n漢🎉e\u0301\u200d\u202e")
TEXT = st.text(st.one_of(st.characters(), AWKWARD), max_size=80)
COLUMNS = [Column("ID"), Column("N", right=True), Column("TITLE", wraps=True), Column("X", spare=True)]


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


def test_a_column_that_can_be_spared_is_shown_where_it_is_the_only_one():
    """Even if it is too wide for a table."""
    lines = [shown(line) for line in table_lines(COLUMNS, [["", "", "", "x" * 14]], 12)]
    assert "".join(lines).replace(" ", "").endswith("x" * 14)
    assert all(cell_len(line) <= 12 for line in lines)


@pytest.mark.parametrize(
    ("width", "names"),
    [(None, "A BB CC D"), (12, "A BB CC D"), (11, "A BB D"), (8, "A BB D"), (7, "A D"), (4, "A D")],
)
def test_spare_columns_make_room(width, names):
    """The last first, and it is said which."""
    columns = [Column("A"), Column("BB", spare=True), Column("CC", spare=True), Column("D")]
    head, row, *note = map(shown, table_lines(columns, [["1", "2", "3", "4"]], width))
    gone = [name for name in ("BB", "CC") if name not in names.split()]
    assert head.split() == names.split()
    assert len(row.split()) == len(names.split())
    assert "".join(note).replace(" ", "") == (f"Noroomfor:{','.join(gone)}" if gone else "")


def test_a_record_has_the_spare_columns_too():
    """Where no table fits, nothing is left out."""
    columns = [Column("A"), Column("BB", spare=True)]
    assert [shown(line) for line in table_lines(columns, [["x" * 9, "2"]], 8)] == ["x" * 8, "x  2"]
