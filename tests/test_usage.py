"""Usage blocks of the vendors: what they say, in disjoint buckets, and what is refused rather than guessed at."""

import pytest
from hypothesis import given, strategies as st

from agentmesh.errors import InvalidArgument
from agentmesh.model import Usage
from agentmesh.usage import DIALECTS, FORMS, UsageReading, read_usage

COUNTS = st.integers(0, 10**9)


def openai_chat(usage, reasoning):
    """As the chat completions API reports it."""
    prompt = usage.total_tokens - usage.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "audio_tokens": 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def openai_responses(usage, reasoning):
    """As the responses API reports it."""
    return {
        "input_tokens": usage.total_tokens - usage.output_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.total_tokens,
    }


def anthropic(usage, reasoning):
    """As the messages API reports it."""
    return {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.cache_write_tokens,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"thinking_tokens": reasoning},
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "inference_geo": "not_available",
    }


def langfuse(usage, _reasoning):
    """As usage types, which do not overlap."""
    return {
        "input": usage.input_tokens,
        "cache_read": usage.cached_input_tokens,
        "cache_write": usage.cache_write_tokens,
        "output": usage.output_tokens,
        "total": usage.total_tokens,
    }


WRITERS = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "anthropic": anthropic,
    "langfuse": langfuse,
}


def refused(block, **options):
    """The field that the refusal names."""
    with pytest.raises(InvalidArgument) as refusal:
        read_usage(block, **options)
    return refusal.value.field


def test_every_dialect_has_its_row():
    """The table below is complete."""
    assert tuple(WRITERS) == DIALECTS


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_usage_is_the_same_in_every_dialect(dialect):
    """2,600 tokens in, 2,000 of them read from a cache and 400 written to it; 350 out, 120 of them reasoning."""
    usage = Usage(200, 2_000, 400, 350)
    block = WRITERS[dialect](usage, 120)
    assert read_usage(block) == UsageReading(usage)
    assert read_usage(block, dialect=dialect) == UsageReading(usage)


@pytest.mark.parametrize("dialect", DIALECTS)
@given(usage=st.builds(Usage, COUNTS, COUNTS, COUNTS, COUNTS), share=st.floats(0, 1))
def test_no_token_is_lost_or_counted_twice(dialect, usage, share):
    """Whatever the counts are, zeros included."""
    block = WRITERS[dialect](usage, int(usage.output_tokens * share))
    assert read_usage(block) == UsageReading(usage)


@pytest.mark.parametrize(
    ("block", "usage"),
    [
        pytest.param(
            {
                "input_tokens": 117_231,
                "cached_input_tokens": 115_584,
                "output_tokens": 225,
                "reasoning_output_tokens": 64,
                "total_tokens": 117_456,
            },
            Usage(1_647, 115_584, 0, 225),
            id="codex",
        ),
        pytest.param(
            {
                "prompt_tokens": 1_100,
                "completion_tokens": 50,
                "total_tokens": 1_150,
                "prompt_tokens_details": {"cached_tokens": 1_024},
                "prompt_cache_hit_tokens": 1_024,
                "prompt_cache_miss_tokens": 76,
            },
            Usage(76, 1_024, 0, 50),
            id="deepseek",
        ),
        pytest.param(
            {
                "prompt_tokens": 10_120,
                "completion_tokens": 1_499,
                "total_tokens": 14_428,
                "prompt_tokens_details": {"cached_tokens": 128, "text_tokens": 10_120},
                "completion_tokens_details": {"reasoning_tokens": 2_809},
            },
            Usage(9_992, 128, 0, 4_308),
            id="xai counts reasoning beside the output",
        ),
        pytest.param({"prompt_tokens": 8, "total_tokens": 8}, Usage(8), id="embeddings have no output"),
        pytest.param(
            {
                "prompt_tokens": 30,
                "completion_tokens": 4,
                "total_tokens": 34,
                "prompt_tokens_details": None,
                "completion_tokens_details": {"reasoning_tokens": None},
                "input_tokens": 0,
                "output_tokens": 0,
                "input_tokens_details": None,
                "cache_read_input_tokens": 0,
            },
            Usage(30, 0, 0, 4),
            id="a gateway that fills in zeros",
        ),
        pytest.param(
            {
                "input_tokens": 0,
                "cache_creation_input_tokens": None,
                "cache_read_input_tokens": 2_048,
                "cache_creation": None,
                "output_tokens": 12,
                "service_tier": None,
                "server_tool_use": None,
            },
            Usage(0, 2_048, 0, 12),
            id="anthropic with nulls",
        ),
        pytest.param(
            {
                "input_tokens": 3,
                "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": None},
                "output_tokens": 5,
            },
            Usage(3, 0, 100, 5),
            id="anthropic, only the split told",
        ),
        pytest.param(
            {"input": 86, "input_cached_tokens": 17_817, "output": 20, "output_reasoning_tokens": 30, "total": 17_953},
            Usage(86, 17_817, 0, 50),
            id="langfuse as it takes an openai block apart",
        ),
        pytest.param({"input": 7, "output": 2, "output_reasoning_tokens": 5}, Usage(7, 0, 0, 7), id="usage types"),
    ],
)
def test_real_blocks_are_read(block, usage):
    """Shapes seen in public; nulls and zeros are normal."""
    assert read_usage(block) == UsageReading(usage)


def test_a_plain_block_needs_no_dialect():
    """Without a word about a cache, two dialects mean the same."""
    plain = {"input_tokens": 9, "output_tokens": 4}
    assert {read_usage(plain, dialect=dialect) for dialect in (None, "anthropic", "openai_responses")} == {
        UsageReading(Usage(9, 0, 0, 4))
    }


@pytest.mark.parametrize(
    "block",
    [
        {"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 3, "cache_read_input_tokens": 3},
        {
            "input_tokens": 9,
            "output_tokens": 4,
            "cache_read_input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 3},
        },
        {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13, "cache_read_input_tokens": 3},
        {"prompt_tokens": 9, "completion_tokens": 4, "input_tokens": 8, "output_tokens": 4},
        {"input": 9, "output": 4, "prompt_tokens": 9},
    ],
)
def test_a_block_that_could_mean_two_things_is_refused(block):
    """D4: a cache that is inside the input in one dialect and beside it in another; a framework mixed them."""
    assert refused(block) == "usage"


def test_a_named_dialect_settles_it():
    """And what another dialect says in the block is reported as unknown."""
    block = {"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 3, "cache_read_input_tokens": 2}
    assert read_usage(block, dialect="openai_responses") == UsageReading(
        Usage(6, 3, 0, 4), ("cache_read_input_tokens",)
    )
    assert read_usage(block, dialect="anthropic") == UsageReading(Usage(9, 2, 0, 4), ("cached_input_tokens",))


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 10}}, "prompt_tokens"),
        ({"input_tokens": 9, "output_tokens": 4, "cached_input_tokens": 10}, "input_tokens"),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 5},
            },
            "input_tokens",
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 12}, "total_tokens"),
        ({"input_tokens": 9, "output_tokens": 4, "total_tokens": 14}, "total_tokens"),
        ({"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 5, "total_tokens": 13}, "total_tokens"),
        ({"input": 17_903, "input_cached_tokens": 17_817, "output": 20, "total": 17_923}, "total"),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 5}},
            "completion_tokens",
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "total_tokens": 13,
                "output_tokens_details": {"reasoning_tokens": 5},
            },
            "output_tokens",
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 4,
                "cache_creation_input_tokens": 7,
                "cache_creation": {"ephemeral_5m_input_tokens": 4, "ephemeral_1h_input_tokens": 4},
            },
            "cache_creation_input_tokens",
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 5},
                "prompt_cache_hit_tokens": 6,
            },
            "prompt_cache_hit_tokens",
        ),
        ({"prompt_tokens": 9}, "completion_tokens"),
        ({"prompt_tokens": 9, "total_tokens": 11}, "total_tokens"),
        ({"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": [1]}, "prompt_tokens_details"),
        ({"input_tokens": 9, "output_tokens": 4, "cache_creation": 3}, "cache_creation"),
        ({"output_tokens": 15}, "usage"),
        ({}, "usage"),
        ([9, 4], "usage"),
        (None, "usage"),
    ],
)
def test_a_block_that_contradicts_itself_is_refused(block, field):
    """D4: a mismatch names its field and is never smoothed over; so is what is missing or no block at all."""
    options = {"dialect": "anthropic"} if field == "cache_creation" else {}
    assert refused(block, **options) == field


COUNT_FIELDS = [
    (dialect, path)
    for dialect, form in FORMS.items()
    for path in (form.input, form.output, form.total, *form.cache, *form.reasoning)
]


@pytest.mark.parametrize("value", [-1, True, 1.0, "1", 10**12 + 1, [1]])
@pytest.mark.parametrize(("dialect", "path"), COUNT_FIELDS)
def test_a_count_is_a_whole_number_within_reason(dialect, path, value):
    """Negative, boolean, fractional, textual and absurd ones are refused by the name of their field."""
    block = WRITERS[dialect](Usage(1, 1, 1, 1), 1)
    parent, dot, name = path.partition(".")
    block |= {parent: block.get(parent, {}) | {name: value}} if dot else {path: value}
    assert refused(block) == refused(block, dialect=dialect) == path


@pytest.mark.parametrize("path", ["cache_read_input_tokens", "cache_creation_input_tokens", "cached_input_tokens"])
def test_a_count_that_looks_like_zero_is_no_zero(path):
    """Also where it is all that a plain block says of a cache."""
    for value in (False, 0.0, ""):
        assert refused({"input_tokens": 9, "output_tokens": 4, path: value}) == path


def test_the_largest_count_is_read():
    """A million million tokens are the end, and still in."""
    assert read_usage({"input": 10**12, "output": 0}).usage.total_tokens == 10**12


def test_the_only_input_that_is_missing_is_named():
    """With a dialect, it is known which field that would have been."""
    assert refused({"output_tokens": 4}, dialect="anthropic") == "input_tokens"
    assert refused({"completion_tokens": 4}, dialect="openai_chat") == "prompt_tokens"


def test_an_unknown_dialect_is_refused():
    """There are four."""
    assert refused({"input_tokens": 9, "output_tokens": 4}, dialect="gemini") == "dialect"


@pytest.mark.parametrize(
    ("more", "unknown"),
    [
        ({"spark_tokens": 7}, ("spark_tokens",)),
        ({"spark": {"tokens": 7, "words": 0}}, ("spark.tokens",)),
        ({"b": 1, "a": "x", "c": [0], "d": {"e": {"f": 1}}}, ("a", "b", "c", "d.e")),
        ({"cache_creation": {"ephemeral_1h_input_tokens": 5}}, ("cache_creation.ephemeral_1h_input_tokens",)),
        ({"server_tool_use": {"web_search_requests": 2}}, ("server_tool_use.web_search_requests",)),
        ({"service_tier": "batch"}, ("service_tier",)),
        (
            {"n": None, "z": 0, "f": False, "s": "", "l": [], "m": {}, "d": {"e": {"f": 0}}, "service_tier": "default"},
            (),
        ),
    ],
)
def test_what_the_buckets_cannot_tell_is_reported(more, unknown):
    """D19: new fields, and known ones that change the cost, are neither ignored nor fatal; empty ones say nothing."""
    assert read_usage({"input_tokens": 9, "output_tokens": 4} | more).unknown == unknown


def test_audio_is_reported():
    """It costs more than text, and the buckets do not tell them apart."""
    block = {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"audio_tokens": 3, "text_tokens": 6}}
    assert read_usage(block) == UsageReading(Usage(9, 0, 0, 4), ("prompt_tokens_details.audio_tokens",))


def test_unknown_names_are_few_and_plain():
    """A name that is no plain word, or beyond the sixteenth, is only counted in."""
    plain = {"input_tokens": 9, "output_tokens": 4}
    for odd in ("<script>", "two words", "\x1b[31m", "x" * 65, "caf\u00e9", "", 3):
        assert read_usage(plain | {odd: 1, "spark": 1}).unknown == ("spark", "...")
    many = {f"field_{number:02}": 1 for number in range(20)}
    assert read_usage(plain | many).unknown == (*sorted(many)[:16], "...")


def test_a_block_has_an_end():
    """Sixty-four fields are more than any vendor sends."""
    assert refused({"input_tokens": 9, "output_tokens": 4} | {f"field_{number}": 1 for number in range(63)}) == "usage"
    assert (
        refused({"input_tokens": 9, "output_tokens": 4, "details": {str(number): 1 for number in range(63)}}) == "usage"
    )


def test_no_refusal_repeats_foreign_text():
    """The names in a block come from outside."""
    for block in ({"<script>": 1}, {"input_tokens": "<script>", "output_tokens": 4}, {"<script>": {"<script>": 1}}):
        with pytest.raises(InvalidArgument) as refusal:
            read_usage(block)
        assert "script" not in refusal.value.message + refusal.value.hint
