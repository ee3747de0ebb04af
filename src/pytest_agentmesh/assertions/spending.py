"""The ledger as an assertion looks at it: sums, the entries behind them, and what may explain a difference."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Final

from agentmesh.errors import NotFound
from agentmesh.limits import PAGE
from agentmesh.model import Event, UsageEntry, UsageGroup, UsageLine, UsageReport
from pytest_agentmesh import pages
from pytest_agentmesh.assertions.causes import cited
from pytest_agentmesh.assertions.witness import Turn, Witness
from pytest_agentmesh.assertions.wording import alike, count, message, names, usd

NAMED: Final = {"agent": attrgetter("agent_id"), "task": attrgetter("task_id"), "model": attrgetter("model")}
"""The name under which a line or an entry is summed."""
NO_NAME: Final = {"agent": "no agent", "task": "no task, or pruned", "model": "no model"}
"""What the sum of usage is called that names none."""


def tokens_of(entry: UsageEntry) -> int:
    """All tokens of an entry, in and out."""
    return entry.input_tokens + entry.cached_input_tokens + entry.cache_write_tokens + entry.output_tokens


@dataclass(frozen=True)
class Measure:
    """What is counted: money or tokens, of an entry, and how an amount reads."""

    of: Callable[[UsageEntry], int]
    spent: Callable[[UsageLine], int]
    told: Callable[[int], str]
    signed: Callable[[int], str]


USD: Final = Measure(
    lambda entry: entry.cost_pusd or 0,
    lambda line: line.cost_pusd,
    lambda pusd: f"{usd(pusd)} USD",
    lambda pusd: usd(pusd, signed=True),
)
TOKENS: Final = Measure(
    tokens_of,
    lambda line: line.tokens,
    lambda tokens: count(tokens, "token"),
    lambda tokens: f"{tokens:+,}",
)


class Books:
    """The usage of a board, or of a plan, an agent or a task on it."""

    def __init__(self, witness: Witness, plan: str | None, agent: str | None, task_id: str | None) -> None:
        """Look at the usage of all of these at once; what is None does not narrow the view.

        Raises:
            AssertionError: the plan or the task is not on the board.
        """
        __tracebackhide__ = True
        self.witness = witness
        self._scope = {"plan": plan, "agent_id": agent, "task_id": task_id}
        if task_id is not None:
            witness.task(task_id)
        try:
            self.total = self._report("agent", limit=1).total
        except NotFound:
            plans = {task.plan for task in witness.tasks.values()}
            raise AssertionError(message(f"there is no plan {plan!r}; {alike(str(plan), plans)}")) from None

    def _report(self, by: UsageGroup, *, limit: int = PAGE, offset: int = 0, attempts: bool = False) -> UsageReport:
        how: dict[str, Any] = {"limit": limit, "offset": offset, "attempts": attempts, **self._scope}
        return self.witness.board.ledger.report(by, **how)

    @property
    def whose(self) -> str:
        """The scope, as it follows a sum: ` by coder-1 for t1`."""
        words = {"plan": "in plan", "agent_id": "by", "task_id": "for"}
        return "".join(f" {words[field]} {name}" for field, name in self._scope.items() if name is not None)

    def lines(self, by: UsageGroup, *, attempts: bool = False) -> list[UsageLine]:
        """Every line of a report, dearest first."""
        found: list[UsageLine] = []
        more = 1
        while more:
            report = self._report(by, offset=len(found), attempts=attempts)
            found += report.lines
            more = report.more
        return found

    @cached_property
    def entries(self) -> list[UsageEntry]:
        """The entries that are kept, oldest first."""
        plan, agent, task_id = self._scope.values()
        return [
            entry
            for entry in pages.usage(self.witness.board)
            if plan in (None, entry.plan) and agent in (None, entry.agent_id) and task_id in (None, entry.task_id)
        ]

    @cached_property
    def events(self) -> dict[int, Event]:
        """The event of each entry whose event is kept, by the entry's id."""
        told: dict[tuple[object, ...], deque[Event]] = defaultdict(deque)
        for event in self.witness.history:
            if event.kind == "usage_recorded":
                used_us = event.data.get("used_us", event.at_us)
                key = (used_us, event.agent_id, event.task_id, event.fence, event.data["tokens"])
                told[(*key, event.data.get("cost_pusd"))].append(event)
        found = {}
        for entry in pages.usage(self.witness.board):
            key = (entry.at_us, entry.agent_id, entry.task_id, entry.fence, tokens_of(entry))
            if queue := told.get((*key, entry.cost_pusd)):
                found[entry.id] = queue.popleft()
        return found

    def quotes(self, entries: Iterable[UsageEntry]) -> list[Event]:
        """The events of entries."""
        return [self.events[entry.id] for entry in entries if entry.id in self.events]

    def named(self, entry: UsageEntry) -> str:
        """An entry: its event, whose it is, and how much."""
        event = self.events.get(entry.id)
        attempt = f", attempt {entry.fence}" if entry.fence else ""
        task = f" for {entry.task_id}{attempt}" if entry.task_id else ""
        cost = "no known price" if entry.cost_pusd is None else f"{usd(entry.cost_pusd)} USD"
        where = f"event {event.seq}" if event else f"entry {entry.id}"
        return f"{where}, {entry.agent_id}{task}: {count(tokens_of(entry), 'token')}, {cost}"


@dataclass(frozen=True, slots=True)
class Share:
    """What one agent, task or model spent, and what was expected of it."""

    by: UsageGroup
    name: str | None
    expected: int
    actual: int

    @property
    def label(self) -> str:
        """Its name, or what usage is called that names none."""
        return self.name or NO_NAME[self.by]

    @property
    def over(self) -> int:
        """By how much it is more than expected."""
        return self.actual - self.expected


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A likely cause, and the entries that tell it; one of a kind is enough."""

    kind: str
    text: str
    entries: tuple[UsageEntry, ...] = ()
    sure: bool = True
    """Whether it explains the whole difference."""


def shares(books: Books, by: UsageGroup, expected: Mapping[str | None, int]) -> list[Share]:
    """Dollars by agent, task or model: those expected in their order, then whoever else spent, dearest first."""
    actual: dict[str | None, int] = {}
    for line in books.lines(by):
        name = NAMED[by](line)
        actual[name] = actual.get(name, 0) + line.cost_pusd
    found = dict.fromkeys((*expected, *(name for name, spent in actual.items() if spent)))
    return [Share(by, name, expected.get(name, 0), actual.get(name, 0)) for name in found]


def suspicions(books: Books, measure: Measure, over: int, rows: Sequence[Share] = ()) -> list[Suspicion]:
    """What may explain that so much more was spent than expected (less, below nought), the best guess first."""
    if over > 0:
        return list(_too_much(books, measure, over))[:3]
    return list(_too_little(books, measure))[:3] if over < 0 else list(_misplaced(books, rows))


def crossing(books: Books, measure: Measure, limit: int) -> list[Suspicion]:
    """The entry that passed a limit, and what else made so much of it."""
    total = 0
    for entry in books.entries:
        total += measure.of(entry)
        if total > limit:
            text = f"the limit was passed at {books.witness.at(entry.at_us)} by {books.named(entry)}"
            first = Suspicion("crossing", text, (entry,))
            return [first, *suspicions(books, measure, measure.spent(books.total) - limit)]
    return suspicions(books, measure, measure.spent(books.total) - limit)


def wasted(books: Books) -> list[tuple[UsageLine, Turn]]:
    """The sums of usage that was in vain, and the attempts whose it was."""
    return [
        (line, turn)
        for line in books.lines("attempt")
        if line.task_id and (line.wasted_pusd or line.wasted_tokens)
        for turn in books.witness.turns(line.task_id)
        if turn.attempt.fence == line.fence
    ]


def _too_much(books: Books, measure: Measure, over: int) -> Iterator[Suspicion]:
    twins = [same for same in _twins(books) if measure.of(same[0])]
    twins.sort(key=lambda same: measure.of(same[0]) * (len(same) - 1) != over)
    for same in twins[:1]:
        first, quotes = same[0], books.quotes(same)
        times = "twice" if len(same) == 2 else f"{len(same)} times"  # noqa: PLR2004 - has a word of its own
        where = cited(quotes) if quotes else f"entries {names(str(entry.id) for entry in same)}"
        task = f" for attempt {first.fence} at {first.task_id}" if first.task_id else ""
        text = (
            f"{first.agent_id} recorded the same usage{task} {times}: {where}, {measure.told(measure.of(first))} each"
        )
        exact = measure.of(first) * (len(same) - 1) == over
        yield Suspicion("twice", f"{text}; with a request_id a repeated call is written once", tuple(same), exact)
    vain = books.total.wasted_pusd if measure is USD else books.total.wasted_tokens
    single = [entry for entry in books.entries if measure.of(entry) == over]
    if single and not twins and vain != over:
        yield Suspicion("single", f"one entry is the whole difference: {books.named(single[0])}", (single[0],))
    if vain:
        lost = wasted(books)
        whose = names(f"{turn.attempt.agent_id}'s attempt {turn.number} at {line.task_id}" for line, turn in lost)
        keys = {(line.task_id, line.fence) for line, _ in lost}
        entries = [entry for entry in books.entries if (entry.task_id, entry.fence) in keys]
        yield Suspicion(
            "waste", f"{measure.told(vain)} of it was used in vain, by {whose}", tuple(entries), vain == over
        )


def _too_little(books: Books, measure: Measure) -> Iterator[Suspicion]:
    nameless = [entry for entry in books.entries if entry.cost_pusd is None]
    if nameless and measure is USD:
        models = names(dict.fromkeys(entry.model or "no model named" for entry in nameless))
        have = (
            "entry has no known price, so it counts"
            if len(nameless) == 1
            else "entries have no known price, so they count"
        )
        yield Suspicion("unpriced", f"{len(nameless):,} {have} as nothing: model {models}", tuple(nameless))
    silent = [line for line in books.lines("attempt", attempts=True) if line.unreported]
    if silent:
        which = names(f"attempt {line.fence} at {line.task_id}" for line in silent)
        yield Suspicion("silent", f"{which} completed without reporting any usage")
    if not books.total.entries:
        there = sorted({entry.agent_id for entry in pages.usage(books.witness.board)})
        others = f"; there is usage by {names(there)}" if there else ""
        yield Suspicion("nothing", f"nobody recorded any usage{books.whose}{others}")


def _misplaced(books: Books, rows: Sequence[Share]) -> Iterator[Suspicion]:
    """Entries that are booked to another than expected."""
    short = [row for row in rows if row.over < 0]
    for row in (row for row in rows if row.over > 0):
        for entry in books.entries:
            if NAMED[row.by](entry) == row.name and entry.cost_pusd == row.over:
                other = next((less.label for less in short if less.over == -row.over), "another")
                yield Suspicion(
                    "misplaced", f"booked to {row.label}, expected to be {other}'s: {books.named(entry)}", (entry,)
                )
                break


def _twins(books: Books) -> Iterator[list[UsageEntry]]:
    """Entries that say the same but for when."""
    groups: dict[UsageEntry, list[UsageEntry]] = defaultdict(list)
    for entry in books.entries:
        groups[replace(entry, id=0, at_us=0)].append(entry)
    yield from (same for same in groups.values() if len(same) > 1)
