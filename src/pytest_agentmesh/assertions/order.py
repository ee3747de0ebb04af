"""Assertions on the order in which tasks ran."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from agentmesh import Board
from agentmesh.model import Event
from agentmesh.rules import MET
from pytest_agentmesh.assertions.causes import began, ended, standing
from pytest_agentmesh.assertions.expecting import task_ids
from pytest_agentmesh.assertions.witness import Turn, Witness, since
from pytest_agentmesh.assertions.wording import cut, first_of, folded, likely, message, names, table

Edge = dict[str, str]
"""What a task waits for: parent -> condition."""
BRINGS: Final = {
    "task_claimed": "in_progress",
    "task_completed": "completed",
    "task_cancelled": "cancelled",
    "task_reopened": "open",
    "task_split": "open",
}
"""The state that an event brings a task to which does not say so itself."""
Run = tuple[str, Turn]
"""A task and one of its attempts."""


def assert_ran_in_order(board: Board, *ids: str) -> None:
    """Each of these tasks had ended its last attempt before the next one began its first.

    Without ids: whatever was handed out, what it depended on then had ended as it had to.
    """
    __tracebackhide__ = True
    witness = Witness(board)
    if not ids:
        _edges_respected(witness)
        return
    task_ids(ids, 2)
    runs = {task_id: witness.turns(witness.task(task_id).id) for task_id in ids}
    idle = [task_id for task_id in ids if not runs[task_id]]
    if idle:
        tasks = [witness.task(task_id) for task_id in idle]
        lines = [line for task in tasks for line in folded(f"{task.id} {standing(witness, task)}")]
        raise AssertionError(message(f"expected {names(ids)} to run in this order, but {names(idle)} never ran", lines))
    for first, second in pairwise(ids):
        if not all(before.over_before(runs[second][0]) for before in runs[first]):
            raise AssertionError(_disorder(witness, first, second, runs))


def assert_not_together(board: Board, *ids: str) -> None:
    """No attempts at two of these tasks were ever open at the same time; tasks that never ran are no hindrance."""
    __tracebackhide__ = True
    task_ids(ids, 2)
    witness = Witness(board)
    runs: list[Run] = [(task_id, turn) for task_id in ids for turn in witness.turns(witness.task(task_id).id)]
    runs.sort(key=lambda run: _span(run[1])[0])
    for earlier, later in pairwise(runs):
        if not earlier[1].over_before(later[1]):
            raise AssertionError(_together(witness, ids, earlier, later))


def assert_never_ran(board: Board, *ids: str) -> None:
    """None of these tasks was ever handed out."""
    __tracebackhide__ = True
    task_ids(ids, 1)
    witness = Witness(board)
    ran = [task for task in map(witness.task, ids) if task.fence]
    if ran:
        runs = [(task.id, turn) for task in ran for turn in witness.turns(task.id)]
        head = f"expected {names(ids)} never to be handed out, but {names(task.id for task in ran)} ran"
        raise AssertionError(message(head, lanes(witness, runs)))


def lanes(witness: Witness, runs: Sequence[Run]) -> list[str]:
    """Attempts as rows with when they began and ended, and bars that show which came first."""
    moments = sorted({moment for _, turn in runs for moment in _span(turn) if moment is not None})
    places = {moment: place for place, moment in enumerate(moments)}
    rows = []
    for task_id, turn in runs:
        begin, end = _span(turn)
        start = 2 * places[begin]
        stop = 2 * (len(moments) if end is None else places[end])
        bar = " " * start + "├" + "─" * (stop - start - 1) + ("┤" if end else "")
        cells = (task_id, str(turn.number), turn.attempt.agent_id, began(witness, turn), ended(witness, turn))
        rows.append((*cells, turn.outcome, bar if len(moments) <= 12 else ""))  # noqa: PLR2004 - what a line has room for
    return first_of(table(("task", "attempt", "agent", "began", "ended", "outcome", ""), rows, " r"), "attempts")


def _span(turn: Turn) -> tuple[tuple[int, int], tuple[int, int] | None]:
    """When it began and ended, so that they can be sorted: what has no event is older than what has one."""
    attempt = turn.attempt
    begin = (turn.began.seq if turn.began else 0, attempt.started_us)
    if attempt.ended_us is None:
        return begin, None
    return begin, (turn.ended.seq if turn.ended else 0, attempt.ended_us)


def _disorder(witness: Witness, first: str, second: str, runs: dict[str, list[Turn]]) -> str:
    start = runs[second][0]
    late = next(turn for turn in reversed(runs[first]) if not turn.over_before(start))
    over = "is still open" if late.attempt.ended_us is None else f"ended only at {ended(witness, late)}"
    head = f"expected {first} to end before {second} began, but {second} began at {began(witness, start)} "
    head += f"and attempt {late.number} at {first} {over}"
    shown = [(first, turn) for turn in runs[first]] + [(second, turn) for turn in runs[second]]
    return message(head, lanes(witness, shown), likely(_tie(witness, first, second)))


def _tie(witness: Witness, first: str, second: str) -> str:
    """What binds the second task to the first, or that nothing does."""
    edges = witness.board.edges()
    parents: dict[str, list[str]] = {}
    for child, parent, _ in edges:
        parents.setdefault(child, []).append(parent)
    reached, todo = {second}, [second]
    while todo:
        fresh = [parent for parent in parents.get(todo.pop(), ()) if parent not in reached]
        reached.update(fresh)
        todo += fresh
    if first not in reached:
        return f"{second} does not depend on {first}, so nothing keeps them in order"
    if first in parents.get(second, ()):
        added = [
            e for e in witness.by_task.get(second, ()) if e.kind == "dependency_added" and e.data["parent"] == first
        ]
        if added:
            return f"{second} depends on {first} only since {witness.at(added[-1].at_us)} (event {added[-1].seq})"
    again = [e for e in witness.by_task.get(first, ()) if e.kind in ("task_reopened", "task_split")]
    if again:
        return f"{first} ran again: {again[-1].kind} at {witness.at(again[-1].at_us)} (event {again[-1].seq})"
    return f"{second} depends on {first}, so the board broke promise P4: see board.check()"


def _together(witness: Witness, ids: Sequence[str], one: Run, other: Run) -> str:
    head = f"expected {names(ids)} never to run together, but {one[0]} was still held when {other[0]} began, "
    head += f"at {began(witness, other[1])}"
    pair = (one, other)
    tasks = [witness.tasks[run[0]] for run in pair]
    paths = "their paths do not overlap" if all(task.writes or task.reads for task in tasks) else "they hold no paths"
    cause = f"neither depends on the other, and {paths}, so nothing keeps them apart"
    return message(head, lanes(witness, pair), likely(cause))


def _edges_respected(witness: Witness) -> None:
    """Follow the history, and look at each hand-out."""
    __tracebackhide__ = True
    if witness.gap:
        told = f"{witness.gap}, so the order of all hand-outs cannot be told; name the tasks to go by their attempts"
        raise AssertionError(message(told))
    past = _Past()
    for event in witness.history:
        early = past.early(event)
        if early:
            raise AssertionError(_too_early(witness, event, early, past))
        past.follow(event)


class _Past:
    """The graph and the states of its tasks, as they were at an event of the history."""

    def __init__(self) -> None:
        self.edges: dict[str, Edge] = {}
        self.state: dict[str, str] = {}
        self.last: dict[str, Event] = {}

    def early(self, event: Event) -> Edge:
        """What a task that is now handed out should have waited for."""
        if event.kind != "task_claimed":
            return {}
        edges = self.edges.get(event.task_id or "", {})
        return {parent: condition for parent, condition in edges.items() if not self._met(parent, condition)}

    def _met(self, parent: str, condition: str) -> bool:
        return self.state.get(parent) in MET[condition]

    def follow(self, event: Event) -> None:
        """Go on by one event."""
        task, data = event.task_id, event.data
        if task is None:
            return
        if event.kind == "task_created":
            self.edges[task] = dict(edge.rsplit(":", 1) for edge in data.get("depends_on", ()))
        elif event.kind == "dependency_added":
            self.edges[task][data["parent"]] = data["condition"]
        elif event.kind == "dependency_removed":
            self.edges[task].pop(data["parent"], None)
        state = BRINGS.get(event.kind) or data.get("state")
        if state:
            self.state[task] = state
            self.last[task] = event


def _too_early(witness: Witness, event: Event, early: Edge, past: _Past) -> str:
    """The hand-out that came too early, below what it should have waited for."""
    head = f"expected {event.task_id} to wait for {names(early)}, but it was handed out at {witness.at(event.at_us)}"
    edges = past.edges[event.task_id or ""]
    rows = []
    for parent in edges:
        known = past.last.get(parent)
        when = f"since {since(witness, known, known.at_us)}" if known else ""
        rows.append((parent, past.state.get(parent, "unknown"), when))
    lines = table(("", "", ""), rows)[1:]
    width = max(map(len, lines))
    marks = [f"   <- has to be {early[parent]}" if parent in early else "" for parent in edges]
    corners = ["┐", *"┤" * (len(rows) - 1)]
    drawn = [f"{line:<{width}} ──{c}{mark}" for line, c, mark in zip(lines, corners, marks, strict=True)]
    drawn.append(f"{'':<{width}}   └─> {cut(event.task_id or '')} handed out to {event.agent_id} (event {event.seq})")
    return message(
        head, drawn, likely("the board broke promise P4, or its rows were changed from outside: see board.check()")
    )
