"""Figures against their bars: one table, printed row by row as the figures come in."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

WIDTH = 100


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure; without a bar it is there to be read beside the others."""

    name: str
    value: float
    unit: str = "x"
    sense: Literal["<=", ">=", ""] = ""
    bar: float = 0.0
    absolute: str = ""

    @property
    def missed(self) -> bool:
        """Whether it is on the wrong side of its bar."""
        return (self.sense == "<=" and self.value > self.bar) or (self.sense == ">=" and self.value < self.bar)

    @property
    def verdict(self) -> str:
        """`ok`, `over`, or nothing when there is no bar."""
        if not self.sense:
            return ""
        return "over" if self.missed else "ok"

    @property
    def limit(self) -> str:
        """The bar in words."""
        return f"{self.sense} {shown(self.bar, self.unit)}" if self.sense else ""


def shown(value: float, unit: str) -> str:
    """A number with its unit, three digits of it."""
    digits = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 - three digits
    return f"{digits}{unit}" if unit in ("x", "%") else f"{digits} {unit}"


def print_figures(figures: Iterable[Figure], *, markdown: bool) -> int:
    """Print figures as they come in; how many missed their bars."""
    missed = 0
    print(_head(markdown=markdown), flush=True)
    for figure in figures:
        missed += figure.missed
        print(_row(figure, markdown=markdown), flush=True)
    print(f"\n{missed} over their bars." if missed else "\nAll within their bars.", flush=True)
    return missed


def progress(text: str) -> None:
    """Say on a terminal what is going on; the line is overwritten by the next."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text[:WIDTH]}\r")
        sys.stderr.flush()


def _head(*, markdown: bool) -> str:
    if markdown:
        return "| figure | measured | bar | | absolute |\n|---|---|---|---|---|"
    return f"{'figure':<{WIDTH}}  {'measured':>10}  {'bar':>10}"


def _row(figure: Figure, *, markdown: bool) -> str:
    value = shown(figure.value, figure.unit)
    if markdown:
        return f"| {figure.name} | {value} | {figure.limit} | {figure.verdict} | {figure.absolute} |"
    line = f"{figure.name:<{WIDTH}}  {value:>10}  {figure.limit:>10}  {figure.verdict}".rstrip()
    return f"{line}\n    {figure.absolute}" if figure.absolute else line
