"""Where agents stand on a board: what they hold, what budgets leave them, what to do next.

It is what an agent reads that has lost its memory, so it is small, and every edge shows the same.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from typing import Final, Literal

from agentmesh.board.facade import Board
from agentmesh.documents import document, rfc3339
from agentmesh.limits import PAGE
from agentmesh.model import OPERATOR, Budget, BudgetLeft, Json, Task

Step = Literal["go_on", "claim", "wait", "stop"]

LIMIT: Final = 2048
"""Bytes of JSON that it takes at most, even where that is written in ASCII."""
TITLE: Final = 80
MOST: Final = 8
"""Open attempts, and budgets, that are shown."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where agents stand. `held` are tasks whose open attempts are theirs; `more` of these are not shown.

    `step` is what to do next: go on with what is held, claim, wait for work, or stop.
    """

    agents: tuple[str, ...]
    held: tuple[Task, ...]
    more: int
    budgets: tuple[BudgetLeft, ...]
    step: Step
    now_us: int


def standing(board: Board, agents: Sequence[str]) -> Standing:
    """Where these agents stand now, who are one to whoever asks.

    Raises:
        InvalidArgument: nobody can be called so.
    """
    held = [t for name in agents for t in board.list_tasks(state="in_progress", holder=name, limit=PAGE).tasks]
    status = board.status()
    names = {"board": {""}, "agent": set(agents), "plan": {t.plan for t in held}, "task": {t.id for t in held}}
    budgets = [_left(budget) for budget in board.budgets.list() if budget.name in names[budget.scope]]
    step: Step = "wait" if status.open else "stop"
    if held:
        step = "go_on"
    elif any(board.has_work(agent_id=name) for name in agents or (OPERATOR,)):
        step = "claim"
    more = max(len(held) - MOST, 0)
    return Standing(tuple(agents), tuple(held[:MOST]), more, tuple(budgets[:MOST]), step, status.now_us)


def standing_document(found: Standing, next_step: str, leases: Collection[str] | None = None) -> dict[str, Json]:
    """The same as a JSON object of at most `LIMIT` bytes.

    Args:
        found: Where the agents stand.
        next_step: What to do next, in the words of the edge.
        leases: The tasks whose leases the reader has; None where nobody keeps them.
    """
    attempts = [_attempt(task, found, leases) for task in found.held]
    budgets = [document(budget) for budget in found.budgets]
    more = found.more
    while True:
        shown: dict[str, Json] = {"agent_id": found.agents[0]} if len(found.agents) == 1 else {}
        shown |= {"attempts": attempts}
        shown |= {"more_attempts": more} if more else {}
        shown |= {"budgets": budgets} if budgets else {}
        shown |= {"next": next_step}
        if not (attempts or budgets) or len(json.dumps(shown)) <= LIMIT:
            return shown
        if len(budgets) > len(attempts):
            budgets.pop()
        else:
            attempts.pop()
            more += 1


def _attempt(task: Task, found: Standing, leases: Collection[str] | None) -> dict[str, Json]:
    title = task.title if len(task.title) <= TITLE else task.title[:TITLE] + "…"
    expires_us = task.lease_expires_us or 0
    shown: dict[str, Json] = {"task_id": task.id, "title": title, "plan": task.plan, "fence": task.fence}
    shown |= {"lease_expires_at": rfc3339(expires_us)}
    shown |= {"lease_due": True} if expires_us <= found.now_us else {}
    shown |= {"agent_id": task.holder} if len(found.agents) > 1 else {}
    return shown | ({} if leases is None else {"lease_known": task.id in leases})


def _left(budget: Budget) -> BudgetLeft:
    return BudgetLeft(**{field.name: getattr(budget, field.name) for field in fields(BudgetLeft)})
