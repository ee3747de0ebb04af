"""What a board tells of itself to a failed assertion: read once, and only as far as the message needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from agentmesh import Board
from agentmesh.board import tasks
from agentmesh.errors import NotFound, Pruned
from agentmesh.limits import PAGE
from agentmesh.model import Attempt, Event, Task
from agentmesh.store.base import Transaction
from pytest_agentmesh import pages
from pytest_agentmesh.assertions.wording import MOST, alike, cut, folded, message, names, quoted, table, usd
from pytest_agentmesh.durations import words

ENDS: Final = frozenset(
    {"task_completed", "task_failed", "task_released", "task_split", "lease_reclaimed", "task_cancelled"}
)
"""The events that end an attempt."""
MOVES: Final = ENDS | {"task_claimed", "task_due", "task_reopened"}
"""The events that bring a task to another state."""
STORY: Final = MOVES | {"task_created", "task_resumed", "dependency_added", "dependency_removed"}
"""The events that tell how a task came to where it is."""
OF_ATTEMPTS: Final = (ENDS - {"task_cancelled"}) | {"task_claimed", "task_resumed", "heartbeat", "usage_recorded"}
"""The events that say which attempt they belong to."""
TIMES: Final = {"due_us": "due at", "expires_us": "until", "until_us": "until"}
"""The instants that events name."""


@dataclass(frozen=True, slots=True)
class Turn:
    """An attempt with its number, 1 for a task's first hand-out, and the events that began and ended it."""

    number: int
    attempt: Attempt
    began: Event | None
    ended: Event | None

    @property
    def outcome(self) -> str:
        """How it ended; `open` while it has not."""
        return self.attempt.outcome or "open"

    def over_before(self, other: Turn) -> bool:
        """Whether it ended before the other began; the history decides where the clock stood still.

        What has no event happened before the history that is kept.
        """
        if self.attempt.ended_us is None:
            return False
        end, start = self.ended.seq if self.ended else 0, other.began.seq if other.began else 0
        return end < start if end != start else self.attempt.ended_us <= other.attempt.started_us


class Witness:
    """A board, read as an assertion looks at it. It never writes."""

    def __init__(self, board: Board) -> None:
        """Nothing is read yet."""
        self.board = board

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """Every task by id, in the order of their creation, at one instant, without their long texts."""
        return {task.id: task for task in self.board.store.read(_every_task)}

    @cached_property
    def history(self) -> list[Event]:
        """All events that are kept."""
        return pages.events(self.board)

    @cached_property
    def gap(self) -> str | None:
        """Why the history does not tell everything; None when it does."""
        first = self.history[0] if self.history else None
        if first is not None and first.seq > 1:
            return f"the history before event {first.seq} was pruned"
        if first is not None and first.kind == "board_imported":
            return "the board was imported, and an import begins a new history"
        return None

    @cached_property
    def by_task(self) -> dict[str, list[Event]]:
        """The events of each task."""
        found: dict[str, list[Event]] = {}
        for event in self.history:
            if event.task_id is not None:
                found.setdefault(event.task_id, []).append(event)
        return found

    @cached_property
    def zero_us(self) -> int:
        """When it all began: what the times of a message count from."""
        oldest = self.board.list_tasks(limit=1).tasks
        return min([task.created_us for task in oldest] + [event.at_us for event in self.history[:1]], default=0)

    @cached_property
    def now_us(self) -> int:
        """The board's time."""
        return self.board.status().now_us

    def at(self, us: int) -> str:
        """An instant, as the time since the board's first event."""
        return words(us - self.zero_us)

    def task(self, task_id: str) -> Task:
        """A task with its long texts.

        Raises:
            AssertionError: it is not on the board.
        """
        __tracebackhide__ = True
        try:
            return self.board.get_task(task_id)
        except Pruned as gone:
            problem = f"task {task_id!r} is no longer on the board: it was pruned after it ended as {gone.state}"
        except NotFound:
            problem = f"there is no task {task_id!r} on the board; {alike(task_id, self.tasks)}"
        raise AssertionError(message(problem))

    def moved(self, task_id: str) -> Event | None:
        """The event that brought a task to its state; None for one that stands where it was created."""
        return next((event for event in reversed(self.by_task.get(task_id, ())) if event.kind in MOVES), None)

    def story(self, task_id: str, most: int = 3) -> list[Event]:
        """The last events that tell how a task came to where it is."""
        return [event for event in self.by_task.get(task_id, ()) if event.kind in STORY][-most:]

    def turns(self, task_id: str) -> list[Turn]:
        """The attempts of a task that is there, oldest first."""
        events = [event for event in self.by_task.get(task_id, ()) if event.fence is not None]
        began = {event.fence: event for event in events if event.kind == "task_claimed"}
        ended = {event.fence: event for event in events if ends_attempt(event)}
        return [
            Turn(number, attempt, began.get(attempt.fence), ended.get(attempt.fence))
            for number, attempt in enumerate(self.board.attempts(task_id), start=1)
        ]

    def told(self, events: Iterable[Event | None]) -> list[str]:
        """Events as the lines that quote them, oldest first, the latest if they are many."""
        found = sorted({event.seq: event for event in events if event is not None}.items())
        shown = [event for _, event in found[-MOST:]]
        heads = table(
            ("", "", "", ""),
            [(f"event {event.seq}", self.at(event.at_us), event.kind, cut(event.task_id or "")) for event in shown],
            "rr",
        )[1:]
        width = max(map(len, heads), default=0)
        lines = [
            line
            for head, event in zip(heads, shown, strict=True)
            for line in folded(particulars(self, event), f"{head:<{width}}  ")
        ]
        return [f"... {len(found) - MOST:,} events before", *lines] if len(found) > MOST else lines


def ends_attempt(event: Event) -> bool:
    """Whether an attempt ended with it: a task that nobody holds is cancelled, too."""
    return event.kind in ENDS and (event.kind != "task_cancelled" or event.data.get("was") == "in_progress")


def named(task: Task) -> str:
    """A task in a headline: its id and, where the board made that up, its title."""
    title = titled(task)
    return f"task {task.id}" + (f" ({title})" if title else "")


def titled(task: Task | None) -> str:
    """The title of a task whose id tells nothing, since the board made it up."""
    return quoted(task.title, 40) if task is not None and task.id.startswith("task_") else ""


def since(witness: Witness, event: Event | None, us: int) -> str:
    """An instant and the event of it: `15s (event 12)`."""
    return witness.at(us) + (f" (event {event.seq})" if event else "")


def particulars(witness: Witness, event: Event) -> str:
    """What else an event says, in a few words."""
    data = event.data
    attempt = f"attempt {event.fence}" if event.fence is not None and event.kind in OF_ATTEMPTS else None
    tokens = f"{data['tokens']:,} tokens" if "tokens" in data else None
    cost = "no known price" if "unpriced" in data else f"{usd(data.get('cost_pusd', 0))} USD"
    verb = "no longer waits for" if event.kind == "dependency_removed" else "waits for"
    parents = [data["parent"]] if "parent" in data else data.get("depends_on", ())
    parts = (
        ", ".join(filter(None, (event.agent_id, attempt))),
        f"{place(data['namespace'], data['key'])}, version {data['version']}" if "key" in data else None,
        f"{tokens}, {cost}" if tokens else None,
        f"{verb} {names(parent.removesuffix(':completed') for parent in parents)}" if parents else None,
        f"because of {data['root']}" if "root" in data else None,
        _limit(data) if "limit_pusd" in data else None,
        f"now {data['state']}" if "state" in data and event.kind != "task_created" else None,
        "late" if "late" in data else None,
        *(f"{word} {witness.at(data[field])}" for field, word in TIMES.items() if field in data),
    )
    return "; ".join(filter(None, parts))


def _limit(data: Mapping[str, Any]) -> str:
    """What a budget allows, as an event of it says."""
    pusd, tokens = data["limit_pusd"], data["limit_tokens"]
    limits = [f"{usd(pusd)} USD"] if pusd is not None else []
    limits += [f"{tokens:,} tokens"] if tokens is not None else []
    whose = f"{data['scope']} {data['name']}".strip()
    return f"{whose}: {names(limits)}{' a day' if data['period'] == 'day' else ''}"


def place(namespace: str, key: str) -> str:
    """An entry by its whole name; the root namespace has none."""
    return f"{namespace}/{key}" if namespace else key


def _every_task(tx: Transaction) -> list[Task]:
    found: list[Task] = []
    cursor: int | None = 0
    while cursor is not None:
        page = tasks.page(tx, plan=None, state=None, tag=None, holder=None, limit=PAGE, after=cursor)
        found += page.tasks
        cursor = page.cursor
    return found
