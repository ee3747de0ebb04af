"""Which clock a board goes by: the system's, one that was handed in, or the cell of a test board.

A board that was made on a clock cell says so in its facts. Its leases mean nothing to another clock, so without the
cell it is read only; and no cell is set before a board that lives in the world's time.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, NamedTuple

from agentmesh.cell import VARIABLE, CellClock, cell_path
from agentmesh.clock import Clock, MonotonicClock, SystemClock
from agentmesh.errors import InvalidArgument, OnTestClock

FACT: Final = "test_clock"
BESIDE: Final = "beside"
"""The value of the fact: the cell has the board's name and one word more, so a copy of the board never shares it."""


class Timing(NamedTuple):
    """A board's clock; whether a test turns it, whether the board may be written by it, whether to close it."""

    clock: Clock
    turned: bool = False
    writes: bool = True
    own: bool = False

    @property
    def monotonic(self) -> Clock:
        """What measures lengths of time: real time, also where a clock was handed in; the cell on a test board."""
        return self.clock if isinstance(self.clock, CellClock) else MonotonicClock()


def refuse_strange(path: Path, given: Clock | None) -> None:
    """A cell serves the board beside it.

    Raises:
        InvalidArgument: this one lies elsewhere.
    """
    if isinstance(given, CellClock) and cell_path(given.path.with_suffix("")) != cell_path(path):
        raise InvalidArgument("clock", f"the clock cell of this board must be {cell_path(path)}")


def timing(path: Path, given: Clock | None, *, turned: bool) -> Timing:
    """The clock by which a board at `path` is opened; `turned` if it was made on a cell.

    Raises:
        OnTestClock: a cell was given, and the board goes by the world's time.
    """
    if not turned:
        if isinstance(given, CellClock):
            raise OnTestClock(f"The board {path} was not made on a test clock.", hint="Open it without one.")
        return Timing(given or SystemClock())
    if isinstance(given, CellClock):
        return Timing(given, turned=True)
    if given is None and cell_path(path).exists():
        return Timing(CellClock(cell_path(path)), turned=True, writes=VARIABLE in os.environ, own=True)
    return Timing(given or SystemClock(), writes=False)
