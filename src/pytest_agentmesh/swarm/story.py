"""What happened in a run, for people: a table of numbered steps, one transaction each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from agentmesh.board.claim import Claim
from agentmesh.documents import dollars
from agentmesh.errors import AgentMeshError
from agentmesh.model import Entry, Lease, NoClaim, Task, UsageReceipt
from pytest_agentmesh.durations import words

HEADS: Final = ("#", "time", "agent", "verb", "task", "reply", "events")
SHOWN: Final = 60
"""How many steps a failure tells: the last ones."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A step that was taken: by whom, when, which call of the board, what came of it, the events that it wrote."""

    number: int
    at_us: int
    agent: str
    verb: str
    task_id: str | None
    reply: str
    events: tuple[int, ...] = ()


def said(reply: object, start_us: int) -> str:
    """What the board answered, in a few words of ours; nothing that an agent wrote is among them."""
    match reply:
        case Claim(lease=lease):
            return f"attempt {lease.fence}, lease until {words(lease.expires_us - start_us)}"
        case Lease(expires_us=until):
            return f"lease until {words(until - start_us)}"
        case NoClaim(reason=reason):
            return f"nothing: {reason}"
        case AgentMeshError(code=code):
            return f"refused: {code}"
        case Task(state=state):
            return state
        case UsageReceipt(entry=entry):
            return "unpriced" if entry.cost_pusd is None else f"{dollars(entry.cost_pusd)} USD"
        case Entry(version=version):
            return f"version {version}"
        case list():
            return f"{len(reply)} of them"
        case _:
            return "nothing there" if reply is None else "done"


def table(steps: Sequence[Taken], start_us: int, *, marked: int | None = None) -> str:
    """The steps as a table; the one that is `marked`, by its number, is pointed at."""
    rows = [HEADS]
    for one in steps:
        what = (words(one.at_us - start_us), one.agent, one.verb, one.task_id or "", one.reply, _numbers(one.events))
        rows.append((str(one.number), *what))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = []
    for number, row in enumerate(rows):
        cells = [row[0].rjust(widths[0]), row[1].rjust(widths[1])]
        cells += [cell.ljust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        here = number > 0 and steps[number - 1].number == marked
        lines.append(((">" if here else " ") + " " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def tail(steps: Sequence[Taken], start_us: int, *, marked: int | None = None) -> str:
    """The last steps as a table."""
    left_out = len(steps) - SHOWN
    before = f"  ({left_out} steps before these)\n" if left_out > 0 else ""
    return before + table(steps[-SHOWN:], start_us, marked=marked)


def indented(lines: Iterable[str]) -> str:
    """Lines of a section."""
    return "".join(f"\n  {line}" for line in lines)


def _numbers(events: tuple[int, ...]) -> str:
    return "" if not events else str(events[0]) if len(events) == 1 else f"{events[0]}-{events[-1]}"
