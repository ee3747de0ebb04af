"""A swarm in a world: scripted agents share one board and one clock, and every promise is checked as they go.

    world = World(board)
    run = world.run(coder * 3, faults=[kill("complete_task", agent="coder-1")], order="random", seed=7)
    print(run.story())

A run ends when nobody has anything left to do, not when all tasks are final: what the board should look like then is
for the test to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from agentmesh import Board
from agentmesh.errors import AlreadyClaimed
from agentmesh.model import Finding
from pytest_agentmesh.durations import Duration, micros, words
from pytest_agentmesh.faults import Fault, FaultMark, Some
from pytest_agentmesh.promises import BrokenPromise, listed, violations
from pytest_agentmesh.swarm.agents import Agent, is_verb
from pytest_agentmesh.swarm.scheduler import Actor, Choices, Order, Scheduler, Seeded, Turnable
from pytest_agentmesh.swarm.story import Taken, indented, table, tail
from pytest_agentmesh.swarm.strikes import KINDS

SMALL_BOARD: Final = 200
"""Up to so many tasks, all rows are checked after every step."""
LARGE_EVERY: Final = 50
"""On a larger board they are checked after so many steps, and at the end."""
MOST_STEPS: Final = 50_000
CAUSES: Final = 5
"""How many causes of waiting a failure tells, gravest first."""

HowEnded = Literal["finished", "stopped", "killed", "waiting"]


class NotQuiet(AssertionError):
    """The agents still had something to do when the time, or the number of steps, was over."""


@dataclass(frozen=True, slots=True)
class AgentOutcome:
    """How an agent ended.

    `finished` its rounds, `stopped` since the board had nothing more for it, was `killed`, or is still `waiting` for
    the board. `why` is the reason that the board gave or the place where it was killed, `lost` names the attempts
    whose lease it lost, as task and fence.
    """

    agent: str
    how: HowEnded
    why: str
    rounds: int
    lost: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a run: its steps, how each agent ended, the faults that struck and those that never did."""

    steps: tuple[Taken, ...]
    outcomes: dict[str, AgentOutcome]
    marks: tuple[FaultMark, ...]
    unused_faults: tuple[Fault, ...]
    seed: int
    order: Order
    start_us: int
    took_us: int

    def story(self) -> str:
        """All steps as a table: time, agent, verb, task, reply, events."""
        return table(self.steps, self.start_us)


class World:
    """A board, the clock that it is on, and the agents that share it.

    Args:
        board: any board whose clock a test can turn; its chance decides ids, secrets and jitter.
        clock: that clock, where it is not the board's own.
        seed: the seed of runs that name none.
        order: their order: `fifo`, first come first served, or `random`.
        within: how much board time they may take.
        unchecked: promises that are not looked at, such as `P8`.
        marks: where the faults that struck are written down, if others are written there, too.
        choices: who decides what a run leaves open, given its seed and order; a `random.Random` by default.

    Raises:
        TypeError: the clock is one that nobody can turn.
    """

    def __init__(
        self,
        board: Board,
        clock: Turnable | None = None,
        *,
        seed: int = 0,
        order: Order = "fifo",
        within: Duration = "1d",
        unchecked: Iterable[str] = (),
        marks: list[FaultMark] | None = None,
        choices: Callable[[int, Order], Choices] = Seeded,
    ) -> None:
        own: object = clock or getattr(board, "clock", board.store.clock)
        if not callable(getattr(own, "advance", None)):
            raise TypeError("a swarm needs a clock that can be turned: open the board on a test clock")
        self.board = board
        self.clock: Turnable = own  # type: ignore[assignment]  # it can be turned
        self._scheduler = Scheduler(board, self.clock, [] if marks is None else marks)
        self._seed, self._order, self._within = seed, order, within
        self._unchecked = frozenset(unchecked)
        self._new_choices = choices
        self._choices = choices(seed, order)
        self._checked = 0

    def __repr__(self) -> str:
        return f"<World of {self.board}>"

    def run(
        self,
        *agents: Agent | Iterable[Agent],
        faults: Iterable[Fault | Some] = (),
        order: Order | None = None,
        seed: int | None = None,
        within: Duration | None = None,
        check_every: int | None = None,
        most_steps: int = MOST_STEPS,
    ) -> Run:
        """Let agents work until nobody has anything left to do; those of earlier runs go on with them.

        Args:
            agents: who; `agent(...) * 3` counts as three.
            faults: what goes wrong.
            order: `fifo` or `random`, else the world's.
            seed: what a random order and drawn faults come from, else the world's.
            within: how much board time it may take, else the world's.
            check_every: check all rows after so many steps, 0 only at the end; by default after each step up to 200
                tasks, after every 50 beyond.
            most_steps: how many steps it may take.

        Raises:
            BrokenPromise: a step broke a promise.
            NotQuiet: it took longer.
            ValueError: a fault or an agent is one that cannot be.
            TypeError: these are no agents.
        """
        __tracebackhide__ = True
        listed = tuple(faults)
        for fault in listed:
            _refuse_unknown(fault)
        self._seed = self._seed if seed is None else seed
        self._order = self._order if order is None else order
        self._choices = self._new_choices(self._seed, self._order)
        self._scheduler.strikes.arm(listed, self._choices.choose)
        for one in agents:
            for each in (one,) if isinstance(one, Agent) else one:
                if not isinstance(each, Agent):
                    raise TypeError(f'{each!r} is no agent: agent("coder", claim(), ...) makes one of its steps')
                self._scheduler.join(each)
        return self.until_quiet(within, check_every=check_every, most_steps=most_steps)

    def heal(self) -> None:
        """Let nothing more go wrong: faults that have not struck never will. Killed agents stay dead."""
        self._scheduler.strikes.disarm()

    def until_quiet(
        self, within: Duration | None = None, *, check_every: int | None = None, most_steps: int = MOST_STEPS
    ) -> Run:
        """Let the agents that are there go on until nobody has anything left to do; see `run`."""
        __tracebackhide__ = True
        limit = self._within if within is None else within
        began, first = self.clock.now_us(), len(self._scheduler.taken)
        end = began + micros(limit)
        self._check(None)
        for number, taken in enumerate(self._steps(end), 1):
            every = self._every() if check_every is None else check_every
            if every and number % every == 0:
                self._check(taken)
            if number >= most_steps:
                raise NotQuiet(self._unquiet(f"not quiet after {most_steps} steps"))
        self._check(self._scheduler.taken[-1] if self._scheduler.taken else None)
        if self._scheduler.due_us is not None:
            raise NotQuiet(self._unquiet(f"not quiet within {words(micros(limit))}"))
        return self._run(began, first)

    @property
    def marks(self) -> tuple[FaultMark, ...]:
        """The faults that have struck, for a history."""
        return tuple(self._scheduler.marks)

    @property
    def steps(self) -> tuple[Taken, ...]:
        """All steps so far."""
        return tuple(self._scheduler.taken)

    @property
    def took_us(self) -> int:
        """How much board time has passed since the world began."""
        return self.clock.now_us() - self._scheduler.start_us

    def story(self) -> str:
        """The last steps as a table."""
        return tail(self._scheduler.taken, self._scheduler.start_us)

    def close(self) -> None:
        """End all agents where they stand."""
        self._scheduler.close()

    def _steps(self, end_us: int) -> Iterator[Taken]:
        """The steps of the scheduler; what an agent's own code raises is told with its place."""
        __tracebackhide__ = True
        try:
            yield from self._scheduler.steps(self._choices, end_us)
        except Exception as error:
            error.add_note(f"in a swarm, {self._how()}, after:\n{self.story()}")
            raise

    def _every(self) -> int:
        return 1 if self.board.status().total <= SMALL_BOARD else LARGE_EVERY

    def _check(self, taken: Taken | None) -> None:
        """Hold the rows against the promises."""
        __tracebackhide__ = True
        if broken := violations(self.board, self._unchecked):
            raise BrokenPromise(self._broken(broken, taken))
        self._checked = taken.number if taken else self._checked

    def _broken(self, found: Sequence[Finding], taken: Taken | None) -> str:
        names = ", ".join(one.promise for one in found)
        if taken is None:
            where = f"{names} was broken before the first step of this run"
        elif taken.number <= self._checked:
            where = f"{names} was broken after step {taken.number}, not by it"
        elif taken.number == self._checked + 1:
            where = f"step {taken.number} broke {names}: {taken.agent}, {taken.verb}"
        else:
            where = f"a step from {self._checked + 1} to {taken.number} broke {names} (check_every=1 says which)"
        marked = taken.number if taken else None
        steps = tail(self._scheduler.taken, self._scheduler.start_us, marked=marked)
        return f"{where}{indented(listed(found))}\n{steps}\nreplay: {self._how()}"

    def _unquiet(self, what: str) -> str:
        active = [actor for actor in self._scheduler.actors.values() if actor.ended is None]
        who = indented(f"{actor.me.name} {self._does(actor)}" for actor in active)
        why = self.board.explain()
        board = indented([f"the board: {why.summary}", *(f"  {cause.message}" for cause in why.causes[:CAUSES])])
        return f"{what}{who}{board}\n{self.story()}\nreplay: {self._how()}"

    def _does(self, actor: Actor) -> str:
        until = "" if actor.until_us is None else f" until {words(actor.until_us - self._scheduler.start_us)}"
        if isinstance(actor.waits, AlreadyClaimed):
            return f"waits for {actor.waits.task_id}, which {actor.waits.holder} holds{until}"
        if actor.waits is not None:
            return f"waits for the board{until}: {actor.waits.message}"
        if actor.struck is not None:
            return f"stands still{until}"
        if actor.step is not None:
            return f"is about to do {actor.step.verb}"
        return f"works on {actor.me.task_id or 'nothing in particular'}{until}"

    def _how(self) -> str:
        return f'order="{self._order}", seed={self._seed}'

    def _run(self, began_us: int, first: int) -> Run:
        scheduler = self._scheduler
        return Run(
            steps=tuple(scheduler.taken[first:]),
            outcomes={name: _outcome(actor) for name, actor in scheduler.actors.items()},
            marks=tuple(scheduler.marks),
            unused_faults=scheduler.strikes.unused,
            seed=self._seed,
            order=self._order,
            start_us=scheduler.start_us,
            took_us=self.clock.now_us() - began_us,
        )


def _outcome(actor: Actor) -> AgentOutcome:
    why = actor.why
    if actor.ended is None and actor.waits is not None:
        why = actor.waits.code if isinstance(actor.waits, AlreadyClaimed) else actor.waits.reason
    lost = tuple((one.task_id, one.fence) for one in actor.me.lost)
    return AgentOutcome(actor.me.name, actor.ended or "waiting", why, actor.me.rounds, lost)


def _refuse_unknown(fault: Fault | Some) -> None:
    kinds = fault.kinds if isinstance(fault, Some) else (fault.kind,)
    if strange := [kind for kind in kinds if kind not in KINDS]:
        raise ValueError(f"a swarm knows no {strange[0]}: its faults are {', '.join(KINDS)}")
    if isinstance(fault, Fault) and fault.at != "*" and not is_verb(fault.at):
        raise ValueError(f"the board has no verb {fault.at!r}, so {fault} would never strike")
