"""How long, as people write it."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

Duration = float | timedelta | str
"""Seconds, a timedelta, or words such as `90s`, `5min`, `1h 30min`, `250ms`, `-1h`."""

UNITS: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_PART: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)\s*")


def micros(duration: Duration) -> int:
    """A duration in microseconds.

    Raises:
        ValueError: it is not a duration.
    """
    if isinstance(duration, timedelta):
        return duration // timedelta(microseconds=1)
    if isinstance(duration, str):
        return _read(duration)
    if isinstance(duration, bool) or not isinstance(duration, int | float) or not math.isfinite(duration):
        raise ValueError(
            f"not a duration: {duration!r}; give seconds, a timedelta, or words such as '5min' or '1h 30min'"
        )
    return round(duration * 1_000_000)


def words(us: int) -> str:
    """A duration as people read it: `1h 30min`, `29.9s`, `-5min`."""
    if us < 0:
        return "-" + words(-us)
    parts = []
    for unit in ("d", "h", "min"):
        count, us = divmod(us, UNITS[unit])
        parts += [f"{count}{unit}"] if count else []
    if us or not parts:
        parts.append(f"{us / 1_000_000:.6f}".rstrip("0").rstrip(".") + "s")
    return " ".join(parts)


def _read(text: str) -> int:
    sign, rest, total = (-1, text[1:], Fraction()) if text.startswith("-") else (1, text, Fraction())
    while rest:
        part = _PART.match(rest)
        if part is None:
            break
        total += Fraction(part[1]) * UNITS[part[2]]
        rest = rest[part.end() :]
    if rest or not text.strip("- "):
        raise ValueError(f"not a duration: {text!r}; write for example '90s', '5min', '1h 30min' or '2d'")
    return sign * round(total)
