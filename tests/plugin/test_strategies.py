"""Hypothesis strategies: whatever they draw, a real board takes; whatever fails, shrinks to something plain."""

import subprocess
import sys
import tempfile
from contextlib import contextmanager

import pytest
from hypothesis import find, given, settings, strategies as st

from agentmesh import limits
from agentmesh.jsontext import encode
from agentmesh.model import CONDITIONS
from agentmesh.patterns import normalised
from pytest_agentmesh.fake.shapes import SHAPES, of_size
from pytest_agentmesh.fake.vocabulary import MODELS
from pytest_agentmesh.strategies import (
    agent_names,
    durations,
    file_patterns,
    json_values,
    task_graphs,
    task_specs,
    usages,
)
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

FEW = settings(max_examples=50)


@contextmanager
def fresh():
    """A board for one example."""
    with tempfile.TemporaryDirectory() as folder, open_board(f"{folder}/board.db", TurnableClock()) as board:
        yield board


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A board that all examples of a test may fill."""
    with open_board(tmp_path_factory.mktemp("strategies") / "board.db", TurnableClock()) as board:
        yield board


def smallest(strategy, condition=lambda _: True):
    """What an example shrinks to."""
    return find(strategy, condition, settings=settings(max_examples=500, database=None))


def edges(specs):
    """Who waits for whom."""
    return [(spec["id"], above) for spec in specs for above in spec["depends_on"]]


@given(spec=task_specs())
def test_a_board_takes_every_task(shared, spec):
    """With all that was said of it."""
    task = shared.get_task(shared.create_task(**spec).id)
    assert (task.title, task.description) == (spec["title"], spec.get("description"))
    assert task.max_hold_us >= task.lease_timeout_us


@FEW
@given(specs=task_graphs())
def test_every_graph_drains_with_parents_first(specs):
    """All of it comes onto a board in one call, and one agent after the other can finish it."""
    with fresh() as board:
        board.create_tasks(specs)
        done = []
        while claim := board.claim_task("a"):
            done.append(claim.complete().id)
        assert sorted(done) == sorted(spec["id"] for spec in specs)
        assert all(done.index(above) < done.index(child) for child, above in edges(specs))
        assert violations(board) == {}


@FEW
@given(specs=task_graphs(conditions=CONDITIONS, fields=task_specs(), max_size=8), ends=st.randoms())
def test_graphs_with_every_condition_and_field_are_sound(specs, ends):
    """However their tasks end, no promise is broken."""
    with fresh() as board:
        board.create_tasks(specs)
        for spec in specs:
            if claim := board.claim_task("a", task_id=spec["id"], capabilities=spec.get("requires", ())):
                ends.choice([claim.complete, lambda claim=claim: claim.fail("x", retry=False)])()
        assert violations(board) == {}


@given(data=st.data(), shape=st.sampled_from(SHAPES), most=st.integers(1, 40))
def test_a_named_shape_has_its_own_edges(data, shape, most):
    """Those which `MeshFake` gives it, at whatever size was drawn."""
    specs = data.draw(task_graphs(shapes=[shape], max_size=most))
    assert len(specs) <= most
    place = {spec["id"]: number for number, spec in enumerate(specs)}
    assert [tuple(place[above] for above in spec["depends_on"]) for spec in specs] == of_size(shape, len(specs))


@given(name=agent_names())
def test_a_board_knows_every_agent(shared, name):
    """It may claim, and use something."""
    shared.claim_task(name)
    assert shared.ledger.record(name, output_tokens=1).entry.agent_id == name


@given(pattern=file_patterns())
def test_a_board_takes_every_pattern(shared, pattern):
    """To write and to read, and keeps it in its normal form."""
    kept = (normalised("writes", pattern),)
    assert shared.create_task("t", writes=[pattern]).writes == kept
    assert shared.create_task("t", reads=[pattern]).reads == kept


@given(usage=usages())
def test_the_ledger_takes_and_prices_every_usage(shared, usage):
    """Those of the models that it knows."""
    entry = shared.ledger.record("a", **usage).entry
    assert entry.model in MODELS
    assert entry.cost_pusd is not None


@given(usage=usages(models=["our-own"]))
def test_the_ledger_takes_usage_of_other_models(shared, usage):
    """Without a price."""
    assert shared.ledger.record("a", **usage).entry.cost_pusd is None


@given(value=json_values())
def test_json_comes_back_from_everywhere_as_it_went_in(shared, value):
    """From an entry, a payload and a result; letter by letter, so that 1 is neither 1.0 nor true."""
    claim = shared.claim_task("a", task_id=shared.create_task("t", payload=value).id)
    claim.complete(value)
    shared.blackboard.put("n", "k", value)
    task = shared.get_task(claim.task.id)
    kept = [task.payload, task.result, shared.blackboard.get("n", "k").value]
    assert [encode(one) for one in kept] == [encode(value)] * 3


@given(sec=durations())
def test_a_lease_may_last_for_every_duration(shared, sec):
    """In seconds, to the microsecond."""
    assert shared.create_task("t", lease_timeout_sec=sec).lease_timeout_us == round(sec * 1_000_000)


@given(data=st.data(), least=st.floats(0, 1_000), more=st.floats(0, 3))
def test_durations_keep_their_bounds(data, least, more):
    """Also where no whole number lies between them."""
    assert least <= data.draw(durations(least=least, most=least + more)) <= least + more


@pytest.mark.parametrize(
    ("strategy", "plain"),
    [
        (task_specs(), {"title": "fix"}),
        (task_graphs(), [{"title": "Task a", "id": "a", "depends_on": []}]),
        (task_graphs(shapes=["fan_in"]), [{"title": "Task a", "id": "a", "depends_on": []}]),
        (agent_names(), "coder-00"),
        (file_patterns(), "src"),
        (json_values(), None),
        (durations(), 1),
    ],
)
def test_what_does_not_matter_shrinks_away(strategy, plain):
    """What is left says the least that can be said."""
    assert smallest(strategy) == plain


def test_an_edge_that_matters_is_all_that_is_left():
    """Two tasks; three where two parents matter; a row of three where depth does."""
    graphs = task_graphs()
    assert edges(smallest(graphs, edges)) == [("b", "a")]
    two_parents = smallest(graphs, lambda specs: any(len(spec["depends_on"]) > 1 for spec in specs))
    assert edges(two_parents) == [("c", "a"), ("c", "b")]
    deep = smallest(graphs, lambda specs: {("b", "a"), ("c", "b")} <= set(edges(specs)))
    assert edges(deep) == [("b", "a"), ("c", "b")]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_of_some_size_is_found_and_shrinks_to_that_size(shape):
    """No larger than it must be."""
    assert len(smallest(task_graphs(shapes=[shape]), lambda specs: len(specs) > 6)) == 7


@pytest.mark.slow
@pytest.mark.parametrize("field", ["writes", "max_hold_sec"])
def test_a_field_that_matters_is_the_only_one_that_is_left(field):
    """Beside the title, without which there is no task."""
    assert set(smallest(task_specs(), lambda spec: spec.get(field))) == {"title", field}


def test_a_value_shrinks_to_the_edge_at_which_it_matters():
    """The shortest pattern, the least number, the earliest model."""
    assert smallest(file_patterns(), lambda pattern: "**" in pattern) == "**"
    assert smallest(durations(), lambda sec: sec > 100) == 101
    assert smallest(json_values(), lambda value: isinstance(value, list) and value) == [None]
    assert smallest(agent_names(), lambda name: not name.isascii()).isprintable()
    usage = smallest(usages(), lambda usage: usage["output_tokens"] > 9)
    assert usage == {
        "model": next(iter(MODELS)),
        "input_tokens": 0,
        "cached_input_tokens": 0,
        "cache_write_tokens": 0,
        "output_tokens": 10,
        "duration_ms": 0,
    }


def test_all_that_the_board_allows_is_met():
    """The strategies are not only plain: the wide ends are found, too."""
    assert smallest(task_graphs(max_size=30), lambda specs: len(specs) > 25)[-1]["id"]
    assert smallest(
        task_graphs(conditions=CONDITIONS), lambda specs: any(":failed" in above for _, above in edges(specs))
    )
    assert smallest(durations(), lambda sec: sec > limits.LEASE_SEC[1] / 2 and sec % 1)


@pytest.mark.multiproc
def test_without_hypothesis_the_import_says_what_is_missing():
    """One clear error, of the kind that `pytest.importorskip` knows."""
    code = "import sys; sys.modules['hypothesis'] = None; import pytest_agentmesh.strategies"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: pytest_agentmesh.strategies needs Hypothesis, which is not installed here: "
        "pip install hypothesis"
    )
    assert ended.stderr.count("Traceback") == 1
