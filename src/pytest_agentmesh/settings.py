"""What a run of pytest was told: options on the command line, keys of the ini file, the marker of a test."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

import pytest

Storage = Literal["file", "memory"]
Transport = Literal["memory", "stdio", "http"]
PROMISES: Final = tuple(f"P{number}" for number in range(1, 13))
MARKER: Final = "agentmesh"


@dataclass(frozen=True, slots=True)
class Settings:
    """How the boards of a test are made and judged.

    `explore`: swarms run in an order drawn from the seed, not first come first served. `keep`: boards of failed tests
    stay. `deadline_sec`: the real time that a test with a board may take; 0 for any. `unchecked`: promises that are not
    looked at when a test ends.
    """

    explore: bool = False
    keep: bool = False
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
        seed=_number(config, "seed", int),
        storage=_choice("agentmesh_storage", _said(config, "storage"), get_args(Storage)),
        transport=_choice("agentmesh_transport", _said(config, "transport"), get_args(Transport)),
        deadline_sec=_number(config, "deadline", float),
        unchecked=_promises("agentmesh_unchecked", config.getini("agentmesh_unchecked")),
    )


def of_test(settings: Settings, item: pytest.Item) -> Settings:
    """The same with what the test's markers say; the nearest has the last word.

    Raises:
        pytest.UsageError: a marker says what none can say.
    """
    for marker in reversed(list(item.iter_markers(MARKER))):
        settings = _marked(settings, marker)
    return settings


def _marked(settings: Settings, marker: pytest.Mark) -> Settings:
    if marker.args:
        raise pytest.UsageError(f"@pytest.mark.agentmesh takes keywords only, not {marker.args[0]!r}")
    said: dict[str, Any] = dict(marker.kwargs)
    for name, choices in (("storage", get_args(Storage)), ("transport", get_args(Transport))):
        if name in said:
            _choice(f"agentmesh({name}=)", said[name], choices)
    if "unchecked" in said:
        names = said["unchecked"]
        promises = _promises("agentmesh(unchecked=)", names.split() if isinstance(names, str) else list(names))
        said["unchecked"] = settings.unchecked | promises
    if strange := sorted(said.keys() - {"storage", "transport", "unchecked", "seed"}):
        raise pytest.UsageError(f"@pytest.mark.agentmesh knows no {strange[0]!r}; it knows {MARKER_WORDS}")
    return replace(settings, **said)


MARKER_WORDS: Final = "seed, storage, transport and unchecked"


def _said(config: pytest.Config, name: str) -> Any:
    given = getattr(config.option, f"agentmesh_{name}")
    return config.getini(f"agentmesh_{name}") if given is None else given


def _number(config: pytest.Config, name: str, kind: type[Any]) -> Any:
    try:
        return kind(_said(config, name))
    except ValueError:
        raise pytest.UsageError(f"agentmesh_{name} must be a number") from None


def _choice(where: str, said: Any, choices: tuple[str, ...]) -> Any:
    if said not in choices:
        raise pytest.UsageError(f"{where} must be one of {', '.join(choices)}, not {said!r}")
    return said


def _promises(where: str, names: list[str]) -> frozenset[str]:
    for name in names:
        if name not in PROMISES:
            raise pytest.UsageError(f"{where}: there is no promise {name!r}; they are P1 to P12")
    return frozenset(names)
