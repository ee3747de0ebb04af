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
from pytest_agentmesh.endpoint.environment import Address
from pytest_agentmesh.endpoint.front import Front
from pytest_agentmesh.endpoint.hanging import Hanging
from pytest_agentmesh.endpoint.model import AgentModel, key_of
from pytest_agentmesh.endpoint.script import Failure, Script
from pytest_agentmesh.replies import Reply, Scripted, Turn

DEFAULT: Final = "default"
"""The agent that answers for every key that is nobody's."""


class Endpoint(Address):
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
        self._scripts: dict[str, Script] = {}
        self._hanging = Hanging(told)
        self._answering = Answering(self._find, told, self._hanging, None if board is None else Booking(board))
        self._front = Front(self._answering.answer, self._crashed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving, at once: requests that hang are let go, connections are cut. Once more does nothing."""
        self._hanging.end()
        self._front.close()

    def agent(self, name: str, *, record: bool | None = None) -> AgentModel:
        """The model of an agent, made when it is first named.

        Args:
            name: the agent's id on the board, so that its tokens are charged to what it holds.
            record: whether its answers are recorded, from now on.
        """
        with self._lock:
            script = self._scripts.get(name)
            if script is None:
                limits.name("name", name)
                script = self._scripts[name] = Script(name, len(self._scripts) + 1, record=self._record)
            if record is not None:
                script.record = record
            return AgentModel(script, self.url, self._hanging)

    @property
    def url(self) -> str:
        """The root of all agents, as Anthropic's SDK wants it; the key says which agent it is."""
        return self._front.url

    @property
    def key(self) -> str:
        """The key of the default agent."""
        return self.agent(DEFAULT).key

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
            return tuple(exchange.turn for script in self._scripts.values() for exchange in script.exchanges)

    def release(self) -> None:
        """Let all requests that hang go on."""
        self._hanging.release()

    def verify(self) -> None:
        """See that every script was said to its end, and every request answered from one.

        Raises:
            AssertionError: not so; which agent, what was scripted, what came, and the likely cause.
        """
        __tracebackhide__ = True
        with self._lock:
            scripts = list(self._scripts.values())
        strange = list(self._answering.failures)
        told = [found for script in scripts if (found := verdict.of_script(script))]
        told += ["\n".join(["mesh_model: a request of no agent", *verdict.of_failure(each)]) for each in strange]
        if told:
            failures = [*(each for script in scripts for each in script.failures), *strange]
            causes = (failure.cause for failure in failures)
            raise AssertionError("\n".join(told)) from next(filter(None, causes), None)

    def _find(self, key: str, name: str | None) -> Script | None:
        """Whose request it is: the agent's by whose URL it came, or whose key it shows, or else the default's."""
        with self._lock:
            if name is not None:
                return self._scripts.get(name)
            for agent, script in self._scripts.items():
                if key_of(agent) == key:
                    return script
            default = self._scripts.get(DEFAULT)
            return default if default is not None and default.has_words else None

    def _crashed(self, error: BaseException) -> None:
        self._answering.failures.append(Failure(None, f"the endpoint itself failed: {error!r}", cause=error))
