"""Pure decisions: what an edge makes of its parent's end, how long a retry waits, where a graph has a cycle."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

from agentmesh.model import Ceiling, Condition, FailureKind, Outcome, State

N = TypeVar("N", bound=Hashable)

MET: Final[Mapping[str, frozenset[str]]] = {
    "completed": frozenset({"completed"}),
    "failed": frozenset({"failed"}),
    "finished": frozenset({"completed", "failed", "cancelled"}),
}
"""For each condition, the ends of the parent that meet it; every other end makes it impossible."""

RETRY_BASE_US: Final = 2_000_000
RETRY_LIMIT_US: Final = 600_000_000
JITTER_BITS: Final = 16

CEILINGS: Final[Mapping[Ceiling, int]] = {"released": 20, "infra": 10, "quota": 10}
"""After so many of these ends, which are not charged, a task is paused."""

SPLIT_REFUNDS: Final = 20
"""How often in a task's life a split gives its charge back."""

AVERSION_US: Final = 60_000_000
"""How long a task is not offered to the agent that released it."""


WASTED: Final = frozenset({"failed", "reclaimed", "cancelled"})
"""The ends of an attempt that make waste of what it used."""

WARNING_PERCENT: Final = 80
"""How much of a budget is spent when its warning is due."""

DAY_US: Final = 86_400_000_000

STEP_US: Final = 1_000_000
"""A clock that lies behind an instant of the board by less was adjusted, not set back."""

STORM_FAILURES: Final = 5
STORM_WINDOW_US: Final = 60_000_000
STORM_PAUSE_US: Final = 30_000_000
STORM_LIMIT_US: Final = 1_800_000_000
STORM_QUIET_US: Final = 600_000_000
"""So many `infra` or `quota` failures of a plan within any window of that length are a storm: its hand-outs pause. The
pause doubles with each storm that follows within the quiet time, up to its limit."""


def storm_pause_us(storms: int) -> int:
    """How long hand-outs of a plan pause after its nth storm in a row."""
    return min(STORM_PAUSE_US << min(storms - 1, 30), STORM_LIMIT_US)


def is_met(condition: Condition, parent: State) -> bool:
    """Whether a parent in that state lets the child go on."""
    return parent in MET[condition]


def conditions_met_by(end: State) -> tuple[Condition, ...]:
    """The conditions that a parent's end meets."""
    return tuple(condition for condition, ends in MET.items() if end in ends)  # type: ignore[misc]  # the keys are the conditions


def retry_delay_us(charged: int, jitter: int) -> int:
    """The wait before the next hand-out: doubles with each charged attempt, up to ten minutes, half of it jitter.

    Args:
        charged: charged attempts so far, at least 1.
        jitter: an integer of `JITTER_BITS` random bits.
    """
    ceiling = min(RETRY_BASE_US << min(max(charged, 1) - 1, 30), RETRY_LIMIT_US)
    return ceiling // 2 + (ceiling // 2 * jitter >> JITTER_BITS)


def uncharged(outcome: Outcome, kind: FailureKind | None) -> Ceiling | None:
    """The row of `CEILINGS` that an ended attempt counts toward; None when its charge stays."""
    if outcome == "released":
        return outcome
    return kind if outcome == "failed" and kind in ("infra", "quota") else None


def parents_first(parents: Mapping[N, Sequence[N]]) -> list[N]:
    """The nodes of a graph, each after those it waits for; those on a cycle, or behind one, are missing.

    Args:
        parents: node -> the nodes it waits for; those that are no keys do not count.
    """
    waiting = {node: sum(parent in parents for parent in above) for node, above in parents.items()}
    below: dict[N, list[N]] = {}
    for node, above in parents.items():
        for parent in above:
            below.setdefault(parent, []).append(node)
    order = [node for node, count in waiting.items() if count == 0]
    for node in order:  # it grows as we go
        for child in below.get(node, ()):
            waiting[child] -= 1
            if waiting[child] == 0:
                order.append(child)
    return order


def find_cycle(parents: Mapping[N, Sequence[N]]) -> list[N] | None:
    """A cycle in a graph given as node -> the nodes it waits for, first node repeated at the end; None without one."""
    stuck = parents.keys() - set(parents_first(parents))
    return _walk_round(parents, set(stuck)) if stuck else None


def _walk_round(parents: Mapping[N, Sequence[N]], stuck: set[N]) -> list[N]:
    """Follow stuck nodes upwards until one comes again: every stuck node has a stuck parent."""
    node, seen = next(iter(stuck)), dict[N, int]()
    trail: list[N] = []
    while node not in seen:
        seen[node] = len(trail)
        trail.append(node)
        node = next(parent for parent in parents[node] if parent in stuck)
    return [*trail[seen[node] :], node]
