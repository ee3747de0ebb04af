"""Export and import: what an import costs beside a bare `executemany`, and what an export costs those who work on.

The bare side inserts the same rows into equal tables without indexes of their own, in one transaction: nothing is read,
checked or worked out. An export runs in a process of its own, whose memory is then its peak; the writer claims and
completes as fast as it can, under `normal`, where the log grows fastest, until the export is done.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import apsw

from agentmesh import Board
from benchmarks import boards
from benchmarks.crew import Crew
from benchmarks.report import Figure, progress
from benchmarks.rounds import alternate, duration
from benchmarks.settings import Settings

TABLES = ("plan", "requirement", "pool", "task", "body", "task_tag", "edge")
EXPORT_SEC = 120
KILO = 1024
BATCH = 20_000


def figures(settings: Settings) -> Iterator[Figure]:
    """The import of many tasks, then the export of many usage entries."""
    yield _import(settings, settings.size(100_000, 10_000), settings.size(2, 1))
    number, path = settings.size(1_000_000, 100_000), settings.place("usage")
    progress(f"transfer: a board of {number:,} usage entries")
    with Board.open(path, durability="normal") as board:
        _use(board, number)
        boards.fill(board, boards.plain(number // 8))  # more than a writer can do meanwhile
    yield from _export(settings, path, number)


def _import(settings: Settings, number: int, rounds: int) -> Figure:
    progress(f"transfer: a board of {number:,} tasks")
    source, text = settings.place("source"), settings.place("text")
    with Board.open(source, durability="normal") as board:
        boards.fill(board, _mixed(number))
        board.export(text)
    tables = dict(_rows(source))
    progress("transfer: import")

    def ours() -> float:
        start = time.perf_counter()
        Board.import_board(text, settings.place("imported"))
        return (time.perf_counter() - start) / number

    compared = alternate(ours, lambda: _insert(settings.place("bare"), tables) / number, rounds)
    amount = f"{number:,} tasks, {len(tables['edge'][1]):,} edges, {len(tables['task_tag'][1]):,} tags"
    return Figure(
        f"import of {amount} against a bare `executemany`",
        compared.ratio,
        "x",
        "<=",
        10,
        compared.absolute("a task", "bare"),
    )


def _mixed(number: int) -> Iterator[dict[str, Any]]:
    """Tasks as plans have them: half wait for others, some have texts, tags, paths or requirements."""
    chance = Random(1)
    ids: list[str] = []
    for place, spec in enumerate(boards.plain(number)):
        if place % 2:
            spec["depends_on"] = sorted({chance.choice(ids[-100:]) for _ in range(3)})
        if place % 3 == 0:
            spec["tags"] = ["alpha", f"t{place % 50}"]
        if place % 4 == 0:
            spec["description"] = "Some words about what there is to do. " * 5
        if place % 5 == 0:
            spec["payload"] = {"number": place, "files": ["a.py", "b.py"]}
        if place % 7 == 0:
            spec["requires"] = ["python"]
        if place % 10 == 0:
            spec["writes"] = [f"src/{place % 500}/**"]
        ids.append(spec["id"])
        yield spec | {"priority": chance.randrange(5)}


def _rows(path: Path) -> Iterator[tuple[str, tuple[str, list[Any]]]]:
    """The definition and the rows of each table; nobody else is at the board."""
    with closing(apsw.Connection(str(path))) as connection:
        for name in TABLES:
            sql = connection.execute("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?", (name,)).get
            yield name, (sql, connection.execute(f"SELECT * FROM {name}").fetchall())


def _insert(path: Path, tables: dict[str, tuple[str, list[Any]]]) -> float:
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "NORMAL")
        for sql, _ in tables.values():
            connection.execute(sql)
        start = time.perf_counter()
        with connection:
            for name, (_, rows) in tables.items():
                if rows:
                    connection.executemany(f"INSERT INTO {name} VALUES ({','.join('?' * len(rows[0]))})", rows)
        return time.perf_counter() - start


class Exporter:
    """Exports a board to a file; its answer is its peak memory in MiB, and how long it took."""

    def __init__(self, _number: int, path: Path) -> None:
        self._board = Board.open(path)

    def __call__(self, target: Path) -> tuple[float, float]:
        """Export the board."""
        start = time.perf_counter()
        self._board.export(target)
        return _peak_mb(), time.perf_counter() - start


def _peak_mb() -> float:
    """This program's peak memory; `getrusage` would tell that of the process that started it, if it was more."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / KILO


def _export(settings: Settings, path: Path, number: int) -> Iterator[Figure]:
    progress("transfer: export beside a writer")
    log, slowest, pairs = 0, 0.0, 0
    with (
        Board.open(path, durability="normal") as board,
        Crew(1, Exporter, path) as crew,
        ThreadPoolExecutor(1) as pool,
    ):
        boards.truncate_log(path)
        crew.order(settings.place("text"))
        answer = pool.submit(crew.answers, EXPORT_SEC)
        while not answer.done():
            start = time.perf_counter()
            boards.pair(board)
            slowest, pairs = max(slowest, time.perf_counter() - start), pairs + 1
            log = max(log, boards.log_bytes(path))
        ((memory, seconds),) = answer.result()
    name = f"export of {number:,} usage entries beside a writer: "
    rate = f"{duration(seconds)}, {number / seconds:,.0f} entries a second"
    yield Figure(name + "peak memory", memory, "MB", "<=", 200, rate)
    others = f"{pairs / seconds:,.0f} pairs a second meanwhile, the slowest {duration(slowest)}"
    yield Figure(name + "log at its longest", log / 2**20, "MB", "<=", 32, others)


def _use(board: Board, number: int) -> None:
    """Enter usage in bulk, and its totals."""
    now_us = board.store.clock.now_us()
    for first in range(0, number, BATCH):
        rows = [_entry(now_us, place) for place in range(first, min(first + BATCH, number))]
        board.store.write(lambda tx, rows=rows: tx.execute_many("import_usage", rows))
    board.store.write(lambda tx: tx.execute("derive_usage_totals"))


def _entry(now_us: int, place: int) -> dict[str, Any]:
    return {
        "at_us": now_us - place * 1_000_000,
        "plan_pk": 0,
        "task_pk": None,
        "fence": None,
        "agent_id": f"agent-{place % 20}",
        "model": f"model-{place % 5}",
        "input_tokens": place % 10_000,
        "cached_input_tokens": place % 7_000,
        "cache_write_tokens": 0,
        "output_tokens": place % 900,
        "duration_us": 1_000_000 + place,
        "cost_pusd": place * 1_000,
        "price": "given",
    }
