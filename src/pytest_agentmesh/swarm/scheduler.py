"""Who steps next, and when: agents on a board and a clock that a test turns, one transaction at a time.

What a run leaves open is decided in one place, `Choices`, by number; nothing else here is left to chance. So a run is
repeated by its choices, and whoever explores runs brings choices of his own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from agentmesh import Board
from agentmesh.clock import Clock
from agentmesh.errors import AgentMeshError, AlreadyClaimed
from agentmesh.model import FINAL, NoClaim, Status
from pytest_agentmesh.durations import words
from pytest_agentmesh.faults import Fault, FaultMark, Kind
from pytest_agentmesh.swarm.agents import Agent, Me, Play
from pytest_agentmesh.swarm.steps import Call, Lost, Step
from pytest_agentmesh.swarm.story import Taken, said
from pytest_agentmesh.swarm.strikes import Strikes

Order = Literal["fifo", "random"]
Ended = Literal["finished", "stopped", "killed"]
PAST_US: Final = 1_000_000
"""How long past its lease a stalled agent stands still."""
IDLE_US: Final = 60_000_000
"""How long one stands still that has no lease."""
TIMED: Final = frozenset({"released", "storm", "budget", "paused"})
"""Reasons for no claim that end at an instant of their own, which no lease and no task is due at."""


class Turnable(Clock, Protocol):
    """A clock that a test turns."""

    def advance(self, sec: float, /) -> object:
        """Let time pass."""
        ...


class Choices(Protocol):
    """What decides everything that a run leaves open."""

    def choose(self, what: str, options: int) -> int:
        """A number below `options`. `what` is `who` (steps next; 0 came first), or `faults`, `gap`, `kind`."""
        ...


class Seeded:
    """Choices by a seed; in order `fifo` whoever came first steps first, and only faults are drawn."""

    def __init__(self, seed: int, order: Order) -> None:
        self._random = random.Random(seed)
        self._order = order

    def choose(self, what: str, options: int) -> int:
        """See `Choices`."""
        return 0 if options == 1 or (what == "who" and self._order == "fifo") else self._random.randrange(options)


@dataclass(slots=True, eq=False)
class Actor:
    """An agent in a run: its session on the board, its steps, the call it wants to make, what it is waiting for."""

    me: Me
    board: Board
    play: Play
    step: Call | None = None
    request_id: str = ""
    struck: tuple[Fault, ...] | None = None
    until_us: int | None = None
    waits: NoClaim | AlreadyClaimed | None = None
    ended: Ended | None = None
    why: str = ""

    @property
    def parked(self) -> bool:
        """Whether it waits, for a time or for the board."""
        return self.until_us is not None or self.waits is not None

    def wake(self) -> None:
        """Let it go on."""
        self.until_us = self.waits = None


class Scheduler:
    """Agents on one board, each at its next step."""

    def __init__(self, board: Board, clock: Turnable, marks: list[FaultMark]) -> None:
        self.board = board
        self.clock = clock
        self.start_us = clock.now_us()
        self.strikes = Strikes()
        self.actors: dict[str, Actor] = {}
        self.taken: list[Taken] = []
        self.marks = marks
        self._queue: list[Actor] = []
        self._parked: list[Actor] = []
        self._seq = self._seen = self._first = board.status().last_seq
        self._calls = 0

    def join(self, agent: Agent) -> None:
        """Let an agent begin.

        Raises:
            ValueError: one of this name is still at it.
        """
        there = self.actors.get(agent.name)
        if there is not None and there.ended is None:
            raise ValueError(f"there is an agent {agent.name!r} already: give this one another name")
        me = Me(agent.name)
        actor = self.actors[agent.name] = Actor(me, Board(self.board.store), agent.play(me))
        self._go_on(actor)

    def steps(self, choices: Choices, end_us: int) -> Iterator[Taken]:
        """Take steps until nobody has anything to do, or time would have to pass beyond `end_us`.

        When nobody can step, the clock moves to the next instant at which somebody can.
        """
        while True:
            self._wake()
            if self._queue:
                yield self._take(self._queue.pop(choices.choose("who", len(self._queue))))
            elif (due := self.due_us) is None or due > end_us:
                return
            else:
                self.clock.advance((due - self.clock.now_us()) / 1_000_000)

    @property
    def due_us(self) -> int | None:
        """The next instant at which time lets somebody go on; None when nobody waits for time."""
        return min((actor.until_us for actor in self._parked if actor.until_us is not None), default=None)

    def close(self) -> None:
        """End all agents where they stand."""
        for actor in self.actors.values():
            actor.play.close()

    def _wake(self) -> None:
        """Let those go on whose time has come, and those for whom the board has changed for the better."""
        now, status = self.clock.now_us(), self.board.status()
        changed, self._seen = status.last_seq != self._seen, status.last_seq
        self._seq = self._seen
        awake = []
        for actor in self._parked:
            due = actor.until_us is not None and actor.until_us <= now
            if actor.waits is None or actor.step is None:
                if due:
                    awake.append(actor)
            elif due or changed:
                if self._worth_asking(actor, actor.step, actor.waits, status, due=due):
                    awake.append(actor)
                elif _reason(actor.waits) not in TIMED:
                    actor.until_us = status.next_due_us  # a heartbeat may have moved it
        awake.sort(key=lambda one: now if one.until_us is None else one.until_us)
        for actor in awake:
            actor.wake()
        self._parked = [actor for actor in self._parked if actor.parked]
        for actor in awake:
            self._arrive(actor)

    def _worth_asking(
        self, actor: Actor, step: Call, waits: NoClaim | AlreadyClaimed, status: Status, *, due: bool
    ) -> bool:
        """Whether a claim that got nothing may get something now; a plain read, so that no step is spent on a no."""
        wishes, now = step.options, self.clock.now_us()
        if isinstance(waits, AlreadyClaimed) or "task_id" in wishes or "resume" in wishes:
            return True
        if due and (waits.reason in TIMED or (status.next_due_us is not None and status.next_due_us <= now)):
            return True
        plans = [one for one in status.plans if wishes.get("plan") in (None, one.plan)]
        if all(state in FINAL for one in plans for state, number in one.counts.items() if number):
            return True  # it will be told to stop
        asks: dict[str, Any] = {name: wishes[name] for name in ("plan", "capabilities", "tags") if name in wishes}
        return self.board.has_work(agent_id=actor.me.name, **asks)

    def _arrive(self, actor: Actor) -> None:
        """Put an actor where it belongs: among those that can step, or those that wait."""
        if actor.parked:
            self._parked.append(actor)
        elif actor.step is None:
            self._go_on(actor)
        else:
            self._queue.append(actor)

    def _go_on(self, actor: Actor, reply: object = None, error: Exception | None = None) -> None:
        """Hand an actor its answer, and see what it wants to do next."""
        actor.step = None
        try:
            step: Step = actor.play.send(reply) if error is None else actor.play.throw(error)
        except StopIteration:
            actor.ended = "stopped" if actor.me.stopped else "finished"
            return
        if isinstance(step, Call):
            self._calls += 1
            actor.step, actor.request_id = step, f"{self._first}.{self._calls}"
        else:
            actor.until_us = self.clock.now_us() + round(step.sec * 1_000_000)
        self._arrive(actor)

    def _take(self, actor: Actor) -> Taken:
        """One step of an actor: its call, or the fault that strikes it there."""
        step, me = actor.step, actor.me
        if step is None:
            raise AssertionError(f"{me.name} is to step and has no step")
        faults = actor.struck
        if faults is None:
            faults = self.strikes.at(me.name, step.verb, holds=me.lease is not None)
        actor.struck = None
        kinds = {fault.kind: fault for fault in faults}
        still = kinds.get("stall") or kinds.get("delay")
        if still is not None:
            actor.struck = tuple(fault for fault in faults if fault is not still)
            return self._stand_still(actor, step, still)
        if "kill" in kinds and "lost_reply" not in kinds:
            return self._kill(actor, step, kinds["kill"])
        if "lost_request" in kinds:
            return self._lose(actor, step, kinds["lost_request"], "request lost")
        return self._call(actor, step, kinds)

    def _call(self, actor: Actor, step: Call, kinds: dict[Kind, Fault]) -> Taken:
        reply: object = None
        refused: AgentMeshError | None = None
        try:
            reply = actor.me.perform(actor.board, step, actor.request_id)
        except AgentMeshError as error:
            refused = error
        words = said(reply if refused is None else refused, self.start_us)
        task_id = getattr(getattr(reply, "lease", reply), "task_id", None)
        if "lost_reply" in kinds:
            return self._lose_reply(actor, step, kinds, f"{words}; reply lost", task_id)
        waits = _to_wait_for(step, refused or reply)
        if waits is not None:
            taken = self._record(actor, step, f"{words}, waits", task_id)
            actor.waits, actor.until_us = waits, self._due_again(waits)
            self._arrive(actor)
            return taken
        taken = self._record(actor, step, words, task_id)
        if refused is None:
            actor.me.heard(step, reply)
        if isinstance(reply, NoClaim):
            actor.why = reply.reason
        self._go_on(actor, reply, refused)
        return taken

    def _lose_reply(self, actor: Actor, step: Call, kinds: dict[Kind, Fault], words: str, task_id: str | None) -> Taken:
        if "kill" not in kinds:
            return self._lose(actor, step, kinds["lost_reply"], words, task_id)
        self._mark(actor, step, kinds["lost_reply"], "its reply is lost")
        return self._kill(actor, step, kinds["kill"], f"{words}, killed", task_id)

    def _lose(self, actor: Actor, step: Call, fault: Fault, words: str, task_id: str | None = None) -> Taken:
        self._mark(actor, step, fault, "its reply is lost" if fault.kind == "lost_reply" else "its request is lost")
        taken = self._record(actor, step, words, task_id)
        self._go_on(actor, error=Lost(step, actor.request_id))
        return taken

    def _kill(
        self, actor: Actor, step: Call, fault: Fault, words: str = "killed before it", task_id: str | None = None
    ) -> Taken:
        self._mark(actor, step, fault, "it dies")
        taken = self._record(actor, step, words, task_id)
        actor.ended, actor.why = "killed", f"at {step.verb}"
        actor.play.close()
        return taken

    def _stand_still(self, actor: Actor, step: Call, fault: Fault) -> Taken:
        now, lease = self.clock.now_us(), actor.me.lease
        if fault.sec is not None:
            until = now + round(fault.sec * 1_000_000)
        elif lease is not None:
            until = max(now, lease.expires_us) + PAST_US
        else:
            until = now + IDLE_US
        self._mark(actor, step, fault, f"it stands still for {words(until - now)}")
        taken = self._record(actor, step, f"stands still until {words(until - self.start_us)}")
        actor.until_us = until
        self._arrive(actor)
        return taken

    def _due_again(self, waits: NoClaim | AlreadyClaimed) -> int | None:
        """When time may give an agent what it did not get."""
        due = waits.lease_expires_us if isinstance(waits, AlreadyClaimed) else waits.retry_at_us
        dues = [due, self.board.status().next_due_us]
        return min((at for at in dues if at is not None and at > self.clock.now_us()), default=None)

    def _mark(self, actor: Actor, step: Call, fault: Fault, what: str) -> None:
        self.marks.append(FaultMark(self.clock.now_us(), fault, actor.me.name, step.verb, what))

    def _record(self, actor: Actor, step: Call, words: str, task_id: str | None = None) -> Taken:
        """Write a step down, with the events that there are since the last one: nobody else has written any."""
        last = self.board.status().last_seq
        events = tuple(range(self._seq + 1, last + 1))
        self._seq = last
        about = task_id or actor.me.task_id
        taken = Taken(len(self.taken) + 1, self.clock.now_us(), actor.me.name, step.verb, about, words, events)
        self.taken.append(taken)
        return taken


def _reason(waits: NoClaim | AlreadyClaimed) -> str:
    return waits.code if isinstance(waits, AlreadyClaimed) else waits.reason


def _to_wait_for(step: Call, answer: object) -> NoClaim | AlreadyClaimed | None:
    """The answer to a claim that is to be asked again later; None where it is final."""
    if not step.waits:
        return None
    if isinstance(answer, AlreadyClaimed) or (isinstance(answer, NoClaim) and answer.advice != "stop"):
        return answer
    return None
