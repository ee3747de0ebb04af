"""The entry of the command line: finds the command, runs it, and turns what went wrong into an exit code.

Command modules are imported when they are called, so that `agentmesh next --quiet` starts fast. A command that is none
of ours is looked for among those that other packages bring.
"""

from __future__ import annotations

import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final, NoReturn

import click

from agentmesh.cli import errors, streams
from agentmesh.cli.command import App, MeshGroup, json_text, write_section
from agentmesh.printable import one_line

COMMANDS: Final[dict[str, dict[str, str]]] = {
    "Board": {
        "init": "boards:init",
        "where": "boards:where",
        "check": "boards:check",
        "doctor": "upkeep:doctor",
        "backup": "upkeep:backup",
        "restore": "upkeep:restore",
        "prune": "prune:prune",
        "export": "transfer:export",
        "import": "transfer:import_",
        "run": "run:run",
        "serve": "serve:serve",
        "token": "token:token",
        "install": "install:install",
        "uninstall": "install:uninstall",
        "demo": "demo:demo",
    },
    "Tasks": {
        "add": "tasks:add",
        "plan": "plans:plan",
        "list": "tasks:list_",
        "show": "tasks:show",
        "cancel": "tasks:cancel",
        "reopen": "tasks:reopen",
        "depends": "tasks:depends",
        "pause": "pauses:pause",
        "unpause": "pauses:unpause",
    },
    "Work": {
        "resume": "resume:resume",
        "next": "work:next_",
        "claim": "work:claim",
        "wait": "work:wait",
        "heartbeat": "work:heartbeat",
        "complete": "work:complete",
        "fail": "work:fail",
        "release": "work:release",
    },
    "Blackboard": {
        "memory": "memory:memory",
    },
    "Spending": {
        "ledger": "ledger:ledger",
        "budget": "budgets:budget",
        "cap": "caps:cap",
    },
    "Look": {
        "status": "look:status",
        "watch": "watch:watch",
        "why": "look:why",
        "graph": "graph:graph",
        "events": "look:events",
    },
}
_PLACES: Final = {name: at for group in COMMANDS.values() for name, at in group.items()}


class Root(MeshGroup):
    """The group of all commands, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """All names, in the order of the help; last those that other packages bring."""
        return [*_PLACES, *_brought()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Import a command."""
        if cmd_name not in _PLACES:
            from agentmesh.cli import plugins

            return plugins.command(cmd_name)
        module, name = _PLACES[cmd_name].split(":")
        found: click.Command = getattr(import_module(f"agentmesh.cli.{module}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by what they are about."""
        for title, group in COMMANDS.items():
            found = [(name, self.get_command(ctx, name)) for name in group]
            rows = [(name, command.get_short_help_str(limit=100)) for name, command in found if command]
            write_section(formatter, title, rows)
        from agentmesh.cli import plugins

        write_section(formatter, "More", [(name, plugins.summary(name)) for name in _brought()])

    def main(  # type: ignore[override]  # we always take over what click does at the end
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,  # noqa: ARG002 - the hints name `agentmesh`, however it was called
        **extra: Any,
    ) -> NoReturn:
        """Run a command and leave with its exit code."""
        extra.pop("standalone_mode", None)
        app = App()
        asked = list(sys.argv[1:] if args is None else args) or ["--help"]
        try:
            streams.repair()
            code = self._run(asked, app, extra)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last stop tells them all
            with _undisturbed():
                streams.settle_output()
                app.json = app.json or _asks_for_json(asked)
                code = _report(error, app)
        sys.exit(code)

    def _run(self, args: list[str], app: App, extra: dict[str, Any]) -> int:
        try:
            columns = max(min(shutil.get_terminal_size().columns, 100) - 2, 30)
            extra = {"obj": app, "terminal_width": columns, **extra}
            code = super().main(args, "agentmesh", standalone_mode=False, **extra)
            sys.stdout.flush()
        except BrokenPipeError:
            return _reader_has_gone()
        if app.json:
            app.announce()
        return code if isinstance(code, int) else errors.OK

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; a reader that has closed the pipe is no error, and an interrupt is told by us alone."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _reader_has_gone()
        except KeyboardInterrupt:
            raise click.Abort from None


def _brought() -> list[str]:
    """The commands of other packages; ours come first, where two have one name."""
    from agentmesh.cli import plugins

    return [name for name in plugins.names() if name not in _PLACES]


def _reader_has_gone() -> int:
    """Let nothing more be written to a closed pipe, at exit either."""
    streams.drop_output()
    return errors.BROKEN_PIPE


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let a second Ctrl-C not interrupt the report of the first; only the main thread gets signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _asks_for_json(args: Sequence[str]) -> bool:
    """Whether `--json` stands on the line; asked when the line could not be parsed."""
    options = args[: args.index("--")] if "--" in args else args
    return "--json" in options


def _report(error: BaseException, app: App) -> int:
    """Tell an error on stderr: the sentence, then the next step."""
    document = errors.describe(error)
    code = errors.exit_code(document)
    if document["code"] == "internal":
        click.echo(errors.trace(error), err=True)
    if app.json:
        found = {"board": app.found.target} if app.found else {}
        click.echo(json_text({**document, "exit_code": code, **found}), err=True)
    elif document["code"] == "interrupted":
        click.echo(document["message"], err=True)
    else:
        click.echo(f"Error: {one_line(document['message'])}", err=True)
        if hint := document.get("hint"):
            click.echo(one_line(hint), err=True)
    return code


@click.group(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="pytest-agentmesh", prog_name="agentmesh")
def cli() -> None:
    """AgentMesh: the task board that a swarm of LLM agents shares."""


def main() -> NoReturn:
    """Run the command line of this process."""
    cli.main()
