"""Errors as both APIs of OpenAI tell them."""

from __future__ import annotations

from typing import Any, Final

TYPES: Final = {401: "invalid_request_error", 404: "invalid_request_error", 429: "requests"}
CODES: Final = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def error(status: int, message: str) -> tuple[int, dict[str, Any]]:
    """The status and the document of an error; overload (529) is 503 here."""
    told = 503 if status == 529 else status  # noqa: PLR2004 - the status that names it
    kind = TYPES.get(told, "server_error" if told >= 500 else "invalid_request_error")  # noqa: PLR2004 - as HTTP has it
    return told, {"error": {"message": message, "type": kind, "param": None, "code": CODES.get(told)}}
