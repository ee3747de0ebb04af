"""The pages on testing do what they say, and every public name of the bench is on one of them."""

import re
from pathlib import Path

import pytest

import pytest_agentmesh

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("testing*.md"))
CONFTEST = """
from hypothesis import settings

settings.register_profile("page", deadline=None, max_examples=20, database=None)
settings.load_profile("page")
"""


def blocks(page):
    """The Python on a page, in its order."""
    return re.findall(r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_every_test_on_a_page_passes(page, pytester):
    """As a reader saves and runs them, with warnings as errors: all blocks of a page are one file.

    An async test runs twice, on asyncio and on trio.
    """
    pytester.makeconftest(CONFTEST)
    text = "\n".join(blocks(page))
    pytester.makepyfile(test_page=text)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-W", "error")
    plain, on_loops = (re.findall(rf"^{word}def test_", text, re.MULTILINE) for word in ("", "async "))
    assert result.parseoutcomes() == {"passed": len(plain) + 2 * len(on_loops)}


def test_every_public_name_is_on_a_page():
    """What a test may import, ask for, or say."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    assert [name for name in pytest_agentmesh.__all__ if not re.search(rf"\b{name}\b", text)] == []


def test_every_fixture_option_and_key_is_on_a_page(pytester):
    """As pytest lists them."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    fixtures = pytester.runpytest("--fixtures").stdout.str()
    told = re.findall(r"^(mesh_\w+)", fixtures, re.MULTILINE)
    told += re.findall(r"--agentmesh[\w-]*|\bagentmesh_\w+", pytester.runpytest("--help").stdout.str())
    assert len(told) > 10
    assert [name for name in told if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)] == []
