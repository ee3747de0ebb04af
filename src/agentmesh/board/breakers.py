"""The breaker of a plan: a storm of `infra` or `quota` failures pauses its hand-outs, each time for longer.

Such failures give their charge back, so nothing else would stop a plan whose model provider is down from being tried
as fast as agents can fail. A storm that comes soon after the last one doubles the pause; after a quiet time it begins
anew. Where holders were told when to try again, the pause lasts until the latest of these instants at least; one that
is told while the plan pauses may make the pause longer. An operator's `resume` of the plan ends the pause at once. A
pause that ends later than its whole length from now is over: the clock was set back since.
"""

from __future__ import annotations

from agentmesh.board.change import Change
from agentmesh.rules import STORM_FAILURES, STORM_QUIET_US, STORM_WINDOW_US, storm_pause_us
from agentmesh.store.base import Row, Transaction

CALM: Row = {"storms": 0, "open_until_us": 0, "since_us": 0, "length_us": 0}


def open_now(tx: Transaction) -> dict[str, int]:
    """The plans whose hand-outs pause now, each with the end of its pause."""
    rows = tx.fetch_all("open_breakers", now_us=tx.now)
    return {row["name"]: row["open_until_us"] for row in rows if not _set_back(row, row["open_until_us"], tx.now)}


def look(change: Change, failed: Row, retry_at_us: int | None) -> None:
    """Open the breaker of a plan if the `infra` or `quota` failure that has just been entered makes it a storm.

    Args:
        change: the write.
        failed: the task and the attempt.
        retry_at_us: when its holder was told to try again.
    """
    plan_pk = failed["plan_pk"]
    last = change.tx.fetch_one("breaker_of", plan_pk=plan_pk) or CALM
    since_us = change.now - STORM_WINDOW_US
    if not _set_back(last, last["since_us"], change.now):
        since_us = max(since_us, last["since_us"])
    found = change.tx.fetch_one("count_failures", plan_pk=plan_pk, since_us=since_us, now_us=change.now)
    if found is None or found["failures"] < STORM_FAILURES:
        if retry_at_us is not None and change.now < last["open_until_us"] < retry_at_us:
            _open(change, failed, last["storms"], retry_at_us)
        return
    storms = last["storms"] + 1 if change.now - last["open_until_us"] <= STORM_QUIET_US else 1
    _open(change, failed, storms, max(change.now + storm_pause_us(storms), found["retry_at_us"] or 0))


def _open(change: Change, failed: Row, storms: int, until_us: int) -> None:
    pause = {"open_until_us": until_us, "length_us": until_us - change.now}
    change.tx.execute("open_breaker", plan_pk=failed["plan_pk"], storms=storms, **pause)
    change.event("breaker_opened", failed, until_us=until_us, storms=storms)


def _set_back(breaker: Row, instant_us: int, now_us: int) -> bool:
    """Whether an instant of a breaker lies further ahead than its pause is long."""
    length_us: int = max(breaker["length_us"], storm_pause_us(max(breaker["storms"], 1)))
    return instant_us - now_us > length_us
