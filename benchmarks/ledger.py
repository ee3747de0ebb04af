"""What the ledger costs: an entry against a bare insert, totals on a long ledger, a claim under eight budgets.

The bare insert writes a row of the same columns with the same driver, file system, `synchronous` and WAL, in a
transaction of its own. An entry is also added to its totals, drawn off the reservation of its attempt, and told in the
history; its lease is looked at first, and its price looked up where it is not given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Self

import apsw

from agentmesh import Board
from benchmarks import boards
from benchmarks.report import Figure, progress
from benchmarks.rounds import alternate, timed
from benchmarks.settings import Settings

BAR = 3.0
HELD = {"lease_timeout_sec": boards.LONG_SEC, "max_hold_sec": boards.LONG_SEC}
USED: dict[str, Any] = {"model": "gpt-4o", "input_tokens": 1_200, "cached_input_tokens": 800, "output_tokens": 300}
GIVEN = {**USED, "cost_usd": "0.0075"}
WAYS = {"cost given": GIVEN, "cost looked up": USED}
PAIRS = 300
REPORTS = 100

COLUMNS = """at_us, plan_pk, task_pk, fence, agent_id, model, input_tokens, cached_input_tokens, cache_write_tokens,
 output_tokens, duration_us, cost_pusd, price"""
ENTRIES = f"""
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n + 1 < ?)
INSERT INTO usage_entry ({COLUMNS})
SELECT n / 100 % 10 * 86400000000 + n, n % 5 + 1, NULL, NULL, 'agent-' || (n / 5 % 10), 'model-' || (n / 50 % 2),
       n % 7000, n % 300, 0, n % 900, 1500000, n % 1000000, 'given' FROM number
"""
TOTALS = """
INSERT INTO usage_total
SELECT plan_pk, agent_id, model, at_us / 86400000000, COUNT(*), 0, SUM(input_tokens), SUM(cached_input_tokens), 0,
       SUM(output_tokens), SUM(duration_us), SUM(cost_pusd), 0, 0, 0 FROM usage_entry GROUP BY 1, 2, 3, 4
"""


class BareLedger:
    """A table of entries, and nothing else."""

    def __init__(self, path: Path, durability: str) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", durability.upper())
        self._connection.pragma("wal_autocheckpoint", 1_000)
        self._connection.execute(f"CREATE TABLE entry (pk INTEGER PRIMARY KEY, {COLUMNS})")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def insert(self, number: int) -> None:
        """One row in a transaction of its own."""
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            f"INSERT INTO entry ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (number, 1, 1, 1, boards.AGENT, "gpt-4o", 1_200, 800, 0, 300, 0, 7_500_000_000, "given"),
        )
        execute("COMMIT")


def figures(settings: Settings) -> Iterator[Figure]:
    """Entries in both durabilities; totals; budgets."""
    for durability in ("normal", "full"):
        for way, used in WAYS.items():
            yield _record(settings, durability, way, used)
    yield _totals(settings, settings.size(1_000_000, 100_000))
    yield _budgets(settings)


def _record(settings: Settings, durability: str, way: str, used: dict[str, Any]) -> Figure:
    progress(f"ledger: record, {way}, {durability}")
    number = settings.size(1_500, 300)
    with (
        Board.open(settings.place("ledger"), durability=durability) as board,
        BareLedger(settings.place("bare-ledger"), durability) as bare,
    ):
        boards.fill(board, boards.plain(1, estimate_usd=1_000, **HELD))
        claim = board.claim_task(boards.AGENT)
        if not claim:
            raise RuntimeError("There is nothing to work on.")
        compared = alternate(
            lambda: timed(lambda _: board.ledger.record(lease=claim, **used), range(number)),
            lambda: timed(bare.insert, range(round(number * BAR * 0.9))),
            settings.size(9, 3),
        )
    name = f"record usage against a bare insert, {way}, `{durability}`"
    return Figure(name, compared.ratio, "x", "<=", BAR, compared.absolute("a call", "bare"))


def _totals(settings: Settings, large: int) -> Figure:
    small = 1_000
    with ExitStack() as stack:
        reports: list[Callable[[int], object]] = []
        for size in (large, small):
            progress(f"ledger: {size:,} entries")
            board = stack.enter_context(_long_ledger(settings.place("totals"), size))
            reports.append(lambda _, board=board: board.ledger.report("plan"))
        ours, theirs = reports
        compared = alternate(
            lambda: timed(ours, range(REPORTS)), lambda: timed(theirs, range(REPORTS)), settings.size(9, 3)
        )
    name = f"a report by plan of {large:,} entries against {small:,}, in as many totals"
    return Figure(name, compared.ratio, "x", "<=", 2.0, compared.absolute(f"{large:,}", f"{small:,}"))


def _long_ledger(path: Path, entries: int) -> Board:
    """A board with so many entries of five plans, ten agents, two models and ten days."""
    with Board.open(path) as board:
        boards.fill(board, [{"title": "A task", "plan": f"plan-{number}"} for number in range(5)])
    with closing(apsw.Connection(str(path))) as connection, connection:
        connection.execute(ENTRIES, (entries,))
        connection.execute(TOTALS)
    boards.truncate_log(path)
    return Board.open(path, durability="normal")


def _budgets(settings: Settings) -> Figure:
    progress("ledger: eight budgets")
    with (
        Board.open(settings.place("budgets"), durability="normal") as bounded,
        Board.open(settings.place("no-budgets"), durability="normal") as free,
    ):
        for board in (bounded, free):
            boards.fill(board, boards.plain(1, id="named", priority=-1))
        for key in ({}, {"plan": "default"}, {"agent": boards.AGENT}, {"task_id": "named"}):
            bounded.budgets.set(usd=1_000_000, **key)
            bounded.budgets.set(tokens=10**15, period="day", **key)
        compared = alternate(_pairs(bounded), _pairs(free), settings.size(9, 3))
    name = "claim + complete of a task with estimates on a board with eight budgets against none"
    return Figure(name, compared.ratio, absolute=compared.absolute("with", "without"))


def _pairs(board: Board) -> Callable[[], float]:
    def side() -> float:
        boards.fill(board, boards.plain(PAIRS, estimate_usd="0.10", estimate_tokens=5_000))
        return timed(lambda _: boards.pair(board), range(PAIRS))

    return side
