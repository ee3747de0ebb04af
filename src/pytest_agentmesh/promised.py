"""What a board promises, each in a sentence; `docs/promises.md` has all of it."""

from __future__ import annotations

from typing import Final

PROMISES: Final = {
    "P1": "a task has at most one open attempt; fences only grow",
    "P2": "only the holder of the open attempt may write; final tasks stay as they are",
    "P3": "no task is lost; none is handed out more often than allowed",
    "P4": "no task is handed out before its dependencies allow it; the graph has no cycle",
    "P5": "no acknowledged write is lost",
    "P6": "a call takes effect entirely or not at all",
    "P7": "entries of the ledger never change; totals are their sums",
    "P8": "nothing is handed out that a budget cannot pay",
    "P9": "an expired entry is never seen",
    "P10": "two open attempts never hold overlapping paths",
    "P11": "one clock decides, and times are in order",
    "P12": "what is not understood is refused",
}
