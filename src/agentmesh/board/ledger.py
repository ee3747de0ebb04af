"""The ledger: what agents used, entry by entry, and the sums of it.

An entry is written once. Whatever arrives is written, also for an attempt that was lost, failed or ended long ago: the
money was spent. What attempts used that ended in vain is waste. Sums by plan, agent, model and day stand beside the
entries, kept in the same transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agentmesh.board import budgets, leases
from agentmesh.board.change import Change
from agentmesh.board.lookup import known_row, task_row
from agentmesh.errors import NotFound, StoreError
from agentmesh.model import Lease, Origin, Usage, UsageEntry, UsagePage, UsageReceipt
from agentmesh.rules import DAY_US, WASTED
from agentmesh.store.base import Row, Transaction

NO_PLAN = 0
GIVEN = "given"
"""The price of an entry whose cost its writer named."""


@dataclass(frozen=True, slots=True)
class Spend:
    """What an entry shall say: the tokens, the time, and the cost, None if nobody knows it.

    `at_us` is the instant of the usage, None for that of the transaction; `source` is its permanent key.
    """

    usage: Usage
    model: str
    duration_us: int
    cost_pusd: int | None
    price: str | None
    at_us: int | None = None
    source: str | None = None
    origin: Origin = "self"


@dataclass(frozen=True, slots=True)
class Account:
    """Whose usage it is: an agent's, for a task and one of its attempts, as they stand, or for neither."""

    agent_id: str
    task: Row | None = None
    attempt: Row | None = None


def of_lease(tx: Transaction, lease: Lease) -> Account:
    """The account of an attempt, open or over, by the lease on it.

    Raises:
        NotFound: the task is not on the board.
        LeaseLost: there is no such attempt, or the token is not its own.
    """
    row = leases.shown(tx, lease, "account_of_lease")
    return Account(row["agent_id"], row, row)


def of_task(tx: Transaction, task_id: str, agent_id: str) -> Account:
    """The account of an agent at a task: that of the attempt which it had last, if it had one. A pruned one has none.

    Raises:
        NotFound: the task is not on the board and never was.
    """
    tx.execute("lock_task", id=task_id)
    task = known_row(tx, task_id)
    return Account(agent_id, task, tx.fetch_one("last_attempt_of_agent", task_pk=task["pk"], agent_id=agent_id))


def record(change: Change, account: Account, spend: Spend) -> UsageReceipt:
    """Write an entry, and book it everywhere; it, and what is left of its budgets."""
    task, attempt, usage = account.task, account.attempt, spend.usage
    at_us = change.now if spend.at_us is None else spend.at_us
    tokens, pusd = usage.total_tokens, spend.cost_pusd or 0
    fence = attempt["fence"] if attempt else None
    values: dict[str, Any] = {
        "plan_pk": task["plan_pk"] if task else NO_PLAN,
        "agent_id": account.agent_id,
        "model": spend.model,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "output_tokens": usage.output_tokens,
        "duration_us": spend.duration_us,
    }
    priced = {"cost_pusd": spend.cost_pusd, "price": spend.price}
    known = {"at_us": at_us, "source": spend.source, "origin": spend.origin}
    where = {"task_pk": task["pk"] if task else None, "fence": fence}
    change.tx.execute("lock_budgets")
    rows = budgets.over(change.tx, task or budgets.NO_TASK, account.agent_id)
    stands = attempt["outcome"] or "" if attempt else ""
    added = change.tx.fetch_one("add_usage", outcome=stands, **known, **where, **values, **priced)
    if added is None:
        raise StoreError(f"Attempt {fence} of agent {account.agent_id!r} changed under a lock.")
    wasted = int(attempt is not None and attempt["outcome"] in WASTED)
    change.tx.execute(
        "total_usage",
        day=at_us // DAY_US,
        unpriced=int(spend.cost_pusd is None),
        cost_pusd=pusd,
        wasted_tokens=wasted * tokens,
        wasted_us=wasted * spend.duration_us,
        wasted_pusd=wasted * pusd,
        **values,
    )
    told: dict[str, Any] = {"unpriced": True} if spend.cost_pusd is None else {"cost_pusd": pusd}
    if at_us != change.now:
        told["used_us"] = at_us
    change.event("usage_recorded", task, fence=fence, agent_id=account.agent_id, tokens=tokens, **told)
    drawn = _draw(change, task, attempt, pusd, tokens)
    left = budgets.spend(change, rows, task, day=at_us // DAY_US, pusd=spend.cost_pusd, tokens=tokens, drawn=drawn)
    named = {"plan": task["plan"] if task else None, "task_id": task["id"] if task and task["pk"] else None}
    return UsageReceipt(entry({"pk": added["pk"], "fence": fence, **known, **values, **priced, **named}), left)


def receipt(tx: Transaction, account: Account, pk: int) -> UsageReceipt:
    """An entry that was written before, and what is left of its budgets now.

    Raises:
        NotFound: it was pruned away.
    """
    row = tx.fetch_one("usage_by_pk", pk=pk)
    if row is None:
        raise NotFound("usage entry", str(pk))
    return UsageReceipt(entry(row), budgets.left(tx, account.task, account.agent_id))


def page(tx: Transaction, task_id: str | None, *, after: int, limit: int) -> UsagePage:
    """One page of entries, oldest first.

    Raises:
        NotFound: the task is not on the board.
    """
    if task_id is None:
        rows = tx.fetch_all("usage_after", after=after, most=limit + 1)
    else:
        pk = task_row(tx, task_id)["pk"]
        rows = tx.fetch_all("usage_of_task_after", task_pk=pk, after=after, most=limit + 1)
    shown = rows[:limit]
    return UsagePage(tuple(entry(row) for row in shown), shown[-1]["pk"] if len(rows) > limit else None)


def _draw(change: Change, task: Row | None, attempt: Row | None, pusd: int, tokens: int) -> tuple[int, int]:
    """Take usage off its attempt's reservation; how much was taken."""
    if task is None or attempt is None or attempt["outcome"] is not None:
        return 0, 0
    there = {name: attempt[name] for name in ("reserved_pusd", "reserved_tokens")}
    drawn = min(pusd, there["reserved_pusd"]), min(tokens, there["reserved_tokens"])
    if any(drawn):
        change.change_attempt("draw_reservation", task, pusd=drawn[0], tokens=drawn[1], **there)
    return drawn


def entry(row: Row) -> UsageEntry:
    """The record of an entry; `first_pk` in its row is the first entry of its source key, where it has one."""
    first = row.get("first_pk")
    return UsageEntry(
        id=row["pk"],
        at_us=row["at_us"],
        agent_id=row["agent_id"],
        plan=row["plan"],
        task_id=row["task_id"],
        fence=row["fence"],
        model=row["model"] or None,
        input_tokens=row["input_tokens"],
        cached_input_tokens=row["cached_input_tokens"],
        cache_write_tokens=row["cache_write_tokens"],
        output_tokens=row["output_tokens"],
        duration_us=row["duration_us"],
        cost_pusd=row["cost_pusd"],
        price=row["price"],
        source=row["source"],
        origin=row["origin"],
        corrects=first if first != row["pk"] else None,
    )
