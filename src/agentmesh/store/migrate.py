"""Bringing a board's tables to the newest version, inside the write lock, so that any number may try at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources


@cache
def migrations(engine: str) -> tuple[tuple[int, str], ...]:
    """Every migration of an engine as (version, SQL), in order; the version is the number its file name begins with."""
    return tuple(sorted(_files(engine)))


def newest(engine: str) -> int:
    """The version that this AgentMesh writes."""
    return migrations(engine)[-1][0]


def pending(engine: str, version: int) -> Iterator[tuple[int, str]]:
    """The migrations that a board of `version` still needs."""
    return ((number, sql) for number, sql in migrations(engine) if number > version)


def _files(engine: str) -> Iterator[tuple[int, str]]:
    folder = resources.files("agentmesh.store").joinpath("migrations").joinpath(engine)
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            yield int(file.name.partition("_")[0]), file.read_text(encoding="utf-8")
