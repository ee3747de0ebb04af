"""Watch a board live: who works on what, and what just happened.

The display looks for news twice a second, which also keeps the running leases counting. In a pipe, events come
as lines. Ctrl-C is looked for as often: an exception amid the drawing could leave the terminal half set up, or be lost.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import click

from agentmesh.cli.command import App, command, interruptible, stoppable
from agentmesh.cli.look import show_status
from agentmesh.cli.money import Money, read_money
from agentmesh.cli.records import event_parts, lease_left
from agentmesh.cli.screen import STYLES, Column, Line, Part, Screen, fold, styled, table_lines
from agentmesh.cli.streams import need_output
from agentmesh.documents import document
from agentmesh.errors import CursorExpired
from agentmesh.model import STATES, Event, Status, Task

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agentmesh.board.facade import Board

_KEPT: Final = 100
_LOOK_SEC: Final = 0.5
_LOOK_BACK: Final = 20


@dataclass(slots=True)
class View:
    """What the display shows."""

    status: Status
    running: tuple[Task, ...] = ()
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_KEPT))
    cursor: int = 0


@command()
@click.option("--once", is_flag=True, help="Show the board as it is now, and end. --json implies it.")
@click.option("--after", type=int, help="Begin after this event; else with the last few.")
@click.pass_obj
def watch(app: App, once: bool, after: int | None) -> None:  # noqa: FBT001 - click passes flags by name
    """Show the board live until Ctrl-C; in a pipe, write each event as a line."""
    if not (once or app.json):
        need_output("every event")
        _follow(app, after)
        return
    with interruptible(), app.open() as board:
        view = _begin(board, after)
        _look(board, view, wait_sec=0)
        money = read_money(board)
        app.answer(_document(view), lambda screen: _show(screen, view, money))


def _follow(app: App, after: int | None) -> None:
    """Show what happens until Ctrl-C or SIGTERM, the usual ways to end it."""
    with stoppable() as stopped, app.open() as board:
        screen = Screen()
        (_follow_live if screen.live else _follow_lines)(board, _begin(board, after), screen, stopped)


def _begin(board: Board, after: int | None) -> View:
    status = board.status()
    cursor = max(0, status.last_seq - _LOOK_BACK) if after is None else after
    return View(status, cursor=cursor)


def _look(board: Board, view: View, *, wait_sec: float) -> list[Event]:
    """Bring the view up to date, at once when something happened, else after `wait_sec`."""
    try:
        news = board.events(view.cursor, wait_sec=wait_sec)
    except CursorExpired:  # the past was pruned away: go on from now
        view.cursor, news = board.status().last_seq, []
    if news:
        view.cursor = news[-1].seq
    view.events.extend(news)
    view.status = board.status()
    view.running = board.list_tasks(state="in_progress", limit=50).tasks
    return news


def _follow_lines(board: Board, view: View, screen: Screen, stopped: threading.Event) -> None:
    while not stopped.is_set():
        for event in _look(board, view, wait_sec=_LOOK_SEC):
            screen.line(*event_parts(event))
        screen.flush()


def _follow_live(board: Board, view: View, screen: Screen, stopped: threading.Event) -> None:
    from rich.live import Live

    _look(board, view, wait_sec=0)
    with Live(_picture(view, screen), console=screen.console(), auto_refresh=False) as live:
        while not stopped.is_set():
            live.update(_picture(view, screen), refresh=True)
            _look(board, view, wait_sec=_LOOK_SEC)


def _picture(view: View, screen: Screen) -> RenderableType:
    """The display for a terminal of the present size."""
    from rich.console import Group

    size = screen.console().size
    lines = [*fold(_counts(view.status), size.width), *_running(view, size.width)]
    room = max(size.height - len(lines) - 2, 3)
    news = [line for event in view.events for line in fold(event_parts(event), size.width)]
    return Group(*(styled(line) for line in [*lines, *news[-room:]]))


def _counts(status: Status) -> Line:
    counts: list[Part] = [(f"{status.counts[s]} {s}  ", STYLES[s]) for s in STATES if status.counts.get(s)]
    stopped = any(pause.scope != "task" for pause in status.pauses)
    paused: list[Part] = [("PAUSED", "bold magenta")] if stopped else []
    if status.paused_tasks:
        paused.append((f"{status.paused_tasks} paused", "bold magenta"))
    return [*(counts or ["The board is empty."]), *paused]


def _running(view: View, width: int | None) -> list[Line]:
    """The running attempts."""
    columns = [Column("TASK"), Column("AGENT"), Column("LEASE"), Column("TITLE", wraps=True)]
    rows: list[list[Part]] = [
        [(t.id, "bold"), t.holder or "", lease_left(t, view.status.now_us), t.title] for t in view.running
    ]
    table = table_lines(columns, rows, width) if rows else []
    return [[""], *(table or [[("Nobody works on a task now.", "dim")]]), [""]]


def _show(screen: Screen, view: View, money: Money) -> None:
    """The board as it is now, for `--once`."""
    show_status(screen, view.status, money)
    for line in _running(view, screen.width):
        screen.line(*line)
    for event in view.events:
        screen.line(*event_parts(event))


def _document(view: View) -> dict[str, object]:
    return {
        "status": {"counts": {}, "plans": []} | document(view.status),
        "running": [document(task) for task in view.running],
        "events": [document(event) for event in view.events],
        "cursor": view.cursor,
    }
