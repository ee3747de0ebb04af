"""Putting tasks on the board, changing what they say of themselves, and reading them back."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agentmesh.board import budgets, dependencies, paths, records
from agentmesh.board.change import Change
from agentmesh.board.lookup import known_row, locked_row, ready_state, task_row
from agentmesh.board.specs import Reader, Spec, dependencies as read_dependencies, names_text
from agentmesh.clock import word
from agentmesh.errors import CycleRefused, DuplicateId, InvalidArgument, WrongState
from agentmesh.jsontext import decode
from agentmesh.model import FINAL, Dependency, Page, Task
from agentmesh.rules import find_cycle, is_met
from agentmesh.store.base import Row, Transaction, Value

ID_LETTERS = 10


class Inserted(NamedTuple):
    """The ids of tasks in the order in which they were wished for, and those that were there, with their keys."""

    ids: list[str]
    existing: frozenset[str]


def insert(change: Change, specs: Sequence[Spec], agent_id: str) -> Inserted:
    """Put tasks on the board, all or none; they may wait for each other.

    Where an open task has the key of a wish, it stands for the new one, also for those that wait for that one.

    Raises:
        InvalidArgument: a key is named twice.
        DuplicateId: an id is taken, was that of a task that was pruned, or is named twice.
        NotFound: a dependency is neither on the board nor among the new tasks.
        CycleRefused: the new tasks wait for each other in a circle.
    """
    open_ = _open_of_keys(change, specs)
    fresh = [spec for spec in specs if spec.key not in open_]
    named = _named(
        change, renamed(fresh, {spec.id: open_[spec.key] for spec in specs if spec.id and spec.key in open_})
    )
    _refuse_circle(named)
    outside = _outside(change, named)
    urgencies = _urgencies(named)
    rows: dict[str, Row] = {}
    for name, spec in named.items():
        unmet = sum(
            edge.id in named or not is_met(edge.condition, outside[edge.id]["state"]) for edge in spec.depends_on
        )
        parents = sum(edge.id in named or outside[edge.id]["pk"] is not None for edge in spec.depends_on)
        found = {"urgency": urgencies[name], "parents": parents, "unmet": unmet}
        rows[name] = _insert_one(change, name, spec, agent_id, **found)
    for name, spec in named.items():
        for edge in spec.depends_on:
            parent_pk = (rows.get(edge.id) or outside[edge.id])["pk"]
            if parent_pk is not None:
                change.tx.execute("add_edge", child_pk=rows[name]["pk"], parent_pk=parent_pk, condition=edge.condition)
    _after_insert(change, named, rows, outside)
    made = iter(named)
    ids = [open_[spec.key] if spec.key in open_ else next(made) for spec in specs]
    return Inserted(ids, frozenset(open_.values()))


def renamed(specs: Sequence[Spec], names: Mapping[str, str]) -> list[Spec]:
    """The same wishes, waiting for other tasks: those that stand for the ones that they name."""
    if not names:
        return list(specs)
    found = []
    for spec in specs:
        edges = [Dependency(names.get(edge.id, edge.id), edge.condition) for edge in spec.depends_on]
        found.append(replace(spec, depends_on=read_dependencies("depends_on", edges)))
    return found


def update(change: Change, task_id: str, fields: Mapping[str, Any], agent_id: str) -> None:
    """Change what a task says of itself; `fields` are checked names of `TaskDetails` and `title`.

    Raises:
        WrongState: the task is final, or it runs and its paths or capabilities were to change.
    """
    row = locked_row(change.tx, task_id)
    if row["state"] in FINAL:
        raise WrongState(task_id, row["state"], "a final task is not changed", hint="Add a new task instead.")
    fixed = {"requires", "writes", "reads"} & set(fields)
    if fixed and row["state"] == "in_progress":
        raise WrongState(task_id, row["state"], f"{min(fixed)} cannot change while it is worked on")
    current = records.task(row)
    wish = Reader(_merged(current, fields))
    requires_pk = requirement(change, wish.names("requires"))
    pool_pk = pool(change, row["plan_pk"], requires_pk, wish.patterns("writes"), wish.patterns("reads"))
    tags = wish.names("tags")
    lease_us, hold_us = wish.times(row["lease_timeout_us"] / 1_000_000, row["max_hold_us"])
    priority = wish.priority(row["priority"])
    change.tx.execute(
        "update_task",
        pk=row["pk"],
        title=wish.title(),
        priority=priority,
        requires_pk=requires_pk,
        pool_pk=pool_pk,
        max_attempts=_attempts(row, wish),
        lease_timeout_us=lease_us,
        max_hold_us=hold_us,
        estimate_pusd=wish.estimate() if "estimate_usd" in fields else row["estimate_pusd"],
        estimate_tokens=wish.estimate_tokens() if "estimate_tokens" in fields else row["estimate_tokens"],
        has_body=_new_body(change, row, fields),
        tags=names_text(tags) if tags else None,
    )
    if {"estimate_usd", "estimate_tokens"} & set(fields):
        budgets.reconsider(change, task_row(change.tx, task_id))
    if tags != current.tags:
        change.tx.execute("drop_tags", task_pk=row["pk"])
        _tag(change, row["pk"], tags)
    change.pool_changed(row["pool_pk"])
    change.pool_changed(pool_pk)
    change.event("task_updated", row, agent_id=agent_id, fields=sorted(fields))
    if priority != row["priority"]:
        _reprioritise(change, row, priority)
    if "not_before" in fields:
        _reschedule(change, {**row, "pool_pk": pool_pk}, wish.not_before())
    elif row["state"] == "pending":
        change.ready += 1  # an agent that could not do it before may be able to now


def get(tx: Transaction, task_id: str) -> Task:
    """A task with its long texts, its dependencies and its result."""
    row = task_row(tx, task_id)
    body = tx.fetch_one("body_of", task_pk=row["pk"]) if row["has_body"] else None
    result = tx.fetch_one("result_of", task_pk=row["pk"]) if row["state"] == "completed" else None
    edges = tx.fetch_all("parents_of", pk=row["pk"]) if row["parents"] else []
    return records.task(
        row,
        description=body["description"] if body else None,
        payload=decode(body["payload"]) if body and body["payload"] is not None else None,
        result=decode(result["body"]) if result else None,
        depends_on=tuple(records.dependency(edge) for edge in edges),
    )


def page(
    tx: Transaction,
    *,
    plan: str | None,
    state: str | None,
    tag: str | None,
    holder: str | None,
    limit: int,
    after: int,
) -> Page:
    """One page of tasks in the order of their creation."""
    wish: dict[str, Any] = {"plan": plan, "holder": holder, "after": after, "most": limit + 1}
    if tag is not None:
        rows = tx.fetch_all("list_tagged", tag=tag, state=state, **wish)
    elif state == "in_progress" or (holder is not None and state is None):
        rows = tx.fetch_all("list_held", **wish)
    else:
        rows = tx.fetch_all("list_tasks", state=state, **wish)
    more = len(rows) > limit
    rows = rows[:limit]
    return Page(tuple(records.task(row) for row in rows), rows[-1]["pk"] if more else None)


def requirement(change: Change, names: Sequence[str]) -> int:
    """The key of a capability set, entered if it is new."""
    if not names:
        return 0
    text = names_text(names)
    row = change.tx.fetch_one("requirement_by_names", names=text)
    if row is None:
        change.tx.execute("lock_requirements")
        change.tx.execute("insert_requirement", names=text)
        row = change.tx.fetch_one("requirement_by_names", names=text)
    return int(row["pk"]) if row else 0


def pool(change: Change, plan_pk: int, requires_pk: int, writes: Sequence[str], reads: Sequence[str]) -> int | None:
    """The key of the pool for a set of patterns, entered if it is new; None for tasks without paths."""
    if not writes and not reads:
        return None
    key: dict[str, Value] = {"plan_pk": plan_pk, "requires_pk": requires_pk, "paths": paths.encoded(writes, reads)}
    row = change.tx.fetch_one("pool_by_paths", **key)
    if row is None:
        change.tx.execute("insert_pool", **key)
        row = change.tx.fetch_one("pool_by_paths", **key)
    return int(row["pk"]) if row else None


def plan(change: Change, name: str, workspace: str | None = None, retention_us: int | None = None) -> int:
    """The key of a plan, entered if it is new.

    Raises:
        InvalidArgument: it is there with another workspace or retention.
    """
    row = change.tx.fetch_one("plan_by_name", name=name)
    if row is None:
        terms: dict[str, Value] = {"workspace": workspace or "", "retention_us": retention_us}
        change.tx.execute("insert_plan", name=name, now_us=change.now, **terms)
        row = change.tx.fetch_one("plan_by_name", name=name)
    assert row is not None  # noqa: S101 - it was inserted a moment ago, in this transaction
    if workspace is not None and row["workspace"] != workspace:
        raise InvalidArgument("workspace", f"plan {name!r} has workspace {row['workspace']!r}, which cannot change")
    if retention_us not in (None, row["retention_us"]):
        raise InvalidArgument("retention_sec", f"plan {name!r} was made with another or none, which cannot change")
    return int(row["pk"])


def _open_of_keys(change: Change, specs: Sequence[Spec]) -> dict[str | None, str]:
    """The open tasks that have the keys of wishes, by key."""
    found: dict[str | None, str] = {}
    seen: set[str] = set()
    for spec in specs:
        if spec.key is None:
            continue
        if spec.key in seen:
            raise InvalidArgument("key", f"{spec.key!r} is named twice")
        seen.add(spec.key)
        row = change.tx.fetch_one("open_task_of_key", key=spec.key)
        if row is not None:
            found[spec.key] = row["id"]
    return found


def _named(change: Change, specs: Sequence[Spec]) -> dict[str, Spec]:
    """The specs by id; whoever has none gets one."""
    named: dict[str, Spec] = {}
    for spec in specs:
        name = spec.id or _new_id(change, named)
        if name in named:
            raise DuplicateId(name)
        if spec.id and (taken := change.tx.fetch_one("id_taken", id=name)):
            raise DuplicateId(name, pruned=bool(taken["pruned"]))
        named[name] = spec
    return named


def _new_id(change: Change, taken: Mapping[str, Spec]) -> str:
    while True:
        name = "task_" + word(change.chance, ID_LETTERS)
        if name not in taken and change.tx.fetch_one("id_taken", id=name) is None:
            return name


def _refuse_circle(named: Mapping[str, Spec]) -> None:
    cycle = find_cycle({name: [edge.id for edge in spec.depends_on] for name, spec in named.items()})
    if cycle:
        raise CycleRefused(cycle)


def _outside(change: Change, named: Mapping[str, Spec]) -> dict[str, Row]:
    """The rows, locked in one order, of what is on the board, or was pruned, that the new tasks wait for."""
    wanted = sorted({edge.id for spec in named.values() for edge in spec.depends_on} - named.keys())
    for name in wanted:
        change.tx.execute("lock_task", id=name)
    return {name: known_row(change.tx, name) for name in wanted}


def _urgencies(named: Mapping[str, Spec]) -> dict[str, int]:
    """The urgency of each new task: the highest priority among it and the new ones that wait for it."""
    found = {name: spec.priority for name, spec in named.items()}
    waiting = dict.fromkeys(named, 0)
    for spec in named.values():
        for edge in spec.depends_on:
            if edge.id in waiting:
                waiting[edge.id] += 1
    free = deque(name for name, children in waiting.items() if children == 0)
    while free:
        name = free.popleft()
        for edge in named[name].depends_on:
            if edge.id in waiting:
                found[edge.id] = max(found[edge.id], found[name])
                waiting[edge.id] -= 1
                if waiting[edge.id] == 0:
                    free.append(edge.id)
    return found


def _insert_one(change: Change, name: str, spec: Spec, agent_id: str, *, urgency: int, parents: int, unmet: int) -> Row:
    plan_pk = plan(change, spec.plan)
    requires_pk = requirement(change, spec.requires)
    pool_pk = pool(change, plan_pk, requires_pk, spec.writes, spec.reads)
    state = ready_state({"unmet": unmet, "not_before_us": spec.not_before_us}, change.now)
    has_body = spec.description is not None or spec.payload is not None
    row = change.tx.fetch_one(
        "insert_task",
        id=name,
        plan_pk=plan_pk,
        title=spec.title,
        state=state,
        priority=spec.priority,
        urgency=urgency,
        requires_pk=requires_pk,
        pool_pk=pool_pk,
        parents=parents,
        unmet=unmet,
        max_attempts=spec.max_attempts,
        lease_timeout_us=spec.lease_timeout_us,
        max_hold_us=spec.max_hold_us,
        not_before_us=spec.not_before_us,
        now_us=change.now,
        estimate_pusd=spec.estimate_pusd,
        estimate_tokens=spec.estimate_tokens,
        has_body=int(has_body),
        tags=names_text(spec.tags) if spec.tags else None,
        key=spec.key,
    )
    assert row is not None  # noqa: S101 - an INSERT that returns has a row
    if has_body:
        change.tx.execute("put_body", task_pk=row["pk"], description=spec.description, payload=spec.payload)
    _tag(change, row["pk"], spec.tags)
    task = {
        "pk": row["pk"],
        "id": name,
        "plan_pk": plan_pk,
        "pool_pk": pool_pk,
        "state": state,
        "urgency": urgency,
        "fence": 0,
    }
    change.count(task, None, state)
    change.event("task_created", task, agent_id=agent_id, **_portrait(spec, state))
    return task


def _portrait(spec: Spec, state: str) -> dict[str, Any]:
    """What a reader of the history needs to follow the task; never its texts."""
    told: dict[str, Any] = {"state": state}
    if spec.key is not None:
        told["key"] = spec.key
    if spec.priority:
        told["priority"] = spec.priority
    if spec.depends_on:
        told["depends_on"] = [f"{edge.id}:{edge.condition}" for edge in spec.depends_on]
    for field in ("requires", "writes", "reads"):
        if value := getattr(spec, field):
            told[field] = list(value)
    told["max_attempts"] = spec.max_attempts
    return told


def _after_insert(
    change: Change, named: Mapping[str, Spec], rows: Mapping[str, Row], outside: Mapping[str, Row]
) -> None:
    """Lend urgency to what was there before, and cancel what can never run."""
    for name, spec in named.items():
        parents = [outside[edge.id] for edge in spec.depends_on if edge.id in outside]
        if any(parent["state"] not in FINAL and parent["urgency"] < rows[name]["urgency"] for parent in parents):
            dependencies.raise_parent(change, rows[name])
    for name, spec in named.items():
        for edge in spec.depends_on:
            parent = outside.get(edge.id)
            if parent and parent["state"] in FINAL and not is_met(edge.condition, parent["state"]):
                _never(change, name, parent)
                break


def _never(change: Change, name: str, parent: Row) -> None:
    child = task_row(change.tx, name)
    if child["state"] not in FINAL:
        dependencies.cancel(change, child, f"dependency {parent['id']} ended as {parent['state']}", None, parent)
        dependencies.ended(change, child, "cancelled", parent)


def _merged(task: Task, fields: Mapping[str, Any]) -> dict[str, Any]:
    now: dict[str, Any] = {
        "title": task.title,
        "requires": task.requires,
        "writes": task.writes,
        "reads": task.reads,
        "tags": task.tags,
    }
    return now | dict(fields)


def _new_body(change: Change, row: Row, fields: Mapping[str, Any]) -> int:
    if not {"description", "payload"} & set(fields):
        return int(row["has_body"])
    old = change.tx.fetch_one("body_of", task_pk=row["pk"]) or {"description": None, "payload": None}
    wish = Reader(fields)
    fresh = {
        "description": wish.description() if "description" in fields else old["description"],
        "payload": wish.payload() if "payload" in fields else old["payload"],
    }
    change.tx.execute("put_body", task_pk=row["pk"], **fresh)
    return int(any(value is not None for value in fresh.values()))


def _attempts(row: Row, wish: Reader) -> int:
    """How often a task is handed out; one that waits must have a hand-out left."""
    most = wish.attempts(row["max_attempts"])
    least = row["charged"] + (row["state"] != "in_progress")
    if most < least:
        raise InvalidArgument("max_attempts", f"must be at least {least}, for {row['charged']} are used up")
    return most


def _reprioritise(change: Change, row: Row, priority: int) -> None:
    below = change.tx.fetch_one("urgency_below", pk=row["pk"])
    lent = below["urgency"] if below and below["urgency"] is not None else priority
    urgency = max(priority, lent)
    change.tx.execute("set_urgency", pk=row["pk"], urgency=urgency)
    if urgency > row["urgency"]:
        dependencies.raise_parent(change, {**row, "urgency": urgency})
    elif urgency < row["urgency"]:
        change.less_urgent(row["pk"], row["urgency"])


def _reschedule(change: Change, row: Row, not_before_us: int | None) -> None:
    """Give a task that nobody works on another time; one that is worked on keeps it for its next hand-out."""
    change.tx.execute("set_not_before", pk=row["pk"], not_before_us=not_before_us)
    moved = {**row, "not_before_us": not_before_us}
    to = ready_state(moved, change.now)
    if row["state"] in ("pending", "scheduled") and to != row["state"]:
        change.move(moved, to)


def _tag(change: Change, task_pk: int, tags: Sequence[str]) -> None:
    for tag in tags:
        change.tx.execute("add_tag", tag=tag, task_pk=task_pk)
