"""Reports: the same usage summed by everything one may ask by, each sum the sum of its lines."""

import itertools
from datetime import UTC, date, datetime

import pytest

from agentmesh.errors import InvalidArgument, NotFound
from agentmesh.model import USAGE_GROUPS
from tests.support.boards import claimed, put

USD = 10**12
DAY = 86_400
SUMS = (
    "entries",
    "unpriced",
    "input_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "output_tokens",
    "tokens",
    "cost_pusd",
    "duration_us",
    "wasted_tokens",
    "wasted_pusd",
    "wasted_us",
)
TIMES = ("attempts", "held_us", "unreported")


@pytest.fixture
def busy(board, clock):
    """Two plans, three agents, two models, three days; some waste, something unpriced, something of no task."""
    put(board, "a", "b", plan="p")
    put(board, "c", "quiet", plan="q")
    first = claimed(board, "a", "ann")
    board.ledger.record(lease=first, model="m", input_tokens=10, cost_usd=3, duration_ms=5)
    clock.advance(10)
    first.fail("x")
    claimed(board, "quiet", "bob").complete()
    clock.advance(DAY)
    again = claimed(board, "a", "bob")
    board.ledger.record(lease=again, model="n", output_tokens=4, cached_input_tokens=2)
    clock.advance(30)
    again.complete()
    board.ledger.record("ann", task_id="b", model="m", cache_write_tokens=7, cost_usd=1)
    board.ledger.record("cyd", model="m", output_tokens=1, cost_usd="0.5")
    clock.advance(DAY)
    held = claimed(board, "c", "cyd")
    board.ledger.record(lease=held, model="m", input_tokens=1, cost_usd=2)
    clock.advance(7)
    return board


def names(report):
    """What the lines of a report are the sums of."""
    found = []
    for line in report.lines:
        named = (line.plan, line.task_id, line.fence, line.agent_id, line.model, line.day)
        found.append(" ".join(str(name) for name in named if name is not None) or ("rest" if line.rest else "-"))
    return found


def costs(report):
    """Each line's dollars, in order."""
    return [line.cost_pusd / USD for line in report.lines]


BY = {
    "plan": (["p", "q", "rest"], [4, 2, 0.5]),
    "task": (["p a", "q c", "p b", "rest"], [3, 2, 1, 0.5]),
    "attempt": (["p a 1", "q c 1", "p b", "rest", "p a 2"], [3, 2, 1, 0.5, 0]),
    "agent": (["ann", "cyd", "bob"], [4, 2.5, 0]),
    "model": (["m", "n"], [6.5, 0]),
    "day": (["2026-01-01", "2026-01-03", "2026-01-02"], [3, 2, 1.5]),
}


@pytest.mark.parametrize("by", BY)
def test_usage_is_summed_by_whatever_is_asked_dearest_first(busy, by):
    """Plans, tasks, attempts, agents, models, days; what belongs to no task is the rest."""
    report = busy.ledger.report(by)
    assert (names(report), costs(report), report.by, report.more) == (*BY[by], by, 0)


def test_every_group_can_be_asked_for():
    """The table above leaves none out."""
    assert set(BY) == set(USAGE_GROUPS)


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("attempts", [False, True])
@pytest.mark.parametrize("scope", [{}, {"task_id": "a"}, {"agent_id": "ann"}, {"plan": "p", "until": "2026-01-02"}])
def test_the_total_is_the_sum_of_the_lines(busy, by, attempts, scope):
    """To the last unit, in every column, whatever the report is of."""
    report = busy.ledger.report(by, attempts=attempts, **scope)
    for name in SUMS + (TIMES if attempts and by != "model" else ()):
        assert sum(getattr(line, name) for line in report.lines) == getattr(report.total, name), name


@pytest.mark.parametrize(
    ("scope", "cost", "entries"),
    [
        ({}, 6.5, 5),
        ({"plan": "p"}, 4, 3),
        ({"plan": "q"}, 2, 1),
        ({"task_id": "a"}, 3, 2),
        ({"task_id": "a", "agent_id": "bob"}, 0, 1),
        ({"task_id": "a", "model": "n"}, 0, 1),
        ({"task_id": "a", "plan": "q"}, 0, 0),
        ({"task_id": "a", "since": "2026-01-02"}, 0, 1),
        ({"task_id": "quiet"}, 0, 0),
        ({"agent_id": "cyd"}, 2.5, 2),
        ({"agent_id": "nobody"}, 0, 0),
        ({"model": "m"}, 6.5, 4),
        ({"model": "m", "agent_id": "ann", "plan": "p"}, 4, 2),
        ({"since": "2026-01-02"}, 3.5, 4),
        ({"until": "2026-01-02"}, 4.5, 4),
        ({"since": date(2026, 1, 2), "until": date(2026, 1, 2)}, 1.5, 3),
        ({"since": "2026-01-03", "until": "2026-01-01"}, 0, 0),
        ({"since": "2027-01-01"}, 0, 0),
    ],
)
def test_a_report_is_of_what_it_was_asked_for(busy, scope, cost, entries):
    """By plan, task, agent, model and days, together; the same total whatever it is summed by."""
    for by in USAGE_GROUPS:
        total = busy.ledger.report(by, **scope).total
        assert (total.cost_pusd, total.entries) == (cost * USD, entries), by


@pytest.mark.parametrize("by", BY)
def test_one_task_is_summed_by_everything_too(busy, by):
    """Its two attempts, by two agents with two models on two days."""
    report = busy.ledger.report(by, task_id="a")
    expected = {"plan": ["p"], "task": ["p a"], "attempt": ["p a 1", "p a 2"], "agent": ["ann", "bob"]}
    expected |= {"model": ["m", "n"], "day": ["2026-01-01", "2026-01-02"]}
    assert names(report) == expected[by]


def test_a_day_begins_at_midnight_utc(board, clock):
    """A microsecond before it is another day; totals and entries agree."""
    put(board, "a")
    clock.advance(DAY - 0.000_001)
    board.ledger.record("ann", task_id="a", cost_usd=1)
    clock.advance(0.000_001)
    board.ledger.record("ann", task_id="a", cost_usd=2)
    clock.advance(DAY - 0.000_001)
    board.ledger.record("ann", task_id="a", cost_usd=4)
    for scope in ({}, {"task_id": "a"}):
        report = board.ledger.report("day", **scope)
        assert {line.day: line.cost_pusd // USD for line in report.lines} == {"2026-01-01": 1, "2026-01-02": 6}
        assert board.ledger.report(until="2026-01-01", **scope).total.cost_pusd == USD
        assert board.ledger.report(since="2026-01-02", **scope).total.cost_pusd == 6 * USD


def test_a_long_report_comes_in_parts(board):
    """`more` says how many lines follow; the total is that of all."""
    for number in range(7):
        board.ledger.record(f"agent-{number}", cost_usd=number + 1)
    parts = [board.ledger.report("agent", limit=3, offset=offset) for offset in (0, 3, 6, 9)]
    assert [part.more for part in parts] == [4, 1, 0, 0]
    assert [cost for part in parts for cost in costs(part)] == [7, 6, 5, 4, 3, 2, 1]
    assert {part.total.cost_pusd for part in parts} == {28 * USD}


def test_lines_of_the_same_cost_have_one_order(board):
    """More tokens first, then by name, so that parts fit together."""
    for agent, tokens in (("d", 1), ("b", 1), ("c", 9), ("a", 1)):
        board.ledger.record(agent, output_tokens=tokens, cost_usd=1)
    found = [names(board.ledger.report("agent", limit=1, offset=offset)) for offset in range(4)]
    assert list(itertools.chain(*found)) == ["c", "a", "b", "d"]


def test_attempts_are_counted_only_for_who_asks(busy):
    """Else those columns are empty: they cost a walk over the attempts."""
    report = busy.ledger.report("agent")
    assert {getattr(line, name) for line in (*report.lines, report.total) for name in TIMES} == {None}


ATTEMPTS = {
    "plan": {"p": (2, 40, 0), "q": (2, 7, 1), "rest": (0, 0, 0)},
    "task": {"p a": (2, 40, 0), "q c": (1, 7, 0), "q quiet": (1, 0, 1), "p b": (0, 0, 0), "rest": (0, 0, 0)},
    "attempt": {
        "p a 1": (1, 10, 0),
        "p a 2": (1, 30, 0),
        "q c 1": (1, 7, 0),
        "q quiet 1": (1, 0, 1),
        "p b": (0, 0, 0),
        "rest": (0, 0, 0),
    },
    "agent": {"ann": (1, 10, 0), "bob": (2, 30, 1), "cyd": (1, 7, 0)},
    "day": {"2026-01-01": (2, 10, 1), "2026-01-02": (1, 30, 0), "2026-01-03": (1, 7, 0)},
}


@pytest.mark.parametrize("by", ATTEMPTS)
def test_attempts_are_counted_with_how_long_they_were_held(busy, by):
    """An open one until now, on the day it began; a line for who used nothing, zeros for who held nothing."""
    report = busy.ledger.report(by, attempts=True)
    lines = (tuple(getattr(line, name) for name in TIMES) for line in report.lines)
    second = 1_000_000
    assert dict(zip(names(report), lines, strict=True)) == {
        name: (count, held * second, silent) for name, (count, held, silent) in ATTEMPTS[by].items()
    }
    assert tuple(getattr(report.total, name) for name in TIMES) == (4, 47 * second, 1)


def test_attempts_are_of_no_model(busy):
    """Asked by model, or for one, a report does not count them."""
    for report in (busy.ledger.report("model", attempts=True), busy.ledger.report(model="m", attempts=True)):
        assert report.total.attempts is None
        assert report.total.entries > 0


def test_a_clock_that_was_set_back_makes_no_time_of_less_than_none(board, clock):
    """An attempt that seems to have ended before it began was held for no time."""
    put(board, "a", "b")
    claimed(board, "a")
    ended = claimed(board, "b")
    clock.advance(-50)
    ended.complete()
    assert board.ledger.report("task", attempts=True).total.held_us == 0
    board.prune(older_than_sec=0)
    assert board.ledger.report("task", attempts=True).total.held_us == 0


def test_an_empty_board_has_an_empty_report(board):
    """Zeros, and no line."""
    for by in USAGE_GROUPS:
        report = board.ledger.report(by, attempts=True)
        assert (report.lines, report.more) == ((), 0)
        assert {getattr(report.total, name) for name in SUMS} == {0}


@pytest.mark.parametrize("scope", [{"plan": "nope"}, {"task_id": "nope"}])
@pytest.mark.parametrize("by", USAGE_GROUPS)
def test_a_plan_or_a_task_that_is_not_there_is_not_found(busy, scope, by):
    """Rather than nothing spent; agents and models are not known beforehand."""
    with pytest.raises(NotFound):
        busy.ledger.report(by, **scope)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("by", "colour"),
        ("by", None),
        ("plan", ""),
        ("task_id", ""),
        ("agent_id", "a b"),
        ("model", ""),
        ("since", "yesterday"),
        ("since", datetime(2026, 1, 1, tzinfo=UTC)),
        ("since", "1969-12-31"),
        ("until", 20260101),
        ("until", "2026-02-30"),
        ("attempts", 1),
        ("limit", 0),
        ("limit", 501),
        ("offset", -1),
    ],
)
def test_an_argument_out_of_its_limits_is_named(busy, field, value):
    """A report of something else than was meant is worse than none."""
    with pytest.raises(InvalidArgument) as caught:
        busy.ledger.report(**{field: value})
    assert caught.value.field == field
