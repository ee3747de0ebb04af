"""All of what a board gives page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from agentmesh.errors import CursorExpired
from agentmesh.limits import PAGE
from agentmesh.model import EntryFacts, Event, State, Task, UsageEntry

if TYPE_CHECKING:
    from agentmesh.board.facade import Board

EVENTS: Final = 1000
"""As many events as a board gives at once."""


def tasks(board: Board, state: State | None = None) -> Iterator[Task]:
    """Every task, or those in one state, in the order of creation, without their long texts."""
    return _each(board.list_tasks, "tasks", state=state)


def entries(board: Board) -> Iterator[EntryFacts]:
    """What is on the blackboard, without the values."""
    return _each(board.blackboard.list, "entries")


def usage(board: Board) -> Iterator[UsageEntry]:
    """The entries of the ledger that are kept, oldest first."""
    return _each(board.ledger.entries, "entries")


def events(board: Board, known: Sequence[Event] = ()) -> list[Event]:
    """The events that are known and those since; all that are kept, where the past was cut off meanwhile."""
    found = list(known)
    after = found[-1].seq if found else 0
    while True:
        try:
            more = board.events(after, limit=EVENTS)
        except CursorExpired as error:
            found, after = [], error.first - 1
            continue
        if not more:
            return found
        found += more
        after = more[-1].seq


def _each(page: Callable[..., Any], what: str, **which: Any) -> Iterator[Any]:
    cursor: int | str | None = None
    while True:
        found = page(limit=PAGE, cursor=cursor, **which)
        yield from getattr(found, what)
        if (cursor := found.cursor) is None:
            return
