"""The page on made-up data does what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing-fake.md"
CONFTEST = """
import pytest
from hypothesis import settings
from pytest_agentmesh.fake import MeshFake

settings.register_profile("page", deadline=None, max_examples=20, database=None)
settings.load_profile("page")


@pytest.fixture
def mesh_fake():
    return MeshFake()
"""


def test_every_test_on_the_page_passes(pytester):
    """As a user would save and run them."""
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(**{f"test_{place}": block for place, block in enumerate(blocks)})
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)
