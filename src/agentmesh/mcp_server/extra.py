"""The fronts on the MCP SDK, which only the extra `http` brings: users' frameworks pin versions of their own.

What is missing is looked for first, so that it is named plainly; nothing of it is imported before.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from agentmesh.errors import MissingExtra

EXTRA: Final = "http"
NEEDED: Final = {"mcp": 2, "uvicorn": 0, "prometheus-client": 0}
"""Distributions, and the least major version of each."""


def http_front() -> Callable[..., int]:
    """Import `serve_http`.

    Raises:
        MissingExtra: what it needs is not installed.
    """
    require()
    from agentmesh.mcp_server.http.server import serve_http  # noqa: PLC0415 - see the head of this module

    return serve_http


def sdk_stdio_front() -> Callable[..., int]:
    """Import `serve_sdk_stdio`.

    Raises:
        MissingExtra: what it needs is not installed.
    """
    require()
    from agentmesh.mcp_server.sdk_stdio import serve_sdk_stdio  # noqa: PLC0415 - see the head of this module

    return serve_sdk_stdio


def require() -> None:
    """See that what they need is installed, without importing it.

    Raises:
        MissingExtra: it is not.
    """
    for name, least in NEEDED.items():
        try:
            found = int(version(name).partition(".")[0])
        except PackageNotFoundError:
            raise MissingExtra(EXTRA, name) from None
        if found < least:
            raise MissingExtra(EXTRA, f"{name} {least} or newer")
