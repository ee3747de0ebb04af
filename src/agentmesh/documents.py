"""Records as JSON documents, the one form in which every edge shows them.

Instants (`_us` in a record) become RFC 3339 text under `_at`, durations become seconds under `_sec`, money becomes
decimal USD under `_usd`. What is empty or None is left out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from agentmesh.errors import AgentMeshError
from agentmesh.limits import PUSD
from agentmesh.model import BudgetLeft, Entry, EntryPage, Json, Lease, NoClaim, Status
from agentmesh.upkeep import Observation

DURATIONS = frozenset({"lease_timeout_us", "max_hold_us", "duration_us", "wasted_us", "held_us", "retention_us"})
KEPT = frozenset({"result", "payload", "value"})
"""JSON values of agents: handed on as they are, empty ones too; only None, which stands for none, is left out."""
TOLD = ("field", "line", "task_id", "holder", "path", "outcome", "state", "after", "namespace", "key", "version")
"""What an error knows beyond its sentence, where it knows it."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def document(record: Any) -> dict[str, Json]:
    """Any record as a JSON object."""
    if isinstance(record, NoClaim):
        return {"claimed": False, **_fields(record)}
    if isinstance(record, Lease):
        return {"task_id": record.task_id, "fence": record.fence, "lease_expires_at": rfc3339(record.expires_us)}
    if hasattr(record, "lease") and hasattr(record, "dependencies"):
        return _claim(record)
    found = _fields(record)
    if isinstance(record, Status):
        found |= {"total": record.total, "open": record.open}
    if isinstance(record, BudgetLeft) and not record.name:
        del found["name"]  # the board's own
    if isinstance(record, Entry):
        found["value"] = _shown(record.value)
    if isinstance(record, Observation):
        found["name"], found["value"] = _field(record.name, record.value)
    if isinstance(record, EntryPage):
        found.setdefault("entries", [])
    return found


def error_document(error: AgentMeshError) -> dict[str, Json]:
    """An error as a JSON object: `code`, `message`, `hint`, and what else it knows."""
    told = {name: _value(getattr(error, name)) for name in TOLD if getattr(error, name, None) is not None}
    return {"code": error.code, "message": error.message, "hint": error.hint, **told}


def rfc3339(us: int) -> str:
    """An instant as people and programs read it, to the microsecond, always UTC."""
    return (EPOCH + timedelta(microseconds=us)).isoformat().replace("+00:00", "Z")


def dollars(pusd: int) -> str:
    """An amount of 10^-12 USD as exact decimal text."""
    return format((Decimal(pusd) / PUSD).normalize(), "f")


def _shown(value: Json | bytes) -> Json:
    """The value of an entry, null too; bytes as base64, which the entry's content type tells from text."""
    return b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _claim(claim: Any) -> dict[str, Json]:
    found: dict[str, Json] = {
        "claimed": True,
        "task": document(claim.task),
        "lease": claim.lease.token,
        "lease_expires_at": rfc3339(claim.lease_expires_us),
    }
    if claim.resumed:
        found["resumed"] = True
    if claim.budgets:
        found["budgets"] = [document(budget) for budget in claim.budgets]
    if claim.dependencies:
        found["dependencies"] = [document(dependency) for dependency in claim.dependencies]
    return found


def _fields(record: Any) -> dict[str, Json]:
    found: dict[str, Json] = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if value is None or (field.name not in KEPT and (value is False or value in ((), {}))):
            continue
        name, shown = _field(field.name, value)
        found[name] = shown
    return found


def _field(name: str, value: Any) -> tuple[str, Json]:
    if name in KEPT or name == "data":
        return name, value
    if name in DURATIONS:
        return name.removesuffix("_us") + "_sec", value / 1_000_000
    if name.endswith("_us"):
        stem = name.removesuffix("_us")
        return stem if stem == "at" or stem.endswith("_at") else stem + "_at", rfc3339(value)
    if name.endswith("_pusd"):
        return name.removesuffix("_pusd") + "_usd", dollars(value)
    return name, _value(value)


def _value(value: Any) -> Json:
    if is_dataclass(value) and not isinstance(value, type):
        return document(value)
    if isinstance(value, (tuple, list)):
        return [_value(part) for part in value]
    if isinstance(value, Mapping):
        return {key: _value(part) for key, part in value.items()}
    return value
