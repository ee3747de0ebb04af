"""`History`: what happened on a board, checked against an independent model, drawn as a timeline, and written down.

The events of a board are its witness: each was written in the transaction that caused it, and their order is total and
without gaps. `check()` replays them; `timeline()` and `timeline_html()` draw them; `to_jsonl()` keeps them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmesh.documents import rfc3339
from agentmesh.errors import CursorExpired
from agentmesh.jsontext import encode
from agentmesh.model import Event
from pytest_agentmesh.checkers.ending import compare
from pytest_agentmesh.checkers.replay import Replay
from pytest_agentmesh.checkers.rows import Rows, look, tasks
from pytest_agentmesh.checkers.verdict import INSTANT, PROMISES, Replayed, Violation
from pytest_agentmesh.durations import words
from pytest_agentmesh.faults import Fault, FaultMark
from pytest_agentmesh.timeline.page import page
from pytest_agentmesh.timeline.picture import picture
from pytest_agentmesh.timeline.story import Story, tell
from pytest_agentmesh.timeline.words import around

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

AT_ONCE = 1000
TRIES = 5


class History:
    """What happened on a board, read anew at each look: events, and the faults that were injected.

    Args:
        board: any board; it is only read.
        faults: the faults that struck, as a list that may still grow.
    """

    def __init__(self, board: Board | None, faults: Sequence[FaultMark] = ()) -> None:
        self._board = board
        self._events: list[Event] = []
        self._faults = faults

    @classmethod
    def of_events(cls, events: Iterable[Event], faults: Sequence[FaultMark] = ()) -> History:
        """A history of events alone, without a board whose rows they could be compared with."""
        history = cls(None, faults)
        history._events = list(events)
        return history

    @classmethod
    def from_jsonl(cls, text: str) -> History:
        """A history that `to_jsonl` has written down.

        Raises:
            ValueError: a line is none of its lines.
        """
        events, faults = [], []
        for number, line in enumerate(filter(None, text.splitlines()), start=1):
            try:
                row = json.loads(line)
                if row["kind"] == "fault":
                    faults.append(_mark(row))
                else:
                    events.append(Event(**{name: row[name] for name in Event.__slots__}))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"line {number} is not one that to_jsonl writes: {error!r}") from None
        return cls.of_events(events, faults)

    @property
    def events(self) -> list[Event]:
        """All events that the board keeps, and those that were looked at before a prune took them; oldest first."""
        if self._board is not None:
            self._events = _read(self._board, self._events)
        return list(self._events)

    @property
    def faults(self) -> tuple[FaultMark, ...]:
        """The faults that struck, in the order in which they were written down."""
        return tuple(self._faults)

    def __repr__(self) -> str:
        return f"<History of {self._board}>" if self._board is not None else f"<History of {len(self._events)} events>"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def of(self, task_id: str) -> list[Event]:
        """What happened to a task."""
        return [event for event in self.events if event.task_id == task_id]

    def by(self, agent: str) -> list[Event]:
        """What an agent did, and what was done to its attempts."""
        return [event for event in self.events if event.agent_id == agent]

    def kinds(self) -> list[str]:
        """The kinds of all events, in order."""
        return [event.kind for event in self.events]

    def check(self) -> Replayed:
        """Replay the events on a model of their own, and compare what comes of them with the rows of the board.

        Each event must be legal after those before it, by the promises of the board (`docs/promises.md`). Of a history
        whose beginning was pruned away, or that began with an import, what is left is judged; the report says what
        could not be.

        Raises:
            AssertionError: they disagree; it names the event, the promise, what was expected, and shows the events
                around it.
        """
        __tracebackhide__ = True  # a failed test shows the line that asked
        events, rows = self._still()
        replay = Replay(events, rows)
        try:
            replay.run()
            if rows is not None:
                compare(replay, rows)
        except Violation as broken:
            raise AssertionError(_message(broken, events)) from None
        return replay.report(compared=rows is not None)

    def timeline(self, width: int = 100) -> str:
        """The history as a picture in plain text, at most `width` columns (60 at least) wide.

        A lane per agent, in which a bar is a lease; see the legend below it. Of a long history, what has no room is
        left out, and said to be.
        """
        return picture(self._story(), width)

    def timeline_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The history as one page of HTML that needs nothing but itself, and runs no script; written to a file, too.

        Args:
            path: where to write it; None only returns it.
        """
        text = page(self._story())
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def to_jsonl(self, path: str | os.PathLike[str] | None = None) -> str:
        """The history as JSON Lines: one object per event, and per fault, in the order of time; written to a file, too.

        The keys are those of an event (`seq at_us kind plan task_id fence agent_id data`) and `at`, its instant for
        people. A fault has kind `fault`, no `seq`, and says in its `data` what it was. There are no secrets in it.

        Args:
            path: where to write it; None only returns it.
        """
        text = "".join(f"{encode(line)}\n" for line in _lines(self.events, self._faults))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _story(self) -> Story:
        events = self.events
        titles: dict[str, str] = {}
        if self._board is not None:
            titles = {task.id: task.title for task in tasks(self._board)}
        return tell(events, self._faults, titles)

    def _still(self) -> tuple[list[Event], Rows | None]:
        """The events and the rows of one and the same moment.

        Raises:
            AssertionError: the board does not stand still for as long as it takes to read it.
        """
        if self._board is None:
            return self.events, None
        for _ in range(TRIES):
            rows, events = look(self._board), self.events
            last = events[-1].seq if events else 0
            if rows.last_seq == last == self._board.status().last_seq:
                return events, rows
        raise AssertionError("The board is being written to: its history is checked while nobody works on it.")


def _read(board: Board, known: list[Event]) -> list[Event]:
    """What is known and what has been added; all anew where the past was cut off meanwhile."""
    events = list(known)
    after = events[-1].seq if events else 0
    while True:
        try:
            more = board.events(after, limit=AT_ONCE)
        except CursorExpired as error:
            events, after = [], error.first - 1
            continue
        if not more:
            return events
        events += more
        after = more[-1].seq


def _lines(events: Sequence[Event], faults: Sequence[FaultMark]) -> Iterator[dict[str, Any]]:
    """Events and faults as objects; a fault stands before the first event that is later."""
    waiting = sorted(faults, key=lambda mark: mark.at_us)
    for event in events:
        while waiting and waiting[0].at_us < event.at_us:
            yield _fault(waiting.pop(0))
        yield {"at": rfc3339(event.at_us), **asdict(event)}
    yield from map(_fault, waiting)


def _fault(mark: FaultMark) -> dict[str, Any]:
    data = {"at": mark.at, "what": mark.what, "fault": asdict(mark.fault)}
    return {"at": rfc3339(mark.at_us), "at_us": mark.at_us, "kind": "fault", "agent_id": mark.agent, "data": data}


def _mark(row: dict[str, Any]) -> FaultMark:
    data = row["data"]
    return FaultMark(row["at_us"], Fault(**data["fault"]), row["agent_id"], data["at"], data["what"])


def _message(broken: Violation, events: Sequence[Event]) -> str:
    """What a reader of a failed test needs: the event, the promise, both sides, and what stands around it."""
    promise = f"{broken.promise} ({PROMISES[broken.promise]})"
    head = f"event {broken.seq} breaks {promise}"
    if broken.at_end:
        head = f"the board disagrees with its history, up to event {broken.seq}: {promise} is broken"
    start_us = min((event.at_us for event in events), default=0)
    sides = f"  expected  {broken.expected}\n  found     {broken.found}"
    told = INSTANT.sub(lambda instant: words(int(instant[1]) - start_us), sides)
    return "\n".join([head, told, *around(events, broken.seq)])
