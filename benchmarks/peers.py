"""Other queues that live in a SQLite file, each used as its own documentation says, beside our whole claim + complete.

What is counted is how many *different* items all processes together took and acknowledged, from their common start
to the last acknowledgement; a turn lasts a second, or until nothing is left. Each turn has a fresh file; each
process serves one kind of queue only.

There are two sizes, because two of the peers depend on it: litequeue sorts what is ready at every `pop`,
persist-queue walks past what was acknowledged at every `get`. A short queue flatters the first, a fresh one the
second.

Durability. `synchronous` is set on the connection that each of them works with, after it has opened its file:
litequeue's and huey's public `conn` (by themselves they take NORMAL, and SQLite's default), persist-queue's
`_putter`, since it has no public way. All three use WAL by themselves and leave it to SQLite's own checkpoints, with
the `sqlite3` module of this Python.

What they do for it differs. litequeue: `pop` locks the oldest message, `done` marks it; a message whose worker died
stays locked until somebody calls `retry`. persist-queue: `get`, then `ack`; two processes may get the same item
(its documentation promises threads only), so items are counted once. huey: `dequeue` deletes the row, and there is
nothing to acknowledge: what a dying worker held is gone. Its worker then stores the task's result, as our
completion does, so that is its second step here; dequeuing alone stands beside it without a bar. It keeps no lease
and no history, so its bar is a fraction.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from agentmesh import Board
from agentmesh.store.base import Durability
from benchmarks import boards
from benchmarks.crew import Crew
from benchmarks.report import Figure, progress
from benchmarks.settings import Settings

ALERT_SEC = 0.1
TURN_SEC = 1.0
PROCESSES = (1, 8)
CASES: tuple[tuple[Durability, int], ...] = (("normal", 1_000), ("normal", 20_000), ("full", 1_000))
"""Durability, and items in a fresh queue. Under `full` the disk decides, so one size is enough there."""
BARS = {"litequeue": 1.0, "persist-queue": 1.0, "huey": 0.3}


@dataclass(frozen=True, slots=True)
class Turn:
    """What all processes did in one turn."""

    rate: float
    fairness: float


class Queue(Protocol):
    """A queue as a worker sees it."""

    def take(self) -> str | None:
        """Take an item and acknowledge it; its name, or None when there is none."""
        ...

    def close(self) -> None:
        """Let go of its file."""
        ...


class AgentMesh:
    """Our board."""

    def __init__(self, path: Path, durability: Durability) -> None:
        self._board = Board.open(path, durability=durability)

    def fill(self, number: int) -> None:
        """Put items in."""
        boards.fill(self._board, ({"title": "An item", "id": f"item-{n}"} for n in range(number)))

    def take(self) -> str | None:
        """Claim and complete."""
        claim = self._board.claim_task(boards.AGENT)
        if not claim:
            return None
        claim.complete(boards.RESULT)
        return claim.task.id

    def close(self) -> None:
        """Close the board."""
        self._board.close()


class LiteQueue:
    """`litequeue`: pop and done."""

    def __init__(self, path: Path, durability: str) -> None:
        from litequeue import LiteQueue as Theirs  # noqa: PLC0415 - loaded by the processes that serve it

        self._queue = Theirs(str(path))
        self._queue.conn.execute(f"PRAGMA synchronous = {durability}")

    def fill(self, number: int) -> None:
        """Put items in."""
        for n in range(number):
            self._queue.put(f"item-{n}")

    def take(self) -> str | None:
        """Pop and mark as done."""
        message = self._queue.pop()
        if message is None:
            return None
        self._queue.done(message.message_id)
        return str(message.data)

    def close(self) -> None:
        """Close the queue."""
        self._queue.conn.close()


class PersistQueue:
    """`persist-queue`: get and ack."""

    def __init__(self, path: Path, durability: str) -> None:
        from persistqueue import Empty, SQLiteAckQueue  # noqa: PLC0415 - as above

        self._empty = Empty
        # What others hold unacknowledged is not to be taken from them by opening the queue.
        self._queue = SQLiteAckQueue(str(path.parent), db_file_name=path.name, auto_resume=False)
        self._queue._putter.execute(f"PRAGMA synchronous = {durability}")  # noqa: SLF001 - there is no public way

    def fill(self, number: int) -> None:
        """Put items in."""
        for n in range(number):
            self._queue.put(f"item-{n}")

    def take(self) -> str | None:
        """Get and acknowledge."""
        try:
            item = self._queue.get(block=False)
        except self._empty:
            return None
        self._queue.ack(item)
        return str(item)

    def close(self) -> None:
        """Close the queue."""
        self._queue.close()


class HueyDequeue:
    """The SQLite storage of `huey`: dequeue, after which it has nothing more to do with the item."""

    def __init__(self, path: Path, durability: str) -> None:
        from huey.storage import SqliteStorage  # noqa: PLC0415 - as above

        self._storage = SqliteStorage("bench", str(path))
        self._storage.conn.execute(f"PRAGMA synchronous = {durability}")

    def fill(self, number: int) -> None:
        """Put items in."""
        for n in range(number):
            self._storage.enqueue(f"item-{n}".encode())

    def take(self) -> str | None:
        """Dequeue."""
        data = self._storage.dequeue()
        return None if data is None else bytes(data).decode()

    def close(self) -> None:
        """Close the storage."""
        self._storage.close()


class Huey(HueyDequeue):
    """The SQLite storage of `huey`: dequeue, then store the result as its worker does."""

    def take(self) -> str | None:
        """Dequeue and store the result."""
        name = super().take()
        if name is not None:
            self._storage.put_data(name, RESULT)
        return name


KINDS: dict[str, Callable[..., Any]] = {
    "AgentMesh": AgentMesh,
    "litequeue": LiteQueue,
    "persist-queue": PersistQueue,
    "huey": Huey,
    "huey, no result": HueyDequeue,
}
RESULT = b'{"ok":true}'


class Worker:
    """Fills a queue, or takes items from it for a while."""

    def __init__(self, number: int, kind: str) -> None:
        self._number = number
        self._kind = kind

    def __call__(self, order: tuple[Any, ...]) -> Any:
        """One order: `("fill", path, items)` or `("take", path, durability, start, end)`."""
        what, path, *rest = order
        return getattr(self, what)(path, *rest)

    def fill(self, path: Path, items: int) -> None:
        """The first worker fills it, with nothing synchronised."""
        if self._number == 0:
            queue = KINDS[self._kind](path, "normal" if self._kind == "AgentMesh" else "off")
            queue.fill(items)
            queue.close()

    def take(self, path: Path, durability: Durability, start: float, end: float) -> tuple[list[str], float]:
        """Take items until the end, or until there are none; their names, and when the last was done."""
        queue: Queue = KINDS[self._kind](path, durability)
        names: list[str] = []
        last = start
        time.sleep(max(0.0, start - time.monotonic()))
        while time.monotonic() < end:
            with contextlib.suppress(sqlite3.OperationalError):  # locked for too long: their workers try again
                name = queue.take()
                if name is None:
                    break
                names.append(name)
                last = time.monotonic()
        queue.close()
        return names, last


def figures(settings: Settings) -> Iterator[Figure]:
    """Every peer in every case, alone and with eight processes."""
    with ExitStack() as stack:
        progress("peers: starting the processes")
        crews = {(kind, count): stack.enter_context(Crew(count, Worker, kind)) for kind in KINDS for count in PROCESSES}
        for durability, items in CASES:
            for count in PROCESSES:
                mine = {kind: crew for (kind, number), crew in crews.items() if number == count}
                yield from _compared(settings, durability, items, mine, f"{count} process{'es' * (count > 1)}")


def _compared(
    settings: Settings, durability: str, items: int, crews: dict[str, Crew], workers: str
) -> Iterator[Figure]:
    turns: dict[str, list[Turn]] = {kind: [] for kind in crews}
    rounds = settings.size(5, 1)
    for number in range(rounds):
        for kind in list(crews)[:: 1 if number % 2 else -1]:
            progress(f"peers: {durability}, {items:,} items, {workers}, round {number + 1} of {rounds}, {kind}")
            turns[kind].append(_turn(settings, durability, items, crews[kind]))
    ours = turns.pop("AgentMesh")
    for kind, theirs in turns.items():
        ratio = median(one.rate / other.rate for one, other in zip(ours, theirs, strict=True))
        name = f"against {kind}: {items:,} items, {workers}, `{durability}`"
        absolute = f"items a second: {_rate(ours)} against {_rate(theirs)}"
        if len(crews[kind].pids) > 1:
            absolute += f"; worst- against best-served: {_fairness(ours)} against {_fairness(theirs)}"
        bar = BARS.get(kind, 0.0)
        yield Figure(name, ratio, "x", ">=" if bar else "", bar, absolute)


def _rate(turns: Sequence[Turn]) -> str:
    return f"{median(turn.rate for turn in turns):,.0f}"


def _fairness(turns: Sequence[Turn]) -> str:
    return f"{median(turn.fairness for turn in turns):.2f}x"


def _turn(settings: Settings, durability: str, items: int, crew: Crew) -> Turn:
    path = settings.place("peer")
    crew.order(("fill", path, items))
    crew.answers()
    start = time.monotonic() + ALERT_SEC
    crew.order(("take", path, durability, start, start + TURN_SEC))
    answers = crew.answers()
    different = {name for names, _ in answers for name in names}
    counts = [len(names) for names, _ in answers]
    return Turn(len(different) / (max(last for _, last in answers) - start), min(counts) / max(counts))
