"""What a usage costs: to the last of twelve digits, for a model of exactly that name, or not at all."""

import subprocess
import sys
from datetime import UTC, datetime
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext

import pytest
from genai_prices import data_snapshot, types
from genai_prices.data import providers

from agentmesh import prices
from agentmesh.errors import InvalidArgument
from agentmesh.limits import PUSD
from agentmesh.model import Price, Usage
from agentmesh.prices import Rates, cost_pusd, price

D1 = Usage(5_005, 257_955, 0, 1_744)
D2 = Usage(3, 0, 12_304, 550)
FLAGSHIP = ("3", "0.30", "3.75", "15")


def rates(*usd_per_mtok):
    """Rates of input, cached input, cache writes and output, as decimal text."""
    return Rates(*(rate and Decimal(rate) for rate in usd_per_mtok))


def us(*date):
    """An instant UTC as microseconds."""
    return int(datetime(*date, tzinfo=UTC).timestamp()) * 1_000_000


NOW = us(2026, 11, 1)


def cost(model, usage, at_us=NOW):
    """What the bundled list says; None when it says nothing."""
    found = price(model, usage, at_us=at_us)
    return found and found.cost_pusd


@pytest.mark.parametrize(
    ("usage", "listed", "pusd"),
    [
        pytest.param(D1, ("1.25", "0.625", None, "10"), 184_918_125_000, id="D1 cached tokens are billed once"),
        pytest.param(D2, FLAGSHIP, 54_399_000_000, id="D2 cache writes are billed once"),
        pytest.param(Usage(), FLAGSHIP, 0, id="nothing"),
        pytest.param(Usage(1, 1, 1, 1), ("0", "0", "0", "0"), 0, id="free of charge"),
        pytest.param(Usage(1, 1, 1, 1), FLAGSHIP, 22_050_000, id="one of each"),
        pytest.param(Usage(10, 0, 0, 20), ("0.1", None, None, "0.2"), 5_000_000, id="D13 no binary fractions"),
        pytest.param(Usage(3), ("0.1", None, None, None), 300_000, id="D13 three times 0.1"),
        pytest.param(Usage(10**12), ("9.223372036854", None, None, None), 9_223_372_036_854_000_000, id="the most"),
    ],
)
def test_a_cost_is_exact(usage, listed, pusd):
    """D1, D2, D13: each bucket once, at its own rate, to the last unit."""
    assert cost_pusd(usage, rates(*listed)) == pusd


@pytest.mark.parametrize(
    ("usage", "rate", "pusd"),
    [
        (Usage(1), "0.1234565", 123_456),
        (Usage(1), "0.1234575", 123_458),
        (Usage(1), "0.12345650000000000000000000000000000001", 123_457),
        (Usage(1, 1), "0.1234565", 246_913),
        (Usage(10), "0.18000000000000002", 1_800_000),
    ],
)
def test_a_rate_finer_than_a_unit_is_rounded_once_and_last(usage, rate, pusd):
    """Half to even, after all buckets are added up."""
    assert cost_pusd(usage, rates(rate, rate, None, None)) == pusd


def test_no_setting_of_the_thread_changes_a_cost():
    """D13: frameworks in the same process may work with few digits."""
    with localcontext(prec=3):
        assert cost_pusd(D1, rates("1.25", "0.625", None, "10")) == 184_918_125_000
        assert cost("claude-3-7-sonnet", D2) == 54_399_000_000


@pytest.mark.parametrize("bucket", range(4))
def test_a_bucket_without_a_rate_is_not_free(bucket):
    """D8, D19: used, it makes the whole call unpriced; unused, it is no matter."""
    listed = [*FLAGSHIP[:bucket], None, *FLAGSHIP[bucket + 1 :]]
    used = [0, 0, 0, 0]
    assert cost_pusd(Usage(*used), rates(*listed)) == 0
    used[bucket] = 1
    assert cost_pusd(Usage(*used), rates(*listed)) is None


@pytest.mark.parametrize("bucket", range(4))
@pytest.mark.parametrize(
    "rate",
    [
        pytest.param(Decimal("3.0") * 10**6, id="per token, taken times a million"),
        pytest.param(Decimal("0.000003"), id="per token, taken as it is"),
        pytest.param(Decimal("10000.01"), id="over a cent per token"),
        pytest.param(Decimal("0.00009"), id="below all that is charged"),
        pytest.param(Decimal(-1), id="negative"),
        pytest.param(Decimal("NaN"), id="no number"),
        pytest.param(Decimal("Infinity"), id="no end"),
        pytest.param(3.0, id="binary fraction"),
        pytest.param("3", id="text"),
    ],
)
def test_a_rate_of_another_unit_is_refused(bucket, rate):
    """D11, D13: 3.0 per token is no price that anybody charges; and a rate is decimal."""
    field = ("input", "cached_input", "cache_write", "output")[bucket] + "_usd_per_mtok"
    with pytest.raises(InvalidArgument) as refusal:
        Rates(**{field: rate})
    assert refusal.value.field == field


def test_a_cost_that_no_board_can_hold_is_refused():
    """Nine million dollars for a call are a mistake, and 64 bits."""
    with pytest.raises(InvalidArgument, match="costs more than 9223372 USD"):
        cost_pusd(Usage(10**12), rates("9.23", None, None, None))


@pytest.mark.parametrize(
    ("model", "usage", "pusd"),
    [
        pytest.param("claude-3-7-sonnet", D2, 54_399_000_000, id="D2"),
        pytest.param("gpt-5", D1, 55_940_625_000, id="D1 at 1.25/0.125/10"),
        pytest.param("gpt-4o", Usage(1, 1, 0, 1), 13_750_000, id="no price for a bucket not used"),
        pytest.param("claude-3-7-sonnet", Usage(), 0, id="nothing"),
        pytest.param("openai/text-embedding-3-small", Usage(1_000), 20_000_000, id="no output, no price for it"),
    ],
)
def test_a_listed_model_is_priced(model, usage, pusd):
    """D1, D2: the same figures through the bundled list, whose input is ours and the cached and written tokens too."""
    assert price(model, usage, at_us=NOW) == Price(pusd, "genai-prices " + data_version())


def data_version():
    """The version of the list, told by the library itself."""
    import genai_prices  # noqa: PLC0415 - its package is told apart from its data above

    return genai_prices.__version__


@pytest.mark.parametrize(
    ("model", "usage", "pusd"),
    [
        ("gemini-2.5-pro", Usage(199_999), 249_998_750_000),
        ("gemini-2.5-pro", Usage(200_000), 250_000_000_000),
        ("gemini-2.5-pro", Usage(200_001), 500_002_500_000),
        ("gemini-2.5-pro", Usage(200_001, 0, 0, 1_000), 515_002_500_000),
        ("gemini-2.5-pro", Usage(1_000, 0, 0, 300_000), 3_001_250_000_000),
        ("gemini-2.5-pro", Usage(1, 199_999), 25_001_125_000),
        ("gemini-2.5-pro", Usage(1, 200_000), 50_002_500_000),
        ("claude-sonnet-4-5", Usage(0, 100_000, 100_000, 10), 405_150_000_000),
        ("claude-sonnet-4-5", Usage(1, 100_000, 100_000, 10), 810_231_000_000),
        ("grok-4.20", Usage(199_999), 249_998_750_000),
        ("grok-4.20", Usage(200_000), 500_000_000_000),
        ("grok-4.20", Usage(200_001), 500_002_500_000),
    ],
)
def test_a_long_prompt_is_billed_at_its_tier_from_the_first_token(model, usage, pusd):
    """D7: the vendor's threshold looks at all input, cached too, and then counts for all tokens, output too."""
    assert cost(model, usage) == pusd


@pytest.mark.parametrize(
    ("model", "at", "pusd"),
    [
        ("o3", (2025, 6, 9, 23, 59, 59), 50_000_000),
        ("o3", (2025, 6, 10), 10_000_000),
        ("o3", (1970, 1, 1), 50_000_000),
        ("deepseek-chat", (2025, 5, 1, 0, 29, 59), 685_000),
        ("deepseek-chat", (2025, 5, 1, 0, 30), 1_370_000),
        ("deepseek-chat", (2025, 5, 1, 16, 30), 685_000),
    ],
)
def test_the_price_is_that_of_the_instant_of_the_call(model, at, pusd):
    """A list price changes on a day, some by the hour."""
    assert cost(model, Usage(1, 0, 0, 1), us(*at)) == pusd


KNOWN = {
    "claude-3-7-sonnet": "claude-3-7-sonnet-latest",
    "claude-3-7-sonnet-latest": "claude-3-7-sonnet-latest",
    "claude-3-7-sonnet-20250219": "claude-3-7-sonnet-latest",
    "claude-3.7-sonnet": "claude-3-7-sonnet-latest",
    "Claude-3-7-Sonnet": "claude-3-7-sonnet-latest",
    "claude-sonnet-4-20250514": "claude-sonnet-4-0",
    "claude-sonnet-4-5@20250929": "claude-sonnet-4-5",
    "gpt-4o": "gpt-4o",
    "gpt-4o-2024-08-06": "gpt-4o",
    "gpt-4o-20240806": "gpt-4o",
    "gpt-4o-2024-05-13": "gpt-4o-2024-05-13",
    "gpt-5.1-codex": "gpt-5.1",
    "openai/gpt-4o": "gpt-4o",
    "azure/gpt-4o": "gpt-4o",
    "xai/grok-4": "grok-4-0709",
    "vertex/claude-sonnet-4-5": "claude-sonnet-4-5",
    "openrouter/openai/gpt-4o": "openai/gpt-4o",
    "cerebras/llama-3.3-70b": "llama-3.3-70b",
}
UNKNOWN = [
    "agent_8kXo1",
    "gpt-4-mytune",
    "my-gpt-4o",
    "gpt-4o-2099-01-01",
    "gpt-5-nano-mytune",
    "claude",
    "claude-sonnet-4-5-mytune",
    "my-claude-3-7-sonnet",
    "claude-3-7-sonnet-20251",
    "claude-3-7-sonnet-latest-2",
    "my-gemini-2.0-flash",
    "gemini-2.5-pro-mytune",
    "ft:gpt-4o-mini-2024-07-18:us::1",
    "llama-3.3-70b",
    "my-openai/gpt-4o",
    "openai/claude-3-7-sonnet",
    "openrouter/gpt-4o",
    "openai/",
    "/gpt-4o",
    "/",
    " gpt-4o",
    "gpt-4o\n",
    "claude-sonnet-5-20260101\n",
    "",
    "8k",
]


@pytest.mark.parametrize(("name", "id_"), KNOWN.items())
def test_a_model_is_known_by_the_names_that_the_list_spells_out(name, id_):
    """D10: its id, its aliases, their dated releases, all of them also behind a provider."""
    assert prices._model(name.lower()).id == id_
    assert price(name, Usage(1), at_us=NOW) is not None


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_name_that_merely_resembles_one_is_unknown(name):
    """D8, D10: no part of a name, no tune of a model and no stranger's prefix makes a price; and none is not zero."""
    assert price(name, Usage(1), at_us=NOW) is None


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        pytest.param("gpt-5-pro", Usage(1, 1), id="cached tokens"),
        pytest.param("gpt-4o", Usage(1, 0, 1), id="cache writes"),
        pytest.param("openai/text-embedding-3-small", Usage(1, 0, 0, 1), id="output"),
        pytest.param("whisper-1", Usage(), id="not sold by tokens"),
        pytest.param("perplexity/sonar", Usage(1), id="a fee per request"),
        pytest.param("perplexity/sonar-deep-research", Usage(1), id="reasoning at its own price"),
        pytest.param("gpt-audio", Usage(1, 0, 0, 1), id="audio at its own price"),
    ],
)
def test_what_the_list_does_not_price_is_unpriced(model, usage):
    """D8, D19: known, and still None rather than a part of the bill."""
    assert prices._model(model) is not None
    assert price(model, usage, at_us=NOW) is None


def test_a_rate_that_nobody_charges_prices_nothing(monkeypatch):
    """D11: a fault of the list, per token for per million, does not reach the ledger."""
    listed = types.ModelPrice(input_mtok=Decimal(3_000_000), output_mtok=Decimal(15))
    wrong = types.ModelInfo(id="m", match=types.ClauseEquals("m"), prices=listed)
    monkeypatch.setattr(prices, "_model", {"m": wrong}.get)
    assert cost("m", Usage(1)) is None
    assert cost("m", Usage(0, 0, 0, 1)) == 15_000_000


def library_cost(model, provider, usage):
    """What the library makes of it, whose input holds the cached and the written tokens, with digits enough."""
    told = types.Usage(
        input_tokens=usage.total_tokens - usage.output_tokens,
        cache_read_tokens=usage.cached_input_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    with localcontext(Context(prec=60)):
        at = datetime.fromtimestamp(NOW / 1_000_000, UTC)
        total = model.calc_price(told, provider, genai_request_timestamp=at).total_price
        return int((total * PUSD).to_integral_value(ROUND_HALF_EVEN))


@pytest.mark.parametrize(
    "usage",
    [
        Usage(1, 0, 0, 1),
        Usage(7, 3, 0, 5),
        Usage(7, 3, 2, 5),
        Usage(99_999, 50_000, 49_999, 77),
        Usage(9**7, 9**6, 1, 1),
    ],
)
def test_the_library_comes_to_the_same_cost(usage):
    """On every model of the list that has a price for all that was used, and these are most."""
    compared = 0
    for provider in providers:
        for model in provider.models:
            found = prices._rates(model.get_prices(datetime.fromtimestamp(NOW / 1_000_000, UTC)), usage)
            if found and (ours := cost_pusd(usage, found)) is not None:
                assert ours == library_cost(model, provider, usage), (provider.id, model.id)
                compared += 1
    assert compared > 200


def test_every_rate_of_the_list_is_plausible():
    """D11: the band fits what is charged today."""
    lists = [
        one
        for provider in providers
        for model in provider.models
        for one in ([each.prices for each in model.prices] if isinstance(model.prices, list) else [model.prices])
    ]
    listed = [getattr(one, key) for one in lists for key in ("input_mtok", "cache_read_mtok", "output_mtok")]
    flat = [rate for rate in listed if isinstance(rate, Decimal)]
    assert len(flat) > 1_000
    assert [rate for rate in flat if not prices.is_plausible(rate)] == []


def test_only_the_bundled_list_counts():
    """What another part of the process fetched from the network changes no price."""
    data_snapshot.set_custom_snapshot(data_snapshot.DataSnapshot(providers=[], from_auto_update=True))
    try:
        prices._model.cache_clear()
        assert cost("claude-3-7-sonnet", D2) == 54_399_000_000
    finally:
        data_snapshot.set_custom_snapshot(None)


WITHOUT_PRICES = """
import sys
from agentmesh import Board
from agentmesh.model import Usage
from agentmesh.prices import price
from agentmesh.usage import read_usage
with Board.open(sys.argv[1]) as board:
    board.create_task("t", id="t")
    board.claim_task("a").complete(read_usage({"input": 1, "output": 1}).usage.total_tokens)
print("genai_prices" in sys.modules)
price("gpt-4o", Usage(1), at_us=0)
print("genai_prices" in sys.modules)
"""


@pytest.mark.multiproc
def test_a_board_that_prices_nothing_does_not_load_the_list(board_path):
    """It takes a third of a second."""
    command = [sys.executable, "-c", WITHOUT_PRICES, str(board_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\nTrue\n"
