"""Commands that other packages bring to the command line."""

import sys
from importlib.metadata import EntryPoint, EntryPoints

import click
import pytest

from agentmesh.cli import plugins

GROUP = plugins.GROUP


@click.command()
def hello():
    """Say hello."""
    click.echo("hello")


@pytest.fixture
def brought(monkeypatch):
    """Pretend that a package brings commands: name -> where it is."""

    def bring(**places):
        points = [EntryPoint(name, place, GROUP) for name, place in places.items()]
        everything = EntryPoints(points)
        monkeypatch.setattr(plugins, "entry_points", everything.select)
        monkeypatch.setattr(EntryPoint, "load", lambda point: {"hello": hello, "number": 3}[point.value])

    return bring


def test_a_command_of_another_package_runs(mesh, brought):
    """It is listed with its first line, below ours."""
    brought(hi="hello")

    assert mesh("hi").stdout == "hello\n"
    assert "More:\n  hi  Say hello.\n" in mesh("--help").stdout


@pytest.mark.parametrize(
    ("place", "words"), [("gone", "cannot be loaded from 'gone': KeyError"), ("number", "no command")]
)
def test_a_broken_one_breaks_nothing_else(mesh, brought, place, words):
    """The list says so, and whoever calls it is told; the other commands do not care."""
    brought(bad=place, hi="hello")

    assert mesh("hi").exit_code == 0
    assert "  bad  (cannot be loaded)\n" in mesh("--help").stdout
    called = mesh("bad")
    assert called.exit_code == 1
    assert words in called.stderr


def test_a_module_that_exits_is_only_broken(mesh, brought, monkeypatch):
    """The import of a stranger's module may do anything."""
    brought(bad="hello")
    monkeypatch.setattr(EntryPoint, "load", lambda _: sys.exit(3))

    assert (mesh("--help").exit_code, mesh("bad").exit_code) == (0, 1)


def test_our_commands_win(mesh, brought):
    """No package can take the place of one of ours."""
    brought(where="hello")

    assert "hello" not in mesh("where").stdout
    assert "More:" not in mesh("--help").stdout


def test_our_commands_do_not_look_for_others(mesh, monkeypatch):
    """A start pays nothing for them."""
    monkeypatch.setattr(plugins, "entry_points", lambda **_: pytest.fail("looked for"))

    assert mesh("init").exit_code == 0
    assert mesh("status").exit_code == 0
