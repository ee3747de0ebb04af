"""The timeline as one page of HTML: nothing is fetched, no script runs, what agents wrote is text and no more.

The page forbids everything but its own style, by hash, so that even what should ever slip through does nothing.
Positions along the axis are percentages: the picture is as wide as its window, and its letters stay as they are.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Final

from agentmesh.documents import rfc3339
from agentmesh.model import Event
from pytest_agentmesh.durations import words
from pytest_agentmesh.timeline.chart import chart, text
from pytest_agentmesh.timeline.moments import moments
from pytest_agentmesh.timeline.scale import Scale
from pytest_agentmesh.timeline.story import Story
from pytest_agentmesh.timeline.words import details, usd

MOST_EVENTS: Final = 5_000
MOST_MOMENTS: Final = 200
POLICY: Final = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'"
ALARMS: Final = "!↯X$"


def page(story: Story) -> str:
    """The story as a page."""
    drawn = chart(story, Scale(story))
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8") + drawn.style
    digest = b64encode(sha256(style.encode()).digest()).decode("ascii")
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(digest)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        "<title>AgentMesh timeline</title>",
        f"<style>{style}</style>",
        "<h1>Timeline</h1>",
        f'<p class="facts">{text(_facts(story))}</p>',
        *drawn.html,
        *_moments(story),
        *_table(story),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _facts(story: Story) -> str:
    tasks = len({bar.task_id for bar in story.bars})
    found = [
        f"{len(story.events)} events",
        f"{len(story.lanes)} agents",
        f"{tasks} tasks",
        f"{words(story.end_us - story.start_us)} from {rfc3339(story.start_us)}",
    ]
    if story.money:
        found.append(f"{usd(story.money[-1][1])}, {story.tokens:,} tokens")
    if story.unpriced:
        found.append(f"{story.unpriced} usage entries without a known price")
    if story.clock_set_back:
        found.append(f"the clock was set back {story.clock_set_back} times")
    return " · ".join(found)


def _moments(story: Story) -> Iterator[str]:
    found = moments(story)
    if not found:
        return
    yield "<h2>What to look at</h2>"
    yield '<ol class="moments">'
    for moment in found[:MOST_MOMENTS]:
        when, alarm = words(moment.at_us - story.start_us), " alarm" if moment.sign in ALARMS else ""
        link = f' <a href="#e{moment.seq}">event {moment.seq}</a>' if moment.seq else ""
        sign = f'<span class="sign-of{alarm}">{moment.sign}</span>'
        yield f'<li><span class="when">{when}</span>{sign}<span class="text">{text(moment.told)}{link}</span></li>'
    yield "</ol>"
    if len(found) > MOST_MOMENTS:
        yield f'<p class="note">and {len(found) - MOST_MOMENTS:,} more, which the table of events has.</p>'


def _table(story: Story) -> Iterator[str]:
    yield "<h2>Events</h2>"
    events = story.events[-MOST_EVENTS:]
    if len(events) < len(story.events):
        yield f'<p class="note">The last {len(events):,} of {len(story.events):,}.</p>'
    bars = {(bar.task_id, bar.fence): bar.start_seq for bar in story.bars}
    yield '<div class="table"><table>'
    yield '<tr><th class="n">#<th class="n">Time<th>Agent<th>Event<th>Task<th>What it says</tr>'
    for event in events:
        yield _row(event, bars, story.start_us)
    yield "</table></div>"


def _row(event: Event, bars: dict[tuple[str, int], int], start_us: int) -> str:
    name, bar = event.task_id or "", bars.get((event.task_id or "", event.fence or 0))
    task = text(f"{name}#{event.fence}" if event.fence and name else name)
    cells = (
        f'<td class="n">{event.seq}',
        f'<td class="n">{words(event.at_us - start_us)}',
        f"<td>{text(event.agent_id or '')}",
        f"<td>{text(event.kind)}",
        f'<td><a href="#b{bar}">{task}</a>' if bar else f"<td>{task}",
        f'<td class="says">{escape(details(event, start_us))}',
    )
    return f'<tr id="e{event.seq}">{"".join(cells)}</tr>'
