"""JSON files of clients, edited as text.

Libraries that keep the layout of JSON are few and young, or read more than JSON. So the standard parser checks the
text, and the entry is spliced into it.

What uninstalling has to know is told by the layout. An object that we had to make holds our entry without a blank
between the braces and goes with it; one that was there, though empty, has white space around the entry and stays.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from agentmesh.cli.server_entry import Entry, Unfit, Where, prove

_WHITE: Final = " \t\r\n"
_STRING: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_REMARK: Final = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_BRACE: Final = re.compile(rf"{_STRING}|\{{", re.DOTALL)
_PLAIN: Final = json.JSONDecoder(parse_int=str, parse_float=str)
_TWICE: Final = "a name stands twice in one object"


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member's name begins, and where its value begins and ends."""

    start: int
    at: int
    end: int


@dataclass(frozen=True, slots=True)
class _Object:
    """Where an object's braces and members are."""

    at: int
    end: int
    members: dict[str, _Member]


@dataclass(frozen=True, slots=True)
class JsonForm:
    """JSON, with or without comments."""

    comments: bool = False

    def fresh(self, container: str) -> str:
        """A new file without a server."""
        return f'{{\n  "{container}": {{}}\n}}\n'

    def read(self, text: str, where: Where) -> object:
        """What stands there; see `Form`."""
        shadow = self._shadow(text)
        document = _load(shadow)
        container, name = where
        servers = document.get(container, {})
        if not isinstance(servers, dict):
            _refuse(shadow, _root(shadow).members[container].at, f"{container} is no object")
        return servers.get(name)

    def put(self, text: str, where: Where, entry: Entry) -> str:
        """The text with our entry; see `Form`."""
        there = self.read(text, where)
        after = text
        if isinstance(there, dict):
            for field, value in entry.items():
                if there.get(field) != value:
                    after = self._set(after, (*where, field), value)
        else:
            after = self._set(text, where, entry)
        prove(_load(self._shadow(text)), _load(self._shadow(after)), where, entry)
        return after

    def take(self, text: str, where: Where) -> str:
        """The text without our entry; see `Form`."""
        shadow = self._shadow(text)
        root = _root(shadow)
        container, name = where
        servers = _object(shadow, root.members[container].at)
        made_by_us = len(servers.members) == 1 and servers.members[name].start == servers.at + 1
        after = _cut(text, shadow, root, container) if made_by_us else _cut(text, shadow, servers, name)
        prove(_load(shadow), _load(self._shadow(after)), where, None)
        return after

    def _shadow(self, text: str) -> str:
        """The text as strict JSON, every character in its place: comments are blanks."""
        return _REMARK.sub(_blank, text) if self.comments else text

    def _set(self, text: str, path: tuple[str, ...], value: Any) -> str:
        """Set what stands at the end of a path, making the objects on the way."""
        shadow = self._shadow(text)
        spot, names = _root(shadow), list(path)
        while len(names) > 1 and names[0] in spot.members:
            spot = _object(shadow, spot.members[names.pop(0)].at)
        if names[0] not in spot.members:
            return _add(text, shadow, spot, names, value)
        old = spot.members[names[0]]
        indent = _indent(text, old.start) if "\n" in text[old.at : old.end] else None
        return text[: old.at] + _dump(text, shadow, value, indent) + text[old.end :]


class _Twins(Exception):
    """Two members of one object have one name."""


def _blank(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith('"') else re.sub(r"[^\r\n]", " ", match[0])


def _load(shadow: str) -> dict[str, Any]:
    """Check the whole text, and read it; numbers stay as they are written."""
    try:
        document = json.loads(
            shadow, parse_int=str, parse_float=str, parse_constant=_no_constant, object_pairs_hook=_unlike
        )
    except json.JSONDecodeError as error:
        _refuse(shadow, error.pos, error.msg)
    except RecursionError:
        raise Unfit("it is nested too deeply") from None
    except _Twins:
        for match in _BRACE.finditer(shadow):
            if match[0] == "{":
                _object(shadow, match.start())
        raise Unfit(_TWICE) from None
    if not isinstance(document, dict):
        _refuse(shadow, _next(shadow, 0), "this is no object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise Unfit(f"{name} is no JSON value")


def _unlike(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Twins
    return found


def _refuse(shadow: str, at: int, problem: str) -> NoReturn:
    line, column = shadow.count("\n", 0, at) + 1, at - shadow.rfind("\n", 0, at)
    raise Unfit(f"line {line}, column {column}: {problem}")


def _root(shadow: str) -> _Object:
    return _object(shadow, _next(shadow, 0))


def _object(shadow: str, at: int) -> _Object:
    """The members of the object that begins here, in a text that was checked."""
    members: dict[str, _Member] = {}
    here = _next(shadow, at + 1)
    while shadow[here] != "}":
        name, end = _PLAIN.raw_decode(shadow, here)
        if name in members:
            _refuse(shadow, here, _TWICE)
        value = _next(shadow, _next(shadow, end) + 1)
        members[name] = _Member(here, value, _PLAIN.raw_decode(shadow, value)[1])
        here = _next(shadow, members[name].end)
        if shadow[here] == ",":
            here = _next(shadow, here + 1)
    return _Object(at, here, members)


def _next(text: str, at: int) -> int:
    """Where the next character is that is not white."""
    while at < len(text) and text[at] in _WHITE:
        at += 1
    return at


def _after(text: str, at: int) -> int:
    """Where the white space before a place begins."""
    while at > 0 and text[at - 1] in _WHITE:
        at -= 1
    return at


def _indent(text: str, at: int) -> str:
    """The white space at the beginning of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _add(text: str, shadow: str, spot: _Object, names: list[str], value: Any) -> str:
    """Add a member at the end of an object; more than one name makes objects in it."""
    outer = _indent(text, spot.at)
    if not spot.members:
        flat = "\n" not in text.strip() and spot.at > _next(shadow, 0)
        lead, tail = (" ", " ") if flat else (_newline(text) + outer + _unit(text, shadow), _newline(text) + outer)
        before, rest = text[: spot.at + 1], tail + text[spot.at + 1 :]
    else:
        last = list(spot.members.values())[-1]
        lead, at = " ", last.end
        if "\n" in text[_after(text, last.start) : last.start]:
            lead = _newline(text) + _indent(text, last.start)
            at = _after(text, spot.end)  # behind a comment on the last member: it stays on its line
        before, rest = text[: last.end] + "," + text[last.end : at], text[at:]
    indent = lead.rpartition("\n")[2] if "\n" in lead else None
    opening = ": {".join(json.dumps(name) for name in names)
    member = f"{opening}: {_dump(text, shadow, value, indent)}{'}' * (len(names) - 1)}"
    return before + lead + member + rest


def _cut(text: str, shadow: str, spot: _Object, name: str) -> str:
    """Take a member out, with the white space and the comma that `_add` gave it."""
    names = list(spot.members)
    at, mine = names.index(name), spot.members[name]
    white = _after(text, mine.start)
    if len(names) == 1:
        lead = text[white : mine.start]
        tail = _newline(text) + _indent(text, spot.at) if "\n" in lead else lead
        return text[:white] + text[mine.end :].removeprefix(tail)
    if at == len(names) - 1:
        comma = shadow.index(",", spot.members[names[at - 1]].end)
        return text[:comma] + text[comma + 1 : white] + text[mine.end :]
    comma = shadow.index(",", mine.end)
    return text[: mine.start] + text[mine.end : comma] + text[_next(text, comma + 1) :]


def _unit(text: str, shadow: str) -> str:
    """One step of the file's own indentation."""
    root = _root(shadow)
    indents = [_indent(text, member.start) for member in root.members.values()]
    return next(iter(indents), "").removeprefix(_indent(text, root.at)) or "  "


def _dump(text: str, shadow: str, value: Any, indent: str | None) -> str:
    """A value in the file's own style; on one line without an indentation."""
    if indent is None:
        return json.dumps(value, ensure_ascii=False)
    laid_out = json.dumps(value, ensure_ascii=False, indent=_unit(text, shadow))
    return laid_out.replace("\n", _newline(text) + indent)
