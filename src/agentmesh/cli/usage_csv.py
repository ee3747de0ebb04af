"""A usage report as CSV (RFC 4180), for spreadsheets and programs: every sum, exactly.

Names in it come from agents, and a spreadsheet takes a cell that begins with one of certain characters for a formula.
Such a name gets an apostrophe before it, as OWASP advises; also within, after a character at which a spreadsheet of
another locale begins a new cell. A cost is empty where no entry has a price.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from dataclasses import fields
from decimal import Decimal
from typing import Final

from agentmesh.documents import dollars
from agentmesh.model import UsageLine

FORMULA: Final = re.compile(r"(^|[;,|\t])(?=[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
"""Where a formula may begin; the last four are = + - @ in full width."""
SECOND_US: Final = 10**6


def as_csv(lines: Iterable[UsageLine]) -> str:
    """A line of names, then one for each line of the report; there is no line for the total."""
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    names = [field.name for field in fields(UsageLine)]
    writer.writerow(_heading(name) for name in names)
    writer.writerows([_cell(line, name) for name in names] for line in lines)
    return out.getvalue()


def _heading(name: str) -> str:
    """A field of a line by the name that it has in JSON, too."""
    if name.endswith("_pusd"):
        return name.removesuffix("_pusd") + "_usd"
    return name.removesuffix("_us") + "_sec" if name.endswith("_us") else name


def _cell(line: UsageLine, name: str) -> str:
    value = getattr(line, name)
    if value is None or (name.endswith("_pusd") and 0 < line.entries == line.unpriced):
        return ""
    if name.endswith("_pusd"):
        return dollars(value)
    if name.endswith("_us"):
        return format((Decimal(value) / SECOND_US).normalize(), "f")
    if isinstance(value, bool):
        return "true" if value else ""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else str(value)
