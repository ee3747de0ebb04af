"""The model of one agent, as a test sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from pytest_agentmesh.endpoint.environment import environment
from pytest_agentmesh.endpoint.part import Line, Part
from pytest_agentmesh.endpoint.silence import Silence
from pytest_agentmesh.replies import Reply, Scripted, Turn

WITHIN_SEC: Final = 10.0


def key_of(agent: str) -> str:
    """The key of an agent; a header cannot carry every name as it is."""
    return f"mesh-{quote(agent, safe='')}"


class AgentModel:
    """The model of one agent, who is known by its URL or its key; `mesh_model.agent("coder-1")` makes it."""

    def __init__(self, part: Part, root: str, silence: Silence) -> None:
        """`Endpoint.agent` is the way."""
        self._part = part
        self._root = root
        self._silence = silence

    @property
    def name(self) -> str:
        """The agent's id."""
        return self._part.agent

    @property
    def key(self) -> str:
        """The API key that it is known by."""
        return key_of(self._part.agent)

    @property
    def url(self) -> str:
        """A URL of its own, for a client that takes no key; Anthropic's SDK wants it as it is."""
        return f"{self._root}/agents/{quote(self._part.agent, safe='')}"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's SDK."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's SDK."""
        return f"{self.url}/v1"

    def env(self) -> dict[str, str | None]:
        """The environment in which SDKs and frameworks find this model and nothing else; None removes a variable."""
        return environment(self.openai_url, self.anthropic_url, self.key)

    def script(self, *replies: Scripted, strict: bool = True) -> AgentModel:
        """Say these things, one a request, after what was scripted before; all of them must be asked for.

        Args:
            replies: replies, or functions of the turn that give one.
            strict: whether a tool call has to name a tool that was offered, with arguments that fit its schema.
        """
        with self._part.lock:
            self._part.lines += [Line(reply, strict) for reply in replies]
        return self

    def policy(self, decide: Callable[[Turn], Reply], *, strict: bool = True) -> AgentModel:
        """Answer each request that the script does not with what this function of the turn gives."""
        with self._part.lock:
            self._part.policy = (decide, strict)
        return self

    @property
    def requests(self) -> tuple[Turn, ...]:
        """What it was asked, oldest first."""
        with self._part.lock:
            return tuple(exchange.turn for exchange in self._part.exchanges)

    @property
    def hung(self) -> int:
        """How many of its requests hang."""
        return self._silence.count(self._part.agent)

    def until_hung(self, within_sec: float = WITHIN_SEC) -> None:
        """Wait, in real time, until one of its requests hangs; then the test may turn the clock.

        Raises:
            AssertionError: none did in time.
        """
        if not self._silence.until(self._part.agent, within_sec):
            raise AssertionError(f"mesh_model: no request of agent {self._part.agent!r} hangs after {within_sec:g} s")

    def release(self) -> None:
        """Let its requests that hang go on."""
        self._silence.release(self._part.agent)
