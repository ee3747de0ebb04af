"""Paths: what a running attempt holds, and where tasks wait that would overlap it.

Tasks with the same patterns stand in one pool; a pool that overlaps a held pattern is parked in the lot of that
pattern, so a claim does not look at it again. The lot belongs to the pattern: when its last holder lets go, the lot
opens (one row, however many wait in it), and when another attempt takes the same pattern, it closes again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentmesh.errors import PathsHeld
from agentmesh.model import PathMode
from agentmesh.patterns import ancestors, anchor, conflict
from agentmesh.store.base import Row, Transaction

if TYPE_CHECKING:
    from agentmesh.board.change import Change

Want = tuple[str, PathMode]
BELOW_ALL = "\U0010ffff"
UNPARKED_AT_ONCE = 8


def encoded(writes: Sequence[str], reads: Sequence[str]) -> str:
    """The canonical text of a set of patterns; what is written need not be said to be read."""
    return json.dumps({"writes": list(writes), "reads": [p for p in reads if p not in writes]}, ensure_ascii=False)


def wants(paths: str) -> list[Want]:
    """The patterns of a pool with their modes."""
    found = json.loads(paths)
    return [(p, "write") for p in found["writes"]] + [(p, "read") for p in found["reads"]]


def blocker(tx: Transaction, workspace: str, wanted: Iterable[Want], task_pk: int = 0) -> tuple[Want, Row] | None:
    """The first of the wanted patterns that another attempt's hold excludes, with that hold.

    Args:
        tx: an open transaction, with the workspace locked if the answer is to last.
        workspace: where the patterns live.
        wanted: patterns with modes.
        task_pk: the task whose own holds do not count.
    """
    for pattern, mode in wanted:
        place = anchor(pattern)
        low, high = (place + "/", place + "0") if place else ("\x01", BELOW_ALL)
        rows = tx.fetch_all("holds_below", workspace=workspace, low=low, high=high, task_pk=task_pk)
        for higher in ancestors(place):
            rows += tx.fetch_all("holds_at", workspace=workspace, anchor=higher, task_pk=task_pk)
        for held in rows:
            if conflict(pattern, mode, held["pattern"], held["mode"]):
                return (pattern, mode), held
    return None


def held_error(tx: Transaction, want: Want, held: Row) -> PathsHeld:
    """The error that names who holds what."""
    holder = tx.fetch_one("holder_of", pk=held["task_pk"])
    task_id, agent = (holder["id"], holder["holder"] or "") if holder else ("", "")
    return PathsHeld(want[0], held["pattern"], task_id, agent)


def take(change: Change, task: Row, fence: int, wanted: Iterable[Want]) -> int:
    """Hold patterns for an attempt; how many were taken. The caller has seen that nothing excludes them."""
    taken = 0
    for pattern, mode in wanted:
        taken += change.tx.execute(
            "add_hold",
            workspace=task["workspace"],
            anchor=anchor(pattern),
            pattern=pattern,
            mode=mode,
            task_pk=task["pk"],
            fence=fence,
        )
        lot = change.tx.fetch_one("lot_of", workspace=task["workspace"], pattern=pattern, mode=mode)
        if lot and lot["is_open"]:
            change.tx.execute("mark_lot", pk=lot["pk"], is_open=0)
    return taken


def let_go(change: Change, task_pk: int, fence: int) -> None:
    """Free the patterns of an attempt and open the lots that nothing closes any more."""
    for hold in change.tx.fetch_all("end_holds", task_pk=task_pk, fence=fence):
        lot = change.tx.fetch_one("lot_of", workspace=hold["workspace"], pattern=hold["pattern"], mode=hold["mode"])
        if lot and not change.tx.fetch_one("still_held", **hold):
            change.ready += change.tx.execute("unpark_first", lot_pk=lot["pk"], most=UNPARKED_AT_ONCE)
            change.tx.execute("mark_lot", pk=lot["pk"], is_open=1)
            _drop_if_empty(change.tx, lot["pk"])


def park(change: Change, pool: Row, workspace: str, held: Row) -> None:
    """Let a pool wait in the lot of a held pattern."""
    key = {"workspace": workspace, "pattern": held["pattern"], "mode": held["mode"]}
    lot = change.tx.fetch_one("lot_of", **key)
    if lot is None:
        change.tx.execute("insert_lot", **key)
        lot = change.tx.fetch_one("lot_of", **key)
    assert lot is not None  # noqa: S101 - it was inserted a moment ago, in this transaction
    change.tx.execute("park_pool", pk=pool["pk"], lot_pk=lot["pk"])
    if pool["lot_pk"] is not None:
        _drop_if_empty(change.tx, pool["lot_pk"])


def unpark(change: Change, pool: Row) -> None:
    """Take a pool out of an open lot."""
    if pool["lot_pk"] is not None:
        change.tx.execute("park_pool", pk=pool["pk"], lot_pk=None)
        _drop_if_empty(change.tx, pool["lot_pk"])


def refresh(tx: Transaction, pool_pk: int) -> None:
    """Find a pool's head anew after one of its tasks became ready, left, or changed its urgency; none waits without."""
    pool = tx.fetch_one("refresh_pool", pk=pool_pk)
    if pool and pool["head_pk"] is None and pool["lot_pk"] is not None:
        tx.execute("park_pool", pk=pool_pk, lot_pk=None)
        _drop_if_empty(tx, pool["lot_pk"])


def _drop_if_empty(tx: Transaction, lot_pk: int) -> None:
    if not tx.fetch_one("parked_in", lot_pk=lot_pk):
        tx.execute("drop_lot", pk=lot_pk)
