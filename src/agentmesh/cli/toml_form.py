"""TOML files of clients, edited as text.

Our entry is a table of its own at the end of the file, which any TOML file can take. tomllib reads the file before and
after; a scan for statements finds the lines. (tomlkit was tried: taking a table out leaves blank lines behind, and the
lines that it adds to a CRLF file end in LF.)
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from agentmesh.cli.server_entry import Entry, Unfit, Where, prove

_TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}"  # a string of several lines may end in two quotes of its own
    r'|"(?:[^"\\\n]|\\.)*"' + r"|'[^'\n]*'" + r"""|\#[^\n]*|\n|[\[\]{}=]|[^"'#\n\[\]{}=]+""",
    re.DOTALL,
)
_PLACE: Final = re.compile(r"\(at (line \d+, column \d+)\)")
_BLANK_LINE_AT_END: Final = re.compile(r"\n\r?\n\Z")
_NEWLINE_AT_END: Final = re.compile(r"\r?\n\Z")


@dataclass(frozen=True, slots=True)
class _Statement:
    """Where a line and its like is: all of it, what is said (nothing in a comment), and its equals sign."""

    start: int
    end: int
    first: int | None
    stop: int
    equals: int | None


class TomlForm:
    """TOML."""

    def fresh(self, container: str) -> str:  # noqa: ARG002 - a table needs no room made for it
        """A new file without a server."""
        return ""

    def read(self, text: str, where: Where) -> object:
        """What stands there; see `Form`."""
        container, name = where
        servers = _load(text).get(container, {})
        if not isinstance(servers, dict):
            raise Unfit(f"{container} is no table")
        return servers.get(name)

    def put(self, text: str, where: Where, entry: Entry) -> str:
        """The text with our entry; see `Form`."""
        after = _append(text, where, entry) if self.read(text, where) is None else _set(text, where, entry)
        try:
            prove(_load(text), _load(after), where, entry)
        except Unfit:
            raise _unusual(where) from None
        return after

    def take(self, text: str, where: Where) -> str:
        """The text without our entry; see `Form`."""
        after = text
        for table in reversed(_tables(text, where)):
            after = _cut(after, table)
        try:
            prove(_load(text), _load(after), where, None)
        except Unfit:
            raise _unusual(where) from None
        return after


def _load(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        place = _PLACE.search(str(error))
        raise Unfit(f"{place[1] if place else 'at its end'}: this is not TOML") from None
    except RecursionError:
        raise Unfit("it is nested too deeply") from None


def _unusual(where: Where) -> Unfit:
    return Unfit(f"[{where[0]}] is not written as tables, so it is edited by hand only")


def _append(text: str, where: Where, entry: Entry) -> str:
    newline = "\r\n" if text.find("\r\n") + 1 == text.find("\n") > 0 else "\n"
    lines = [f"[{'.'.join(where)}]", *(f"{field} = {_dump(value)}" for field, value in entry.items())]
    ended = not text or text.endswith("\n")  # the file ends as it did: that is how `_cut` knows what was there
    return text + (newline if text else "") + newline.join(lines) + (newline if ended else "")


def _dump(value: Any) -> str:
    """Strings and lists of them: JSON writes them as TOML does."""
    return json.dumps(value, ensure_ascii=False)


def _set(text: str, where: Where, entry: Entry) -> str:
    """Write other values into the lines of our table."""
    for field, value in entry.items():
        if (old := _value(text, (*where, field))) and tomllib.loads(f"value = {text[slice(*old)]}")["value"] != value:
            text = text[: old[0]] + _dump(value) + text[old[1] :]
    return text


def _value(text: str, path: tuple[str, ...]) -> tuple[int, int] | None:
    for table in _tables(text, path[:2]):
        header = _path(text[table[0].first : table[0].stop])
        for line in table[1:]:
            if line.equals is not None and header + _path(f"{text[line.first : line.equals]} = 0") == path:
                return line.equals + 1 + _blanks(text[line.equals + 1 :]), line.stop
    return None


def _blanks(text: str) -> int:
    return len(text) - len(text.lstrip(" \t"))


def _tables(text: str, where: tuple[str, ...]) -> list[list[_Statement]]:
    """The lines of our table and of those in it, each from its header to its last statement."""
    found: list[list[_Statement]] = []
    ours = False
    for line in _statements(text):
        if line.first is not None and text[line.first] == "[":
            ours = _path(text[line.first : line.stop])[: len(where)] == where
            if ours:
                found.append([])
        if ours:
            found[-1].append(line)
    return [_without_end(table) for table in found]


def _without_end(table: list[_Statement]) -> list[_Statement]:
    """Comments and blank lines at the end of a table belong to what follows."""
    last = max(number for number, line in enumerate(table) if line.first is not None)
    return table[: last + 1]


def _statements(text: str) -> Iterator[_Statement]:
    start, first, stop, equals, depth = 0, None, 0, None, 0
    for token in _TOKEN.finditer(text):
        word, at = token[0], token.start()
        if word == "\n" and depth == 0:
            yield _Statement(start, token.end(), first, stop, equals)
            start, first, equals = token.end(), None, None
        elif word[0] != "#" and not word.isspace():
            first = at + len(word) - len(word.lstrip()) if first is None else first
            stop = at + len(word.rstrip())
            equals = at if word == "=" and depth == 0 and equals is None else equals
            depth += (word in "[{") - (word in "]}")
    if start < len(text):
        yield _Statement(start, len(text), first, stop, equals)


def _path(statement: str) -> tuple[str, ...]:
    """The names in a header, or on the left of an equals sign."""
    names: list[str] = []
    inside: Any = tomllib.loads(statement)
    while isinstance(inside, dict) and inside:
        ((name, inside),) = inside.items()
        names.append(name)
    return tuple(names)


def _cut(text: str, table: list[_Statement]) -> str:
    """Take lines out, with the line break that `_append` put before them."""
    before, lines, after = text[: table[0].start], text[table[0].start : table[-1].end], text[table[-1].end :]
    if not lines.endswith("\n") or _BLANK_LINE_AT_END.search(before):
        before = _NEWLINE_AT_END.sub("", before)
    return before + after
