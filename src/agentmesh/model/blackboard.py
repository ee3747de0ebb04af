"""Entries of the blackboard."""

from __future__ import annotations

from dataclasses import dataclass

from agentmesh.model.words import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """What is known of an entry beside its value. `task_id` and `fence` are those of the lease its writer showed.

    `content_type` is that of bytes; JSON has none.
    """

    namespace: str
    key: str
    version: int
    size: int
    created_us: int
    updated_us: int
    agent_id: str
    content_type: str | None = None
    expires_us: int | None = None
    task_id: str | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(EntryFacts):
    """An entry of the blackboard with its value: any JSON, None too, or bytes."""

    value: Json | bytes


@dataclass(frozen=True, slots=True)
class EntryPage:
    """One page of entries, by namespace and key; give `cursor` back to get the next, None when this was the last."""

    entries: tuple[EntryFacts, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class BlackboardStats:
    """How much there is: entries and the bytes of their values; expired ones not yet swept; names that are gone."""

    entries: int
    size: int
    expired: int
    tombstones: int
