"""A stand-in for a language model: it says nothing, but tells what it used, as its vendor would.

The counts are made up, from the id of the task alone, so that every run of the demo costs the same.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

MODEL: Final = "claude-sonnet-4-5"
"""Whose prices the demo pays."""

MADE_UP: Final = f"No model is called: token counts are made up, prices are {MODEL}'s."

SHARES: Final = (0.25, 0.75)
"""An agent calls its model twice for each task: so much of the work is done with each call."""


def usage_of(task_id: str, call: int) -> dict[str, int]:
    """The usage block of a call: the first reads up and fills the cache, the second reads from it and writes."""
    seed = crc32(task_id.encode())
    context = 5_000 + seed % 7_000
    if call == 0:
        return {
            "input_tokens": 400 + seed % 700,
            "cache_creation_input_tokens": context,
            "cache_read_input_tokens": 0,
            "output_tokens": 200 + seed % 500,
        }
    return {
        "input_tokens": 300 + seed % 400,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": context,
        "output_tokens": 1_800 + seed % 2_300,
    }
