"""The form of an export: what kinds of rows there are, in which order, and what may stand in each of their fields.

Numbers are those of the tables: microseconds and units of 10^-12 dollars are whole, so nothing is rounded on the way.
What a board keeps for speed only, and what stands for rights or for the moment (secrets, holds, requests), is not in
it: an import works the former out anew and has no use for the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from agentmesh import limits
from agentmesh.board import specs
from agentmesh.errors import InvalidArgument
from agentmesh.model import CONDITIONS, FINAL, ORIGINS, STATES, Ceiling, FailureKind, Outcome

FORMAT: Final = "agentmesh-export"
VERSION: Final = 2
"""2: pauses of tasks, ends of pauses, keys, when failed attempts may be repeated, source keys and origins of usage."""
LONGEST: Final = 4 * 1024 * 1024
"""No line is longer, in bytes: the longest that a board can give has an artifact of 1 MiB in base64."""

Field = Callable[[str, Any], Any]
"""Checks the value of a field, named first; what is then to be stored."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of row: its name, the statement that reads a page of it, how many rows that is, and its fields in order.

    `start` is the least of the keys by which pages follow each other.
    """

    name: str
    page: str
    rows: int
    start: tuple[int | str | None, ...]
    fields: Mapping[str, Field]


def _or_none(field: Field) -> Field:
    return lambda name, value: None if value is None else field(name, value)


def _or_empty(field: Field) -> Field:
    return lambda name, value: value if value == "" else field(name, value)


def _whole(least: int, most: int) -> Field:
    def field(name: str, value: Any) -> int:
        if type(value) is int and least <= value <= most:
            return value
        return limits.integer(name, value, least, most)  # says what is wrong

    return field


def _word(*allowed: str) -> Field:
    return lambda name, value: limits.choice(name, value, allowed)


def _text(most: int, least: int = 0) -> Field:
    return lambda name, value: limits.text(name, value, most, least=least)


def _seconds(bounds: tuple[float, float]) -> Field:
    low, high = bounds
    return _whole(round(low * 1_000_000), round(high * 1_000_000))


def _flag(name: str, value: Any) -> int:
    return int(limits.boolean(name, value))


def _json(most: int) -> Field:
    return lambda name, value: limits.json_text(name, value, most)


def _same(read: Callable[[str, object], Sequence[str]]) -> Field:
    """A list that already is as its reader gives it back."""

    def field(name: str, value: Any) -> Sequence[str]:
        if value == []:
            return ()
        found = read(name, value)
        if list(found) != value:
            raise InvalidArgument(name, "must be sorted, each item once, in its normal form")
        return found

    return field


def _row(name: str, value: Any) -> str:
    """The name of another row, which is looked up: only what is there is right."""
    if isinstance(value, str):
        return value
    raise InvalidArgument(name, "must be text")


def _any(_name: str, value: Any) -> Any:
    """What only makes sense together with another field, and is checked with it."""
    return value


NAME: Final = limits.name
NAME_OR_NONE: Final = _or_empty(NAME)
INSTANT: Final = _whole(0, limits.INSTANT_US)
COUNT: Final = _whole(0, limits.INTEGER)
SIGNED: Final = _whole(-limits.INTEGER - 1, limits.INTEGER)
FENCE: Final = _whole(1, limits.INTEGER)
TOKENS: Final = _whole(0, limits.TOKENS)
LONG: Final = limits.long_text
SOURCE: Final[Field] = lambda name, value: limits.name(name, value, limits.SOURCE)  # noqa: E731 - as its neighbours
SUMS: Final = (
    "entries",
    "unpriced",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "duration_us",
    "cost_pusd",
    "wasted_tokens",
    "wasted_us",
    "wasted_pusd",
    "attempts",
)

KINDS: Final = (
    Kind(
        "plan",
        "export_plans",
        1000,
        (-1,),
        {"name": NAME, "workspace": _text(limits.NAME), "created_us": INSTANT, "retention_us": _or_none(COUNT)},
    ),
    Kind(
        "task",
        "export_tasks",
        200,
        (-1,),
        {
            "id": specs.task_name,
            "plan": _row,
            "title": _text(limits.TITLE, 1),
            "state": _word(*STATES),
            "priority": _whole(-limits.PRIORITY, limits.PRIORITY),
            "requires": _same(limits.names),
            "tags": _same(limits.names),
            "writes": _same(specs.read_patterns),
            "reads": _same(specs.read_patterns),
            "estimate_pusd": _or_none(COUNT),
            "estimate_tokens": _or_none(TOKENS),
            "lease_timeout_us": _seconds(limits.LEASE_SEC),
            "max_hold_us": _seconds(limits.HOLD_SEC),
            "max_attempts": _whole(1, limits.ATTEMPTS),
            "not_before_us": _or_none(INSTANT),
            "created_us": INSTANT,
            "ended_us": _or_none(INSTANT),
            "opened_fence": COUNT,
            "opened_us": _or_none(INSTANT),
            "excused_fence": COUNT,
            "key": _or_none(NAME),
            "reason": _or_none(LONG),
            "root": _or_none(_row),
            "description": _or_none(LONG),
            "payload": _or_none(_json(limits.TEXT_BYTES)),
            "result": _or_none(_json(limits.TEXT_BYTES)),
        },
    ),
    Kind(
        "edge",
        "export_edges",
        1000,
        (-1, -1),
        {"task": _row, "depends_on": _row, "condition": _word(*CONDITIONS)},
    ),
    Kind(
        "attempt",
        "export_attempts",
        1000,
        (-1, -1),
        {
            "task": _row,
            "fence": FENCE,
            "agent_id": NAME,
            "charged": _flag,
            "started_us": INSTANT,
            "heartbeat_us": INSTANT,
            "lease_expires_us": INSTANT,
            "ended_us": _or_none(INSTANT),
            "outcome": _or_none(_word(*get_args(Outcome))),
            "kind": _or_none(_word(*get_args(FailureKind))),
            "late": _flag,
            "error": _or_none(LONG),
            "retry_at_us": _or_none(INSTANT),
        },
    ),
    Kind(
        "note",
        "export_notes",
        200,
        (-1,),
        {"task": _row, "fence": FENCE, "agent_id": NAME, "at_us": INSTANT, "text": LONG},
    ),
    Kind(
        "pause",
        "export_pauses",
        1000,
        ("", ""),
        {
            "scope": _word("board", "plan", "agent"),
            "name": NAME_OR_NONE,
            "reason": LONG,
            "agent_id": NAME,
            "since_us": INSTANT,
            "until_us": _or_none(INSTANT),
        },
    ),
    Kind(
        "task_pause",
        "export_task_pauses",
        1000,
        (-1,),
        {
            "task": _row,
            "reason": LONG,
            "agent_id": _or_none(NAME),
            "since_us": INSTANT,
            "until_us": _or_none(INSTANT),
            "ceiling": _or_none(_word(*get_args(Ceiling))),
        },
    ),
    Kind("cap", "export_caps", 1000, (None,), {"agent_id": NAME_OR_NONE, "most": _whole(1, limits.ATTEMPTS)}),
    Kind(
        "budget",
        "export_budgets",
        1000,
        ("", "", ""),
        {
            "scope": _word("board", "plan", "task", "agent"),
            "name": NAME_OR_NONE,
            "period": _word("lifetime", "day"),
            "limit_pusd": _or_none(COUNT),
            "limit_tokens": _or_none(COUNT),
            "strict": _flag,
        },
    ),
    Kind(
        "entry",
        "export_entries",
        20,
        ("", ""),
        {
            "namespace": limits.namespace,
            "key": lambda name, value: limits.name(name, value, limits.KEY),
            "version": _whole(1, limits.INTEGER),
            "created_us": INSTANT,
            "updated_us": INSTANT,
            "expires_us": _or_none(INSTANT),
            "agent_id": NAME,
            "task_id": _or_none(NAME),
            "fence": _or_none(FENCE),
            "content_type": _or_none(limits.content_type),
            "value": _any,
        },
    ),
    Kind(
        "entry_tombstone",
        "export_entry_tombstones",
        1000,
        ("", ""),
        {
            "namespace": limits.namespace,
            "key": lambda name, value: limits.name(name, value, limits.KEY),
            "version": _whole(1, limits.INTEGER),
            "buried_us": INSTANT,
        },
    ),
    Kind(
        "task_tombstone",
        "export_task_tombstones",
        1000,
        ("",),
        {"id": specs.task_name, "plan": _row, "state": _word(*sorted(FINAL)), "fence": COUNT, "pruned_us": INSTANT},
    ),
    Kind(
        "usage_source",
        "export_usage_sources",
        1000,
        ("",),
        {
            "source": SOURCE,
            "at_us": INSTANT,
            "plan": _or_none(_row),
            "agent_id": NAME,
            "model": NAME_OR_NONE,
            "origin": _word(*ORIGINS),
            **dict.fromkeys(SUMS[:8], COUNT),
        },
    ),
    Kind(
        "usage",
        "export_usage",
        1000,
        (-1,),
        {
            "at_us": INSTANT,
            "plan": _or_none(_row),
            "task": _or_none(_row),
            "fence": _or_none(FENCE),
            "agent_id": NAME,
            "model": NAME_OR_NONE,
            "input_tokens": TOKENS,
            "cached_input_tokens": TOKENS,
            "cache_write_tokens": TOKENS,
            "output_tokens": TOKENS,
            "duration_us": COUNT,
            "cost_pusd": _or_none(_whole(0, limits.COST_PUSD)),
            "price": _or_none(LONG),
            "source": _or_none(SOURCE),
            "origin": _word(*ORIGINS),
        },
    ),
    Kind(
        "usage_pruned",
        "export_usage_pruned",
        1000,
        (-1, "", "", -1),
        {
            "plan": _or_none(_row),
            "agent_id": NAME,
            "model": NAME_OR_NONE,
            "day": COUNT,
            **dict.fromkeys(SUMS, COUNT),
            "held_us": SIGNED,
        },
    ),
    Kind(
        "event",
        "export_events",
        1000,
        (-1,),
        {
            "seq": FENCE,
            "at_us": INSTANT,
            "kind": NAME,
            "plan": _or_none(NAME),
            "task_id": _or_none(NAME),
            "fence": _or_none(COUNT),
            "agent_id": _or_none(NAME),
            "data": _json(LONGEST),
        },
    ),
)
"""Every kind of row in the order in which they stand in an export: a row names only what stands before it, or tasks."""

NEW_KINDS: Final[Mapping[str, int]] = {"task_pause": 2, "usage_source": 2}
"""The version with which a kind of row came; the others were there from the first."""
NEW_FIELDS: Final[Mapping[str, Mapping[str, tuple[int, Any]]]] = {
    "task": {"excused_fence": (2, 0), "key": (2, None)},
    "attempt": {"retry_at_us": (2, None)},
    "pause": {"until_us": (2, None)},
    "usage": {"source": (2, None), "origin": (2, "self")},
}
"""The fields that came later, by kind: the version with which each came, and its value in an older file."""


def kinds_of(version: int) -> dict[str, tuple[Mapping[str, Field], Mapping[str, Any]]]:
    """The kinds of rows in a file of a version, by name: the fields that each has, and the values of those it lacks."""
    found: dict[str, tuple[Mapping[str, Field], Mapping[str, Any]]] = {}
    for kind in KINDS:
        if NEW_KINDS.get(kind.name, 1) <= version:
            later = NEW_FIELDS.get(kind.name, {})
            missing = {name: value for name, (since, value) in later.items() if since > version}
            found[kind.name] = {name: check for name, check in kind.fields.items() if name not in missing}, missing
    return found


EVENT: Final = KINDS[-1]
"""For whoever reads the file; a board that is made from it begins a history of its own."""

HEADER: Final[Mapping[str, Field]] = {
    "format": _word(FORMAT),
    "version": _whole(1, VERSION),
    "schema": COUNT,
    "board_id": NAME,
    "exported_us": INSTANT,
    "counts": _any,
}
TRAILER: Final[Mapping[str, Field]] = {"counts": _any, "sha256": NAME}
