"""A scripted tool call, held against the tools that the agent offered."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_agentmesh.endpoint.form import ScriptError
from pytest_agentmesh.replies import Tool

Schema = Mapping[str, Any]
KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "array": lambda value: isinstance(value, (list, tuple)),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "null": lambda value: value is None,
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
    "object": lambda value: isinstance(value, Mapping),
    "string": lambda value: isinstance(value, str),
}
NAMES_SHOWN: Final = 20
UNTOLD: Final = "the agent did not hand the tools of its session to the model"
UNLISTED: Final = "the profile of its session does not list this tool, or the script misspells it"
MISFIT: Final = "the script was written for another tool; strict=False lets it be said all the same"


def find(name: str, offered: Sequence[Tool]) -> Tool:
    """The tool that is meant by a name: the one of that name, or else the only one that ends in it.

    Raises:
        ScriptError: the agent offered none, or several.
    """
    fitting = [tool for tool in offered if tool.name == name] or [tool for tool in offered if tool.answers_to(name)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ScriptError(f"{name} could be any of {_listed(fitting)}", "the script does not write the whole name")
    if not offered:
        raise ScriptError(f"{name} cannot be called: the agent offered no tools", UNTOLD)
    raise ScriptError(f"{name} cannot be called: the agent offered only {_listed(offered)}", UNLISTED)


def check(tool: Tool, arguments: Mapping[str, Any]) -> None:
    """See that arguments fit what the tool says of them: names, types and choices; an unknown name never fits.

    Raises:
        ScriptError: they do not, and where.
    """
    wrong = list(misfits(tool.schema, arguments, tool.schema))
    if wrong:
        raise ScriptError(f"these arguments do not fit the schema of {tool.name}: {'; '.join(wrong)}", MISFIT)


def filled(tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments as a model says them that is held to a strict schema: it has to say all, and null is for nothing.

    OpenAI's strict mode has no optional arguments; frameworks turn those of a tool into ones that may be null.
    """
    known = tool.schema.get("properties", {})
    unsaid = [name for name in tool.schema.get("required", ()) if name not in arguments and name in known]
    return {**arguments, **{name: None for name in unsaid if _may_be_null(known[name], tool.schema)}}


def _may_be_null(schema: Schema, root: Schema) -> bool:
    """Whether a schema names null; one that takes anything does not."""
    schema = _resolved(schema, root)
    parts = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return "null" in schema.get("type", ()) or any(_may_be_null(part, root) for part in parts)


def misfits(schema: Schema, value: Any, root: Schema, path: str = "") -> Iterator[str]:
    """What of a value does not fit a schema; lengths, ranges and patterns are the tool's own affair."""
    schema = _resolved(schema, root)
    place = path or "the arguments"
    if "const" in schema and value != schema["const"]:
        yield f"{place} must be {json.dumps(schema['const'])}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place} must be one of {json.dumps(schema['enum'])}"
    for part in schema.get("allOf", ()):
        yield from misfits(part, value, root, path)
    for choice in ("anyOf", "oneOf"):
        tried = [list(misfits(part, value, root, path)) for part in schema.get(choice, ())]
        if tried and all(tried):
            yield " or ".join(dict.fromkeys(wrong for each in tried for wrong in each))
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(KINDS[kind](value) for kind in kinds if kind in KINDS):
        yield f"{place} must be of type {' or '.join(kinds)}"
    elif isinstance(value, Mapping):
        yield from _properties(schema, value, root, path)
    elif isinstance(value, (list, tuple)) and isinstance(schema.get("items"), Mapping):
        for index, item in enumerate(value):
            yield from misfits(schema["items"], item, root, f"{path}[{index}]")


def _properties(schema: Schema, value: Mapping[str, Any], root: Schema, path: str) -> Iterator[str]:
    known, more = schema.get("properties"), schema.get("additionalProperties")
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{_inside(path, name)} is missing"
    for name, inner in value.items():
        if known and name in known:
            yield from misfits(known[name], inner, root, _inside(path, name))
        elif isinstance(more, Mapping):
            yield from misfits(more, inner, root, _inside(path, name))
        elif more is False or (known is not None and more is not True):
            yield f"{_inside(path, name)} is not known; known: {', '.join(known or ()) or 'nothing'}"


def _resolved(schema: Schema, root: Schema) -> Schema:
    """The schema that a reference within the document leads to."""
    reference = schema.get("$ref", "")
    if not reference.startswith("#/"):
        return schema
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step, {})
    return {**found, **{key: value for key, value in schema.items() if key != "$ref"}}


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _listed(tools: Sequence[Tool]) -> str:
    shown = [tool.name for tool in tools[:NAMES_SHOWN]]
    return ", ".join([*shown, "..."] if len(shown) < len(tools) else shown)
