"""What a tool may be given: a flat list of arguments, as data; its JSON schema and its check.

The schemas are plain on purpose (no `$ref`, no null): clients differ in how much of JSON Schema
they understand. Each argument has a type, since several clients drop a tool, or send text, where
one is missing; an object says that it takes any properties, since others make an empty object of
it. So any JSON is an object or a string there. The check is wider than the schema: models send a
list or an object as JSON text, and null or "" for "not given"; a string argument is never read as
JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, Final, Literal

from agentmesh.errors import InvalidArgument
from agentmesh.mcp_server.profiles import EVERY, Profile, listed
from agentmesh.model import Json

Kind = Literal["string", "integer", "number", "boolean", "strings", "object", "objects", "json"]
Arguments = dict[str, Json]

SPEAKER: Final = "agent_id"
"""The argument that says who speaks."""

LEASE: Final = "lease"
"""The argument that shows a lease, for a client that starts a server for each call: its session remembers none."""

ANY_OBJECT: Final[Mapping[str, Json]] = {"type": "object", "additionalProperties": True}

LARGEST_EXACT: Final = 2**53
"""Up to here a float that is whole is the integer that was meant."""

EXPECTED: Final[dict[Kind, str]] = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "strings": 'a list of strings, e.g. ["a", "b"]',
    "object": "an object, e.g. {...}",
    "objects": "a list of objects, e.g. [{...}, {...}]",
    "json": "a JSON value",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool. `choices` closes the set of strings it takes.

    `profiles` narrows it down to some of the profiles that list its tool. A hidden one is taken, but not listed.
    `parts` are the properties that a list of objects shows; it takes more. `blank`: an empty string is a value, too.
    """

    name: str
    kind: Kind = "string"
    about: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    profiles: tuple[Profile, ...] = EVERY
    hidden: bool = False
    parts: tuple[Argument, ...] = ()
    blank: bool = False

    def seen_by(self, profile: Profile) -> Argument | None:
        """The argument as a profile has it; who speaks, and with which lease, may be said where it is not listed."""
        if listed(self.profiles, profile):
            return self
        return replace(self, required=False, hidden=True) if self.name in (SPEAKER, LEASE) else None

    def schema(self) -> dict[str, Json]:
        """The JSON schema of this argument."""
        described: dict[str, Json] = {}
        match self.kind:
            case "strings":
                described = {"type": "array", "items": {"type": "string"}}
            case "objects":
                described = {"type": "array", "items": self._items()}
            case "object":
                described = dict(ANY_OBJECT)
            case "json":
                described = {"anyOf": [dict(ANY_OBJECT), {"type": "string"}]}
            case plain:
                described = {"type": plain}
        if self.choices:
            described["enum"] = list(self.choices)
        if self.about:
            described["description"] = self.about
        return described

    def _items(self) -> dict[str, Json]:
        """What an object of the list is made of."""
        properties: dict[str, Json] = {part.name: part.schema() for part in self.parts}
        return {
            "type": "object",
            "properties": properties,
            "required": [part.name for part in self.parts if part.required],
        }

    def read(self, value: Json, where: str = "") -> Json:
        """Return the value as the tool takes it.

        Raises:
            InvalidArgument: it is of another kind.
        """
        found = _READERS[self.kind](value)
        expected = EXPECTED[self.kind]
        if self.choices:
            expected = "one of " + ", ".join(self.choices)
            found = found if found in self.choices else None
        if found is None:
            raise InvalidArgument(where + self.name, f"expected {expected}, got {_kind_of(value)}")
        return found


def input_schema(arguments: Sequence[Argument]) -> dict[str, Json]:
    """The JSON schema of a tool's arguments."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],  # some clients want an empty one
    }


def checked(spec: Sequence[Argument], given: Mapping[str, Json], of: str, where: str = "") -> Arguments:
    """Return the arguments that were given, each of its kind.

    A null counts as not given, save where a JSON value is required: there it is one. So does an empty string where an
    optional name or word is asked for: clients that mark all arguments as required make their models give one.

    Raises:
        InvalidArgument: one is unknown, missing or of another kind.
    """
    known = {argument.name: argument for argument in spec}
    for name in given:
        if name not in known:
            takes = ", ".join(known) or "no arguments"
            raise InvalidArgument(where + _shown(name), f"{of} has no such argument; it takes {takes}")
    arguments: Arguments = {}
    for argument in spec:
        value = given.get(argument.name)
        if value == "" and argument.kind == "string" and not (argument.required or argument.blank):
            continue
        if value is not None:
            arguments[argument.name] = argument.read(value, where)
        elif argument.required and argument.kind == "json" and argument.name in given:
            arguments[argument.name] = None
        elif argument.required:
            raise InvalidArgument(where + argument.name, f"is required: give {EXPECTED[argument.kind]}")
    return arguments


def _shown(name: str) -> str:
    """The name of an unknown argument, unless it is no name: errors carry no foreign text."""
    return name if name.isascii() and name.isidentifier() and len(name) <= 40 else "arguments"  # noqa: PLR2004 - long enough for any name


def _string(value: Json) -> Json:
    return value if isinstance(value, str) else None


def _boolean(value: Json) -> Json:
    return value if isinstance(value, bool) else None


def _number(value: Json) -> Json:
    """A number, which JSON text can make infinite and Python takes true for."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and _is_finite(value) else None


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # a whole number larger than any float
        return False


def _integer(value: Json) -> Json:
    number = _number(value)
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < LARGEST_EXACT else None
    return number


def _strings(value: Json) -> Json:
    items = _from_text(value)
    return items if _is_list_of(items, str) else None


def _object(value: Json) -> Json:
    found = _from_text(value)
    return found if isinstance(found, dict) else None


def _objects(value: Json) -> Json:
    items = _from_text(value)
    items = [_from_text(item) for item in items] if isinstance(items, list) else None
    return items if _is_list_of(items, dict) else None


_READERS: Final[dict[Kind, Callable[[Json], Json]]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "strings": _strings,
    "object": _object,
    "objects": _objects,
    "json": lambda value: value,
}
"""Each gives the value as the tool takes it, None if it is of another kind."""


def _is_list_of(value: Json, kind: type[Any]) -> bool:
    return isinstance(value, list) and all(isinstance(item, kind) for item in value)


def _from_text(value: Json) -> Json:
    """A list or object that was sent as JSON text; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _kind_of(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "a string"
        case int() | float():
            return "a number" if _is_finite(value) else "a number too large"
        case list():
            return "a list"
        case _:
            return "an object"
