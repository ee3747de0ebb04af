"""What a call to a language model used, read from the usage block of its reply.

Vendors speak four dialects and mean different things by the same words. What we read are disjoint buckets: every
token is in exactly one, so nothing is billed twice.

- `openai_chat`, and the many who copied it: `prompt_tokens` holds all input, what came from a cache included.
- `openai_responses`: so does `input_tokens`; Codex says the same in a flat block (`cached_input_tokens`).
- `anthropic`: `input_tokens` holds only what no cache was part of; reads and writes of the cache stand beside it.
- `langfuse`: usage types (`input`, `cache_read`, `cache_write`, `output`), all beside each other.

A block that contradicts itself, or that could mean two things, is refused: a guess would become money.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from agentmesh import limits
from agentmesh.errors import InvalidArgument
from agentmesh.model import Usage

Dialect = Literal["openai_chat", "openai_responses", "anthropic", "langfuse"]
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)

FIELDS: Final = 64
UNKNOWN_SHOWN: Final = 16
PLAIN_NAME: Final = re.compile(r"[\w.-]{1,64}", re.ASCII)
ORDINARY: Final = frozenset({"", "standard", "default", "global", "not_available"})
"""Words for a tier or a place that change no price."""


@dataclass(frozen=True, slots=True)
class UsageReading:
    """A usage, and what its block carried beyond it.

    `unknown` names the fields that say something the buckets cannot: new ones, and known ones that change the cost
    (audio, cache writes for an hour, web searches, a batch tier). `...` stands for those too many or too odd to name.
    """

    usage: Usage
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Form:
    """Where a dialect says what; a dot leads into an object. Several names of one count have to agree."""

    input: str
    output: str
    total: str
    cached: tuple[str, ...]
    written: tuple[str, ...]
    reasoning: tuple[str, ...]
    written_parts: tuple[str, ...] = ()
    cache_inside: bool = True
    reasoning_inside: bool = True

    @property
    def cache(self) -> tuple[str, ...]:
        """All fields that speak of a cache."""
        return (*self.cached, *self.written, *self.written_parts)


REASONING: Final = (
    "output_tokens_details.reasoning_tokens",
    "output_tokens_details.thinking_tokens",
    "reasoning_output_tokens",
)
FORMS: Final[Mapping[str, _Form]] = {
    "openai_chat": _Form(
        input="prompt_tokens",
        output="completion_tokens",
        total="total_tokens",
        cached=("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens", "cached_tokens"),
        written=("prompt_tokens_details.cache_write_tokens",),
        reasoning=("completion_tokens_details.reasoning_tokens", "reasoning_tokens"),
    ),
    "openai_responses": _Form(
        input="input_tokens",
        output="output_tokens",
        total="total_tokens",
        cached=("input_tokens_details.cached_tokens", "cached_input_tokens"),
        written=("input_tokens_details.cache_write_tokens",),
        reasoning=REASONING,
    ),
    "anthropic": _Form(
        input="input_tokens",
        output="output_tokens",
        total="total_tokens",
        cached=("cache_read_input_tokens",),
        written=("cache_creation_input_tokens",),
        written_parts=("cache_creation.ephemeral_5m_input_tokens", "cache_creation.ephemeral_1h_input_tokens"),
        reasoning=REASONING,
        cache_inside=False,
    ),
    "langfuse": _Form(
        input="input",
        output="output",
        total="total",
        cached=("cache_read", "cache_read_input_tokens", "input_cached_tokens"),
        written=("cache_write", "cache_creation_input_tokens"),
        reasoning=("output_reasoning_tokens",),
        cache_inside=False,
        reasoning_inside=False,
    ),
}
PARTS: Final = frozenset(
    {
        "prompt_cache_miss_tokens",
        "prompt_tokens_details.text_tokens",
        "completion_tokens_details.text_tokens",
        "completion_tokens_details.accepted_prediction_tokens",
        "completion_tokens_details.rejected_prediction_tokens",
        "input_tokens_details.text_tokens",
        "output_tokens_details.text_tokens",
        "cache_creation.ephemeral_5m_input_tokens",
    }
)
"""Parts of a bucket that cost what the rest of it costs: nothing is lost by not telling them apart."""


def read_usage(block: Mapping[str, object], *, dialect: Dialect | None = None) -> UsageReading:
    """The disjoint buckets of a vendor's usage block.

    Args:
        block: the object as the vendor sent it; null fields count as absent.
        dialect: what its words mean; recognised by its fields when not given.

    Raises:
        InvalidArgument: a count is no whole number from 0 to 10^12, input or output is missing, the counts contradict
            each other, or the dialect is not clear.
    """
    left = _flat(block)
    form = FORMS[_recognised(left) if dialect is None else limits.choice("dialect", dialect, DIALECTS)]
    for path in (*form.cache, *form.reasoning):
        parent, dot, _ = path.partition(".")
        if dot and left.get(parent) is not None:
            raise InvalidArgument(parent, "must be an object")
    usage = _usage(left, form)
    return UsageReading(usage, _unknown(left))


def _flat(block: object) -> dict[str, object]:
    """The fields of a block, those of an object within it as `object.field`."""
    if not isinstance(block, Mapping):
        raise InvalidArgument("usage", "must be an object")
    found: dict[str, object] = {}
    for name, value in block.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{part}": inner for part, inner in value.items()}
        else:
            found[name] = value
    if len(found) > FIELDS:
        raise InvalidArgument("usage", f"must have at most {FIELDS} fields")
    return found


def _recognised(fields: Mapping[str, object]) -> str:
    """The dialect of a block: by its field for the input, then by what it says of a cache.

    Without a word about a cache, `anthropic` and `openai_responses` mean the same.
    """
    given = {form.input for form in FORMS.values() if fields.get(form.input) is not None}
    inputs = {name for name in given if fields[name] != 0} or given  # some fill what they do not use with zeros
    cache = {path for form in FORMS.values() for path in form.cache if _tells(fields.get(path))}
    fitting = [name for name, form in FORMS.items() if inputs == {form.input} and cache.issubset(form.cache)]
    if not fitting:
        raise InvalidArgument(
            "usage",
            "its fields could mean two different things" if given else "no known field says what the input was",
            hint=f"Name its dialect ({', '.join(DIALECTS)}), or give the token counts one by one.",
        )
    return max(fitting, key=lambda name: len(fields.keys() & set(FORMS[name].cache)))


def _usage(left: dict[str, object], form: _Form) -> Usage:
    """Take the counts out of what is left of the block, and check them against each other."""
    given = _count(left, form.input)
    cached = _count(left, *form.cached) or 0
    written = _written(left, form)
    output = _count(left, form.output)
    reasoning = _count(left, *form.reasoning) or 0
    total = _count(left, form.total)
    if given is None or (output is None and total is None):  # a total shows that there was no output
        raise InvalidArgument(form.input if given is None else form.output, "must be given")
    uncached = given - cached - written if form.cache_inside else given
    if uncached < 0:
        raise InvalidArgument(form.input, "is less than its cached and cache-write tokens together")
    usage = Usage(uncached, cached, written, output or 0)
    inside = form.reasoning_inside
    if total is not None:
        inside = total == usage.total_tokens
        if not inside and total != usage.total_tokens + reasoning:
            raise InvalidArgument(form.total, "is not the sum of its parts")
    if not inside:  # xAI, too, counts reasoning beside the output: only its total tells
        return replace(usage, output_tokens=usage.output_tokens + reasoning)
    if reasoning > usage.output_tokens:
        raise InvalidArgument(form.output, "is less than its reasoning tokens")
    return usage


def _written(left: dict[str, object], form: _Form) -> int:
    """Tokens written to a cache; where they are also split by lifetime, the parts have to sum up."""
    given = [path for path in form.written_parts if left.get(path) is not None]
    parts = sum(limits.integer(path, left[path], 0, limits.TOKENS) for path in given)
    whole = _count(left, *form.written)
    if given and whole not in (None, parts):
        raise InvalidArgument(form.written[0], "is not the sum of its parts")
    return parts if whole is None else whole


def _count(left: dict[str, object], *paths: str) -> int | None:
    """Take a count out of what is left; None where no name of it is given."""
    found: int | None = None
    for path in paths:
        value = left.pop(path, None)
        if value is None:
            continue
        count = limits.integer(path, value, 0, limits.TOKENS)
        if found not in (None, count):
            raise InvalidArgument(path, "differs from another field for the same count")
        found = count
    return found


def _unknown(left: Mapping[str, object]) -> tuple[str, ...]:
    telling = [path for path, value in left.items() if path not in PARTS and _tells(value)]
    plain = sorted(path for path in telling if isinstance(path, str) and PLAIN_NAME.fullmatch(path))
    shown = plain[:UNKNOWN_SHOWN]
    return (*shown, "...") if len(shown) < len(telling) else tuple(shown)


def _tells(value: object) -> bool:
    """Whether a field carries anything; null, zero, emptiness and the ordinary tier do not."""
    if isinstance(value, Mapping):
        return any(value.values())
    return value not in ORDINARY if isinstance(value, str) else bool(value)
