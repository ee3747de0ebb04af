"""Assertions on tasks and what they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agentmesh import Board
from agentmesh.model import FINAL, Task
from agentmesh.rules import is_met
from pytest_agentmesh.assertions.causes import standing, unmet, why
from pytest_agentmesh.assertions.comparing import differences
from pytest_agentmesh.assertions.expecting import state_word, task_ids
from pytest_agentmesh.assertions.witness import Witness, named, since, titled
from pytest_agentmesh.assertions.wording import MOST, alike, cut, first_of, folded, message, names

HAVE_COMPLETED = ("to have completed", "has not", "have not")
BE_READY = ("to be ready", "is not", "are not")
BE_FINAL = ("to be final", "is not", "are not")


def assert_state(board: Board, expected: Mapping[str, str], *, only: bool = False) -> None:
    """These tasks are in these states; with `only`, there are no others on the board.

    Raises:
        InvalidArgument: there is no such state.
    """
    __tracebackhide__ = True
    for word in expected.values():
        state_word(word)
    witness = Witness(board)
    actual = {task.id: task.state for task in witness.tasks.values()}
    right = all(actual.get(name) == word for name, word in expected.items())
    if not right or (only and len(actual) > len(expected)):
        head, *lines = differences(witness, expected, actual, only=only)
        raise AssertionError(message(head, lines))


def assert_completed(board: Board, *ids: str) -> None:
    """Each of these tasks has completed."""
    __tracebackhide__ = True
    witness = Witness(board)
    _each(witness, _named(witness, ids), HAVE_COMPLETED, lambda task: task.state == "completed")


def assert_ready(board: Board, *ids: str) -> None:
    """Each of these tasks could be handed out as far as it goes; pauses, held paths and budgets aside.

    It is `pending`, or the next claim makes it so: its time is reached, or its lease is due and a hand-out is left.
    """
    __tracebackhide__ = True
    witness = Witness(board)
    _each(witness, _named(witness, ids), BE_READY, lambda task: _ready(witness, task))


def assert_all_completed(board: Board, *, plan: str | None = None) -> None:
    """Every task of the board, or of a plan, has completed; there is at least one."""
    __tracebackhide__ = True
    witness = Witness(board)
    _each(witness, _every(witness, plan), HAVE_COMPLETED, lambda task: task.state == "completed")


def assert_all_final(board: Board, *, plan: str | None = None) -> None:
    """Every task of the board, or of a plan, has completed, failed or been cancelled; there is at least one."""
    __tracebackhide__ = True
    witness = Witness(board)
    _each(witness, _every(witness, plan), BE_FINAL, lambda task: task.state in FINAL)


def assert_blocked(board: Board, task_id: str, *, by: str | Iterable[str] | None = None) -> None:
    """A task waits for others; with `by`, directly for exactly these, whatever else it depends on being met."""
    __tracebackhide__ = True
    witness = Witness(board)
    task = witness.task(task_id)
    wanted = None if by is None else {by} if isinstance(by, str) else set(by)
    for name in sorted(wanted or ()):
        witness.task(name)
    there = {parent.id for parent in unmet(witness, task)}
    if task.state == "blocked" and wanted in (None, there):
        return
    expected = "blocked" if wanted is None else f"blocked by {names(sorted(wanted))}"
    actual = f"blocked by {names(sorted(there))}" if task.state == "blocked" else task.state
    reason = [] if task.state == "blocked" else folded(f"{task.id} {standing(witness, task)}")
    events = [witness.moved(name) for name in (task.id, *(edge.id for edge in task.depends_on))]
    raise AssertionError(
        message(
            f"expected {named(task)} to be {expected}, but it is {actual}",
            reason,
            _edges(witness, task, wanted),
            witness.told(events),
        )
    )


def _named(witness: Witness, ids: tuple[str, ...]) -> list[Task]:
    __tracebackhide__ = True
    task_ids(ids, 1)
    return [witness.task(task_id) for task_id in ids]


def _every(witness: Witness, plan: str | None) -> list[Task]:
    __tracebackhide__ = True
    found = [task for task in witness.tasks.values() if plan in (None, task.plan)]
    if not found and plan is not None:
        raise AssertionError(
            message(f"plan {plan} has no task; {alike(plan, {t.plan for t in witness.tasks.values()})}")
        )
    if not found:
        raise AssertionError("the board has no task, so there is nothing to tell of all of them")
    return found


def _each(witness: Witness, tasks: list[Task], expected: tuple[str, str, str], holds: Callable[[Task], bool]) -> None:
    """Raise what is to be said of the tasks for which it does not hold."""
    __tracebackhide__ = True
    wrong = [task for task in tasks if not holds(task)]
    if not wrong:
        return
    if len(tasks) == 1:
        task, reason = wrong[0], why(witness, wrong[0])
        events = [*witness.story(task.id), *reason.events]
        text = f"{task.id}: {reason}"
        head = f"expected {named(task)} {expected[0]}, but it is {task.state}"
        raise AssertionError(message(head, folded(text), witness.told(events)))
    reasons = {task.id: why(witness, task) for task in wrong[:MOST]}
    width = max(len(cut(name)) for name in reasons)
    lines = []
    for task in wrong[:MOST]:
        text = ", ".join(filter(None, (titled(task), f"{task.state}: {reasons[task.id]}")))
        lines += folded(text, f"{cut(task.id):<{width}}  ")
    left = [f"... and {len(wrong) - MOST:,} more"] if len(wrong) > MOST else []
    what = names(task.id for task in tasks) if len(tasks) <= 5 else f"all {len(tasks):,} tasks"  # noqa: PLR2004 - a line
    verb = expected[1 if len(wrong) == 1 else 2]
    head = f"expected {what} {expected[0]}, but {len(wrong):,} of {len(tasks):,} {verb}"
    quotes = witness.told(event for reason in reasons.values() for event in reason.events)
    raise AssertionError(message(head, [*lines, *left], quotes))


def _ready(witness: Witness, task: Task) -> bool:
    if task.state == "scheduled":
        return (task.not_before_us or 0) <= witness.now_us
    if task.state == "in_progress":
        due = task.lease_expires_us is not None and task.lease_expires_us <= witness.now_us
        return due and task.charged < task.max_attempts
    return task.state == "pending"


def _edges(witness: Witness, task: Task, wanted: set[str] | None = None) -> list[str]:
    """What a task depends on, as a tree of one level, with what is wrong about it."""
    if not task.depends_on:
        return [f"{task.id} depends on nothing"]
    lines = [task.id]
    width = max(len(cut(edge.id)) for edge in task.depends_on)
    for edge in task.depends_on:
        parent = witness.tasks.get(edge.id)
        met = parent is None or is_met(edge.condition, parent.state)
        condition = "" if edge.condition == "completed" else f", asked to be {edge.condition}"
        mark = ""
        if wanted is not None and met == (edge.id in wanted):
            mark = "   <- met, expected to block" if met else "   <- blocks, not expected"
        branch = "└─" if edge is task.depends_on[-1] else "├─"
        event = witness.moved(edge.id)
        when = f" since {since(witness, event, event.at_us)}" if event else ""
        state = parent.state if parent else "pruned"
        lines.append(f"{branch} {cut(edge.id):<{width}}  {state}{when}{condition}{mark}")
    lines += [
        f"   {name} is nothing that {task.id} depends on"
        for name in sorted((wanted or set()) - {e.id for e in task.depends_on})
    ]
    return first_of(lines, "lines")
