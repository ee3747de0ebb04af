"""What libraries have to say, in our log: where it was said, never the words.

Their messages and their exceptions quote requests, and a request may hold a token or text of an
agent. The place in their code, and the kinds of the exceptions, say as much to whoever looks for
the cause.
"""

from __future__ import annotations

import logging
import math
import traceback
from typing import Final

from agentmesh.mcp_server.log import log

LIBRARIES: Final = ("mcp", "uvicorn", "sse_starlette", "asyncio", "concurrent")


REST_SEC: Final = 60.0
"""How long a place is quiet after it was told of: requests that are refused must not fill a disk."""


class Places(logging.Handler):
    """Writes one line for a record: logger, level, place, and where an exception came through."""

    def __init__(self, level: int = logging.NOTSET) -> None:
        super().__init__(level)
        self._told: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Write it, unless its place was told of a moment ago."""
        line = f"{record.name} says {record.levelname} at {record.filename}:{record.lineno}{_way(record)}"
        if abs(record.created - self._told.get(line, -math.inf)) >= REST_SEC:
            self._told[line] = record.created
            log(line)


def quiet_logs() -> None:
    """Let warnings and worse of the libraries into our log, and nothing of them anywhere else."""
    places = Places(logging.WARNING)
    for name in LIBRARIES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [places]
        logger.propagate = False


def _way(record: logging.LogRecord) -> str:
    if record.exc_info is None or record.exc_info[1] is None:
        return ""
    error = record.exc_info[1]
    frames = traceback.extract_tb(error.__traceback__)
    return f": {type(error).__name__}" + "".join(f" < {frame.filename}:{frame.lineno}" for frame in reversed(frames))
