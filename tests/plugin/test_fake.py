"""What is made up for a test: accepted by a real board, the same for the same seed, whatever else happens."""

import hashlib
import json
import os
import random
import re
import subprocess
import sys

import faker
import faker.generator
import pytest

from agentmesh import limits
from agentmesh.errors import MissingExtra
from agentmesh.patterns import normalised
from pytest_agentmesh.fake import MeshFake
from pytest_agentmesh.fake.phases import ASPECTS, FEATURES, PHASES
from pytest_agentmesh.fake.provider import AgentWork, Subject
from pytest_agentmesh.fake.shapes import SHAPES
from pytest_agentmesh.fake.vocabulary import (
    ADDITIONS,
    COMPONENTS,
    LAYOUTS,
    MODELS,
    ROLES,
    SYMPTOMS,
    WORKS,
    slug,
)
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

EVERYTHING = ["task", "plan", "agent", "model", "usage", "result", "error", "note", "entry", "artifact"]


@pytest.fixture
def fresh(tmp_path):
    """A new board each time."""
    made = iter(range(1_000))
    return lambda: open_board(tmp_path / f"{next(made)}.db", TurnableClock())


def drawn(fake, names):
    """What the fake makes up, one call after the other."""
    return [getattr(fake, name)() for name in names]


def digest(seed):
    """All kinds of data of a seed, in one number."""
    data = json.dumps(drawn(MeshFake(seed), EVERYTHING * 3), default=bytes.hex)
    return hashlib.sha256(data.encode()).hexdigest()


def test_a_board_takes_every_made_up_task(board):
    """Of three hundred seeds, and what it takes is what was made up."""
    for seed in range(300):
        spec = MeshFake(seed).task(id=None)
        task = board.get_task(board.create_task(**spec).id)
        assert (task.title, task.description, task.payload) == (spec["title"], spec["description"], spec["payload"])
        assert list(task.requires) == spec["requires"]


def test_a_board_takes_all_that_a_made_up_agent_does(board):
    """It claims, says what it used, remarks, leaves things for others, and completes or fails; two hundred times."""
    fake = MeshFake(7)
    for turn in range(200):
        board.create_task(**fake.task(requires=[]))
        claim = board.claim_task(**fake.agent())
        usage = fake.usage()
        entry = board.ledger.record(lease=claim, **usage).entry
        assert entry.cost_pusd, usage
        board.note(claim, fake.note())
        left = fake.entry()
        assert board.blackboard.put(**left, lease=claim).value == left["value"]
        board.blackboard.put("patches", claim.task.id, fake.artifact(), content_type="text/x-diff", lease=claim)
        claim.complete(fake.result()) if turn % 2 else claim.fail(fake.error(), retry=False)


@pytest.mark.parametrize("kind", ["task", "infra", "quota"])
def test_an_error_is_one_sentence_of_its_kind(board, kind):
    """A hundred of them are taken by a board, and are not all the same."""
    fake = MeshFake(1)
    board.create_task("t", id="t", max_attempts=1_000)
    errors = {fake.error(kind) for _ in range(100)}
    board.fail_task(board.claim_task("a"), max(errors, key=len), kind=kind)
    assert len(errors) > 10
    assert all("\n" not in error and "{" not in error for error in errors)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_alone_decides_what_runs_at_once(fresh, shape, seed):
    """All that is ready can be claimed together by anybody: nothing wants a path or a capability. The rest waits."""
    with fresh() as board:
        specs = MeshFake(seed).plan(shape, 12)
        board.create_tasks(specs)
        order = []
        while len(order) < len(specs):
            ready = board.list_tasks(state="pending").tasks
            claims = [board.claim_task(f"agent-{place}") for place in range(len(ready) + 1)]
            assert [bool(claim) for claim in claims] == [True] * len(ready) + [False]
            order += [claim.complete().id for claim in claims if claim]
        place = {task_id: number for number, task_id in enumerate(order)}
        assert all(place[above] < place[spec["id"]] for spec in specs for above in spec["depends_on"])
        assert violations(board) == {}


@pytest.mark.parametrize(
    ("call", "size", "edges", "roots"),
    [
        (lambda fake: fake.chain(5), 5, 4, 1),
        (lambda fake: fake.diamond(4), 6, 8, 1),
        (lambda fake: fake.layered(3, 4), 12, 16, 4),
        (lambda fake: fake.fan_out(6), 7, 6, 1),
        (lambda fake: fake.fan_in(6), 7, 6, 6),
        (lambda fake: fake.plan("layered", 11), 11, 16, 3),
        (lambda fake: fake.plan(), 6, 8, 1),
    ],
)
def test_a_plan_has_the_shape_that_was_asked_for(board, call, size, edges, roots):
    """So many tasks, so many edges, so many ready at once."""
    tasks = board.create_tasks(call(MeshFake()))
    assert len(tasks) == size
    assert sum(len(board.get_task(task.id).depends_on) for task in tasks) == edges
    assert [task.state for task in tasks].count("pending") == roots


def test_a_plan_tells_one_story_from_design_to_release():
    """The ids say which feature, and how far it is; each step reads what the one above it wrote."""
    specs = MeshFake(3).chain(6)
    feature = specs[0]["tags"][0]
    assert [spec["id"] for spec in specs] == [f"{feature}.{phase.name}" for phase in PHASES]
    assert [spec["reads"] for spec in specs[1:]] == [spec["writes"] for spec in specs[:-1]]


def test_parallel_steps_of_a_plan_differ_in_what_they_are_about():
    """Each has an aspect of its own in its id and title; the ends of the diamond need none."""
    first, *between, last = MeshFake(3).diamond(len(ASPECTS))
    assert (first["tags"][1], last["tags"][1]) == ("design", "release")
    assert {spec["id"].partition(".")[2] for spec in between} == {f"api-{slug(aspect)}" for aspect in ASPECTS}
    assert len({spec["title"] for spec in between}) == len(ASPECTS)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_plan_of_a_thousand_has_a_thousand_ids_titles_and_files(board, shape):
    """And a board takes it whole."""
    specs = MeshFake().plan(shape, 1_000)
    assert len({spec["title"] for spec in specs}) == 1_000
    assert len({path for spec in specs for path in spec["writes"]}) == 1_000
    assert len({task.id for task in board.create_tasks(specs)}) == 1_000


def test_all_that_one_fake_makes_up_fits_onto_one_board(board):
    """No id is given twice, however many tasks and plans there are."""
    fake = MeshFake()
    for _ in range(60):
        board.create_tasks(fake.plan())
    board.create_tasks(fake.tasks(1_000))
    board.create_tasks(fake.tasks(3, title="Écrire"))
    board.create_tasks(fake.tasks(3, title="\u66f8\u304f"))


def test_names_of_agents_say_their_role_and_are_given_once():
    """Such as `coder-7f`; a role has 256 of the plain ones."""
    agents = MeshFake().agents(2_000)
    assert len({agent["agent_id"] for agent in agents}) == 2_000
    assert all(re.fullmatch(rf"({'|'.join(ROLES)})-[0-9a-f]{{2}}(-\d+)?", agent["agent_id"]) for agent in agents)
    assert MeshFake().agent("writer")["capabilities"] == ["docs"]


def test_any_five_agents_in_turn_can_do_every_task():
    """Whatever was made up before: each kind of task finds one among them who has all it requires."""
    fake = MeshFake()
    fake.agents(3)
    able = [set(agent["capabilities"]) for agent in fake.agents(5)]
    wanted = {tuple(spec["requires"]) for spec in fake.tasks(1_000)}
    assert len(wanted) == 10  # three languages; each with testing and with security; docs
    assert all(any(set(requires) <= one for one in able) for requires in wanted)


@pytest.mark.parametrize("model", MODELS)
def test_a_known_model_has_a_price_and_tokens_that_are_counted_once(board, model):
    """Whatever the call was: a hundred of them are priced, and none claims a bucket its vendor does not bill."""
    fake = MeshFake()
    for _ in range(100):
        usage = fake.usage(model)
        entry = board.ledger.record("coder-1", **usage).entry
        assert entry.cost_pusd, usage
        assert entry.duration_us > 0
        assert MODELS[model].cache_writes or not entry.cache_write_tokens


def test_a_model_of_ones_own_is_used_like_any_other(board):
    """It has no price, and the ledger says so."""
    assert board.ledger.record("coder-1", **MeshFake().usage("our-own")).entry.cost_pusd is None


def test_the_calls_of_a_conversation_differ(board):
    """Some find most of their prompt in the cache, some nothing; every vendor is met."""
    fake = MeshFake()
    entries = [board.ledger.record("coder-1", **fake.usage()).entry for _ in range(200)]
    shares = [entry.cached_input_tokens / (entry.cached_input_tokens + entry.input_tokens) for entry in entries]
    assert min(shares) == 0
    assert max(shares) > 0.8
    assert {MODELS[entry.model].vendor for entry in entries} == {"openai", "anthropic", "google"}


def test_a_task_stays_in_its_component():
    """Its patterns all name the component that its title and first tag do, in the form the board keeps."""
    for spec in MeshFake().tasks(500):
        component = spec["tags"][0]
        assert component in spec["title"]
        for pattern in [*spec["writes"], *spec["reads"]]:
            assert component in pattern.split("/")
            assert normalised("writes", pattern) in (pattern, pattern + "**")


def test_given_fields_win_over_made_up_ones(board):
    """For a task and for each task of a plan."""
    task = board.create_task(**MeshFake().task(id="mine", title="My own", priority=99, requires=["gpu"]))
    assert (task.id, task.title, task.priority, task.requires) == ("mine", "My own", 99, ("gpu",))
    tasks = board.create_tasks(MeshFake().chain(3, plan="p", lease_timeout_sec=5))
    assert {(task.plan, task.lease_timeout_us) for task in tasks} == {("p", 5_000_000)}


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda fake: fake.chain(3, depends_on=[]), "depends_on"),
        (lambda fake: fake.plan(id="x"), "id"),
        (lambda fake: fake.plan("star"), "chain, fan_in"),
        (lambda fake: fake.agent("boss"), "coder, tester"),
        (lambda fake: fake.fan_in(0), "n must be"),
    ],
)
def test_what_cannot_be_made_up_is_refused(call, named):
    """And the message says what can be."""
    with pytest.raises(ValueError, match=named):
        call(MeshFake())


def test_a_call_gives_the_same_whatever_else_was_asked_for():
    """Of this fake, of another, of Faker, and of the chance that all of Python shares."""
    alone = {name: drawn(MeshFake(5), [name] * 3) for name in EVERYTHING}
    fake, other = MeshFake(5), MeshFake(6)
    mixed = {name: [] for name in EVERYTHING}
    for _ in range(3):
        for name in reversed(EVERYTHING):
            random.seed(1)
            faker.Faker.seed(1)
            getattr(other, name)()
            mixed[name] += drawn(fake, [name])
    assert mixed == alone


def test_many_are_as_many_single_ones():
    """So a test that needs one more keeps those it had."""
    one, many = MeshFake(4), MeshFake(4)
    assert many.tasks(5) == [one.task() for _ in range(5)]
    assert many.agents(5) == [one.agent() for _ in range(5)]


def test_plans_are_one_sequence_whatever_their_shape():
    """The second plan is about the same feature as a chain or as a diamond."""
    one, other = MeshFake(4), MeshFake(4)
    one.chain(3), other.fan_in(8)
    assert one.chain(4)[0]["tags"][0] == other.diamond(4)[0]["tags"][0]


def test_another_seed_gives_other_data():
    """A hundred seeds, a hundred digests."""
    assert len({digest(seed) for seed in range(100)}) == 100


def test_neither_pythons_nor_fakers_shared_chance_is_touched():
    """A user's own seeded tests see no difference."""
    random.seed(11)
    faker.Faker.seed(12)
    before = random.getstate(), faker.generator.random.getstate()
    digest(1)
    assert (random.getstate(), faker.generator.random.getstate()) == before


def run(code, **environment):
    """What a Python of its own prints."""
    command = [sys.executable, "-c", code]
    return subprocess.check_output(command, text=True, env={**os.environ, **environment}).strip()


DIGEST = """
import hashlib, json
from pytest_agentmesh.fake import MeshFake
fake = MeshFake(3)
names = {names}
data = json.dumps([getattr(fake, name)() for name in names * 3], default=bytes.hex)
print(hashlib.sha256(data.encode()).hexdigest())
"""


@pytest.mark.multiproc
def test_every_process_gets_the_same_data():
    """Whatever order its sets and dictionaries of text have."""
    code = DIGEST.format(names=EVERYTHING)
    assert {run(code, PYTHONHASHSEED=seed) for seed in ("0", "1", "4711")} == {digest(3)}


@pytest.mark.multiproc
def test_importing_the_module_imports_neither_faker_nor_the_product():
    """Whoever makes nothing up pays for nothing."""
    code = "import sys, pytest_agentmesh.fake; print(sorted({'faker', 'agentmesh', 'hypothesis'} & set(sys.modules)))"
    assert run(code) == "[]"


def test_without_faker_the_way_to_it_is_named(monkeypatch):
    """It is an extra: whoever does not make things up does not pay for its plugin."""
    monkeypatch.setattr("pytest_agentmesh.fake.mesh_fake.find_spec", lambda _: None)
    with pytest.raises(MissingExtra) as missing:
        MeshFake()
    assert missing.value.hint == "Install it: pip install 'pytest-agentmesh[fake]'"


def test_the_provider_works_on_a_faker_of_ones_own(board):
    """A user may mix its words with those of other providers."""
    fake = faker.Faker()
    fake.add_provider(AgentWork)
    fake.seed_instance(1)
    board.create_task(**fake.agent_task())
    board.ledger.record(fake.agent_name("coder"), **fake.agent_usage(fake.agent_model()))


def test_every_word_fits_into_every_text():
    """All titles of all components, modules and languages keep the limits, and have no gap left."""
    longest = {
        "symptom": SYMPTOMS,
        "addition": ADDITIONS,
        "secret": ["internal host names"],
        "library": ["cryptography"],
    }
    words = {gap: max(choices, key=len) for gap, choices in longest.items()}
    steps = {"feature": max(FEATURES, key=len), "aspect": max(ASPECTS, key=len)}
    titles = {title for work in WORKS for title in work.titles} | {
        t for phase in PHASES for t in (phase.whole, phase.part)
    }
    for subject in subjects():
        for title in titles:
            assert "{" not in limits.text("title", title.format(**subject.words, **words, **steps), 120)


def test_every_place_of_every_project_is_a_pattern():
    """Of each component, module and language, and for each kind of work and phase."""
    places = {place for work in WORKS for place in (*work.writes, *work.reads)} | {phase.place for phase in PHASES}
    for subject in subjects():
        for path in subject.paths(sorted(places)):
            assert normalised("writes", path)
            assert subject.component in path.split("/")


def subjects():
    """Every part of the made-up product in every language."""
    for layout in LAYOUTS:
        for component, modules in COMPONENTS.items():
            yield from (Subject(layout, component, module) for module in modules)
