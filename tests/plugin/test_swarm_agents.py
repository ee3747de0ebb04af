"""Agents as data: what they print, what they are refused, and how a generator hears of what it did."""

import pytest

from agentmesh.errors import InvalidArgument, NotFound
from pytest_agentmesh import (
    agent,
    claim,
    complete,
    do,
    fail,
    get,
    heartbeat,
    note,
    put,
    release,
    spend,
    split,
    work,
)
from pytest_agentmesh.swarm import World, agents
from tests.support.boards import put as tasks, states

WRITTEN = (
    "agent('coder', claim('web', capabilities=('py',)), work(minutes=4, beat_every=20), spend('m', usd=0.03), "
    "put('notes', 'k/{task}', 1, ttl_sec=60), complete({'ok': True})).forever()"
)
STEPS = [
    claim(task_id="a", resume=True, wait=False),
    claim(tags=["x"]),
    work(sec=30),
    heartbeat(),
    spend(input_tokens=5, output_tokens=7),
    note("n"),
    get("ns", "k"),
    fail("x", kind="infra", retry=False),
    release(delay_sec=5),
    split([{"title": "part"}]),
    complete(),
    do("cancel_task", task_id="a"),
]


@pytest.fixture
def world(board):
    """A world on a board of the task `a`."""
    tasks(board, "a")
    return World(board)


@pytest.mark.parametrize("step", STEPS, ids=repr)
def test_a_step_prints_as_it_is_written(step):
    """What is printed makes the same step again."""
    assert eval(repr(step), vars(agents)) == step


def test_an_agent_prints_as_it_is_written():
    """So a failing swarm can be copied from a report into a test."""
    coder = eval(WRITTEN, vars(agents))
    assert repr(coder) == WRITTEN
    assert repr(agent("x", work(1)).times(2)) == "agent('x', work(minutes=1)).times(2)"


def test_three_of_an_agent_are_numbered():
    """`* 3` is three agents of the same steps."""
    assert [one.name for one in agent("coder", claim()) * 3] == ["coder-1", "coder-2", "coder-3"]


@pytest.mark.parametrize("wrong", [(), (1,), (claim(), len), (claim,)])
def test_an_agent_needs_steps_or_a_generator(wrong, world):
    """What is neither is refused, at the latest when it begins."""
    with pytest.raises(TypeError, match=r"'?x'? "):
        world.run(agent("x", *wrong))


def test_for_ever_needs_somebody_to_say_stop():
    """Only a claim is ever told to."""
    with pytest.raises(ValueError, match=r"no claim\(\)"):
        agent("x", work(1)).forever()


def test_work_takes_no_negative_time():
    """Nor a heartbeat without time between."""
    for wrong in ({"minutes": -1}, {"sec": -1}, {"beat_every": 0}):
        with pytest.raises(ValueError, match="negative"):
            work(**wrong)


def test_a_step_that_needs_a_lease_says_so(world):
    """An author's slip is told as one, not as something that the board refused."""
    with pytest.raises(ValueError, match=r"x has nothing in hand: complete\(\) needs a claim\(\) before it"):
        world.run(agent("x", complete()))


def test_the_task_in_hand_fills_in_names(world, board):
    """`{task}` and `{agent}` in texts, also deep inside a value."""
    steps = claim(), put("by/{agent}", "{task}", {"of": ["{task}"]}), complete({"who": "{agent}", "n": 1})
    world.run(agent("x", *steps))

    entry = board.blackboard.get("by/x", "a")
    assert (entry.value, entry.task_id, board.get_task("a").result) == ({"of": ["a"]}, "a", {"who": "x", "n": 1})


def test_a_generator_gets_the_replies(world):
    """Each step's reply is sent back to it; what it holds is at hand."""
    heard = []

    def coder(me):
        claimed = yield me.claim()
        heard.append((claimed.task.id, me.task_id, (yield me.work(minutes=2, beat_every=30))))
        entry = yield me.put("ns", "k", 1)
        heard.append((entry.version, (yield me.get("ns", "k")).value))
        done = yield me.complete()
        heard.append((done.state, me.held, (yield me.spend(usd=1)).entry.task_id, (yield me.claim()).reason))

    run = world.run(agent("x", coder))

    assert heard == [("a", "a", None), (1, 1), ("completed", None, "a", "done")]
    assert [taken.verb for taken in run.steps].count("heartbeat") == 3


def test_a_generator_gets_the_errors(world):
    """Typed, where it yielded the step; what it does not catch ends the test, with the steps so far."""

    def careless(me):
        with pytest.raises(NotFound):
            yield me.claim(task_id="b")
        yield me.do("cancel_task", task_id="b")

    with pytest.raises(NotFound) as failed:
        world.run(agent("x", careless))

    (told,) = failed.value.__notes__
    assert told.startswith('in a swarm, order="fifo", seed=0, after:\n')
    assert told.count("refused: not_found") == 2


def test_a_refusal_takes_nothing_from_its_hands(world, board):
    """Whoever is refused for another reason than its lease still holds the task."""

    def clumsy(me):
        yield me.claim()
        with pytest.raises(InvalidArgument):
            yield me.complete("x" * 70_000)
        yield me.complete("short")

    world.run(agent("x", clumsy))
    assert board.get_task("a").result == "short"


def test_work_goes_on_when_the_lease_can_be_renewed_no_more(board):
    """The heartbeats end, the agent does not; it is late, and nobody else has come."""
    board.create_task("Long", id="a", lease_timeout_sec=60, max_hold_sec=90)
    run = World(board).run(agent("x", claim(), work(3, beat_every=25), complete()))

    assert [taken.reply for taken in run.steps if taken.verb == "heartbeat"][-1] == "refused: max_hold_reached"
    (attempt,) = board.attempts("a")
    assert (attempt.outcome, attempt.late, run.took_us) == ("completed", True, 180_000_000)


def test_a_generator_that_yields_no_step_is_told(world):
    """A forgotten call, most likely."""

    def wrong(me):
        yield me.claim

    with pytest.raises(TypeError, match=r"x yielded no step: yield me\.claim\(\)"):
        world.run(agent("x", wrong))


def test_any_other_verb_is_called_by_name(world, board):
    """Signed with the agent's name or its lease, as the verb takes it."""
    world.run(
        agent(
            "x",
            do("create_task", title="More", id="b"),
            claim(task_id="a"),
            do("hold_paths", writes=["src/**"]),
            split([{"title": "Part", "id": "c"}]),
            do("cancel_plan", plan="default"),
        )
    )

    created = next(event for event in board.events() if event.task_id == "b")
    assert (created.agent_id, created.kind) == ("x", "task_created")
    assert states(board) == {"a": "cancelled", "b": "cancelled", "c": "cancelled"}


def test_rounds_are_counted(world, board):
    """Twice is twice; with nothing left, the board's word ends it early."""
    tasks(board, "b", "c")
    two, rest = agent("two", claim(), complete()).times(2), agent("rest", claim(), work(1), complete()).forever()
    run = world.run(two, rest)

    told = {name: (one.how, one.why, one.rounds) for name, one in run.outcomes.items()}
    assert told == {"two": ("finished", "", 2), "rest": ("stopped", "done", 1)}


def test_a_round_without_a_step_is_the_last(world):
    """A generator that has nothing to do is not asked for ever."""

    def idle(me):
        if me.name == "nobody":
            yield me.claim()

    assert world.run(agent("x", idle).forever()).outcomes["x"].how == "finished"
