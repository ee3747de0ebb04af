"""The page of promises names tests that exist and every promise that `check()` reports."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")


def test_every_test_that_the_page_names_exists():
    """A promise that points at nothing is none."""
    named = re.findall(r"`(tests/[\w/]+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_the_page_has_a_row_for_each_promise(board):
    """What the check reports can be looked up."""
    rows = re.findall(r"^\| (P\d+) \|", PAGE, re.MULTILINE)
    assert rows == [finding.promise for finding in board.check()]
