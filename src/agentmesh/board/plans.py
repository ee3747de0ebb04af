"""Applying a plan: the tasks it lists are created, changed or found as they are; applying it again changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from agentmesh import limits
from agentmesh.board import dependencies, tasks
from agentmesh.board.change import Change
from agentmesh.board.lookup import find_row
from agentmesh.board.specs import Spec, read_spec, refuse_too_many_edges
from agentmesh.errors import InvalidArgument, WrongState
from agentmesh.jsontext import decode
from agentmesh.model import FINAL, PlanReport, Task

KNOWN = frozenset({"plan", "workspace", "retention_sec", "defaults", "tasks"})
DETAILS = ("title", "description", "priority", "requires", "tags", "writes", "reads", "max_attempts", "estimate_tokens")


class Terms(NamedTuple):
    """What a plan says of itself; None where it says nothing."""

    name: str
    workspace: str | None
    retention_us: int | None


def read_plan(document: Mapping[str, Any]) -> tuple[Terms, list[Spec]]:
    """Check a plan: what it says of itself, and its tasks, each of which needs an id.

    Raises:
        InvalidArgument: a field is unknown, missing or out of its limits; it names the place.
    """
    if not isinstance(document, Mapping):
        raise InvalidArgument("plan", "must be an object with tasks")
    for field in document:
        if field not in KNOWN:
            raise InvalidArgument("plan", f"has a field that is not known; known are {', '.join(sorted(KNOWN))}")
    name = limits.name("plan", document.get("plan", "default"))
    space = document.get("workspace")
    workspace = None if space is None else limits.text("workspace", space, limits.NAME, least=0)
    kept = document.get("retention_sec")
    retention_us = None if kept is None else limits.duration_us("retention_sec", kept, limits.AGE_SEC)
    defaults = {} if document.get("defaults") is None else document["defaults"]
    if not isinstance(defaults, Mapping) or {"id", "key", "title", "plan"} & set(defaults):
        raise InvalidArgument("defaults", "must be an object of task fields, without id, key, title and plan")
    wishes = limits.items("tasks", document.get("tasks"), limits.BATCH)
    specs = [_read_task(wish, defaults, name, f"tasks[{place}]") for place, wish in enumerate(wishes)]
    listed: set[str | None] = set()
    for place, spec in enumerate(specs):
        if spec.id in listed:
            raise InvalidArgument(f"tasks[{place}].id", f"lists {spec.id!r} a second time")
        listed.add(spec.id)
    refuse_too_many_edges("tasks", specs)
    return Terms(name, workspace, retention_us), specs


def apply(change: Change, terms: Terms, specs: Sequence[Spec], agent_id: str) -> PlanReport:
    """Bring the board in line with a plan; tasks that it does not list, or that were pruned, are left alone.

    A listed task that is not there is not created while an open task of another id has its key.

    Raises:
        WrongState: a listed task is final and was to change.
        DuplicateId: a listed task exists in another plan.
    """
    tasks.plan(change, *terms)
    fresh, old = [], []
    for spec in specs:
        there = find_row(change.tx, spec.id or "")
        if there is None:
            fresh.append(spec)
        elif there["plan"] != terms.name:
            problem = f"it belongs to plan {there['plan']!r}, not to {terms.name!r}"
            raise WrongState(spec.id or "", there["state"], problem)
        elif there["pk"] is not None:
            old.append(spec)
    made = tasks.insert(change, fresh, agent_id)
    created = [name for name in made.ids if name not in made.existing]
    names = {spec.id or "": name for spec, name in zip(fresh, made.ids, strict=True) if spec.id != name}
    updated = [spec.id or "" for spec in tasks.renamed(old, names) if _bring_in_line(change, spec, agent_id)]
    changed = {*created, *updated}
    unchanged = [spec.id or "" for spec in specs if spec.id not in changed]
    return PlanReport(terms.name, tuple(created), tuple(updated), tuple(unchanged))


def _read_task(wish: object, defaults: Mapping[str, Any], plan: str, where: str) -> Spec:
    if not isinstance(wish, Mapping):
        raise InvalidArgument(where, "must be an object with an id and a title")
    if wish.get("plan", plan) != plan:
        raise InvalidArgument(f"{where}.plan", "must be the plan that lists it")
    spec = read_spec({**defaults, **wish}, plan=plan, where=where + ".")
    if spec.id is None:
        raise InvalidArgument(f"{where}.id", "is needed, so that applying the plan again finds the task")
    return spec


def _bring_in_line(change: Change, spec: Spec, agent_id: str) -> bool:
    task = tasks.get(change.tx, spec.id or "")
    if spec.key != task.key:
        raise InvalidArgument("key", f"of task {task.id!r} cannot change: it is given when a task is created")
    fields = _differences(task, spec)
    differ = set(spec.depends_on) ^ set(task.depends_on)
    edges = {edge for edge in differ if change.tx.fetch_one("tombstone_of", id=edge.id) is None}
    if not fields and not edges:
        return False
    if task.state in FINAL:
        raise WrongState(task.id, task.state, "the plan wants it changed, and a final task stays as it is")
    if fields:
        tasks.update(change, task.id, fields, agent_id)
    for edge in task.depends_on:
        if edge in edges:
            change.catch_up()  # what the task lent until now travels along the edges that are there
            dependencies.remove(change, *dependencies.both_ends(change, task.id, edge.id), agent_id)
    for edge in spec.depends_on:
        if edge in edges:
            dependencies.add(change, *dependencies.both_ends(change, task.id, edge.id), edge.condition, agent_id)
    return True


def _differences(task: Task, spec: Spec) -> dict[str, Any]:
    """The fields in which a task differs from what the plan says, as `tasks.update` takes them.

    `not_before` is among them until the task is first handed out.
    """
    now = {field: getattr(task, field) for field in DETAILS}
    now |= {
        "lease_timeout_sec": task.lease_timeout_us / 1_000_000,
        "max_hold_sec": task.max_hold_us / 1_000_000,
        "estimate_usd": _dollars(task.estimate_pusd),
        "payload": task.payload,
    }
    then = {field: getattr(spec, field) for field in DETAILS}
    then |= {
        "lease_timeout_sec": spec.lease_timeout_us / 1_000_000,
        "max_hold_sec": spec.max_hold_us / 1_000_000,
        "estimate_usd": _dollars(spec.estimate_pusd),
        "payload": None if spec.payload is None else decode(spec.payload),
    }
    if task.fence == 0:  # later on the board itself sets times, for retries and delays
        now["not_before"], then["not_before"] = _instant(task.not_before_us), _instant(spec.not_before_us)
    return {field: value for field, value in then.items() if value != now[field]}


def _instant(us: int | None) -> datetime | None:
    return None if us is None else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def _dollars(pusd: int | None) -> Decimal | None:
    return None if pusd is None else Decimal(pusd) / limits.PUSD
