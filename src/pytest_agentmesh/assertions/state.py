"""The state of every task as a mapping, which a plain `assert` compares with the one that a test expects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentmesh import Board
from agentmesh.model import State as Word
from pytest_agentmesh.assertions.expecting import state_word
from pytest_agentmesh.assertions.witness import Witness
from pytest_agentmesh.assertions.wording import alike


class State(Mapping[str, Word]):
    """Task id -> state word, as it was at one instant, in the order in which the tasks were created.

    It is equal to any mapping that says the same of the same tasks. It keeps its board, so that a failed comparison can
    say why a task stands where it does.
    """

    __slots__ = ("_states", "board", "seq")

    def __init__(self, states: Mapping[str, Word], board: Board, seq: int) -> None:
        """States as they were when the board's last event was `seq`; `state(board)` is the usual way."""
        self._states = dict(states)
        self.board = board
        self.seq = seq

    def __getitem__(self, task_id: str) -> Word:
        if task_id in self._states:
            return self._states[task_id]
        raise KeyError(f"{task_id}: no such task; {alike(str(task_id), self._states)}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __eq__(self, other: object) -> bool:
        return self._states == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # what equals a dict has no hash

    def __repr__(self) -> str:
        return repr(self._states)

    def of(self, *ids: str) -> State:
        """The same, of these tasks only: `assert board.state.of("a", "b") == {...}`.

        Raises:
            KeyError: one is not on the board.
        """
        return State({task_id: self[task_id] for task_id in ids}, self.board, self.seq)

    def where(self, *words: str) -> frozenset[str]:
        """The ids of the tasks in one of these states: `assert board.state.where("failed") == {"a"}`.

        Raises:
            InvalidArgument: there is no such state.
        """
        wanted = {state_word(word, "words") for word in words}
        return frozenset(task_id for task_id, word in self._states.items() if word in wanted)


def state(board: Board) -> State:
    """The states of all tasks of a board now."""
    seq = board.status().last_seq
    return State({task.id: task.state for task in Witness(board).tasks.values()}, board, seq)
