"""Text for a terminal: foreign characters made harmless, times and durations made readable."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from agentmesh.printable import one_line

_PASSWORD: Final = re.compile(r"(?<=://)([^@/:\s]*):[^@/\s]*(?=@)")


def place(target: str) -> str:
    """A board's path or URL as it may be shown: printable, and without a password."""
    readable = target.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return one_line(_PASSWORD.sub(r"\1:***", readable))


def instant(us: int) -> str:
    """An instant for people: UTC, to the second."""
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def hour(us: int) -> str:
    """The time of day of an instant: UTC, to the second."""
    return datetime.fromtimestamp(us / 1_000_000, UTC).strftime("%H:%M:%S")


def duration(us: int) -> str:
    """A length of time for people, in its two largest units."""
    seconds = max(us, 0) / 1_000_000
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:  # noqa: PLR2004 - below ten seconds a tenth still matters
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")]
    first = next((i for i, (n, _) in enumerate(parts) if n), len(parts) - 1)
    return " ".join(f"{n} {unit}" for n, unit in parts[first : first + 2] if n)


def size(number: int) -> str:
    """A number of bytes for people, in the largest unit of which there is one."""
    amount, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:  # noqa: PLR2004 - the step from one unit to the next
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}" if unit != "bytes" else count(number, "byte")


def count(number: int, noun: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
