"""How money and tokens look to people: rounded, with their unit, and never a nought for what nobody knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from agentmesh.cli.screen import Line, Part
from agentmesh.documents import document
from agentmesh.limits import PUSD
from agentmesh.model import Budget, BudgetLeft, UsageLine
from agentmesh.rules import WARNING_PERCENT

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

PLACES: Final = 4
UNIT: Final = PUSD // 10**PLACES
"""The least amount that people are shown, a hundredth of a cent."""
KILO: Final = 1000
UNITS: Final = "kMGT"
OVER: Final = "bold red"
NEARLY: Final = "yellow"
WASTED: Final = "red"
UNPRICED: Final = "yellow"


@dataclass(frozen=True, slots=True)
class Money:
    """What was used on a board, and the budgets that limit it."""

    total: UsageLine
    budgets: tuple[Budget, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One limit of a budget, in USD or in tokens; `amount` is a `number` with its unit.

    What stands against the limit is known of a whole budget only.
    """

    number: Callable[[int], str]
    amount: Callable[[int], str]
    left: int
    over: int | None
    limit: int | None = None
    spent: int = 0
    reserved: int = 0

    @property
    def percent(self) -> int | None:
        """How much of the limit is spent."""
        if self.limit is None:
            return None
        return 100 * self.spent // self.limit if self.limit else 100

    @property
    def style(self) -> str:
        """How bad it is."""
        if self.over is not None:
            return OVER
        return NEARLY if self.left == 0 or (self.percent or 0) >= WARNING_PERCENT else ""

    def told(self) -> Part:
        """What is left, or by how much it is over."""
        words = f"{self.amount(self.left)} left" if self.over is None else f"over by {self.amount(self.over)}"
        return words, self.style


def read_money(board: Board) -> Money:
    """Read both, at a price that does not grow with the number of entries."""
    return Money(board.ledger.report("plan", limit=1).total, tuple(board.budgets.list()))


def usd(pusd: int, *, least: int = 2) -> str:
    """An amount, with `least` to four decimals; what is less than they can show is not shown as nothing."""
    units = (pusd + UNIT // 2) // UNIT
    if pusd and not units:
        return f"<{1 / 10**PLACES:.{PLACES}f}"
    whole, part = divmod(units, 10**PLACES)
    digits = f"{part:0{PLACES}d}"
    return f"{whole:,}.{digits[:least]}{digits[least:].rstrip('0')}"


def dollars(pusd: int) -> str:
    """`0.4213 USD`."""
    return f"{usd(pusd)} USD"


def compact(number: int) -> str:
    """A count in three digits: `999`, `1.23k`, `45.6M`."""
    if number < KILO:
        return str(number)
    power = next((n for n in range(1, len(UNITS)) if number < (KILO - 0.5) * KILO**n), len(UNITS))
    value = number / KILO**power
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0  # noqa: PLR2004 - where rounding takes a digit more
    return f"{value:.{digits}f}{UNITS[power - 1]}"


def tokens(number: int) -> str:
    """`1 token`, `12.3k tokens`."""
    return "1 token" if number == 1 else f"{compact(number)} tokens"


def cost(line: UsageLine) -> str:
    """What some usage cost; where only a part of it has a price, at least that."""
    if line.unpriced and line.unpriced == line.entries:
        return "unpriced"
    return f"{'at least ' if line.unpriced else ''}{dollars(line.cost_pusd)}"


def waste(line: UsageLine) -> str:
    """What of some usage was in vain: money, or tokens where it has no price; empty when nothing was."""
    if line.wasted_pusd:
        return dollars(line.wasted_pusd)
    return tokens(line.wasted_tokens) if line.wasted_tokens else ""


def used(line: UsageLine) -> Line:
    """`12.3k tokens, at least 0.42 USD (1 of 9 entries unpriced)`."""
    priced = line.entries - line.unpriced
    some = f" ({line.unpriced:,} of {line.entries:,} entries unpriced)" if priced and line.unpriced else ""
    return [f"{tokens(line.tokens)}, ", (cost(line) + some, UNPRICED if line.unpriced else "")]


def usage_facts(line: UsageLine) -> list[tuple[str, Line]]:
    """What was used, and what of it in vain, for a list of facts."""
    if not line.entries:
        return []
    return [
        ("usage", used(line)),
        ("wasted", [(waste(line), WASTED)]),
    ]


def money_line(money: Money) -> Line:
    """The usage of a board in one line, with the tightest of its budgets; empty when there is neither."""
    total, parts = money.total, list[Part]()
    if total.entries:
        parts += ["used: ", *used(total)]
        parts += [", ", (f"{waste(total)} wasted", WASTED)] if waste(total) else []
    if money.budgets:
        parts += ["; " if parts else "", *budget_left(max(money.budgets, key=_share), "tightest budget: ")]
    return parts


def usage_document(total: UsageLine) -> dict[str, Any]:
    """The same for programs: nothing when nothing was used."""
    return {"usage": document(total)} if total.entries else {}


def budget_name(budget: BudgetLeft) -> str:
    """`plan shop, daily`, `the board`."""
    whose = "the board" if budget.scope == "board" else f"{budget.scope} {budget.name}"
    return whose + (", daily" if budget.period == "day" else "")


def budget_left(budget: BudgetLeft, lead: str = "") -> Line:
    """`plan shop: 0.42 USD left, over by 3.1k tokens`."""
    first, *others = [side.told() for side in sides(budget)]
    return [f"{lead}{budget_name(budget)}: ", first, *(part for other in others for part in (", ", other))]


def sides(budget: BudgetLeft) -> list[Side]:
    """The limits of a budget: it has one or two."""
    found = []
    for kind, number, amount in (("pusd", partial(usd, least=PLACES), dollars), ("tokens", compact, tokens)):
        left, over = getattr(budget, f"left_{kind}"), getattr(budget, f"over_{kind}")
        if left is not None:
            books = ("limit", "spent", "reserved") if isinstance(budget, Budget) else ()
            stand = {name: getattr(budget, f"{name}_{kind}") for name in books}
            found.append(Side(number, amount, left, over, **stand))
    return found


def _share(budget: Budget) -> float:
    """How much of a budget's tighter limit is spent or reserved."""
    return max((side.spent + side.reserved) / side.limit if side.limit else 1.0 for side in sides(budget))
