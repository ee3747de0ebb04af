"""Sums of the ledger, for people: by task, plan, agent, model, attempt or day.

By plan, agent, model and day they come from the totals, which cost the same however many entries there are; by task and
attempt, or of one task, from the entries. How long attempts were held is worked out from the attempts, and only for who
asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

from agentmesh.board import zones
from agentmesh.board.lookup import task_row
from agentmesh.errors import NotFound
from agentmesh.model import UsageGroup, UsageLine, UsageReport
from agentmesh.rules import DAY_US
from agentmesh.store.base import Row, Transaction

SUMS: Final = (
    "entries",
    "unpriced",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "cost_pusd",
    "duration_us",
    "wasted_tokens",
    "wasted_pusd",
    "wasted_us",
)
TIMES: Final = ("attempts", "held_us", "unreported")
TOKENS: Final = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")
KEYS: Final[Mapping[UsageGroup, tuple[str, ...]]] = {
    "plan": ("plan_pk",),
    "agent": ("agent_id",),
    "model": ("model",),
    "day": ("day",),
    "task": ("task_pk",),
    "attempt": ("task_pk", "fence"),
}
BY_ENTRY: Final = frozenset({"task", "attempt"})
Key = tuple[Any, ...]
Sums = dict[str, int]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which usage a report is of; None is all."""

    plan: str | None
    agent_id: str | None
    model: str | None
    task_id: str | None
    first_day: int
    last_day: int
    zone: ZoneInfo | None = None
    """Whose days they are; None for UTC."""


def report(tx: Transaction, by: UsageGroup, scope: Scope, *, attempts: bool, limit: int, offset: int) -> UsageReport:
    """Sums of usage by a group, dearest first, and the sum of all of it.

    Raises:
        NotFound: the plan or the task is not on the board.
    """
    where = _where(tx, scope)
    lines = _merged(by, _groups(tx, by, scope, where))
    if scope.zone is not None and scope.task_id is None:
        total = _added(_merged("day", _zoned(tx, "day", scope, where, scope.zone)).values())
    elif scope.task_id is None:
        total = next(map(_sums, tx.fetch_all("sum_totals", by="", model=scope.model, **_days(scope, where))), _sums({}))
    else:
        total = _added(lines.values())
    if by in BY_ENTRY and (rest := _rest(total, lines)):
        lines[_no_task(by)] = rest
    if attempts and by != "model" and scope.model is None:  # attempts are of no model
        _add_times(tx, by, scope, where, lines)
        total |= {name: sum(line[name] for line in lines.values()) for name in TIMES}
    ordered = sorted(lines.items(), key=lambda line: (-line[1]["cost_pusd"], -_tokens(line[1]), *map(str, line[0])))
    shown = tuple(_line(_names(tx, by, key), sums) for key, sums in ordered[offset : offset + limit])
    return UsageReport(by, shown, _line({}, total), max(len(ordered) - offset - limit, 0))


def _where(tx: Transaction, scope: Scope) -> dict[str, Any]:
    plan = tx.fetch_one("plan_by_name", name=scope.plan) if scope.plan is not None else None
    if scope.plan is not None and plan is None:
        raise NotFound("plan", scope.plan)
    return {
        "plan_pk": plan["pk"] if plan else None,
        "agent_id": scope.agent_id,
        **_span(scope),
    }


def _span(scope: Scope) -> dict[str, int]:
    if scope.zone is None:
        from_us, to_us = scope.first_day * DAY_US, (scope.last_day + 1) * DAY_US
        return {"from_us": from_us, "to_us": to_us, "slot_us": DAY_US}
    from_us, to_us = zones.span(scope.zone, scope.first_day, scope.last_day)
    return {"from_us": from_us, "to_us": to_us, "slot_us": zones.MINUTE_US}


def _days(scope: Scope, where: Mapping[str, Any]) -> dict[str, Any]:
    """The scope in whole days (UTC), for what is summed by them."""
    whose = {name: where[name] for name in ("plan_pk", "agent_id")}
    return {**whose, "first_day": scope.first_day, "last_day": scope.last_day}


def _groups(tx: Transaction, by: UsageGroup, scope: Scope, where: Mapping[str, Any]) -> list[Row]:
    if scope.zone is not None:
        return _zoned(tx, by, scope, where, scope.zone)
    if scope.task_id is None and by not in BY_ENTRY:
        return tx.fetch_all("sum_totals", by=by, model=scope.model, **_days(scope, where))
    return tx.fetch_all("sum_entries", by=by, model=scope.model, task_pk=_task_pk(tx, scope), every=0, **where)


def _zoned(tx: Transaction, by: UsageGroup, scope: Scope, where: Mapping[str, Any], zone: ZoneInfo) -> list[Row]:
    """The sums by a group within days of a time zone: of the entries, and of what was pruned."""
    of_tasks = by in BY_ENTRY or scope.task_id is not None
    task_pk = _task_pk(tx, scope)
    rows = tx.fetch_all("sum_entries", by=by, model=scope.model, task_pk=task_pk, every=int(not of_tasks), **where)
    if by == "day":
        rows = list(zones.days_of(zone, rows))
    return rows if of_tasks else rows + zones.pruned(tx, by, zone, where, what="entries", model=scope.model)


def _merged(by: UsageGroup, rows: Iterable[Row]) -> dict[Key, Sums]:
    """The sums of rows by their keys."""
    lines: dict[Key, Sums] = {}
    for row in rows:
        line = lines.setdefault(_key(by, row), _sums({}))
        for name in SUMS:
            line[name] += row[name]
    return lines


def _add_times(tx: Transaction, by: UsageGroup, scope: Scope, where: Mapping[str, Any], lines: dict[Key, Sums]) -> None:
    """Add how many attempts there were and how long they were held, to lines of their own where there was no usage."""
    held = tx.fetch_all("sum_attempts", by=by, task_pk=_task_pk(tx, scope), now_us=tx.now, **where)
    if by == "day" and scope.zone is not None:
        held = list(zones.days_of(scope.zone, held))
    rows = [(_key(by, row), row) for row in held]
    if scope.task_id is None:
        pruned = _pruned_attempts(tx, by, scope, where)
        rows += [(_no_task(by) if by in BY_ENTRY else _key(by, row), {**row, "unreported": 0}) for row in pruned]
    for key, row in rows:
        line = lines.setdefault(key, _sums({}))
        for name in TIMES:
            line[name] = line.get(name, 0) + row[name]
    for key, line in lines.items():
        lines[key] = dict.fromkeys(TIMES, 0) | line


def _pruned_attempts(tx: Transaction, by: UsageGroup, scope: Scope, where: Mapping[str, Any]) -> list[Row]:
    if scope.zone is None:
        return tx.fetch_all("sum_pruned_attempts", by=by, **_days(scope, where))
    return zones.pruned(tx, by, scope.zone, where, what="attempts")


def _task_pk(tx: Transaction, scope: Scope) -> int | None:
    return None if scope.task_id is None else int(task_row(tx, scope.task_id)["pk"])


def _key(by: UsageGroup, row: Row) -> Key:
    return tuple(row[name] for name in KEYS[by])


def _no_task(by: UsageGroup) -> Key:
    return (None,) * len(KEYS[by])


def _sums(row: Row) -> Sums:
    return {name: row.get(name, 0) for name in SUMS}


def _added(lines: Any) -> Sums:
    return {name: sum(line[name] for line in lines) for name in SUMS}


def _rest(total: Sums, lines: Mapping[Key, Sums]) -> Sums:
    """What belongs to no task that is on the board."""
    listed = _added(lines.values())
    rest = {name: total[name] - listed[name] for name in SUMS}
    return rest if rest["entries"] else {}


def _tokens(sums: Mapping[str, Any]) -> int:
    return sum(sums[name] for name in TOKENS)


def _line(names: Mapping[str, Any], sums: Mapping[str, Any]) -> UsageLine:
    return UsageLine(**names, **sums, tokens=_tokens(sums))


def _names(tx: Transaction, by: UsageGroup, key: Key) -> dict[str, Any]:
    """What a line is the sum of, as people name it."""
    first = key[0]
    if by == "plan":
        row = tx.fetch_one("plan_by_pk", pk=first)
        return {"plan": row["name"]} if row else {"rest": True}
    if by == "agent":
        return {"agent_id": first}
    if by == "model":
        return {"model": first or None}
    if by == "day" and first is None:
        return {"rest": True}
    if by == "day":
        return {"day": (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=first)).date().isoformat()}
    row = tx.fetch_one("task_by_pk", pk=first) if first is not None else None
    if row is None:
        return {"rest": True}
    fence = {"fence": key[1]} if by == "attempt" else {}
    return {"plan": row["plan"], "task_id": row["id"], **fence}
