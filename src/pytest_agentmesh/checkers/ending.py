"""The end of a replay: what the events make of the board must be what its rows say."""

from __future__ import annotations

from collections.abc import Callable

from agentmesh.model import Attempt, Task
from pytest_agentmesh.checkers.money import DAY_US, KINDS, Money
from pytest_agentmesh.checkers.replay import Replay
from pytest_agentmesh.checkers.rows import Rows
from pytest_agentmesh.checkers.tasks import PlainAttempt, PlainTask
from pytest_agentmesh.checkers.verdict import Violation, at, hold


def compare(replay: Replay, rows: Rows) -> None:
    """Hold all that a replay has made of a board against its rows.

    Raises:
        Violation: they tell different stories.
    """
    last = replay.events[-1].seq if replay.events else 0
    _at(last, lambda: _count(replay, rows))
    for name, task in replay.graph.tasks.items():
        row = rows.tasks.get(name)
        if row is not None:
            _at(task.last_seq, lambda task=task, row=row: _task(replay, rows, task, row))  # type: ignore[misc]  # bound
    _at(last, lambda: _entries(replay, rows))
    if replay.ground.whole:
        _at(last, lambda: _whole(replay, rows))


def _at(seq: int, act: Callable[[], None]) -> None:
    try:
        act()
    except Violation as broken:
        broken.seq, broken.at_end = seq, True
        raise


def _count(replay: Replay, rows: Rows) -> None:
    """Every task is there or was pruned; none is there that no event tells of."""
    if not replay.ground.whole:
        return
    tasks, pruned = replay.graph.tasks, replay.ground.pruned
    missing = [name for name in tasks if name not in rows.tasks]
    hold(len(missing) == pruned, "P3", f"{pruned} tasks pruned", f"{len(missing)} are not there: {_few(missing)}")
    lost = [name for name in missing if not tasks[name].final]
    hold(not lost, "P3", "only tasks that have ended to be pruned", f"{_few(lost)} had not")
    strange = [name for name in rows.tasks if name not in tasks]
    hold(not strange, "P6", "an event for each task that was created", f"none for {_few(strange)}")


def _task(replay: Replay, rows: Rows, task: PlainTask, row: Task) -> None:
    """One task and its attempts."""
    name, state = task.id, replay.graph.state(task, went_back=replay.ground.went_back)
    hold(state in (None, row.state), "P6", f"{name} to be {state} by its events", f"its row says {row.state}")
    hold(task.fence in (None, row.fence), "P1", f"fence {task.fence} of {name}", f"its row says {row.fence}")
    holder = task.open.agent if task.open else None
    if task.phase is not None:
        hold(row.holder == holder, "P1", f"{name} to be held by {_who(holder)}", f"its row says {_who(row.holder)}")
    charged = f"{task.charged} charged hand-outs of {name}"
    hold(task.charged in (None, row.charged), "P3", charged, f"its row counts {row.charged}")
    if task.known and replay.ground.as_created(name, "max_attempts"):
        hold(task.most == row.max_attempts, "P3", f"max_attempts {task.most} of {name}", f"{row.max_attempts}")
    if task.known:
        _edges(replay, rows, task, row)
    if task.due_us is not None and row.not_before_us is not None:
        early = f"it became ready at {at(task.due_us)}"
        hold(row.not_before_us <= task.due_us, "P4", f"{name} to wait for its time, {at(row.not_before_us)}", early)
    for fence, attempt in task.attempts.items():
        there = rows.attempts.get((name, fence))
        hold(there is not None, "P1", f"attempt {fence} of {name}", "it is not there")
        if there is not None:
            _attempt(attempt, there, f"attempt {fence} of {name}")
            until = f"its lease to last until {at(attempt.expires_us)}"
            renewed = there.lease_expires_us > attempt.expires_us and not replay.ground.renewals
            same = renewed or there.lease_expires_us == attempt.expires_us
            hold(same, "P2", until, f"attempt {fence} of {name} says {at(there.lease_expires_us)}")
    known = len(task.attempts) if task.known else row.fence
    hold(known == row.fence, "P1", f"{known} attempts of {name}", f"its row says {row.fence}")


def _edges(replay: Replay, rows: Rows, task: PlainTask, row: Task) -> None:
    """The dependencies, those left out whose task was pruned; and how many of them hold an open task, to the last."""
    there = {edge.id: edge.condition for edge in row.depends_on}
    edges = {parent: condition for parent, condition in task.parents.items() if parent in rows.tasks}
    hold(edges == there, "P4", f"{task.id} to wait for {_few(edges)}", f"its rows say {_few(there)}")
    if not task.final:
        unmet = replay.graph.count_unmet(task)
        told = f"its row counts {row.unmet}"
        hold(unmet in (None, row.unmet), "P4", f"{unmet} unmet dependencies of {task.id}", told)


def _attempt(attempt: PlainAttempt, row: Attempt, name: str) -> None:
    """One hand-out: what events tell of it against its row."""
    hold(row.agent_id == attempt.agent, "P1", f"{name} to be {attempt.agent}'s", f"its row says {row.agent_id}")
    ended = f"{name} to have ended as {attempt.outcome}" if attempt.outcome else f"{name} to be open"
    hold(row.outcome == attempt.outcome, "P2", ended, f"its row says {row.outcome or 'open'}")
    if attempt.outcome:
        hold(row.kind == attempt.kind, "P2", f"{name} to have failed for {attempt.kind}", f"its row says {row.kind}")
    hold(row.charged == attempt.charged, "P3", f"{name} charged: {attempt.charged}", f"its row says {row.charged}")
    if attempt.started_us is not None:
        began = f"{name} to begin at {at(attempt.started_us)}"
        hold(row.started_us == attempt.started_us, "P11", began, f"its row says {at(row.started_us)}")
    told = f"its row says {at(row.ended_us)}"
    hold(row.ended_us == attempt.ended_us, "P11", f"{name} to end at {at(attempt.ended_us)}", told)
    if row.ended_us is not None:
        late = row.lease_expires_us <= row.ended_us
        hold(row.late == late, "P2", f"{name} to be marked late: {late}", f"its row says {row.late}")


def _entries(replay: Replay, rows: Rows) -> None:
    """What is on the blackboard now."""
    now, entries = rows.now_us, replay.entries
    back = replay.ground.went_back or bool(replay.events and now < replay.events[-1].at_us)
    for place, entry in entries.there.items():
        name, row = "/".join(place).strip("/"), rows.entries.get(place)
        if entry.expires_us is not None and entry.expires_us <= now:
            hold(row is None, "P9", f"entry {name} to be missing, for it has expired", "it is listed")
        elif row is None:
            # It expired while the rows were read, or was swept at a later time that has not come again.
            gone = entry.expires_us is not None and (back or entry.expires_us <= rows.read_us)
            hold(gone, "P9", f"entry {name} at version {entry.version}", "it is missing")
        else:
            facts = (row.version, row.size, row.agent_id, row.task_id, row.fence, row.expires_us)
            hold(facts == entry[:6], "P9", f"entry {name} as in event {entry.seq}: {entry[:6]}", f"{facts}")
    strange = ["/".join(place).strip("/") for place in rows.entries if place not in entries.there]
    if replay.ground.whole:
        hold(not strange, "P9", "no entry that was never put, or was deleted", f"{_few(strange)} is listed")


def _whole(replay: Replay, rows: Rows) -> None:
    """Gates and money: what only a history that begins with its board can tell."""
    pauses, caps = replay.gates.there(rows.now_us), replay.gates.caps
    hold(pauses == rows.pauses, "P4", f"pauses {_few(map(str, pauses))}", f"{_few(map(str, rows.pauses))}")
    hold(caps == rows.caps, "P8", f"claim caps {caps}", f"{dict(rows.caps)}")
    _usage(replay, rows)
    _budgets(replay, rows)


def _usage(replay: Replay, rows: Rows) -> None:
    sums = replay.money.by_agent
    for line in rows.usage.lines:
        own = sums[line.agent_id or ""]
        expected = (own.entries, own.unpriced, own.tokens, own.pusd)
        told = (line.entries, line.unpriced, line.tokens, line.cost_pusd)
        words = f"entries, unpriced, tokens, pusd of {line.agent_id}"
        hold(told == expected, "P7", f"{words}: {expected}", f"the totals say {told}")
    total, every = rows.usage.total, list(sums.values())
    made = (sum(one.entries for one in every), sum(one.tokens for one in every), sum(one.pusd for one in every))
    has = (total.entries, total.tokens, total.cost_pusd)
    hold(has == made, "P7", f"entries, tokens, pusd in all: {made}", f"the totals say {has}")
    tasks = replay.graph.tasks.items()
    ends = {(name, fence): attempt.outcome for name, task in tasks for fence, attempt in task.attempts.items()}
    vain, told_vain = replay.money.wasted(ends), (total.wasted_pusd, total.wasted_tokens)
    hold(vain == told_vain, "P7", f"pusd and tokens used in vain: {vain}", f"the totals say {told_vain}")


def _budgets(replay: Replay, rows: Rows) -> None:
    money, day = replay.money, rows.now_us // DAY_US
    there = {(row.scope, row.name, row.period): row for row in rows.budgets}
    expected = {key for key in money.budgets if key[0] != "task" or key[1] in rows.tasks}
    hold(there.keys() == expected, "P8", f"budgets {_few(map(str, expected))}", _few(map(str, there)))
    for key, row in there.items():
        budget, spent = money.budgets[key], money.spent(key, day * DAY_US)
        words = " ".join(filter(None, key))
        limits = (budget.pusd, budget.tokens, budget.strict)
        told = (row.limit_pusd, row.limit_tokens, row.strict)
        hold(limits == told, "P8", f"limits {limits} of budget {words}", f"its row says {told}")
        sums, has = (spent.pusd, spent.tokens, spent.unpriced), (row.spent_pusd, row.spent_tokens, row.unpriced)
        hold(sums == has, "P8", f"pusd, tokens, unpriced spent under budget {words}: {sums}", f"its row says {has}")
        _reserved(replay, money, key, (row.reserved_pusd, row.reserved_tokens))


def _reserved(replay: Replay, money: Money, key: tuple[str, str, str], told: tuple[int, int]) -> None:
    if any(task.open and not task.open.sure for task in replay.graph.tasks.values()):
        replay.ground.cannot_see("what is reserved under budgets: the estimate of a task that is held has changed")
        return
    made = tuple(money.reserved(key, kind) for kind in KINDS)
    hold(made == told, "P8", f"pusd and tokens reserved under budget {' '.join(filter(None, key))}: {made}", f"{told}")


def _few(names: object, most: int = 5) -> str:
    """Some names, and how many more there are."""
    found = sorted(names)  # type: ignore[call-overload]  # names of any kind
    shown = ", ".join(found[:most]) or "none"
    return shown + (f" and {len(found) - most} more" if len(found) > most else "")


def _who(agent: str | None) -> str:
    return agent or "nobody"
