"""Our server's entry in a client's file: what it says, whether one is ours, and that an edit changed nothing else."""

from __future__ import annotations

import sys
from pathlib import PureWindowsPath
from typing import Any, Protocol

Entry = dict[str, Any]
Where = tuple[str, str]
"""The table or object that holds a client's servers, and the name of ours in it."""


class Unfit(ValueError):
    """A text that is not edited; says where and why."""


class Form(Protocol):
    """How a client writes its file, edited as text: what is not our entry keeps every byte."""

    def fresh(self, container: str) -> str:
        """A new file without a server."""

    def read(self, text: str, where: Where) -> object:
        """What stands there, None if nothing does.

        Raises:
            Unfit: the text is broken, or what should hold the servers does not.
        """

    def put(self, text: str, where: Where, entry: Entry) -> str:
        """The text with our entry: added, or its fields set where it is there already.

        Raises:
            Unfit: as `read`, or its form does not allow the edit.
        """

    def take(self, text: str, where: Where) -> str:
        """The text without our entry; what `put` added around it goes too.

        Raises:
            Unfit: as `put`.
        """


def server_entry(board: str, agent: str | None, profile: str | None) -> Entry:
    """How a client starts our server.

    It names this interpreter: a client starts without the user's shell, so it knows neither his PATH nor an activated
    venv. The path is not resolved, since a venv's interpreter is a link out of it. `-P` keeps Python from importing
    what lies in the folder where the client starts it: that is a checkout, and not to be trusted.
    """
    options = {"--board": board, "--agent": agent, "--profile": profile}
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    return {"command": sys.executable, "args": ["-P", "-m", "agentmesh.cli", "run", *given]}


def is_ours(entry: object) -> bool:
    """Whether an entry starts our server, by whatever command: an interpreter, the script, uvx."""
    match entry:
        case {"command": str(command), "args": list(args)}:
            words = (PureWindowsPath(command).stem, *args)
            return "run" in args and ("agentmesh" in words or "agentmesh.cli" in words)
        case _:
            return False


def prove(before: dict[str, Any], after: dict[str, Any], where: Where, entry: Entry | None) -> None:
    """See that an edit did what it should to our entry, and nothing to the rest.

    Raises:
        Unfit: it did not.
    """
    container, name = where
    old, new = (document.get(container, {}) for document in (before, after))
    wanted = None if entry is None else old.get(name, {}) | entry
    if new.get(name) != wanted or _rest(before, where) != _rest(after, where):
        raise Unfit("it is written in a way that cannot be edited safely")


def _rest(document: dict[str, Any], where: Where) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that is not ours; whether an empty container is there makes no difference."""
    container, name = where
    others = {key: value for key, value in document.items() if key != container}
    return others, {key: value for key, value in document.get(container, {}).items() if key != name}
