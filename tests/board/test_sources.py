"""Usage with a source key is counted once for ever, with the largest counts, on the day on which it was used."""

from datetime import UTC, datetime, timedelta

import pytest

from agentmesh import prices
from agentmesh.errors import InvalidArgument, SourceConflict, SumTooLarge
from agentmesh.limits import INTEGER
from agentmesh.model import Usage
from tests.support.boards import claimed, damage, kinds, open_board, put, rows, violations
from tests.support.clock import TurnableClock
from tests.support.processes import barrier, results
from tests.support.transfer import exported, imported, of_version_1, parts, whole

MODEL = "claude-sonnet-4-5"
DAY_US = 86_400_000_000


@pytest.fixture
def ledger(board):
    """The ledger of a new board."""
    return board.ledger


def total(ledger):
    """All usage in one line."""
    return ledger.report("model").total


def cost(clock, **counts):
    """What the list says that counts cost."""
    return prices.price(MODEL, Usage(**counts), at_us=clock.now_us()).cost_pusd


def instant(clock, **ago):
    """An instant before now, as text."""
    return (datetime.fromtimestamp(clock.now_us() / 1e6, UTC) - timedelta(**ago)).isoformat()


# Once for ever


def test_one_reply_that_is_reported_twice_while_it_grows_counts_once_and_whole(board, ledger, clock):
    """Output 1, then 384: the second entry holds the difference, names the first, and the sum is the price of 384."""
    first = ledger.record("ann", model=MODEL, input_tokens=10, output_tokens=1, source="msg_1").entry
    more = ledger.record("ann", model=MODEL, input_tokens=10, output_tokens=384, source="msg_1").entry
    assert (more.input_tokens, more.output_tokens, more.corrects) == (0, 383, first.id)
    assert first.corrects is None
    assert total(ledger).output_tokens == 384
    assert total(ledger).cost_pusd == cost(clock, input_tokens=10, output_tokens=384)
    assert violations(board) == {}


def test_the_order_of_the_reports_does_not_matter(ledger, clock):
    """Output 384, then 1: the smaller one changes nothing, and gives the first entry."""
    first = ledger.record("ann", model=MODEL, input_tokens=10, output_tokens=384, source="msg_1").entry
    assert ledger.record("ann", model=MODEL, input_tokens=10, output_tokens=1, source="msg_1").entry == first
    assert (total(ledger).entries, total(ledger).cost_pusd) == (1, cost(clock, input_tokens=10, output_tokens=384))


def test_the_same_transcript_in_three_nights_is_counted_once(board, ledger, clock):
    """A request_id is forgotten after a day, a source key never; nor does a report that is too old by then matter."""
    at = instant(clock, minutes=1)
    told = [ledger.record("ann", output_tokens=5, source="msg_1", at=at, request_id="night").entry]
    for _ in range(3):
        clock.advance(200 * 86_400)
        told.append(ledger.record("ann", output_tokens=5, source="msg_1", at=at).entry)
    assert set(told) == {told[0]}
    assert total(ledger).entries == kinds(board).count("usage_recorded") == 1


def test_a_copy_by_another_agent_is_the_same_reply(board, ledger):
    """Resumed sessions repeat their parents' replies: a key is the board's, not the agent's; growth is the first's."""
    put(board, "a")
    lease = claimed(board, "a", "ann").lease
    first = ledger.record(lease=lease, output_tokens=5, source="msg_1").entry
    assert ledger.record("bob", output_tokens=5, source="msg_1").entry == first
    more = ledger.record("bob", output_tokens=8, source="msg_1").entry
    assert (more.agent_id, more.task_id, more.fence, more.output_tokens) == ("ann", "a", 1, 3)


def test_growth_of_a_failed_attempt_is_waste(board, ledger):
    """Entries of one reply are all of one attempt, and so is the waste."""
    put(board, "a", max_attempts=1)
    claim = claimed(board, "a", "ann")
    ledger.record(lease=claim, output_tokens=5, source="msg_1")
    claim.fail("no")
    ledger.record(lease=claim, output_tokens=9, source="msg_1")
    assert (total(ledger).tokens, total(ledger).wasted_tokens) == (9, 9)
    assert violations(board) == {}


def test_growth_draws_on_the_reservation_and_the_budget(board, ledger):
    """What is left of a budget goes by the whole reply."""
    put(board, "a", estimate_tokens=100)
    board.budgets.set(tokens=1_000)
    claim = claimed(board, "a", "ann")
    ledger.record(lease=claim, output_tokens=5, source="msg_1")
    ledger.record(lease=claim, output_tokens=30, source="msg_1")
    budget = board.budgets.get()
    assert (budget.spent_tokens, budget.reserved_tokens, budget.left_tokens) == (30, 70, 900)
    assert violations(board) == {}


# What contradicts


def test_a_count_that_shrinks_while_another_grows_is_refused(ledger):
    """Neither report holds the other: the error names the count, and the first stays as it is."""
    ledger.record("ann", input_tokens=100, output_tokens=1, source="msg_1")
    with pytest.raises(SourceConflict) as caught:
        ledger.record("ann", input_tokens=10, cached_input_tokens=90, output_tokens=9, source="msg_1")
    assert (caught.value.code, caught.value.field, caught.value.source) == ("source_conflict", "input_tokens", "msg_1")
    assert (total(ledger).entries, total(ledger).tokens) == (1, 101)


def test_another_model_is_refused(ledger):
    """Gateways give an id twice; the key must tell the replies apart."""
    ledger.record("ann", model="m", output_tokens=1, source="msg_1")
    with pytest.raises(SourceConflict, match="model is another one"):
        ledger.record("ann", model="n", output_tokens=1, source="msg_1")


# Money


def test_a_cost_that_is_told_later_is_added_to_an_unpriced_reply(board, ledger):
    """The first entry stays unpriced, since entries never change; the sum has the cost."""
    assert ledger.record("ann", model="own", output_tokens=5, source="msg_1").entry.cost_pusd is None
    more = ledger.record("ann", model="own", output_tokens=5, cost_usd="0.5", source="msg_1").entry
    assert (more.output_tokens, more.cost_pusd, more.corrects) == (0, 10**12 // 2, 1)
    assert ledger.record("ann", model="own", output_tokens=5, cost_usd="0.2", source="msg_1").entry.id == 1
    assert (total(ledger).cost_pusd, total(ledger).unpriced) == (10**12 // 2, 1)
    assert violations(board) == {}


def test_growth_without_a_price_is_unpriced(ledger):
    """A given cost says nothing of the tokens that came after it."""
    ledger.record("ann", model="own", output_tokens=5, cost_usd=1, source="msg_1")
    more = ledger.record("ann", model="own", output_tokens=6, source="msg_1").entry
    assert (more.output_tokens, more.cost_pusd, more.price) == (1, None, None)


def test_growth_after_a_new_price_list_changes_nothing_of_what_was_counted(ledger, clock, monkeypatch):
    """The difference is that of two prices of one list."""
    ledger.record("ann", model=MODEL, output_tokens=100, source="msg_1")
    old, cheaper = cost(clock, output_tokens=100), prices.price

    def halved(model, usage, *, at_us):
        found = cheaper(model, usage, at_us=at_us)
        return type(found)(found.cost_pusd // 2, "new list")

    monkeypatch.setattr(prices, "price", halved)
    more = ledger.record("ann", model=MODEL, output_tokens=110, source="msg_1").entry
    assert (more.cost_pusd, more.price) == (old // 20, "new list")


@pytest.mark.damaged
def test_a_growth_that_no_sum_can_hold_is_refused_whole(board, ledger):
    """A budget at the end of its sums: neither the entry nor the key changes."""
    board.budgets.set(tokens=5)
    ledger.record("ann", output_tokens=1, source="msg_1")
    damage(board, f"UPDATE budget SET spent_tokens = {INTEGER}")
    with pytest.raises(SumTooLarge):
        ledger.record("ann", output_tokens=2, source="msg_1")
    assert rows(board, "SELECT entries, output_tokens FROM usage_source") == [(1, 1)]


# When it was used


def test_usage_counts_on_the_day_on_which_it_was_used(board, ledger, clock):
    """Reports by day go by it; the budget of today does not have it, the one of all time does."""
    board.budgets.set(period="day", tokens=10)
    board.budgets.set(tokens=100)
    entry = ledger.record("ann", output_tokens=8, at=instant(clock, days=2)).entry
    assert entry.at_us == clock.now_us() - 2 * DAY_US
    day = (datetime.fromtimestamp(clock.now_us() / 1e6, UTC) - timedelta(days=2)).date()
    assert [line.day for line in ledger.report("day").lines] == [day.isoformat()]
    assert ledger.report("day", since=day + timedelta(days=1)).total.tokens == 0
    assert [board.budgets.get(period=period).spent_tokens for period in ("day", "lifetime")] == [0, 8]
    assert board.events()[-1].data["used_us"] == entry.at_us
    assert violations(board) == {}


def test_usage_of_an_instant_ahead_counts_when_its_day_has_come(board, ledger, clock):
    """Clocks differ by minutes, and midnight lies between them."""
    clock.advance(86_400 - clock.now_us() // 10**6 % 86_400 - 60)
    board.budgets.set(period="day", tokens=10)
    ledger.record("ann", output_tokens=8, at=instant(clock, minutes=-2))
    assert board.budgets.get(period="day").spent_tokens == 0
    clock.advance(300)
    assert board.budgets.get(period="day").spent_tokens == 8
    assert violations(board) == {}


@pytest.mark.parametrize("ago", [{"days": 401}, {"minutes": -6}])
def test_an_instant_too_far_away_is_refused(ledger, clock, ago):
    """A wrong unit or a wrong clock; nothing is written."""
    with pytest.raises(InvalidArgument, match="at: must be at most 400 days ago and at most 5 minutes in the future"):
        ledger.record("ann", output_tokens=1, source="msg_1", at=instant(clock, **ago))
    assert total(ledger).entries == 0
    assert ledger.record("ann", output_tokens=1, source="msg_1").entry.id == 1


def test_growth_is_of_the_instant_of_the_first(ledger, clock):
    """One reply has one day, also when its last part was logged after midnight."""
    first = ledger.record("ann", output_tokens=1, source="msg_1", at=instant(clock, days=1)).entry
    assert ledger.record("ann", output_tokens=2, source="msg_1").entry.at_us == first.at_us


@pytest.mark.parametrize(
    "wrong", [{"source": ""}, {"source": "a b"}, {"source": "x" * 257}, {"origin": "me"}, {"at": "today"}, {"at": -1}]
)
def test_what_is_no_key_instant_or_origin_is_refused(ledger, wrong):
    """The error names the argument."""
    with pytest.raises(InvalidArgument) as caught:
        ledger.record("ann", output_tokens=1, **wrong)
    assert caught.value.field in wrong


# Prune, export, check


def test_a_key_outlives_its_entries(board, ledger, clock):
    """After a prune the same reply is still counted; its growth belongs to the plan."""
    put(board, "a", plan="p")
    claim = claimed(board, "a", "ann")
    ledger.record(lease=claim, model="m", output_tokens=5, cost_usd=1, source="msg_1", origin="import")
    claim.complete()
    clock.advance(10)
    board.prune(older_than_sec=0)
    assert rows(board, "SELECT * FROM usage_entry") == []
    again = ledger.record("ann", model="m", output_tokens=5, cost_usd=1, source="msg_1").entry
    assert (again.id, again.output_tokens, again.plan, again.task_id, again.origin) == (1, 5, "p", None, "import")
    more = ledger.record("ann", model="m", output_tokens=7, cost_usd=3, source="msg_1").entry
    assert (more.output_tokens, more.cost_pusd, more.plan, more.corrects) == (2, 2 * 10**12, "p", 1)
    assert (total(ledger).output_tokens, total(ledger).cost_pusd) == (7, 3 * 10**12)
    assert violations(board) == {}


def test_keys_go_with_an_export(board, ledger, clock, tmp_path):
    """The new board counts none of them again, pruned or not, and gives growth the same way."""
    put(board, "a", "b", plan="p")
    gone, kept = claimed(board, "a", "ann"), claimed(board, "b", "ann")
    ledger.record(lease=gone, output_tokens=5, source="gone")
    ledger.record(lease=kept, output_tokens=1, source="kept", origin="launch")
    ledger.record(lease=kept, output_tokens=6, source="kept")
    gone.complete()
    clock.advance(10)
    board.prune(older_than_sec=0)
    before = total(ledger).entries, total(ledger).tokens
    board.export(tmp_path / "out.jsonl")
    type(board).import_board(tmp_path / "out.jsonl", tmp_path / "new.db", clock=clock)
    with open_board(tmp_path / "new.db", clock) as new:
        assert (total(new.ledger).entries, total(new.ledger).tokens) == before
        assert new.ledger.record("bob", output_tokens=5, source="gone").entry.output_tokens == 5
        first = new.ledger.record("bob", output_tokens=6, source="kept").entry
        assert (first.output_tokens, first.origin, first.task_id, first.corrects) == (1, "launch", "b", None)
        assert [entry.corrects for entry in new.ledger.entries().entries] == [None, first.id]
        assert (total(new.ledger).entries, total(new.ledger).tokens) == before
        assert violations(new) == {}


@pytest.mark.damaged
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE usage_source SET output_tokens = 9",
        "DELETE FROM usage_source",
        "UPDATE usage_source SET entries = 3",
        "UPDATE usage_entry SET source = NULL",
        "UPDATE usage_source SET entries = 1",
    ],
)
def test_check_compares_a_key_with_its_entries(board, ledger, sql):
    """A key that says more or less than its entries is a violation of P7."""
    ledger.record("ann", output_tokens=1, source="msg_1")
    ledger.record("ann", output_tokens=2, source="msg_1")
    assert violations(board) == {}
    damage(board, sql)
    assert set(violations(board)) == {"P7"}


def _report(line, path, start, _number):
    with open_board(path, TurnableClock()) as board:
        start.wait()
        for n in range(20):
            board.ledger.record("ann", output_tokens=10 + n % 3, source=f"msg_{n}")
        line.send(None)


@pytest.mark.multiproc
def test_processes_that_report_the_same_replies_count_them_once(board_path, clock):
    """Three at a time, the same twenty keys."""
    open_board(board_path, clock).close()
    results(3, _report, board_path, barrier(3))
    with open_board(board_path, clock) as board:
        assert (total(board.ledger).entries, total(board.ledger).tokens) == (20, 20 * 10 + 7 * 1 + 6 * 2)
        assert violations(board) == {}


def test_an_export_of_the_first_version_can_be_read(board, ledger, clock, tmp_path):
    """It knows no source keys: its usage has none, and agents reported it themselves."""
    ledger.record("ann", output_tokens=5)
    imported(whole(of_version_1(parts(exported(board)))), tmp_path / "new.db", clock)
    with open_board(tmp_path / "new.db", clock) as new:
        assert new.ledger.entries().entries == ledger.entries().entries
