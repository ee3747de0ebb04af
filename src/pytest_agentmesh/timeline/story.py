"""From events to what a picture shows: lanes of agents, leases as bars, hand-overs, faults, money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from agentmesh.model import Event
from pytest_agentmesh.faults import FaultMark

ENDS: Final = {
    "task_completed": "completed",
    "task_failed": "failed",
    "task_released": "released",
    "task_split": "split",
    "lease_reclaimed": "reclaimed",
    "task_cancelled": "cancelled",
}


@dataclass(slots=True, eq=False)
class Bar:
    """A lease: from its hand-out to its end. Without an `end` it is still held; not `begun`, it is older than that.

    `due_us` is when it ran out, where it did before it ended; `since` is the attempt that it was taken over from.
    """

    task_id: str
    fence: int
    agent: str
    start_us: int
    start_seq: int
    begun: bool = True
    expires_us: int | None = None
    end_us: int | None = None
    end_seq: int | None = None
    end: str | None = None
    due_us: int | None = None
    late: bool = False
    beats: list[int] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    row: int = 0
    since: Bar | None = None

    @property
    def name(self) -> str:
        """The task and, from the second on, the attempt."""
        return self.task_id if self.fence == 1 else f"{self.task_id}#{self.fence}"

    @property
    def overdue(self) -> bool:
        """Whether it went on after its lease had run out."""
        return self.due_us is not None and (self.end_us is None or self.due_us < self.end_us)

    @property
    def taken_over(self) -> bool:
        """Whether another agent had the task before."""
        return self.since is not None and self.since.agent != self.agent


@dataclass(slots=True)
class Lane:
    """What an agent did: its leases, in as many rows as it held at once, and the faults that struck it."""

    agent: str
    bars: list[Bar] = field(default_factory=list)
    faults: list[FaultMark] = field(default_factory=list)
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Story:
    """All that a picture shows. `money` are the instants of usage and what had been spent by then, in pusd."""

    events: Sequence[Event]
    titles: Mapping[str, str]
    lanes: Sequence[Lane]
    start_us: int
    end_us: int
    money: Sequence[tuple[int, int]]
    tokens: int
    unpriced: int
    clock_set_back: int

    def until(self, bar: Bar) -> int:
        """Where a lease ends in the picture; one that is still held, with the picture itself."""
        return self.end_us if bar.end_us is None else max(bar.end_us, bar.start_us)

    def row(self, lane: Lane, at_us: int) -> int:
        """The row of a lane in which something is held at an instant, else the first."""
        return next((bar.row for bar in lane.bars if bar.start_us <= at_us <= self.until(bar)), 0)

    @property
    def bars(self) -> list[Bar]:
        """All leases, oldest first."""
        return sorted((bar for lane in self.lanes for bar in lane.bars), key=lambda bar: (bar.start_us, bar.start_seq))

    @property
    def faults(self) -> list[FaultMark]:
        """All faults, oldest first."""
        return sorted((mark for lane in self.lanes for mark in lane.faults), key=lambda mark: mark.at_us)


def tell(events: Sequence[Event], faults: Sequence[FaultMark], titles: Mapping[str, str]) -> Story:
    """The story of a history."""
    instants = [event.at_us for event in events] + [mark.at_us for mark in faults] or [0]
    lanes: dict[str, Lane] = {}
    for bar in _bars(events, min(instants)):
        lanes.setdefault(bar.agent, Lane(bar.agent)).bars.append(bar)
    for mark in faults:
        lanes.setdefault(mark.agent, Lane(mark.agent)).faults.append(mark)
    for lane in lanes.values():
        _stack(lane, max(instants))
    spent, money, tokens, unpriced = 0, [], 0, 0
    for event in events:
        if event.kind == "usage_recorded":
            spent += event.data.get("cost_pusd", 0)
            tokens += event.data["tokens"]
            unpriced += bool(event.data.get("unpriced"))
            money.append((event.at_us, spent))
    back = sum(after.at_us < before.at_us for before, after in pairwise(events))
    return Story(events, titles, list(lanes.values()), min(instants), max(instants), money, tokens, unpriced, back)


def _bars(events: Sequence[Event], start_us: int) -> list[Bar]:
    bars: list[Bar] = []
    held: dict[str, Bar] = {}
    last: dict[str, Bar] = {}
    for event in events:
        name, kind, until = event.task_id or "", event.kind, event.data.get("expires_us")
        if kind == "task_claimed":
            bar = held[name] = Bar(name, event.fence or 0, event.agent_id or "", event.at_us, event.seq)
            bar.expires_us, bar.since = until, last.get(name)
            bars.append(bar)
        elif (
            kind in ("heartbeat", "task_resumed", *ENDS) and event.fence and (kind != "task_cancelled" or name in held)
        ):
            if name not in held:
                old = Bar(name, event.fence, event.agent_id or "", start_us, event.seq, begun=False)
                held[name] = old
                bars.append(old)
            bar = held[name]
            if kind in ENDS:
                _end(event, bar)
                last[name] = held.pop(name)
            else:
                (bar.beats if kind == "heartbeat" else bar.resumed).append(event.at_us)
                bar.expires_us = until
    for bar in held.values():
        if bar.expires_us is not None and events and bar.expires_us <= events[-1].at_us:
            bar.due_us = bar.expires_us
    return bars


def _end(event: Event, bar: Bar) -> None:
    bar.end, bar.end_us, bar.end_seq = ENDS[event.kind], event.at_us, event.seq
    bar.late = bool(event.data.get("late"))
    bar.due_us = event.data.get("due_us", bar.expires_us if bar.late else None)


def _stack(lane: Lane, end_us: int) -> None:
    """Give each lease the first row of its lane that is free when it begins."""
    free: list[int] = []
    for bar in lane.bars:
        until = end_us if bar.end_us is None else bar.end_us
        row = next((row for row, since in enumerate(free) if since <= bar.start_us), len(free))
        free[row : row + 1] = [max(until, bar.start_us)]
        bar.row = row
    lane.rows = max(len(free), 1)
