"""The model of one agent, as a test sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from pytest_agentmesh.endpoint.environment import Address
from pytest_agentmesh.endpoint.hanging import Hanging
from pytest_agentmesh.endpoint.script import Line, Script
from pytest_agentmesh.replies import Reply, Scripted, Turn

WITHIN_SEC: Final = 10.0


def key_of(agent: str) -> str:
    """The key of an agent; a header cannot carry every name as it is."""
    return f"mesh-{quote(agent, safe='')}"


class AgentModel(Address):
    """The model of one agent, who is known by its URL or its key; `mesh_model.agent("coder-1")` makes it."""

    def __init__(self, script: Script, root: str, hanging: Hanging) -> None:
        """`Endpoint.agent` is the way."""
        self._script = script
        self._root = root
        self._hanging = hanging

    @property
    def name(self) -> str:
        """The agent's id."""
        return self._script.agent

    @property
    def key(self) -> str:
        """The API key that it is known by."""
        return key_of(self._script.agent)

    @property
    def url(self) -> str:
        """A URL of its own, for a client that takes no key; Anthropic's SDK wants it as it is."""
        return f"{self._root}/agents/{quote(self._script.agent, safe='')}"

    def script(self, *replies: Scripted, strict: bool = True) -> AgentModel:
        """Say these things, one a request, after what was scripted before; all of them must be asked for.

        Args:
            replies: replies, or functions of the turn that give one.
            strict: whether a tool call has to name a tool that was offered, with arguments that fit its schema.
        """
        with self._script.lock:
            self._script.lines += [Line(reply, strict) for reply in replies]
        return self

    def policy(self, decide: Callable[[Turn], Reply], *, strict: bool = True) -> AgentModel:
        """Answer each request that the script does not with what this function of the turn gives."""
        with self._script.lock:
            self._script.policy = (decide, strict)
        return self

    @property
    def requests(self) -> tuple[Turn, ...]:
        """What it was asked, oldest first."""
        with self._script.lock:
            return tuple(exchange.turn for exchange in self._script.exchanges)

    @property
    def hung(self) -> int:
        """How many of its requests hang."""
        return self._hanging.count(self._script.agent)

    def until_hung(self, within_sec: float = WITHIN_SEC) -> None:
        """Wait, in real time, until one of its requests hangs; then the test may turn the clock.

        Raises:
            AssertionError: none did in time.
        """
        if not self._hanging.until(self._script.agent, within_sec):
            raise AssertionError(f"mesh_model: no request of agent {self._script.agent!r} hangs after {within_sec:g} s")

    def release(self) -> None:
        """Let its requests that hang go on."""
        self._hanging.release(self._script.agent)
