"""The blackboard: what agents leave for each other, read and written from a shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from agentmesh.cli.command import App, group, write_bytes
from agentmesh.cli.params import LEASE_VARIABLE, JsonValue, author_options, given, signature
from agentmesh.cli.records import facts, pretty
from agentmesh.cli.screen import Column, Screen
from agentmesh.cli.streams import input_bytes
from agentmesh.cli.text import instant
from agentmesh.documents import document
from agentmesh.errors import NotFound
from agentmesh.model import Entry, EntryFacts, EntryPage, Json

STREAM = "-"


@group()
def memory() -> None:
    """Leave values for other agents, and read what they left."""


def _place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where an entry stands."""
    for argument in (click.argument("key"), click.argument("namespace")):
        function = argument(function)
    return function


_author = author_options("Sign it with this task, whose lease you hold.")


def _ttl(function: Callable[..., Any]) -> Callable[..., Any]:
    """How long an entry stays."""
    return click.option("--ttl", "ttl_sec", metavar="SEC", type=float, help="Gone after so many seconds.")(function)


def _if_version(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compare, then set."""
    words = "Only if the entry is at this version; 0: only if it is missing."
    return click.option("--if-version", metavar="N", type=int, help=words)(function)


@memory.command("put")
@_place
@click.argument("value", type=JsonValue(), required=False)
@click.option("--file", "path", metavar="PATH", help="Put the bytes of a file instead; - reads standard input.")
@click.option("--content-type", metavar="TYPE", help="What these bytes are, such as text/markdown.")
@_ttl
@_if_version
@_author
@click.pass_context
def put(context: click.Context, /, namespace: str, key: str, value: Json, path: str | None, **how: Any) -> None:
    """Put VALUE (JSON, @FILE or @-), or the bytes of --file, under KEY in NAMESPACE ('' is the root)."""
    told = context.get_parameter_source("value") is ParameterSource.COMMANDLINE
    if told == (path is not None):
        raise click.UsageError("Give a VALUE, or bytes with --file, and not both.")
    what = value if path is None else _bytes_of(path)
    app: App = context.obj
    with app.open() as board:
        entry = board.blackboard.put(namespace, key, what, **_signed(context, how))
    _tell(app, entry)


@memory.command("get")
@_place
@click.option("--output", metavar="PATH", help="Write the value to a file as it is; - writes standard output.")
@click.pass_obj
def get(app: App, namespace: str, key: str, output: str | None) -> None:
    """Show the entry KEY of NAMESPACE; exit 5 when it is missing."""
    if output == STREAM and app.json:
        raise click.UsageError("With --json, standard output is the document's: name a file.")
    with app.open() as board:
        entry = board.blackboard.get(namespace, key)
    if entry is None:
        raise NotFound("entry", key)
    whole = document(entry)
    if output is not None:
        del whole["value"]
        _write(entry, output)
        whole["output"] = output
    if output != STREAM:
        app.answer(whole, lambda screen: _show(screen, entry, quiet=app.quiet, with_value=output is None))


@memory.command("delete")
@_place
@_if_version
@_author
@click.pass_context
def delete(context: click.Context, /, namespace: str, key: str, **how: Any) -> None:
    """Delete the entry KEY of NAMESPACE; that it is missing is no error."""
    app: App = context.obj
    with app.open() as board:
        deleted = board.blackboard.delete(namespace, key, **_signed(context, how))

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line(f"{'Deleted' if deleted else 'It is not there'}: {_name(namespace, key)}.")

    app.answer({"deleted": deleted}, people)


@memory.command("list")
@click.argument("namespace", default="")
@click.option("--prefix", metavar="TEXT", help="Only keys that begin so.")
@click.option("--flat", is_flag=True, help="Without the namespaces below.")
@click.option("--limit", metavar="N", type=int, help="How many at most.")
@click.option("--cursor", metavar="TEXT", help="Go on from the page before.")
@click.pass_obj
def list_(app: App, /, namespace: str, *, flat: bool, **how: Any) -> None:
    """List the entries of NAMESPACE (all, when it is not named) and of those below it, without their values."""
    with app.open() as board:
        page = board.blackboard.list(namespace, recursive=not flat, **given(how))
    app.answer(document(page), lambda screen: _show_page(screen, page, quiet=app.quiet))


@memory.command("increment")
@_place
@click.option("--by", "amount", metavar="N", type=int, help="How much; 1 by default.")
@_ttl
@_author
@click.pass_context
def increment(context: click.Context, /, namespace: str, key: str, **how: Any) -> None:
    """Add to the whole number KEY of NAMESPACE, 0 when it is missing."""
    app: App = context.obj
    with app.open() as board:
        entry = board.blackboard.increment(namespace, key, **_signed(context, how))
    _tell(app, entry)


@memory.command("append")
@_place
@click.argument("item", type=JsonValue())
@_ttl
@_author
@click.pass_context
def append(context: click.Context, /, namespace: str, key: str, item: Json, **how: Any) -> None:
    """Add ITEM (JSON, @FILE or @-) to the list KEY of NAMESPACE, empty when it is missing."""
    app: App = context.obj
    with app.open() as board:
        entry = board.blackboard.append(namespace, key, item, **_signed(context, how))
    _tell(app, entry)


def _bytes_of(path: str) -> bytes:
    """What a file or standard input has."""
    return input_bytes("--file -").read() if path == STREAM else Path(path).read_bytes()


def _signed(context: click.Context, how: dict[str, Any]) -> dict[str, Any]:
    """The options as the board takes them: a task's lease says who writes, else --agent does."""
    options = given(how)
    author = signature(context, options)
    if "task_id" in author:
        raise click.UsageError(f"--task needs its lease: --lease, or {LEASE_VARIABLE}.")
    return author | options


def _tell(app: App, entry: Entry) -> None:
    """What the entry is now; its value only where the board made it."""
    whole = document(entry)

    def people(screen: Screen) -> None:
        if not app.quiet:
            screen.line((_name(entry.namespace, entry.key), "bold"), f" is at version {entry.version}.")

    app.answer(whole, people)


def _write(entry: Entry, output: str) -> None:
    value = entry.value if isinstance(entry.value, bytes) else (pretty(entry.value) + "\n").encode()
    if output == STREAM:
        write_bytes(value)
    else:
        Path(output).write_bytes(value)


def _show(screen: Screen, entry: Entry, *, quiet: bool, with_value: bool) -> None:
    artifact = isinstance(entry.value, bytes)
    if quiet:
        if with_value and not artifact:
            screen.copyable(json.dumps(entry.value))
        return
    screen.line((_name(entry.namespace, entry.key), "bold"), f", version {entry.version}")
    facts(
        screen,
        [
            ("by", entry.agent_id),
            ("for task", f"{entry.task_id}, attempt {entry.fence}" if entry.task_id else ""),
            ("written", instant(entry.updated_us)),
            ("until", instant(entry.expires_us) if entry.expires_us else ""),
            ("bytes", f"{entry.size} of {entry.content_type}" if artifact else ""),
        ],
    )
    if artifact and with_value:
        screen.line(("  --output PATH writes them to a file.", "dim"))
    elif with_value:
        screen.block(pretty(entry.value), indent=4)


def _show_page(screen: Screen, page: EntryPage, *, quiet: bool) -> None:
    if quiet:
        for entry in page.entries:
            screen.copyable(_name(entry.namespace, entry.key))
        return
    if not page.entries:
        screen.line("No entry is like that.")
        return
    columns = [
        Column("ENTRY"),
        Column("VERSION", right=True),
        Column("BYTES", right=True),
        Column("BY"),
        Column("UNTIL"),
        Column("TYPE", wraps=True),
    ]
    screen.table(columns, [_row(entry) for entry in page.entries])
    if page.cursor is not None:
        screen.line((f"There are more: --cursor '{page.cursor}'", "dim"))


def _row(entry: EntryFacts) -> list[Any]:
    return [
        (_name(entry.namespace, entry.key), "bold"),
        str(entry.version),
        str(entry.size),
        entry.agent_id,
        instant(entry.expires_us) if entry.expires_us else "",
        entry.content_type or "json",
    ]


def _name(namespace: str, key: str) -> str:
    return f"{namespace} {key}" if namespace else key
