"""The breaker of a plan: a storm of `infra` or `quota` failures pauses its hand-outs, each time for longer.

Such failures give their charge back, so nothing else would stop a plan whose model provider is down from being tried
as fast as agents can fail. A storm that comes soon after the last one doubles the pause; after a quiet time it begins
anew. An operator's `resume` of the plan ends the pause at once.
"""

from __future__ import annotations

from agentmesh.board.change import Change
from agentmesh.rules import STORM_FAILURES, STORM_QUIET_US, STORM_WINDOW_US, storm_pause_us
from agentmesh.store.base import Row

FRESH: Row = {"since_us": 0, "failures": 0, "trips": 0, "open_until_us": 0}


def count_failure(change: Change, held: Row) -> None:
    """Enter an `infra` or `quota` failure; the one that makes it a storm opens the breaker."""
    row = change.tx.fetch_one("breaker_of", plan_pk=held["plan_pk"]) or FRESH
    if change.now < row["open_until_us"]:
        return  # of an attempt that was handed out before the pause
    begins = not 0 <= change.now - row["since_us"] <= STORM_WINDOW_US
    since_us, failures = (change.now, 1) if begins else (row["since_us"], row["failures"] + 1)
    trips, open_until_us = row["trips"], row["open_until_us"]
    if failures >= STORM_FAILURES:
        trips = trips + 1 if change.now - open_until_us <= STORM_QUIET_US else 1
        since_us, failures, open_until_us = 0, 0, change.now + storm_pause_us(trips)
        change.event("breaker_opened", held, until_us=open_until_us, storms=trips)
    change.tx.execute(
        "put_breaker",
        plan_pk=held["plan_pk"],
        since_us=since_us,
        failures=failures,
        trips=trips,
        open_until_us=open_until_us,
    )
