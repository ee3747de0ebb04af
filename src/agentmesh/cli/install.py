"""Make a client start our server: write the entry into the client's own file, show it only, take it out again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from agentmesh import limits
from agentmesh.cli.boards import make_board
from agentmesh.cli.clients import CLIENTS, SCOPES, Client, Machine, Scope
from agentmesh.cli.command import App, command
from agentmesh.cli.config_file import ConfigFile
from agentmesh.cli.discover import FILE, HOME
from agentmesh.cli.params import PROFILES
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.server_entry import Entry, Unfit, Where, is_ours, server_entry
from agentmesh.cli.text import place
from agentmesh.clock import SystemClock
from agentmesh.errors import BoardNotFound, ConfigurationRefused, InvalidArgument

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every client takes as the name of a server."""
_STYLES: Final = {"yes": "green", "no": "dim"}


@dataclass(frozen=True, slots=True)
class Target:
    """The place of an entry: whose, in which file, under which name."""

    client: Client
    scope: Scope | None
    path: Path
    where: Where

    def document(self) -> dict[str, Any]:
        """How `--json` shows it."""
        scope = {"scope": self.scope} if self.scope else {}
        return {"client": self.client.name, **scope, "config": place(str(self.path)), "name": self.where[1]}


def _target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """What says where the entry is."""
    for option in (
        click.option("--name", default="agentmesh", show_default=True, help="What the client calls the server."),
        click.option("--config", metavar="PATH", help="The client's file, where it is not in its usual place."),
        click.option("--scope", type=click.Choice(SCOPES), help="For all your projects, or for this one."),
    ):
        function = option(function)
    return function


@command()
@click.argument("client", required=False, type=click.Choice(tuple(CLIENTS)))
@_target_options
@click.option("--agent", metavar="NAME", help="The agent that the client's sessions speak for; else calls name one.")
@click.option("--profile", type=click.Choice(PROFILES), help="Which tools the client sees.")
@click.option("--print", "printed", is_flag=True, help="Show the entry and where it belongs; change nothing.")
@click.option("--list", "listed", is_flag=True, help="Show the clients, and which of them are here.")
@click.pass_obj
def install(
    app: App,
    /,
    client: str | None,
    *,
    agent: str | None,
    profile: str | None,
    printed: bool,
    listed: bool,
    **place_of_entry: Any,
) -> None:
    """Let CLIENT start the board's server: an entry in its own file, which is copied aside first."""
    machine = Machine.here()
    if client is None or listed:
        _list(app, machine)
        return
    target = _find_target(CLIENTS[client], machine, **place_of_entry)
    board = _board(app, machine)
    entry = server_entry(board, None if agent is None else limits.name("--agent", agent), profile)
    _see_that_it_stays_literal(entry)
    if printed:
        _print(app, target, entry)
    else:
        _install(app, target, entry, board)


@command()
@click.argument("client", type=click.Choice(tuple(CLIENTS)))
@_target_options
@click.pass_obj
def uninstall(app: App, /, client: str, **place_of_entry: Any) -> None:
    """Take the server's entry out of CLIENT's file; the board stays."""
    target = _find_target(CLIENTS[client], Machine.here(), **place_of_entry)
    file = ConfigFile.read(target.path)
    there = file.data is not None and _read(target, file.text) is not None
    copy = None
    if there:
        with _told(target):
            after = target.client.form.take(file.text, target.where)
        copy = file.write(after, SystemClock().now_us())

    def people(screen: Screen) -> None:
        if not app.quiet:
            name, path = target.where[1], (place(str(target.path)), "bold")
            screen.copyable(f"Took {name} out of " if there else f"There is no {name} in ", path)
            _tell_copy(screen, copy)

    app.answer(target.document() | {"changed": there} | _copy_document(copy), people)


def _find_target(client: Client, machine: Machine, *, scope: Scope | None, config: str | None, name: str) -> Target:
    if not _NAME.fullmatch(name):
        raise InvalidArgument("--name", "it has 1 to 64 letters, digits, dashes and underscores")
    where = (client.container, name)
    if config is not None:
        return Target(client, None, Path(config).absolute(), where)
    scope = scope or client.usual_scope
    if scope not in client.places:
        raise InvalidArgument("--scope", f"{client.title} has no file for a {scope}")
    path = client.places[scope](machine)
    if scope == "project" and not path.resolve().is_relative_to(machine.project.resolve()):
        raise ConfigurationRefused(
            place(str(path)),
            "a link leads out of the project",
            hint="If you trust it, name the file it leads to with --config.",
        )
    return Target(client, scope, path, where)


def _board(app: App, machine: Machine) -> str:
    """The board to serve: the one that is meant here, else a new one in the project."""
    own = machine.project / HOME / FILE
    try:
        return app.find().target
    except BoardNotFound:
        if own.exists():  # it was found, and not trusted
            raise
        return str(own)


def _see_that_it_stays_literal(entry: Entry) -> None:
    """Refuse what would not arrive as it is written: clients fill in `${...}`, and their files are UTF-8."""
    for text in (entry["command"], *entry["args"]):
        if "${" in text or any("\ud800" <= character <= "\udfff" for character in text):
            raise InvalidArgument("path", "it has '${' or bytes that are not UTF-8, which no client passes on")


def _install(app: App, target: Target, entry: Entry, board: str) -> None:
    """Write the entry; the board is made only once it is clear that the entry can be written."""
    file = ConfigFile.read(target.path)
    before = target.client.form.fresh(target.client.container) if file.data is None else file.text
    there = _read(target, before)
    with _told(target):
        after = target.client.form.put(before, target.where, entry)
    made = "://" not in board and not Path(board).exists()
    if made:
        make_board(board)
    changed = after != before
    copy = file.write(after, SystemClock().now_us()) if changed else None
    word = "Nothing to change in " if not changed else "Added to " if there is None else "Updated in "

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.copyable(word, (place(str(target.path)), "bold"))
            screen.copyable("Made the board " if made else "It serves ", place(board))
            _tell_copy(screen, copy)
            if changed:
                screen.line(target.client.next_step)

    app.answer(
        target.document() | entry | {"board": place(board), "made": made, "changed": changed} | _copy_document(copy),
        people,
    )


def _print(app: App, target: Target, entry: Entry) -> None:
    """The entry as a file of its own; where it belongs is said on stderr, so the rest can be piped."""
    form = target.client.form
    text = form.put(form.fresh(target.client.container), target.where, entry)

    def people(_: Screen) -> None:
        if not app.quiet:
            click.echo(f"To be merged into {place(str(target.path))}:", err=True)
        click.echo(text, nl=False)

    app.answer(target.document() | entry, people)


def _read(target: Target, text: str) -> object:
    """The entry as it is there; one that starts another server is not touched."""
    with _told(target):
        there = target.client.form.read(text, target.where)
    if there is not None and not is_ours(there):
        raise ConfigurationRefused(
            place(str(target.path)),
            f"its entry {target.where[1]!r} starts another server",
            hint="Give ours another name with --name.",
        )
    return there


@contextmanager
def _told(target: Target) -> Iterator[None]:
    """Say of which file it is that it cannot be edited."""
    try:
        yield
    except Unfit as error:
        raise ConfigurationRefused(place(str(target.path)), str(error)) from None


def _list(app: App, machine: Machine) -> None:
    """Each client and its files, and where our server is in."""
    rows = [
        {"client": client.name, "scope": scope, "found": client.is_on(machine), **_look(client, scope, machine)}
        for client in CLIENTS.values()
        for scope in client.places
    ]

    def people(screen: Screen) -> None:
        columns = [Column("CLIENT"), Column("HERE"), Column("SCOPE"), Column("SERVER"), Column("FILE", wraps=True)]
        screen.table(columns, [[row["client"], _yes(row["found"]), row["scope"], *_cells(row)] for row in rows])

    app.answer({"clients": rows}, people)


def _look(client: Client, scope: Scope, machine: Machine) -> dict[str, Any]:
    """What a file says of us; one that cannot be read is told with its problem."""
    target = Target(client, scope, client.places[scope](machine), (client.container, "agentmesh"))
    shown = {"config": place(str(target.path))}
    try:
        file = ConfigFile.read(target.path)
        return shown | {"installed": file.data is not None and _read(target, file.text) is not None}
    except ConfigurationRefused as error:
        return shown | {"installed": False, "problem": error.message}


def _cells(row: dict[str, Any]) -> tuple[Part, Part]:
    return (("broken", "bold red") if "problem" in row else _yes(row["installed"])), row["config"]


def _yes(value: bool) -> Part:  # noqa: FBT001 - it is what the cell says
    word = "yes" if value else "no"
    return word, _STYLES[word]


def _tell_copy(screen: Screen, copy: Path | None) -> None:
    if copy is not None:
        screen.copyable("The old one is kept as ", place(str(copy)))


def _copy_document(copy: Path | None) -> dict[str, str]:
    return {} if copy is None else {"backup": place(str(copy))}
