"""`agentmesh simulate`: play a scripted swarm on a board made for it, in board time, and tell what came of it.

What plays it is imported when it is played: the help of all commands lists this one, too.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agentmesh.cli import errors
from agentmesh.cli.command import App, command
from agentmesh.cli.money import dollars
from agentmesh.cli.screen import Screen
from agentmesh.cli.text import count, duration, place
from agentmesh.errors import BoardExists
from agentmesh.printable import one_line
from pytest_agentmesh.durations import micros

if TYPE_CHECKING:
    from pytest_agentmesh.simulation import Played

WITHIN: Final = "1d"


def _duration(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    """How long: `90s`, `5min`, `2h`, `1d`."""
    try:
        micros(value)
    except ValueError as error:
        raise click.BadParameter(one_line(str(error))) from None
    return value


@command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="What a random order and drawn faults come from.")
@click.option(
    "--order",
    type=click.Choice(["fifo", "random"]),
    default="fifo",
    show_default=True,
    help="Who steps first: whoever came first, or whoever the seed says.",
)
@click.option(
    "--runs", type=click.IntRange(min=1), default=1, show_default=True, help="Play so often, each with the next seed."
)
@click.option(
    "--within",
    metavar="DURATION",
    callback=_duration,
    default=WITHIN,
    show_default=True,
    help="How much board time it may take: 90s, 5min, 2h.",
)
@click.option("--timeline", type=click.Path(path_type=Path), help="Draw the last run as a page of HTML in this file.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep the board of the last run in this new folder.")
@click.pass_obj
def simulate(app: App, /, file: Path, **how: Any) -> int:
    """Play a scripted swarm from a Python file, without models and without waiting.

    FILE is run as Python, with all that this user may do: look into it before you play what is not yours. Its function
    scenario(world) puts tasks on world.board and lets agents work: world.run(coder * 3). No board of yours is touched.
    A run that fails ends the series.
    """
    from pytest_agentmesh.simulation import Broken, play, read_scenario

    keep: Path | None = how["keep"]
    if keep is not None and keep.exists():
        raise BoardExists("The board is to be kept in a new folder, and --keep names something that is there.")
    try:
        scenario = read_scenario(file)
    except Broken as broken:
        click.echo("\n".join(map(one_line, broken.trace.splitlines())), err=True)
        raise click.ClickException(f"{place(str(file))} cannot be run: {broken}.") from broken
    played: list[Played] = []
    screen = None if app.json else Screen()
    for seed in range(how["seed"], how["seed"] + how["runs"]):
        played.append(
            play(file, scenario, seed, how["order"], within=how["within"], keep=keep, timeline=how["timeline"])
        )
        if screen is not None and (played[-1].failure or not app.quiet):
            _tell(screen, played[-1], _again(file, played[-1], how["within"]))
        if played[-1].failure:
            break
    if app.json:
        app.answer({"ok": not played[-1].failure, "runs": [one.document() for one in played]}, lambda _: None)
    if played[-1].broken:
        return errors.VIOLATED
    return errors.FAILED if played[-1].failure else errors.OK


def _tell(screen: Screen, played: Played, again: str) -> None:
    """One run for people: a line, or what went wrong and how to see it again."""
    facts = [
        *(f"{number} {state}" for state, number in played.counts.items()),
        count(played.attempts, "attempt"),
        f"{played.reclaimed} reclaimed",
        count(played.faults, "fault"),
        dollars(played.cost_pusd),
        f"{duration(played.took_us)} of board time",
        count(played.steps, "step"),
    ]
    screen.line((f"seed {played.seed}, {played.order}", "bold"), f": {', '.join(facts)}")
    if played.failure:
        screen.line(("It failed.", "bold red"))
        screen.block(played.failure)
        screen.line("Play it again:")
        screen.copyable(f"  {again}")


def _again(file: Path, played: Played, within: str) -> str:
    """The command line that plays a run once more."""
    limit = "" if within == WITHIN else f" --within {shlex.quote(within)}"
    return f"agentmesh simulate {shlex.quote(place(str(file)))} --seed {played.seed} --order {played.order}{limit}"
