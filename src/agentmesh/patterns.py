"""Path patterns: which files a task reads or writes, and when two patterns can mean the same file.

A pattern is a relative POSIX path. `*` stands for any characters within a segment, `**` for any number of whole
segments, none included; a trailing `/` means the directory and all below it. Case counts; text is NFC.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from functools import lru_cache

from agentmesh.errors import InvalidArgument
from agentmesh.model import PathMode

LONGEST = 300
DEEPEST = 64
REFUSED = frozenset("[]{}?\\")


def normalised(field: str, pattern: object) -> str:
    """The one way in which a pattern is written down.

    Raises:
        InvalidArgument: it is empty, absolute, too long or too deep, has `.` or `..` segments, brackets, a question
            mark, a backslash or unprintable characters.
    """
    if not isinstance(pattern, str):
        raise InvalidArgument(field, "each pattern must be text")
    text = unicodedata.normalize("NFC", pattern)
    text += "**" if text.endswith("/") and text != "/" else ""
    if not text or len(text) > LONGEST or not text.isprintable():
        raise InvalidArgument(field, f"a pattern has 1 to {LONGEST} printable characters")
    if text.startswith("/") or text[1:2] == ":":
        raise InvalidArgument(field, "a pattern is relative to the workspace, not absolute")
    if REFUSED & set(text):
        raise InvalidArgument(field, "a pattern knows `*` and `**` only; brackets, `?` and backslashes are refused")
    segments = text.split("/")
    if len(segments) > DEEPEST:
        raise InvalidArgument(field, f"a pattern has at most {DEEPEST} segments")
    if any(segment in ("", ".", "..") or ("**" in segment and segment != "**") for segment in segments):
        raise InvalidArgument(field, "a pattern has no empty, `.` or `..` segments, and `**` stands alone in its own")
    return "/".join(segments)


def anchor(pattern: str) -> str:
    """The leading segments that hold no wildcard. Patterns overlap only if one's anchor leads to the other's."""
    literal = []
    for segment in pattern.split("/"):
        if "*" in segment:
            break
        literal.append(segment)
    return "/".join(literal)


def ancestors(place: str) -> list[str]:
    """The anchor itself and every anchor above it, the root (``) included."""
    segments = place.split("/") if place else []
    return ["/".join(segments[:depth]) for depth in range(len(segments) + 1)]


def conflict(pattern: str, mode: PathMode, other: str, other_mode: PathMode) -> bool:
    """Whether the two may not be held at once: they overlap, and one of them writes."""
    return "write" in (mode, other_mode) and overlap(pattern, other)


@lru_cache(maxsize=65536)
def overlap(one: str, two: str) -> bool:
    """Whether some path matches both patterns."""
    return _meet(tuple(one.split("/")), tuple(two.split("/")), "**", _segments_meet)


@lru_cache(maxsize=4096)
def _segments_meet(one: str, two: str) -> bool:
    if "*" not in one and "*" not in two:
        return one == two
    return _meet(tuple(one), tuple(two), "*", str.__eq__)


def _meet(one: tuple[str, ...], two: tuple[str, ...], wild: str, same: Callable[[str, str], bool]) -> bool:
    """Whether two sequences, in which `wild` stands for any run, have a common instance; row by row, no recursion."""
    row = [True]
    for part in two:
        row.append(row[-1] and part == wild)
    for left in one:
        fresh = [row[0] and left == wild]
        for column, right in enumerate(two):
            if wild in (left, right):  # it stands for nothing, or for one part more of the other side
                fresh.append(row[column + 1] or fresh[column])
            else:
                fresh.append(row[column] and same(left, right))
        row = fresh
    return row[-1]
