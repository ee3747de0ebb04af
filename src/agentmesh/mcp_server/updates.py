"""Word of resources that changed, fed by the board's history. Without a subscriber nothing here runs.

What is told is only that something changed: the client reads again if it cares. Who looks rests between two looks, so
a busy board costs a few notices a second, and one on which nothing happens less than a thousandth of a core (0.7 ms a
second were measured).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from typing import Final, Self

from agentmesh.documents import document
from agentmesh.errors import AgentMeshError, CursorExpired, NotFound
from agentmesh.mcp_server import protocol
from agentmesh.mcp_server.log import log, log_exception
from agentmesh.mcp_server.protocol import Message, Refused, Request
from agentmesh.mcp_server.reply import compact
from agentmesh.mcp_server.resources import UNKNOWN, Place, place
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.told import told
from agentmesh.model import Event
from agentmesh.standing import standing

REST_SEC: Final = 0.25
"""Between two looks."""

MOST_EVENTS: Final = 1000
"""In one look; if there are more, everything counts as changed."""

MOST_PLACES: Final = 100
"""Resources in one subscription."""

UNSEEN: Final = frozenset({"noted", "entry_put", "entry_deleted"})
"""Events that change no count, no budget and no graph."""


def touched(event: Event) -> set[Place]:
    """What an event may have changed by itself."""
    found: set[Place] = set()
    if event.kind not in UNSEEN:
        found |= {Place("board")} | ({Place("graph", event.plan)} if event.plan is not None else set())
    if event.task_id is not None:
        found.add(Place("task", event.task_id))
    return found


class Follower:
    """Looks at a board's history, from where it stood when this was made.

    A task also changes by what happens to others (what it waits for ends), and so does an agent's standing: no event
    names them then, so their looks are compared.
    """

    def __init__(self, session: Session, wanted: Collection[Place]) -> None:
        self._session = session
        self._waiter = session.board.store.waiter(for_tasks=False)
        self._cursor = session.board.status().last_seq
        self._looks: dict[Place, int] = {}
        for where in wanted:
            self.see(where)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._waiter.close()

    def see(self, where: Place) -> None:
        """Remember how it looks now."""
        self._looks[where] = self._look(where)

    def news(self, wanted: Collection[Place]) -> list[Place]:
        """Which of these may have changed since the last look."""
        if not self._waiter.changed():
            return []
        events = self._events()
        if events == []:
            return []
        named = {where for event in events or () for where in touched(event)}
        return sorted(where for where in wanted if events is None or self._moved(where) or where in named)

    def _events(self) -> list[Event] | None:
        """What happened since the last look; None where it is too much to look at."""
        try:
            events = self._session.board.events(self._cursor, limit=MOST_EVENTS)
        except CursorExpired:  # pruned meanwhile
            events = None
        if events is None or len(events) == MOST_EVENTS:
            self._cursor = self._session.board.status().last_seq
            return None
        self._cursor = events[-1].seq if events else self._cursor
        return events

    def _moved(self, where: Place) -> bool:
        before, now = self._looks.get(where), self._look(where)
        self._looks[where] = now
        return before != now

    def _look(self, where: Place) -> int:
        """A number that stands for how it looks; always the same where events tell all."""
        try:
            if where.kind == "task":
                return hash(compact(document(self._session.board.get_task(where.name))))
            if where.kind == "session":
                found = standing(self._session.board, self._session.agents())
                return hash((found.held, found.more, found.budgets, found.step))
        except NotFound:
            return -1
        return 0


def listen(call: Call, request: Request, uris: Collection[str], notify: Callable[[Message], bool]) -> Message:
    """Serve a subscriptions/listen until the client has had enough; its result.

    Raises:
        Refused: the board cannot be read.
    """
    wanted = honoured(uris)
    try:
        with Follower(call.session, wanted) as follower:
            notify(protocol.acknowledged(request.id, list(wanted.values())))
            while not call.rest(REST_SEC):
                news = follower.news(wanted)
                if call.rest(0):
                    break  # cancelled meanwhile: then nothing more is told
                for where in news:
                    notify(protocol.updated(wanted[where], request.id))
    except AgentMeshError as error:
        raise broken(error) from error
    return {"_meta": {protocol.SUBSCRIPTION_KEY: request.id}}


def honoured(uris: Collection[str]) -> Mapping[Place, str]:
    """What a client shall hear of, and the URI by which it knows it; what is none of ours is left out."""
    found = {where: uri for uri in uris if (where := place(uri))}
    return dict(list(found.items())[:MOST_PLACES])


class Subscriptions:
    """What a client of the older era has subscribed to, and the thread that tells it."""

    def __init__(self, session: Session, notify: Callable[[Message], bool]) -> None:
        self._session = session
        self._notify = notify
        self._wanted: dict[Place, str] = {}
        self._follower: Follower | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._over = threading.Event()

    def add(self, uri: str) -> None:
        """Tell of this resource from now on.

        Raises:
            Refused: there is none of this URI, they are too many, or the board cannot be read.
        """
        where = place(uri)
        if where is None:
            raise Refused(protocol.INVALID_PARAMS, UNKNOWN, data={"uri": uri})
        with self._lock:
            if len(self._wanted) >= MOST_PLACES and where not in self._wanted:
                problem = f"At most {MOST_PLACES} resources can be subscribed to."
                raise Refused(protocol.INVALID_PARAMS, problem, data={"uri": uri})
            try:
                if self._follower is None:
                    self._follower = Follower(self._session, ())
                    run = threading.Thread(target=self._run, args=(self._follower,), name="updates", daemon=True)
                    run.start()
                    self._thread = run
                self._follower.see(where)
            except AgentMeshError as error:
                raise broken(error) from error
            self._wanted[where] = uri

    def remove(self, uri: str) -> None:
        """Tell of it no more; that nobody asked for it is no error."""
        where = place(uri)
        with self._lock:
            if where is not None:
                self._wanted.pop(where, None)

    def close(self, patience_sec: float = 0.0) -> None:
        """Tell of nothing any more, and wait so long for the thread."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(patience_sec)

    def _run(self, follower: Follower) -> None:
        try:
            with follower:
                while not self._over.wait(REST_SEC) and (wanted := self._still_wanted()):
                    for where in follower.news(wanted):
                        self._notify(protocol.updated(wanted[where]))
        except AgentMeshError as error:
            log(f"updates: {error.message} No more changes are told.")
        except Exception:  # noqa: BLE001 - the tools still work
            log_exception("telling of updates")

    def _still_wanted(self) -> dict[Place, str]:
        """A copy of what is wanted; without any, the thread is over."""
        with self._lock:
            if not self._wanted:
                self._follower = None
            return dict(self._wanted)


def broken(error: AgentMeshError) -> Refused:
    """The board's error as one of the protocol."""
    return Refused(protocol.INTERNAL_ERROR, error.message, data=told(error))
