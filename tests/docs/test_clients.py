"""The pages of the clients say what `agentmesh install` writes, and where."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest

from agentmesh.cli.clients import CLIENTS, Machine
from agentmesh.cli.server_entry import server_entry

FOLDER = Path(__file__).parents[2] / "docs" / "clients"
PAGES = sorted(FOLDER.glob("*.md"))
ENTRY = server_entry("/path/to/project/.agentmesh/board.db", None, None) | {"command": "/path/to/venv/bin/python"}


def blocks(page, language):
    """The blocks of code on a page."""
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
def test_each_client_has_a_page_with_its_entry(client):
    """Word for word what is written, but for the places."""
    page = FOLDER / f"{client.name}.md"
    read = [*map(json.loads, blocks(page, "json")), *map(tomllib.loads, blocks(page, "toml"))]

    assert read == [{client.container: {"agentmesh": ENTRY}}]


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
def test_the_page_names_the_file_of_each_scope(client):
    """And how to write the entry and take it out."""
    text = (FOLDER / f"{client.name}.md").read_text()
    machine = Machine("linux", Path("~"), Path(), {})
    files = [str(place(machine)) for place in client.places.values()]

    assert [file for file in files if f"`{file}`" not in text] == []
    assert f"agentmesh install {client.name}" in text
    assert f"agentmesh uninstall {client.name}" in text


@pytest.mark.parametrize("name", ["langgraph", "crewai"])
def test_the_programs_start_the_server_as_the_clients_do(name):
    """The command and the arguments; the program itself is Python."""
    [program] = blocks(FOLDER / f"{name}.md", "python")
    strings = [node.value for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Constant)]

    assert {ENTRY["command"], *ENTRY["args"]} <= set(strings)


def test_every_page_is_in_the_list():
    """By which it is found."""
    listed = re.findall(r"\]\((\w[\w-]*\.md)\)", (FOLDER / "README.md").read_text())
    assert {"README.md", *listed} == {page.name for page in PAGES}
