"""Foreign text, made harmless: what could act is shown, what is merely foreign stays."""

import pytest

from agentmesh.printable import lines, one_line
from tests.support.hostile import TERMINAL, TEXTS, UNICODE


@pytest.mark.parametrize("text", [*TERMINAL, *UNICODE])
def test_whatever_could_act_is_shown_instead(text):
    """The text becomes printable, and nothing of it is lost."""
    shown = one_line(text)

    assert shown.isprintable()
    assert len(shown) > len(text)


def test_ordinary_text_stays_as_it_is():
    """Letters of all scripts, emoji and accents are not escaped."""
    for text in ("plain", "Grüße, café", "漢字かな", "שלום", "🎉 [x]", "e\u0301"):
        assert one_line(text) == text


def test_a_flood_of_marks_is_dammed():
    """A stack of combining marks cannot climb over the lines above."""
    assert one_line("e" + "\u0301" * 50).count("\u0301") <= 4


def test_only_a_line_feed_breaks_a_line():
    """A carriage return or a line separator cannot hide what stands before it."""
    assert lines("a\r\nb\rc\u2028d") == ["a", r"b\rc\u2028d"]


@pytest.mark.parametrize("text", TEXTS)
def test_whatever_comes_is_one_printable_line(text):
    """A text that is one already stays as it is."""
    shown = one_line(text)
    assert shown.isprintable()
    assert shown == text or not (text.isascii() and text.isprintable())
