"""The moments of a story that a reader looks for: what was lost, handed over, late, or broken by a fault."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agentmesh.printable import one_line
from pytest_agentmesh.durations import words
from pytest_agentmesh.timeline.story import Bar, Story
from pytest_agentmesh.timeline.words import usd


class Moment(NamedTuple):
    """Something that happened, in a clause; `seq` is its event, 0 of a fault, which is none."""

    at_us: int
    seq: int
    sign: str
    told: str


def moments(story: Story) -> list[Moment]:
    """All of them, oldest first."""
    faults = (
        Moment(mark.at_us, 0, "↯", f"{mark.fault.kind} of {mark.agent} at {mark.at}: {mark.what}")
        for mark in story.faults
    )
    found = [*(moment for bar in story.bars for moment in _of_bar(bar)), *_of_board(story), *faults]
    return sorted((moment._replace(told=one_line(moment.told)) for moment in found), key=lambda one: one[:2])


def _of_bar(bar: Bar) -> Iterator[Moment]:
    if bar.since is not None:
        taken = f"{bar.agent} took over {bar.task_id} from {bar.since.agent}"
        again = f"{bar.agent} tries {bar.task_id} again"
        yield Moment(bar.start_us, bar.start_seq, "»", f"{taken if bar.taken_over else again}, attempt {bar.fence}")
    if bar.end_us is None or bar.end_seq is None:
        return
    if bar.end == "reclaimed":
        since = bar.end_us if bar.due_us is None else bar.due_us
        overdue = f" {words(bar.end_us - since)} ago" if since < bar.end_us else ""
        yield Moment(bar.end_us, bar.end_seq, "!", f"{bar.agent} lost {bar.name}, whose lease ran out{overdue}")
    elif bar.end == "cancelled":
        yield Moment(bar.end_us, bar.end_seq, "X", f"{bar.name} was cancelled while {bar.agent} held it")
    elif bar.late:
        yield Moment(bar.end_us, bar.end_seq, "┄", f"{bar.agent} {bar.end} {bar.name} late, past its lease")


def _of_board(story: Story) -> Iterator[Moment]:
    """Pauses, budgets, storms, cuts."""
    for event in story.events:
        data = event.data
        if event.kind in ("paused", "resumed"):
            what = " ".join(filter(None, (data["scope"], data["name"])))
            by = f" by {event.agent_id}" if event.agent_id else ""
            ceiling = f", {data['count']} times {data['ceiling']}" if "ceiling" in data else ""
            yield Moment(event.at_us, event.seq, "=", f"{what} was {event.kind}{by}{ceiling}")
        elif event.kind == "breaker_opened":
            stops = f"plan {event.plan} stops after a storm of failures, for {words(data['until_us'] - event.at_us)}"
            yield Moment(event.at_us, event.seq, "=", stops)
        elif event.kind in ("budget_warning", "budget_exceeded"):
            what = " ".join(filter(None, (data["scope"], data["name"])))
            level = "nearly spent" if event.kind == "budget_warning" else "exceeded"
            yield Moment(event.at_us, event.seq, "$", f"the {what} budget is {level}: {_spent(data)}")


def _spent(data: dict[str, int]) -> str:
    money = f"{usd(data['spent_pusd'])} of {usd(data['limit_pusd'])}" if data["limit_pusd"] is not None else ""
    tokens = f"{data['spent_tokens']} of {data['limit_tokens']} tokens" if data["limit_tokens"] is not None else ""
    return ", ".join(filter(None, (money, tokens)))
