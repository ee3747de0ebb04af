"""Path patterns: how they are written down, what is refused, and when two of them can mean the same file."""

import re
import unicodedata

import pytest
from hypothesis import assume, example, given, strategies as st

from agentmesh.errors import InvalidArgument
from agentmesh.patterns import ancestors, anchor, conflict, normalised, overlap


def matches(pattern, path):
    """An independent matcher: the pattern as a regular expression over the path with a slash before each segment."""
    expression = ""
    for segment in pattern.split("/"):
        if segment == "**":
            expression += "(?:/[^/]+)*"
        else:
            expression += "/(?=[^/])" + "[^/]*".join(re.escape(part) for part in segment.split("*"))
    return re.fullmatch(expression, "/" + path) is not None


@pytest.mark.parametrize(
    ("given_form", "kept"),
    [
        ("src/a.py", "src/a.py"),
        ("src/", "src/**"),
        ("src/**", "src/**"),
        ("**/", "**/**"),
        ("*", "*"),
        ("a*b*c", "a*b*c"),
        ("with space/x", "with space/x"),
        ("cafe\u0301/x", "caf\u00e9/x"),
        ("...", "..."),
        (".hidden/..data", ".hidden/..data"),
        ("Src/A", "Src/A"),
    ],
)
def test_a_pattern_has_one_way_in_which_it_is_written_down(given_form, kept):
    """A trailing slash is the directory and all below it; text is NFC; case and dots in names stay."""
    assert normalised("writes", given_form) == kept
    assert normalised("writes", kept) == kept


@pytest.mark.parametrize(
    "refused",
    [
        "",
        "/",
        "/etc/passwd",
        "//x",
        "C:/x",
        "c:",
        "..",
        "../x",
        "a/../b",
        "a/..",
        ".",
        "./a",
        "a/./b",
        "a//b",
        "a//",
        "a**",
        "**a",
        "a/x**y/b",
        "***",
        "[ab]",
        "a]",
        "{a,b}",
        "a?",
        "a\\b",
        "a\0b",
        "a\nb",
        "a\tb",
        "a\ud800b",
        "a\u200bb",
        "x" * 301,
        "a/" * 64 + "b",
        None,
        7,
        True,
        b"a",
        ["a"],
    ],
)
def test_what_is_no_pattern_is_refused_and_its_field_named(refused):
    """Absolute, climbing, bracketed, unprintable, too long, too deep, or no text at all."""
    with pytest.raises(InvalidArgument) as caught:
        normalised("writes", refused)
    assert caught.value.field == "writes"


@pytest.mark.parametrize("kept", ["x" * 300, "x" * 298 + "/*", "/".join("a" * 64), "x" * 297 + "/"])
def test_the_longest_and_the_deepest_pattern_are_taken_and_stay_as_they_are(kept):
    """300 characters and 64 segments, counted on what is kept: reading it back never fails."""
    once = normalised("writes", kept)
    assert normalised("writes", once) == once


@pytest.mark.parametrize("grown", ["x" * 299 + "/", "/".join("a" * 64) + "/"])
def test_a_trailing_slash_counts_as_what_it_stands_for(grown):
    """What would be too long or too deep once it is written down is refused at once."""
    with pytest.raises(InvalidArgument):
        normalised("writes", grown)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a", "a"),
        ("a/b", "a/b"),
        ("**", "a/b/c"),
        ("a/**", "a"),
        ("a/**", "a/b/c"),
        ("**/z", "a/b/z"),
        ("**/z", "z"),
        ("a/**/z", "a/z"),
        ("a/**/z", "a/b/c/z"),
        ("a/*", "a/b"),
        ("*", "abc"),
        ("a*", "a"),
        ("*.py", "test_*"),
        ("a*c", "ab*"),
        ("a/**", "**/b"),
        ("a/**/b", "a/c/*"),
        ("**/x/**", "a/**"),
        ("*/b", "a/*"),
    ],
)
def test_patterns_that_some_path_matches_overlap(one, two):
    """Both ways round."""
    assert overlap(one, two)
    assert overlap(two, one)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a", "b"),
        ("a", "A"),
        ("a", "a/b"),
        ("a/*", "a"),
        ("a/*", "a/b/c"),
        ("*", "a/b"),
        ("src/**", "src2/a"),
        ("src/**", "sr"),
        ("*.py", "*.md"),
        ("a*b", "ac"),
        ("a/**/z", "b/**/z"),
        ("**/y", "**/z"),
        ("a/**/b", "a"),
    ],
)
def test_patterns_that_no_path_matches_do_not_overlap(one, two):
    """Both ways round."""
    assert not overlap(one, two)
    assert not overlap(two, one)


def test_composed_and_decomposed_letters_are_one_path():
    """Two agents on different systems name the same file."""
    one, two = (normalised("writes", unicodedata.normalize(form, "caf\u00e9/\u00fc.md")) for form in ("NFC", "NFD"))
    assert overlap(one, two)


@pytest.mark.parametrize(
    ("mode", "other", "excluded"),
    [("write", "write", True), ("write", "read", True), ("read", "write", True), ("read", "read", False)],
)
def test_only_readers_share_a_path(mode, other, excluded):
    """A conflict needs an overlap and a writer."""
    assert conflict("a/**", mode, "a/b", other) is excluded
    assert conflict("a/**", mode, "b", other) is False


segments = st.sampled_from(["**", "*", "a", "b", "ab", "a*", "*b", "a*b", "*a*"])
patterns = st.lists(segments, min_size=1, max_size=5).map("/".join)
paths = st.lists(st.text("ab", min_size=1, max_size=3), min_size=1, max_size=5).map("/".join)


@given(patterns)
def test_a_pattern_overlaps_itself(pattern):
    """Two tasks with the same pattern never run at once."""
    assert overlap(pattern, pattern)


@given(patterns, patterns)
def test_overlap_does_not_depend_on_who_came_first(one, two):
    """It is symmetric."""
    assert overlap(one, two) == overlap(two, one)


@given(patterns, paths)
@example("a/**", "a")
@example("**", "a/b/a")
@example("**/*b", "ab")
def test_a_pattern_overlaps_a_path_exactly_if_the_path_matches_it(pattern, path):
    """A path is a pattern without wildcards, so an independent matcher decides."""
    assert overlap(pattern, path) == matches(pattern, path)


@st.composite
def pattern_of(draw, path):
    """A pattern that the path matches: some of its letters and segments made wild."""
    made = []
    for segment in path.split("/"):
        how = draw(st.sampled_from(["same", "star", "prefix", "suffix", "any number", "none between"]))
        made += {
            "same": [segment],
            "star": ["*"],
            "prefix": [segment[:1] + "*"],
            "suffix": ["*" + segment[-1:]],
            "any number": ["**"],
            "none between": ["**", segment],
        }[how]
    return "/".join(made)


@given(st.data(), paths)
def test_patterns_that_a_path_matches_both_overlap(data, path):
    """No file is ever given to two writers."""
    one, two = data.draw(pattern_of(path)), data.draw(pattern_of(path))
    assert matches(one, path)
    assert matches(two, path)
    assert overlap(one, two)


short_segments = st.sampled_from(["**", "*", "a", "a*", "*b"])
short_patterns = st.lists(short_segments, min_size=1, max_size=3).map("/".join)
WORDS = ["a", "b", "ab", "ba", "aab"]
SMALL_PATHS = [
    *WORDS,
    *(f"{one}/{two}" for one in WORDS for two in WORDS),
    *(f"{one}/{two}/{three}" for one in WORDS for two in WORDS for three in WORDS),
    *(f"{one}/{two}/{three}/{four}" for one in WORDS for two in WORDS for three in WORDS for four in WORDS),
]


@given(short_patterns, short_patterns)
def test_patterns_that_overlap_have_a_path_in_common(one, two):
    """No two tasks wait for each other for nothing: a small path witnesses each overlap of small patterns."""
    if overlap(one, two):
        assert any(matches(one, path) and matches(two, path) for path in SMALL_PATHS)


@given(patterns, patterns)
def test_patterns_overlap_only_where_one_anchor_leads_to_the_other(one, two):
    """The search for conflicts looks above and below an anchor and nowhere else."""
    assume(overlap(one, two))
    assert anchor(one) in ancestors(anchor(two)) or anchor(two) in ancestors(anchor(one))


@pytest.mark.parametrize(
    ("pattern", "place", "above"),
    [
        ("a/b/c", "a/b/c", ["", "a", "a/b", "a/b/c"]),
        ("a/b/*.py", "a/b", ["", "a", "a/b"]),
        ("a/**", "a", ["", "a"]),
        ("*/a", "", [""]),
        ("**", "", [""]),
    ],
)
def test_an_anchor_is_what_stands_before_the_first_wildcard(pattern, place, above):
    """With every place above it, the root included."""
    assert anchor(pattern) == place
    assert ancestors(place) == above


def test_long_patterns_of_wildcards_are_compared_at_once():
    """No exponential search: the work is the product of the lengths."""
    one, two = "/".join(["**", "a*b"] * 32), "/".join(["*a*", "**"] * 32)
    assert overlap(one, two) in (True, False)
    assert overlap("*a" * 100 + "*", "*b" * 100 + "*")
