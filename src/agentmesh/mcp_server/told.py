"""How a model is told an error: its code, its sentence, and one step that a model can safely take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from agentmesh.documents import error_document
from agentmesh.errors import AgentMeshError
from agentmesh.model import Json

_RESTART: Final = "Tell your user to restart this server."
HINTS: Final[Mapping[str, str]] = {
    "busy": "Try again in a moment; the call had no effect.",  # not to end the process that is in the way
    "outcome_unknown": "Look whether the call took effect, or repeat it with the same request_id; tell your user.",
    "resources_exhausted": "Tell your user that this server has used up a limit of its process, such as open files.",
    "mismatched_log": "Tell your user that the board file was replaced and its old log was left beside it.",
    "store_error": "Tell your user to run `agentmesh doctor`.",
    "disk_full": "Tell your user that the disk of the board is full; the board is intact.",
    "read_only": "Tell your user that this server may not write the board.",
    "corrupt": "Stop working on this board and tell your user that it is damaged.",
    "newer_schema": "Tell your user that this board needs a newer AgentMesh.",
    "foreign_file": "Tell your user that this file is no board.",
    "unsupported_file_system": "Tell your user that the board cannot be shared on its file system.",
    "aliased_board": "Tell your user that the file of this board has a second name, so the board cannot be shared.",
    "board_not_found": "Tell your user that there is no board at this place.",
    "board_exists": "Tell your user that there is a board at this place already.",
    "board_replaced": _RESTART,
    "board_in_use": "Tell your user that the board is open and cannot be replaced.",
    "on_test_clock": "Tell your user that this board belongs to a test, and this server goes by another clock.",
    "clock_over": "Stop: the test that this board belongs to is over.",
    "board_closed": _RESTART,
    "forked_board": _RESTART,
}
"""For what only a person can mend. An agent that is told to free space, to restore or to upgrade might try."""


def told(error: AgentMeshError) -> dict[str, Json]:
    """The error as a JSON object."""
    found = error_document(error)
    return found | {"hint": HINTS.get(error.code, found["hint"])}
