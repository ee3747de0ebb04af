"""Which task an agent gets: the most urgent ready one that it can do and whose paths are free, then the oldest.

Tasks without paths come straight from an index, one probe for each capability set that the agent has. Tasks with paths
come by their pools; a pool that overlaps a held pattern is parked on the way, so it is looked at once, not by every
claim. Only when a plan is paused are plans asked one by one. A claim that names tags walks the tasks that carry the
first of them: it costs more the more tasks carry that tag.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentmesh.board import paths
from agentmesh.board.capabilities import Catalogue
from agentmesh.board.change import Change
from agentmesh.store.base import Row, Transaction, Value

PARKED_AT_ONCE = 256
TOP = 2**62


@dataclass(frozen=True, slots=True)
class Ask:
    """What a claim asks for, checked."""

    agent_id: str
    plan: str | None
    capabilities: frozenset[str]
    tags: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far an ask reaches on this board now: its capability sets and, if not the whole board, its plans."""

    ask: Ask
    eligible: tuple[int, ...]
    plans: tuple[int, ...] | None
    pooled: bool
    paused: bool = False


class TooManyParked(Exception):
    """So many pools were parked that the transaction should end before the search goes on."""


def reach(tx: Transaction, ask: Ask, pulse: Row, catalogue: Catalogue) -> Reach:
    """Work out what an ask may be given: nothing where a pause stands in the way."""
    eligible = catalogue.eligible(tx, pulse["newest_requirement"], ask.capabilities)
    pooled = pulse["ready_pool"] is not None or pulse["open_lot"] is not None
    plans: tuple[int, ...] | None = None
    if ask.plan is not None:
        found = tx.fetch_one("plan_by_name", name=ask.plan)
        plans = (found["pk"],) if found else ()
    if not pulse["pauses"]:
        return Reach(ask, eligible, plans, pooled)
    paused = {(row["scope"], row["name"]) for row in tx.fetch_all("pauses")}
    if ("board", "") in paused or ("agent", ask.agent_id) in paused:
        return Reach(ask, eligible, (), pooled, paused=True)
    if any(scope == "plan" for scope, _ in paused):
        ready = tx.fetch_all("plans_with_ready")
        going = tuple(row["plan_pk"] for row in ready if ("plan", row["name"]) not in paused)
        stopped = ask.plan is not None and ("plan", ask.plan) in paused
        plans = going if plans is None else tuple(pk for pk in plans if pk in going)
        return Reach(ask, eligible, plans, pooled, paused=stopped)
    return Reach(ask, eligible, plans, pooled)


def pick(tx: Transaction, found: Reach, change: Change | None = None) -> int | None:
    """The key of the task to hand out, or None.

    Args:
        tx: an open transaction.
        found: how far the ask reaches.
        change: the write to park pools in; without one nothing is parked.

    Raises:
        TooManyParked: commit and pick again.
    """
    if found.ask.tags:
        return _pick_tagged(tx, found)
    best = _pick_plain(tx, found)
    if found.pooled:
        best = _pick_pooled(tx, found, best, change)
    return best["pk"] if best else None


def _pick_plain(tx: Transaction, found: Reach) -> Row | None:
    wish: dict[str, Value] = {"agent_id": found.ask.agent_id, "now_us": tx.now}
    best: Row | None = None
    for requires_pk in found.eligible:
        if found.plans is None:
            best = _better(best, tx.fetch_one("pick_ready", requires_pk=requires_pk, **wish))
            continue
        for plan_pk in found.plans:
            row = tx.fetch_one("pick_plan_ready", plan_pk=plan_pk, requires_pk=requires_pk, **wish)
            best = _better(best, row)
    return best


def _pick_pooled(tx: Transaction, found: Reach, best: Row | None, change: Change | None) -> Row | None:
    looked_at = 0
    for pool in _pools(tx, found):
        if best and _rank(best) < (-pool["head_urgency"], pool["head_pk"]):
            break
        looked_at += 1
        if looked_at > PARKED_AT_ONCE:
            raise TooManyParked
        if blocked(tx, pool, change):
            continue
        row = tx.fetch_one("pick_in_pool", pool_pk=pool["pk"], agent_id=found.ask.agent_id, now_us=tx.now)
        best = _better(best, row)
    return best


def blocked(tx: Transaction, pool: Row, change: Change | None) -> bool:
    """Whether a pool's patterns are held against it; if so it is parked, where a change is given."""
    home = tx.fetch_one("pool_of", pk=pool["pk"])
    if home is None:
        return True
    tx.execute("lock_workspace", workspace=home["workspace"])
    conflict = paths.blocker(tx, home["workspace"], paths.wants(home["paths"]))
    if conflict is None:
        return False
    if change is not None:
        paths.park(change, home, home["workspace"], conflict[1])
    return True


def _pools(tx: Transaction, found: Reach) -> Iterator[Row]:
    """The pools with ready tasks that no closed lot holds, most urgent head first."""
    lots = [row["pk"] for row in tx.fetch_all("open_lots")]
    sources = []
    for requires_pk in found.eligible:
        if found.plans is None:
            sources.append(_paged(tx, "ready_pools", requires_pk=requires_pk))
        else:
            sources.extend(
                _paged(tx, "ready_plan_pools", requires_pk=requires_pk, plan_pk=plan_pk) for plan_pk in found.plans
            )
        sources.extend(_paged(tx, "parked_pools", requires_pk=requires_pk, lot_pk=lot_pk) for lot_pk in lots)
    merged = heapq.merge(*sources, key=lambda pool: (-pool["head_urgency"], pool["head_pk"]))
    return (pool for pool in merged if found.plans is None or pool["plan_pk"] in found.plans)


def _paged(tx: Transaction, statement: str, **where: int) -> Iterator[Row]:
    urgency, head_pk = TOP, 0
    while rows := tx.fetch_all(statement, urgency=urgency, head_pk=head_pk, **where):
        yield from rows
        urgency, head_pk = rows[-1]["head_urgency"], rows[-1]["head_pk"]


def _pick_tagged(tx: Transaction, found: Reach) -> int | None:
    """Walk the ready tasks of the first tag; the other wishes are weighed one task at a time."""
    first, *others = sorted(found.ask.tags)
    urgency, pk = TOP, 0
    wish: dict[str, Value] = {"tag": first, "agent_id": found.ask.agent_id, "now_us": tx.now}
    while rows := tx.fetch_all("pick_tagged", urgency=urgency, pk=pk, **wish):
        for row in rows:
            if _suits(tx, row, found, others):
                return int(row["pk"])
        urgency, pk = rows[-1]["urgency"], rows[-1]["pk"]
    return None


def _suits(tx: Transaction, row: Row, found: Reach, tags: Sequence[str]) -> bool:
    return (
        row["requires_pk"] in found.eligible
        and (found.plans is None or row["plan_pk"] in found.plans)
        and set(tags) <= set(json.loads(row["tags"]))
        and (row["pool_pk"] is None or not blocked(tx, {"pk": row["pool_pk"]}, None))
    )


def _better(one: Row | None, two: Row | None) -> Row | None:
    if one is None or two is None:
        return one or two
    return one if _rank(one) < _rank(two) else two


def _rank(row: Row) -> tuple[int, int]:
    return (-row["urgency"], row["pk"])
