"""The clock of a test board, in the hands of its test.

Time stands still until the test turns it. `advance` stops at every deadline on the way and lets whoever waits for it
see that instant, as real time would; one leap over all of them is `jump`, which is what a laptop does that slept.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from agentmesh import Board
from agentmesh.board.status import next_instant
from agentmesh.cell import AGENT, HOLD, PARKED, RUNNING, TIMER, CellClock, Stand, state
from agentmesh.clock import Patience
from agentmesh.errors import BoardClosed
from agentmesh.model import Status
from agentmesh.store.parking import LONG_US, ClockedAlarm, clock_berth
from agentmesh.store.waiting import Berth
from pytest_agentmesh import pages
from pytest_agentmesh.durations import Duration, micros, words

PATIENCE_US: Final = 20_000_000
"""How long, in real time, those who wait may need to see a new time; more means that somebody hangs."""
AGAIN_US: Final = 50_000
"""After how long, in real time, whoever still sleeps is poked once more: a poke is not lost, but to hang is worse."""
BREATH_SEC: Final = 0.0005
LATEST_US: Final = 253_370_764_800_000_000
"""The year 9999: what is due up to a year later can still be said."""
EVERYBODY: Final = 1 << 30

Kind = Literal["lease", "scheduled", "entry", "storm", "pause", "wait", "timer"]


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """An instant at which time alone changes something: a lease runs out, a call that waits gives up."""

    at_us: int
    kind: Kind
    what: str

    def __str__(self) -> str:
        """As a failure message shows it."""
        return f"{instant(self.at_us)}  {self.what}"


class ClockStuck(RuntimeError):
    """Somebody who waits on the clock does not take note of the new time."""


class MeshClock:
    """Turns the time of one board, for every thread and process that has it open."""

    def __init__(self, cell: CellClock, board: Board | None = None) -> None:
        """Take a cell in hand; `board` is the one whose deadlines are visited."""
        self.cell = cell
        self.board = board
        self._berth: Berth | None = None
        self._turning = threading.RLock()
        self._poked = 0
        self._again = self._patience = Patience(0)
        self._known: int | None = None
        self._movers: list[int | None] = []
        self._failure: BaseException | None = None

    def __repr__(self) -> str:
        return f"<MeshClock {instant(self.now_us())}>"

    @property
    def now(self) -> datetime:
        """The time, UTC."""
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=self.now_us())

    def now_us(self) -> int:
        """The time in microseconds since the Unix epoch, UTC."""
        return self.cell.now_us()

    def advance(self, duration: Duration) -> datetime:
        """Let time pass, with a stop at every deadline on the way; the time it then is.

        Returns when each call that waits has seen the last instant: it has returned, or it waits on.

        Raises:
            ValueError: the duration is negative (`jump` goes back), or the calendar ends.
            ClockStuck: somebody who waits does not take note.
        """
        us = micros(duration)
        if us < 0:
            raise ValueError(f"advance() goes forward only, not by {words(us)}; jump() sets the clock back")
        with self._turning:
            until_us = _possible(self.now_us() + us)
            self._settle()
            while self.now_us() < until_us:
                self._go_on(until_us)
        return self.now

    def to_next(self) -> Deadline:
        """Go to the next deadline; which it is.

        Raises:
            AssertionError: there is none.
        """
        with self._turning:
            self._settle()
            ahead = [due for due in self.deadlines() if due.at_us > self.now_us()]
            if not ahead:
                raise AssertionError(f"no deadline is ahead of {instant(self.now_us())}: nothing waits for the clock")
            while self.now_us() < ahead[0].at_us:
                self._go_on(ahead[0].at_us)
        return ahead[0]

    def run_until(self, condition: Callable[[], object], *, within: Duration = "1h") -> datetime:
        """Let time pass from deadline to deadline until `condition()` is true; the time it then is.

        Raises:
            AssertionError: it is not true `within` that time of the board.
        """
        began_us = self.now_us()
        last_us = _possible(began_us + micros(within))
        self._settle()
        while not condition():  # it may wait itself, and then `autojump` turns the clock
            if self.now_us() >= last_us:
                raise AssertionError(self._never(condition, last_us - began_us))
            self._go_on(last_us)
        return self.now

    def jump(self, duration: Duration) -> datetime:
        """Set the clock, forward or back, in one leap: what lies between comes late, and all at once.

        Raises:
            ValueError: there is no such time.
            ClockStuck: somebody who waits does not take note.
        """
        with self._turning:
            self.cell.turn(_possible(self.now_us() + micros(duration)))
            self._settle()
        return self.now

    def hold(self) -> contextlib.AbstractContextManager[None]:
        """`with clock.hold():` keeps `autojump` from moving the clock: real work is under way that it cannot see."""
        return self.cell.hold()

    @contextlib.contextmanager
    def taking_part(self) -> Iterator[None]:
        """Count as an agent: `autojump` moves the clock only while every agent waits in a call or sleeps on it."""
        place = self.cell.take_part(AGENT)
        try:
            yield
        finally:
            place.leave()

    def sleep(self, duration: Duration) -> None:
        """What an agent does that works for so long: wait until the clock has been turned so far."""
        until_us = self.now_us() + micros(duration)
        with contextlib.closing(ClockedAlarm(self.cell, PARKED)) as alarm:
            while (left_us := until_us - self.now_us()) > 0:
                alarm.wait(left_us)
                self.refuse_stopped()

    @contextlib.contextmanager
    def autojump(self, waiting: int | None = None) -> Iterator[None]:
        """Move the clock by itself, to the next deadline, whenever all who take part wait.

        Args:
            waiting: how many calls must wait for that; by default as many as there are agents (`taking_part`, open
                sessions), and at least one. Of several `autojump` at once the largest number counts.

        Raises:
            ClockStuck: it could not move the clock any more; so do calls that wait on this board object.
        """
        over = threading.Event()
        mover = threading.Thread(target=self._move, args=(over,), name="autojump", daemon=True)
        self._movers.append(waiting)
        mover.start()
        try:
            yield
            self.refuse_stopped()
        finally:
            over.set()
            mover.join()
            self._movers.remove(waiting)
            self._failure = self._failure if self._movers else None

    def refuse_stopped(self) -> None:
        """See that whoever waits does not wait in vain.

        Raises:
            ClockStuck: `autojump` has failed, and nobody moves the clock.
        """
        if self._failure is not None:
            raise ClockStuck(f"autojump moves the clock no more: {self._failure}") from self._failure

    def until_waiting(self, calls: int = 1) -> None:
        """Wait, in real time, until so many calls wait on the clock: to know that another thread sleeps.

        Raises:
            ClockStuck: they do not come to it.
        """
        patience = Patience(PATIENCE_US)
        while sum(stand.kind == PARKED for stand in self.cell.stands()) < calls:
            if not patience.left_sec:
                raise ClockStuck(f"fewer than {calls} calls wait on the clock\n{self._told()}")
            _breathe()

    def end(self) -> None:
        """Turn it no more: whoever waits on it, in whatever thread or process, gets `ClockOver`."""
        self.cell.end()
        with self._turning:
            self._poke()

    def deadlines(self) -> list[Deadline]:
        """Who waits for what: all instants ahead at which something is due, soonest first."""
        found = [*self._waits(), *(self._of_board(self.board) if self.board is not None else ())]
        return sorted(due for due in found if due.at_us >= self.now_us())

    def close(self) -> None:
        """Let go of the cell."""
        if self._berth:
            self._berth.close()
        self.cell.close()

    def _go_on(self, until_us: int) -> None:
        """Turn the clock to the next deadline, or as far as `until_us`, and have everybody see it."""
        with self._turning:
            version, due_us = self._version(), self._next_us()
            at_us = until_us if due_us is None else min(due_us, until_us)
            self.cell.turn(at_us, if_so=lambda: self._is_next(at_us, version))
            self._settle()

    def _is_next(self, at_us: int, version: int | None) -> bool:
        """Whether nothing has begun meanwhile, a wait or a lease, that may end before."""
        soon = range(self.now_us() + 1, at_us)
        new = any(stand.kind in (PARKED, TIMER) and stand.due_us in soon for stand in self.cell.stands())
        return not new and not self._unsettled() and self._version() == version

    def _settle(self) -> None:
        """Wait until everybody who waits has seen the time, and what was committed at it."""
        patience = Patience(PATIENCE_US)
        while (unsettled := self._unsettled()) or not self._all_know():
            if not patience.left_sec:
                raise ClockStuck(self._stuck(unsettled))
            self._wake()
            _breathe()

    def _all_know(self) -> bool:
        """Whether all who wait have looked at the board since the last commit; if not, they are told to.

        They are woken as on any board: one by a poke, or none. But a poke is on its way while its waiter is still
        parked, and whoever reads history looks only now and then; the time is not to go on before they have seen.
        """
        before, self._known = self._known, self._version()
        if self._known == before or not any(stand.kind == PARKED for stand in self.cell.stands()):
            return True
        self.cell.turn(self.now_us())
        return False

    def _version(self) -> int | None:
        with contextlib.suppress(BoardClosed):
            return self.board.store.version() if self.board is not None else None
        return None

    def _wake(self) -> None:
        """Poke all who sleep, once for each time that is announced: whoever has seen it is not to be disturbed."""
        generation = self.cell.generation
        if generation != self._poked:
            self._poked, self._patience = generation, Patience(PATIENCE_US)
        elif self._again.left_sec:
            return
        self._again = Patience(AGAIN_US)
        self._poke()

    def _poke(self) -> None:
        """Wake all who sleep on the cell; where they meet is found when the first of them has to be woken."""
        if self._berth is None:
            self._berth = clock_berth(self.cell)
        if self._berth:
            self._berth.poke(EVERYBODY)

    def _unsettled(self) -> list[Stand]:
        generation = self.cell.generation
        return [stand for stand in self.cell.stands() if not _has_seen(stand, generation)]

    def _next_us(self) -> int | None:
        dues = [due.at_us for due in self._waits()]
        if self.board is not None:
            at_us = self.board.store.read(next_instant)
            dues += [] if at_us is None else [at_us]
        now_us = self.now_us()
        return min((at_us for at_us in dues if at_us > now_us), default=None)

    def _move(self, over: threading.Event) -> None:
        try:
            while not over.wait(BREATH_SEC):
                # The test may close its board before it lets the clock go.
                with self._turning, contextlib.suppress(BoardClosed):
                    self._move_on()
        except BaseException as error:  # noqa: BLE001 - it is raised where somebody waits
            self._failure = error
            if self.board is not None:
                self.board.wake_waits()
            self._poke()

    def _move_on(self) -> None:
        """Go to the next deadline if all wait; not settled here, the next look finds out."""
        if unsettled := self._unsettled():
            self._wake()
            if not self._patience.left_sec and all(stand.kind != RUNNING for stand in unsettled):
                raise ClockStuck(self._stuck(unsettled))
        elif self._all_wait() and self._all_know() and (due_us := self._next_us()) is not None:
            self.cell.turn(due_us, if_so=lambda: self._all_wait() and self._is_next(due_us, self._known))

    def _all_wait(self) -> bool:
        stands, generation = self.cell.stands(), self.cell.generation
        if any(stand.kind == HOLD or not _has_seen(stand, generation) for stand in stands):
            return False
        agents = sum(stand.kind == AGENT for stand in stands)
        demanded = max((number for number in self._movers if number is not None), default=max(agents, 1))
        return sum(stand.kind == PARKED for stand in stands) >= demanded

    def _waits(self) -> Iterator[Deadline]:
        for stand in self.cell.stands():
            if stand.due_us >= LONG_US:
                continue
            if stand.kind == PARKED:
                yield Deadline(stand.due_us, "wait", f"a call of process {stand.pid} waits")
            elif stand.kind == TIMER:
                yield Deadline(stand.due_us, "timer", f"a keepalive of process {stand.pid}")

    def _of_board(self, board: Board) -> Iterator[Deadline]:
        for task in pages.tasks(board, "in_progress"):
            if task.lease_expires_us is not None:
                yield Deadline(task.lease_expires_us, "lease", f"the lease of {task.id!r}, held by {task.holder}")
        for task in pages.tasks(board, "scheduled"):
            if task.not_before_us is not None and not task.paused:
                yield Deadline(task.not_before_us, "scheduled", f"{task.id!r} becomes ready")
        for entry in pages.entries(board):
            if entry.expires_us is not None:
                yield Deadline(entry.expires_us, "entry", f"the entry {entry.namespace}/{entry.key} expires")
        yield from _of_status(board.status())

    def _never(self, condition: Callable[[], object], us: int) -> str:
        name = getattr(condition, "__name__", "the condition")
        name = "the condition" if name == "<lambda>" else f"{name}()"
        return f"{name} was not true within {words(us)} of board time\n{self._told()}"

    def _stuck(self, unsettled: list[Stand]) -> str:
        who = sorted({stand.pid for stand in unsettled})
        names = ", ".join(f"process {pid}{', which is stopped' if state(pid) in ('T', 't') else ''}" for pid in who)
        return (
            f"a call that waits does not take note of the new time: {names or 'it never comes to rest'}\n{self._told()}"
        )

    def _told(self) -> str:
        waits = "\n".join(f"  {due}" for due in self.deadlines()) or "  nothing"
        running = sum(stand.kind == RUNNING for stand in self.cell.stands())
        return f"it is {instant(self.now_us())}; {running} calls are at work; what is due:\n{waits}"


def instant(at_us: int) -> str:
    """An instant as people read it, to the millisecond."""
    return (datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at_us)).isoformat(" ", "milliseconds")[:23]


def _possible(at_us: int) -> int:
    if not 0 <= at_us <= LATEST_US:
        raise ValueError("the clock goes from 1970 to 9998; this would set it beyond")
    return at_us


def _has_seen(stand: Stand, generation: int) -> bool:
    return stand.kind in (AGENT, HOLD) or (stand.kind in (PARKED, TIMER) and stand.seen == generation)


def _breathe() -> None:
    threading.Event().wait(BREATH_SEC)


def _of_status(status: Status) -> Iterator[Deadline]:
    """The ends of pauses, those that a person or an agent set and those of breakers."""
    for pause in status.pauses:
        if pause.until_us is not None:
            what = " ".join(filter(None, (pause.scope, pause.name)))
            yield Deadline(pause.until_us, "pause", f"the pause of {what} ends")
    for plan in status.plans:
        if plan.storm_until_us is not None:
            yield Deadline(plan.storm_until_us, "storm", f"the breaker of plan {plan.plan!r} closes")
