"""The SQL of the board: named statements in `sql/*.sql`, read once, put into an engine's dialect.

A statement begins with `-- name: NAME`, one or more comment lines that say what it means, then the SQL. Words in
comment marks (`/*for_update*/`) are replaced by the engine's dialect: a row-lock clause, or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any

from agentmesh.errors import StoreError

NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
PARAMETER = re.compile(r":(\w+)")
DIALECT_WORD = re.compile(r"/\*(\w+)\*/")


@cache
def shared_statements() -> Mapping[str, str]:
    """Every shared statement by name, dialect words still in it."""
    found: dict[str, str] = {}
    for file in sorted(resources.files("agentmesh.store").joinpath("sql").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".sql"):
            for name, text in parse(file.read_text(encoding="utf-8")).items():
                if name in found:
                    message = f"Statement {name!r} is defined twice."
                    raise StoreError(message)
                found[name] = text
    return found


def parse(text: str) -> dict[str, str]:
    """The statements of one file, without their comments."""
    parts = NAME.split(text)[1:]
    return {name: _bare(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _bare(body: str) -> str:
    lines = (line.rstrip() for line in body.splitlines() if not line.startswith("--"))
    return "\n".join(line for line in lines if line).rstrip(";")


def in_dialect(words: Mapping[str, str]) -> dict[str, str]:
    """The shared statements in the dialect that `words` describes; a missing word is an error."""
    return {
        name: DIALECT_WORD.sub(lambda match: words[match.group(1)], text) for name, text in shared_statements().items()
    }


@cache
def in_order(sql: str) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """What puts the parameters of a statement in the order in which SQLite numbers them: that of their first mention.

    Given them by name, the driver looks up each name anew, for 0.1 to 0.3 us a statement.
    """
    names = tuple(dict.fromkeys(PARAMETER.findall(sql)))
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple(values[name] for name in names)
