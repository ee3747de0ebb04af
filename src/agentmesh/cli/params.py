"""Arguments that several commands take, and the types that check their form."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.core import ParameterSource

from agentmesh.cli.streams import standard_input
from agentmesh.errors import InvalidArgument
from agentmesh.model import OPERATOR, Json, Lease

AGENT_VARIABLE: Final = "AGENTMESH_AGENT"
LEASE_VARIABLE: Final = "AGENTMESH_LEASE"
AGE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(s|min|h|d|)")
SECONDS: Final = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400}
PROFILES: Final = ("worker", "lead", "observer", "all")
"""As the server has them; a test compares the two. Importing it takes half of what `--help` takes."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def read_json(text: str) -> Json:
    """Read strict JSON: no NaN, no name twice in an object.

    Raises:
        ValueError: it is not; the message says what and where.
    """

    def refuse_constant(name: str) -> NoReturn:
        message = f"{name} is no JSON value"
        raise ValueError(message)

    def refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            message = "a name stands twice in one object"
            raise ValueError(message)
        return found

    try:
        return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=refuse_twins)
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None


if TYPE_CHECKING:  # generic since click 8.4, and not to be subscripted before
    _AnyType = click.ParamType[Any]
else:
    _AnyType = click.ParamType


class JsonValue(_AnyType):
    """A JSON value: written out, `@FILE` to read one from a file, `@-` from standard input."""

    name = "json"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> Json:
        """Read the value; a defect is a usage error, never an absent value."""
        try:
            return read_json(self._text_of(value, param))
        except OSError as error:
            self.fail(f"the file cannot be read: {error.strerror}.", param, ctx)
        except UnicodeDecodeError:
            self.fail("the file is not UTF-8.", param, ctx)
        except ValueError as error:
            self.fail(f"not valid JSON: {error}. A plain text needs quotes: '\"done\"'.", param, ctx)

    @staticmethod
    def _text_of(value: str, param: click.Parameter | None) -> str:
        if value == "@-":
            named = param.opts[0] if isinstance(param, click.Option) else "VALUE"
            return standard_input(f"{named} @-").read()
        return Path(value[1:]).read_text("utf-8") if value.startswith("@") else value


class Age(_AnyType):
    """How long ago: `30d`, `12h`, `90min`, `45s`; a bare number is seconds."""

    name = "age"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read the age, in seconds."""
        found = AGE.fullmatch(str(value))
        if found is None:
            self.fail("an age is such as 30d, 12h, 90min or 45s.", param, ctx)
        return float(found[1]) * SECONDS[found[2]]


def given(values: Mapping[str, object]) -> dict[str, Any]:
    """Only the options that were given, so that the board's own defaults stay in force."""
    return {name: value for name, value in values.items() if value is not None and value != ()}


def agent_option(name: str = "agent", *, required: bool = False) -> Decorator:
    """Who acts: `--agent`, else AGENTMESH_AGENT."""
    fallback: dict[str, Any] = {} if required else {"default": OPERATOR}  # to click, None is an answer too
    return click.option(
        "--agent",
        name,
        metavar="NAME",
        envvar=AGENT_VARIABLE,
        required=required,
        **fallback,
        help=f"Who acts. Else {AGENT_VARIABLE}" + ("." if required else f", else {OPERATOR!r}."),
    )


def lease_option() -> Decorator:
    """The token that `claim` gave."""
    return click.option(
        "--lease",
        metavar="TOKEN",
        envvar=LEASE_VARIABLE,
        required=True,
        help=f"The token that claim gave. Else {LEASE_VARIABLE}, which `ps` does not show.",
    )


def request_option() -> Decorator:
    """The key that makes a repeated call harmless."""
    return click.option(
        "--request-id",
        metavar="KEY",
        help="Repeat a call with the same key, and it takes effect once.",
    )


def author_options(of_task: str) -> Decorator:
    """Whose it is: an agent's by name, or a task's, with the lease on it; `signature` reads them.

    Args:
        of_task: what `--task` means to the command.
    """

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            request_option(),
            click.option(
                "--lease", metavar="TOKEN", envvar=LEASE_VARIABLE, help=f"With --task. Else {LEASE_VARIABLE}."
            ),
            click.option("--task", metavar="ID", help=of_task),
            agent_option(),
        ):
            function = option(function)
        return function

    return add


def signature(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """Take these options out of all that were given: as the lease, or the agent and perhaps a task without one."""
    task, token, agent = options.pop("task", None), options.pop("lease", None), options.pop("agent")
    if task is not None and token is not None:
        return {"lease": read_lease(task, token)}
    if context.get_parameter_source("lease") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--lease needs --task, the task that it is for.")
    return {"agent_id": agent} | ({} if task is None else {"task_id": task})


def profile_option(default: str) -> Decorator:
    """What a session is shown."""
    return click.option(
        "--profile",
        type=click.Choice(PROFILES),
        default=default,
        show_default=True,
        help="What the session is shown: tools to work, to plan and steer, to look, or all.",
    )


def keepalive_option(default: float) -> Decorator:
    """How long a server cares for a lease without hearing of its task."""
    return click.option(
        "--keepalive",
        "keepalive_sec",
        metavar="SEC",
        type=click.FloatRange(min=0),
        default=default,
        show_default=True,
        help="Renew a claimed task for so long after the last call that named it.",
    )


def test_clock_option() -> Decorator:
    """Whether the board is a test's."""
    return click.option("--test-clock", is_flag=True, help="Serve a test's board, on the clock that its test turns.")


def durability_option() -> Decorator:
    """What a commit survives."""
    return click.option(
        "--durability",
        type=click.Choice(["full", "normal"]),
        default="full",
        show_default=True,
        help="normal is faster; a power cut may cost the last writes.",
    )


def read_lease(task: str, token: str) -> Lease:
    """The lease that a token stands for; its form is checked here, its right by the board."""
    lease = Lease.from_token(task, token)
    if lease is None:
        raise InvalidArgument("lease", "this has not the form of a lease token")
    return lease
