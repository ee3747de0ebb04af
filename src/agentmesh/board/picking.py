"""Which task an agent gets: the most urgent ready one that it can do and whose paths are free, then the oldest.

Tasks without paths come straight from an index, one probe for each capability set that the agent has. Tasks with paths
come by their pools; a pool that overlaps a held pattern is parked on the way, so it is looked at once, not by every
claim. Only where the first task of all is of a plan that is closed, or whose budget has no room for it, are plans asked
one by one. Where budgets bound hand-outs, tasks whose estimates do not fit are passed over: such a claim costs more the
more of them come first. A claim that names tags walks the tasks that carry the first of them: it costs more the more
tasks carry that tag.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agentmesh.board import paths
from agentmesh.board.bounds import Bounds, bounds
from agentmesh.board.budgets import UNLIMITED, Room
from agentmesh.board.capabilities import Catalogue
from agentmesh.board.change import Change
from agentmesh.jsontext import decode
from agentmesh.model import NoClaim
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
    """How far an ask reaches on this board now: its capability sets and, if not the whole board, its plans.

    `bounds` are None where nothing bounds hand-outs; `rooms` are those of plans by key; `stop` says why nothing is
    handed out.
    """

    ask: Ask
    eligible: tuple[int, ...]
    plans: tuple[int, ...] | None
    pooled: bool
    bounds: Bounds | None = None
    rooms: Mapping[int, Room] = field(default_factory=dict)
    stop: NoClaim | None = None

    def room(self, plan_pk: int | None) -> Room | None:
        """What a task, of that plan, may be estimated at; None where nothing bounds it."""
        if self.bounds is None:
            return None
        return self.bounds.room.within(self.rooms.get(plan_pk or 0, UNLIMITED))

    def admits(self, row: Row) -> bool:
        """Whether the plan of a task, however it was found, may hand it out."""
        if self.plans is not None and row["plan_pk"] not in self.plans:
            return False
        return self.bounds is None or (self.room(row["plan_pk"]) or UNLIMITED).fits(row)

    def wish(self, tx: Transaction, plan_pk: int | None) -> dict[str, Value]:
        """What a pick asks for beside its place, as parameters."""
        room = self.room(plan_pk)
        sizes = (None, None) if room is None else room
        return {"agent_id": self.ask.agent_id, "now_us": tx.now, "room_pusd": sizes[0], "room_tokens": sizes[1]}


class TooManyParked(Exception):
    """So many pools were parked that the transaction should end before the search goes on."""


def reach(tx: Transaction, ask: Ask, pulse: Row, catalogue: Catalogue) -> Reach:
    """Work out what an ask may be given."""
    eligible = catalogue.eligible(tx, pulse["newest_requirement"], ask.capabilities)
    pooled = pulse["ready_pool"] is not None or pulse["open_lot"] is not None
    plans: tuple[int, ...] | None = None
    if ask.plan is not None:
        found = tx.fetch_one("plan_by_name", name=ask.plan)
        plans = (found["pk"],) if found else ()
    if not pulse["bounded"]:
        return Reach(ask, eligible, plans, pooled)
    limits = bounds(tx, ask.agent_id, ask.plan)
    stop = limits.stop if ask.plan is None else limits.refusal(ask.plan)
    if stop is not None:
        return Reach(ask, eligible, (), pooled, limits, stop=stop)
    if not (limits.closed or limits.rooms):
        return Reach(ask, eligible, plans, pooled, limits)
    ready = tx.fetch_all("plans_with_ready")
    open_ = {row["plan_pk"]: row["name"] for row in ready if row["name"] not in limits.closed}
    going = tuple(open_) if plans is None else tuple(pk for pk in plans if pk in open_)
    if ready and not open_:
        stop = limits.closed[ready[0]["name"]]
    rooms = {pk: limits.rooms[name] for pk, name in open_.items() if name in limits.rooms}
    return Reach(ask, eligible, going, pooled, limits, rooms, stop if plans is None else None)


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
    best: Row | None = None
    for requires_pk in found.eligible:
        if found.ask.plan is None:
            row = tx.fetch_one("pick_ready", requires_pk=requires_pk, **found.wish(tx, None))
            if row is None or found.admits(row):
                best = _better(best, row)
                continue  # no plan has one that comes before it
        for plan_pk in found.plans or ():
            wish = found.wish(tx, plan_pk)
            row = tx.fetch_one("pick_plan_ready", plan_pk=plan_pk, requires_pk=requires_pk, **wish)
            best = _better(best, row)
    return best


def _pick_pooled(tx: Transaction, found: Reach, best: Row | None, change: Change | None) -> Row | None:
    parked = 0
    for pool in _pools(tx, found):
        if best and _rank(best) < (-pool["head_urgency"], pool["head_pk"]):
            break
        if blocked(tx, pool, change):
            parked += 1
            if parked > PARKED_AT_ONCE:
                raise TooManyParked
            continue
        row = tx.fetch_one("pick_in_pool", pool_pk=pool["pk"], **found.wish(tx, pool["plan_pk"]))
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
        and set(tags) <= set(decode(row["tags"]))
        and (found.bounds is None or not row["barred"])
        and found.admits(row)
        and (row["pool_pk"] is None or not blocked(tx, {"pk": row["pool_pk"]}, None))
    )


def _better(one: Row | None, two: Row | None) -> Row | None:
    if one is None or two is None:
        return one or two
    return one if _rank(one) < _rank(two) else two


def _rank(row: Row) -> tuple[int, int]:
    return (-row["urgency"], row["pk"])
