"""A usage report as a table, and what all its forms have in common: the names of lines, their order, the notes."""

from __future__ import annotations

from typing import Final

from agentmesh.cli.money import UNPRICED, WASTED, compact, usd, waste
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import count, duration
from agentmesh.model import UsageGroup, UsageLine, UsageReport

NO_USAGE: Final = "No usage is recorded."
REST: Final = {
    "plan": "no plan",
    "task": "no task, or pruned",
    "attempt": "no task, or pruned",
    "day": "pruned, in two days",
}
"""No name holds a blank, so none of these can be one."""


def show_table(screen: Screen, report: UsageReport) -> None:
    """A row for each line, and one for all of them."""
    columns = [
        Column(report.by.upper()),
        Column("IN", right=True, spare=True),
        Column("CACHED", right=True, spare=True),
        Column("WRITTEN", right=True, spare=True),
        Column("OUT", right=True, spare=True),
        Column("USD", right=True),
        Column("WASTED", right=True),
        Column("TIME", right=True, spare=True),
        Column("HELD", right=True, spare=True),
        Column("ATTEMPTS", right=True, spare=True),
        Column("ENTRIES", right=True, spare=True),
        Column("UNPRICED", right=True),
    ]
    rows = [_row(line_name(report.by, line), line, screen) for line in in_order(report)]
    screen.table(columns, [*rows, _row(("in total", "bold"), report.total, screen)])


def _row(name: Part, line: UsageLine, screen: Screen) -> list[Part]:
    buckets = (line.input_tokens, line.cached_input_tokens, line.cache_write_tokens, line.output_tokens)
    return [
        name,
        *(compact(bucket) if bucket else "" for bucket in buckets),
        cost_cell(line, screen),
        (usd(line.wasted_pusd, least=4) if line.wasted_pusd else waste(line), WASTED),
        duration(line.duration_us) if line.duration_us else "",
        duration(line.held_us) if line.held_us else "",
        _number(line.attempts),
        _number(line.entries),
        (_number(line.unpriced), UNPRICED),
    ]


def _number(value: int | None) -> str:
    return f"{value:,}" if value else ""


def cost_cell(line: UsageLine, screen: Screen) -> tuple[str, str]:
    """A cost in USD; at least that where some entries have no price, and no number where none has."""
    if line.unpriced == line.entries:
        return ("unpriced" if line.entries else "", UNPRICED)
    least = "≥" if screen.unicode else ">="
    return (f"{least if line.unpriced else ''}{usd(line.cost_pusd, least=4)}", UNPRICED if line.unpriced else "")


def line_name(by: UsageGroup, line: UsageLine) -> Part:
    """What a line is the sum of."""
    if line.rest:
        return (REST[by], "dim")
    if by == "attempt":
        return f"{line.task_id} #{line.fence}" if line.fence else f"{line.task_id}, no attempt"
    names = {"plan": line.plan, "task": line.task_id, "agent": line.agent_id, "model": line.model, "day": line.day}
    return names[by] or ("no model", "dim")


def in_order(report: UsageReport) -> list[UsageLine]:
    """Dearest first, as the report has them; but days one after the other."""
    return sorted(report.lines, key=lambda line: line.day or "")


def show_notes(screen: Screen, report: UsageReport, offset: int) -> None:
    """What one has to know of the sums, and how to go on."""
    total = report.total
    if total.unpriced:
        told = f"{total.unpriced:,} of {total.entries:,} entries are unpriced"
        screen.line((f"{told}: nobody knows what they cost, so no sum has it in.", UNPRICED))
    if total.unreported:
        screen.line((f"{count(total.unreported, 'completed attempt')} reported no usage.", UNPRICED))
    if report.more:
        screen.line((f"{report.more:,} more: --offset {offset + len(report.lines)}", "dim"))
