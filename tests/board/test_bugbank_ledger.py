"""Public faults of systems like ours, section D of the bug bank: ledger, prices, budgets, through a whole board."""

import pytest

from agentmesh.errors import InvalidArgument
from tests.support.boards import claimed, open_board, put, rows, violations
from tests.support.clock import TurnableClock
from tests.support.processes import barrier, results

USD = 10**12


def spent(board):
    """The money in all three places where it is kept: the entry, the total, the books of the board's budget."""
    [entry] = board.ledger.entries().entries
    found = {entry.cost_pusd, board.ledger.report().total.cost_pusd, board.budgets.get().spent_pusd}
    assert len(found) == 1
    return found.pop()


@pytest.fixture
def budgeted(board):
    """A board with a budget that nothing here uses up."""
    board.budgets.set(usd=1_000_000)
    return board


def test_d1_cached_tokens_are_billed_once(budgeted):
    """litellm#14849: they stand inside the input, and are taken out of it before it is priced."""
    details = {"prompt_tokens_details": {"cached_tokens": 257_955}}
    block = {"prompt_tokens": 262_960, "completion_tokens": 1_744, "total_tokens": 264_704, **details}
    entry = budgeted.ledger.record("ann", model="gpt-5", usage=block).entry
    assert (entry.input_tokens, entry.cached_input_tokens) == (5_005, 257_955)
    assert spent(budgeted) == 5_005 * 1_250_000 + 257_955 * 125_000 + 1_744 * 10_000_000


def test_d2_cache_writes_are_billed_once(budgeted):
    """litellm#9812, #6575: they stand beside the input; 54,399 millionths of a dollar, to the last digit."""
    written = {"cache_creation_input_tokens": 12_304, "cache_read_input_tokens": 0}
    block = {"input_tokens": 3, "output_tokens": 550, **written}
    budgeted.ledger.record("ann", model="claude-3-7-sonnet", usage=block)
    assert spent(budgeted) == 54_399_000_000


REAL = {"input_tokens": 40, "cached_input_tokens": 50, "cache_write_tokens": 10, "output_tokens": 7}
TOLD = [
    {
        "prompt_tokens": 100,
        "completion_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 10},
    },
    {"input_tokens": 100, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 50, "cache_write_tokens": 10}},
    {"input_tokens": 40, "output_tokens": 7, "cache_read_input_tokens": 50, "cache_creation_input_tokens": 10},
    {"input": 40, "output": 7, "cache_read": 50, "cache_write": 10},
]


@pytest.mark.parametrize("block", [REAL, *TOLD])
def test_d4_the_same_usage_costs_the_same_whoever_tells_it(budgeted, block):
    """litellm#15945, langfuse#10592, PostHog#39901: cached tokens are within the input, or beside it."""
    told = block if block is REAL else {"usage": block}
    entry = budgeted.ledger.record("ann", model="claude-3-7-sonnet", **told).entry
    assert {name: getattr(entry, name) for name in REAL} == REAL
    assert spent(budgeted) == 40 * 3_000_000 + 50 * 300_000 + 10 * 3_750_000 + 7 * 15_000_000


CONTRADICTIONS = [
    {"prompt_tokens": 10, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 50}},
    {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 106},
    {"input_tokens": 100, "output_tokens": 7, "cache_read_input_tokens": 1, "cached_input_tokens": 1},
    {"prompt_tokens": 100, "input_tokens": 40, "completion_tokens": 7, "output_tokens": 7},
]


@pytest.mark.parametrize("block", CONTRADICTIONS)
def test_d4_a_block_that_contradicts_itself_is_no_guess(budgeted, block):
    """Nor is one that could mean two things: a typed error, and nothing is booked."""
    with pytest.raises(InvalidArgument):
        budgeted.ledger.record("ann", model="claude-3-7-sonnet", usage=block)
    assert budgeted.ledger.entries().entries == ()
    assert budgeted.budgets.get().spent_tokens == 0


@pytest.mark.parametrize(
    ("tokens", "pusd"), [(199_999, 249_998_750_000), (200_000, 250_000_000_000), (200_001, 500_002_500_000)]
)
def test_d7_a_long_prompt_is_billed_at_its_tier_from_the_first_token(budgeted, tokens, pusd):
    """genai-prices#241: not only what is above the threshold."""
    budgeted.ledger.record("ann", model="gemini-2.5-pro", input_tokens=tokens)
    assert spent(budgeted) == pusd


@pytest.mark.parametrize("strict", [True, False])
def test_d8_what_nobody_can_price_is_not_free(board, strict):
    """In litellm PR#39426 an unknown model costs 0: here it is counted, and a strict budget refuses."""
    put(board, "a")
    board.budgets.set(usd=1, strict=strict)
    receipt = board.ledger.record("ann", model="brand-new-model", output_tokens=1_000)
    assert receipt.entry.cost_pusd is None
    assert (board.budgets.get().unpriced, board.ledger.report().total.unpriced) == (1, 1)
    answer = board.claim_task("ann")
    assert bool(answer) is not strict
    if strict:
        assert (answer.reason, answer.advice) == ("budget", "blocked_by")
        assert "1 of its entries have no known price" in answer.message


@pytest.mark.parametrize("name", ["agent_8kXo1", "my-gpt-4o-8k", "gpt-4o-mytune", "8k"])
def test_d10_a_name_that_only_looks_like_a_model_has_no_price(budgeted, name):
    """LibreChat#11978: an agent's id matched an old price by a part of it."""
    assert budgeted.ledger.record(name, model=name, input_tokens=1_000).entry.cost_pusd is None
    assert budgeted.budgets.get().spent_pusd == 0


def _claim_one(line, path, start, number):
    """Claim at the same instant as all others, before anybody has spent anything."""
    with open_board(path, TurnableClock(), seed=number) as board:
        start.wait()
        line.send(bool(board.claim_task(f"agent-{number}")))


SCOPES = [{}, {"plan": "default"}, {"period": "day"}, {"plan": "default", "period": "day"}]


@pytest.mark.multiproc
@pytest.mark.parametrize("scope", SCOPES)
def test_d14_of_eight_who_ask_at_once_three_get_what_a_budget_covers(board_path, clock, scope):
    """litellm#34732, #40095, #26672: no spend is booked yet, the scope's first row is new, nothing in it is NULL."""
    with open_board(board_path, clock, seed=99) as board:
        board.create_tasks([{"title": "t", "estimate_usd": "0.30"}] * 8)
        board.budgets.set(usd="1.00", **scope)
        assert sum(results(8, _claim_one, board_path, barrier(8))) == 3
        budget = board.budgets.get(**scope)
        assert (budget.spent_pusd, budget.reserved_pusd, budget.left_pusd) == (0, 9 * USD // 10, USD // 10)
        assert all(value is not None for row in rows(board, "SELECT * FROM budget") for value in row[7:13])
        assert violations(board) == {}


def test_d16_polling_a_finished_batch_bills_it_once(budgeted):
    """litellm#12084, PR#37050: the same key five times is one row and one answer."""
    answers = {
        budgeted.ledger.record("ann", model="gpt-4o", output_tokens=1_000, request_id="batch-7") for _ in range(5)
    }
    assert len(answers) == 1
    assert spent(budgeted) == USD // 100


def test_d17_a_task_that_completed_without_a_word_on_its_usage_is_seen(board):
    """litellm#35358: rows of zeros stood for usage; here they are refused, and the report counts who said nothing."""
    put(board, "told", "silent", "zeros", "failed")
    claim = claimed(board, "told")
    board.ledger.record(lease=claim, output_tokens=1)
    claim.complete()
    claimed(board, "silent").complete()
    zeros = claimed(board, "zeros")
    with pytest.raises(InvalidArgument):
        board.ledger.record(lease=zeros, model="gpt-4o", cost_usd=0)
    zeros.complete()
    claimed(board, "failed").fail("x")
    report = board.ledger.report("task", attempts=True)
    assert {line.task_id: line.unreported for line in report.lines} == {"told": 0, "silent": 1, "zeros": 1, "failed": 0}
    assert report.total.unreported == 2


def test_d19_a_new_family_of_models_breaks_nothing(budgeted):
    """In tokencost PR#102, gpt-researcher#1986: unknown fields are named, not read as free; the task completes."""
    put(budgeted, "a")
    claim = claimed(budgeted, "a")
    block = {"input_tokens": 5, "output_tokens": 7, "hologram_tokens": 9, "server_tool_use": {"web_search_requests": 2}}
    receipt = budgeted.ledger.record(lease=claim, model="vendor-of-tomorrow/opus-9", usage=block)
    assert receipt.unknown == ("hologram_tokens", "server_tool_use.web_search_requests")
    assert (receipt.entry.cost_pusd, receipt.entry.output_tokens) == (None, 7)
    assert claim.complete().state == "completed"


def test_d20_each_sum_is_of_its_own_column(budgeted):
    """langfuse#9386: a page summed every field whose name had "input" in it."""
    used = {"input_tokens": 1, "cached_input_tokens": 20, "cache_write_tokens": 300, "output_tokens": 4_000}
    for _ in range(3):
        budgeted.ledger.record("ann", cost_usd="0.1", **used)
    for by in ("plan", "agent", "model", "day", "task"):
        report = budgeted.ledger.report(by)
        for line in (*report.lines, report.total):
            assert {name: getattr(line, name) for name in used} == {name: 3 * count for name, count in used.items()}
            assert line.tokens == 3 * 4_321


def test_d22_usage_of_an_attempt_that_was_fenced_off_is_counted_once(budgeted, clock):
    """The money was spent: it stays with its fence, in the budget once, and is waste."""
    put(budgeted, "a")
    late = claimed(budgeted, "a", "ann")
    clock.advance(61)
    claimed(budgeted, "a", "bob")
    receipt = budgeted.ledger.record(lease=late, output_tokens=1, cost_usd=2)
    assert (receipt.entry.fence, receipt.entry.agent_id) == (1, "ann")
    assert spent(budgeted) == 2 * USD
    assert budgeted.ledger.report().total.wasted_pusd == 2 * USD
