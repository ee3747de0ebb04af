"""What a usage costs, in whole units of 10^-12 USD, from the price list that comes with the library `genai-prices`.

Only the bundled list is read, never the network, nor a list that somebody else in this process has fetched: the same
installation gives the same price for the same call, and says under which version.

**Which model.** The library finds a model for nearly every name (`claude-sonnet-4-5-mytune` is priced as its base). A
wrong price is worse than none, so a name counts only if the list spells it out: as the id of a model, or as the whole
text of an `equals` or `starts_with` clause, letter case aside. A release of such a name, ending in `-latest`, a date
(`-20250219`, `-2025-02-19`) or `@` and a date, counts if the list itself takes it for that model. Before a slash may
stand a provider (`openrouter/openai/gpt-4o`) under its id or a word by which the list knows it; without one, the name
belongs to the provider that the list gives such names to.

**What is unpriced** rather than guessed at: a model without a price for a bucket that has tokens; one that also bills
something the buckets do not tell (a fee per request; reasoning, images or audio in the output at a price of their
own). Input is taken for text.

**The arithmetic is ours**, with the list's rates: the library's sum bills a bucket without a price as plain input
(a million cached tokens of `gpt-5-pro` as 15 USD), and it rounds as the calling thread's decimal context says (a call
of 0.184918125 USD is 0.184918 where that has six digits). Here a cost is an exact fraction, rounded once, at its end,
half to even. Tests hold the two against each other on the whole list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from agentmesh.errors import InvalidArgument
from agentmesh.limits import INTEGER, PUSD
from agentmesh.loading import loading
from agentmesh.model import Price, Usage

if TYPE_CHECKING:
    from genai_prices.types import MatchLogic, ModelInfo, ModelPrice, Provider, TieredPrices

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MTOK: Final = 10**6
LEAST_USD_PER_MTOK: Final = Decimal("0.0001")
MOST_USD_PER_MTOK: Final = Decimal(10_000)
RELEASE: Final = re.compile(r"([-@]20\d{6}|-20\d\d-\d\d-\d\d|-latest)$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rates:
    """USD per million tokens of each bucket; None where there is no price.

    Raises:
        InvalidArgument: a rate is no decimal, or so far off that its unit must be another.
    """

    input_usd_per_mtok: Decimal | None = None
    cached_input_usd_per_mtok: Decimal | None = None
    cache_write_usd_per_mtok: Decimal | None = None
    output_usd_per_mtok: Decimal | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            rate = getattr(self, field.name)
            if not (rate is None or (isinstance(rate, Decimal) and is_plausible(rate))):
                raise InvalidArgument(
                    field.name,
                    f"must be a decimal, 0 or from {LEAST_USD_PER_MTOK} to {MOST_USD_PER_MTOK} USD per million tokens",
                )


def is_plausible(usd_per_mtok: Decimal) -> bool:
    """Whether somebody may charge that: nothing, or 10^-10 to 0.01 USD per token."""
    return usd_per_mtok.is_finite() and (usd_per_mtok == 0 or LEAST_USD_PER_MTOK <= usd_per_mtok <= MOST_USD_PER_MTOK)


def price(model: str, usage: Usage, *, at_us: int) -> Price | None:
    """What the usage cost by the list prices of the instant `at_us`; None when it is unpriced.

    Raises:
        InvalidArgument: the cost is more than a board can hold.
    """
    found = _model(model.lower())
    rates = _rates(found.get_prices(EPOCH + timedelta(microseconds=at_us)), usage) if found else None
    cost = cost_pusd(usage, rates) if rates else None
    return None if cost is None else Price(cost, _source())


def cost_pusd(usage: Usage, rates: Rates) -> int | None:
    """What the usage costs at these rates, half a unit rounded to even; None when a bucket in use has no rate.

    Raises:
        InvalidArgument: the cost is more than a board can hold.
    """
    billed = [
        (usage.input_tokens, rates.input_usd_per_mtok),
        (usage.cached_input_tokens, rates.cached_input_usd_per_mtok),
        (usage.cache_write_tokens, rates.cache_write_usd_per_mtok),
        (usage.output_tokens, rates.output_usd_per_mtok),
    ]
    cost = Fraction()
    for tokens, rate in billed:
        if tokens and rate is None:
            return None
        cost += tokens * Fraction(rate or 0)
    found = round(cost * PUSD / MTOK)
    if found > INTEGER:
        raise InvalidArgument("usage", f"costs more than {INTEGER // PUSD} USD, the most a board can hold")
    return found


def _rates(prices: ModelPrice, usage: Usage) -> Rates | None:
    """The rates that apply to a prompt of this size; None when more is billed than the buckets tell."""
    billed = {key for key, value in vars(prices).items() if value is not None}
    if any(key == "requests_kcount" or key.startswith("output_") for key in billed - {"output_mtok"}):
        return None
    prompt_tokens = usage.total_tokens - usage.output_tokens
    keys = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")
    found = [_rate(getattr(prices, key), prompt_tokens) for key in keys]
    return None if found == [None] * len(keys) else Rates(*found)


def _rate(listed: Decimal | TieredPrices | None, prompt_tokens: int) -> Decimal | None:
    """The rate for a prompt of this size: a tier once passed applies to all tokens, those below it too."""
    if listed is not None and not isinstance(listed, Decimal):
        passed = [tier.price for tier in listed.tiers if prompt_tokens > tier.start]
        listed = passed[-1] if passed else listed.base
    return listed if listed is None or is_plausible(listed) else None


@lru_cache(maxsize=512)
def _model(name: str) -> ModelInfo | None:
    """The model that the list spells out under this name."""
    providers = _providers()
    head, slash, tail = name.partition("/")
    provider = next((one for one in providers if slash and head in (one.id, *_words(one.provider_match))), None)
    if provider:
        name = tail
    else:
        provider = next((one for one in providers if one.model_match and one.model_match.is_match(name)), None)
    found = provider and provider.find_model(name, all_providers=providers)
    return found if found and _spells_out(found, name) else None


def _spells_out(model: ModelInfo, name: str) -> bool:
    names = {model.id.lower(), *_words(model.match, "equals", "starts_with")}
    return name in names or RELEASE.sub("", name) in {RELEASE.sub("", listed) for listed in names}


def _words(clause: MatchLogic | None, *kinds: str) -> Iterator[str]:
    """The texts of a clause or of its alternatives, of these kinds or of any but patterns."""
    for one in getattr(clause, "or_", [clause]):
        for kind in kinds or ("equals", "starts_with", "contains", "ends_with"):
            if word := getattr(one, kind, None):
                yield word.lower()


def _providers() -> list[Provider]:
    with loading():
        from genai_prices.data import providers  # noqa: PLC0415 - takes 0.3 s, which boards that price nothing never pay

    return providers


@cache
def _source() -> str:
    with loading():
        from importlib.metadata import version  # noqa: PLC0415 - 40 ms that only a price is worth

    return f"genai-prices {version('genai-prices')}"
