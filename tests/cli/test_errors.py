"""Exit codes: one per kind of failure, and no failure that looks like success."""

import itertools
import subprocess
import sys
from pathlib import Path

import click
import pytest

from agentmesh.cli.errors import EXIT_CODES
from agentmesh.cli.main import cli
from agentmesh.errors import AgentMeshError


def all_errors(base: type = AgentMeshError) -> list[type]:
    """Every kind of error that the board raises."""
    return [base, *itertools.chain.from_iterable(map(all_errors, base.__subclasses__()))]


def all_commands(group: click.Group = cli, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], click.Command]]:
    """Every command and the words that call it."""
    found = []
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        is_group = isinstance(command, click.Group)
        found += all_commands(command, (*path, name)) if is_group else [((*path, name), command)]
    return found


def typed_options() -> list[tuple[tuple[str, ...], str]]:
    """Every option that takes something other than any text."""
    return [
        (path, option.opts[0])
        for path, command in all_commands()
        for option in command.params
        if isinstance(option, click.Option) and not option.is_flag and option.type is not click.STRING
    ]


def test_every_kind_of_error_has_an_exit_code():
    """A new error cannot be forgotten here."""
    assert {error.code for error in all_errors()} - EXIT_CODES.keys() == set()


def test_exit_codes_tell_kinds_apart():
    """Only the two words for "the call is wrong" share one; none means success."""
    codes = [code for name, code in EXIT_CODES.items() if name != "usage"]

    assert len(codes) == len(set(codes))
    assert not {0, 3, 4} & set(codes)


@pytest.mark.parametrize(("path", "option"), typed_options(), ids=str)
def test_an_option_of_the_wrong_type_is_a_usage_error(call, path, option):
    """Nothing is ignored or guessed; nothing runs."""
    result = call(*path, "x", option, "{wrong", "--lease", "1.x", "--error", "e", "--agent", "a")
    assert result.exit_code == 2


@pytest.mark.parametrize("args", [["frobnicate"], ["list", "--frobnicate"], ["plan", "frobnicate"], ["list", "extra"]])
def test_what_is_unknown_is_a_usage_error(call, args):
    """A typing error in a script does not pass as success."""
    assert call(*args).exit_code == 2


@pytest.mark.parametrize(
    "command", ["list", "status", "check", "events", "graph", "next", "why", "show x", "watch --once"]
)
def test_a_failing_store_is_never_an_empty_answer(mesh, command, tmp_path):
    """A file that is no board gives an error, not "nothing there"."""
    other = tmp_path / "other.db"
    other.write_text("this is not a board, and long enough to be looked at " * 20)
    result = mesh(*command.split(), "--board", str(other), "--json")

    assert (result.exit_code, result.stdout) == (26, "")
    assert '"foreign_file"' in result.stderr


def test_an_error_for_people_is_a_sentence_and_a_next_step(call):
    """Two lines, on stderr."""
    result = call("show", "nobody", "-q")

    assert result.stderr.splitlines() == [
        "Error: There is no task 'nobody' on this board.",
        "List what is there, then name a task that exists.",
    ]


def test_a_hostile_argument_cannot_act_on_the_terminal(call):
    """Names that are repeated in an error are escaped."""
    for args in (["show", "\x1b[31mx\x9b\u202e"], ["\x1b[31m"], ["list", "--state", "\x1b[31m"], ["list", "--\x1b[3"]):
        assert call(*args).stderr.replace("\n", "").isprintable()


@pytest.mark.usefixtures("call")
def test_a_full_disk_under_the_output_is_an_error():
    """An answer that could not be written is no success."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "agentmesh.cli", "status"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 33


def test_a_reader_that_leaves_is_no_error(board):
    """`agentmesh list | head -1` ends quietly."""
    board.create_tasks([{"title": "x" * 300} for _ in range(400)])
    command = [sys.executable, "-m", "agentmesh.cli", "list", "-q", "--limit", "200"]
    with subprocess.Popen([*command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 141
