"""`check()`: what the rows of a board say of each promise.

It reads one snapshot and trusts no counter: what is kept for speed (tallies, countdowns, urgencies, pool heads) is
worked out anew from the rows and compared. A statement named `check_pN_*` finds the rows that break promise N; a
promise is held when all of its statements find none.
"""

from __future__ import annotations

import itertools
from collections import defaultdict

from agentmesh.board import budgets
from agentmesh.model import Finding
from agentmesh.patterns import ancestors, conflict
from agentmesh.rules import find_cycle
from agentmesh.store.base import Row, Transaction

SHOWN = 10

RULES: dict[str, tuple[tuple[str, str], ...]] = {
    "P1": (
        ("check_p1_two_owners", "has more than one open attempt"),
        ("check_p1_owner", "and its attempts disagree on whether it is held"),
        ("check_p1_fences", "has a fence that is not that of its last attempt"),
    ),
    "P2": (
        ("check_p2_final", "is final and has an open attempt"),
        ("check_p2_twice", "was completed twice without being reopened"),
    ),
    "P3": (
        ("check_p3_charged", "counts other charged attempts than it has"),
        ("check_p3_ceiling", "was handed out more often than max_attempts allows"),
        ("check_p3_reason", "failed and does not say why"),
    ),
    "P4": (
        ("check_p4_unmet", "counts other unmet dependencies than it has"),
        ("check_p4_gate", "is ready or held although dependencies are not met"),
        ("check_p4_early", "was handed out before its dependencies allowed it"),
        ("check_p4_stuck", "is blocked although nothing holds it"),
        ("check_p4_impossible", "is open although a dependency can never be met"),
    ),
    "P6": (
        ("check_p6_tallies", "is a plan whose counts differ from its tasks"),
        ("check_p6_urgency", "has another urgency than its priority and what waits for it make"),
        ("check_p6_pools", "and its pool disagree on whether it is the first in it"),
        ("check_p6_pauses", "is marked as paused and has no pause, or the other way round, or is final"),
        ("check_p6_reports", "has a result although it has not completed"),
    ),
    "P7": (
        ("check_p7_totals", "has a total that is not the sum of its entries"),
        ("check_p7_entries", "says what no usage can be"),
        ("check_p7_sources", "is a source key with another sum than its entries"),
    ),
    "P8": (("check_p8_reserved", "has an attempt that reserves what it must not"),),
    "P9": (
        ("check_p9_values", "is an entry whose value and content type do not fit together"),
        ("check_p9_sizes", "is an entry of another size than it says"),
        ("check_p9_versions", "is an entry without a version, or there and gone at once"),
    ),
    "P10": (
        ("check_p10_orphans", "holds paths without an open attempt"),
        ("check_p10_lots", "has a lot that is open or closed although it should not be"),
    ),
    "P11": (
        ("check_p11_attempts", "has an attempt whose times are out of order"),
        ("check_p11_ended", "is final without the time of its end, or the other way round"),
    ),
}
UNOBSERVABLE = {
    "P5": "no row tells of a write that is not there",
    "P12": "a board that is refused is not read",
}


def check(tx: Transaction) -> list[Finding]:
    """What the rows say of P1 to P12, in order."""
    found = {promise: _broken(tx, rules) for promise, rules in RULES.items()}
    found["P4"] += _cycle(tx)
    found["P6"] += _gaps(tx)
    found["P8"] += budgets.errors(tx)
    found["P10"] += _overlaps(tx)
    return [_finding(f"P{number}", found) for number in range(1, 13)]


def _finding(promise: str, found: dict[str, list[str]]) -> Finding:
    if promise in UNOBSERVABLE:
        return Finding(promise, "not observable", (UNOBSERVABLE[promise],))
    details = found[promise]
    shown = details[:SHOWN] + ([f"and {len(details) - SHOWN} more"] if len(details) > SHOWN else [])
    return Finding(promise, "violated" if details else "held", tuple(shown))


def _broken(tx: Transaction, rules: tuple[tuple[str, str], ...]) -> list[str]:
    return [f"{row['id']} {says}" for statement, says in rules for row in tx.fetch_all(statement)]


def _cycle(tx: Transaction) -> list[str]:
    parents: defaultdict[str, list[str]] = defaultdict(list)
    for row in tx.fetch_all("edges_of_plan", plan=None):
        parents[row["child"]].append(row["parent"])
        parents.setdefault(row["parent"], [])
    cycle = find_cycle(parents)
    return [f"{' -> '.join(cycle[:SHOWN])} is a cycle"] if cycle else []


def _gaps(tx: Transaction) -> list[str]:
    row = tx.fetch_one("check_p6_events") or {}
    missing = row["last"] - row["first"] + 1 - row["events"] if row["events"] else 0
    return [f"the history lacks {missing} events between {row['first']} and {row['last']}"] if missing else []


def _overlaps(tx: Transaction) -> list[str]:
    """Pairs of attempts that hold what they must not hold at once; compared only where their anchors meet."""
    by_place: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in tx.fetch_all("all_holds"):
        by_place[row["workspace"], row["anchor"]].append(row)
    found = []
    for (workspace, place), here in by_place.items():
        for higher in ancestors(place):
            above = by_place.get((workspace, higher), [])
            pairs = itertools.combinations(here, 2) if higher == place else itertools.product(here, above)
            found += [
                f"{one['id']} and {two['id']} hold {one['pattern']} and {two['pattern']} at once"
                for one, two in pairs
                if one["task_pk"] != two["task_pk"]
                and conflict(one["pattern"], one["mode"], two["pattern"], two["mode"])
            ]
    return found
