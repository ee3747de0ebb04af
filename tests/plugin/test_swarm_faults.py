"""Faults in a swarm: what they cost, what they must never cost, and how they are told."""

import pytest

from pytest_agentmesh import Lost, agent, claim, complete, heartbeat, put, spend, work
from pytest_agentmesh.faults import delay, disconnect, kill, lost_reply, lost_request, some, stall
from pytest_agentmesh.swarm import World
from pytest_agentmesh.swarm.strikes import Strikes
from tests.support.boards import kinds, open_board, put as tasks, states
from tests.support.clock import START_US, TurnableClock

CODER = agent(
    "coder", claim(), work(sec=30), spend(usd="0.03"), put("ns", "{task}", 1), complete({"by": "{agent}"})
).forever()


@pytest.fixture
def world(board):
    """A world on a board of the task `a`."""
    tasks(board, "a")
    return World(board)


def ends(board, task_id="a"):
    """How each attempt at a task ended, and who made it."""
    return [(attempt.agent_id, attempt.outcome) for attempt in board.attempts(task_id)]


def test_what_a_killed_agent_held_is_done_by_another(world, board):
    """Once its lease has run out; the dead say nothing more."""
    run = world.run(CODER * 2, faults=[kill("complete_task")])

    assert ends(board) == [("coder-1", "reclaimed"), ("coder-2", "completed")]
    assert (run.outcomes["coder-1"].how, run.outcomes["coder-1"].why) == ("killed", "at complete_task")
    (mark,) = run.marks
    assert (mark.at_us, mark.agent, mark.at, str(mark.fault)) == (
        START_US + 30_000_000,
        "coder-1",
        "complete_task",
        "kill at complete_task",
    )


def test_killed_after_the_commit_it_is_done(world, board):
    """With `lost_reply` the call takes effect, and only its caller never hears of it."""
    run = world.run(CODER * 2, faults=[kill("complete_task"), lost_reply("complete_task")])

    assert ends(board) == [("coder-1", "completed")]
    assert run.outcomes["coder-1"].how == "killed"
    assert [mark.fault.kind for mark in run.marks] == ["lost_reply", "kill"]


@pytest.mark.parametrize("at", ["heartbeat", "put_entry", "complete_task"])
def test_a_zombie_is_refused(world, board, at):
    """It stands still past its lease, another does the task, and then nothing it says counts; it claims anew."""
    zombie = agent("zombie", claim(), work(1, beat_every=20), put("ns", "{task}", 1), complete({"by": "{agent}"}))
    run = world.run(zombie, agent("heir", claim(), complete({"by": "{agent}"})), faults=[stall(at, agent="zombie")])

    assert ends(board) == [("zombie", "reclaimed"), ("heir", "completed")]
    assert board.get_task("a").result == {"by": "heir"}
    assert [taken.reply for taken in run.steps if taken.agent == "zombie"][-2:] == [
        "refused: lease_lost",
        "nothing: done",
    ]
    assert (run.outcomes["zombie"].how, run.outcomes["zombie"].lost) == ("stopped", (("a", 1),))


def test_a_late_word_counts_while_nobody_has_the_task(world, board):
    """Whoever holds a lease that is due holds it until somebody takes the task back."""
    world.run(CODER, faults=[stall("complete_task")])

    (attempt,) = board.attempts("a")
    assert (attempt.outcome, attempt.late) == ("completed", True)


def test_a_stall_takes_as_long_as_it_is_told(world, board):
    """Within the lease it costs nothing."""
    world.run(CODER, faults=[stall("put_entry", sec=0.5), delay("complete_task", 2)])

    assert ends(board) == [("coder", "completed")]
    assert board.get_task("a").ended_us == START_US + 32_500_000


def test_a_starved_heartbeat_loses_the_lease(world, board):
    """The agent learns of it at that very call, and stops."""
    beats = agent("slow", claim(), work(10, beat_every=20), complete())
    run = world.run(beats, CODER, faults=[stall("heartbeat", 3, sec=70)])

    assert ends(board) == [("slow", "reclaimed"), ("coder", "completed")]
    assert (run.outcomes["slow"].lost, run.took_us) == ((("a", 1),), 130_000_000)


@pytest.mark.parametrize("at", ["claim_task", "complete_task", "record_usage", "put_entry"])
@pytest.mark.parametrize("fault", [lost_reply, lost_request])
def test_a_call_without_an_answer_is_made_again(world, board, at, fault):
    """With the same request_id: one attempt, one result, one charge, one entry, whether it had arrived or not."""
    run = world.run(CODER, faults=[fault(at)])

    assert [taken.verb for taken in run.steps].count(at) == (3 if at == "claim_task" else 2)
    assert ends(board) == [("coder", "completed")]
    assert kinds(board).count("task_completed") == 1
    assert board.ledger.report().total.cost_pusd == 30_000_000_000
    assert board.blackboard.get("ns", "a").version == 1


def test_a_heartbeat_without_an_answer_is_sent_again(world, board):
    """It has no request_id, and needs none."""
    world.run(agent("x", claim(), heartbeat(), complete()), faults=[lost_reply("heartbeat")])

    assert ends(board) == [("x", "completed")]


def test_a_generator_hears_of_the_loss(world, board):
    """`Lost` is thrown into it; `again` is the same call with the same request_id."""

    def careful(me):
        claimed = yield me.claim()
        try:
            yield me.complete({"n": 1})
        except Lost as lost:
            task = yield lost.again
            assert (task.state, task.id) == ("completed", claimed.task.id)

    run = world.run(agent("x", careful), faults=[lost_reply("complete_task")])
    assert (run.outcomes["x"].how, kinds(board).count("task_completed")) == ("finished", 1)


def test_a_careless_generator_is_caught(world):
    """One that asks anew, as if nothing had been, is refused: its lease went with the first answer."""

    def careless(me):
        if not (yield me.claim()):
            return
        try:
            yield me.complete({"n": 1})
        except Lost:
            yield me.complete({"n": 1})

    run = world.run(agent("x", careless), faults=[lost_reply("complete_task")])
    assert run.outcomes["x"].lost == (("a", 1),)


def test_a_cancelled_task_ends_the_round(world, board):
    """The agent learns of it at its next call."""

    def operator(me):
        yield me.work(sec=30)
        yield me.do("cancel_task", task_id="a")

    run = world.run(CODER, agent("operator", operator))
    assert run.outcomes["coder"].lost == (("a", 1),)
    assert states(board) == {"a": "cancelled"}


def test_an_agent_that_is_started_again_is_another_session(world, board):
    """It gets its attempt back once its lease is due, and not before: nothing but the name is the same."""
    world.run(CODER, faults=[kill("complete_task")])
    run = world.run(agent("coder", claim(resume=True), complete()))

    assert run.steps[0].reply == "refused: already_claimed, waits"
    assert ends(board) == [("coder", "completed")]
    assert board.get_task("a").ended_us == START_US + 60_000_000


def test_a_fault_that_never_struck_is_told(world):
    """A test that meant to break something and did not is worth a look."""
    faults = [kill("fail_task"), stall(agent="nobody"), lost_reply("claim_task")]
    assert world.run(CODER, faults=faults).unused_faults == tuple(faults[:2])


def test_after_healing_nothing_goes_wrong(world, board):
    """Faults that have not struck never will, and the dead stay dead."""
    run = world.run(CODER * 2, faults=[kill("complete_task"), kill("put_entry", 3)])
    world.heal()
    tasks(board, "b", "c", "d")
    again = world.run(agent("new", *CODER.does).forever())

    assert (len(run.unused_faults), again.unused_faults, len(again.marks)) == (1, (), 1)
    assert again.outcomes["coder-1"].how == "killed"
    assert set(states(board).values()) == {"completed"}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (kill("complete"), "the board has no verb 'complete', so kill at complete would never strike"),
        (disconnect(), "a swarm knows no disconnect"),
        (some("kill", "duplicate"), "a swarm knows no duplicate"),
    ],
)
def test_a_fault_that_cannot_be_is_refused(world, wrong, words):
    """Before anything happens, not by never striking."""
    with pytest.raises(ValueError, match=words):
        world.run(CODER, faults=[wrong])
    assert world.steps == ()


def test_drawn_faults_can_be_written_down(tmp_path):
    """What `some` has drawn is told as faults that a test can name; named, they strike in the same places."""
    marks = []
    faults = [some("stall", "lost_reply", max=3)]
    for name in ("drawn.db", "named.db"):
        with open_board(tmp_path / name, TurnableClock()) as board:
            tasks(board, *[f"t{n}" for n in range(8)])
            run = World(board).run(CODER * 3, faults=faults, seed=0)
        marks.append(run.marks)
        faults = [mark.fault for mark in run.marks]

    assert len(marks[0]) == 3
    assert (marks[0], run.unused_faults) == (marks[1], ())


def test_a_drawn_stall_waits_for_a_lease_to_lose():
    """Where nobody holds one it would cost nothing."""
    strikes = Strikes()
    strikes.arm([some("stall")], lambda *what: int(what == ("faults", 2)))

    assert strikes.at("x", "claim_task", holds=False) == ()
    assert strikes.at("x", "heartbeat", holds=True) == (stall("heartbeat", agent="x"),)


def test_some_means_up_to_so_many(board):
    """Over the seeds, none and all of them happen."""
    tasks(board, "a")
    counts = set()
    for seed in range(20):
        tasks(board, *[f"s{seed}t{n}" for n in range(6)])
        world = World(board)
        counts.add(len(world.run(CODER, faults=[some("lost_reply", "lost_request", "delay", max=2)], seed=seed).marks))
    assert counts == {0, 1, 2}
