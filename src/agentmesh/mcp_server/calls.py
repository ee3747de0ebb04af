"""The requests under way that need the board: who works on them, how they end early, when all is done.

They take turns in the order in which they came, so a script that pipes several lines in gets what it
expects. A call that may wait gets a thread to itself when its turn comes: sixty waiting calls use up
nothing that a heartbeat needs. All others go to one worker, save where nobody is ahead and nothing
more has come in: then the thread that reads does the call itself, for to wake another takes longer
than a heartbeat. If that call takes long after all, another thread may take the reading over.

A cancelled call is never answered, and one that is answered can no longer be cancelled: the two are
decided under one lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Final

from agentmesh.clock import Clock, MonotonicClock, Patience
from agentmesh.mcp_server.log import log_exception
from agentmesh.mcp_server.protocol import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Id,
    Message,
    Refused,
    Request,
    failure,
    progress,
    success,
)
from agentmesh.mcp_server.session import Call, Session

MOST_CALLS: Final = 1000
MOST_WAITS: Final = 128
PROGRESS_US: Final = 1_000_000

Send = Callable[[Message | None], bool]
"""Takes the answer to a request (None: there will be none) and says whether it can arrive."""


Work = Callable[[Call], Message]
"""Gives the result of a request, or raises `Refused`."""


@dataclass(eq=False, slots=True)
class Flight:
    """A call under way, and where its answer goes. One that `waits` may sleep until something happens."""

    request: Request
    work: Work
    send: Send
    wait_sec: float = 0
    cancelled: bool = False
    woken: threading.Event = field(default_factory=threading.Event)
    began_us: int = 0
    told_us: int = 0

    @property
    def waits(self) -> bool:
        """Whether it may sleep until something happens."""
        return self.wait_sec > 0


class Calls:
    """All calls of one client. Started by the thread that reads, ended by any."""

    def __init__(
        self,
        session: Session,
        server: Message,
        notify: Send,
        clock: Clock | None = None,
        *,
        quiet: Callable[[], bool] = lambda: False,
    ) -> None:
        """Begin without any.

        Args:
            session: Whose calls they are.
            server: Who answers.
            notify: Takes messages that are no answers.
            clock: What measures how long a call waits; real time by default.
            quiet: Whether the thread that reads has nothing more to read.
        """
        self._session = session
        self._server = server
        self._notify = notify
        self._clock = clock or MonotonicClock()
        self._quiet = quiet
        self._queue: SimpleQueue[Flight | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._apart: list[threading.Thread] = []
        self._flights: dict[Id, Flight] = {}
        self._unfinished = 0
        self._waiting = 0
        self._ahead = 0
        self._closing = False
        self._changed = threading.Condition()
        self._turn = threading.Lock()
        self._reader: int | None = None
        self._reader_calls = False

    def take_reading(self) -> bool:
        """Make the calling thread the one that reads, unless another does; one that is busy with a call does not."""
        with self._changed:
            free = self._reader is None or self._reader_calls
            if free:
                self._reader, self._reader_calls = threading.get_ident(), False
            return free

    @property
    def reading(self) -> bool:
        """Whether the calling thread is still the one that reads."""
        return self._reader == threading.get_ident()

    @property
    def reader_calls(self) -> bool:
        """Whether the thread that reads is busy with a call."""
        return self._reader_calls

    def start(self, flight: Flight) -> None:
        """Take a call on.

        Raises:
            Refused: its id is in use, or too many are under way.
        """
        waits = flight.waits
        with self._changed:
            if flight.request.id in self._flights:
                raise Refused(INVALID_REQUEST, "A call with this id is still under way.")
            if len(self._flights) >= MOST_CALLS or (waits and self._waiting >= MOST_WAITS):
                raise Refused(INTERNAL_ERROR, "Too many calls are under way; wait for answers.")
            here = not (waits or self._ahead) and self.reading and self._quiet()
            self._flights[flight.request.id] = flight
            self._unfinished += 1
            self._waiting += waits
            self._ahead += 1
            self._reader_calls |= here
        if here:
            self._serve(flight)
            self._read_on()
            return
        self._queue.put(flight)
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="worker", daemon=True)
            self._worker.start()

    def cancel(self, request_id: Id) -> None:
        """The client no longer wants this answer; without a call of this id, nothing happens."""
        with self._changed:
            flight = self._flights.get(request_id)
            if flight is not None:
                flight.cancelled = True
                flight.woken.set()
        if flight is not None:
            self._session.board.wake_waits()

    def close(self, *, answer: bool, patience_sec: float) -> bool:
        """End all waits, and let the calls under way end, and the threads that did them; whether they did so in time.

        Without `answer`, those that have not begun never will, and nobody is told.
        """
        patience = Patience(int(patience_sec * 1_000_000))
        with self._changed:
            self._closing = True
            for flight in self._flights.values():
                flight.cancelled |= not answer
                flight.woken.set()
        self._session.board.wake_waits()
        with self._changed:
            ended = self._changed.wait_for(lambda: self._unfinished == 0, patience.left_sec)
        self._queue.put(None)
        if self._worker is not None:
            self._worker.join(patience.left_sec)
        for thread in self._apart:
            thread.join(patience.left_sec)
        return ended

    def _work(self) -> None:
        while (flight := self._queue.get()) is not None:
            self._serve(flight)

    def _serve(self, flight: Flight) -> None:
        """Do a call when its turn comes, or let it begin if it may wait."""
        with self._turn:  # a reader that was relieved may still be at the call before
            if flight.waits:
                self._run_apart(flight)
            else:
                self._run(flight)
        with self._changed:
            self._ahead -= 1

    def _read_on(self) -> None:
        with self._changed:
            if self.reading:
                self._reader_calls = False

    def _run_apart(self, flight: Flight) -> None:
        thread = threading.Thread(target=self._run, args=(flight,), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no thread left: better slow than never
            self._run(flight)
        else:
            self._apart = [*filter(threading.Thread.is_alive, self._apart), thread]

    def _run(self, flight: Flight) -> None:
        call = Call(self._session, lambda: self._given_up(flight), flight.woken.wait, client=self)
        flight.began_us = flight.told_us = self._clock.now_us()
        try:
            self._answer(flight, call, None if flight.cancelled else self._outcome(flight, call))
        except Exception:  # noqa: BLE001 - the next call wants its worker
            log_exception(f"answering {flight.request.method}")
        finally:
            with self._changed:
                self._unfinished -= 1
                self._waiting -= flight.waits
                self._changed.notify_all()

    def _outcome(self, flight: Flight, call: Call) -> Message:
        """The answer, whatever happens."""
        try:
            return success(flight.request, flight.work(call), self._server)
        except Refused as refused:
            return failure(refused, flight.request.id)
        except Exception:  # noqa: BLE001 - the client wants an answer, people want the traceback
            log_exception(flight.request.method)
            return failure(Refused(INTERNAL_ERROR, "AgentMesh failed; the server's log says more."), flight.request.id)

    def _answer(self, flight: Flight, call: Call, answer: Message | None) -> None:
        with self._changed:
            del self._flights[flight.request.id]
            wanted = not flight.cancelled and answer is not None
        if not (flight.send(answer if wanted else None) and wanted):
            call.take_back()

    def _given_up(self, flight: Flight) -> bool:
        """What a waiting call asks at each of its wake-ups; the place to tell of progress."""
        if flight.cancelled or self._closing:
            return True
        token, now_us = flight.request.progress_token, self._clock.now_us()
        if token is not None and now_us - flight.told_us >= PROGRESS_US:
            flight.told_us = now_us
            waited_sec = round((now_us - flight.began_us) / 1_000_000, 1)
            self._notify(progress(token, waited_sec, flight.wait_sec))
        return False
