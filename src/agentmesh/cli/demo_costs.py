"""What the demo shows of money: what each agent used, what of it was wasted, and how the plan's budget held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentmesh.cli.demo_model import MADE_UP
from agentmesh.cli.screen import Column, Screen
from agentmesh.cli.text import duration
from agentmesh.limits import PUSD
from agentmesh.model import Attempt, Budget, UsageLine, UsageReport
from agentmesh.rules import WARNING_PERCENT

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

_MOST_LINES = 500
_NOTHING = UsageLine()


@dataclass(frozen=True, slots=True)
class Costs:
    """The ledger at the end of the demo; attempts by task and fence. `warned_us` is when the budget's warning came."""

    by_agent: UsageReport
    by_attempt: Mapping[tuple[str | None, int | None], UsageLine]
    budget: Budget | None
    warned_us: int | None

    def of_task(self, task_id: str) -> int:
        """What all attempts at a task cost together."""
        return sum(line.cost_pusd for line in self.by_attempt.values() if line.task_id == task_id)

    def of_attempt(self, task_id: str, fence: int) -> UsageLine:
        """What an attempt used."""
        return self.by_attempt.get((task_id, fence), _NOTHING)

    def warned(self) -> bool:
        """Whether the warning of the budget was seen, if there is a budget."""
        return self.budget is None or self.warned_us is not None


def read_costs(board: Board, plan: str, warned_us: int | None) -> Costs:
    """What the ledger says of a plan."""
    attempts = board.ledger.report("attempt", plan=plan, limit=_MOST_LINES)
    return Costs(
        by_agent=board.ledger.report("agent", plan=plan),
        by_attempt={(line.task_id, line.fence): line for line in attempts.lines},
        budget=board.budgets.get(plan=plan),
        warned_us=warned_us,
    )


def cents(pusd: int) -> str:
    """An amount of 10^-12 USD in dollars and cents."""
    return f"{pusd / PUSD:.2f}"


def stand_of(budget: Budget) -> str:
    """How much of a budget in USD is spent, reserved and left."""
    limit, left = cents(budget.limit_pusd or 0), cents(budget.left_pusd or 0)
    return f"{cents(budget.spent_pusd)} of {limit} USD spent, {cents(budget.reserved_pusd)} reserved, {left} left"


def tell_costs(screen: Screen, costs: Costs, attempts: Mapping[str, list[Attempt]]) -> None:
    """What it cost, by agent; what was wasted, by attempt; the budget."""
    if not costs.by_agent.lines:
        return
    screen.line(("What it cost", "bold"))
    _table(screen, costs.by_agent)
    _tell_waste(screen, costs, attempts)
    if costs.budget is not None:
        warning = "no warning came"
        if costs.warned_us is not None:
            warning = f"the warning at {WARNING_PERCENT} % came after {duration(costs.warned_us)}"
        screen.line(("Budget of the plan", "bold"), f": {stand_of(costs.budget)}; {warning}.")
    screen.line((MADE_UP, "dim"))
    screen.line()


def _table(screen: Screen, report: UsageReport) -> None:
    columns = [Column("AGENT"), *(Column(name, right=True) for name in ("CALLS", "TOKENS", "USD", "WASTED"))]
    total = [(cell, "bold") for cell in _cells("all", report.total)]
    screen.table(columns, [*(_cells(line.agent_id or "", line) for line in report.lines), total])


def _cells(name: str, line: UsageLine) -> list[str]:
    wasted = cents(line.wasted_pusd) if line.wasted_pusd else ""
    return [name, str(line.entries), f"{line.tokens:,}", cents(line.cost_pusd), wasted]


def _tell_waste(screen: Screen, costs: Costs, attempts: Mapping[str, list[Attempt]]) -> None:
    """Which attempts used something and ended in vain."""
    for attempt in (attempt for found in attempts.values() for attempt in found):
        wasted = costs.of_attempt(attempt.task_id, attempt.fence).wasted_pusd
        if wasted:
            words = f"{cents(wasted)} USD by {attempt.agent_id} on {attempt.task_id} (attempt {attempt.fence}"
            screen.line(("Wasted", "bold yellow"), f": {words}, {attempt.outcome}).")
