"""docs/export.md says what stands in an export."""

import re
from pathlib import Path

from agentmesh.board.transfer.form import HEADER, KINDS, LONGEST, TRAILER, VERSION
from agentmesh.cli.errors import EXIT_CODES

PAGE = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")


def test_the_page_lists_every_field_in_its_order():
    """Of every type, in the order of the types."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| (.*) \|$", PAGE, re.MULTILINE)
    listed = {name: re.findall(r"`(\w+)`(?: \(|,|$)", fields) for name, fields in rows}
    assert listed == {
        "header": list(HEADER),
        **{kind.name: list(kind.fields) for kind in KINDS},
        "trailer": list(TRAILER),
    }
    assert list(listed) == ["header", *(kind.name for kind in KINDS), "trailer"]


def test_the_page_says_its_numbers():
    """The version, the longest line, the exit codes."""
    assert f"`version` ({VERSION})" in PAGE
    assert f"{LONGEST // 2**20} MiB" in PAGE
    assert f"(`import_refused`, exit {EXIT_CODES['import_refused']})" in PAGE
    assert f"`corrupt` (exit {EXIT_CODES['corrupt']})" in PAGE
