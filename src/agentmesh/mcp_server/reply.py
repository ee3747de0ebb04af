"""The answer of a tool: compact JSON, the same as text and as structure, and never too large.

Clients differ in which of the two they show their model (some drop the structure of errors, some
show nothing but the structure), so both say everything. Models and clients choke on large answers,
so one has at most 60 KiB: lists are cut shorter with a cursor to go on, and of a long text its
beginning is given, with a list of what was cut.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from agentmesh.errors import AgentMeshError, InvalidArgument
from agentmesh.mcp_server.log import log_exception
from agentmesh.mcp_server.told import told
from agentmesh.model import Json

LIMIT: Final = 60 * 1024
"""Bytes of JSON in one answer."""

FRAME: Final = 1024
"""Of these, room for what stands around a list or a part."""

LONG_FIELDS: Final = ("description", "payload", "result")
FOREIGN_JSON: Final = frozenset({"payload", "result", "value", "data"})
"""Fields with a JSON value from outside: cut as text, never looked into."""

SHORT: Final = 2048
KEPT: Final = 512

INTERNAL: Final = {
    "code": "internal",
    "message": "AgentMesh failed in a way it should not; the server's log says more.",
    "hint": "Look at the board before you call again: the call may have had its effect.",
}


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: `json.dumps` makes one for each call that is not plain."""


def compact(value: Json) -> str:
    """JSON without white space, readable in any script."""
    return _ENCODER.encode(value)


def size(value: Json) -> int:
    """Bytes of a value as JSON."""
    return len(compact(value).encode(errors="replace"))


def result_of(work: Callable[[], dict[str, Json]], failed: Callable[[], object] = lambda: None) -> dict[str, Json]:
    """The result of a tools/call: what the work gives, or the error it ends in.

    `failed` is called where the error says nothing of what the work did: it takes back what nobody would know of.
    """
    try:
        return tool_result(work(), is_error=False)
    except AgentMeshError as error:
        return tool_result(told(error), is_error=True)
    except Exception:  # noqa: BLE001 - the client wants an answer, people want the traceback
        log_exception("a call")
        failed()
        return tool_result(INTERNAL, is_error=True)


def tool_result(document: dict[str, Json], *, is_error: bool) -> dict[str, Json]:
    """A document as MCP carries it."""
    fitted = fit(document)
    text = {"type": "text", "text": compact(fitted)}
    return {"content": [text], "structuredContent": fitted, "isError": is_error}


def fitting(items: Sequence[Json]) -> int:
    """How many of the first items fit into an answer; one at least, if there is one."""
    room = LIMIT - FRAME
    for count, item in enumerate(items):
        room -= size(item) + 1
        if room < 0:
            return max(count, 1)
    return len(items)


def part(value: Json, name: str, offset: int) -> dict[str, Json]:
    """A part of a long field, from `offset` on; a JSON value is read as its text."""
    text = value if isinstance(value, str) else "" if value is None else compact(value)
    if not 0 <= offset <= len(text):
        raise InvalidArgument("offset", f"must be within 0 and {len(text)}")
    end = min(len(text), offset + LIMIT - FRAME)
    while size(text[offset:end]) > LIMIT - FRAME:
        end -= (end - offset) // 4
    found: dict[str, Json] = {"field": name, "text": text[offset:end], "total": len(text)}
    return found | ({"next_offset": end} if end < len(text) else {})


class _Cut(NamedTuple):
    """A place where a document may be cut, and how many bytes that may save."""

    saves: int
    path: str
    holder: Any
    key: str | int


def fit(document: dict[str, Json]) -> dict[str, Json]:
    """The document, cut where it is longest until it fits; `truncated` lists what was cut."""
    if size(document) <= LIMIT:
        return document
    fitted: dict[str, Json] = json.loads(compact(document))
    marks: dict[str, dict[str, Json]] = {}
    while (excess := size(fitted) - LIMIT) > 0:
        places = _places(fitted, "")
        place = max(places, key=lambda cut: cut.saves, default=None)
        if place is None:
            return {"truncated": [{"field": "", "of": size(document)}]}
        shown, of = _shorten(place, excess)
        mark = marks.setdefault(place.path, {"field": place.path, "of": of})
        mark["shown"] = shown
        fitted["truncated"] = list(marks.values())
        if str(place.key) in LONG_FIELDS:
            fitted["truncated_hint"] = "Read on with get_task: task_id, field, offset."
        elif place.path == "value":
            fitted["truncated_hint"] = "Read on with get_entry: namespace, key, offset."
    return fitted


def _places(node: Json, path: str) -> Iterator[_Cut]:
    items: Any = node.items() if isinstance(node, dict) else enumerate(node)
    for key, value in items:
        where = f"{path}[{key}]" if isinstance(node, list) else f"{path}.{key}".lstrip(".")
        if isinstance(value, str) or key in FOREIGN_JSON:
            if (large := size(value)) > SHORT:
                yield _Cut(large - KEPT, where, node, key)
        elif isinstance(value, list) and where != "truncated":
            if len(value) > 1:
                yield _Cut(size(value) // 2, where, node, key)
            yield from _places(value, where)
        elif isinstance(value, dict):
            yield from _places(value, where)


def _shorten(place: _Cut, excess: int) -> tuple[int, int]:
    """Cut at this place; how many characters or items are left, of how many."""
    value = place.holder[place.key]
    if isinstance(value, list) and place.key not in FOREIGN_JSON:
        place.holder[place.key] = value[: len(value) // 2]
        return len(value) // 2, len(value)
    text = value if isinstance(value, str) else compact(value)
    kept = max(KEPT, len(text) - excess - FRAME)
    place.holder[place.key] = text[:kept]
    return kept, len(text)
