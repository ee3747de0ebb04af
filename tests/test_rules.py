"""The pure decisions: edges, retries, refunds, cycles."""

from itertools import pairwise, permutations

import pytest
from hypothesis import given, strategies as st

from agentmesh.model import CONDITIONS, FINAL, STATES
from agentmesh.rules import (
    CEILINGS,
    RETRY_BASE_US,
    RETRY_LIMIT_US,
    conditions_met_by,
    find_cycle,
    is_met,
    parents_first,
    retry_delay_us,
    uncharged,
)

TABLE = {
    ("completed", "completed"): True,
    ("completed", "failed"): False,
    ("completed", "cancelled"): False,
    ("failed", "completed"): False,
    ("failed", "failed"): True,
    ("failed", "cancelled"): False,
    ("finished", "completed"): True,
    ("finished", "failed"): True,
    ("finished", "cancelled"): True,
}
MOST_JITTER = 2**16 - 1


@pytest.mark.parametrize(("condition", "end"), TABLE)
def test_an_edge_makes_of_its_parents_end_what_the_table_says(condition, end):
    """Condition times end: three conditions, three ends, nine answers."""
    assert is_met(condition, end) is TABLE[condition, end]


@pytest.mark.parametrize("state", [state for state in STATES if state not in FINAL])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_condition_is_met_by_a_parent_that_has_not_ended(condition, state):
    """Whatever an edge waits for, it waits for an end."""
    assert not is_met(condition, state)


@pytest.mark.parametrize("end", sorted(FINAL))
def test_the_conditions_met_by_an_end_are_those_of_the_table(end):
    """The two readings of the table never disagree."""
    assert set(conditions_met_by(end)) == {condition for condition in CONDITIONS if TABLE[condition, end]}


@pytest.mark.parametrize(
    ("charged", "jitter", "seconds"),
    [(1, 0, 1), (2, 0, 2), (3, 0, 4), (1, 2**15, 1.5), (10, 0, 300), (1000, 0, 300), (0, 0, 1), (-5, 0, 1)],
)
def test_a_retry_waits_twice_as_long_each_time_up_to_ten_minutes(charged, jitter, seconds):
    """Half of the wait is fixed, half of it is jitter: 2, 4, 8 ... 600 seconds at most."""
    assert retry_delay_us(charged, jitter) == seconds * 1_000_000


@given(charged=st.integers(1, 10**6), jitter=st.integers(0, MOST_JITTER))
def test_a_retry_delay_stays_within_its_bounds(charged, jitter):
    """Never under half the base, never over the limit, and never shorter with more jitter."""
    delay = retry_delay_us(charged, jitter)
    assert RETRY_BASE_US // 2 <= delay < RETRY_LIMIT_US
    assert delay >= retry_delay_us(charged, 0)


@pytest.mark.parametrize(
    ("outcome", "kind", "key"),
    [
        ("released", None, "released"),
        ("failed", "infra", "infra"),
        ("failed", "quota", "quota"),
        ("failed", "task", None),
        ("completed", None, None),
        ("reclaimed", None, None),
        ("cancelled", None, None),
        ("split", None, None),
    ],
)
def test_three_ends_are_never_charged(outcome, kind, key):
    """Release, infra and quota; each of them has a ceiling. A split is not charged as long as its own count allows."""
    assert uncharged(outcome, kind) == key
    assert key is None or CEILINGS[key] > 0


def test_a_graph_without_a_cycle_has_none():
    """A diamond and a task on its own."""
    assert find_cycle({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"], "e": []}) is None


def test_an_empty_graph_has_no_cycle():
    """Nothing waits for nothing."""
    assert find_cycle({}) is None


def test_a_node_that_waits_for_itself_is_a_cycle():
    """The shortest one."""
    assert find_cycle({"a": ["a"]}) == ["a", "a"]


def test_parents_outside_the_graph_close_no_cycle():
    """What is on the board already cannot wait for what is new."""
    assert find_cycle({"a": ["outside"], "b": ["a", "outside"]}) is None


@pytest.mark.parametrize("order", list(permutations("abc")))
def test_a_cycle_is_found_in_any_order_of_nodes(order):
    """The answer does not depend on which node is looked at first."""
    above = {"a": ["b"], "b": ["c"], "c": ["a"]}
    cycle = find_cycle({node: above[node] for node in order})
    assert cycle is not None
    assert cycle[0] == cycle[-1]
    assert set(cycle) == set("abc")


graphs = st.integers(1, 8).flatmap(
    lambda size: st.dictionaries(
        st.integers(0, size - 1), st.lists(st.integers(0, size - 1), max_size=4, unique=True), min_size=1
    )
)


@given(graphs)
def test_a_cycle_that_is_found_is_one_and_none_is_missed(parents):
    """What is returned can be walked edge by edge; None means that peeling off leaves empties the graph."""
    cycle = find_cycle(parents)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert all(below in parents[above] for above, below in pairwise(cycle))
        return
    left = dict(parents)
    while free := [node for node in left if not any(parent in left for parent in left[node])]:
        for node in free:
            del left[node]
    assert left == {}


def test_a_chain_of_ten_thousand_needs_no_recursion():
    """Depth costs nothing but time."""
    chain = {n: [n - 1] for n in range(1, 10_000)} | {0: []}
    assert find_cycle(chain) is None
    assert len(find_cycle(chain | {0: [9_999]})) == 10_001


def test_tasks_come_after_what_they_wait_for():
    """Whoever waits for a cycle does not come at all, nor does the cycle."""
    graph = {"d": ["b", "c"], "b": ["a", "outside"], "c": ["a"], "a": [], "x": ["y"], "y": ["x"], "z": ["x"]}
    order = parents_first(graph)
    assert sorted(order) == ["a", "b", "c", "d"]
    assert all(order.index(parent) < order.index(task) for task in order for parent in graph[task] if parent in graph)
