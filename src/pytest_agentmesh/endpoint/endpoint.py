"""`Endpoint`: the scripted models of all agents of a test, at one address."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import Final, Self

from agentmesh import Board, limits
from agentmesh.clock import Clock, SystemClock
from pytest_agentmesh.boards import MeshBoard
from pytest_agentmesh.clock import MeshClock
from pytest_agentmesh.endpoint import verdict
from pytest_agentmesh.endpoint.answering import Answering
from pytest_agentmesh.endpoint.booking import Booking
from pytest_agentmesh.endpoint.environment import environment
from pytest_agentmesh.endpoint.front import Front
from pytest_agentmesh.endpoint.model import AgentModel, key_of
from pytest_agentmesh.endpoint.part import Failure, Part
from pytest_agentmesh.endpoint.silence import Silence
from pytest_agentmesh.replies import Reply, Scripted, Turn

DEFAULT: Final = "default"
"""The agent that answers for every key that is nobody's."""


class Endpoint:
    """A scripted stand-in for an LLM endpoint on loopback; the fixture `mesh_model` is one.

    What is done to the endpoint itself is done to its default agent, which also answers to keys it does not know.
    Any thread may use it. Close it, or use it in a `with`: its threads outlive a test that forgets to.
    """

    def __init__(
        self, board: Board | None = None, clock: Clock | MeshClock | None = None, *, record: bool = True
    ) -> None:
        """Begin to serve.

        Args:
            board: whose ledger is told what answers cost; none without one.
            clock: tells how long a `hang` is, and dates answers; that of a test board when not given, or the system's.
            record: whether agents' answers are recorded unless they say otherwise.
        """
        turned = board.clock if clock is None and isinstance(board, MeshBoard) else clock
        told: Clock = turned.cell if isinstance(turned, MeshClock) else turned or SystemClock()
        self._lock = RLock()
        self._record = record
        self._parts: dict[str, Part] = {}
        self._silence = Silence(told)
        self._answering = Answering(self._find, told, self._silence, None if board is None else Booking(board))
        self._front = Front(self._answering.answer, self._crashed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, at once: requests that hang are let go, connections are cut. Once more does nothing."""
        self._silence.end()
        self._front.close()

    def agent(self, name: str, *, record: bool | None = None) -> AgentModel:
        """The model of an agent, made when it is first named.

        Args:
            name: the agent's id on the board, so that its tokens are charged to what it holds.
            record: whether its answers are recorded, from now on.
        """
        with self._lock:
            part = self._parts.get(name)
            if part is None:
                limits.name("name", name)
                part = self._parts[name] = Part(name, len(self._parts) + 1, record=self._record)
            if record is not None:
                part.record = record
            return AgentModel(part, self.url, self._silence)

    @property
    def url(self) -> str:
        """The root of all agents, as Anthropic's SDK wants it; the key says which agent it is."""
        return self._front.url

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's SDK."""
        return self.url

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's SDK."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """The key of the default agent."""
        return self.agent(DEFAULT).key

    def env(self) -> dict[str, str | None]:
        """The environment in which SDKs and frameworks find this endpoint and nothing else; None removes a variable."""
        return environment(self.openai_url, self.anthropic_url, self.key)

    def script(self, *replies: Scripted, strict: bool = True) -> AgentModel:
        """Script the default agent; see `AgentModel.script`."""
        return self.agent(DEFAULT).script(*replies, strict=strict)

    def policy(self, decide: Callable[[Turn], Reply], *, strict: bool = True) -> AgentModel:
        """Give the default agent a policy; see `AgentModel.policy`."""
        return self.agent(DEFAULT).policy(decide, strict=strict)

    @property
    def requests(self) -> tuple[Turn, ...]:
        """What all agents asked, agent by agent."""
        with self._lock:
            return tuple(exchange.turn for part in self._parts.values() for exchange in part.exchanges)

    def release(self) -> None:
        """Let all requests that hang go on."""
        self._silence.release()

    def verify(self) -> None:
        """See that every script was said to its end, and every request answered from one.

        Raises:
            AssertionError: not so; which agent, what was scripted, what came, and the likely cause.
        """
        __tracebackhide__ = True
        with self._lock:
            parts = list(self._parts.values())
        strange = list(self._answering.failures)
        told = [found for part in parts if (found := verdict.of_part(part))]
        told += ["\n".join(["mesh_model: a request of no agent", *verdict.of_failure(each)]) for each in strange]
        if told:
            causes = (failure.cause for failure in [*(each for part in parts for each in part.failures), *strange])
            raise AssertionError("\n".join(told)) from next(filter(None, causes), None)

    def _find(self, key: str, name: str | None) -> Part | None:
        """Whose request it is: the agent's by whose URL it came, or whose key it shows, or else the default's."""
        with self._lock:
            if name is not None:
                return self._parts.get(name)
            for agent, part in self._parts.items():
                if key_of(agent) == key:
                    return part
            default = self._parts.get(DEFAULT)
            return default if default is not None and default.has_words else None

    def _crashed(self, error: BaseException) -> None:
        self._answering.failures.append(Failure(None, f"the endpoint itself failed: {error!r}", cause=error))
