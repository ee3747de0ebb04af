"""The limits of single values: what is taken at the very edge, and what is refused right behind it."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from agentmesh import limits
from agentmesh.errors import InvalidArgument

SURROGATE = "\ud800"
HUGE = pytest.param(10**5000, id="huge")


def nested(levels):
    """A list of lists, so many levels deep."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refused(check, *args, **options):
    """The error that a check raises; it names its field."""
    with pytest.raises(InvalidArgument) as caught:
        check("field", *args, **options)
    assert caught.value.field == "field"
    assert caught.value.code == "invalid_argument"
    return caught.value


@pytest.mark.parametrize("length", [1, 299, 300])
def test_text_is_taken_up_to_its_limit(length):
    """The limit itself is inside."""
    assert limits.text("field", "x" * length, 300) == "x" * length


@pytest.mark.parametrize(
    "value", ["", "x" * 301, " ", "\t\n", "a\0b", "a" + SURROGATE, None, 7, True, 1.5, b"x", ["x"], {"a": 1}]
)
def test_text_beyond_its_limits_is_refused(value):
    """Empty, too long, blank, NUL, lone surrogate, no text."""
    refused(limits.text, value, 300)


def test_text_that_may_be_empty_may_be_blank():
    """A reason need not be given."""
    assert limits.text("field", "", 300, least=0) == ""
    assert limits.text("field", "  ", 300, least=0) == "  "


def test_the_error_names_the_limit():
    """Whoever gets it knows what to do."""
    assert "300" in refused(limits.text, "x" * 301, 300).message
    assert "65536" in refused(limits.long_text, "x" * 65_537).message


@pytest.mark.parametrize("value", ["", "x" * 65_536, "\u00e9" * 32_768, "\U0001f600" * 16_384])
def test_long_text_is_measured_in_bytes(value):
    """64 KiB as they are stored."""
    assert limits.long_text("field", value) == value


@pytest.mark.parametrize("value", ["x" * 65_537, "\u00e9" * 32_769, "\0", SURROGATE, None, 3, b""])
def test_long_text_beyond_its_limits_is_refused(value):
    """One byte over is over."""
    refused(limits.long_text, value)


@pytest.mark.parametrize("value", ["a", "x" * 128, "claude-3-7-sonnet", "a/b.c:d", "\u00fcber", "\U0001f600"])
def test_a_name_is_printable_and_without_white_space(value):
    """1 to 128 characters."""
    assert limits.name("field", value) == value


@pytest.mark.parametrize(
    "value",
    [
        *["", " ", "a b", " a", "a ", "a\tb", "a\n", "a\0", "\u00a0", "a\u2003b", "\u200b", "\x7f", SURROGATE],
        *["x" * 129, None, 0, True, 1.0, b"a", ("a",)],
    ],
)
def test_what_is_no_name_is_refused(value):
    """Empty, blank, spaced, unprintable, too long, no text."""
    refused(limits.name, value)


def test_names_are_a_sorted_set():
    """The same names in any order are the same wish."""
    assert limits.names("field", ["b", "a", "b"]) == ("a", "b")
    assert limits.names("field", iter(["b", "a"])) == ("a", "b")


@pytest.mark.parametrize("value", ["abc", b"abc", {"a": 1}, None, 5, True, [""], ["a", 3], [["a"]], [SURROGATE]])
def test_a_lone_string_or_a_mapping_is_no_list_of_names(value):
    """The text `gpu` is not the capabilities g, p and u."""
    refused(limits.names, value)


@pytest.mark.parametrize("most", [1, 64, 1000])
def test_a_list_is_taken_up_to_its_limit_and_no_further(most):
    """One item over is over, and the limit is named."""
    assert len(limits.items("field", range(most), most)) == most
    assert str(most) in refused(limits.items, range(most + 1), most).message


@pytest.mark.parametrize("value", [-3, 0, 9])
def test_a_whole_number_is_taken_within_its_bounds(value):
    """Both bounds are inside."""
    assert limits.integer("field", value, -3, 9) == value


@pytest.mark.parametrize("value", [-4, 10, 2**63, HUGE, True, False, 1.0, math.nan, math.inf, "3", None, [3]])
def test_what_is_no_whole_number_within_bounds_is_refused(value):
    """A boolean is none, nor is a float that happens to be whole."""
    refused(limits.integer, value, -3, 9)


@pytest.mark.parametrize("value", [0, 1, "true", "", None, [], 1.0])
def test_only_true_and_false_are_boolean(value):
    """Nothing that merely looks like it."""
    refused(limits.boolean, value)


@pytest.mark.parametrize("value", ["x", "", None, 1, ["a"], {"a": 1}, SURROGATE])
def test_a_word_outside_a_closed_set_is_refused(value):
    """And the set is named."""
    assert "must be one of a, b" in refused(limits.choice, value, ("a", "b")).message


@pytest.mark.parametrize(("value", "micros"), [(0, 0), (50, 50_000_000), (0.05, 50_000), (0.1, 100_000), (1e-7, 0)])
def test_seconds_become_microseconds(value, micros):
    """Both bounds are inside; what is finer is rounded."""
    assert limits.duration_us("field", value, (0, 50)) == micros


@pytest.mark.parametrize(
    "value", [-1, -1e-9, 50.000001, 51, math.nan, math.inf, -math.inf, HUGE, True, "5", None, [5], Decimal(5)]
)
def test_what_is_no_duration_within_bounds_is_refused(value):
    """NaN, infinities, booleans, text and integers too large for a float alike."""
    refused(limits.duration_us, value, (0, 50))


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T00:00:00Z",
        "2026-01-01T01:00:00+01:00",
        "2025-12-31T16:00:00.000000-08:00",
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 5, 30, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        1_767_225_600,
        1_767_225_600.0,
    ],
)
def test_an_instant_has_many_forms(value):
    """RFC 3339 with any offset, an aware datetime, seconds since the epoch."""
    assert limits.instant_us("field", value) == 1_767_225_600_000_000


class Floating(tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, _):
        """Not known."""


@pytest.mark.parametrize(
    "value",
    [
        "2026-01-01T00:00:00",
        "2026-01-01",
        "tomorrow",
        "",
        SURROGATE,
        datetime(2026, 1, 1),  # noqa: DTZ001 - a naive one is what is refused
        datetime(2026, 1, 1, tzinfo=Floating()),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
        datetime.max.replace(tzinfo=timezone(timedelta(hours=-14))),
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "1969-12-31T23:59:59Z",
        -1,
        253_402_300_800,
        HUGE,
        math.nan,
        math.inf,
        True,
        None,
        [],
    ],
)
def test_what_is_no_instant_is_refused(value):
    """Local time is never taken for UTC; before 1970 and after 9999 is outside."""
    refused(limits.instant_us, value)


def test_the_last_instant_is_the_end_of_the_year_9999():
    """What RFC 3339 can still write."""
    assert limits.instant_us("field", "9999-12-31T23:59:59Z") == limits.INSTANT_US
    assert limits.instant_us("field", 253_402_300_799) == limits.INSTANT_US
    refused(limits.instant_us, "9999-12-31T23:59:59.000001Z")


@pytest.mark.parametrize(
    ("value", "pusd"),
    [
        ("0", 0),
        ("-0.0", 0),
        ("0.1", 10**11),
        (0.1, 10**11),
        (3, 3 * 10**12),
        ("0.000000000001", 1),
        (Decimal("1E-12"), 1),
        ("1.50000000000000000000000000000000000", 1_500_000_000_000),
        ("9223372", 9_223_372 * 10**12),
        ("0E-999999", 0),
    ],
)
def test_dollars_are_exact(value, pusd):
    """Decimal text, never a binary fraction in between."""
    assert limits.pusd("field", value) == pusd


@pytest.mark.parametrize(
    "value",
    [
        -1,
        "-0.000000000001",
        "0.0000000000001",
        "1.0000000000000000000000000000000000001",
        "1E-999999999",
        "9223372.000000000001",
        "1E999999999",
        HUGE,
        math.nan,
        math.inf,
        "nan",
        "sNaN",
        "Infinity",
        "",
        "1,5",
        "$1",
        True,
        None,
        [1],
        SURROGATE,
    ],
)
def test_what_is_no_amount_of_dollars_is_refused(value):
    """Negative, finer than 10^-12, too much, no number: one typed error, never one of the decimal module."""
    refused(limits.pusd, value)


@given(st.integers(0, 9_223_372 * 10**12))
def test_an_amount_comes_back_as_it_went_in(pusd):
    """For each amount that can be stored."""
    assert limits.pusd("field", Decimal(pusd) / limits.PUSD) == pusd


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (0, "0"),
        (-0.0, "-0.0"),
        (2**63 - 1, "9223372036854775807"),
        (-(2**63), "-9223372036854775808"),
        ("", '""'),
        ("123", '"123"'),
        ("\u2028\x01\u00e9", '"\u2028\\u0001\u00e9"'),
        ([], "[]"),
        ((1, 2), "[1,2]"),
        ({"": {}}, '{"":{}}'),
        ("\\u0000", r'"\\u0000"'),
        (["\\\\u0000"], r'["\\\\u0000"]'),
    ],
)
def test_a_json_value_keeps_its_type(value, text):
    """Text that looks like a number stays text; what is empty stays what it is."""
    assert limits.json_text("field", value) == text


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        2**63,
        -(2**63) - 1,
        HUGE,
        {1: 2},
        {None: 1},
        {"a\0": 1},
        {SURROGATE: 1},
        "\0",
        "\\\0",
        '"\n\0',
        "\\u0000\\\\\0",
        SURROGATE,
        b"x",
        {1, 2},
        object(),
        Decimal(1),
        datetime(2026, 1, 1, tzinfo=UTC),
        iter([1]),
    ],
)
@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [1, {"a": [value]}]], ids=["bare", "inside"])
def test_what_is_no_json_is_refused_at_any_depth(value, wrap):
    """Readers differ on NaN, wide integers and surrogates; the rest is not JSON at all."""
    refused(limits.json_text, wrap(value))


def test_json_is_nested_at_most_64_deep():
    """64 levels are taken, 65 are refused, and neither needs recursion."""
    assert limits.json_text("field", nested(64)) == "[" * 64 + "]" * 64
    assert "64" in refused(limits.json_text, nested(65)).message
    refused(limits.json_text, nested(100_000))


def test_json_that_holds_itself_is_refused():
    """A circle has no end."""
    circle = []
    circle.append(circle)
    refused(limits.json_text, circle)


def test_json_that_shares_its_parts_is_measured_as_it_would_be_written():
    """Forty doublings of a small list are a terabyte of text: refused before anything is made of it."""
    value = ["x"]
    for _ in range(40):
        value = [value, value]
    refused(limits.json_text, value)


@pytest.mark.parametrize("most", [2, 10, 65_536])
def test_json_is_measured_in_bytes_of_its_compact_form(most):
    """The limit itself is inside."""
    assert len(limits.json_text("field", "x" * (most - 2), most)) == most
    assert str(most) in refused(limits.json_text, "x" * (most - 1), most).message


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5), inner, max_size=4
        )
    ),
    max_leaves=20,
)


def json_loads(text):
    """Read JSON as strictly as the standard library can."""
    return json.loads(text, parse_constant=lambda _: pytest.fail("NaN or an infinity was written"))


@given(values)
def test_any_json_value_is_read_back_as_it_was_written(value):
    """Type and content, byte by byte."""
    text = limits.json_text("field", value)
    assert json_loads(text) == value
    assert "\n" not in text
