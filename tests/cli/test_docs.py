"""docs/cli.md says what the command line does, and every page calls it as it is."""

import re
import shlex
from pathlib import Path

import click
import pytest

from agentmesh.cli.errors import EXIT_CODES
from agentmesh.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cli.md").read_text()
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
IN_A_BLOCK = re.compile(r"(?:    |\$ )(?:docker compose run --rm )?(agentmesh .*)")
IN_A_SENTENCE = re.compile(r"`(agentmesh [a-z][^`]*)`")


def names(group: click.Group, path: str = "agentmesh") -> list[str]:
    """Every command, as one types it."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        whole = f"{path} {name}"
        found += names(command, whole) if isinstance(command, click.Group) else [whole]
    return found


def exits(page: str) -> dict[str, int]:
    """The exit codes in the page's table."""
    rows = re.findall(r"^\| (\d+) \| (`[^|]*`) \|", page, re.MULTILINE)
    return {code: int(number) for number, codes in rows for code in re.findall(r"`(\w+)`", codes)}


@pytest.mark.parametrize("name", names(cli))
def test_every_command_is_documented(name):
    """Under a heading of its own."""
    headings = re.findall(r"^### (.*)$", PAGE, re.MULTILINE)
    assert any(re.search(rf"`{name}[ `]", heading) for heading in headings)


def test_every_exit_code_is_documented():
    """And the page promises none that is not there."""
    assert exits(PAGE) == EXIT_CODES


def test_the_help_shows_every_command(mesh):
    """By what it is about, with one line each."""
    shown = mesh("--help").stdout

    assert all(f"{title}:" in shown for title in COMMANDS)
    assert all(re.search(rf"^  {name}  +\S", shown, re.MULTILINE) for group in COMMANDS.values() for name in group)


def test_without_a_word_the_help_is_shown(mesh):
    """The first call of a curious person is no mistake; half a command is."""
    assert (mesh().exit_code, mesh().stdout) == (0, mesh("--help").stdout)
    assert (mesh("plan").exit_code, mesh("plan").stdout) == (2, "")


@pytest.mark.parametrize("name", names(cli))
def test_every_command_has_help(mesh, name):
    """It ends well and lists the shared options."""
    result = mesh(*name.split()[1:], "--help")

    assert result.exit_code == 0
    assert "Everywhere:" in result.stdout
    assert "--json" in result.stdout


def calls(page: str) -> list[str]:
    """The command lines on a page, headings aside; what stands after a pipe or the like is the shell's."""
    found = []
    for line in (ROOT / page).read_text().splitlines():
        if not line.startswith("#"):
            block = IN_A_BLOCK.match(line)
            found += [block[1]] if block else IN_A_SENTENCE.findall(line)
    return [re.split(r"[|<>#]|&&", line)[0] for line in found]


@pytest.mark.parametrize("page", PAGES)
def test_every_call_on_a_page_can_be_made(page):
    """The command is there and takes these arguments; where a sentence names it alone, that is enough."""
    for line in calls(page):
        _, name, *rest = shlex.split(line)
        command = cli.get_command(click.Context(cli), name)
        while isinstance(command, click.Group):
            name, *rest = rest
            command = command.get_command(click.Context(command), name)
        assert command is not None, line
        command.make_context(name, rest, resilient_parsing=not rest)
