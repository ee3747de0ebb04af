"""Instants, amounts and events in a few words, as pictures and failure messages show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

from agentmesh.documents import dollars
from agentmesh.model import Event
from agentmesh.printable import one_line
from pytest_agentmesh.durations import words

AROUND: Final = 3
"""Events that are shown on either side of the one that matters."""


def usd(pusd: int) -> str:
    """An amount of dollars: exact if that is short, else to four digits."""
    exact = dollars(pusd)
    if len(exact) <= len("0.0000"):
        return f"${exact}"
    amount = Decimal(exact)
    digits = 2 if amount >= 1 else 4 if amount >= Decimal("0.0001") else 12
    return f"${round(amount, digits).normalize():f}"


def line(event: Event, start_us: int) -> str:
    """An event on one line: number, time since the start, agent, kind, task and attempt, what else it says."""
    attempt = f"{event.task_id}#{event.fence}" if event.fence and event.task_id else event.task_id or ""
    when = words(event.at_us - start_us)
    who = one_line(event.agent_id or "-")
    told = f"{one_line(attempt)}  {details(event, start_us)}".strip()
    return f"{event.seq:>6}  {when:<12} {who:<12} {event.kind:<18} {told}".rstrip()


def details(event: Event, start_us: int) -> str:
    """What an event says beside who, what and when."""
    return one_line(", ".join(_details(event.data, start_us)))


def around(events: Sequence[Event], seq: int | None) -> list[str]:
    """The lines of the events around one, which is marked."""
    place = next((place for place, event in enumerate(events) if event.seq == seq), None)
    if place is None:
        return []
    first, last = max(place - AROUND, 0), place + AROUND + 1
    start_us = min(event.at_us for event in events)
    shown = [f"{'>' if event.seq == seq else ' '} {line(event, start_us)}" for event in events[first:last]]
    return [f"around it, times since the first of {len(events)} events:", *shown]


def _details(data: dict[str, Any], start_us: int) -> Iterator[str]:
    for name, value in data.items():
        if value is None or value is False or value in ([], ""):
            continue
        if value is True:
            yield name
        elif name.endswith("_us"):
            yield f"{name.removesuffix('_us')} at {words(value - start_us)}"
        elif name.endswith("_pusd"):
            yield f"{name.removesuffix('_pusd')} {usd(value)}"
        elif isinstance(value, list):
            yield f"{name} {' '.join(map(str, value))}"
        else:
            yield f"{name} {value}"
