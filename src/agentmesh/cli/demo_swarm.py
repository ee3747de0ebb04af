"""The processes of the demo: four scripted agents, each with an MCP server of its own as its child.

What an agent and its server write to stderr goes through one pipe into a log file. The pipe has
ended when both have ended, which shows that a server does not outlive a killed agent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from agentmesh.cli.command import BOARD_VARIABLE
from agentmesh.cli.params import AGENT_VARIABLE, LEASE_VARIABLE
from agentmesh.errors import AgentMeshError

_LAST_WORDS_SEC: Final = 5


@dataclass(frozen=True, slots=True)
class Role:
    """An agent of the demo and what it can do."""

    name: str
    capabilities: tuple[str, ...]


ROLES: Final = (
    Role("ada", ("backend",)),
    Role("ben", ("backend", "browser")),
    Role("cleo", ("backend", "browser")),
    Role("dora", ("browser",)),
)


class AgentProcess:
    """A running agent."""

    def __init__(self, role: Role, board: Path, plan: str, log: Path) -> None:
        self.role: Final = role
        self._gone = threading.Event()
        self._log = log
        command = [sys.executable, "-m", "agentmesh.cli.demo_agent", role.name]
        command += ["--board", str(board), "--plan", plan]
        for capability in role.capabilities:
            command += ["--capability", capability]
        self._process = subprocess.Popen(  # noqa: S603 - our own agent
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=_environment(),
        )
        self._reader = threading.Thread(target=self._keep_log, daemon=True)
        self._reader.start()
        self.server_pid: int | None = None

    @property
    def pid(self) -> int:
        """The agent's process."""
        return self._process.pid

    def meet(self) -> Self:
        """Wait until its server has answered.

        Raises:
            AgentMeshError: the agent ended instead.
        """
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise AgentMeshError(f"Agent {self.role.name} did not start.", hint=f"Its log says why: {self._log}")
        self.server_pid = json.loads(line)["server_pid"]
        return self

    def kill(self) -> bool:
        """Kill the agent with SIGKILL; whether its server then ended by itself."""
        self._process.kill()
        self._process.wait()
        return self._gone.wait(_LAST_WORDS_SEC)

    def ended(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.poll()

    def close(self) -> None:
        """See that neither the agent nor its server is left behind."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS_SEC)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        if not self._gone.wait(_LAST_WORDS_SEC) and self.server_pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.server_pid, signal.SIGTERM)
        self._reader.join(_LAST_WORDS_SEC)
        _pipe(self._process.stdout).close()
        _pipe(self._process.stderr).close()

    def _keep_log(self) -> None:
        with self._log.open("wb") as kept:
            for line in _pipe(self._process.stderr):
                kept.write(line)
        self._gone.set()


@contextmanager
def swarm(roles: Sequence[Role], board: Path, plan: str) -> Iterator[dict[str, AgentProcess]]:
    """The agents at work; whatever happens, none is left behind."""
    agents: dict[str, AgentProcess] = {}
    try:
        for role in roles:
            log = board.with_name(f"{role.name}.log")
            agents[role.name] = AgentProcess(role, board, plan, log)
        for agent in agents.values():
            agent.meet()
        yield agents
    except BaseException:
        for agent in agents.values():
            agent.kill()
        raise
    finally:
        for agent in agents.values():
            agent.close()


def _environment() -> dict[str, str]:
    """Our environment, without what would point an agent at another board or name."""
    ours = (BOARD_VARIABLE, AGENT_VARIABLE, LEASE_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in ours}


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:  # pragma: no cover - every pipe was asked for
        raise ValueError
    return pipe
