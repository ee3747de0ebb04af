"""Pictures of a history: what they show, that they fit, and that what agents wrote does nothing in them."""

import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_agentmesh.faults import FaultMark, kill
from pytest_agentmesh.history import History
from pytest_agentmesh.timeline.page import page
from pytest_agentmesh.timeline.story import tell
from tests.support.boards import claimed, put
from tests.support.hostile import HTML, ORDERS, TERMINAL, UNICODE
from tests.support.played import play

GOLDEN = Path(__file__).parent / "golden" / "timeline"
EVIL = "</script></style><img src=x onerror=alert(1)>\"'&amp; \u202edesrever\u202c"


@pytest.fixture
def history(mesh_board):
    """The history of a board on a test's clock."""
    return History(mesh_board)


class Tags(HTMLParser):
    """What a browser makes of a page: tags, attributes and text."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text = [], [], []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        """A tag begins."""
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        """Text between tags."""
        self.text.append(data)


def test_a_played_board_is_drawn_as_it_always_was(mesh_board):
    """Byte for byte: in 100 and in 80 columns, and as a page."""
    history = History(mesh_board, play(mesh_board))
    assert history.timeline() == (GOLDEN / "played.txt").read_text()
    assert history.timeline(80) == (GOLDEN / "played_80.txt").read_text()
    assert history.timeline_html() == (GOLDEN / "played.html").read_text()


@pytest.mark.parametrize("width", [60, 80, 100, 180])
def test_a_picture_is_never_wider_than_it_may_be(mesh_board, width):
    """At any width, all of its lines fit, and no line ends in blanks."""
    lines = History(mesh_board, play(mesh_board)).timeline(width).splitlines()
    assert max(map(len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []


def test_an_empty_board_has_a_picture(history):
    """Of nothing."""
    assert history.timeline().startswith("0 events, 0 agents, 0 tasks, 0s from 1970-01-01T00:00:00Z")
    assert "Nobody has held a task yet." in history.timeline_html()


def test_leases_held_at_once_stand_in_rows_of_their_own(mesh_board, history):
    """A lane is as high as what its agent holds."""
    put(mesh_board, "a", "b")
    one = claimed(mesh_board, "a", "ann")
    mesh_board.clock.advance(10)
    claimed(mesh_board, "b", "ann")
    mesh_board.clock.advance(10)
    one.complete()
    picture = history.timeline(60).splitlines()
    assert picture[4].startswith("ann   [a──────")
    assert re.fullmatch(r" {20,}\[b─+>", picture[5])


def test_what_was_lost_stays_to_be_seen(mesh_board, history):
    """The next lease of the lane begins a column later; nothing was past its lease, so no sign is explained for it."""
    put(mesh_board, "a", "b", max_attempts=1)
    claimed(mesh_board, "a", "ann")
    mesh_board.clock.advance(60)
    mesh_board.reclaim_zombies()
    claimed(mesh_board, "b", "ann")
    mesh_board.clock.advance(60)
    mesh_board.reclaim_zombies()
    assert re.search(r"^ann +\[a─+!\[b─+!$", history.timeline(), re.MULTILINE)
    assert "past its lease" not in history.timeline()


def test_idle_hours_are_left_out(mesh_board, history):
    """What would press all else together is cut, and the cut is told."""
    put(mesh_board, "a", "b")
    for name in "ab":
        claim = claimed(mesh_board, name)
        mesh_board.clock.advance(30)
        claim.complete()
        mesh_board.clock.advance("5h")
    assert "≈ 5h are left out in which nothing happened" in history.timeline()
    assert "≈ 5h are left out in which nothing happened" in history.timeline_html()


def test_hours_of_work_are_not_left_out(mesh_board, history):
    """A lease that is held for long is not idle time."""
    put(mesh_board, "a", lease_timeout_sec=86_400)
    claim = claimed(mesh_board, "a")
    mesh_board.clock.advance("3h")
    claim.complete()
    assert "left out" not in history.timeline()
    assert "3h" in history.timeline()


def test_many_agents_are_cut_with_a_note(mesh_board, history):
    """The text says how many it does not show; the page shows all of them."""
    put(mesh_board, *(f"t{number}" for number in range(60)))
    for number in range(60):
        claimed(mesh_board, f"t{number}", f"agent-{number}")
    assert "and 20 more agents: timeline_html() shows them all" in history.timeline()
    assert history.timeline_html().count('class="name r1"') == 60


def test_short_leases_in_one_column_are_told(mesh_board, history):
    """A cell that stands for several leases has a sign of its own."""
    put(mesh_board, *"abc")
    for name in "abc":
        claimed(mesh_board, name).complete()
    mesh_board.clock.advance("1h")
    put(mesh_board, "d")
    assert "▪ several short leases in one column" in history.timeline()


def test_wide_letters_take_two_columns(mesh_board):
    """Names in any script keep the columns of the picture."""
    put(mesh_board, "a")
    mesh_board.claim_task("日本語")
    mesh_board.clock.advance(20)
    put(mesh_board, "b")
    claimed(mesh_board, "b", "ann")
    lines = History(mesh_board).timeline(60).splitlines()
    assert lines[4].startswith("日本語  [a")
    assert lines[5].startswith("ann     ")


def test_a_page_fetches_nothing_and_runs_nothing(mesh_board):
    """No script, no style or event in a tag, no address beyond the page; a policy forbids the rest."""
    tags = Tags(History(mesh_board, play(mesh_board)).timeline_html())
    assert not {"script", "img", "link", "iframe", "object", "base"} & set(tags.tags)
    assert [name for name, _ in tags.attributes if name.startswith("on") or name in ("style", "src")] == []
    assert {value[0] for name, value in tags.attributes if name == "href"} == {"#"}
    policy = next(value for name, value in tags.attributes if name == "content")
    assert policy.startswith("default-src 'none'; style-src 'sha256-")


def test_the_policy_allows_the_style_of_its_page(mesh_board):
    """The hash is that of the style, or the page would be bare."""
    shown = History(mesh_board, play(mesh_board)).timeline_html()
    style = re.search(r"<style>(.*?)</style>", shown, re.DOTALL)[1]
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in shown


def test_links_of_a_page_lead_somewhere(mesh_board):
    """Each place that is linked to is there, once."""
    tags = Tags(History(mesh_board, play(mesh_board)).timeline_html())
    places = [value for name, value in tags.attributes if name == "id"]
    linked = {value[1:] for name, value in tags.attributes if name == "href"}
    assert linked <= set(places)
    assert len(places) == len(set(places))


def test_hostile_names_and_titles_come_out_literal(mesh_board):
    """What agents wrote is shown and not obeyed, in the picture and on the page."""
    mesh_board.create_task(EVIL + "x" * 200, id="<b>&amp;")
    claimed(mesh_board, "<b>&amp;", "<svg/onload=alert(1)>")
    mark = FaultMark(mesh_board.clock.now_us(), kill("<i>"), "<svg/onload=alert(1)>", "<i>", EVIL)
    history = History(mesh_board, [mark])
    drawn, picture = history.timeline_html(), history.timeline()
    tags = Tags(drawn)
    shown = EVIL.replace("\u202e", "\\u202e").replace("\u202c", "\\u202c")
    assert shown in "".join(tags.text)
    assert "img" not in tags.tags
    assert "\u202e" not in drawn + picture


@pytest.mark.parametrize("title", [*ORDERS, *TERMINAL, *UNICODE, *HTML])
def test_no_title_breaks_out_of_its_page(board, title):
    """The tags of a page do not depend on what its tasks are called, nor its agents."""
    put(board, "a")
    claimed(board, "a")
    events = History(board).events
    plain = Tags(page(tell(events, (), {"a": "plain"}))).tags
    named = [replace(event, agent_id=title) for event in events]
    assert Tags(page(tell(named, (), {"a": title}))).tags == plain


def test_a_page_is_written_to_a_file(mesh_board, tmp_path):
    """The same text as is returned."""
    history = History(mesh_board, play(mesh_board))
    assert history.timeline_html(tmp_path / "t.html") == (tmp_path / "t.html").read_text(encoding="utf-8")


def test_where_nobody_did_anything_there_is_only_a_headline(mesh_board, mesh_history):
    """An axis without lanes shows nothing."""
    mesh_board.create_tasks([{"title": "A"}, {"title": "B"}])
    assert mesh_history.timeline() == "2 events, 0 agents, 2 tasks, 0s from 2026-01-01T00:00:00Z\n"
