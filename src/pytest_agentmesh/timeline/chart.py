"""The picture of the page: lanes, bars, hand-overs, faults and the curve of cost as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final, NamedTuple

from agentmesh.model import Event
from agentmesh.printable import one_line
from pytest_agentmesh.durations import words
from pytest_agentmesh.faults import FaultMark
from pytest_agentmesh.timeline.scale import Scale
from pytest_agentmesh.timeline.story import Bar, Lane, Story
from pytest_agentmesh.timeline.words import usd

ROW: Final = 26
PAD: Final = 4
BAR: Final = 18
NARROWEST: Final = 620
WIDEST: Final = 4_000
PER_BAR: Final = 72
"""Pixels that half of the leases get at least, as far as the picture may grow for it."""
PER_TICK: Final = 105
COLOURS: Final = 8
EDGE: Final = 0.02
"""How near to an end of the axis a label is not centred."""
MOST_BARS: Final = 10_000
MOST_POINTS: Final = 1_000
BADGES: Final = {"failed": "\N{MULTIPLICATION SIGN}", "released": "<", "split": "/", "reclaimed": "!", "cancelled": "X"}
ALARMS: Final = ("failed", "reclaimed", "cancelled")
BOLT: Final = "M1 -10L-6 1H-1L-2 10L6 -2H1Z"
ENDED: Final = {
    None: "still held",
    "completed": "completed",
    "failed": "failed",
    "released": "given back",
    "split": "split",
    "reclaimed": "taken back",
    "cancelled": "cancelled",
}


def text(foreign: str) -> str:
    """Any text as HTML that shows it and does nothing else."""
    return escape(one_line(foreign))


class Chart(NamedTuple):
    """The picture as HTML, and what it adds to the style of its page."""

    html: list[str]
    style: str


def chart(story: Story, scale: Scale) -> Chart:
    """Draw a story."""
    if not story.lanes:
        return Chart(['<p class="note">Nobody has held a task yet.</p>'], "")
    drawing = _Drawing(story, scale)
    html = [
        '<div class="frame" tabindex="0" role="region" aria-label="Timeline of leases"><div class="chart">',
        '<div class="corner">agent</div>',
        *drawing.axis(),
        *drawing.names(),
        *drawing.lanes(),
        *drawing.money(),
        "</div></div>",
        *drawing.legend(),
        *drawing.notes(),
    ]
    return Chart(html, drawing.style())


class _Drawing:
    def __init__(self, story: Story, scale: Scale) -> None:
        self._story = story
        self._scale = scale
        shares = sorted(scale.place(self._story.until(bar)) - scale.place(bar.start_us) for bar in story.bars)
        usual = shares[len(shares) // 2] if shares else 1.0
        self._wide = round(min(max(NARROWEST, PER_BAR / max(usual, 0.001)), WIDEST))
        self._ticks = scale.ticks(max(self._wide // PER_TICK, 2))
        self._tops: dict[str, int] = {}
        top = 0
        for lane in story.lanes:
            self._tops[lane.agent] = top
            top += _height(lane)
        self._height = top
        names = dict.fromkeys(bar.task_id for bar in story.bars)
        self._colours = {name: place % COLOURS for place, name in enumerate(names)}
        self._bars = story.bars[:MOST_BARS]

    def style(self) -> str:
        """How wide the picture is at least, how high the names of agents are: the policy keeps both out of tags."""
        rows = sorted({lane.rows for lane in self._story.lanes})
        heights = "".join(f".r{count} {{ height: {count * ROW + 2 * PAD}px; }}\n" for count in rows)
        return f":root {{ --wide: {self._wide}px; }}\n{heights}"

    def axis(self) -> Iterator[str]:
        """The labels of the ticks."""
        yield '<div class="axis"><svg width="100%" height="30">'
        for us in self._ticks:
            place = self._scale.place(us)
            anchor = "start" if place < EDGE else _anchor(place)
            label = words(us - self._scale.start_us)
            yield f'<text class="tick" x="{_x(place)}" y="20" text-anchor="{anchor}">{label}</text>'
        yield "</svg></div>"

    def names(self) -> Iterator[str]:
        """The agents, beside their lanes."""
        yield '<div class="names">'
        for lane in self._story.lanes:
            yield f'<div class="name r{lane.rows}" title="{text(lane.agent)}">{text(lane.agent)}</div>'
        yield "</div>"

    def lanes(self) -> Iterator[str]:
        """The lanes, one below the other."""
        yield f'<div class="lanes"><svg width="100%" height="{self._height}" role="img" aria-label="Leases">'
        yield '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse"'
        yield ' patternTransform="rotate(45)"><line class="hatch" x1="1" y1="0" x2="1" y2="6"/></pattern>'
        yield '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        yield '<path class="head" d="M0 0L8 4L0 8Z"/></marker></defs>'
        yield from self._ground()
        for bar in self._bars:
            yield from self._hand_over(bar)
        for bar in self._bars:
            yield from self._bar(bar)
        for bar in self._bars:
            yield from self._badge(bar)
        for lane in self._story.lanes:
            for mark in lane.faults:
                yield self._bolt(lane, mark)
        yield "</svg></div>"

    def money(self) -> Iterator[str]:
        """What had been spent by then, as a curve of steps."""
        money = self._story.money
        total = money[-1][1] if money else 0
        if not money:
            return
        shown = usd(total) if total else "no known cost"
        tokens = f"{self._story.tokens:,} tokens" if self._story.tokens else ""
        yield f'<div class="what">cost<b>{shown}</b>{tokens}</div><div class="money">'
        yield f'<svg width="100%" height="84" role="img" aria-label="Cost so far, {shown} in the end">'
        points = [(0.0, 0), *((self._scale.place(us), spent) for us, spent in money), (1.0, total)]
        path, level = "M0 100", 100.0
        for place, spent in points:
            height = 100 - 92 * spent / (total or 1)
            path += f"L{1000 * place:.2f} {level:.2f}L{1000 * place:.2f} {height:.2f}"
            level = height
        yield '<svg y="6" width="100%" height="56" viewBox="0 0 1000 100" preserveAspectRatio="none">'
        yield f'<path class="area" d="{path}L1000 100Z"/><path class="curve" d="{path}"/></svg>'
        for event, (us, spent) in zip(self._usage(), money[:MOST_POINTS], strict=False):
            who = text(f"{event.agent_id}{f', {event.task_id}' if event.task_id else ''}")
            yield f'<svg x="{_x(self._scale.place(us))}"><a href="#e{event.seq}">'
            yield '<rect class="hit" x="-4" width="8" height="64">'
            yield f"<title>{usd(spent)} at {words(us - self._scale.start_us)}, by {who}</title></rect></a></svg>"
        yield from self._sums()
        yield "</svg></div>"

    def legend(self) -> Iterator[str]:
        """What the signs mean."""
        bars, faults = self._story.bars, self._story.faults
        yield '<ul class="legend">'
        yield _item('<rect class="bar c0" x="1" y="2" width="26" height="12" rx="3"/>', "lease, coloured by task")
        if any(bar.beats for bar in bars):
            yield _item('<line class="beat" x1="14" x2="14" y1="3" y2="13"/>', "heartbeat")
        if any(bar.overdue for bar in bars):
            yield _item('<rect class="over" x="1" y="2" width="26" height="12"/>', "past its lease")
        if any(bar.taken_over for bar in bars):
            yield _item('<line class="hand" x1="1" x2="26" y1="8" y2="8" marker-end="url(#head)"/>', "handed over")
        for end, sign in BADGES.items():
            if any(bar.end == end for bar in bars):
                yield _item(f'<g transform="translate(14 8)">{_sign(end, sign)}</g>', ENDED[end])
        if any(bar.end is None for bar in bars):
            yield _item('<path class="open" d="M10 3L19 8L10 13Z"/>', ENDED[None])
        if faults:
            yield _item(f'<path class="bolt" transform="translate(14 8) scale(.8)" d="{BOLT}"/>', "fault")
        yield "</ul>"

    def notes(self) -> Iterator[str]:
        """What is left out."""
        for cut in self._scale.cuts:
            long = words(cut.end_us - cut.start_us)
            yield f'<p class="note">≈ {long} are left out in which nothing happened.</p>'
        if len(self._bars) < len(self._story.bars):
            drawn, there = len(self._bars), len(self._story.bars)
            yield f'<p class="note">Only the first {drawn:,} of {there:,} leases are drawn.</p>'

    def _ground(self) -> Iterator[str]:
        """Stripes, ticks and cuts, below everything."""
        for number, lane in enumerate(self._story.lanes):
            if number % 2:
                high = f'class="stripe" y="{self._tops[lane.agent]}" height="{_height(lane)}"'
                yield f'<rect {high} x="-10" width="10"/><rect {high} width="100%"/><rect {high} x="100%" width="18"/>'
        for us in self._ticks:
            place = _x(self._scale.place(us))
            yield f'<line class="grid" x1="{place}" x2="{place}" y2="{self._height}"/>'
        for cut in self._scale.cuts:
            where = f'x="{_x(cut.start)}" width="{_x(cut.length)}"'
            long = words(cut.end_us - cut.start_us)
            told = f"<title>{long} in which nothing happened</title>"
            yield f'<rect class="cut" {where} height="{self._height}">{told}</rect>'
            yield f'<text class="cut-sign" x="{_x(cut.start + cut.length / 2)}" y="15">≈</text>'

    def _bar(self, bar: Bar) -> Iterator[str]:
        """A lease: its box, its heartbeats, its name."""
        start, end, y = self._scale.place(bar.start_us), self._scale.place(self._story.until(bar)), self._y(bar)
        wide = max(end - start, 0.0)
        yield f'<g id="b{bar.start_seq}"><a href="#e{bar.start_seq}"><title>{text(self._told(bar))}</title>'
        box = f'y="{y}" height="{BAR}" rx="4"'
        yield f'<rect class="base" x="{_x(start)}" width="{_x(wide)}" {box}/>'
        yield f'<rect class="bar c{self._colours[bar.task_id]}" x="{_x(start)}" width="{_x(wide)}" {box}/>'
        if bar.due_us is not None and (since := self._scale.place(bar.due_us)) < end:
            yield f'<rect class="over" x="{_x(since)}" width="{_x(end - since)}" {box}/>'
        for us in bar.beats:
            x = _x(self._scale.place(us))
            yield f'<line class="beat" x1="{x}" x2="{x}" y1="{y + 11}" y2="{y + BAR}"/>'
        if wide * self._wide > BAR:
            yield f'<svg class="clip" x="{_x(start)}" y="{y}" width="{_x(wide)}" height="{BAR}">'
            yield f'<text class="label" x="6" y="13">{text(bar.name)}</text></svg>'
        yield "</a></g>"

    def _badge(self, bar: Bar) -> Iterator[str]:
        """How a lease ended, at its end, where that was not as it should be."""
        sign = BADGES.get(bar.end or "")
        place = f'x="{_x(self._scale.place(self._story.until(bar)))}" y="{self._y(bar) + BAR // 2}"'
        if bar.end is None:
            yield f'<svg {place}><path class="open" d="M-1 -6L8 0L-1 6Z"/></svg>'
        elif sign:
            link = f'<a href="#e{bar.end_seq}"><title>{text(self._told(bar))}</title>{_sign(bar.end, sign)}</a>'
            yield f"<svg {place}>{link}</svg>"

    def _hand_over(self, bar: Bar) -> Iterator[str]:
        """The arrow from the lease that an agent took a task over from."""
        last = bar.since
        if last is None or not bar.taken_over:
            return
        here, there = self._y(bar), self._y(last)
        y1, y2 = (there + BAR, here) if there < here else (there, here + BAR)
        x1, x2 = _x(self._scale.place(self._story.until(last))), _x(self._scale.place(bar.start_us))
        yield f'<line class="hand" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#head)"/>'

    def _bolt(self, lane: Lane, mark: FaultMark) -> str:
        y = self._tops[lane.agent] + PAD + self._story.row(lane, mark.at_us) * ROW + ROW // 2
        told = text(f"{mark.fault} at {words(mark.at_us - self._scale.start_us)}: {mark.what}")
        place = f'x="{_x(self._scale.place(mark.at_us))}" y="{y}"'
        return f'<svg {place}><path class="bolt" d="{BOLT}"><title>{told}</title></path></svg>'

    def _sums(self) -> Iterator[str]:
        """Dollars below the curve, at the ticks."""
        if not self._story.money[-1][1]:
            return
        for us in self._ticks[1:]:
            spent = max((amount for at, amount in self._story.money if at <= us), default=0)
            place = self._scale.place(us)
            yield f'<text class="sum" x="{_x(place)}" y="78" text-anchor="{_anchor(place)}">{usd(spent)}</text>'

    def _usage(self) -> Iterator[Event]:
        return (event for event in self._story.events if event.kind == "usage_recorded")

    def _told(self, bar: Bar) -> str:
        """All of a lease in words, for who points at it."""
        start, until = bar.start_us - self._scale.start_us, self._story.until(bar) - self._scale.start_us
        title = self._story.titles.get(bar.task_id)
        how = ENDED[bar.end] + (", late" if bar.late else "")
        named = f"{bar.task_id}, attempt {bar.fence}" + (f": {title}" if title else "")
        return f"{named} - {bar.agent}, {words(start)} to {words(until)}, {how}, {len(bar.beats)} heartbeats"

    def _y(self, bar: Bar) -> int:
        return self._tops[bar.agent] + PAD + bar.row * ROW + (ROW - BAR) // 2


def _height(lane: Lane) -> int:
    return lane.rows * ROW + 2 * PAD


def _anchor(place: float) -> str:
    """What of a label stands at its place, so that it stays inside."""
    return "end" if place > 1 - EDGE else "middle"


def _x(place: float) -> str:
    return f"{100 * place:.3f}%"


def _sign(end: str | None, sign: str) -> str:
    alarm = " alarm" if end in ALARMS else ""
    return f'<circle class="badge{alarm}" r="7"/><text class="sign" y="3.5">{escape(sign)}</text>'


def _item(drawn: str, told: str) -> str:
    return f'<li><svg width="28" height="16" aria-hidden="true">{drawn}</svg>{told}</li>'
