"""The rows of a board, read through its public face: what a replay is compared with at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmesh.limits import PAGE
from agentmesh.model import Attempt, Budget, EntryFacts, Task, UsageReport
from pytest_agentmesh import pages

if TYPE_CHECKING:
    from agentmesh.board.facade import Board


@dataclass(frozen=True, slots=True)
class Rows:
    """What stands on a board after event `last_seq`, at `now_us`; at `read_us` all of it had been read."""

    last_seq: int
    now_us: int
    tasks: Mapping[str, Task]
    attempts: Mapping[tuple[str, int], Attempt]
    workspaces: Mapping[str, str]
    pauses: frozenset[tuple[str, str]]
    caps: Mapping[str, int]
    entries: Mapping[tuple[str, str], EntryFacts]
    budgets: tuple[Budget, ...]
    usage: UsageReport
    read_us: int


def look(board: Board) -> Rows:
    """Read all of a board; it should stand still meanwhile."""
    status = board.status()
    found = {task.id: board.get_task(task.id) for task in pages.tasks(board)}
    held = [attempt for name, task in found.items() if task.fence for attempt in board.attempts(name)]
    return Rows(
        last_seq=status.last_seq,
        now_us=status.now_us,
        tasks=found,
        attempts={(attempt.task_id, attempt.fence): attempt for attempt in held},
        workspaces={plan.plan: plan.workspace for plan in status.plans},
        pauses=frozenset(
            [(pause.scope, pause.name) for pause in status.pauses if pause.scope != "task"]
            + [("task", name) for name, task in found.items() if task.paused]
        ),
        caps={cap.agent_id or "": cap.most for cap in board.claim_caps()},
        entries={(entry.namespace, entry.key): entry for entry in pages.entries(board)},
        budgets=tuple(board.budgets.list()),
        usage=board.ledger.report("agent", limit=PAGE),
        read_us=board.status().now_us,
    )
