"""The ledger: write down what a call to a model used, and see what it all comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from agentmesh.cli.command import App, group, write_bytes
from agentmesh.cli.money import NEARLY, UNPRICED, budget_left, compact, usd
from agentmesh.cli.params import JsonValue, author_options, given, signature
from agentmesh.cli.screen import Column, Part, Screen
from agentmesh.cli.text import duration, instant
from agentmesh.cli.usage_chart import show_chart
from agentmesh.cli.usage_csv import as_csv
from agentmesh.cli.usage_table import NO_USAGE, show_notes, show_table
from agentmesh.documents import document
from agentmesh.limits import PAGE
from agentmesh.model import ORIGINS, USAGE_GROUPS, Budget, BudgetLeft, UsageEntry, UsagePage, UsageReceipt, UsageReport
from agentmesh.usage import DIALECTS

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

BUCKETS: Final = {
    "input": "Input that no cache was part of.",
    "cached-input": "Input read from a cache.",
    "cache-write": "Input written into a cache.",
    "output": "Output, reasoning included.",
}


@group()
def ledger() -> None:
    """Write down what agents used, and see what it comes to."""


def _counts(function: Callable[..., Any]) -> Callable[..., Any]:
    """The four kinds of tokens, each counted once."""
    for bucket, words in reversed(BUCKETS.items()):
        function = click.option(f"--{bucket}-tokens", metavar="N", type=int, help=words)(function)
    return function


@ledger.command("record")
@click.option("--model", metavar="NAME", help="The model, as its vendor writes it; its price is looked up.")
@_counts
@click.option("--usage", type=JsonValue(), help="A vendor's usage block instead: JSON, @FILE or @-.")
@click.option("--dialect", type=click.Choice(DIALECTS), help="Whose block it is, if that is not clear.")
@click.option("--duration-ms", metavar="MS", type=float, help="How long the model was at work.")
@click.option("--cost-usd", metavar="USD", help="What it cost, if you know: it wins over the price list.")
@click.option(
    "--source", metavar="KEY", help="Its permanent key, such as the vendor's id of the reply: counted once for ever."
)
@click.option("--at", metavar="INSTANT", help="When it was used, if not now, such as 2026-01-31T09:00:00Z.")
@click.option("--origin", type=click.Choice(ORIGINS), help="Who reports it: the agent (self), an import, a launcher.")
@author_options("What it was used for; without a lease, the agent's last attempt at it.")
@click.pass_context
def record(context: click.Context, /, **how: Any) -> None:
    """Write an entry: tokens, time and cost of one call of a model, or of several."""
    app: App = context.obj
    options = given(how)
    whose = signature(context, options)
    with app.open() as board:
        receipt = board.ledger.record(**whose, **options)
        budgets = [] if app.quiet or app.json else _whole(board, receipt)
    app.answer(document(receipt), lambda screen: _show_receipt(screen, receipt, budgets, quiet=app.quiet))


def _whole(board: Board, receipt: UsageReceipt) -> list[BudgetLeft]:
    """The receipt's budgets with their limits, which tell when one is nearly used up."""
    if not receipt.budgets:
        return []
    whole: dict[tuple[str, ...], Budget] = {(b.scope, b.name, b.period): b for b in board.budgets.list()}
    return [whole.get((left.scope, left.name, left.period), left) for left in receipt.budgets]


def _show_receipt(screen: Screen, receipt: UsageReceipt, budgets: list[BudgetLeft], *, quiet: bool) -> None:
    entry = receipt.entry
    if quiet:
        screen.copyable(str(entry.id))
        return
    told = f": {_all_tokens(entry):,} tokens" if _all_tokens(entry) else ""
    model = f" of {entry.model}" if entry.model else ""
    screen.line((f"Entry {entry.id}", "bold"), f"{told}{model}, ", _cost(entry), ".")
    for left in budgets:
        screen.line("  ", *budget_left(left))
    if entry.cost_pusd is None:
        why = f"the price of {entry.model} is not known" if entry.model else "no model is named"
        screen.line((f"Unpriced, not free: {why}. --cost-usd says what a call cost.", UNPRICED))
    if receipt.unknown:
        words = ", ".join(receipt.unknown)
        screen.line((f"Not understood, so not counted: {words}", NEARLY))


def _cost(entry: UsageEntry) -> Part:
    return ("unpriced", UNPRICED) if entry.cost_pusd is None else f"{usd(entry.cost_pusd)} USD"


def _all_tokens(entry: UsageEntry) -> int:
    return entry.input_tokens + entry.cached_input_tokens + entry.cache_write_tokens + entry.output_tokens


@ledger.command("entries")
@click.option("--task", "task_id", metavar="ID", help="Only entries for this task.")
@click.option("--limit", metavar="N", type=int, help="Entries on a page; 50 when not given.")
@click.option("--cursor", metavar="N", type=int, help="Where the page before this one ended.")
@click.pass_obj
def entries(app: App, /, **how: object) -> None:
    """List the entries, oldest first."""
    with app.open() as board:
        page = board.ledger.entries(**given(how))
    app.answer({"entries": []} | document(page), lambda screen: _show_page(screen, page, quiet=app.quiet))


def _show_page(screen: Screen, page: UsagePage, *, quiet: bool) -> None:
    if quiet:
        for entry in page.entries:
            screen.copyable(str(entry.id))
        return
    if not page.entries:
        screen.line(NO_USAGE)
        return
    columns = [
        Column("ENTRY", right=True),
        Column("AT"),
        Column("AGENT"),
        Column("TASK"),
        Column("MODEL"),
        Column("IN", right=True),
        Column("CACHED", right=True),
        Column("WRITTEN", right=True),
        Column("OUT", right=True),
        Column("TIME", right=True, spare=True),
        Column("USD", right=True),
        Column("PRICE", spare=True),
        Column("SOURCE", spare=True),
    ]
    screen.table(columns, [_row(entry) for entry in page.entries])
    if page.cursor is not None:
        screen.line((f"There are more: --cursor {page.cursor}", "dim"))


def _row(entry: UsageEntry) -> list[Part]:
    fence = f" #{entry.fence}" if entry.fence else ""
    return [
        (str(entry.id), "bold"),
        instant(entry.at_us),
        entry.agent_id,
        f"{entry.task_id}{fence}" if entry.task_id else "",
        entry.model or "",
        *(compact(n) if n else "" for n in (entry.input_tokens, entry.cached_input_tokens)),
        *(compact(n) if n else "" for n in (entry.cache_write_tokens, entry.output_tokens)),
        duration(entry.duration_us) if entry.duration_us else "",
        ("unpriced", UNPRICED) if entry.cost_pusd is None else usd(entry.cost_pusd, least=4),
        entry.price or "",
        _source(entry),
    ]


def _source(entry: UsageEntry) -> str:
    """Its source key, and which entry it corrects; who reported it, if not the agent."""
    parts = [entry.source or "", f"corrects {entry.corrects}" if entry.corrects else ""]
    return " ".join(filter(None, [*parts, "" if entry.origin == "self" else f"({entry.origin})"]))


@ledger.command("report")
@click.option("--by", type=click.Choice(USAGE_GROUPS), default="plan", show_default=True, help="What to sum by.")
@click.option("--plan", metavar="NAME", help="Only usage for tasks of this plan.")
@click.option("--task", "task_id", metavar="ID", help="Only usage for this task.")
@click.option("--agent", "agent_id", metavar="NAME", help="Only usage of this agent.")
@click.option("--model", metavar="NAME", help="Only usage of this model.")
@click.option("--since", metavar="DATE", help="Only from this day on, such as 2026-01-31.")
@click.option("--until", metavar="DATE", help="Only up to this day.")
@click.option("--tz", metavar="ZONE", help="Days of a time zone, such as Europe/Berlin; UTC when not given.")
@click.option("--limit", metavar="N", type=int, help="Lines at most; 50 when not given, in CSV all.")
@click.option("--offset", metavar="N", type=int, help="Leave out so many lines first.")
@click.option("--format", "form", type=click.Choice(["table", "csv", "chart"]), default="table", show_default=True)
@click.pass_obj
def report(app: App, /, form: str, **how: Any) -> None:
    """Sum the usage up, dearest first: tokens, cost, waste and time."""
    options = given(how)
    whole = form == "csv" and not app.json and "limit" not in options
    if whole:
        options["limit"] = PAGE
    offset = options.pop("offset", 0)
    with app.open() as board:
        found = [board.ledger.report(attempts=True, offset=offset, **options)]
        while whole and found[-1].more:
            found.append(board.ledger.report(attempts=True, offset=offset + len(found) * PAGE, **options))

    def people(screen: Screen) -> None:
        if form == "csv":
            write_bytes(as_csv(line for page in found for line in page.lines).encode())
        else:
            _show_report(screen, found[0], offset, chart=form == "chart", quiet=app.quiet)

    app.answer({"lines": []} | document(found[0]), people)


def _show_report(screen: Screen, report: UsageReport, offset: int, *, chart: bool, quiet: bool) -> None:
    told = report.lines if not chart else any(line.entries for line in report.lines)
    if not told:
        screen.line("No line is that far down." if offset else NO_USAGE)
        return
    (show_chart if chart else show_table)(screen, report)
    if not quiet:
        show_notes(screen, report, offset)
