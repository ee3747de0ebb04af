"""The ledger and the budgets as sums worked out from the history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from agentmesh.model import Event
from pytest_agentmesh.checkers.ground import Ground
from pytest_agentmesh.checkers.tasks import PlainAttempt, PlainTask
from pytest_agentmesh.checkers.verdict import Violation, hold

DAY_US: Final = 86_400_000_000
KINDS: Final = ("pusd", "tokens")
WASTED: Final = ("failed", "reclaimed", "cancelled")
WARNINGS: Final = ("budget_warning", "budget_exceeded")
Key = tuple[str, str, str]
"""A budget's scope, name and period."""


@dataclass(slots=True)
class Sums:
    """Usage added up."""

    pusd: int = 0
    tokens: int = 0
    unpriced: int = 0
    entries: int = 0

    def add(self, pusd: int | None, tokens: int) -> None:
        """One entry more."""
        self.pusd += pusd or 0
        self.tokens += tokens
        self.unpriced += pusd is None
        self.entries += 1


@dataclass(slots=True)
class PlainBudget:
    """A limit; `warned` is the level of the last warning, `day` the one it was given on."""

    pusd: int | None
    tokens: int | None
    strict: bool
    warned: int = 0
    day: int | None = None
    limits: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        """The limits that there are, by what they limit."""
        self.limits = {kind: limit for kind in KINDS if (limit := getattr(self, kind)) is not None}

    def level(self, spent: Sums) -> int:
        """0 below the warning, 1 from four fifths on, 2 past the limit."""
        found = 0
        for kind, limit in self.limits.items():
            used = getattr(spent, kind)
            if used:
                found = max(found, 2 if used > limit else int(5 * used >= 4 * limit))
        return found


class Money:
    """What was used, reserved and allowed, as the history tells it."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._spent: defaultdict[tuple[str, str, int | None], Sums] = defaultdict(Sums)
        self._reserved: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(KINDS, 0))
        self._owed: dict[Key, str] = {}
        self.budgets: dict[Key, PlainBudget] = {}
        self.by_agent: defaultdict[str, Sums] = defaultdict(Sums)
        self.by_attempt: defaultdict[tuple[str, int], Sums] = defaultdict(Sums)

    def before(self, event: Event | None) -> None:
        """No other event comes before the warnings that usage has made due."""
        if self._owed and (event is None or event.kind not in WARNINGS):
            (scope, name, period), kind = next(iter(self._owed.items()))
            told = "the end of the history" if event is None else f"{event.kind} comes first"
            raise Violation("P8", f"{kind} of the {_words(scope, name, period)}", told)

    def reserve(self, event: Event, task: PlainTask, attempt: PlainAttempt) -> None:
        """Hand out a task: its estimates must fit under every budget.

        Raises:
            Violation: P8, they do not.
        """
        estimate = [self._estimate(event, task, kind) for kind in KINDS]
        attempt.estimate = [amount or 0 for amount in estimate]
        attempt.sure = None not in estimate
        for key, budget in self._over(event.plan, task.id, attempt.agent):
            scope, name, _ = key
            spent, words = self.spent(key, event.at_us), _words(*key)
            for kind, wanted in zip(KINDS, attempt.estimate, strict=True):
                limit, used = budget.limits.get(kind), getattr(spent, kind) + self._reserved[scope, name][kind]
                if limit is None:
                    continue
                told = f"{used} of {limit} {kind} are spent or reserved, and {task.id} is estimated at {wanted}"
                hold(used < limit and wanted <= limit - used, "P8", f"the {words} to leave enough", told)
            priced = not (budget.strict and spent.unpriced and "pusd" in budget.limits)
            hold(
                priced, "P8", f"no hand-out under the strict {words}", f"{spent.unpriced} of its entries have no price"
            )
        self._book(task, attempt, event.plan, 1)

    def release(self, task: PlainTask, attempt: PlainAttempt) -> None:
        """The attempt has ended: what it still had reserved is free."""
        self._book(task, attempt, task.plan, -1)
        attempt.estimate = [0, 0]

    def use(self, event: Event, task: PlainTask | None, attempt: PlainAttempt | None) -> None:
        """Usage has come in."""
        tokens, pusd = event.data["tokens"], event.data.get("cost_pusd")
        told = tokens >= 0 and (pusd is None) == bool(event.data.get("unpriced")) and (pusd is None or pusd >= 0)
        hold(told, "P7", "tokens, and a cost or the word that there is no price", str(event.data))
        agent, day = event.agent_id or "", event.data.get("used_us", event.at_us) // DAY_US
        for scope, name in self._scopes(event.plan, event.task_id, agent):
            for when in (None, day):
                self._spent[scope, name, when].add(pusd, tokens)
        self.by_agent[agent].add(pusd, tokens)
        if event.task_id is not None and event.fence is not None:
            self.by_attempt[event.task_id, event.fence].add(pusd, tokens)
        if task and attempt and attempt.outcome is None:
            self._draw(task, attempt, event.plan, (pusd or 0, tokens))
        for key, budget in self._over(event.plan, event.task_id, agent):
            self._owe(key, budget, event.at_us)

    def set(self, event: Event) -> None:
        """A budget is set or changed."""
        data = event.data
        key = data["scope"], data["name"], data["period"]
        before = self.budgets.get(key)
        budget = PlainBudget(data["limit_pusd"], data["limit_tokens"], data["strict"])
        if before:
            budget.warned, budget.day = before.warned, before.day
        self.budgets[key] = budget
        self._owe(key, budget, event.at_us)

    def clear(self, event: Event) -> None:
        """A budget is taken away."""
        self.budgets.pop((event.data["scope"], event.data["name"], event.data["period"]), None)

    def warn(self, event: Event) -> None:
        """A warning must be due, and say what was spent.

        Raises:
            Violation: P8, it is not, or says something else.
        """
        data = event.data
        key = data["scope"], data["name"], data["period"]
        budget, owed = self.budgets.get(key), self._owed.pop(key, None)
        if budget is None or not self._ground.whole or self._may_be_dropped(key):
            return
        spent, words = self.spent(key, event.at_us), _words(*key)
        sums = {kind: data[f"spent_{kind}"] for kind in KINDS}
        made = {kind: getattr(spent, kind) for kind in KINDS}
        hold(sums == made, "P8", f"the {words} to have {made} spent", f"{event.kind} says {sums}")
        due = owed == event.kind or (data["period"] == "day" and self._ground.went_back)
        hold(due, "P8", f"{owed or 'no warning'} of the {words}", event.kind)

    def spent(self, key: Key, at_us: int) -> Sums:
        """What was spent under a budget by now: in all, or on the day of that instant."""
        scope, name, period = key
        return self._spent[scope, name, None if period == "lifetime" else at_us // DAY_US]

    def reserved(self, key: Key, kind: str) -> int:
        """What open attempts have reserved under a budget."""
        return self._reserved[key[0], key[1]][kind]

    def wasted(self, attempts: dict[tuple[str, int], str | None]) -> tuple[int, int]:
        """What attempts used that ended in vain, of both kinds."""
        vain = [sums for key, sums in self.by_attempt.items() if attempts.get(key) in WASTED]
        return sum(sums.pusd for sums in vain), sum(sums.tokens for sums in vain)

    def _owe(self, key: Key, budget: PlainBudget, at_us: int) -> None:
        """The level of a budget may have risen: then a warning is due."""
        day = at_us // DAY_US if key[2] == "day" else None
        if budget.day != day:
            budget.warned, budget.day = 0, day
        level = budget.level(self.spent(key, at_us))
        sure = self._ground.whole and not (day is not None and self._ground.went_back)
        if level > budget.warned and sure and not self._may_be_dropped(key):
            self._owed[key] = WARNINGS[level - 1]
        budget.warned = level

    def _may_be_dropped(self, key: Key) -> bool:
        """Whether a budget may have gone with its task, which no event tells."""
        return key[0] == "task" and self._ground.gone(key[1])

    def _estimate(self, event: Event, task: PlainTask, kind: str) -> int | None:
        """What a task is estimated at; None where only a row that is gone, or has changed since, would tell."""
        name, column = ("estimate_usd", "estimate_pusd") if kind == "pusd" else ("estimate_tokens", "estimate_tokens")
        if self._ground.rows is None or task.id not in self._ground.rows.tasks:
            return None
        if event.seq < self._ground.changed.get((task.id, name), (0, 0))[1]:
            return None
        return int(self._ground.said(task.id, name, column, event.seq) or 0)

    def _over(self, plan: str | None, task_id: str | None, agent: str) -> Iterator[tuple[Key, PlainBudget]]:
        for scope, name in self._scopes(plan, task_id, agent):
            for period in ("lifetime", "day"):
                budget = self.budgets.get((scope, name, period))
                if budget is not None:
                    yield (scope, name, period), budget

    def _scopes(self, plan: str | None, task_id: str | None, agent: str) -> list[tuple[str, str]]:
        """What may have a budget that an agent's work on a task falls under."""
        named = [("plan", plan), ("task", task_id), ("agent", agent)]
        return [("board", ""), *((scope, name) for scope, name in named if name)]

    def _book(self, task: PlainTask, attempt: PlainAttempt, plan: str | None, sign: int) -> None:
        for scope, name in self._scopes(plan, task.id, attempt.agent):
            for kind, amount in zip(KINDS, attempt.estimate, strict=True):
                self._reserved[scope, name][kind] += sign * amount

    def _draw(self, task: PlainTask, attempt: PlainAttempt, plan: str | None, used: tuple[int, int]) -> None:
        """Usage takes the place of so much of its attempt's reservation."""
        self._book(task, attempt, plan, -1)
        attempt.estimate = [max(had - took, 0) for had, took in zip(attempt.estimate, used, strict=True)]
        self._book(task, attempt, plan, 1)


def _words(scope: str, name: str, period: str) -> str:
    whose = "board's" if scope == "board" else f"{scope} {name}'s"
    return f"{whose} {'daily ' if period == 'day' else ''}budget"
