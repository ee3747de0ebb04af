"""Commands that other packages bring: the entry points of one group, each a click command.

They are looked for when a command is asked for that is none of ours, or the list of all; a start pays nothing for them.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from agentmesh.printable import one_line

GROUP: Final = "agentmesh.commands"


def names() -> list[str]:
    """The names of all that are installed."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def command(name: str) -> click.Command | None:
    """The command of this name; None where no package brings one.

    Raises:
        ClickException: a package does, and it cannot be loaded or is no command.
    """
    for point in entry_points(group=GROUP, name=name):
        return _load(point)
    return None


def summary(name: str) -> str:
    """What a command says of itself in one line; of one that is broken, that it is."""
    try:
        found = command(name)
    except click.ClickException:
        return "(cannot be loaded)"
    return found.get_short_help_str(limit=100) if found else ""


def _load(point: EntryPoint) -> click.Command:
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        message = f"The command {point.name!r} cannot be loaded from {point.value!r}: {type(error).__name__}."
        raise click.ClickException(one_line(message)) from error
    if not isinstance(found, click.Command):
        raise click.ClickException(one_line(f"{point.value!r}, named {point.name!r}, is no command."))
    return found
