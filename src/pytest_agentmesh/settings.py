"""What a run of pytest was told: options on the command line, keys of the ini file, the marker of a test."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import pytest

from pytest_agentmesh.promised import PROMISES

Storage = Literal["file", "memory"]
Transport = Literal["memory", "stdio", "http"]
MARKER: Final = "agentmesh"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the boards of a test are made and judged.

    `explore`: swarms run in an order drawn from the seed, not first come first served. `keep`: boards of failed tests
    stay. `timeline`: the folder for pictures of failed tests. `deadline_sec`: the real time that a test with a board
    may take; 0 for any. `unchecked`: promises that are not looked at when a test ends.
    """

    explore: bool = False
    keep: bool = False
    timeline: str | None = None
    seed: int = 0
    storage: Storage = "file"
    transport: Transport = "memory"
    deadline_sec: float = 60
    unchecked: frozenset[str] = frozenset()


def add_options(parser: pytest.Parser) -> None:
    """Tell pytest what may be said."""
    group = parser.getgroup("agentmesh", "boards and swarms of agents (AgentMesh)")
    group.addoption("--agentmesh", action="store_true", help="Run swarms in orders drawn from the seed.")
    group.addoption("--agentmesh-seed", type=int, metavar="N", help="What ids, data and orders are drawn from (0).")
    group.addoption("--agentmesh-keep", action="store_true", help="Keep the boards of failed tests, and name them.")
    group.addoption("--agentmesh-timeline", metavar="DIR", help="Draw failed tests as pages of HTML in this folder.")
    group.addoption(
        "--agentmesh-storage", choices=get_args(Storage), help="Where boards are: file (default) or memory."
    )
    group.addoption(
        "--agentmesh-transport", choices=get_args(Transport), help="How sessions reach the server: memory by default."
    )
    group.addoption(
        "--agentmesh-deadline",
        type=float,
        metavar="SEC",
        help="Real time that a test with a board may take (60; 0: any).",
    )
    parser.addini("agentmesh_seed", "What ids, data and orders are drawn from.", default="0")
    parser.addini("agentmesh_storage", "Where boards are: file or memory.", default="file")
    parser.addini("agentmesh_transport", "How sessions reach the server: memory, stdio or http.", default="memory")
    parser.addini("agentmesh_deadline", "Real seconds that a test with a board may take; 0 for any.", default="60")
    parser.addini("agentmesh_unchecked", "Promises that are not looked at, as `P8 P10`.", type="args", default=[])


def of_run(config: pytest.Config) -> Settings:
    """The settings of a whole run.

    Raises:
        pytest.UsageError: a key of the ini file has a value that it cannot have.
    """
    option = config.option
    return Settings(
        explore=option.agentmesh,
        keep=option.agentmesh_keep,
        timeline=option.agentmesh_timeline,
        seed=_seed("agentmesh_seed", _said(config, "seed")),
        storage=_choice("agentmesh_storage", _said(config, "storage"), get_args(Storage)),
        transport=_choice("agentmesh_transport", _said(config, "transport"), get_args(Transport)),
        deadline_sec=_seconds("agentmesh_deadline", _said(config, "deadline")),
        unchecked=_promises("agentmesh_unchecked", config.getini("agentmesh_unchecked")),
    )


def of_test(settings: Settings, item: pytest.Item) -> Settings:
    """The same with what the test's markers say; the nearest has the last word.

    Raises:
        pytest.UsageError: a marker says what none can say.
    """
    for marker in reversed(list(item.iter_markers(MARKER))):
        if marker.args:
            raise pytest.UsageError(f"@pytest.mark.agentmesh takes keywords only, not {marker.args[0]!r}")
        settings = changed(settings, "@pytest.mark.agentmesh", marker.kwargs)
    return settings


def check_markers(item: pytest.Item) -> None:
    """See that the test's markers can be obeyed, before anything runs.

    Raises:
        pytest.UsageError: one of them says what none can say.
    """
    try:
        of_test(Settings(), item)
    except pytest.UsageError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from None


def changed(settings: Settings, who: str, said: Mapping[str, Any]) -> Settings:
    """The same with what a marker or a call says.

    Raises:
        pytest.UsageError: it says what none can say.
    """
    change = dict(said)
    for name, value in said.items():
        where = f"{who}({name}=)"
        match name:
            case "seed":
                change[name] = _seed(where, value)
            case "storage":
                _choice(where, value, get_args(Storage))
            case "transport":
                _choice(where, value, get_args(Transport))
            case "unchecked":
                change[name] = settings.unchecked | _promises(where, value)
            case _:
                raise pytest.UsageError(f"{who} knows no {name!r}; it knows seed, storage, transport and unchecked")
    return replace(settings, **change)


def _said(config: pytest.Config, name: str) -> Any:
    given = getattr(config.option, f"agentmesh_{name}")
    return config.getini(f"agentmesh_{name}") if given is None else given


def _seed(where: str, said: Any) -> int:
    if isinstance(said, int) and not isinstance(said, bool):
        return said
    if isinstance(said, str) and re.fullmatch(r"-?[0-9]+", said.strip()):
        return int(said)
    raise pytest.UsageError(f"{where} must be a whole number, not {said!r}")


def _seconds(where: str, said: Any) -> float:
    with contextlib.suppress(ValueError):
        if 0 <= (seconds := float(said)) < math.inf:
            return seconds
    raise pytest.UsageError(f"{where} must be a number of seconds, or 0 for none, not {said!r}")


def _choice(where: str, said: Any, choices: tuple[str, ...]) -> Any:
    if said not in choices:
        raise pytest.UsageError(f"{where} must be one of {', '.join(choices)}, not {said!r}")
    return said


def _promises(where: str, said: Any) -> frozenset[str]:
    names = said.split() if isinstance(said, str) else said
    if not isinstance(names, Iterable):
        raise pytest.UsageError(f"{where} must name promises, as 'P8 P10', not {said!r}")
    found = frozenset(names)
    for name in found:
        if name not in PROMISES:
            raise pytest.UsageError(f"{where}: there is no promise {name!r}; they are P1 to P12")
    return found
