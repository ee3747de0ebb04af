"""What answers cost, written into the board's ledger."""

from __future__ import annotations

from agentmesh import Board
from agentmesh.clock import system_chance, word
from pytest_agentmesh.endpoint.form import Spoken


class Booking:
    """The way to the ledger of a board. An answer is written down before it is sent: who has it finds it there."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._mark = word(system_chance(), 10)  # another endpoint on this board counts its answers from 1, too

    def record(self, agent: str, spoken: Spoken) -> None:
        """Charge an answer to the agent, and to its attempt if it holds exactly one.

        Raises:
            AgentMeshError: the ledger refuses it.
        """
        usage = spoken.usage
        if not usage.total_tokens:
            return
        held = self._board.list_tasks(holder=agent, limit=2).tasks
        self._board.ledger.record(
            agent,
            task_id=held[0].id if len(held) == 1 else None,
            model=spoken.model,
            input_tokens=usage.input_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            output_tokens=usage.output_tokens,
            request_id=f"mesh_model.{self._mark}.{spoken.id}",
        )
