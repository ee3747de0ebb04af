"""Reports by the days of a time zone: from the instants of entries, exactly, or with a word on what is not known."""

import sys
import zoneinfo
from datetime import UTC, datetime

import pytest

from agentmesh.errors import InvalidArgument
from tests.support.boards import claimed, put
from tests.support.clock import START_US

BERLIN = "Europe/Berlin"


@pytest.fixture
def use(board, clock):
    """Write usage of an instant down, one token each."""

    def record(*instants):
        newest = max(datetime.fromisoformat(text) for text in instants)
        ahead = newest.timestamp() - clock.now_us() / 1e6
        clock.advance(max(0, ahead))
        for text in instants:
            board.ledger.record("ann", output_tokens=1, at=text)

    return record


def days(board, tz, **wish):
    """The tokens of each day."""
    report = board.ledger.report("day", tz=tz, **wish)
    assert report.total.tokens == sum(line.tokens for line in report.lines)
    return {line.day: line.tokens for line in report.lines}


def test_a_day_begins_at_midnight_of_the_zone(board, use):
    """Half past ten in the evening in UTC is tomorrow in Berlin in summer, and today in New York."""
    use("2026-07-01T21:59:59.999999Z", "2026-07-01T22:00:00Z")
    assert days(board, BERLIN) == {"2026-07-01": 1, "2026-07-02": 1}
    assert days(board, None) == days(board, "UTC") == days(board, "America/New_York") == {"2026-07-01": 2}


def test_days_of_zones_with_half_hours(board, use):
    """Kathmandu is 5 hours and 45 minutes ahead."""
    use("2026-07-01T18:14:59Z", "2026-07-01T18:15:00Z")
    assert days(board, "Asia/Kathmandu") == {"2026-07-01": 1, "2026-07-02": 1}


@pytest.mark.parametrize(
    ("first", "last", "hours"),
    [
        ("2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", 23),
        ("2026-10-24T22:00:00Z", "2026-10-25T22:59:59Z", 25),
    ],
)
def test_a_day_on_which_clocks_change_has_23_or_25_hours(board, use, first, last, hours):
    """Its first and its last second are of it, the ones around are not, and since and until agree."""
    begin, end = datetime.fromisoformat(first).timestamp(), datetime.fromisoformat(last).timestamp()
    day = last[:10]
    assert end + 1 - begin == hours * 3600
    around = [begin - 1, begin, end, end + 1]
    use(*(datetime.fromtimestamp(instant, UTC).isoformat() for instant in around))
    assert days(board, BERLIN)[day] == 2
    assert days(board, BERLIN, since=day, until=day) == {day: 2}


def test_a_day_whose_midnight_does_not_exist(board, use):
    """In Cairo clocks go from 00:00 to 01:00: the day begins at one."""
    use("2026-04-23T21:59:59Z", "2026-04-23T22:00:00Z")
    assert days(board, "Africa/Cairo") == {"2026-04-23": 1, "2026-04-24": 1}
    assert days(board, "Africa/Cairo", since="2026-04-24") == {"2026-04-24": 1}


@pytest.mark.parametrize("by", ["plan", "task", "agent", "model", "attempt"])
def test_since_and_until_are_days_of_the_zone_by_whatever_it_is_summed(board, use, by):
    """Usage with and without a task."""
    put(board, "a")
    lease = claimed(board, "a", "ann").lease
    use("2026-07-01T21:00:00Z", "2026-07-01T23:00:00Z")
    board.ledger.record(lease=lease, output_tokens=5, at="2026-07-01T22:30:00Z")
    for tz, tokens in ((BERLIN, 6), (None, 0)):
        report = board.ledger.report(by, tz=tz, since="2026-07-02", until="2026-07-02", attempts=True)
        assert report.total.tokens == sum(line.tokens for line in report.lines) == tokens


def test_attempts_and_waste_stand_on_their_days_of_the_zone(board, clock):
    """Both are told where usage is."""
    clock.advance(23.5 * 3600 - START_US / 1e6 % 86_400)
    put(board, "a", max_attempts=1)
    claim = claimed(board, "a", "ann")
    board.ledger.record(lease=claim, output_tokens=5)
    claim.fail("no")
    today = datetime.fromtimestamp(clock.now_us() / 1e6, UTC).date()
    [line] = board.ledger.report("day", tz=BERLIN, attempts=True).lines
    assert (line.day, line.wasted_tokens, line.attempts) == (today.replace(day=today.day + 1).isoformat(), 5, 1)


@pytest.fixture
def pruned(board, clock, use):
    """Usage of three tokens on the second of July (UTC), of which only the sum of that day is left."""
    use("2026-07-02T12:00:00Z")
    put(board, "a")
    claim = claimed(board, "a", "ann")
    board.ledger.record(lease=claim, output_tokens=3)
    claim.complete()
    clock.advance(10)
    board.prune(older_than_sec=0)
    return board


def test_pruned_usage_that_lies_in_two_days_is_told_apart(pruned):
    """Its hour is gone: no day has it, the sum has."""
    assert days(pruned, BERLIN) == {"2026-07-02": 1, None: 3}
    [rest] = [line for line in pruned.ledger.report("day", tz=BERLIN, attempts=True).lines if line.rest]
    assert (rest.tokens, rest.attempts) == (3, 1)


def test_pruned_usage_counts_where_the_days_are_those_of_utc(pruned):
    """In Reykjavik they are."""
    assert days(pruned, "Atlantic/Reykjavik") == {"2026-07-02": 4}


def test_a_span_that_begins_within_a_pruned_day_is_refused(pruned):
    """Its part cannot be known; a span around it can, and so can one beside it."""
    with pytest.raises(InvalidArgument) as caught:
        pruned.ledger.report("plan", tz=BERLIN, since="2026-07-03")
    assert caught.value.field == "tz"
    assert "2026-07-02 (UTC)" in str(caught.value)
    assert days(pruned, BERLIN, since="2026-07-01") == {"2026-07-02": 1, None: 3}
    assert days(pruned, BERLIN, since="2026-07-04") == {}


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../etc/passwd", "", "a b", 7])
def test_what_is_no_zone_is_refused(board, name):
    """With the name of the argument."""
    with pytest.raises(InvalidArgument) as caught:
        board.ledger.report("day", tz=name)
    assert caught.value.field == "tz"


def test_a_system_without_zones_is_told_which_package_has_them(board, monkeypatch):
    """A slim container has none, nor has Windows; UTC works without."""
    for module in [name for name in sys.modules if name.partition(".")[0] == "tzdata"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        with pytest.raises(InvalidArgument) as caught:
            board.ledger.report("day", tz=BERLIN)
        assert "tzdata" in caught.value.hint
        assert board.ledger.report("day", tz="UTC").lines == ()
    finally:
        zoneinfo.reset_tzpath()
