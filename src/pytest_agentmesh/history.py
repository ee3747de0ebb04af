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
from agentmesh.jsontext import encode
from agentmesh.model import Event
from agentmesh.printable import one_line
from pytest_agentmesh import pages
from pytest_agentmesh.checkers.ending import compare
from pytest_agentmesh.checkers.replay import Replay
from pytest_agentmesh.checkers.rows import Rows, look
from pytest_agentmesh.checkers.verdict import INSTANT, Replayed, Violation
from pytest_agentmesh.durations import words
from pytest_agentmesh.faults import Fault, FaultMark
from pytest_agentmesh.promised import PROMISES
from pytest_agentmesh.timeline.page import page
from pytest_agentmesh.timeline.picture import picture
from pytest_agentmesh.timeline.story import Story, tell
from pytest_agentmesh.timeline.words import around

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

TRIES = 5


class History:
    """What happened on a board, read anew at each look: events, and the faults that struck.

    Args:
        board: any board; it is only read.
        marks: those faults, as a list that may still grow.
    """

    def __init__(self, board: Board | None, marks: Sequence[FaultMark] = ()) -> None:
        self._board = board
        self._events: list[Event] = []
        self._marks = marks

    @classmethod
    def of_events(cls, events: Iterable[Event], marks: Sequence[FaultMark] = ()) -> History:
        """A history of events alone, without a board whose rows they could be compared with."""
        history = cls(None, marks)
        history._events = list(events)
        return history

    @classmethod
    def from_jsonl(cls, text: str) -> History:
        """A history that `to_jsonl` has written down.

        Raises:
            ValueError: a line is none of its lines.
        """
        events, marks = [], []
        for number, line in enumerate(filter(None, text.splitlines()), start=1):
            try:
                row = json.loads(line)
                if row["kind"] == "fault":
                    marks.append(_mark(row))
                else:
                    events.append(Event(**{name: row[name] for name in Event.__slots__}))
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"line {number} is not one that to_jsonl writes: {error!r}") from None
        return cls.of_events(events, marks)

    @property
    def events(self) -> list[Event]:
        """All events that the board keeps, and those that were looked at before a prune took them; oldest first."""
        if self._board is not None:
            self._events = pages.events(self._board, self._events)
        return list(self._events)

    @property
    def marks(self) -> tuple[FaultMark, ...]:
        """The faults that struck, in the order in which they were written down."""
        return tuple(self._marks)

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
        text = "".join(f"{encode(line)}\n" for line in _lines(self.events, self._marks))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def _story(self) -> Story:
        events = self.events
        titles: dict[str, str] = {}
        if self._board is not None:
            titles = {task.id: task.title for task in pages.tasks(self._board)}
        return tell(events, self._marks, titles)

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


def _lines(events: Sequence[Event], marks: Sequence[FaultMark]) -> Iterator[dict[str, Any]]:
    """Events and faults as objects; a fault stands before the first event that is later."""
    waiting = sorted(marks, key=lambda mark: mark.at_us)
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
    what = f"event {broken.seq}"
    if broken.at_end:
        what = f"the board disagrees with its history, up to event {broken.seq}, and"
    head = f"{what} breaks {broken.promise}: {PROMISES[broken.promise]}"
    start_us = min((event.at_us for event in events), default=0)
    sides = (f"  expected  {broken.expected}", f"  found     {broken.found}")
    told = [one_line(INSTANT.sub(lambda instant: words(int(instant[1]) - start_us), side)) for side in sides]
    return "\n".join([head, *told, *around(events, broken.seq)])
