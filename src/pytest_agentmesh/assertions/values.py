"""An expected JSON value beside the one that is there: where they first part, and both in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

from agentmesh.jsontext import encode
from agentmesh.printable import one_line
from pytest_agentmesh.assertions.wording import folded

SHOWN: Final = 300
"""How many characters of a value are shown."""


def contrast(expected: object, actual: object) -> list[str]:
    """Where two values differ, and both of them."""
    return [
        *(line for parting in partings(expected, actual)[:3] for line in folded(parting)),
        *folded(shown(expected, SHOWN), "expected  "),
        *folded(shown(actual, SHOWN), "actual    "),
    ]


def partings(expected: object, actual: object, where: str = "") -> list[str]:
    """Each place at which two values differ, from the outside in."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        found = [
            f"{_at(where, key)} is missing, expected {shown(expected[key])}" for key in expected if key not in actual
        ]
        found += [f"{_at(where, key)} is {shown(actual[key])}, not expected" for key in actual if key not in expected]
        for key in expected:
            if key in actual:
                found += partings(expected[key], actual[key], _at(where, key))
        return found
    if _is_list(expected) and _is_list(actual):
        pairs = list(zip(expected, actual, strict=False))
        found = [line for n, pair in enumerate(pairs) for line in partings(*pair, f"{where}[{n}]")]
        if len(expected) != len(actual):
            found.append(f"{where or 'the list'} has {len(actual)} items, expected {len(expected)}")
        return found
    if expected == actual or not where:
        return []
    return [f"{where} is {shown(actual)}, expected {shown(expected)}"]


def shown(value: object, most: int = 40) -> str:
    """A value as it may be printed: JSON as its text, bytes by their length and beginning, cut to `most` characters."""
    if isinstance(value, (bytes, bytearray)):
        text = f"{len(value)} bytes, {bytes(value[:16])!r}{'...' if len(value) > 16 else ''}"  # noqa: PLR2004 - a taste
    else:
        text = _text(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def _text(value: object) -> str:
    try:
        return one_line(encode(value))
    except (TypeError, ValueError):  # an expectation may be anything that compares, such as pytest.approx
        return one_line(repr(value))


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray))


def _at(where: str, key: object) -> str:
    return f"{where}.{one_line(str(key))}"
