"""The examples in the documentation do what the page says."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentmesh.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/ledger.md", "docs/python.md"]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """Where an example starts, with no settings from outside."""
    for name in ("AGENTMESH_BOARD", "AGENTMESH_AGENT", "AGENTMESH_LEASE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("page", PAGES)
def test_the_python_runs(page):
    """From an empty folder, and what it asserts holds."""
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), {})


@pytest.mark.usefixtures("empty_folder")
@pytest.mark.parametrize("page", ["docs/ledger.md"])
def test_the_commands_answer_as_shown(page):
    """One after the other; where the page shows an answer, to the letter."""
    found = "".join(blocks(page, "console"))
    assert found
    for step in re.split(r"^\$ agentmesh ", found, flags=re.MULTILINE)[1:]:
        line, _, shown = step.partition("\n")
        result = CliRunner().invoke(cli, shlex.split(line))
        assert result.exit_code == 0, result.stderr
        assert shown in ("", result.stdout)
