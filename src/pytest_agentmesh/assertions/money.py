"""Assertions on what was spent: exact sums, limits, budgets, waste."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from agentmesh import Board
from agentmesh.errors import InvalidArgument
from agentmesh.limits import INTEGER, integer, pusd
from agentmesh.model import Budget, Period, UsageGroup
from pytest_agentmesh.assertions.spending import (
    TOKENS,
    USD,
    Books,
    Measure,
    Share,
    Suspicion,
    crossing,
    shares,
    suspicions,
    wasted,
)
from pytest_agentmesh.assertions.witness import Witness
from pytest_agentmesh.assertions.wording import count, first_of, folded, likely, message, names, table, usd as dollars

Usd = str | float | Decimal
"""An amount of dollars; a float stands for the decimal that it prints as."""
Wanted = list[tuple[Measure, int]]


def assert_spent(
    board: Board,
    *,
    usd: Usd | None = None,
    tokens: int | None = None,
    by_agent: Mapping[str, Usd] | None = None,
    by_task: Mapping[str | None, Usd] | None = None,
    by_model: Mapping[str | None, Usd] | None = None,
    unpriced: int = 0,
    plan: str | None = None,
    agent: str | None = None,
    task_id: str | None = None,
) -> None:
    """Exactly this was spent.

    Args:
        board: the board.
        usd: dollars in all, exact to 10^-12.
        tokens: tokens of all kinds in all.
        by_agent: dollars by agent; one that is not named spent none.
        by_task: dollars by task, the same way; None names usage for no task, or for one that was pruned.
        by_model: dollars by model, the same way; None names usage that names no model.
        unpriced: how many entries nobody knows the price of, where dollars are expected.
        plan: only usage in this plan.
        agent: only usage of this agent.
        task_id: only usage for this task.

    Raises:
        InvalidArgument: nothing is expected, or an amount is none.
    """
    __tracebackhide__ = True
    groups: dict[UsageGroup, Mapping[str | None, int]] = {}
    for by, given in (("agent", by_agent), ("task", by_task), ("model", by_model)):
        if given is not None:
            groups[by] = {name: pusd(f"by_{by}", amount) for name, amount in given.items()}  # type: ignore[index]  # they are groups
    wanted = _wanted(usd, tokens, given=bool(groups))
    integer("unpriced", unpriced, 0, INTEGER)
    books = Books(Witness(board), plan, agent, task_id)
    heads = [_off(books, measure, amount) for measure, amount in wanted if measure.spent(books.total) != amount]
    found = {by: shares(books, by, expected) for by, expected in groups.items()}
    heads += [_apart(by, rows) for by, rows in found.items() if any(row.over for row in rows)]
    if (groups or usd is not None) and books.total.unpriced != unpriced:
        heads.append(f"{count(books.total.unpriced, 'entry')} without a known price, expected {unpriced}")
    if heads:
        raise AssertionError(_spending(books, heads, found, wanted))


def assert_within(
    board: Board,
    *,
    usd: Usd | None = None,
    tokens: int | None = None,
    unpriced: int = 0,
    plan: str | None = None,
    agent: str | None = None,
    task_id: str | None = None,
) -> None:
    """No more than this was spent.

    Args:
        board: the board.
        usd: dollars at most.
        tokens: tokens of all kinds at most.
        unpriced: how many entries, at most, nobody knows the price of, where dollars are limited.
        plan: only usage in this plan.
        agent: only usage of this agent.
        task_id: only usage for this task.

    Raises:
        InvalidArgument: no limit is given, or an amount is none.
    """
    __tracebackhide__ = True
    wanted = _wanted(usd, tokens)
    integer("unpriced", unpriced, 0, INTEGER)
    books = Books(Witness(board), plan, agent, task_id)
    passed = [(measure, limit) for measure, limit in wanted if measure.spent(books.total) > limit]
    heads = [
        f"{measure.told(measure.spent(books.total))} spent{books.whose}, at most {measure.told(limit)} expected "
        f"({measure.signed(measure.spent(books.total) - limit)})"
        for measure, limit in passed
    ]
    if usd is not None and books.total.unpriced > unpriced:
        told = f"{count(books.total.unpriced, 'entry')} without a known price"
        heads.append(f"{told}, at most {unpriced} expected, so nobody knows what was spent")
    if heads:
        guesses = [guess for measure, limit in passed for guess in crossing(books, measure, limit)]
        guesses += suspicions(books, USD, -1) if books.total.unpriced > unpriced else []
        raise AssertionError(_suspected(books, heads, _spenders(books), guesses))


def assert_budget_left(
    board: Board,
    *,
    usd: Usd | None = None,
    tokens: int | None = None,
    plan: str | None = None,
    agent: str | None = None,
    task_id: str | None = None,
    period: Period = "lifetime",
) -> None:
    """Exactly this is left of a budget, reservations taken off: of a plan, an agent or a task, or of the board.

    Raises:
        InvalidArgument: nothing is expected, or more than one of plan, agent and task is named.
    """
    __tracebackhide__ = True
    wanted = _wanted(usd, tokens)
    whose = " ".join(f"{kind} {name}" for kind, name in (("plan", plan), ("agent", agent), ("task", task_id)) if name)
    budget = board.budgets.get(plan=plan, task_id=task_id, agent=agent, period=period)
    witness = Witness(board)
    if budget is None:
        there = [_budget_name(found) for found in board.budgets.list()]
        head = f"there is no {period} budget of {whose or 'the board'}; there is {names(there, 'none')}"
        raise AssertionError(message(head))
    left = {USD: budget.left_pusd, TOKENS: budget.left_tokens}
    heads = [
        f"{'no limit' if left[measure] is None else measure.told(left[measure] or 0)} left of the budget of "
        f"{_budget_name(budget)}, expected {measure.told(amount)}"
        for measure, amount in wanted
        if left[measure] != amount
    ]
    if heads:
        raise AssertionError(message("; ".join(heads), _budget_books(witness, budget)))


def assert_wasted(
    board: Board,
    *,
    usd: Usd | None = None,
    tokens: int | None = None,
    plan: str | None = None,
    agent: str | None = None,
    task_id: str | None = None,
) -> None:
    """Exactly this was used by attempts that failed, were reclaimed or cancelled.

    Raises:
        InvalidArgument: nothing is expected, or an amount is none.
    """
    __tracebackhide__ = True
    wanted = _wanted(usd, tokens)
    books = Books(Witness(board), plan, agent, task_id)
    there = {USD: books.total.wasted_pusd, TOKENS: books.total.wasted_tokens}
    heads = [
        f"{measure.told(there[measure])} wasted{books.whose}, expected {measure.told(amount)} "
        f"({measure.signed(there[measure] - amount)})"
        for measure, amount in wanted
        if there[measure] != amount
    ]
    if heads:
        lost = wasted(books)
        rows = [
            (
                line.task_id or "",
                str(turn.number),
                turn.attempt.agent_id,
                turn.outcome,
                dollars(line.wasted_pusd),
                f"{line.wasted_tokens:,}",
            )
            for line, turn in lost
        ]
        listed = table(("task", "attempt", "agent", "outcome", "USD", "tokens"), rows, " r  rr")
        events = books.witness.told(turn.ended for _, turn in lost)
        raise AssertionError(
            message("; ".join(heads), first_of(listed, "attempts") if rows else ["no attempt ended in vain"], events)
        )


def _wanted(usd: Usd | None, tokens: int | None, *, given: bool = False) -> Wanted:
    """What is expected, in whole units."""
    __tracebackhide__ = True
    if usd is None and tokens is None and not given:
        raise InvalidArgument("usd", "say what is expected, in usd, in tokens, or both")
    wanted = [] if usd is None else [(USD, pusd("usd", usd))]
    return wanted + ([] if tokens is None else [(TOKENS, integer("tokens", tokens, 0, INTEGER))])


def _off(books: Books, measure: Measure, amount: int) -> str:
    spent = measure.spent(books.total)
    return (
        f"{measure.told(spent)} spent{books.whose}, expected {measure.told(amount)} ({measure.signed(spent - amount)})"
    )


def _apart(by: UsageGroup, rows: Sequence[Share]) -> str:
    wrong = [row for row in rows if row.over]
    return f"spending by {by} differs: {names(f'{row.label} {dollars(row.over, signed=True)}' for row in wrong)}"


def _spending(books: Books, heads: Sequence[str], found: Mapping[UsageGroup, Sequence[Share]], wanted: Wanted) -> str:
    """What was spent beside what was expected, and what may explain it."""
    tables = [_beside(by, rows) for by, rows in found.items()] or [_spenders(books)]
    guesses: list[Suspicion] = []
    for measure, amount in wanted:
        guesses += suspicions(books, measure, measure.spent(books.total) - amount)
    for rows in found.values() if not guesses else ():
        guesses += suspicions(books, USD, sum(row.over for row in rows), rows)
    if not guesses and books.total.unpriced:
        guesses += suspicions(books, USD, -1)
    return _suspected(books, heads, [line for lines in tables for line in lines], guesses)


def _suspected(books: Books, heads: Iterable[str], lines: Sequence[str], guesses: Iterable[Suspicion]) -> str:
    unique = list({guess.kind: guess for guess in reversed(list(guesses))}.values())[::-1][:3]
    entries = [entry for guess in unique for entry in guess.entries]
    quotes = books.witness.told(books.quotes(entries))
    causes = [folded(guess.text, "likely: " if guess.sure else "perhaps: ") for guess in unique]
    return message("; ".join(heads), lines, *causes, quotes)


def _beside(by: UsageGroup, rows: Sequence[Share]) -> list[str]:
    cells = [
        (
            row.label,
            dollars(row.expected),
            dollars(row.actual),
            f"<- {dollars(row.over, signed=True)}" if row.over else "",
        )
        for row in rows
    ]
    return first_of(table((by, "expected", "actual", ""), cells, " rr"), f"{by}s")


def _spenders(books: Books) -> list[str]:
    lines = books.lines("agent")
    rows = [
        (line.agent_id or "", dollars(line.cost_pusd), f"{line.tokens:,}", str(line.entries), str(line.unpriced or ""))
        for line in lines
    ]
    head = ("agent", "USD", "tokens", "entries", "unpriced" if any(line.unpriced for line in lines) else "")
    return first_of(table(head, rows, " rrrr"), "agents") if rows else []


def _budget_name(budget: Budget) -> str:
    whose = "the board" if budget.scope == "board" else f"{budget.scope} {budget.name}"
    return whose + (" for the day" if budget.period == "day" else "")


def _budget_books(witness: Witness, budget: Budget) -> list[str]:
    """A budget's books, and the attempts whose estimates are reserved now."""
    kinds = (
        ("USD", dollars, budget.limit_pusd, budget.spent_pusd, budget.reserved_pusd, budget.left_pusd),
        ("tokens", "{:,}".format, budget.limit_tokens, budget.spent_tokens, budget.reserved_tokens, budget.left_tokens),
    )
    rows = [
        (name, *("no limit" if amount is None else shown(amount) for amount in amounts))
        for name, shown, *amounts in kinds
    ]
    reserving = [
        task.id
        for task in witness.tasks.values()
        if task.state == "in_progress" and (task.estimate_pusd or task.estimate_tokens)
    ]
    held = f"what {names(reserving)} may still use of its estimate is reserved until its attempt ends"
    told = [event for event in witness.history if event.kind.startswith("budget_")][-5:]
    return [
        *table(("", "limit", "spent", "reserved", "left"), rows, " rrrr"),
        *likely(held if reserving and (budget.reserved_pusd or budget.reserved_tokens) else None),
        *witness.told(told),
    ]
