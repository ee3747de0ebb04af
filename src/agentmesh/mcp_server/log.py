"""The server's log: one line of ours at a time, on stderr, which MCP clients keep for people."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

STDERR = 2


def log(line: str) -> None:
    """Write one line. A stderr that is closed or full of trouble is nobody's trouble."""
    with suppress(OSError):
        os.write(STDERR, f"agentmesh: {line}\n".encode(errors="backslashreplace"))


def log_exception(doing: str) -> None:
    """Write what was being done and the traceback of the exception that is being handled."""
    import traceback  # noqa: PLC0415 - costs 10 ms, and is needed only when something is broken

    log(f"{doing} failed\n{traceback.format_exc().rstrip()}")


def flush() -> None:
    """Write out what libraries left in Python's own buffers."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
