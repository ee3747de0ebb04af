"""A world: who steps when, how time moves, what ends a run, and what a failure says."""

from pathlib import Path

import pytest

from agentmesh import Board
from pytest_agentmesh import agent, claim, complete, fail, heartbeat, note, put, release, spend, work
from pytest_agentmesh.swarm import NotQuiet, World
from tests.support.boards import damage, open_board, put as tasks, states
from tests.support.clock import START_US

GOLDEN = Path(__file__).parent / "golden"
CODER = agent("coder", claim(), work(minutes=4, beat_every=20), spend(usd="0.03"), complete({"ok": True})).forever()


@pytest.fixture
def world(board):
    """A world on an empty board."""
    return World(board)


def steps(run, *fields):
    """Some fields of every step."""
    return [tuple(getattr(taken, field) for field in fields) for taken in run.steps]


def told(error):
    """What a failure says, or what it is to say."""
    return str(error.value) + "\n"


def test_three_coders_share_a_diamond(world, board):
    """Each task once, none before what it waits for, in no more time than its longest path takes."""
    tasks(board, "plan", "a: plan", "b: plan", "merge: a b")
    run = world.run(CODER * 3)

    assert set(states(board).values()) == {"completed"}
    assert [len(board.attempts(name)) for name in ("plan", "a", "b", "merge")] == [1] * 4
    assert run.took_us == 3 * 4 * 60_000_000
    assert board.ledger.report().total.cost_pusd == 4 * 30_000_000_000
    assert {one.how for one in run.outcomes.values()} == {"stopped"}


def test_the_story_is_a_table_of_steps(world, board):
    """Time, agent, verb, task, reply, and the numbers of the events that each step wrote."""
    tasks(board, "a", "b")
    worker = agent("ann", claim(), put("ns", "{task}", 1), work(sec=1.5), spend(usd="0.25"), note("n"), fail("no"))
    run = world.run(agent("bob", claim(), work(minutes=1), heartbeat(), complete(), claim(), complete()), worker)

    assert run.story() + "\n" == (GOLDEN / "swarm-story.txt").read_text()


def test_first_come_first_served(world, board):
    """Agents that want to step at one instant do so in turn, in the order in which they came."""
    tasks(board, "a", "b", "c", "d")
    run = world.run(agent("x", claim(), complete()).times(2) * 2)

    assert steps(run, "agent", "task_id") == [
        (f"x-{n}", name) for verb in ("ab", "ab", "cd", "cd") for n, name in enumerate(verb, 1)
    ]


def test_time_moves_only_when_nobody_can_step(world, board):
    """To the next instant at which somebody can, and not beyond."""
    tasks(board, "a", "b")
    slow, fast = (agent(name, claim(), work(took), complete()) for name, took in (("slow", 10), ("fast", 1)))
    run = world.run(slow, fast)

    assert [(taken.at_us - START_US) // 60_000_000 for taken in run.steps] == [0, 0, 1, 10]


def test_whoever_waits_is_woken_by_the_board(world, board):
    """Not before there is something for it: no step is spent on a question that would get a no."""
    tasks(board, "a", "b: a")
    run = world.run(CODER * 2)

    of_two = [(taken.at_us - START_US, taken.reply) for taken in run.steps if taken.agent == "coder-2"]
    assert of_two[0] == (0, "nothing: in_progress, waits")
    assert of_two[1][0] == 240_000_000


def test_whoever_waits_is_woken_by_time(world, board):
    """A task that is scheduled is claimed at its instant."""
    board.create_task("Later", id="a", not_before=START_US / 1e6 + 90)
    run = world.run(agent("x", claim(), complete()))

    assert steps(run, "at_us", "verb")[-2:] == [
        (START_US + 90_000_000, "claim_task"),
        (START_US + 90_000_000, "complete_task"),
    ]


def test_a_task_that_was_released_is_waited_for(world, board):
    """It is offered again a minute later, whatever happens on the board meanwhile."""
    tasks(board, "a", "b")
    busy = agent("busy", claim(task_id="b"), *[work(sec=9), note("n")] * 3, complete())
    run = world.run(agent("x", claim(), release()).times(2), busy)

    assert [taken.at_us - START_US for taken in run.steps if taken.reply.startswith("attempt 2")] == [60_000_000]


def test_the_next_day_of_a_budget_is_waited_for(world, board):
    """Although leases that are renewed look as if they could bring something sooner."""
    tasks(board, "a", "b", estimate_usd="0.10")
    board.budgets.set(usd="0.10", period="day")
    world.run(CODER * 2, within="2d")

    assert set(states(board).values()) == {"completed"}
    assert board.attempts("b")[0].started_us == START_US + 86_400_000_000


def test_a_named_task_is_waited_for(world, board):
    """Its holder ends it, and it says so to whoever wants it."""
    tasks(board, "a")
    run = world.run(agent("x", claim(), work(1, beat_every=20), release()), agent("y", claim(task_id="a"), complete()))

    assert steps(run, "agent", "reply")[1] == ("y", "refused: already_claimed, waits")
    assert board.attempts("a")[-1].agent_id == "y"


def test_nobody_waits_who_does_not_want_to(world, board):
    """`wait=False` goes on with nothing, which ends the round."""
    run = world.run(agent("x", claim(wait=False), complete()))
    tasks(board, "later", not_before=START_US / 1e6 + 60)
    again = world.run(agent("y", claim(wait=False), complete()))

    assert (run.outcomes["x"].how, again.outcomes["y"].how, again.took_us) == ("stopped", "finished", 0)


def test_what_cannot_move_is_quiet(world, board):
    """Who waits for what no time brings is left waiting, with the board's reason."""
    board.create_task("Needs rust", id="a", requires=["rust"])
    run = world.run(agent("x", claim(), complete()))

    assert (run.outcomes["x"].how, run.outcomes["x"].why) == ("waiting", "capability")


def test_a_run_goes_on_where_it_stood(world, board):
    """Whoever waits is there still when the test has changed something."""
    tasks(board, "a")
    board.pause()
    assert world.run(agent("x", claim(), complete())).outcomes["x"].why == "paused"
    board.resume()

    run = world.until_quiet()
    assert (run.outcomes["x"].how, states(board)) == ("finished", {"a": "completed"})
    assert [taken.number for taken in run.steps] == [2, 3]


def test_two_agents_never_share_a_name(world, board):
    """Unless the first has ended: an agent may be started anew."""
    tasks(board, "a")
    board.pause()
    world.run(agent("x", claim(), complete()))
    with pytest.raises(ValueError, match="an agent 'x' already"):
        world.run(agent("x", claim()))
    board.resume()
    world.until_quiet()
    tasks(board, "b")
    world.run(agent("x", claim(), complete()))

    assert set(states(board).values()) == {"completed"}


def test_a_run_that_takes_too_long_says_who_waits_for_what(world, board):
    """By name, with the board's own explanation, the last steps, and what repeats it."""
    tasks(board, "a", "b: a")
    with pytest.raises(NotQuiet) as failed:
        world.run(CODER * 2, agent("eve", claim(task_id="a"), complete()), within="2min")

    assert told(failed) == (GOLDEN / "swarm-not-quiet.txt").read_text()


def test_a_run_without_end_is_ended(world, board):
    """Steps that take no time are counted."""
    tasks(board, "a")

    def spins(me):
        yield me.claim()
        while True:
            yield me.heartbeat()

    with pytest.raises(NotQuiet, match="not quiet after 100 steps\n  x is about to do heartbeat"):
        world.run(agent("x", spins), most_steps=100)


@pytest.mark.damaged
def test_a_broken_promise_is_told_with_its_step(world, board):
    """The step is marked, the details are the rows', and the line that repeats it stands below."""
    tasks(board, "a", "b")

    def tampers(me):
        yield me.claim()
        yield me.work(sec=20)
        damage(board, "UPDATE task SET fence = 7 WHERE id = 'b'")
        yield me.complete()

    with pytest.raises(AssertionError) as failed:
        world.run(agent("ann", claim(), work(1, beat_every=20), complete()), agent("eve", tampers), seed=5)

    assert told(failed) == (GOLDEN / "swarm-broken.txt").read_text()


@pytest.mark.damaged
@pytest.mark.parametrize(
    ("every", "words"),
    [
        (1, "step 2 broke P1"),
        (3, "a step from 1 to 3 broke P1"),
        (0, "a step from 1 to 4 broke P1"),
        (2, "a step from 1 to 2"),
    ],
)
def test_rows_are_checked_as_often_as_is_asked(world, board, every, words):
    """After each step, after some, or only at the end; it never passes unseen."""
    tasks(board, "a")

    def tampers(me):
        yield me.claim()
        yield me.note("n")
        damage(board, "UPDATE task SET fence = 7 WHERE id = 'a'")
        yield me.get("ns", "k")
        yield me.get("ns", "k")

    with pytest.raises(AssertionError, match=words):
        world.run(agent("x", tampers), check_every=every)


@pytest.mark.damaged
def test_what_was_broken_before_is_no_steps_fault(world, board):
    """It is said before anybody steps."""
    tasks(board, "a")
    damage(board, "UPDATE task SET fence = 7 WHERE id = 'a'")

    with pytest.raises(AssertionError, match="P1 was broken before the first step of this run"):
        world.run(CODER)


@pytest.mark.damaged
def test_a_promise_can_be_left_out(board):
    """By its name, where a test breaks it on purpose."""
    tasks(board, "a")
    damage(board, "UPDATE task SET fence = 7 WHERE id = 'a'")

    assert World(board, unchecked=["P1", "P3", "P4", "P6"]).run().steps == ()


def test_a_mesh_board_brings_its_clock(mesh_board, board):
    """Its heartbeats are events, too, and wake nobody who would get nothing: the steps are those of any board."""
    runs = []
    for each in (board, mesh_board):
        tasks(each, "plan", "a: plan", "b: plan", "merge: a b")
        runs.append(World(each).run(CODER * 3))

    assert steps(runs[0], "at_us", "agent", "verb", "reply") == steps(runs[1], "at_us", "agent", "verb", "reply")
    assert len(mesh_board.events(limit=1000)) > len(board.events(limit=1000))


def test_a_clock_that_runs_by_itself_is_refused(board_path):
    """A swarm on the wall clock would wait in real time."""
    with Board.open(board_path) as board, pytest.raises(TypeError, match="clock that can be turned"):
        World(board)


@pytest.mark.parametrize("wrong", ["2", "h", "1 fortnight"])
def test_a_duration_is_one(world, wrong):
    """Words that are none are refused."""
    with pytest.raises(ValueError, match="not a duration"):
        world.run(within=wrong)


def test_twenty_agents_never_pass_a_budget(board_path, clock):
    """Spent and reserved stay within the limit after every step, whoever comes first."""
    with open_board(board_path, clock) as board:
        tasks(board, *[f"t{n}" for n in range(30)], estimate_usd="0.10")
        board.budgets.set(usd="1.25")

        def stays_within(me):
            while (yield me.claim()):
                budget = board.budgets.get()
                assert budget.spent_pusd + budget.reserved_pusd <= budget.limit_pusd
                yield me.work(minutes=1, beat_every=20)
                yield me.spend(usd="0.07")
                yield me.complete()

        run = World(board).run(agent("x", stays_within) * 20, order="random", seed=11)
        assert board.budgets.get().spent_pusd == 17 * 70_000_000_000
        assert {one.why for one in run.outcomes.values()} == {"budget"}


def test_steps_alone_are_no_agent(mesh_swarm):
    """What a beginner hands over."""
    with pytest.raises(TypeError, match=r"claim\(\) is no agent: agent\("):
        mesh_swarm.run([claim()])
