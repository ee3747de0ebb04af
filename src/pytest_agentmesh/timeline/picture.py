"""The timeline as plain text: a lane per agent, a bar per lease, money under the axis, what matters as a list below."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import Final
from unicodedata import combining, east_asian_width

from agentmesh.documents import rfc3339
from agentmesh.printable import one_line
from pytest_agentmesh.durations import words
from pytest_agentmesh.timeline.moments import moments
from pytest_agentmesh.timeline.scale import Scale
from pytest_agentmesh.timeline.story import Bar, Lane, Story
from pytest_agentmesh.timeline.words import usd

NARROWEST: Final = 60
NAME: Final = 16
TICK: Final = 12
"""Columns that a tick of the axis and its label need."""
MOST_ROWS: Final = 40
MOST_MOMENTS: Final = 20
BODY, BEAT, OVERDUE, HAND_OVER, BOLT, DENSE, CUT = "─", "┼", "┄", "»", "↯", "▪", "≈"
ENDS: Final = {
    "completed": "]",
    "failed": "x",
    "released": "<",
    "split": "/",
    "reclaimed": "!",
    "cancelled": "X",
    None: ">",
}
CURVE: Final = "▁▂▃▄▅▆▇█"
LEGEND: Final[tuple[tuple[Callable[[Story], bool], str], ...]] = (
    (lambda story: bool(story.bars), f"[{BODY}{BODY}] lease"),
    (lambda story: any(bar.beats for bar in story.bars), f"{BEAT} heartbeat"),
    (lambda story: any(bar.taken_over for bar in story.bars), f"{HAND_OVER} handed over"),
    (lambda story: any(bar.overdue for bar in story.bars), f"{OVERDUE} past its lease"),
    *(
        (lambda story, end=end: any(bar.end == end for bar in story.bars), f"{sign} {word}")
        for end, sign, word in (
            ("reclaimed", "!", "taken back"),
            ("failed", "x", "failed"),
            ("released", "<", "given back"),
            ("split", "/", "split"),
            ("cancelled", "X", "cancelled"),
        )
    ),
    (lambda story: any(bar.end is None for bar in story.bars), "> still held"),
    (lambda story: bool(story.faults), f"{BOLT} fault"),
)
"""The signs, each with when it is worth explaining."""


def picture(story: Story, width: int) -> str:
    """The story in at most `width` columns."""
    width = max(width, NARROWEST)
    widest = max((len(_cells(lane.agent)) for lane in story.lanes), default=0)
    name = max(min(widest, NAME, width // 4), len("time"))
    canvas = _Canvas(story, width - name - 2)
    lines = wrap(_head(story), width)
    if not story.lanes and not story.money:
        return "\n".join([*lines, *_listed(story, width)]) + "\n"
    lines.append("")
    lanes, more = _shown(story)
    lines += canvas.axis(name)
    for lane in lanes:
        for number, row in enumerate(canvas.lane(lane)):
            who = _fit(_cells(lane.agent), name) if number == 0 else []
            lines.append(f"{''.join(who)}{' ' * (name - len(who))}  {row}")
    if more:
        lines.append(f"and {more} more agents: timeline_html() shows them all")
    lines += canvas.money(name)
    lines += ["", *_wrapped([text for shown, text in LEGEND if shown(story)], width)]
    lines += [
        f"{CUT} {words(cut.end_us - cut.start_us)} are left out in which nothing happened" for cut in canvas.scale.cuts
    ]
    if canvas.dense:
        lines.append(f"{DENSE} several short leases in one column")
    lines += _listed(story, width)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _head(story: Story) -> str:
    counts = ", ".join(
        f"{count} {noun}{'' if count == 1 else 's'}"
        for count, noun in (
            (len(story.events), "event"),
            (len(story.lanes), "agent"),
            (len({event.task_id for event in story.events if event.task_id}), "task"),
        )
    )
    back = f"; the clock was set back {story.clock_set_back} times" if story.clock_set_back else ""
    return f"{counts}, {words(story.end_us - story.start_us)} from {rfc3339(story.start_us)}{back}"


def _shown(story: Story) -> tuple[list[Lane], int]:
    """As many lanes as have room, in the order in which they begin; how many have none."""
    lanes: list[Lane] = []
    for lane in story.lanes:
        if lanes and sum(one.rows for one in lanes) + lane.rows > MOST_ROWS:
            break
        lanes.append(lane)
    return lanes, len(story.lanes) - len(lanes)


def _listed(story: Story, width: int) -> list[str]:
    """What matters, in words."""
    found = moments(story)
    if not found:
        return []
    shown = [(words(moment.at_us - story.start_us), moment) for moment in found[:MOST_MOMENTS]]
    room = max(len(when) for when, _ in shown)
    lines = [""]
    for when, moment in shown:
        event = f" (event {moment.seq})" if moment.seq else ""
        lines += wrap(
            f"{moment.sign} {moment.told}{event}",
            width,
            initial_indent=f"{when:>{room}}  ",
            subsequent_indent=" " * (room + 4),
        )
    return lines + [f"{'':>{room}}  and {len(found) - MOST_MOMENTS} more"] * (len(found) > MOST_MOMENTS)


class _Canvas:
    """Rows of characters over the axis of time."""

    def __init__(self, story: Story, columns: int) -> None:
        self._story = story
        self.scale = Scale(story)
        self.dense = False
        self._columns = columns
        self._ticks = self._spaced()

    def axis(self, name: int) -> list[str]:
        """The labels of the ticks, and the ticks."""
        labels, ticks = [" "] * self._columns, [BODY] * self._columns
        for us in self._ticks:
            column = self._column(us)
            ticks[column] = "┬"
            self._write(labels, column, words(us - self.scale.start_us))
        for cut in self.scale.cuts:
            ticks[self._column((cut.start_us + cut.end_us) // 2)] = CUT
        return [f"{'time':<{name}}  {''.join(labels)}", f"{'':<{name}}  {''.join(ticks)}"]

    def lane(self, lane: Lane) -> list[str]:
        """The rows of an agent."""
        rows = [[" "] * self._columns for _ in range(lane.rows)]
        for bar in lane.bars:
            self._bar(rows[bar.row], bar)
        for bar in lane.bars:
            self._label(rows[bar.row], bar)
        for mark in lane.faults:
            row = self._story.row(lane, mark.at_us)
            column = self._column(mark.at_us)
            hides = rows[row][column] in ENDS.values() and column > 0 and rows[row][column - 1] in (BODY, OVERDUE)
            rows[row][column - hides] = BOLT
        return ["".join(row) for row in rows]

    def money(self, name: int) -> list[str]:
        """What had been spent by then: as a curve, and in dollars at the ticks."""
        if not self._story.money:
            return []
        total = self._story.money[-1][1]
        if not total:
            return ["", f"{'cost':<{name}}  none known, {self._story.tokens} tokens used"]
        curve, amounts = [" "] * self._columns, [" "] * self._columns
        steps = [(self._column(us), spent) for us, spent in self._story.money]
        for column in range(steps[0][0], self._columns):
            spent = max(amount for at, amount in steps if at <= column)
            curve[column] = CURVE[min(spent * len(CURVE) // total, len(CURVE) - 1)]
        for us in self._ticks[1:]:
            column = self._column(us)
            spent = max((amount for at, amount in steps if at <= column), default=0)
            self._write(amounts, column, usd(spent))
        what = f"{usd(total)} in all" + (f", {self._story.tokens} tokens" if self._story.tokens else "")
        if self._story.unpriced:
            what += f", {self._story.unpriced} entries have no known price"
        blank = " " * name
        return ["", f"{'cost':<{name}}  {''.join(curve)}", f"{blank}  {''.join(amounts)}", f"{blank}  {what}"]

    def _bar(self, row: list[str], bar: Bar) -> None:
        first, last = self._extent(row, bar)
        if first == last:
            taken = row[first] != " "
            self.dense = self.dense or taken
            row[first] = DENSE if taken else ENDS[bar.end]
            return
        due = last if bar.due_us is None else self._column(bar.due_us)
        for column in range(first, last + 1):
            row[column] = BODY if column <= due else OVERDUE
        for us in bar.beats:
            row[min(self._column(us), last)] = BEAT
        row[first] = HAND_OVER if bar.taken_over else "[" if bar.begun else BODY
        row[last] = ENDS[bar.end]

    def _label(self, row: list[str], bar: Bar) -> None:
        """The name of a lease: inside its bar, else behind it where nothing follows."""
        first, last = self._extent(row, bar)
        label = _cells(bar.name)
        inside = row[first + 1 : last]
        if len(label) <= len(inside):
            row[first + 1 : first + 1 + len(label)] = label
        elif set(row[last + 1 : last + 2 + len(label)]) <= {" "} and last + len(label) < self._columns:
            row[last + 1 : last + 1 + len(label)] = label
        elif len(inside) >= len("a…"):
            row[first + 1 : last] = _fit(label, len(inside))

    def _extent(self, row: list[str], bar: Bar) -> tuple[int, int]:
        """The first and the last column of a lease; the sign of one that was lost before it stays to be seen."""
        first = self._column(bar.start_us)
        last = max(self._column(self._story.until(bar)), first)
        lost = row[first] in (ENDS["reclaimed"], ENDS["cancelled"]) and first < last
        return first + lost, last

    def _column(self, us: int) -> int:
        return min(int(self.scale.place(us) * (self._columns - 1) + 0.5), self._columns - 1)

    def _spaced(self) -> list[int]:
        """The ticks whose labels do not touch."""
        found: list[int] = []
        free = 0
        for us in self.scale.ticks(max(self._columns // TICK, 1)):
            column = self._column(us)
            if column >= free:
                found.append(us)
                free = column + max(len(words(us - self.scale.start_us)) + 2, TICK - 4)
        return found

    def _write(self, row: list[str], column: int, text: str) -> None:
        """Write a text from a column on, moved to the left where it would not fit, if nothing is there."""
        column = min(column, self._columns - len(text))
        if column >= 0 and set(row[max(column - 1, 0) : column + len(text)]) <= {" "}:
            row[column : column + len(text)] = text


def _cells(text: str) -> list[str]:
    """A text by the columns that it takes: a wide character fills two, a mark stands with the one before it."""
    found: list[str] = []
    for character in one_line(text):
        if combining(character) and found:
            found[-1] += character
        else:
            found += [character, ""] if east_asian_width(character) in "WF" else [character]
    return found


def _fit(cells: list[str], most: int) -> list[str]:
    """As much of a text as has room."""
    if len(cells) <= most:
        return cells
    kept = cells[: most - 1] if cells[most - 1] else [*cells[: most - 2], " "]  # half of a wide one is none
    return [*kept, "…"]


def _wrapped(parts: list[str], width: int) -> Iterator[str]:
    """Parts side by side, as many as a line has room for."""
    line = ""
    for part in parts:
        if line and len(line) + 3 + len(part) > width:
            yield line
            line = ""
        line += ("   " if line else "") + part
    if line:
        yield line
