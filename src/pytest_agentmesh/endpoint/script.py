"""The script of one agent: the lines that its model has to say, and what it was asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from pytest_agentmesh.endpoint.form import ScriptError
from pytest_agentmesh.endpoint.speaking import decide
from pytest_agentmesh.replies import Refusal, Reply, Scripted, Turn


@dataclass(slots=True)
class Line:
    """A reply of the script, and the numbers of the requests that it answered."""

    scripted: Scripted
    strict: bool
    answered: list[int] = field(default_factory=list)
    reply: Reply | None = None

    @property
    def is_done(self) -> bool:
        """Whether the next request gets the next reply."""
        times = self.reply.times if isinstance(self.reply, Refusal) else 1
        return len(self.answered) >= times

    def __str__(self) -> str:
        """As a test would write it."""
        said = self.reply if self.reply is not None else self.scripted
        return f"a reply by {getattr(said, '__name__', 'a function')}" if callable(said) else str(said)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request, and the reply that it got; None if the script had none."""

    turn: Turn
    line: Line | None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that could not be answered as a script would have it: what was wrong, and what may have caused it."""

    number: int | None
    what: str
    likely: str = ""
    cause: BaseException | None = None


class Script:
    """What a model says and has heard; `record` says whether its answers go to the ledger."""

    def __init__(self, agent: str, number: int, *, record: bool) -> None:
        self.agent = agent
        self.number = number
        self.record = record
        self.lock = Lock()
        self.lines: list[Line] = []
        self.policy: tuple[Callable[[Turn], Reply], bool] | None = None
        self.exchanges: list[Exchange] = []
        self.failures: list[Failure] = []

    @property
    def has_words(self) -> bool:
        """Whether it was told what to say."""
        return bool(self.lines or self.policy)

    @property
    def unsaid(self) -> list[Line]:
        """The lines that were not asked for, or not often enough."""
        return [line for line in self.lines if not line.is_done]

    def hear(self, turn: Turn) -> Exchange:
        """Take up a request: the next line is its own, or else what the policy says."""
        line = next(iter(self.unsaid), None) or (Line(*self.policy) if self.policy else None)
        if line:
            line.answered.append(turn.number)
        self.exchanges.append(Exchange(turn, line))
        return self.exchanges[-1]

    def reply(self, exchange: Exchange) -> tuple[Reply, bool]:
        """What is said to a request, and whether that is held against the tools.

        Raises:
            ScriptError: there is nothing left to say, or a function failed to.
        """
        line = exchange.line
        if line is None:
            raise self._exhausted()
        if line.reply is None:
            line.reply = decide(line.scripted, exchange.turn)
        return line.reply, line.strict

    def _exhausted(self) -> ScriptError:
        if not self.lines:
            return ScriptError(
                "there is no script for this agent", f'mesh_model.agent("{self.agent}").script(...) is missing'
            )
        return ScriptError(
            f"the script has only {len(self.lines)} {'reply' if len(self.lines) == 1 else 'replies'}",
            "the agent goes on after what was meant to be its last reply; script more of them, or give it a policy",
        )
