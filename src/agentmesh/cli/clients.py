"""The clients that start our server: one row each, with all that tells one from another.

For another client add a row: which file, by scope and platform, how it is written, what in it holds the servers.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from agentmesh.cli.discover import HOME
from agentmesh.cli.json_form import JsonForm
from agentmesh.cli.server_entry import Form
from agentmesh.cli.toml_form import TomlForm

Scope = Literal["user", "project"]
SCOPES: Final[tuple[Scope, ...]] = ("user", "project")


@dataclass(frozen=True, slots=True)
class Machine:
    """What decides where a client keeps its file."""

    platform: str
    home: Path
    project: Path
    environment: Mapping[str, str] = field(repr=False)

    @classmethod
    def here(cls) -> Machine:
        """This one, in the current folder."""
        return cls(sys.platform, Path.home(), _project(Path.cwd()), os.environ)

    def folder(self, variable: str, *usual: str) -> Path:
        """The folder that a variable names, else the usual one below the home folder."""
        named = Path(self.environment.get(variable, ""))
        return named if named.is_absolute() else self.home.joinpath(*usual)


@dataclass(frozen=True, slots=True)
class Client:
    """A client: its file for each scope it has (the first is the usual one), and how that is written."""

    name: str
    title: str
    program: str
    folder: Callable[[Machine], Path]
    places: Mapping[Scope, Callable[[Machine], Path]]
    next_step: str
    container: str = "mcpServers"
    form: Form = field(default_factory=JsonForm)

    @property
    def usual_scope(self) -> Scope:
        """The scope that is meant when none is named."""
        return next(iter(self.places))

    def is_on(self, machine: Machine) -> bool:
        """Whether the client seems to be installed."""
        found = shutil.which(self.program, path=machine.environment.get("PATH"))
        return found is not None or self.folder(machine).is_dir()


def _project(start: Path) -> Path:
    """The root of the project we are in: the nearest folder above with a board or a git repository."""
    for folder in (start, *start.parents):
        if (folder / HOME).is_dir() or (folder / ".git").exists():
            return folder
    return start


def _claude_desktop(machine: Machine) -> Path:
    match machine.platform:
        case "darwin":
            return machine.home / "Library" / "Application Support" / "Claude"
        case "win32":
            # As a package it sees folders of its own in place of %APPDATA%; which, has changed in 2026.
            local = machine.folder("LOCALAPPDATA", "AppData", "Local")
            own = [*local.glob("Claude-Data/Claude*"), *local.glob("Packages/Claude_*/LocalCache/Roaming/Claude")]
            return own[0] if own else machine.folder("APPDATA", "AppData", "Roaming") / "Claude"
        case _:
            return machine.folder("XDG_CONFIG_HOME", ".config") / "Claude"


def _claude_code(machine: Machine) -> Path:
    return machine.folder("CLAUDE_CONFIG_DIR", ".claude")


def _claude_code_user(machine: Machine) -> Path:
    """The file lies beside the folder, unless the folder was moved."""
    return machine.folder("CLAUDE_CONFIG_DIR") / ".claude.json"


def _codex(machine: Machine) -> Path:
    return machine.folder("CODEX_HOME", ".codex")


_TABLE: Final = (
    Client(
        name="claude-desktop",
        title="Claude Desktop",
        program="claude-desktop",
        folder=_claude_desktop,
        places={"user": lambda machine: _claude_desktop(machine) / "claude_desktop_config.json"},
        next_step="Quit Claude Desktop entirely and start it again.",
    ),
    Client(
        name="claude-code",
        title="Claude Code",
        program="claude",
        folder=_claude_code,
        places={"project": lambda machine: machine.project / ".mcp.json", "user": _claude_code_user},
        next_step="Start Claude Code anew; it asks once about a project's server. /mcp shows it.",
    ),
    Client(
        name="cursor",
        title="Cursor",
        program="cursor",
        folder=lambda machine: machine.home / ".cursor",
        places={
            "project": lambda machine: machine.project / ".cursor" / "mcp.json",
            "user": lambda machine: machine.home / ".cursor" / "mcp.json",
        },
        next_step="Switch the server on in Cursor's settings, under MCP.",
        form=JsonForm(comments=True),
    ),
    Client(
        name="codex",
        title="Codex",
        program="codex",
        folder=_codex,
        places={
            "user": lambda machine: _codex(machine) / "config.toml",
            "project": lambda machine: machine.project / ".codex" / "config.toml",
        },
        next_step="Start Codex anew; a project's file counts once Codex trusts the project. /mcp shows it.",
        container="mcp_servers",
        form=TomlForm(),
    ),
)
CLIENTS: Final[dict[str, Client]] = {client.name: client for client in _TABLE}
