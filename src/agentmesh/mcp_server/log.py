"""The server's log: one line of ours at a time, on stderr, which MCP clients keep for people."""

from __future__ import annotations

import os
import select
import sys
from contextlib import suppress

STDERR = 2


def log(line: str) -> None:
    """Write one line. A stderr that is closed, or that nobody reads, is nobody's trouble: then the line is lost."""
    left = f"agentmesh: {line}\n".encode(errors="backslashreplace")
    with suppress(OSError):
        while left and _takes_more():
            left = left[os.write(STDERR, left[: select.PIPE_BUF]) :]


def _takes_more() -> bool:
    """Whether stderr takes a piece without keeping us: a pipe that nobody empties fills up, and writing then waits."""
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    return any(event & select.POLLOUT for _, event in poll.poll(0))


def log_exception(doing: str) -> None:
    """Write what was being done and the traceback of the exception that is being handled."""
    import traceback  # noqa: PLC0415 - costs 10 ms, and is needed only when something is broken

    log(f"{doing} failed\n{traceback.format_exc().rstrip()}")


def flush() -> None:
    """Write out what libraries left in Python's own buffers."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
