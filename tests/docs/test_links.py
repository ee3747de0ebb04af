"""Links from page to page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page):
    """To a file that is there, and to a heading in it."""
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([\w-]+))?\)", page.read_text()):
        place = page.parent / target if target else page
        assert place.exists(), target
        headings = re.findall(r"^#+ (.*)", place.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in [re.sub(r"[^\w-]", "", line.lower().replace(" ", "-")) for line in headings]
