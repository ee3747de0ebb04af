"""A worker without any framework: it takes tasks from a board until nothing is left, and a model does each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from agentmesh import Board, Claim
from agentmesh.errors import LeaseLost

Do = Callable[[Claim], dict]
"""Does a task and returns its result; it raises `ModelError` when it cannot."""


class ModelError(Exception):
    """The model gave nothing that can be used."""


def work_off(board: Board, agent: str, do: Do, *, wait_sec: float = 30) -> int:
    """Work until every task on the board is over; how many this agent completed."""
    completed = 0
    while True:
        claim = board.claim_task(agent, wait_sec=wait_sec)
        if claim:
            completed += work(claim, do)
        elif claim.advice != "wait":  # all is done, or what is left is not for this agent
            return completed


def work(claim: Claim, do: Do) -> bool:
    """Do one task; whether its result was taken."""
    try:
        try:
            result = do(claim)
        except ModelError as error:
            claim.fail(str(error))
            return False
        claim.complete(result)
    except LeaseLost:  # it took too long, and another agent has the task now
        return False
    return True


def summarise(claim: Claim) -> dict:
    """Stands for a model: it makes a text of the task and of what the tasks before it left behind."""
    before = [found.result["text"] for found in claim.dependencies]
    return {"text": " + ".join([*before, claim.task.title])}


if __name__ == "__main__":
    with Board.open(sys.argv[1]) as board:
        print(work_off(board, sys.argv[2], summarise, wait_sec=1))
