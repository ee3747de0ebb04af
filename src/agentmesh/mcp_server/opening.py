"""How every front opens the board that it serves."""

from __future__ import annotations

import os

from agentmesh.board.facade import Board
from agentmesh.cell import CellClock
from agentmesh.errors import OnTestClock
from agentmesh.store.base import Durability


def open_served(
    board_path: str | os.PathLike[str], *, durability: Durability, test_clock: bool, create: bool = True
) -> Board:
    """Open a board to serve it; with `test_clock` it goes by the cell beside it.

    One that this user may only read is served, too: each write is refused as `read_only`.

    Raises:
        AgentMeshError: it cannot be opened, or it is a test board and nobody said so.
    """
    clock = CellClock.beside(board_path) if test_clock else None
    board = Board.open(board_path, create=create, durability=durability, clock=clock)
    if not board.store.writes and isinstance(board.store.refusal(), OnTestClock):
        board.close()
        raise OnTestClock("This is a test's board, on a clock of its own.")
    return board
