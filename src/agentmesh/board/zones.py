"""Reports whose days are those of a time zone, summed from the entries, which know their instants.

A day begins at midnight of the zone and has 23 or 25 hours where clocks are changed. Pruned usage is known by its UTC
day only: where that lies within one day of the zone it counts there, else it is told apart as `rest`, and a report that
begins or ends within it is refused.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agentmesh import limits
from agentmesh.errors import InvalidArgument
from agentmesh.rules import DAY_US
from agentmesh.store.base import Row, Transaction

EPOCH: Final = date(1970, 1, 1)
MINUTE_US: Final = 60_000_000
"""Days of a zone begin at whole minutes, since 1972 in every zone."""
LAST: Final = (date.max - EPOCH).days


def zone(name: object) -> ZoneInfo | None:
    """A time zone by its IANA name; None for UTC, which needs no files.

    Raises:
        InvalidArgument: the system knows no such zone, or has no files of zones at all.
    """
    checked = limits.name("tz", name)
    if checked == "UTC":
        return None
    try:
        return ZoneInfo(checked)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        if zoneinfo.available_timezones():
            raise InvalidArgument("tz", "must be a time zone such as Europe/Berlin") from None
    hint = "Install the package tzdata (pip install tzdata), or leave tz out for days in UTC."
    raise InvalidArgument("tz", "cannot be looked up: this system has no files of time zones", hint=hint)


def span(zoned: ZoneInfo, first_day: int, last_day: int) -> tuple[int, int]:
    """The instants at which the first of some days begins and the last is over."""
    begin = 0 if first_day == 0 else _begin(zoned, first_day)
    return begin, limits.INTEGER if last_day >= LAST else _begin(zoned, last_day + 1)


def days_of(zoned: ZoneInfo, rows: Iterable[Row]) -> Iterator[Row]:
    """Rows whose `day` is a minute, with the day of the zone instead."""
    return ({**row, "day": _day(zoned, row["day"] * MINUTE_US)} for row in rows)


def pruned(
    tx: Transaction, by: str, zoned: ZoneInfo, where: Mapping[str, Any], *, what: str, model: str | None = None
) -> list[Row]:
    """The sums within the span of pruned `entries`, or `attempts`; by day, what lies in two days of the zone has none.

    Raises:
        InvalidArgument: the span begins or ends within a UTC day whose usage was pruned.
    """
    found: list[Row] = []
    for row in tx.fetch_all("sum_pruned", by=by, model=model, plan_pk=where["plan_pk"], agent_id=where["agent_id"]):
        begin = row["utc_day"] * DAY_US
        end = begin + DAY_US
        if not row[what] or end <= where["from_us"] or begin >= where["to_us"]:
            continue
        if begin < where["from_us"] or end > where["to_us"]:
            named = (EPOCH + timedelta(days=row["utc_day"])).isoformat()
            hint = "Leave tz out, or choose since and until so that they do not begin or end within that day."
            raise InvalidArgument("tz", f"cuts through {named} (UTC), whose usage was pruned to its sum", hint=hint)
        first, last = _day(zoned, begin), _day(zoned, end - 1)
        day = 0 if by != "day" else first if first == last else None
        found.append({**row, "day": day})
    return found


def _begin(zoned: ZoneInfo, day: int) -> int:
    """When a day begins: at its first midnight or, where clocks skip that, at the instant of the change."""
    local = datetime.combine(EPOCH + timedelta(days=day), datetime.min.time(), zoned)
    since = local.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return max(0, since // timedelta(microseconds=1))


def _day(zoned: ZoneInfo, us: int) -> int:
    return (datetime.fromtimestamp(us // 1_000_000, zoned).date() - EPOCH).days
