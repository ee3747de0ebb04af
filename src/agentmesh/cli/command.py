"""What every command shares: `--board`, `--json`, `--quiet`, the board it opens, the answer it gives."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agentmesh.cli.discover import Found, find
from agentmesh.cli.errors import OutputError, reason
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import place
from agentmesh.errors import BoardNotFound

if TYPE_CHECKING:
    from types import FrameType

    from agentmesh.board.facade import Board

BOARD_VARIABLE: Final = "AGENTMESH_BOARD"


class App:
    """One call of the command line: how it was asked, and where its answer goes."""

    def __init__(self) -> None:
        self.board: str | None = None
        self.json = False
        self.quiet = False
        self.found: Found | None = None

    def find(self) -> Found:
        """Choose the board, and say so when it was not named but found."""
        self.found = find(self.board, os.environ.get(BOARD_VARIABLE))
        if not self.json:
            self.announce()
        return self.found

    def existing(self) -> str:
        """Choose the board for a server; it has to be there, for it makes none."""
        target = self.find().target
        if "://" not in target and not Path(target).exists():
            raise BoardNotFound(f"There is no board at {place(target)!r}.")
        return target

    def open(self) -> Board:
        """Open the board; it has to be there."""
        from agentmesh.board.facade import Board

        return Board.open(self.find().target, create=False)

    def announce(self) -> None:
        """Name a board that was found by walking up: nobody works on a stranger's board unawares."""
        found = self.found
        if found is not None and found.source in ("discovered", "main checkout") and not self.quiet:
            click.echo(f"board: {place(found.target)}", err=True)

    def answer(self, document: dict[str, Any], people: Callable[[Screen], None]) -> None:
        """Give the answer: with `--json` the document, else what `people` writes.

        Raises:
            OutputError: it could not be written; what it tells of was done.
            BrokenPipeError: the reader has gone.
        """
        try:
            if self.json:
                click.echo(json_text(document))
            else:
                people(Screen())
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(
                f"The call was carried out, but its answer could not be written: {reason(error)}.",
                "Do not repeat it before you have looked at the board: `agentmesh events` shows what was done.",
            ) from error


def write_bytes(data: bytes) -> None:
    """Write to standard output as it is, whatever its encoding."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM end a long command as Ctrl-C does: with its last acts."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stoppable() -> Iterator[threading.Event]:
    """Let Ctrl-C and SIGTERM set an event, which the caller looks at; a second one interrupts wherever it comes."""
    stopped = threading.Event()

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        stopped.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def json_text(document: dict[str, Any]) -> str:
    """One strict JSON document on one line, in ASCII: nothing in it can act on a terminal."""
    return json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _store(context: click.Context, parameter: click.Parameter, value: object) -> None:
    """Keep a shared option, wherever on the line it stood."""
    if value is not None and value is not False and parameter.name is not None:
        setattr(context.ensure_object(App), parameter.name, value)


_SHARED: Final = (
    click.Option(
        ["--board"],
        metavar="PATH",
        expose_value=False,
        callback=_store,
        help="The board to use. Else AGENTMESH_BOARD, else the nearest one above this folder.",
    ),
    click.Option(
        ["--json"],
        is_flag=True,
        expose_value=False,
        callback=_store,
        help="Answer with one JSON document; errors too, on stderr.",
    ),
    click.Option(
        ["-q", "--quiet"],
        is_flag=True,
        expose_value=False,
        callback=_store,
        help="Say only what a script needs.",
    ),
)


class _Shared(click.Command):
    """A command that takes the shared options and lists them apart from its own."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the shared ones."""
        return [*super().get_params(ctx), *_SHARED]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the shared ones."""
        for title, options in (("Options", super().get_params(ctx)), ("Everywhere", _SHARED)):
            records = [option.get_help_record(ctx) for option in options if isinstance(option, click.Option)]
            write_section(formatter, title, [record for record in records if record is not None])


def write_section(formatter: click.HelpFormatter, title: str, rows: list[tuple[str, str]]) -> None:
    """Names and what they mean, side by side as far as the terminal is wide enough."""
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=min(30, formatter.width // 3))


class MeshCommand(_Shared):
    """A leaf command."""


class MeshGroup(_Shared, click.Group):
    """A group of commands."""

    command_class = MeshCommand

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)


def group() -> Callable[[Callable[..., Any]], MeshGroup]:
    """Make a function a group of commands; without a command it is a usage error."""
    return click.group(cls=MeshGroup, no_args_is_help=False)


def command(name: str | None = None) -> Callable[[Callable[..., Any]], MeshCommand]:
    """Make a function a command; its first line is the help."""
    return click.command(name, cls=MeshCommand)
