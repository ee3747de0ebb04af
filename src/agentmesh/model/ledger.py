"""Usage, what it costs, and the budgets that limit it."""

from __future__ import annotations

from dataclasses import dataclass

from agentmesh.model.words import BudgetScope, Origin, Period, UsageGroup


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of calls to a language model, each counted once: `input_tokens` are those that no cache was part of.

    Reasoning is part of `output_tokens`.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Price:
    """What a usage costs, and the price list that says so."""

    cost_pusd: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEntry:
    """One entry of the ledger: what an agent used, for which attempt of which task.

    The four kinds of tokens are disjoint. `cost_pusd` is None where no price is known; `price` says where it is from:
    `given`, or the name and version of the price list. `at_us` is the instant of the usage. `source` is the permanent
    key of what was used; an entry that `corrects` another holds the difference to what its key had counted before.
    `origin` says who reported it: the agent (`self`), an `import` of a client's logs, or what launched the client.
    """

    id: int
    at_us: int
    agent_id: str
    plan: str | None = None
    task_id: str | None = None
    fence: int | None = None
    model: str | None = None
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    duration_us: int = 0
    cost_pusd: int | None = None
    price: str | None = None
    source: str | None = None
    origin: Origin = "self"
    corrects: int | None = None


@dataclass(frozen=True, slots=True)
class UsagePage:
    """One page of the ledger, oldest first; give `cursor` back to get the next, None when this was the last."""

    entries: tuple[UsageEntry, ...]
    cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """What is left of a budget, reservations taken off; None where it sets no limit.

    `near` from 80 % of a limit on. `over_pusd` and `over_tokens`: by how much the spend has passed it, else None.
    """

    scope: BudgetScope
    name: str
    period: Period
    left_pusd: int | None = None
    left_tokens: int | None = None
    near: bool = False
    over_pusd: int | None = None
    over_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(BudgetLeft):
    """A limit on what a board, plan, task or agent uses, in its lifetime or each day (UTC), and how it stands.

    `unpriced` counts entries of unknown cost; while there are any, a `strict` budget in USD hands out nothing more.
    """

    limit_pusd: int | None
    limit_tokens: int | None
    spent_pusd: int
    spent_tokens: int
    reserved_pusd: int
    reserved_tokens: int
    unpriced: int
    strict: bool


@dataclass(frozen=True, slots=True)
class UsageReceipt:
    """What `record` answers: the entry, what is left of the budgets it falls under, usage fields nobody knows."""

    entry: UsageEntry
    budgets: tuple[BudgetLeft, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """The sum of some usage, and in a report what it is the sum of.

    `tokens` are those of all kinds. What is `wasted` was used by attempts that failed, were reclaimed or cancelled.
    `attempts` are counted, and how long they were held, only where a report was asked to; `unreported` are completed
    ones without any usage. `rest`, in a report by task or attempt, is what belongs to no task, or to a pruned one;
    by day in a time zone it is pruned usage whose UTC day lies in two days of the zone.
    """

    plan: str | None = None
    task_id: str | None = None
    fence: int | None = None
    agent_id: str | None = None
    model: str | None = None
    day: str | None = None
    rest: bool = False
    entries: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost_pusd: int = 0
    duration_us: int = 0
    wasted_tokens: int = 0
    wasted_pusd: int = 0
    wasted_us: int = 0
    attempts: int | None = None
    held_us: int | None = None
    unreported: int | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage by task, plan, agent, model, attempt or day, dearest first; `more` lines follow, `total` sums all."""

    by: UsageGroup
    lines: tuple[UsageLine, ...]
    total: UsageLine
    more: int = 0
