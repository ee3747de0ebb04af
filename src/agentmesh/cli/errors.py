"""One table from an error's code to an exit code, and how an error is told: sentence, then next step."""

from __future__ import annotations

import traceback
from typing import Any, Final

import click

from agentmesh.documents import error_document
from agentmesh.errors import AgentMeshError
from agentmesh.loading import LIMITS, no_more_files
from agentmesh.printable import one_line

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_WORK: Final = 3
VIOLATED: Final = 4
INTERNAL: Final = 70
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141


class OutputError(Exception):
    """Standard output does not take what must be written to it."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint: Final = hint


EXIT_CODES: Final[dict[str, int]] = {
    "error": FAILED,
    "usage": USAGE,
    "invalid_argument": USAGE,  # to a script both mean: the call itself is wrong
    "not_found": 5,
    "conflict": 6,
    "wrong_state": 7,
    "already_claimed": 8,
    "lease_lost": 9,
    "cancelled": 10,
    "lease_unknown": 11,
    "max_hold_reached": 12,
    "duplicate_id": 13,
    "cycle": 14,
    "paths_held": 15,
    "request_conflict": 16,
    "cursor_expired": 17,
    "version_conflict": 18,
    "wrong_kind": 19,
    "store_error": 20,
    "busy": 21,
    "disk_full": 22,
    "read_only": 23,
    "corrupt": 24,
    "newer_schema": 25,
    "foreign_file": 26,
    "unsupported_file_system": 27,
    "board_not_found": 28,
    "board_exists": 29,
    "board_replaced": 30,
    "board_closed": 31,
    "forked_board": 32,
    "output_error": 33,
    "pruned": 34,
    "sum_too_large": 35,
    "import_refused": 36,
    "missing_extra": 37,
    "overloaded": 38,
    "unsafe_tokens": 39,
    "configuration_refused": 40,
    "on_test_clock": 41,
    "clock_over": 42,
    "outcome_unknown": 43,
    "resources_exhausted": 44,
    "aliased_board": 45,
    "board_in_use": 46,
    "mismatched_log": 47,
    "source_conflict": 50,
    "internal": INTERNAL,
    "interrupted": INTERRUPTED,
}


def exit_code(document: dict[str, Any]) -> int:
    """The exit code of an error."""
    return EXIT_CODES.get(document["code"], FAILED)


def describe(error: BaseException) -> dict[str, Any]:
    """Any error as the document that `--json` shows: code, message, hint."""
    if isinstance(error, AgentMeshError):
        return error_document(error)
    if isinstance(error, click.UsageError):
        return {
            "code": "usage",
            "message": one_line(error.format_message()),
            "hint": f"See `{_command_path(error)} --help`.",
        }
    if isinstance(error, click.ClickException):
        return {"code": "error", "message": one_line(error.format_message())}
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return {"code": "interrupted", "message": "Interrupted."}
    if isinstance(error, OutputError):
        return {"code": "output_error", "message": str(error), "hint": error.hint}
    if isinstance(error, OSError) and error.errno in LIMITS:
        return error_document(no_more_files())
    if isinstance(error, OSError):
        return {
            "code": "output_error",
            "message": f"Reading or writing failed: {reason(error)}.",
            "hint": "The board may have changed already; look at it before you call again.",
        }
    return {
        "code": "internal",
        "message": f"AgentMesh failed in a way it should not: {type(error).__name__}.",
        "hint": "Run `agentmesh doctor --deep`; if it finds nothing, please report this, with the lines above.",
    }


def reason(error: OSError) -> str:
    """What the system says of a failure."""
    return one_line(error.strerror or type(error).__name__)


def trace(error: BaseException) -> str:
    """The traceback of an error nobody expected, fit for a terminal."""
    return "\n".join(one_line(line) for line in "".join(traceback.format_exception(error)).splitlines())


def _command_path(error: click.UsageError) -> str:
    return error.ctx.command_path if error.ctx is not None else "agentmesh"
