"""The ledger: what was used is written once, to the right attempt, whatever has become of it."""

from decimal import Decimal

import pytest

from agentmesh.errors import InvalidArgument, LeaseLost, NotFound, RequestConflict, SumTooLarge
from agentmesh.model import Lease, UsageEntry
from tests.support.boards import claimed, done, event_count, kinds, put, rows, violations
from tests.support.ends import ENDS, IN_VAIN

USD = 10**12
DAY = 86_400


@pytest.fixture
def ledger(board):
    """The ledger of a new board."""
    return board.ledger


def entries(board, **wish):
    """All entries of the first page."""
    return list(board.ledger.entries(**wish).entries)


# Whose usage it is


def test_by_lease_it_is_the_attempts(board, ledger, clock):
    """The agent, the task, its plan and the fence are those of the lease; the instant is that of the call."""
    put(board, "a", plan="p")
    claim = claimed(board, "a", "ann")
    clock.advance(5)
    receipt = ledger.record(lease=claim, model="m", output_tokens=3, cost_usd="0.5", duration_ms=1.5)
    assert receipt.entry == UsageEntry(
        id=1,
        at_us=clock.now_us(),
        agent_id="ann",
        plan="p",
        task_id="a",
        fence=1,
        model="m",
        output_tokens=3,
        duration_us=1500,
        cost_pusd=USD // 2,
        price="given",
    )
    assert entries(board) == [receipt.entry]
    assert receipt.budgets == receipt.unknown == ()


def test_by_task_it_is_that_of_the_agents_last_attempt(board, ledger):
    """Open or over, and not that of whoever holds the task now."""
    put(board, "a")
    claimed(board, "a", "ann").release()
    claimed(board, "a", "ann").release()
    claimed(board, "a", "bob")
    assert ledger.record("ann", task_id="a", output_tokens=1).entry.fence == 2
    assert ledger.record("bob", task_id="a", output_tokens=1).entry.fence == 3


def test_by_task_without_an_attempt_it_is_the_tasks_alone(board, ledger):
    """A planner that never held it: the task and its plan have spent, no attempt has."""
    put(board, "a", plan="p")
    claimed(board, "a", "bob")
    entry = ledger.record("planner", task_id="a", output_tokens=1).entry
    assert (entry.plan, entry.task_id, entry.fence, entry.agent_id) == ("p", "a", None, "planner")


def test_by_agent_it_belongs_to_no_task(ledger):
    """What an agent thought before it claimed anything."""
    entry = ledger.record("ann", output_tokens=1).entry
    assert (entry.agent_id, entry.plan, entry.task_id, entry.fence, entry.model) == ("ann", None, None, None, None)


def test_a_lease_may_be_shown_with_its_agent_and_its_task(board, ledger):
    """They say the same; a caller that names another task or agent is told, not believed."""
    put(board, "a", "b")
    lease = claimed(board, "a", "ann").lease
    assert ledger.record("ann", lease=lease, task_id="a", output_tokens=1).entry.fence == 1
    for field, wrong in (("agent_id", {"agent_id": "bob"}), ("task_id", {"task_id": "b"})):
        with pytest.raises(InvalidArgument) as caught:
            ledger.record(lease=lease, output_tokens=1, **wrong)
        assert caught.value.field == field
    assert len(entries(board)) == 1


@pytest.mark.parametrize("lease", [Lease("a", 1, "wrong"), Lease("a", 2, "wrong")])
def test_a_wrong_token_writes_nothing(board, ledger, lease):
    """Neither into the ledger nor into the history."""
    put(board, "a")
    claimed(board, "a")
    before = event_count(board)
    with pytest.raises(LeaseLost):
        ledger.record(lease=lease, output_tokens=1)
    assert (entries(board), event_count(board)) == ([], before)


@pytest.mark.parametrize("named", [{"lease": Lease("nope", 1, "x")}, {"agent_id": "ann", "task_id": "nope"}])
def test_a_task_that_is_not_there_is_not_found(ledger, named):
    """By lease or by name."""
    with pytest.raises(NotFound):
        ledger.record(output_tokens=1, **named)


# After the end of an attempt


@pytest.mark.parametrize("how", ENDS)
def test_usage_of_an_attempt_that_is_over_is_taken(board, ledger, how):
    """By lease and by name, linked to its fence, counted once."""
    put(board, "a", max_attempts=5)
    claim = claimed(board, "a", "ann")
    ENDS[how](board, claim)
    assert ledger.record(lease=claim, output_tokens=1, cost_usd=1).entry.fence == 1
    assert ledger.record("ann", task_id="a", output_tokens=1, cost_usd=1).entry.fence == 1
    total = ledger.report().total
    assert (total.entries, total.cost_pusd) == (2, 2 * USD)
    assert total.wasted_pusd == (2 * USD if how in IN_VAIN else 0)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("day", [0, DAY])
def test_waste_is_the_same_whenever_it_was_reported(board, ledger, clock, how, day):
    """Before the end, after it, on the day of the end or before; by totals and by entries."""
    put(board, "a", max_attempts=5, lease_timeout_sec=2 * DAY)
    claim = claimed(board, "a", "ann")
    used = {"lease": claim, "model": "m", "input_tokens": 2, "output_tokens": 3, "duration_ms": 4, "cost_usd": "0.1"}
    ledger.record(**used)
    ledger.record(**used)
    clock.advance(day)
    if "reclaimed" in how:
        clock.advance(2 * DAY)
    ENDS[how](board, claim)
    ledger.record(**used)
    ledger.record("ann", output_tokens=7)
    wasted = 3 if how in IN_VAIN else 0
    for report in (ledger.report("model"), ledger.report("task", task_id="a")):
        total = report.total
        assert (total.wasted_tokens, total.wasted_us) == (5 * wasted, 4000 * wasted)
        assert total.wasted_pusd == wasted * USD // 10


def test_an_attempt_that_is_open_wastes_nothing_yet(board, ledger, clock):
    """Not even when its lease is due: it may still complete."""
    put(board, "a")
    claim = claimed(board, "a")
    ledger.record(lease=claim, output_tokens=5, cost_usd=1)
    clock.advance(61)
    assert ledger.report().total.wasted_tokens == 0
    claim.complete()
    assert ledger.report().total.wasted_pusd == 0


def test_a_task_that_is_opened_again_keeps_what_was_wasted_on_it(board, ledger):
    """Waste is the attempts', not the task's."""
    put(board, "a")
    claim = claimed(board, "a")
    ledger.record(lease=claim, cost_usd=3)
    claim.fail("x", retry=False)
    board.reopen_task("a")
    again = claimed(board, "a")
    ledger.record(lease=again, cost_usd=4)
    again.complete()
    [line] = ledger.report("task").lines
    assert (line.cost_pusd, line.wasted_pusd) == (7 * USD, 3 * USD)


# What it says


def test_a_cost_that_is_given_wins_over_the_price_list(ledger):
    """Whatever the model, and nothing at all is a cost too."""
    used = {"model": "gpt-4o", "input_tokens": 1_000_000}
    assert ledger.record("ann", **used).entry.cost_pusd == 2.5 * USD
    for given in ("0", "0.1", 7, 0.25, Decimal("1e-12")):
        entry = ledger.record("ann", cost_usd=given, **used).entry
        assert (entry.cost_pusd, entry.price) == (int(Decimal(str(given)) * USD), "given")


def test_a_cost_that_is_looked_up_says_from_which_list(ledger):
    """Its name and version stand in the entry."""
    entry = ledger.record("ann", model="gpt-4o", output_tokens=1).entry
    assert entry.cost_pusd == 10 * USD // 10**6
    assert entry.price.startswith("genai-prices 0.")


@pytest.mark.parametrize("model", [None, "no-such-model"])
def test_what_nobody_can_price_is_counted_and_costs_nothing_yet(ledger, model):
    """Its cost is unknown, not zero; the money stays what it was, and the count shows it."""
    ledger.record("ann", cost_usd=1)
    entry = ledger.record("ann", model=model, output_tokens=9).entry
    assert (entry.cost_pusd, entry.price) == (None, None)
    total = ledger.report().total
    assert (total.entries, total.unpriced, total.cost_pusd, total.tokens) == (2, 1, USD, 9)


@pytest.mark.parametrize("model", [None, "gpt-4o", "no-such-model"])
def test_time_alone_is_reported_and_costs_nothing(ledger, model):
    """An agent that thinks without a model we know of is not unpriced."""
    entry = ledger.record("ann", model=model, duration_ms=2500).entry
    assert (entry.duration_us, entry.cost_pusd, entry.price) == (2_500_000, 0, None)
    assert ledger.report().total.unpriced == 0


@pytest.mark.parametrize(
    "said", [{}, {"duration_ms": 0}, {"cost_usd": 0}, {"model": "gpt-4o"}, {"usage": {"input": 0, "output": 0}}]
)
def test_a_report_of_nothing_is_refused(board, ledger, said):
    """A row of zeros would look as if somebody had reported."""
    with pytest.raises(InvalidArgument) as caught:
        ledger.record("ann", **said)
    assert caught.value.field == "usage"
    assert entries(board) == []


BLOCKS = {
    "openai_chat": {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 20},
    },
    "openai_responses": {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 100},
        "output_tokens": 50,
        "total_tokens": 1050,
    },
    "anthropic": {
        "input_tokens": 300,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
        "output_tokens": 50,
    },
    "langfuse": {"input": 300, "cache_read": 600, "cache_write": 100, "output": 50},
}


@pytest.mark.parametrize("dialect", BLOCKS)
@pytest.mark.parametrize("named", [True, False])
def test_the_same_usage_is_the_same_entry_in_every_dialect(ledger, dialect, named):
    """Four vendors' words for it, and the four counts."""
    used = {"input_tokens": 300, "cached_input_tokens": 600, "cache_write_tokens": 100, "output_tokens": 50}
    plain = ledger.record("ann", model="claude-sonnet-4-5", **used).entry
    block = BLOCKS[dialect]
    read = ledger.record("ann", model="claude-sonnet-4-5", usage=block, dialect=dialect if named else None).entry
    assert plain.cost_pusd == 300 * 3_000_000 + 600 * 300_000 + 100 * 3_750_000 + 50 * 15_000_000
    for name in (*used, "cost_pusd", "price"):
        assert getattr(read, name) == getattr(plain, name)


def test_what_a_block_says_beyond_the_counts_is_named(ledger):
    """The receipt lists what nobody here can read; it is given again when the call is repeated."""
    block = {"input": 1, "output": 2, "audio_seconds": 3, "brand_new": 4}
    first = ledger.record("ann", usage=block, dialect="langfuse", request_id="r")
    again = ledger.record("ann", usage=block, dialect="langfuse", request_id="r")
    assert first.unknown == again.unknown == ("audio_seconds", "brand_new")
    assert first.entry == again.entry


MOST = 10**12
WRONG = [
    ("agent_id", {"agent_id": None}),
    ("agent_id", {"agent_id": "a b"}),
    ("agent_id", {"agent_id": ""}),
    ("agent_id", {"agent_id": 7}),
    ("task_id", {"task_id": ""}),
    ("lease", {"lease": "1.secret"}),
    ("model", {"model": ""}),
    ("model", {"model": "a b"}),
    ("model", {"model": "m" * 129}),
    ("input_tokens", {"input_tokens": -1}),
    ("input_tokens", {"input_tokens": MOST + 1}),
    ("cached_input_tokens", {"cached_input_tokens": 1.5}),
    ("cache_write_tokens", {"cache_write_tokens": True}),
    ("output_tokens", {"output_tokens": "7"}),
    ("output_tokens", {"output_tokens": None}),
    ("usage", {"usage": {}, "output_tokens": 0}),
    ("usage", {"usage": {"input": 1, "output": 1}}),
    ("usage", {"usage": [1], "output_tokens": 0}),
    ("dialect", {"dialect": "langfuse"}),
    ("dialect", {"usage": {"input": 1, "output": 1}, "dialect": "french", "output_tokens": 0}),
    ("duration_ms", {"duration_ms": -1}),
    ("duration_ms", {"duration_ms": 30 * 86_400_000 + 1}),
    ("duration_ms", {"duration_ms": float("nan")}),
    ("duration_ms", {"duration_ms": True}),
    ("duration_ms", {"duration_ms": "5"}),
    ("cost_usd", {"cost_usd": -1}),
    ("cost_usd", {"cost_usd": "100000.01"}),
    ("cost_usd", {"cost_usd": "much"}),
    ("cost_usd", {"cost_usd": float("inf")}),
    ("cost_usd", {"cost_usd": "1e-13"}),
    ("request_id", {"request_id": "a b"}),
]


@pytest.mark.parametrize(("field", "said"), WRONG)
def test_an_argument_out_of_its_limits_is_named(board, ledger, field, said):
    """And nothing is written."""
    with pytest.raises(InvalidArgument) as caught:
        ledger.record(**{"agent_id": "ann", "output_tokens": 1} | said)
    assert caught.value.field == field
    assert entries(board) == []
    assert event_count(board) == 0


def test_the_largest_that_an_entry_may_say_is_kept_to_the_last_digit(board, ledger):
    """Tokens, time and money at their limits."""
    buckets = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")
    largest = dict.fromkeys(buckets, MOST) | {"duration_ms": 30 * 86_400_000, "cost_usd": "99999.999999999999"}
    entry = ledger.record("a" * 128, model="m" * 128, **largest).entry
    assert entry.cost_pusd == 10**5 * USD - 1
    assert entries(board) == [entry]
    assert ledger.report().total.tokens == 4 * MOST


# Repeating a call


def test_a_call_that_is_repeated_is_written_once(board, ledger):
    """Five times the same answer, one entry, one event."""
    put(board, "a")
    claim = claimed(board, "a", "ann")
    found = {ledger.record(lease=claim, model="gpt-4o", output_tokens=1, cost_usd=2, request_id="r") for _ in range(5)}
    assert len(found) == len(entries(board)) == kinds(board).count("usage_recorded") == 1
    claim.complete()
    assert ledger.record(lease=claim, model="gpt-4o", output_tokens=1, cost_usd=2, request_id="r") in found


OTHERS = [
    {"output_tokens": 2},
    {"model": "other"},
    {"duration_ms": 1},
    {"cost_usd": "2.1"},
    {"cost_usd": None},
    {"task_id": "a"},
]


@pytest.mark.parametrize("other", OTHERS)
def test_another_call_under_the_same_id_is_refused(board, ledger, other):
    """Other tokens, model, time, cost, task: the first entry stands alone."""
    put(board, "a")
    call = {"agent_id": "ann", "model": "gpt-4o", "output_tokens": 1, "cost_usd": 2, "request_id": "r"}
    first = ledger.record(**call).entry
    with pytest.raises(RequestConflict):
        ledger.record(**call | other)
    assert entries(board) == [first]


def test_a_request_id_is_its_agents_own(board, ledger):
    """Two agents may use the same."""
    for agent in ("ann", "bob"):
        ledger.record(agent, output_tokens=1, request_id="r")
    assert [entry.agent_id for entry in entries(board)] == ["ann", "bob"]


def test_a_price_that_has_changed_does_not_make_it_another_call(ledger, monkeypatch):
    """What was looked up is no part of the call: the first price stands."""
    first = ledger.record("ann", model="gpt-4o", output_tokens=1, request_id="r")
    monkeypatch.setattr("agentmesh.prices.price", lambda *_, **__: None)
    assert ledger.record("ann", model="gpt-4o", output_tokens=1, request_id="r") == first


# Reading it


def test_entries_come_in_pages_oldest_first(board, ledger):
    """Of the board, and of a task; the cursor of the last page is None."""
    put(board, "a", "b")
    for number in range(7):
        ledger.record("ann", task_id="ab"[number % 2], output_tokens=number + 1)
    first = ledger.entries(limit=3)
    second = ledger.entries(limit=3, cursor=first.cursor)
    third = ledger.entries(limit=3, cursor=second.cursor)
    listed = [entry.id for page in (first, second, third) for entry in page.entries]
    assert (listed, third.cursor) == ([1, 2, 3, 4, 5, 6, 7], None)
    of_b = ledger.entries(task_id="b", limit=2)
    assert [entry.id for entry in of_b.entries] == [2, 4]
    last = ledger.entries(task_id="b", limit=2, cursor=of_b.cursor)
    assert ([entry.id for entry in last.entries], last.cursor) == ([6], None)


@pytest.mark.parametrize(("field", "value"), [("limit", 0), ("limit", 501), ("cursor", -1), ("task_id", "")])
def test_a_page_out_of_its_limits_is_refused(ledger, field, value):
    """The field is named."""
    with pytest.raises(InvalidArgument) as caught:
        ledger.entries(**{field: value})
    assert caught.value.field == field


def test_the_entries_of_a_task_that_is_not_there_are_not_found(ledger):
    """Rather than none."""
    with pytest.raises(NotFound):
        ledger.entries(task_id="nope")


def test_nothing_that_happens_later_changes_an_entry(board, ledger, clock):
    """Ends, reopenings, new estimates, budgets, another day."""
    put(board, "a", estimate_usd=1)
    claim = claimed(board, "a")
    ledger.record(lease=claim, model="m", cost_usd="0.3")
    ledger.record("ann", output_tokens=1)
    before = rows(board, "SELECT * FROM usage_entry")
    board.budgets.set(usd=2)
    claim.fail("x")
    board.update_task("a", estimate_usd=0, title="other")
    clock.advance(DAY)
    done(board, "a")
    board.reopen_task("a")
    board.cancel_task("a")
    assert rows(board, "SELECT * FROM usage_entry") == before


def test_an_entry_is_told_in_the_history(board, ledger):
    """Whose, for what, how much; an unknown cost is no number."""
    put(board, "a", plan="p")
    claim = claimed(board, "a", "ann")
    ledger.record(lease=claim, model="secret-model", output_tokens=2, cost_usd="0.5")
    ledger.record("bob", output_tokens=3)
    priced, unpriced = board.events(2)
    assert (priced.kind, priced.plan, priced.task_id, priced.fence) == ("usage_recorded", "p", "a", 1)
    assert (priced.agent_id, priced.data) == ("ann", {"tokens": 2, "cost_pusd": USD // 2})
    assert (unpriced.agent_id, unpriced.task_id, unpriced.data) == ("bob", None, {"tokens": 3, "unpriced": True})


# Sums that no row can hold


def test_a_total_that_passes_its_row_is_refused_whole(board, ledger):
    """2^63 is nine million dollars: the entry that would pass it is refused by name, and leaves nothing."""
    for _ in range(92):
        ledger.record("ann", cost_usd=100_000)
    before, seq = entries(board, limit=500), event_count(board)
    with pytest.raises(SumTooLarge) as caught:
        ledger.record("ann", cost_usd=100_000)
    assert caught.value.code == "sum_too_large"
    assert (entries(board, limit=500), event_count(board)) == (before, seq)
    ledger.record("ann", cost_usd="23372.036854775807")
    assert ledger.report().total.cost_pusd == 2**63 - 1
    with pytest.raises(SumTooLarge):
        ledger.record("ann", cost_usd="0.000000000001")


def test_a_budget_whose_books_would_pass_their_row_refuses_the_entry_whole(board, ledger):
    """Each total still has room; their sum has not."""
    board.budgets.set(usd=1)
    for number in range(92):
        ledger.record(f"agent-{number}", cost_usd=100_000)
    before = event_count(board)
    with pytest.raises(SumTooLarge):
        ledger.record("another", cost_usd=100_000)
    assert (len(entries(board, limit=500)), event_count(board)) == (92, before)
    assert violations(board) == {}


def test_a_report_whose_sum_is_too_large_says_so(board, ledger):
    """Its parts are still to be had."""
    for number in range(93):
        ledger.record(f"agent-{number}", cost_usd=100_000)
    with pytest.raises(SumTooLarge):
        ledger.report()
    assert ledger.report("agent", agent_id="agent-5").total.cost_pusd == 10**5 * USD
    with pytest.raises(SumTooLarge):
        board.budgets.set(usd=1)
    assert board.budgets.list() == []
