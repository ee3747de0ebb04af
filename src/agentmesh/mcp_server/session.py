"""The session of one client: who it is, which leases it holds, and the thread that renews them.

An LLM agent cannot heartbeat while it waits ten minutes for its own tools, so the session does it:
until the client goes, until `keepalive_sec` after the last call that named the task, and never
longer than the task's `max_hold_sec` (the board sees to that). A token stays remembered after its
lease is lost or its task has ended: the board then gives the true reason, or the first answer.

Many clients give a call up after 1 to 60 seconds and say nothing. A claim that was made after a
wait may therefore have had no reader; its lease is renewed only from the first call on
that names the task. And a new claim of an agent ends its older waits, which have no reader either.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from agentmesh import limits
from agentmesh.clock import Clock
from agentmesh.errors import AgentMeshError, HoldExhausted, InvalidArgument, LeaseLost, LeaseUnknown, Pruned
from agentmesh.mcp_server.arguments import Arguments
from agentmesh.mcp_server.log import log, log_exception
from agentmesh.mcp_server.profiles import ADOPTING, DEFAULT, Profile
from agentmesh.model import OPERATOR, Json, Lease, Micros
from agentmesh.store.base import Alarm

if TYPE_CHECKING:
    from agentmesh.board.claim import Claim
    from agentmesh.board.facade import Board

KEEPALIVE_SEC: Final = 900.0
"""Over HTTP, where nothing tells whether the client still lives."""
KEEPALIVE_STDIO_SEC: Final = 3600.0
"""On stdio, where a client that has gone closes the pipe: an agent may work for long without a word."""
AT_ONCE_US: Final = 1_000_000
"""A claim that is answered within this time has been heard: clients wait for an answer for longer."""
REMEMBERED: Final = 1000
"""Tokens a session keeps; beyond them the oldest whose lease is over goes first."""

BREATH_US: Final = 10_000
"""The keepalive looks no more often than this, and takes what is due this soon along."""

ENDED_BY_HOLDER: Final = frozenset({"completed", "failed", "released", "split"})


@dataclass(slots=True)
class Held:
    """A lease that this session claimed. `over` when there is nothing left to renew.

    `named_us` (None: no call has named the task) and `renewed_us` are readings of the session's clock, not instants of
    the board; `length_us` is how long the lease lasts from its last renewal.
    """

    lease: Lease
    timeout_us: int
    length_us: int
    named_us: int | None
    renewed_us: int
    over: bool = False

    def due_in_us(self, now_us: int) -> int:
        """Until the next renewal, a third of the lease after the last; at once if a test set the clock back."""
        since_us = now_us - self.renewed_us
        return max(self.length_us // 3 - since_us, 0) if since_us >= 0 else 0


class Session:
    """What the server knows of one client. Safe to use from several threads."""

    def __init__(
        self,
        board: Board,
        *,
        agent: str | None = None,
        profile: Profile = DEFAULT,
        keepalive_sec: float = KEEPALIVE_SEC,
        clock: Clock | None = None,
    ) -> None:
        """Begin a session.

        Args:
            board: The board.
            agent: Whom it speaks for; None if each call says so. Profiles that adopt speak then for the one that the
                first call names, and no other.
            profile: What it is shown.
            keepalive_sec: How long after the last call that named a task its lease is renewed; 0 for not at all.
            clock: What measures the time between renewals; by default real time, and on a test board its clock.
        """
        self.board = board
        self.agent = agent
        self.profile: Profile = profile
        self._keepalive_us = int(keepalive_sec * 1_000_000)
        self._clock = clock or board.store.monotonic
        self._held: dict[tuple[str, str], Held] = {}
        self._waits: dict[tuple[object, str], object] = {}
        self._lock = threading.Lock()
        self._alarm: Alarm | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def speaker(self, named: Json) -> Json:
        """Whom a call speaks for, given what it says itself.

        Raises:
            InvalidArgument: the session speaks for another agent, or nobody can be called so.
        """
        if self.profile in ADOPTING and named is not None:
            with self._lock:
                self.agent = self.agent or limits.name("agent_id", named)
        if self.agent is not None and named not in (self.agent, None):
            raise InvalidArgument("agent_id", f"this session speaks as {self.agent!r}", hint="Leave agent_id out.")
        return self.agent or named

    @contextlib.contextmanager
    def waiting(self, client: object, agent_id: str) -> Iterator[Callable[[], bool]]:
        """The wait of a claim, which ends older ones of its client and agent; gives what tells that it was ended too.

        A client of None may be any of several, and ends nothing.
        """
        if client is None:
            yield lambda: False
            return
        key, this = (client, agent_id), object()
        with self._lock:
            older = key in self._waits
            self._waits[key] = this
        if older:
            self.board.wake_waits()
        try:
            yield lambda: self._waits.get(key) is not this
        finally:
            with self._lock:
                if self._waits.get(key) is this:
                    del self._waits[key]

    def now_us(self) -> Micros:
        """A reading of the session's clock, to measure how long a call takes."""
        return self._clock.now_us()

    def remember(self, agent_id: str, claim: Claim, *, heard: bool) -> None:
        """Keep a claim's token, and renew its lease: at once if its answer is `heard`, else once a call names it."""
        now_us = self._clock.now_us()
        timeout_us = claim.task.lease_timeout_us
        held = Held(
            claim.lease, timeout_us, self._length_us(claim.lease, timeout_us), now_us if heard else None, now_us
        )
        with self._lock:
            self._held[agent_id, claim.task.id] = held
            self._forget_oldest()
            if self._alarm is None and self._keepalive_us > 0:
                self._start_keepalive()
        self._ring()

    def _start_keepalive(self) -> None:
        """Without a thread or a descriptor for it the claim stands all the same; the next claim tries again."""
        alarm = None
        try:
            alarm = self.board.store.alarm()
            thread = threading.Thread(target=self._keep, args=(alarm,), name="keepalive", daemon=True)
            thread.start()
        except (RuntimeError, OSError) as error:
            if alarm is not None:
                alarm.close()
            log(f"keepalive: it could not be started ({error}); leases last until they run out.")
        else:
            self._alarm, self._thread = alarm, thread

    def lease(self, arguments: Arguments) -> Lease:
        """Take task, agent and token out of the arguments; the token may be a remembered one.

        Raises:
            NotFound: no token was given, and there is no such task (`Pruned` if there was).
            LeaseUnknown: no token was given, and none is remembered.
            InvalidArgument: what was given has not the form of a token, or names no task.
        """
        task_id, agent_id = limits.name("task_id", arguments.pop("task_id")), arguments.pop("agent_id", OPERATOR)
        if (token := arguments.pop("lease", None)) is not None:
            if (given := Lease.from_token(task_id, token)) is None:
                raise InvalidArgument("lease", "this is no lease token; give what claim_task gave")
            return given
        with self._lock:
            held = self._held.get((agent_id, task_id))
        if held is None:
            self.board.get_task(task_id)  # a model that makes an id up is told that, not how to get its lease back
            raise LeaseUnknown(task_id)
        return held.lease

    def agents(self) -> tuple[str, ...]:
        """Whom it speaks for: its own agent, else those that it holds leases for."""
        if self.agent is not None:
            return (self.agent,)
        with self._lock:
            return tuple(sorted({agent for (agent, _), held in self._held.items() if not held.over}))

    def leases(self) -> frozenset[str]:
        """The tasks whose leases it holds."""
        with self._lock:
            return frozenset(task_id for (_, task_id), held in self._held.items() if not held.over)

    def unheard(self, agent_id: str) -> frozenset[str]:
        """The tasks that an agent claimed after a wait and that no call has named since."""
        with self._lock:
            mine = [h for (agent, _), h in self._held.items() if agent == agent_id]
            return frozenset(held.lease.task_id for held in mine if held.named_us is None and not held.over)

    def named(self, task_id: str) -> None:
        """A call named this task: its lease is cared for another while.

        The keepalive hears of it only when it had given the lease up: to wake it takes longer than most calls.
        """
        with self._lock:
            now_us = self._clock.now_us()
            named = [held for (_, held_id), held in self._held.items() if held_id == task_id]
            lapsed = any(held.named_us is None or held.named_us <= now_us - self._keepalive_us for held in named)
            for held in named:
                held.named_us = now_us
        if lapsed:
            self._ring()

    def ended(self, lease: Lease) -> None:
        """The attempt is over: renew it no more."""
        with self._lock:
            for held in self._held.values():
                if held.lease == lease:
                    held.over = True

    def renew(self) -> int | None:
        """Renew the leases that are due; the microseconds until the next one is, None without any."""
        now_us = self._clock.now_us()
        cared = self._cared_for(now_us)
        for held in cared:
            if held.due_in_us(now_us) <= BREATH_US:
                self._renew_one(held, now_us)
        waits = [held.due_in_us(now_us) for held in cared if not held.over]
        return max(min(waits), BREATH_US) if waits else None

    def close(self, patience_sec: float = 0.0) -> None:
        """End the keepalive, and wait so long for its thread. No lease is released: it runs out, or is resumed."""
        self._closed = True
        self._ring()
        if self._thread is not None:
            self._thread.join(patience_sec)

    def _ring(self) -> None:
        """Have the keepalive look anew."""
        if self._alarm is not None:
            self._alarm.ring()

    def _cared_for(self, now_us: int) -> list[Held]:
        oldest_us = now_us - self._keepalive_us
        with self._lock:
            return [h for h in self._held.values() if not h.over and h.named_us is not None and h.named_us > oldest_us]

    def _renew_one(self, held: Held, now_us: int) -> None:
        held.renewed_us = now_us
        try:
            held.lease = self.board.heartbeat(held.lease)
            held.length_us = self._length_us(held.lease, held.timeout_us)
        except LeaseLost as lost:
            held.over = True
            if lost.outcome not in ENDED_BY_HOLDER:
                log(f"keepalive: {lost.message}")
        except (HoldExhausted, Pruned) as error:
            held.over = True
            log(f"keepalive: {error.message}")
        except AgentMeshError as error:
            log(f"keepalive: {error.message} It will be tried again.")
        except Exception:  # noqa: BLE001 - the other leases still want to be renewed
            log_exception("keepalive")

    def _length_us(self, lease: Lease, timeout_us: int) -> int:
        """How long a lease that was just renewed lasts; less than its timeout only where its hold ends before."""
        return max(min(timeout_us, lease.expires_us - self.board.store.clock.now_us()), 0)

    def _forget_oldest(self) -> None:
        while len(self._held) > REMEMBERED:
            over = (key for key, held in self._held.items() if held.over)
            del self._held[next(over, next(iter(self._held)))]

    def _keep(self, alarm: Alarm) -> None:
        pause_us: int | None = None
        with contextlib.closing(alarm):
            while not self._closed:
                alarm.wait(pause_us)
                pause_us = None if self._closed else self.renew()


@dataclass(slots=True, eq=False)
class Call:
    """One call: its session, its client (None if it may be any of several), and the ways in which it may end early.

    `rest` sleeps so many seconds at most, and is true once the call is to end. `undo` is set by a tool whose effect is
    worthless when its answer never arrives; the front runs it when the call was cancelled after the work was done, or
    the client had gone, or the answer could not be put into words.
    """

    session: Session
    given_up: Callable[[], bool] = lambda: False
    rest: Callable[[float], bool] = lambda _: True
    undo: Callable[[], object] | None = None
    client: object = None

    def take_back(self) -> None:
        """Undo what came of the call, if that can be; at most once."""
        undo, self.undo = self.undo, None
        if undo is None:
            return
        try:
            undo()
        except Exception:  # noqa: BLE001 - the call is over; the lease runs out by itself
            log_exception("taking back a claim whose answer was lost")

    @property
    def board(self) -> Board:
        """The session's board."""
        return self.session.board
