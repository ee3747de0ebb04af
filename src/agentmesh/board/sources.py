"""Source keys: usage that has one is counted once for ever, however often and by however many it is reported.

Vendors report one reply several times while it grows, and clients copy replies between their logs. The largest counts
of a key are the right ones, in whichever order they arrive: the first report is an entry, a larger one adds an entry
that holds the difference, an equal or smaller one changes nothing. All entries of a key belong to the account and the
instant of the first.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from agentmesh import prices
from agentmesh.board import budgets, ledger
from agentmesh.board.change import Change
from agentmesh.board.ledger import GIVEN, NO_PLAN, Account, Spend
from agentmesh.board.lookup import known_row
from agentmesh.errors import InvalidArgument, SourceConflict, StoreError
from agentmesh.model import Usage, UsageReceipt
from agentmesh.store.base import Row, Transaction

BUCKETS = tuple(field.name for field in fields(Usage))
AHEAD_US = 5 * 60_000_000
"""How far the clock of whoever reports usage may be ahead of the board's."""
BACK_US = 400 * 86_400_000_000
"""How old usage may be."""


def record(change: Change, account: Account, spend: Spend) -> UsageReceipt:
    """Write usage down, unless it was counted before under its source key.

    Raises:
        InvalidArgument: the instant of the usage is in the future, or too long ago.
        SourceConflict: the key was counted before for another model, or one count has grown and another shrunk.
    """
    kept = None if spend.source is None else change.tx.fetch_one("source_of_usage", source=spend.source)
    if kept is not None:
        return _again(change, kept, spend)
    if spend.at_us is not None and not change.now - BACK_US <= spend.at_us <= change.now + AHEAD_US:
        raise InvalidArgument("at", "must be at most 400 days ago and at most 5 minutes in the future")
    receipt = ledger.record(change, account, spend)
    if spend.source is not None:
        first: dict[str, Any] = {
            "entry_pk": receipt.entry.id,
            "at_us": receipt.entry.at_us,
            "agent_id": account.agent_id,
        }
        plan_pk = account.task["plan_pk"] if account.task else NO_PLAN
        counts = {"entries": 1, **_amounts(spend)}
        change.tx.execute(
            "add_source",
            source=spend.source,
            plan_pk=plan_pk,
            model=spend.model,
            origin=spend.origin,
            **first,
            **counts,
        )
    return receipt


def _again(change: Change, kept: Row, spend: Spend) -> UsageReceipt:
    """Count what a key has grown by; where it has not, its first entry is the answer."""
    more = _growth(kept, spend)
    first = change.tx.fetch_one("usage_by_pk", pk=kept["entry_pk"])
    account = _account(change.tx, kept, first)
    if more is None:
        entry = ledger.entry(_pruned(kept) if first is None else first)
        return UsageReceipt(entry, budgets.left(change.tx, account.task, account.agent_id))
    receipt = ledger.record(change, account, more)
    if not change.tx.execute("grow_source", source=kept["source"], stood=kept["entries"], **_amounts(more)):
        raise StoreError(f"Source key {kept['source']!r} changed under a lock.")
    return replace(receipt, entry=replace(receipt.entry, corrects=kept["entry_pk"]))


def _growth(kept: Row, spend: Spend) -> Spend | None:
    """What is to be added to the sums of a key; None when nothing is."""
    if spend.model != kept["model"]:
        raise SourceConflict(kept["source"], "model", "is another one")
    grown = {name: getattr(spend.usage, name) - kept[name] for name in BUCKETS}
    larger = any(amount > 0 for amount in grown.values())
    if larger and (smaller := [name for name, amount in grown.items() if amount < 0]):
        raise SourceConflict(kept["source"], smaller[0], "has shrunk while another count has grown")
    usage = Usage(**grown) if larger else Usage()
    duration_us = max(0, spend.duration_us - kept["duration_us"])
    cost_pusd, price = _more_cost(kept, spend) if larger or spend.price == GIVEN else (0, None)
    if not (larger or duration_us or cost_pusd):
        return None
    return replace(spend, usage=usage, duration_us=duration_us, cost_pusd=cost_pusd, price=price, at_us=kept["at_us"])


def _more_cost(kept: Row, spend: Spend) -> tuple[int | None, str | None]:
    """What the whole costs beyond what was counted, never less than nothing: a cost is not taken back.

    By the list it is the difference of two list prices of one instant, so that a list which has changed since then
    changes nothing of what was counted.
    """
    if spend.price == GIVEN:
        return max(0, (spend.cost_pusd or 0) - kept["cost_pusd"]), GIVEN
    whole = prices.price(spend.model, spend.usage, at_us=kept["at_us"]) if spend.model else None
    if whole is None:
        return None, None
    counted = Usage(**{name: kept[name] for name in BUCKETS})
    before = None if kept["unpriced"] else prices.price(spend.model, counted, at_us=kept["at_us"])
    known = kept["cost_pusd"] if before is None else before.cost_pusd
    return max(0, whole.cost_pusd - known), whole.source


def _account(tx: Transaction, kept: Row, first: Row | None) -> Account:
    """Whose usage the first entry is; that of a pruned task belongs to its plan."""
    agent_id = kept["agent_id"]
    if first is None or first["task_id"] is None:
        plan = {**budgets.NO_TASK, "id": None, "pk": None, "plan_pk": kept["plan_pk"], "plan": kept["plan"]}
        return Account(agent_id, plan if kept["plan_pk"] != NO_PLAN else None)
    tx.execute("lock_task", id=first["task_id"])
    if first["fence"] is None:
        return Account(agent_id, known_row(tx, first["task_id"]))
    row = tx.fetch_one("account_of_lease", id=first["task_id"], fence=first["fence"])
    return Account(agent_id, row, row)


def _pruned(kept: Row) -> Row:
    """A key whose first entry was pruned, as an entry: what has been counted under it."""
    cost_pusd = None if kept["unpriced"] else kept["cost_pusd"]
    pk = kept["entry_pk"] or 0
    return {**kept, "pk": pk, "first_pk": pk, "task_id": None, "fence": None, "cost_pusd": cost_pusd, "price": None}


def _amounts(spend: Spend) -> dict[str, int]:
    """What an entry adds to the sums of its key."""
    counts = {name: getattr(spend.usage, name) for name in BUCKETS}
    return {
        **counts,
        "duration_us": spend.duration_us,
        "unpriced": int(spend.cost_pusd is None),
        "cost_pusd": spend.cost_pusd or 0,
    }
