"""`python -m benchmarks [GROUP ...]`: measure, print one table, end with 1 when a bar is missed."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

from benchmarks.machine import described
from benchmarks.report import Figure, print_figures
from benchmarks.settings import Settings

GROUPS = (
    "pair",
    "blackboard",
    "ledger",
    "swarm",
    "waiting",
    "servers",
    "http",
    "scale",
    "paths",
    "transfer",
    "plugin",
    "peers",
)
LONGEST_SEC = 560


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named groups, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(GROUPS)}; all when none is named")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds: a look, not a verdict")
    parser.add_argument("--markdown", action="store_true", help="print the table as it stands in docs/benchmarks.md")
    parser.add_argument("--folder", type=Path, help="where the boards are put while they are measured")
    options = parser.parse_args(arguments)
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST_SEC)
    with tempfile.TemporaryDirectory(prefix="agentmesh-bench-", dir=options.folder) as folder:
        settings = Settings(Path(folder), options.quick)
        print(described(settings.folder) + "\n", flush=True)
        missed = print_figures(_figures(options.groups or GROUPS, settings), markdown=options.markdown)
    return 1 if missed else 0


def _figures(groups: Sequence[str], settings: Settings) -> Iterator[Figure]:
    for group in groups:
        yield from import_module(f"benchmarks.{group}").figures(settings)


def _too_long(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise TimeoutError(f"the run took more than {LONGEST_SEC} seconds")


if __name__ == "__main__":
    sys.exit(main())
