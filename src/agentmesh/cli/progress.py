"""How far something long has come: a bar on a terminal, on stderr, and nothing anywhere else."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Final

from agentmesh.upkeep import StageProgress

STAGES: Final = {
    "copy": "Copying the board",
    "rows": "Rows",
    "derive": "Working out what stands for speed",
    "check": "Checking every promise",
}
COUNTED: Final = frozenset({"copy", "rows"})
"""The others are done when they are done."""


@contextlib.contextmanager
def shown(*, quiet: bool = False) -> Iterator[StageProgress | None]:
    """What to tell the progress of a call; None where nobody sees it."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), transient=True) as bars:
        bar = bars.add_task("", total=None)

        def tell(stage: str, done: int, of: int) -> None:
            bars.update(bar, description=STAGES[stage], completed=done, total=of if stage in COUNTED else None)

        yield tell
