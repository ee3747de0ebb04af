"""Urgency: the highest priority among a task and everything that waits for it.

Raising goes up the graph in one statement. Lowering works out anew the open ancestors whose urgency may have stemmed
from what was lost, children before parents.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

from agentmesh.store.base import Row, Transaction


def raise_above(tx: Transaction, task_pk: int, value: int) -> set[int]:
    """Make everything that a task waits for at least as urgent as `value`; the pools whose tasks were raised."""
    tx.execute("lock_graph")
    rows = tx.fetch_all("raise_urgency", pk=task_pk, urgency=value)
    return {row["pool_pk"] for row in rows if row["pool_pk"] is not None}


def lower(tx: Transaction, left: Mapping[int, int]) -> set[int]:
    """Work urgencies out anew above tasks that no longer lend theirs.

    Args:
        tx: an open transaction.
        left: task key -> the urgency it lent until now.

    Returns:
        The pools whose tasks were lowered.
    """
    suspects, above = _suspects(tx, left)
    if not suspects:
        return set()
    tx.execute("lock_graph")
    pools = set()
    for node in _children_first(suspects, above):
        below = tx.fetch_one("urgency_below", pk=node["pk"])
        lent = below["urgency"] if below else None
        fresh = node["priority"] if lent is None else max(node["priority"], lent)
        if fresh != node["urgency"]:
            tx.execute("set_urgency", pk=node["pk"], urgency=fresh)
            if node["pool_pk"] is not None:
                pools.add(node["pool_pk"])
    return pools


def _suspects(tx: Transaction, left: Mapping[int, int]) -> tuple[dict[int, Row], dict[int, list[int]]]:
    """The open ancestors whose urgency may stem from what was lost, and who of them stands above whom."""
    suspects: dict[int, Row] = {}
    above: defaultdict[int, list[int]] = defaultdict(list)
    queue = deque(left.items())
    while queue:
        pk, value = queue.popleft()
        for parent in tx.fetch_all("raised_parents", pk=pk):
            above[pk].append(parent["pk"])
            if parent["urgency"] <= value and parent["pk"] not in suspects:
                suspects[parent["pk"]] = parent
                queue.append((parent["pk"], parent["urgency"]))
    # An edge between suspects counts even where this loss did not travel along it: it says which goes first.
    return suspects, {pk: [parent for parent in parents if parent in suspects] for pk, parents in above.items()}


def _children_first(suspects: Mapping[int, Row], above: Mapping[int, list[int]]) -> Iterable[Row]:
    waiting = dict.fromkeys(suspects, 0)
    for child, parents in above.items():
        if child in suspects:
            for parent in parents:
                waiting[parent] += 1
    free = deque(pk for pk, count in waiting.items() if count == 0)
    while free:
        pk = free.popleft()
        yield suspects[pk]
        for parent in above.get(pk, ()):
            waiting[parent] -= 1
            if waiting[parent] == 0:
                free.append(parent)
