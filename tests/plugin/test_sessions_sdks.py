"""Sessions with each SDK that a framework may bring, under each plugin for async tests; each in its environment."""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.environments import NEEDS_AN_INDEX, python_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(400),  # the first run installs three environments
    NEEDS_AN_INDEX,
]

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
AGENTS = Path(__file__).parent / "project"
SDKS = {
    "oldest": ["mcp==1.9.0", "pydantic<2.12"],  # what it knew of pydantic is not there later
    "1.x": ["mcp>=1.20,<2"],
    "2.x": PROJECT["optional-dependencies"]["http"],
}
BESIDE = ["pytest-asyncio>=1.1", "trio>=0.27"]


@pytest.fixture(params=SDKS)
def python(request, tmp_path_factory):
    """An environment with one of the SDKs and what our own distribution needs."""
    return python_with(request, tmp_path_factory, *SDKS[request.param], *BESIDE, *PROJECT["dependencies"])


def run(python, folder, *arguments):
    """Run the tests of the little project, every warning an error; how they ended, and what was said."""
    shutil.copytree(AGENTS, folder, dirs_exist_ok=True)
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [python, "-W", "error", "-m", "pytest", "-p", "pytest_agentmesh.plugin", "-p", "no:cacheprovider", "-rA"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"}
    done = subprocess.run(
        [*command, *arguments], cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    ends = [line.partition(" - ")[0].split(" ", 1) for line in done.stdout.splitlines() if "::" in line]
    return [(how, test.rpartition("::")[2]) for how, test in ends if how.isupper()], done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_under_pytest_asyncio(python, tmp_path, mode):
    """A test has its session in its own task, a fixture in an owner's; who mixes them up is told what to write."""
    ends, said = run(python, tmp_path, "on_asyncio.py", "-o", f"asyncio_mode={mode}")
    assert {test for how, test in ends if how == "FAILED"} == {"test_that_fails"}, said
    assert {test for how, test in ends if how == "ERROR"} == {"test_a_misplaced_fixture_works_until_its_end"}, said
    assert "async with mesh_session.owned(...)" in said
    assert sum(how == "PASSED" for how, _ in ends) == 6
    assert "ExceptionGroup" not in said
    assert "E           AssertionError: assert {" in said  # the test's own failure, as it was raised


def test_under_anyio(python, tmp_path):
    """On asyncio and on trio, beside pytest-asyncio."""
    ends, said = run(python, tmp_path, "on_anyio.py")
    assert {test for how, test in ends if how != "PASSED"} == {"test_that_fails[asyncio]", "test_that_fails[trio]"}, (
        said
    )
    assert sum(how == "PASSED" for how, _ in ends) == 8
    assert "ExceptionGroup" not in said


def test_http_is_there_with_an_sdk_that_can_serve_it(python, tmp_path):
    """Who has another is told so, and what there is instead. Its process costs the test no descriptor."""
    (tmp_path / "test_http.py").write_text("def test_http(mesh_session):\n    print(mesh_session.server.url)\n")
    [(how, _)], said = run(python, tmp_path, "test_http.py", "--agentmesh-transport=http")
    if how == "PASSED":
        assert "http://127.0.0.1:" in said
    else:
        assert "This needs mcp 2 or newer, which is not installed here." in said
        assert "memory and stdio serve its clients as well." in said
    assert (how == "PASSED") == python.parents[1].name.startswith("mcp>=2")
