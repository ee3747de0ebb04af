"""What a run was measured on, in a line: without it no absolute number means anything."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import apsw

from benchmarks.rounds import duration

PAGE = b"x" * 4096
PAGES = 256
SYNCS = 100


def described(folder: Path) -> str:
    """The day, the software, the cores and who else is at them, and how long the disk takes to keep a page."""
    cores = f"{os.cpu_count()} cores with a load of {os.getloadavg()[0]:.1f} before the run"
    return (
        f"{datetime.now(UTC):%Y-%m-%d}: {platform.system()}, {cores}, Python {platform.python_version()}, "
        f"SQLite {apsw.sqlite_lib_version()}; a page written over and synced takes {duration(_sync_sec(folder))}"
    )


def _sync_sec(folder: Path) -> float:
    path = folder / "sync"
    taken = []
    with path.open("wb", buffering=0) as file:
        file.write(PAGE * PAGES)
        os.fsync(file)
        for number in range(SYNCS):
            file.seek(number % PAGES * len(PAGE))
            start = time.perf_counter()
            file.write(PAGE)
            getattr(os, "fdatasync", os.fsync)(file.fileno())
            taken.append(time.perf_counter() - start)
    path.unlink()
    return median(taken)
