"""Budgets: what a board, a plan, a task or an agent may use, in its lifetime or each day (UTC).

A hand-out reserves the task's estimates under every budget that it falls under; usage that comes in turns reservation
into spend; what is left of the reservation ends with the attempt. Nothing is handed out where a budget has nothing
left, or less than the estimate. Spend that arrives is always booked: a budget can be passed, and then says by how much.

The books stand in the budget's row. Those of a day are worked out anew from the ledger when another day has begun.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, get_args

from agentmesh import limits
from agentmesh.board.change import Change
from agentmesh.board.lookup import task_row
from agentmesh.errors import NotFound, StoreError, SumTooLarge
from agentmesh.model import Budget, BudgetLeft, BudgetScope, NoClaim
from agentmesh.rules import DAY_US, WARNING_PERCENT
from agentmesh.store.base import Row, Transaction

NEVER_US = 2**62
LAST_DAY = 10**7
KINDS = ("pusd", "tokens")
_SCOPES: Final[dict[str, BudgetScope]] = {scope: scope for scope in get_args(BudgetScope)}
"""As in `records`: another word is damage."""
BOOKS = (
    "pk",
    "day",
    "spent_pusd",
    "spent_tokens",
    "unpriced",
    "reserved_pusd",
    "reserved_tokens",
    "warned",
    "barred_until_us",
)


class Room(NamedTuple):
    """What a task may be estimated at to be handed out; -1 where nothing may be."""

    pusd: int = limits.INTEGER
    tokens: int = limits.INTEGER

    def within(self, other: Room) -> Room:
        """The smaller of both."""
        return Room(min(self.pusd, other.pusd), min(self.tokens, other.tokens))

    def fits(self, task: Row) -> bool:
        """Whether a task's estimates fit in."""
        return (task["estimate_pusd"] or 0) <= self.pusd and (task["estimate_tokens"] or 0) <= self.tokens


UNLIMITED = Room()
NO_TASK: Row = {"plan": "", "id": "", "estimate_pusd": None, "estimate_tokens": None}


def over(tx: Transaction, task: Row, agent_id: str) -> list[Row]:
    """The budgets that an agent's attempt at a task falls under, as they stand today."""
    rows = tx.fetch_all("budgets_over", plan=task["plan"], task_id=task["id"], agent_id=agent_id)
    return [today(tx, row) for row in rows]


def before(tx: Transaction, agent_id: str, plan: str | None) -> list[Row]:
    """The budgets that say what an agent may be handed out at all, of a plan or of any, as they stand today."""
    if plan is not None:
        return over(tx, {**NO_TASK, "plan": plan}, agent_id)
    return [today(tx, row) for row in tx.fetch_all("budgets_before", agent_id=agent_id)]


def today(tx: Transaction, row: Row) -> Row:
    """A budget's row as it stands at this instant: a new day has new books."""
    day = tx.now // DAY_US
    if row["period"] == "lifetime" or row["day"] == day:
        return row
    return {**row, "day": day, "warned": 0, "barred_until_us": 0, **_spent(tx, row, day)}


def room(row: Row) -> Room:
    """What a budget leaves for one more hand-out."""
    if row["strict"] and row["unpriced"] and row["limit_pusd"] is not None:
        return Room(-1, -1)
    pusd, tokens = (_room(row[f"limit_{kind}"], row[f"spent_{kind}"] + row[f"reserved_{kind}"]) for kind in KINDS)
    return Room(pusd, tokens)


def refusal(rows: Iterable[Row], task: Row) -> NoClaim | None:
    """Why the budgets do not let a task be handed out; None when they do."""
    return next((spent_up(row, task) for row in rows if not room(row).fits(task)), None)


def spent_up(row: Row, task: Row | None = None) -> NoClaim:
    """The answer to a claim that a budget does not allow."""
    left = room(row)
    if row["strict"] and row["unpriced"] and row["limit_pusd"] is not None:
        why = f"is strict, and {row['unpriced']} of its entries have no known price"
    elif task is None or min(left) < 0:
        why = "is used up"
    else:
        why = f"leaves less than task {task['id']} is estimated at"
    until = _barred_until(row, NO_TASK if task is None else task)
    return NoClaim("budget", "blocked_by", f"{words(row)} {why}.", until if until < NEVER_US else None)


def words(row: Row) -> str:
    """A budget by its name."""
    whose = "The board's" if row["scope"] == "board" else f"{row['scope'].capitalize()} {row['name']}'s"
    return f"{whose} {'daily ' if row['period'] == 'day' else ''}budget"


def reserve(change: Change, task: Row, agent_id: str) -> tuple[BudgetLeft, ...] | None:
    """Take a task's estimates off its budgets, as it is handed out; what is left of them.

    None when a budget of its own does not allow it, and bars it from here on: after the clock was set back, no bar is
    there for the day that has come again.

    Raises:
        StoreError: a budget does not allow it that the pick knew of, so it should not have been picked.
    """
    rows = over(change.tx, task, agent_id)
    if refused := [row for row in rows if not room(row).fits(task)]:
        for row in refused:
            knew = row["scope"] != "task" or row["barred_until_us"] > change.now
            if knew or _book(change, row, task)["barred_until_us"] <= change.now:
                raise StoreError(f"Task {task['id']!r} was picked although a budget of its {row['scope']} forbids it.")
        return None
    pusd, tokens = task["estimate_pusd"] or 0, task["estimate_tokens"] or 0
    if pusd or tokens:
        rows = [_book(change, row, task, reserved_pusd=pusd, reserved_tokens=tokens) for row in rows]
    return tuple(record_left(row) for row in rows)


def release(change: Change, held: Row) -> None:
    """Give back what an attempt that ends still had reserved; whoever waits for it is woken."""
    pusd, tokens = held["reserved_pusd"], held["reserved_tokens"]
    if not (pusd or tokens):
        return
    change.tx.execute("lock_budgets")
    rows = over(change.tx, held, held["agent_id"])
    for row in rows:
        _book(change, row, held, reserved_pusd=-pusd, reserved_tokens=-tokens)
    if rows:
        change.ready += ready_tasks(change.tx)


def spend(
    change: Change,
    rows: Iterable[Row],
    task: Row | None,
    *,
    day: int,
    pusd: int | None,
    tokens: int,
    drawn: tuple[int, int],
) -> tuple[BudgetLeft, ...]:
    """Book usage, and so much less of its attempt's reservation; what is left of the budgets.

    Args:
        change: the write.
        rows: the budgets from `over`, read before the usage was entered: the books of a new day are worked out from
            the ledger, which must not have it yet.
        task: whose usage it is, if any task's.
        day: the day of the usage; the books of another day are left alone.
        pusd: what it cost, None when nobody knows.
        tokens: its tokens.
        drawn: what was taken off the reservation of its attempt.
    """
    spent = {"spent_pusd": pusd or 0, "spent_tokens": tokens, "unpriced": int(pusd is None)}
    less = {"reserved_pusd": -drawn[0], "reserved_tokens": -drawn[1]}
    booked = []
    for row in rows:
        counts = row["period"] == "lifetime" or row["day"] == day
        booked.append(_book(change, row, task or NO_TASK, **less, **(spent if counts else {})))
    return tuple(map(record_left, booked))


def put(
    change: Change,
    key: Mapping[str, str],
    *,
    limit_pusd: int | None,
    limit_tokens: int | None,
    strict: bool,
    agent_id: str,
) -> Row:
    """Set a budget, or change its limits; its row, the books worked out from the ledger and the open attempts.

    Raises:
        NotFound: the plan or the task is not on the board.
    """
    tx = change.tx
    tx.execute("lock_budgets")
    task = _task(tx, key)
    tx.execute(
        "put_budget",
        **key,
        limit_pusd=limit_pusd,
        limit_tokens=limit_tokens,
        strict=int(strict),
        task_pk=task["pk"] if task else None,
    )
    row = tx.fetch_one("budget_named", **key) or {}
    told: dict[str, Any] = {**key, "limit_pusd": limit_pusd, "limit_tokens": limit_tokens, "strict": strict}
    change.event("budget_set", task, agent_id=agent_id, **told)
    booked = reckon(change, row, task or NO_TASK)
    change.ready += ready_tasks(tx)
    return booked


def reckon(change: Change, row: Row, task: Row) -> Row:
    """Work a budget's books out anew from the ledger and the open attempts; its row as it then stands.

    Args:
        change: the write.
        row: the budget's.
        task: that of the task whose budget it is.
    """
    fresh = today(change.tx, row)
    day = fresh["day"] if row["period"] == "day" else None
    return _book(change, {**fresh, **_spent(change.tx, row, day), **_reserved(change.tx, row)}, task)


def drop(change: Change, key: Mapping[str, str], agent_id: str) -> bool:
    """Take a budget away; False when there is none."""
    if not change.tx.execute("drop_budget", **key):
        return False
    told: dict[str, Any] = dict(key)
    change.event("budget_cleared", agent_id=agent_id, **told)
    change.ready += ready_tasks(change.tx)
    return True


def reconsider(change: Change, task: Row) -> None:
    """A task's estimates have changed: its own budgets bar it, or no longer do."""
    change.tx.execute("lock_budgets")
    for row in over(change.tx, task, ""):
        if row["scope"] == "task":
            _book(change, row, task)


def ready_tasks(tx: Transaction) -> int:
    """How many tasks are ready, for the waiters whom a wider budget may concern."""
    totals = tx.fetch_one("tally_totals")
    return int((totals and totals["pending"]) or 0)


def left(tx: Transaction, task: Row | None, agent_id: str) -> tuple[BudgetLeft, ...]:
    """What is left of the budgets that an agent's work on a task falls under."""
    return tuple(record_left(row) for row in over(tx, task or NO_TASK, agent_id))


def named(tx: Transaction, key: Mapping[str, str]) -> Budget | None:
    """A budget as it stands today; None where there is none."""
    row = tx.fetch_one("budget_named", **key)
    return record(today(tx, row)) if row else None


def every(tx: Transaction) -> list[Budget]:
    """Every budget as it stands today."""
    return [record(today(tx, row)) for row in tx.fetch_all("all_budgets")]


def errors(tx: Transaction) -> list[str]:
    """The budgets whose books differ from the ledger and the open attempts."""
    found = []
    for row in tx.fetch_all("all_budgets"):
        day = row["day"] if row["period"] == "day" else None
        books = _spent(tx, row, day) | _reserved(tx, row)
        wrong = sorted(name for name, amount in books.items() if row[name] != amount)
        if row["scope"] == "task":
            task = tx.fetch_one("task_by_pk", pk=row["task_pk"]) or NO_TASK
            wrong += ["barred_until_us"] if row["barred_until_us"] != _barred_until(row, task) else []
        found += [f"{words(row)} has another {name} than the ledger and the open attempts make" for name in wrong]
    return found


def record(row: Row) -> Budget:
    """A budget's record."""
    return Budget(
        **_left(row),
        limit_pusd=row["limit_pusd"],
        limit_tokens=row["limit_tokens"],
        spent_pusd=row["spent_pusd"],
        spent_tokens=row["spent_tokens"],
        reserved_pusd=row["reserved_pusd"],
        reserved_tokens=row["reserved_tokens"],
        unpriced=row["unpriced"],
        strict=bool(row["strict"]),
    )


def record_left(row: Row) -> BudgetLeft:
    """What is left of a budget."""
    return BudgetLeft(**_left(row))


def _book(change: Change, row: Row, task: Row, **more: int) -> Row:
    """Add to a budget's books; a task's own budget then bars it or not, and a warning is given when it is due.

    Raises:
        SumTooLarge: a sum would be more than a row can hold.
    """
    booked = {**row, **{name: row[name] + amount for name, amount in more.items()}}
    if max(booked[f"{what}_{kind}"] for what in ("spent", "reserved") for kind in KINDS) > limits.INTEGER:
        raise SumTooLarge(f"{words(row)} cannot hold so large a sum.")
    if row["scope"] == "task":
        booked["barred_until_us"] = _barred_until(booked, task)
    level = _level(booked)
    if level > row["warned"]:
        kind = "budget_exceeded" if level > 1 else "budget_warning"
        spent = {name: booked[name] for name in ("limit_pusd", "spent_pusd", "limit_tokens", "spent_tokens")}
        change.event(kind, scope=row["scope"], name=row["name"], period=row["period"], **spent)
    booked["warned"] = level
    change.tx.execute("book_budget", **{name: booked[name] for name in BOOKS})
    return booked


def _level(row: Row) -> int:
    """0 below the warning, 1 from it on, 2 past the limit."""
    level = 0
    for kind in KINDS:
        limit, spent = row[f"limit_{kind}"], row[f"spent_{kind}"]
        if limit is not None and spent:
            level = max(level, 2 if spent > limit else int(100 * spent >= WARNING_PERCENT * limit))
    return level


def _barred_until(row: Row, task: Row) -> int:
    """Until when a task's own budget keeps it from being handed out; 0 when it does not."""
    if room(row).fits(task):
        return 0
    fresh = {**row, **{f"{what}_{kind}": 0 for what in ("spent", "reserved") for kind in KINDS}, "unpriced": 0}
    another_day = row["period"] == "day" and room(fresh).fits(task)
    return _midnight(row["day"]) if another_day else NEVER_US


def _room(limit: int | None, used: int) -> int:
    if limit is None:
        return limits.INTEGER
    return limit - used if used < limit else -1


def _midnight(day: int) -> int:
    """When the day is over."""
    return (day + 1) * DAY_US


def _left(row: Row) -> dict[str, Any]:
    found: dict[str, Any] = {"scope": _SCOPES[row["scope"]], "name": row["name"], "period": row["period"]}
    found["near"] = _level(row) == 1
    for kind in KINDS:
        limit, spent = row[f"limit_{kind}"], row[f"spent_{kind}"]
        if limit is not None:
            found[f"left_{kind}"] = max(limit - spent - row[f"reserved_{kind}"], 0)
            found[f"over_{kind}"] = spent - limit if spent > limit else None
    return found


def _task(tx: Transaction, key: Mapping[str, str]) -> Row | None:
    """The task of a budget of one; a plan, too, must be there."""
    scope: BudgetScope = key["scope"]  # type: ignore[assignment]  # checked by the caller
    if scope == "plan" and tx.fetch_one("plan_by_name", name=key["name"]) is None:
        raise NotFound("plan", key["name"])
    return task_row(tx, key["name"]) if scope == "task" else None


def _spent(tx: Transaction, row: Row, day: int | None) -> dict[str, int]:
    """What was spent under a budget on a day, or in all."""
    days = {"first_day": 0 if day is None else day, "last_day": LAST_DAY if day is None else day}
    if row["scope"] == "task":
        return dict(tx.fetch_one("spent_of_task", task_pk=row["task_pk"], **days) or {})
    return dict(tx.fetch_one("spent_of_scope", **_named(row), **days) or {})


def _reserved(tx: Transaction, row: Row) -> dict[str, int]:
    return dict(tx.fetch_one("reserved_of_scope", task_pk=row["task_pk"], **_named(row)) or {})


def _named(row: Row) -> dict[str, Any]:
    """Whose rows count for a budget, as parameters."""
    return {scope: row["name"] if row["scope"] == scope else None for scope in ("plan", "agent")}
