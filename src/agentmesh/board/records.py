"""From rows to records."""

from __future__ import annotations

from typing import Any, Final, get_args

from agentmesh.jsontext import decode
from agentmesh.model import (
    STATES,
    Attempt,
    Condition,
    Dependency,
    Entry,
    EntryFacts,
    Event,
    Json,
    Note,
    Outcome,
    Pause,
    PauseScope,
    State,
    Task,
)
from agentmesh.store.base import Row

_STATES: Final[dict[str, State]] = {state: state for state in STATES}
_CONDITIONS: Final[dict[str, Condition]] = {condition: condition for condition in get_args(Condition)}
_OUTCOMES: Final[dict[str | None, Outcome | None]] = {None: None} | {outcome: outcome for outcome in get_args(Outcome)}
_PAUSE_SCOPES: Final[dict[str, PauseScope]] = {scope: scope for scope in get_args(PauseScope)}
"""The words a column may hold. A row with another is damaged: the KeyError makes the store look for the damage."""


def task(row: Row, **more: Any) -> Task:
    """A task from a row of `task_view`."""
    found = decode(row["paths"]) if row["paths"] else {"writes": (), "reads": ()}
    return Task(
        id=row["id"],
        title=row["title"],
        plan=row["plan"],
        state=_STATES[row["state"]],
        priority=row["priority"],
        urgency=row["urgency"],
        fence=row["fence"],
        charged=row["charged"],
        max_attempts=row["max_attempts"],
        lease_timeout_us=row["lease_timeout_us"],
        max_hold_us=row["max_hold_us"],
        created_us=row["created_us"],
        requires=tuple(decode(row["requires"])) if row["requires_pk"] else (),
        writes=tuple(found["writes"]),
        reads=tuple(found["reads"]),
        tags=tuple(decode(row["tags"])) if row["tags"] else (),
        not_before_us=row["not_before_us"],
        ended_us=row["ended_us"],
        estimate_pusd=row["estimate_pusd"],
        estimate_tokens=row["estimate_tokens"],
        holder=row["holder"],
        lease_expires_us=row["lease_expires_us"],
        unmet=row["unmet"],
        paused=bool(row["paused"]),
        key=row["key"],
        reason=row["reason"],
        **more,
    )


def attempt(task_id: str, row: Row) -> Attempt:
    """An attempt; its secret stays in the row."""
    return Attempt(
        task_id=task_id,
        fence=row["fence"],
        agent_id=row["agent_id"],
        charged=bool(row["charged"]),
        started_us=row["started_us"],
        heartbeat_us=row["heartbeat_us"],
        lease_expires_us=row["lease_expires_us"],
        ended_us=row["ended_us"],
        outcome=_OUTCOMES[row["outcome"]],
        kind=row["kind"],
        late=bool(row["late"]),
        error=row["error"],
        retry_at_us=row["retry_at_us"],
    )


def event(row: Row) -> Event:
    """An event."""
    return Event(
        seq=row["seq"],
        at_us=row["at_us"],
        kind=row["kind"],
        plan=row["plan"],
        task_id=row["task_id"],
        fence=row["fence"],
        agent_id=row["agent_id"],
        data={**decode(row["data"])},
    )


def dependency(row: Row) -> Dependency:
    """A dependency, from a row that names its parent."""
    return Dependency(row["id"], _CONDITIONS[row["condition"]])


def note(row: Row) -> Note:
    """A note."""
    return Note(fence=row["fence"], agent_id=row["agent_id"], at_us=row["at_us"], text=row["text"])


def pause(row: Row) -> Pause:
    """A pause."""
    return Pause(
        scope=_PAUSE_SCOPES[row["scope"]],
        name=row["name"],
        reason=row["reason"],
        agent_id=row["agent_id"],
        since_us=row["since_us"],
        until_us=row["until_us"],
        ceiling=row["ceiling"],
    )


def entry_facts(row: Row) -> EntryFacts:
    """What is known of an entry."""
    return EntryFacts(**row)


def entry(row: Row, value: Json | bytes) -> Entry:
    """An entry; its value is what the row holds, read."""
    return Entry(
        namespace=row["namespace"],
        key=row["key"],
        version=row["version"],
        size=row["size"],
        created_us=row["created_us"],
        updated_us=row["updated_us"],
        agent_id=row["agent_id"],
        content_type=row["content_type"],
        expires_us=row["expires_us"],
        task_id=row["task_id"],
        fence=row["fence"],
        value=value,
    )
