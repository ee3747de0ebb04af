"""What libraries have to say, in our log: where it was said, never the words.

Their messages and their exceptions quote requests, and a request may hold a token or text of an
agent. The place in their code, and the kinds of the exceptions, say as much to whoever looks for
the cause.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

from agentmesh.mcp_server.log import log

LIBRARIES: Final = ("mcp", "uvicorn", "sse_starlette", "asyncio", "concurrent")


class Places(logging.Handler):
    """Writes one line for each record: logger, level, place, and where an exception came through."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write it."""
        log(f"{record.name} says {record.levelname} at {record.filename}:{record.lineno}{_way(record)}")


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
