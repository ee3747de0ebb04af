"""The verbs of the ledger and of budgets: what agents used, and what they may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from decimal import Decimal

from agentmesh import limits, prices
from agentmesh.board import budgets, ledger, reports, sources, zones
from agentmesh.board.change import Change
from agentmesh.board.claim import Claim
from agentmesh.board.ledger import GIVEN, Account, Spend
from agentmesh.board.reports import Scope
from agentmesh.board.requests import Request, once, request
from agentmesh.board.specs import task_name
from agentmesh.board.verbs.base import Verbs, Writer, lease_of
from agentmesh.errors import InvalidArgument, NotFound
from agentmesh.model import (
    OPERATOR,
    ORIGINS,
    USAGE_GROUPS,
    Budget,
    Json,
    Lease,
    Origin,
    Period,
    Usage,
    UsageGroup,
    UsagePage,
    UsageReceipt,
    UsageReport,
)
from agentmesh.store.base import Store
from agentmesh.usage import Dialect, UsageReading, read_usage

EPOCH = date(1970, 1, 1)
BUCKETS = tuple(field.name for field in fields(Usage))
DURATION_MS = 30 * 86_400_000.0
PERIODS: tuple[Period, ...] = ("lifetime", "day")


class Ledger:
    """What agents used. Every call is one transaction; the board must be open."""

    def __init__(self, store: Store, write: Writer) -> None:
        """Keep the ledger of an open store; `Board.ledger` is the usual way."""
        self._store = store
        self._write = write

    def record(
        self,
        agent_id: str | None = None,
        *,
        lease: Lease | Claim | None = None,
        task_id: str | None = None,
        model: str | None = None,
        input_tokens: int = 0,
        cached_input_tokens: int = 0,
        cache_write_tokens: int = 0,
        output_tokens: int = 0,
        usage: Mapping[str, Json] | None = None,
        dialect: Dialect | None = None,
        duration_ms: float = 0,
        cost_usd: str | float | Decimal | None = None,
        source: str | None = None,
        at: str | float | datetime | None = None,
        origin: Origin = "self",
        request_id: str | None = None,
    ) -> UsageReceipt:
        """Write down what an agent used; it is taken even if the attempt is over or was lost.

        Args:
            agent_id: who used it; a lease says so by itself.
            lease: the attempt that it was used for.
            task_id: the task that it was used for, without a lease: it belongs to the attempt that the agent had last;
                for a task that was pruned, to its plan alone.
            model: the model's name as its vendor writes it; what it costs is looked up by it.
            input_tokens: those that were neither read from a cache nor written into one.
            cached_input_tokens: those that were read from a cache.
            cache_write_tokens: those that were written into a cache.
            output_tokens: those that came out, reasoning among them.
            usage: a vendor's usage block, instead of the four counts.
            dialect: whose block it is, where it could be two vendors'.
            duration_ms: how long the model, or the agent, was at work.
            cost_usd: what it cost, if that is known: it wins over the price list.
            source: the permanent key of what was used, such as the id that the vendor gave the reply: it is counted
                once for ever. The same key again gives the first entry. With larger counts it adds an entry that holds
                the difference, `corrects` the first, and belongs to the first one's account and instant; smaller counts
                change nothing. Costs and durations never fall.
            at: when it was used, if not now: an RFC 3339 text, a datetime with an offset, or seconds since the epoch,
                at most 400 days ago and 5 minutes ahead. Days of reports and budgets go by it.
            origin: who reports it: the agent (`self`), an `import` of a client's logs, or what launched the client.
            request_id: repeated with the same arguments within a day, it is written once and gives the same entry.

        Raises:
            InvalidArgument: a value is out of its limits, contradicts another, or nothing is reported.
            SourceConflict: the source key was counted for another model, or one count grew and another shrank.
            NotFound: the task is not on the board.
            LeaseLost: the token is not that of the attempt.
        """
        named = _named(agent_id, lease, task_id)
        counts = Usage(input_tokens, cached_input_tokens, cache_write_tokens, output_tokens)
        reading = _reading(usage, dialect, counts)
        at_us = None if at is None else limits.instant_us("at", at)
        key = None if source is None else limits.name("source", source, limits.SOURCE)
        by: Origin = limits.choice("origin", origin, ORIGINS)  # type: ignore[assignment]  # they are the origins
        spend = self._spend(reading.usage, model, duration_ms, cost_usd, at_us)
        spend = replace(spend, at_us=at_us, source=key, origin=by)
        call = named.request(request_id, spend)

        def work(change: Change) -> UsageReceipt:
            account = named.account(change)
            receipts: list[UsageReceipt] = []

            def act() -> int:
                receipts.append(sources.record(change, account, spend))
                return receipts[0].entry.id

            pk = once(change, account.agent_id, call, act)
            receipt = receipts[0] if receipts else ledger.receipt(change.tx, account, pk)
            return replace(receipt, unknown=reading.unknown) if reading.unknown else receipt

        return self._write(work)

    def entries(self, *, task_id: str | None = None, limit: int = 50, cursor: int | None = None) -> UsagePage:
        """One page of entries, of the board or of a task, oldest first.

        Raises:
            NotFound: the task is not on the board.
        """
        if task_id is not None:
            task_name("task_id", task_id)
        most = limits.integer("limit", limit, 1, limits.PAGE)
        after = 0 if cursor is None else limits.integer("cursor", cursor, 0, limits.INTEGER)
        return self._store.read(lambda tx: ledger.page(tx, task_id, after=after, limit=most))

    def report(
        self,
        by: UsageGroup = "plan",
        *,
        plan: str | None = None,
        task_id: str | None = None,
        agent_id: str | None = None,
        model: str | None = None,
        since: str | date | None = None,
        until: str | date | None = None,
        tz: str | None = None,
        attempts: bool = False,
        limit: int = 50,
        offset: int = 0,
    ) -> UsageReport:
        """Sums of usage, dearest first, and the sum of all of it.

        Args:
            by: what to sum by: `task`, `plan`, `agent`, `model`, `attempt` or `day`.
            plan: only usage for tasks of this plan.
            task_id: only usage for this task.
            agent_id: only usage of this agent.
            model: only usage of this model.
            since: only from this day on, as a date such as 2026-01-31.
            until: only up to this day.
            tz: the time zone whose days they are, by its IANA name such as `Europe/Berlin`; UTC when not given. The
                sums are then taken from the entries. Pruned usage is known by its UTC day alone: what lies in two days
                of the zone stands in a line of its own (`rest`).
            attempts: add how many attempts there were, how long they were held, and how many reported nothing.
            limit: how many lines at most.
            offset: how many lines to leave out first.

        Raises:
            InvalidArgument: a value is out of its limits, the time zone is not known to this system, or `since` or
                `until` in a time zone lies within a UTC day whose usage was pruned.
            NotFound: the plan or the task is not on the board.
        """
        group: UsageGroup = limits.choice("by", by, USAGE_GROUPS)  # type: ignore[assignment]  # they are the groups
        for field, value in (("plan", plan), ("agent_id", agent_id), ("model", model)):
            if value is not None:
                limits.name(field, value)
        if task_id is not None:
            task_name("task_id", task_id)
        first = 0 if since is None else _day("since", since)
        last = budgets.LAST_DAY if until is None else _day("until", until)
        scope = Scope(plan, agent_id, model, task_id, first, last, None if tz is None else zones.zone(tz))
        most, skipped = limits.integer("limit", limit, 1, limits.PAGE), limits.integer("offset", offset, 0, 10**9)
        with_attempts = limits.boolean("attempts", attempts)
        return self._store.read(
            lambda tx: reports.report(tx, group, scope, attempts=with_attempts, limit=most, offset=skipped)
        )

    def _spend(
        self,
        usage: Usage,
        model: str | None,
        duration_ms: float,
        cost_usd: str | float | Decimal | None,
        at_us: int | None,
    ) -> Spend:
        """What the entry shall say; a cost that is not given is looked up, before the transaction."""
        name = "" if model is None else limits.name("model", model)
        duration_us = _duration_us(duration_ms)
        given = None if cost_usd is None else _cost(cost_usd)
        if not (usage.total_tokens or duration_us or given):
            raise InvalidArgument("usage", "must report tokens, a duration or a cost")
        if given is not None:
            return Spend(usage, name, duration_us, given, GIVEN)
        if not usage.total_tokens:
            return Spend(usage, name, duration_us, 0, None)
        priced_us = self._store.clock.now_us() if at_us is None else at_us
        found = prices.price(name, usage, at_us=priced_us) if name else None
        if found is None:
            return Spend(usage, name, duration_us, None, None)
        return Spend(usage, name, duration_us, found.cost_pusd, found.source)


class Budgets:
    """Limits on what is used. Every call is one transaction; the board must be open.

    A budget is named by what it limits (a plan, a task, an agent, or with none of these the board) and its period.
    """

    def __init__(self, store: Store, write: Writer) -> None:
        """Keep the budgets of an open store; `Board.budgets` is the usual way."""
        self._store = store
        self._write = write

    def set(
        self,
        *,
        plan: str | None = None,
        task_id: str | None = None,
        agent: str | None = None,
        period: Period = "lifetime",
        usd: str | float | Decimal | None = None,
        tokens: int | None = None,
        strict: bool = False,
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> Budget:
        """Limit what a plan, a task, an agent or the board may use, in place of the limits that it had.

        Args:
            plan: the plan.
            task_id: the task.
            agent: the agent.
            period: `lifetime`, or `day` for each calendar day (UTC).
            usd: the limit in dollars.
            tokens: the limit in tokens of all kinds.
            strict: hand out nothing while there is usage whose price nobody knows.
            agent_id: who sets it.
            request_id: see `claim_task`.

        Raises:
            InvalidArgument: no limit is given, or more than one of plan, task and agent.
            NotFound: the plan or the task is not on the board.
        """
        key = _budget_key(plan, task_id, agent, period)
        if usd is None and tokens is None:
            raise InvalidArgument("usd", "give a limit, in usd, in tokens, or both")
        limit = {
            "limit_pusd": None if usd is None else limits.pusd("usd", usd),
            "limit_tokens": None if tokens is None else limits.integer("tokens", tokens, 0, limits.INTEGER),
        }
        tight = limits.boolean("strict", strict)
        by = limits.name("agent_id", agent_id)
        call = request(request_id, "set_budget", **key, **limit, strict=tight)

        def work(change: Change) -> Budget:
            def act() -> bool:
                budgets.put(change, key, strict=tight, agent_id=by, **limit)
                return True

            once(change, by, call, act)
            found = budgets.named(change.tx, key)
            if found is None:
                raise NotFound("budget", key["name"] or key["scope"])  # taken away since the first call
            return found

        return self._write(work)

    def get(
        self,
        *,
        plan: str | None = None,
        task_id: str | None = None,
        agent: str | None = None,
        period: Period = "lifetime",
    ) -> Budget | None:
        """A budget as it stands; None where there is none."""
        key = _budget_key(plan, task_id, agent, period)
        return self._store.read(lambda tx: budgets.named(tx, key))

    def list(self) -> list[Budget]:
        """Every budget as it stands."""
        return self._store.read(budgets.every)

    def clear(
        self,
        *,
        plan: str | None = None,
        task_id: str | None = None,
        agent: str | None = None,
        period: Period = "lifetime",
        agent_id: str = OPERATOR,
        request_id: str | None = None,
    ) -> bool:
        """Take a budget away; False where there is none."""
        key = _budget_key(plan, task_id, agent, period)
        by = limits.name("agent_id", agent_id)
        call = request(request_id, "clear_budget", **key)
        return self._write(lambda change: bool(once(change, by, call, lambda: budgets.drop(change, key, by) or None)))


class Accounting(Verbs):
    """The ways to the ledger and to the budgets."""

    @property
    def ledger(self) -> Ledger:
        """What agents used on this board."""
        return Ledger(self._store, self._write)

    @property
    def budgets(self) -> Budgets:
        """What agents may use on this board."""
        return Budgets(self._store, self._write)


@dataclass(frozen=True, slots=True)
class _Named:
    """Whose usage it is, as the caller names it."""

    agent_id: str
    lease: Lease | None
    task_id: str | None

    def account(self, change: Change) -> Account:
        """The same, as it stands on the board."""
        if self.lease is not None:
            account = ledger.of_lease(change.tx, self.lease)
            if self.agent_id not in ("", account.agent_id):
                raise InvalidArgument("agent_id", "is not the agent of the lease")
            return account
        if self.task_id is not None:
            return ledger.of_task(change.tx, self.task_id, self.agent_id)
        return Account(self.agent_id)

    def request(self, request_id: str | None, spend: Spend) -> Request | None:
        """The identity of the call: a cost that was looked up is no part of it, since prices change."""
        task_id = self.lease.task_id if self.lease else self.task_id
        given = spend.cost_pusd if spend.price == GIVEN else None
        told = (spend.usage, spend.model, spend.duration_us, given)
        whence = {
            "source": spend.source,
            "at_us": spend.at_us,
            "origin": None if spend.origin == "self" else spend.origin,
        }
        more = {name: value for name, value in whence.items() if value is not None}
        return request(request_id, "record_usage", task_id=task_id, spend=told, **more)


def _named(agent_id: str | None, lease: Lease | Claim | None, task_id: str | None) -> _Named:
    agent = None if agent_id is None else limits.name("agent_id", agent_id)
    task = None if task_id is None else task_name("task_id", task_id)
    if lease is None:
        if agent is None:
            raise InvalidArgument("agent_id", "say whose usage it is, or show a lease")
        return _Named(agent, None, task)
    held = lease_of(lease)
    if task not in (None, held.task_id):
        raise InvalidArgument("task_id", "is not the task of the lease")
    return _Named(agent or "", held, task)


def _reading(block: Mapping[str, Json] | None, dialect: Dialect | None, counts: Usage) -> UsageReading:
    """The tokens that were given, as four counts or as a vendor's block."""
    for field in BUCKETS:
        limits.integer(field, getattr(counts, field), 0, limits.TOKENS)
    if block is None:
        if dialect is not None:
            raise InvalidArgument("dialect", "is for a usage block")
        return UsageReading(counts)
    if counts.total_tokens:
        raise InvalidArgument("usage", "give a usage block or token counts, not both")
    return read_usage(block, dialect=dialect)


def _cost(cost_usd: str | float | Decimal) -> int:
    pusd = limits.pusd("cost_usd", cost_usd)
    if pusd > limits.COST_PUSD:
        raise InvalidArgument("cost_usd", f"must be at most {limits.COST_PUSD // limits.PUSD} dollars an entry")
    return pusd


def _duration_us(duration_ms: float) -> int:
    if isinstance(duration_ms, bool) or not isinstance(duration_ms, (int, float)):
        raise InvalidArgument("duration_ms", "must be a number of milliseconds")
    if not 0 <= duration_ms <= DURATION_MS:  # NaN is not, either
        raise InvalidArgument("duration_ms", f"must be from 0 to {DURATION_MS:.0f} milliseconds")
    return round(duration_ms * 1000)


def _day(field: str, value: object) -> int:
    """A date as days since the Unix epoch."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(field, "must be a date such as 2026-01-31") from None
    if not isinstance(value, date) or isinstance(value, datetime):
        raise InvalidArgument(field, "must be a date such as 2026-01-31")
    return limits.integer(field, (value - EPOCH).days, 0, budgets.LAST_DAY)


def _budget_key(plan: str | None, task_id: str | None, agent: str | None, period: Period) -> dict[str, str]:
    limits.choice("period", period, PERIODS)
    named = {"plan": plan, "task_id": task_id, "agent": agent}
    given = [(field, name) for field, name in named.items() if name is not None]
    if not given:
        return {"scope": "board", "name": "", "period": period}
    if len(given) > 1:
        raise InvalidArgument(given[1][0], "name a plan, a task or an agent, only one of them")
    [(field, name)] = given
    checked = task_name(field, name) if field == "task_id" else limits.name(field, name)
    return {"scope": field.removesuffix("_id"), "name": checked, "period": period}
