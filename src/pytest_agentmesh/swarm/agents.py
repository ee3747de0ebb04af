"""Agents as data: what an agent does, step by step, so that it can be printed, repeated, shortened and replayed.

    coder = agent("coder", claim(), work(minutes=4, beat_every=20), spend(usd=0.03), complete({"ok": True}))

An agent whose steps depend on the replies is a generator: it yields steps, and gets each one's reply sent back or its
error thrown in. Nothing here calls a board by itself: a scheduler takes the steps, one transaction each.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from typing import Any, Final

from agentmesh import Board, Lease
from agentmesh.board.claim import Claim
from agentmesh.errors import AgentMeshError, HoldExhausted, LeaseLost
from agentmesh.model import NoClaim
from pytest_agentmesh.swarm.steps import (
    Call,
    Lost,
    Step,
    Work,
    claim,
    complete,
    do,
    fail,
    get,
    heartbeat,
    note,
    put,
    release,
    spend,
    split,
    work,
)

ENDS: Final = frozenset({"complete_task", "fail_task", "release_task", "split_task"})
"""The verbs after which an agent holds its task no longer."""
PLACES: Final[dict[str, Callable[[Board], Callable[..., object]]]] = {
    "record_usage": lambda board: board.ledger.record,
    "set_budget": lambda board: board.budgets.set,
    "put_entry": lambda board: board.blackboard.put,
    "get_entry": lambda board: board.blackboard.get,
    "list_entries": lambda board: board.blackboard.list,
    "delete_entry": lambda board: board.blackboard.delete,
    "increment_entry": lambda board: board.blackboard.increment,
    "append_entry": lambda board: board.blackboard.append,
}
"""Where a verb is found that is not a method of `Board`; the names are those of the tools."""


@dataclass(slots=True)
class Me:
    """An agent at work, as its own generator sees it: what it holds, and the steps it can yield."""

    name: str
    held: Claim | None = None
    lease: Lease | None = None
    stopped: bool = False
    steps: int = 0
    rounds: int = 0
    lost: list[LeaseLost] = field(default_factory=list)
    _last: Lease | None = None

    claim = staticmethod(claim)
    work = staticmethod(work)
    heartbeat = staticmethod(heartbeat)
    spend = staticmethod(spend)
    put = staticmethod(put)
    get = staticmethod(get)
    note = staticmethod(note)
    complete = staticmethod(complete)
    fail = staticmethod(fail)
    release = staticmethod(release)
    split = staticmethod(split)
    do = staticmethod(do)

    @property
    def task_id(self) -> str | None:
        """The task in hand."""
        return self.lease.task_id if self.lease else None

    def heard(self, step: Call, reply: object) -> None:
        """Take in what an answer changes."""
        if isinstance(reply, Claim):
            self.held, self.lease, self._last = reply, reply.lease, reply.lease
        elif isinstance(reply, Lease):
            self.lease = self._last = reply
        elif isinstance(reply, NoClaim):
            self.stopped = self.stopped or reply.advice == "stop"
        elif step.verb in ENDS:
            self.drop()

    def drop(self) -> None:
        """Hold nothing any more."""
        self.held = self.lease = None

    def perform(self, board: Board, step: Call, request_id: str) -> object:
        """Make a call, signed by this agent; its reply.

        Raises:
            AgentMeshError: what the board raises.
            ValueError: it needs a lease, and this agent has claimed nothing.
        """
        method = method_of(board, step.verb)
        takes = _parameters(board, step.verb)
        lease = self._last if step.verb == "record_usage" else self.lease
        signed: dict[str, object] = {}
        if "lease" in takes and lease is not None:
            signed["lease"] = lease
        elif takes[:1] == ("lease",):
            raise ValueError(f"{self.name} has nothing in hand: {step!r} needs a claim() before it")
        elif "agent_id" in takes:
            signed["agent_id"] = self.name
        if "request_id" in takes:
            signed["request_id"] = request_id
        given = {
            name: self._filled(value) for name, value in step.options.items() if name != "request_id" or name in takes
        }
        return method(**signed | given)

    def _filled(self, value: object) -> object:
        if isinstance(value, str):
            return value.replace("{task}", self.task_id or "{task}").replace("{agent}", self.name)
        if isinstance(value, Mapping):
            return {self._filled(key): self._filled(inner) for key, inner in value.items()}
        return [self._filled(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def method_of(board: Board, verb: str) -> Callable[..., object]:
    """What a verb is on a board.

    Raises:
        AttributeError: the board has no such verb.
    """
    if verb in PLACES:
        return PLACES[verb](board)
    found: Callable[..., object] = getattr(board, verb)
    return found


def is_verb(verb: str) -> bool:
    """Whether a board has such a verb."""
    return verb in PLACES or (not verb.startswith("_") and callable(getattr(Board, verb, None)))


@cache
def _takes(method: Callable[..., object]) -> tuple[str, ...]:
    return tuple(signature(method).parameters)


def _parameters(board: Board, verb: str) -> tuple[str, ...]:
    """What a verb can be given, itself aside."""
    method: Any = method_of(board, verb)
    return _takes(method.__func__)[1:] if hasattr(method, "__func__") else _takes(method)


Play = Generator[Step, Any, Any]
Program = Callable[[Me], Play]


@dataclass(frozen=True, slots=True, repr=False)
class Agent:
    """An agent: its name, and its steps or the generator function that yields them, gone through `rounds` times.

    `rounds` None is: until the board says stop.
    """

    name: str
    does: tuple[Step, ...] | Program
    rounds: int | None = 1

    def __repr__(self) -> str:
        """As a test would write it."""
        steps = self.does if isinstance(self.does, tuple) else [getattr(self.does, "__name__", "...")]
        said = ", ".join([repr(self.name), *map(str, steps)])
        again = {1: "", None: ".forever()"}.get(self.rounds, f".times({self.rounds})")
        return f"agent({said}){again}"

    def __mul__(self, number: int) -> tuple[Agent, ...]:
        """So many of it: `agent("coder", ...) * 3` gives coder-1, coder-2 and coder-3."""
        return tuple(replace(self, name=f"{self.name}-{n}") for n in range(1, number + 1))

    def times(self, number: int) -> Agent:
        """The same, gone through `number` times; a round in which the lease is lost does not count."""
        return replace(self, rounds=number)

    def forever(self) -> Agent:
        """The same, again and again until the board says stop.

        Raises:
            ValueError: its steps have no claim, so nobody would ever say so.
        """
        steps = self.does
        if isinstance(steps, tuple) and not any(isinstance(one, Call) and one.verb == "claim_task" for one in steps):
            raise ValueError(f"{self.name} has no claim(): nothing would ever end it")
        return replace(self, rounds=None)

    def play(self, me: Me) -> Play:
        """All of its rounds, as one generator. A lost lease sends it back to the beginning."""
        while (self.rounds is None or me.rounds < self.rounds) and not me.stopped:
            before = me.steps
            me.drop()
            try:
                yield from self._round(me)
            except LeaseLost as lost:
                me.lost.append(lost)
                continue
            me.rounds += not me.stopped
            if me.steps == before:
                return  # nothing to do, now and for ever

    def _round(self, me: Me) -> Play:
        play = _script(self.does) if isinstance(self.does, tuple) else self.does(me)
        if not isinstance(play, Generator):
            raise TypeError(f"{self.name} is to be steps, or a function that yields them")
        reply: object = None
        refused: Exception | None = None
        while True:
            try:
                step = play.send(reply) if refused is None else play.throw(refused)
            except StopIteration:
                return
            me.steps += 1
            reply = refused = None
            try:
                reply = yield from _steps_of(self.name, step)
            except (AgentMeshError, Lost) as error:
                refused = error


def agent(name: str, *does: Step | Program) -> Agent:
    """An agent of this name that does these steps, or what a generator function yields.

    Raises:
        TypeError: it is given neither.
    """
    if len(does) == 1 and callable(does[0]):
        return Agent(name, does[0])
    steps = tuple(step for step in does if isinstance(step, (Call, Work)))
    if not steps or len(steps) < len(does):
        raise TypeError(f"agent {name!r} is to be given steps such as claim(), or one function that yields them")
    return Agent(name, steps)


def _script(steps: tuple[Step, ...]) -> Play:
    """The steps one after the other: what got no answer is asked again, without a task there is nothing to do."""
    for step in steps:
        reply = yield from _until_answered(step)
        if isinstance(reply, NoClaim):
            return


def _until_answered(step: Step) -> Play:
    while True:
        try:
            return (yield step)
        except Lost as lost:
            step = lost.again


def _steps_of(name: str, step: Step) -> Play:
    """What one step of an agent is to a scheduler: work with heartbeats is several."""
    if isinstance(step, Call):
        return (yield step)
    if not isinstance(step, Work):
        raise TypeError(f"{name} yielded no step: yield me.claim(), me.work(minutes=4) and the like")
    left, beat = step.sec, step.beat_every
    while beat is not None and left > beat:
        yield Work(beat)
        left -= beat
        try:
            yield from _until_answered(heartbeat())
        except HoldExhausted:
            break  # it can be renewed no more, and there is still work to do
    yield Work(left)
