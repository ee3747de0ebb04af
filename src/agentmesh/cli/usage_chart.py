"""A usage report as horizontal bars: by cost, or by tokens where nothing has a price; what was wasted at their ends."""

from __future__ import annotations

from typing import Final

from agentmesh.cli.bars import SIGNS, bar
from agentmesh.cli.money import WASTED, compact, cost, tokens, waste
from agentmesh.cli.screen import Part, Screen, cells
from agentmesh.cli.usage_table import cost_cell, in_order, line_name
from agentmesh.model import UsageLine, UsageReport

BARS_IN_A_PIPE: Final = 40
SHORTEST_BARS: Final = 12


def show_chart(screen: Screen, report: UsageReport) -> None:
    """A bar for each line with usage; where the names leave no room beside them, below its name."""
    priced = bool(report.total.cost_pusd)
    rows = [
        (line_name(report.by, line), *_drawn(line, screen, priced=priced)) for line in in_order(report) if line.entries
    ]
    lead, tail = max(cells([name]) for name, *_ in rows), max(cells([value]) for *_, value in rows)
    beside = screen.width is None or lead + tail + SHORTEST_BARS + 2 <= screen.width
    room = BARS_IN_A_PIPE if screen.width is None else screen.width - tail - (lead if beside else 1) - 2
    most = max(whole for _, whole, *_ in rows)
    full, other, _ = SIGNS[screen.unicode]
    unit = "USD" if priced else "tokens"
    screen.line((f"{unit} by {report.by}: ", "bold"), (full, "cyan"), " used  ", (other, WASTED), " of it wasted")
    for name, whole, part, value in rows:
        drawn = bar(whole, part, most, room, WASTED, unicode=screen.unicode)
        gap = " " * (room - cells(drawn) + 1 + tail - cells([value]))
        if beside:
            screen.line(name, " " * (lead - cells([name]) + 1), *drawn, gap, value)
        else:
            screen.line(name)
            screen.line("  ", *drawn, gap[:-1], value)
    total = report.total
    lost: list[Part] = [", ", (f"{waste(total)} wasted", WASTED)] if waste(total) else []
    screen.line("in total ", cost(total) if priced else tokens(total.tokens), *lost)


def _drawn(line: UsageLine, screen: Screen, *, priced: bool) -> tuple[int, int, Part]:
    """How much a line comes to, how much of it was wasted, and what is said of it."""
    if priced:
        return line.cost_pusd, line.wasted_pusd, cost_cell(line, screen)
    return line.tokens, line.wasted_tokens, compact(line.tokens)
