"""A plan file as people write it, checked for its form; what its values may be, the board decides.

A defect is told with its place: `tasks[3] ('cart-api').priority: Input should be a valid integer`.
"""

from __future__ import annotations

import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentmesh.cli.params import read_json
from agentmesh.cli.streams import standard_input
from agentmesh.cli.text import place
from agentmesh.errors import InvalidArgument
from agentmesh.model import Condition, Json
from agentmesh.printable import one_line

_SHOWN: Final = 5


class _Strict(BaseModel):
    """Refuses what it does not know, and turns no text into a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class DependencyEntry(_Strict):
    """A dependency written out; the short form is the text `id` or `id:condition`."""

    id: str
    condition: Condition = "completed"


class TaskDefaults(_Strict):
    """What every task of the file has unless it says otherwise."""

    description: str | None = None
    priority: int | None = None
    requires: list[str] = Field(default_factory=list)
    tags: list[str] = Field(default_factory=list)
    writes: list[str] = Field(default_factory=list)
    reads: list[str] = Field(default_factory=list)
    payload: Any = None
    estimate_usd: str | int | float | None = None
    estimate_tokens: int | None = None
    lease_timeout_sec: float | None = None
    max_hold_sec: float | None = None
    max_attempts: int | None = None
    not_before: datetime | str | int | float | None = None


class TaskEntry(TaskDefaults):
    """One task of the file. Its id is what makes applying the file twice harmless."""

    id: str
    key: str | None = None
    title: str
    depends_on: list[str | DependencyEntry] = Field(default_factory=list)


class PlanDocument(_Strict):
    """The whole file."""

    plan: str = "default"
    workspace: str | None = None
    retention_sec: float | None = None
    defaults: TaskDefaults = Field(default_factory=TaskDefaults)
    tasks: list[TaskEntry]


def read_plan(path: str) -> dict[str, Any]:
    """Read a plan file (`.json` or `.toml`, `-` for JSON on standard input) for `Board.apply_plan`.

    Raises:
        InvalidArgument: it cannot be read or has not the form of a plan; the message names the place.
    """
    data = _parse(path)
    name = _name(path)
    if not isinstance(data, dict):
        raise InvalidArgument(name, "a plan is an object with a list of tasks")
    try:
        plan = PlanDocument.model_validate(data)
    except ValidationError as error:
        raise _invalid(name, data, error) from None
    return plan.model_dump(exclude_unset=True)


def _parse(path: str) -> Json:
    name = _name(path)
    kind = "json" if path == "-" else Path(path).suffix.lower().removeprefix(".")
    if kind not in ("json", "toml"):
        raise InvalidArgument(name, "a plan file ends in .json or .toml")
    try:
        text = standard_input("FILE -").read() if path == "-" else Path(path).read_text("utf-8")
        return read_json(text) if kind == "json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidArgument(name, f"it cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgument(name, "it is not UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise InvalidArgument(name, one_line(str(error) or "nested too deeply")) from None


def _name(path: str) -> str:
    return "standard input" if path == "-" else place(path)


def _invalid(name: str, data: dict[str, Any], error: ValidationError) -> InvalidArgument:
    """The first defect as the message; the others as the hint, so one round may mend them all."""
    defects: dict[str, str] = {}
    for defect in error.errors(include_url=False, include_context=False, include_input=False):
        where = _where(data, [part for part in defect["loc"] if not _is_type_name(part)])
        defects.setdefault(where, one_line(defect["msg"]))
    told = [
        f"{where}: {problem}"
        for where, problem in defects.items()
        if not any(other.startswith(f"{where}.") for other in defects)  # the inner one says more
    ]
    more = [*told[1:_SHOWN], *([f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else [])]
    hint = f"Correct the file and apply it again. Also: {'; '.join(more)}" if more else None
    return InvalidArgument(name, told[0], hint=hint or "Correct the file and apply it again.")


def _where(data: dict[str, Any], location: list[int | str]) -> str:
    """A path into the file, with the id of the task beside its number."""
    text = ""
    for part in location:
        if isinstance(part, str):
            text += f".{one_line(part)[:80]}" if text else one_line(part)[:80]
            continue
        text += f"[{part}]"
        if text.startswith("tasks[") and text.count("[") == 1:
            text += _task_id(data, part)
    return text or "the file"


def _task_id(data: dict[str, Any], number: int) -> str:
    entry = data["tasks"][number]
    named = entry.get("id") if isinstance(entry, dict) else None
    return f" ({one_line(named)[:80]!r})" if isinstance(named, str) else ""


def _is_type_name(part: int | str) -> bool:
    """Pydantic puts the members of a union into the place; a reader does not want them."""
    return isinstance(part, str) and part in ("str", "int", "float", "datetime", "DependencyEntry")
