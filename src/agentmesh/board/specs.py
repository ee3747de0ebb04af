"""What a caller says of a task it wants on the board, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, TypedDict

from agentmesh import limits
from agentmesh.errors import InvalidArgument
from agentmesh.jsontext import encode
from agentmesh.model import CONDITIONS, DEFAULT_PLAN, Condition, Dependency, Json
from agentmesh.patterns import normalised

LEASE_SEC = 60.0
HOLD_SEC = 4 * 3600.0
MAX_ATTEMPTS = 3


def refuse_too_many_edges(field: str, specs: Sequence[Spec]) -> None:
    """Refuse tasks whose dependencies would together keep other writers out for too long: a call is one transaction.

    Raises:
        InvalidArgument: they are too many.
    """
    edges = sum(len(spec.depends_on) for spec in specs)
    if edges > limits.EDGES:
        problem = f"have {edges} dependencies together; one call takes {limits.EDGES}"
        raise InvalidArgument(field, problem, hint="Put the tasks on the board in several calls.")


class TaskDetails(TypedDict, total=False):
    """What can be said of a task when it is created, and changed later.

    description: long text for the agent, at most 64 KiB. priority: -1,000,000 to 1,000,000, higher is more urgent.
    requires: capabilities an agent must have. tags: free labels. writes, reads: path patterns. payload: any JSON, at
    most 64 KiB. estimate_usd, estimate_tokens: what an attempt will probably use, which budgets reserve.
    lease_timeout_sec: how long a lease lasts without a heartbeat (60). max_hold_sec: how long one attempt may be held
    at all (4 hours). max_attempts: charged hand-outs before it fails (3). not_before: an instant before which it is
    not handed out, RFC 3339 or epoch seconds.
    """

    description: str | None
    priority: int
    requires: Sequence[str]
    tags: Sequence[str]
    writes: Sequence[str]
    reads: Sequence[str]
    payload: Json
    estimate_usd: str | float | Decimal | None
    estimate_tokens: int | None
    lease_timeout_sec: float
    max_hold_sec: float
    max_attempts: int
    not_before: str | float | datetime | None


class TaskFields(TaskDetails, total=False):
    """What can be said of a task when it is created.

    id: its id, made up when missing. key: at most one open task of the board has it; while one has, that one is given
    back and nothing is created, whatever else is said. plan: its plan (`default`). depends_on: tasks it waits for, each
    an id, `id:failed`, `id:finished`, a `Dependency` or a mapping with `id` and `condition`.
    """

    id: str | None
    key: str | None
    plan: str
    depends_on: Sequence[str | Dependency | Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Spec:
    """A checked wish for a task; None in `id` asks for a new one."""

    title: str
    id: str | None
    key: str | None
    plan: str
    priority: int
    depends_on: tuple[Dependency, ...]
    requires: tuple[str, ...]
    tags: tuple[str, ...]
    writes: tuple[str, ...]
    reads: tuple[str, ...]
    description: str | None
    payload: str | None
    estimate_pusd: int | None
    estimate_tokens: int | None
    lease_timeout_us: int
    max_hold_us: int
    max_attempts: int
    not_before_us: int | None


def read_spec(fields: Mapping[str, Any], *, plan: str | None = None, where: str = "") -> Spec:
    """Check a wish for a new task.

    Args:
        fields: `title` and `TaskFields`.
        plan: the plan of a task that names none.
        where: put before field names in errors, such as `tasks[3].`.

    Raises:
        InvalidArgument: a field is unknown, missing or out of its limits.
    """
    if not isinstance(fields, Mapping):
        raise InvalidArgument(where.rstrip(".") or "task", "must be an object with a title")
    _refuse_unknown(fields, where)
    wish = Reader(fields, where)
    task_id, key = fields.get("id"), fields.get("key")
    in_plan = fields.get("plan") if fields.get("plan") is not None else plan
    writes = wish.patterns("writes")
    lease_us, hold_us = wish.times(LEASE_SEC, None)
    return Spec(
        title=wish.title(),
        id=None if task_id is None else task_name(where + "id", task_id),
        key=None if key is None else limits.name(where + "key", key),
        plan=DEFAULT_PLAN if in_plan is None else limits.name(where + "plan", in_plan),
        priority=wish.priority(0),
        depends_on=dependencies(where + "depends_on", wish.listed("depends_on")),
        requires=wish.names("requires"),
        tags=wish.names("tags"),
        writes=writes,
        reads=tuple(pattern for pattern in wish.patterns("reads") if pattern not in writes),
        description=wish.description(),
        payload=wish.payload(),
        estimate_pusd=wish.estimate(),
        estimate_tokens=wish.estimate_tokens(),
        lease_timeout_us=lease_us,
        max_hold_us=hold_us,
        max_attempts=wish.attempts(MAX_ATTEMPTS),
        not_before_us=wish.not_before(),
    )


class Reader:
    """Reads the fields of one wish, each by its own rule."""

    def __init__(self, fields: Mapping[str, Any], where: str = "") -> None:
        self._fields = fields
        self._where = where

    def title(self) -> str:
        """1 to 300 characters, not blank."""
        return limits.text(self._where + "title", self._fields.get("title"), limits.TITLE)

    def description(self) -> str | None:
        """At most 64 KiB."""
        value = self._fields.get("description")
        return None if value is None else limits.long_text(self._where + "description", value)

    def payload(self) -> str | None:
        """JSON text of at most 64 KiB; None for none."""
        value = self._fields.get("payload")
        return None if value is None else limits.json_text(self._where + "payload", value)

    def priority(self, default: int) -> int:
        """From -1,000,000 to 1,000,000."""
        value = self._fields.get("priority", default)
        return limits.integer(self._where + "priority", value, -limits.PRIORITY, limits.PRIORITY)

    def attempts(self, default: int) -> int:
        """From 1 to 1,000."""
        return limits.integer(
            self._where + "max_attempts", self._fields.get("max_attempts", default), 1, limits.ATTEMPTS
        )

    def listed(self, field: str) -> object:
        """A list, yet unchecked: none is given by leaving it out or by None, not by whatever else is empty."""
        value = self._fields.get(field)
        return () if value is None else value

    def names(self, field: str) -> tuple[str, ...]:
        """At most 64 names."""
        return limits.names(self._where + field, self.listed(field))

    def patterns(self, field: str) -> tuple[str, ...]:
        """At most 100 patterns, sorted."""
        return read_patterns(self._where + field, self.listed(field))

    def estimate(self) -> int | None:
        """Dollars as units of 10^-12."""
        value = self._fields.get("estimate_usd")
        return None if value is None else limits.pusd(self._where + "estimate_usd", value)

    def estimate_tokens(self) -> int | None:
        """Tokens of all kinds."""
        value = self._fields.get("estimate_tokens")
        return None if value is None else limits.integer(self._where + "estimate_tokens", value, 0, limits.TOKENS)

    def not_before(self) -> int | None:
        """An instant."""
        value = self._fields.get("not_before")
        return None if value is None else limits.instant_us(self._where + "not_before", value)

    def times(self, lease_sec: float, hold_us: int | None) -> tuple[int, int]:
        """The lease timeout and the longest hold, which is never shorter than it."""
        lease_us = limits.duration_us(
            self._where + "lease_timeout_sec", self._fields.get("lease_timeout_sec", lease_sec), limits.LEASE_SEC
        )
        value = self._fields.get("max_hold_sec")
        if value is None:
            return lease_us, max(hold_us or round(HOLD_SEC * 1_000_000), lease_us)
        longest = limits.duration_us(self._where + "max_hold_sec", value, limits.HOLD_SEC)
        if longest < lease_us:
            raise InvalidArgument(self._where + "max_hold_sec", "must not be shorter than lease_timeout_sec")
        return lease_us, longest


def read_patterns(field: str, values: object) -> tuple[str, ...]:
    """At most 100 path patterns in their normal form, sorted."""
    return tuple(sorted({normalised(field, value) for value in limits.items(field, values, limits.PATTERNS)}))


def dependencies(field: str, values: object) -> tuple[Dependency, ...]:
    """At most 1,000 dependencies, each task once."""
    found: dict[str, Dependency] = {}
    for value in limits.items(field, values, limits.DEPENDENCIES):
        edge = dependency(field, value)
        if found.setdefault(edge.id, edge) != edge:
            raise InvalidArgument(field, f"names {edge.id!r} twice, with different conditions")
    return tuple(found.values())


def dependency(field: str, value: object) -> Dependency:
    """One dependency in any of its forms."""
    if isinstance(value, Dependency):
        return Dependency(task_name(field, value.id), condition(field, value.condition))
    if isinstance(value, Mapping):
        if set(value) - {"id", "condition"}:
            raise InvalidArgument(field, "a dependency has an id and a condition")
        return Dependency(task_name(field, value.get("id")), condition(field, value.get("condition", "completed")))
    if isinstance(value, str):
        head, _, tail = value.rpartition(":")
        if head and tail in CONDITIONS:
            return Dependency(task_name(field, head), condition(field, tail))
    return Dependency(task_name(field, value))


def condition(field: str, value: object) -> Condition:
    """One of `completed`, `failed`, `finished`."""
    return limits.choice(field, value, CONDITIONS)  # type: ignore[return-value]  # CONDITIONS are the conditions


def task_name(field: str, value: object) -> str:
    """A task's id; it must not end as a condition does."""
    found = limits.name(field, value)
    if found.rpartition(":")[2] in CONDITIONS and ":" in found:
        raise InvalidArgument(field, f"must not end in a condition such as :{CONDITIONS[0]}")
    return found


def names_text(names: Sequence[str]) -> str:
    """The canonical text of a set of names."""
    return encode(list(names))


KNOWN = frozenset({"title"}) | TaskFields.__annotations__.keys() | TaskDetails.__annotations__.keys()


def _refuse_unknown(fields: Mapping[str, Any], where: str) -> None:
    for field in fields:
        if field not in KNOWN:
            shown = (
                field if isinstance(field, str) and field.isidentifier() and len(field) <= limits.NAME else "a field"
            )
            raise InvalidArgument(f"{where}{shown}", f"is not known; known are {', '.join(sorted(KNOWN))}")
