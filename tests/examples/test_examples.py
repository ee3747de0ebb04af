"""Each example as the project of a stranger: our wheel, its own requirements, its own folder, and no way out."""

import re
import shutil

import pytest

from tests.support.environments import NEEDED, NEEDS_AN_INDEX, ROOT, built, command, joined, python_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(900),  # the first run installs the frameworks
    NEEDS_AN_INDEX,
]

OURS = "pytest-agentmesh"
PROJECTS = {path.parent.name: path.parent for path in sorted(ROOT.glob("examples/*/requirements.txt"))}
FIRST_STEPS = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "testing.md").read_text(), re.DOTALL)[1]


@pytest.fixture(scope="module")
def wheel(request, tmp_path_factory):
    """Our distribution, built once."""
    return built(python_with(request, tmp_path_factory, "hatchling"), tmp_path_factory.mktemp("wheels"))


@pytest.mark.parametrize("name", PROJECTS)
def test_an_example_passes_where_it_would_live(request, tmp_path_factory, tmp_path, wheel, name):
    """What it needs and what we need is resolved together; the five lines of the tutorial pass beside it, too."""
    required = (PROJECTS[name] / "requirements.txt").read_text().split()
    assert OURS in required
    python = python_with(request, tmp_path_factory, *(one for one in required if one != OURS), *NEEDED)
    python = joined(python, wheel, tmp_path / "venv")
    [packages] = python.parents[1].glob("lib/python*/site-packages")
    shutil.copy(ROOT / "tests" / "examples" / "loopback.py", packages / "sitecustomize.py")
    project = shutil.copytree(PROJECTS[name], tmp_path / name)
    (project / "test_first_steps.py").write_text(FIRST_STEPS)
    command(python, "-m", "pytest", "--strict-markers", "-p", "no:cacheprovider", cwd=project)
    assert not (packages / "tried.txt").exists(), (packages / "tried.txt").read_text()
