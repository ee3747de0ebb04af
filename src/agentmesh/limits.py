"""The limits of everything that comes in, each with one error that names the field and the limit."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation

from agentmesh.errors import InvalidArgument
from agentmesh.jsontext import encode
from agentmesh.model import Json

TITLE = 300
NAME = 128
NAMESPACE = 256
SOURCE = 256
KEY = 256
CONTENT_TYPE = 128
TEXT_BYTES = 64 * 1024
ENTRY_BYTES = 256 * 1024
ARTIFACT_BYTES = 1024 * 1024
ERROR_BYTES = 8 * 1024
REASON = 300
DEPENDENCIES = 1_000
NAMES = 64
PATTERNS = 100
BATCH = 10_000
EDGES = 100_000
DEPTH = 64
PRIORITY = 1_000_000
ATTEMPTS = 1_000
INTEGER = 2**63 - 1
WAIT_SEC = 50
PAGE = 500
LEASE_SEC = (0.05, 7 * 86_400.0)
HOLD_SEC = (0.05, 30 * 86_400.0)
DELAY_SEC = (0.0, 365 * 86_400.0)
TTL_SEC = (0.001, 3_650 * 86_400.0)
AGE_SEC = (0.0, 3_650 * 86_400.0)
INSTANT_US = 253_402_300_799 * 1_000_000
"""The end of the year 9999, the last that RFC 3339 can write."""
PUSD = 10**12
TOKENS = 10**12
COST_PUSD = 100_000 * PUSD
"""The most that one call of a model is believed to cost."""
CONTENT_TYPE_FORM = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+( ?; ?[\w!#$&^.+-]+=[\w!#$&^.+-]+)*", re.ASCII)
ENCODED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def text(field: str, value: object, most: int, *, least: int = 1) -> str:
    """Text of `least` to `most` characters, without NUL and lone surrogates, not blank unless `least` is 0."""
    if not isinstance(value, str):
        raise InvalidArgument(field, "must be text")
    if not least <= len(value) <= most:
        raise InvalidArgument(field, f"must have {least} to {most} characters, has {len(value)}")
    if least and not value.strip():
        raise InvalidArgument(field, "must not be blank")
    return _storable(field, value)


def long_text(field: str, value: object, most: int = TEXT_BYTES) -> str:
    """Text of at most `most` bytes in UTF-8."""
    if not isinstance(value, str):
        raise InvalidArgument(field, "must be text")
    size = len(_storable(field, value).encode())
    if size > most:
        raise InvalidArgument(field, f"must have at most {most} bytes, has {size}")
    return value


def name(field: str, value: object, most: int = NAME) -> str:
    """An id or a name: 1 to `most` printable characters without white space."""
    if not isinstance(value, str):
        raise InvalidArgument(field, "must be text")
    if not 1 <= len(value) <= most or not value.isprintable() or " " in value:
        raise InvalidArgument(field, f"must have 1 to {most} printable characters and no white space")
    return value


def path(field: str, value: object) -> str:
    """The name of a file; no URL, which would be taken for one."""
    named = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(named, str) or not named or "\0" in named or "://" in named:
        raise InvalidArgument(field, "must be the path of a file")
    return named


def namespace(field: str, value: object) -> str:
    """The root `""`, or segments between slashes, together a name of at most 256 characters."""
    if value == "" and isinstance(value, str):
        return value
    found = name(field, value, NAMESPACE)
    if "//" in f"/{found}/":
        raise InvalidArgument(field, "must not begin or end with a slash, nor have two in a row")
    return found


def content_type(field: str, value: object) -> str:
    """What bytes are, as in `text/markdown`, parameters allowed."""
    if not isinstance(value, str):
        raise InvalidArgument(field, "must be text")
    if len(value) > CONTENT_TYPE or not CONTENT_TYPE_FORM.fullmatch(value):
        raise InvalidArgument(field, f"must be such as text/plain, in at most {CONTENT_TYPE} characters")
    return value


def artifact(field: str, value: bytes | bytearray | memoryview) -> bytes:
    """Bytes, at most 1 MiB of them."""
    size = memoryview(value).nbytes
    if size > ARTIFACT_BYTES:
        raise InvalidArgument(field, f"must have at most {ARTIFACT_BYTES} bytes, has {size}")
    return bytes(value)


def names(field: str, values: object, most: int = NAMES) -> tuple[str, ...]:
    """A set of names, sorted."""
    if values == ():
        return ()
    return tuple(sorted({name(field, value) for value in items(field, values, most)}))


def items(field: str, values: object, most: int) -> Sequence[object]:
    """A list of at most `most` values; a lone string is not a list."""
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InvalidArgument(field, "must be a list")
    found = list(values)
    if len(found) > most:
        raise InvalidArgument(field, f"must have at most {most} items, has {len(found)}")
    return found


def integer(field: str, value: object, least: int, most: int) -> int:
    """A whole number from `least` to `most`; a boolean is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgument(field, "must be a whole number")
    if not least <= value <= most:
        raise InvalidArgument(field, f"must be from {least} to {most}")
    return value


def boolean(field: str, value: object) -> bool:
    """True or false, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise InvalidArgument(field, "must be true or false")
    return value


def choice(field: str, value: object, allowed: Sequence[str]) -> str:
    """One of a closed set of words."""
    if value not in allowed or not isinstance(value, str):
        raise InvalidArgument(field, f"must be one of {', '.join(allowed)}")
    return value


def duration_us(field: str, value: object, bounds: tuple[float, float]) -> int:
    """Seconds as microseconds, within bounds given in seconds."""
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidArgument(field, "must be a number of seconds")
    if not low <= value <= high:  # NaN is not, either
        raise InvalidArgument(field, f"must be from {low:g} to {high:g} seconds")
    return round(value * 1_000_000)


def instant_us(field: str, value: object) -> int:
    """An instant as microseconds UTC: RFC 3339 text with an offset, an aware datetime, or epoch seconds."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(field, "must be an RFC 3339 instant such as 2026-01-31T09:00:00Z") from None
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidArgument(field, "must say its offset from UTC (Z or +hh:mm)")
        since = value - datetime(1970, 1, 1, tzinfo=UTC)
        found = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return integer(field, found, 0, INSTANT_US)
    return duration_us(field, value, (0.0, INSTANT_US / 1_000_000))


def pusd(field: str, value: object) -> int:
    """Dollars as whole units of 10^-12 dollars; never through binary fractions."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float, Decimal)):
        raise InvalidArgument(field, "must be an amount of dollars")
    try:
        amount = Decimal(str(value))
    except (InvalidOperation, ValueError):  # an integer of thousands of digits has no text
        raise InvalidArgument(field, "must be an amount of dollars") from None
    if not amount.is_finite() or not 0 <= amount <= INTEGER // PUSD:
        raise InvalidArgument(field, f"must be from 0 to {INTEGER // PUSD} dollars")
    _, digits, exponent = amount.as_tuple()
    too_fine = -12 - int(exponent)
    if too_fine > 0 and any(digits[-too_fine:]):
        raise InvalidArgument(field, "must have at most 12 decimals")
    return int(amount * PUSD)


def json_text(field: str, value: Json, most: int = TEXT_BYTES) -> str:
    """A JSON value as compact text of at most `most` bytes.

    Refused are nesting over 64 levels, NaN and infinities, integers over 64 bits, keys that are not text, lone
    surrogates, NUL, and whatever JSON does not know: readers differ on them.
    """
    _walk(field, value, most)
    encoded = encode(value)
    if r"\u0000" in encoded and ENCODED_NUL.search(encoded):
        raise InvalidArgument(field, "must not hold the character NUL")
    try:
        size = len(encoded.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(field, "must not hold a lone surrogate") from None
    if size > most:
        raise InvalidArgument(field, f"must have at most {most} bytes as JSON, has {size}")
    return encoded


def _walk(field: str, value: Json, most: int) -> None:
    """Refuse what the encoder would let through or go under in; texts are looked at when they are encoded."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > DEPTH and any(isinstance(node, (dict, list, tuple)) for node in level):
            raise InvalidArgument(field, f"must not be nested over {DEPTH} levels")
        below: list[Json] = []
        for node in level:
            if isinstance(node, str):
                continue
            if isinstance(node, int):  # a boolean is one, too
                if not -INTEGER - 1 <= node <= INTEGER:
                    raise InvalidArgument(field, "must not hold whole numbers of more than 64 bits")
            elif node is not None:
                below.extend(_parts(field, node))
        if len(below) > most:  # a value that holds itself many times over, too
            raise InvalidArgument(field, f"must have at most {most} bytes as JSON, has more")
        level = below


def _parts(field: str, node: object) -> Iterable[Json]:
    if isinstance(node, dict):
        for key in node:
            if not isinstance(key, str):
                raise InvalidArgument(field, "must have text as the keys of its objects")
        return node.values()
    if isinstance(node, (list, tuple)):
        return node
    if not isinstance(node, float):
        raise InvalidArgument(field, f"must be JSON, and {type(node).__name__} is not")
    if not math.isfinite(node):
        raise InvalidArgument(field, "must not hold NaN or an infinity")
    return ()


def _storable(field: str, value: str) -> str:
    if "\0" in value:
        raise InvalidArgument(field, "must not hold the character NUL")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidArgument(field, "must not hold a lone surrogate") from None
    return value
