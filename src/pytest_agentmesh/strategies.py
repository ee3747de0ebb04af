"""Hypothesis strategies for what goes onto a board. Each value is within the board's limits.

They shrink to what is small and plain: one task titled `fix`, the edges that matter, `src` rather than a long pattern.
Faker has no part in them, since its words do not shrink. Hypothesis is not among the dependencies: whoever imports this
module brings it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from string import ascii_lowercase
from typing import Any, Final, Literal

from agentmesh import limits
from agentmesh.board.specs import LEASE_SEC
from agentmesh.model import Condition, Json, Usage
from pytest_agentmesh.fake.shapes import SHAPES, Edges, Shape, of_size
from pytest_agentmesh.fake.vocabulary import MODELS, ROLES, usd

if find_spec("hypothesis") is None:
    raise ModuleNotFoundError(
        "pytest_agentmesh.strategies needs Hypothesis, which is not installed here: pip install hypothesis",
        name="hypothesis",
    )
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

GraphShape = Literal["any"] | Shape
GRAPH_SHAPES: Final[tuple[GraphShape, ...]] = ("any", *SHAPES)

WORDS: Final = ("fix", "add", "test", "the", "retry", "login", "of", "payments", "search", "export", "in", "cache")
SEGMENTS: Final = ("src", "tests", "docs", "payments", "main.py", "README.md", "*.py", "test_*", "*", "**")
CAPABILITIES: Final = sorted({name for names in ROLES.values() for name in names})
PLAIN_NAMES: Final = [f"{role}-{number:02x}" for role in ROLES for number in range(256)]
NOT_IN_SEGMENTS: Final = "/*.:[]{}?\\"
BUCKETS: Final = tuple(field.name for field in dataclasses.fields(Usage))
UNSAID: Final = st.just(...)
"""Of a field. The `optional` of `fixed_dictionaries` draws in an order of its own, which shrinks badly."""
MOST_TOKENS: Final = 200_000


def task_specs() -> SearchStrategy[dict[str, Any]]:
    """A task for `board.create_task(**spec)`, of its own: without an id, edges or an instant it must wait for."""
    title = _words(8) | _text(limits.TITLE).filter(str.strip)
    patterns = st.lists(file_patterns(), max_size=3)
    details = {
        "description": _words(30) | _text(200),
        "priority": st.integers(-limits.PRIORITY, limits.PRIORITY),
        "requires": st.lists(st.sampled_from(CAPABILITIES), max_size=3, unique=True),
        "tags": st.lists(st.sampled_from(WORDS) | _names(), max_size=3),
        "writes": patterns,
        "reads": patterns,
        "payload": json_values(),
        "estimate_usd": st.integers(0, 100_00).map(usd),
        "estimate_tokens": st.integers(0, 10 * MOST_TOKENS),
        "lease_timeout_sec": durations(),
        "max_hold_sec": durations(most=limits.HOLD_SEC[1]),
        "max_attempts": st.integers(1, limits.ATTEMPTS),
    }
    said = {field: UNSAID | value for field, value in details.items()}
    return st.fixed_dictionaries({"title": title, **said}).map(_spec)


@st.composite
def task_graphs(
    draw: DrawFn,
    *,
    shapes: Sequence[GraphShape] = GRAPH_SHAPES,
    max_size: int = 12,
    conditions: Sequence[Condition] = ("completed",),
    fields: SearchStrategy[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Tasks `a`, `b`, ... for `board.create_tasks(specs)`, parents first, so that there is never a cycle.

    Args:
        draw: given by Hypothesis.
        shapes: which shapes; `any` is any graph, and what is left of it when it shrinks are the edges that matter.
        max_size: how many tasks at most, 1 to 10,000.
        conditions: on what edges may depend.
        fields: more fields for each task, such as `task_specs()`.
    """
    names: list[str] = []
    specs = []
    for above in draw(st.one_of([_edges(shape, max_size) for shape in shapes])):
        names.append(_name(len(names)))
        edges = [_edge(names[place], draw(st.sampled_from(conditions))) for place in above]
        more = {} if fields is None else draw(fields)
        specs.append({"title": f"Task {names[-1]}", **more, "id": names[-1], "depends_on": edges})
    return specs


def agent_names() -> SearchStrategy[str]:
    """Names of agents such as `coder-07`, and any other that the board takes."""
    return st.sampled_from(PLAIN_NAMES) | _names()


def file_patterns() -> SearchStrategy[str]:
    """Patterns for `writes` and `reads`, with and without wildcards; many of them overlap."""
    letters = st.characters(categories=("L", "M", "N", "P", "S"), exclude_characters=NOT_IN_SEGMENTS)
    segments = st.sampled_from(SEGMENTS) | st.text(letters, min_size=1, max_size=8)
    path = st.lists(segments, min_size=1, max_size=5).map("/".join)
    return st.tuples(path, st.sampled_from(("", "/"))).map("".join)


@st.composite
def usages(draw: DrawFn, *, models: Sequence[str] = tuple(MODELS)) -> dict[str, Any]:
    """A call of one of these models for `board.ledger.record(agent_id, **usage)`; it used at least one token.

    Cache writes are reported only of vendors that charge for them, so each call of a known model has a price.
    """
    tokens = st.integers(0, MOST_TOKENS)
    known = MODELS.get(model := draw(st.sampled_from(models)))
    counts = {bucket: draw(tokens) for bucket in BUCKETS}  # as many draws whatever the model, so that it shrinks, too
    if not (known and known.cache_writes):
        counts["cache_write_tokens"] = 0
    if not any(counts.values()):
        counts["output_tokens"] = 1
    return {"model": model, **counts, "duration_ms": draw(st.integers(0, 600_000))}


def json_values() -> SearchStrategy[Json]:
    """JSON that fits into a payload, a result and an entry."""
    leaves = (
        st.none()
        | st.booleans()
        | st.integers(-limits.INTEGER - 1, limits.INTEGER)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _text(50)
    )
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_text(20), inner, max_size=5),
        max_leaves=20,
    )


def durations(*, least: float = limits.LEASE_SEC[0], most: float = limits.LEASE_SEC[1]) -> SearchStrategy[float]:
    """Seconds from `least` to `most`, whole ones among them; by default those that a lease may last."""
    whole = math.ceil(least), math.floor(most)
    some = st.floats(least, most)
    return st.integers(*whole) | some if whole[0] <= whole[1] else some


def _edges(shape: GraphShape, max_size: int) -> SearchStrategy[Edges]:
    """For each task the places it waits for; in `any` graph drawn as how far up, so that a task can go alone."""
    if shape != "any":
        return st.integers(1, max_size).map(partial(of_size, shape))
    above = st.sets(st.integers(1, max_size), max_size=3)
    return st.lists(above, min_size=1, max_size=max_size).map(_reached)


def _reached(above: Sequence[set[int]]) -> Edges:
    return [tuple(sorted(place - up for up in ups if up <= place)) for place, ups in enumerate(above)]


def _name(place: int) -> str:
    return ascii_lowercase[place] if place < len(ascii_lowercase) else f"t{place}"


def _edge(name: str, condition: Condition) -> str:
    return name if condition == "completed" else f"{name}:{condition}"


def _words(most: int) -> SearchStrategy[str]:
    """One word, since that is the simplest, or several."""
    word = st.sampled_from(WORDS)
    return word | st.lists(word, min_size=1, max_size=most).map(" ".join)


def _text(most: int) -> SearchStrategy[str]:
    """Any text that can be stored."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
    return st.text(letters, max_size=most)


def _names() -> SearchStrategy[str]:
    """Any name: printable, without white space."""
    return st.text(st.characters(categories=("L", "M", "N", "P", "S")), min_size=1, max_size=limits.NAME)


def _spec(fields: dict[str, Any]) -> dict[str, Any]:
    """Only what is said; a task may not be held for less than its lease lasts."""
    spec = {field: value for field, value in fields.items() if value is not ...}
    if "max_hold_sec" in spec:
        spec["max_hold_sec"] = max(spec["max_hold_sec"], spec.get("lease_timeout_sec", LEASE_SEC))
    return spec
