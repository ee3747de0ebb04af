"""Ceilings: ends that are not the task's own fault pause it, and never fail it; pauses of tasks by hand."""

import pytest

from agentmesh.errors import InvalidArgument, NotFound, WrongState
from tests.support.boards import claimed, done, event_count, kinds, open_board, put, states, violations

HOUR = 3600


@pytest.fixture
def alone(board):
    """A task with three attempts, and one that waits for it."""
    put(board, "a", "child: a")
    return board


def released(board, _clock, times=20):
    """Agents that decline the task, one after the other."""
    for number in range(times):
        claimed(board, "a", f"agent-{number}").release()


def failed(board, clock, kind, times=10):
    """Failures that are nobody's fault here."""
    for _ in range(times):
        claimed(board, "a").fail("down", kind=kind)
        clock.advance(HOUR)


def lost(board, clock, times=3):
    """Restarts of a machine while the task is held."""
    for number in range(times):
        claimed(board, "a", f"agent-{number}")
        clock.advance(61)
        board.reclaim_zombies()


WAYS = {
    "released": (released, "agents gave it back 20 times"),
    "infra": (lambda board, clock: failed(board, clock, "infra"), "10 attempts failed for want of infrastructure"),
    "quota": (lambda board, clock: failed(board, clock, "quota"), "10 attempts failed for want of quota"),
    "reclaimed": (lost, "its lease ran out 3 times, and no attempt failed by itself"),
}


@pytest.fixture(params=WAYS)
def paused(request, alone, clock):
    """A board whose task `a` has just reached a ceiling; with it the ceiling."""
    WAYS[request.param][0](alone, clock)
    return alone, request.param


def test_a_ceiling_pauses_the_task_and_cancels_nothing(paused):
    """The task stays open, what waits for it waits on, and the board is sound."""
    board, ceiling = paused
    task = board.get_task("a")
    assert (task.state in ("pending", "scheduled"), task.paused, task.charged) == (True, True, 0)
    assert states(board)["child"] == "blocked"
    [pause] = board.status().pauses
    assert (pause.scope, pause.name, pause.ceiling, pause.agent_id) == ("task", "a", ceiling, None)
    assert pause.reason == WAYS[ceiling][1]
    assert violations(board) == {}


def test_whoever_asks_is_told_of_the_ceiling(paused):
    """`explain` names it first, for the task and for what waits for it; so does a claim of the task."""
    board, ceiling = paused
    for found in (board.explain("a"), board.explain("child"), board.explain()):
        assert (found.causes[0].kind, found.causes[0].task_id) == ("paused", "a")
        assert WAYS[ceiling][1] in found.causes[0].message
        assert "unpause" in found.causes[0].message
    answer = board.claim_task("x", task_id="a")
    assert (answer.reason, answer.advice) == ("paused", "wait")
    assert WAYS[ceiling][1] in answer.message
    answer = board.claim_task("x")
    assert (answer.reason, answer.advice) == ("paused", "wait")
    assert not board.has_work(agent_id="x")


def test_the_history_tells_which_ceiling_and_how_often(paused):
    """In an event of the task, without an agent."""
    board, ceiling = paused
    event = next(event for event in board.events(limit=1000) if event.kind == "paused")
    counts = {"released": 20, "infra": 10, "quota": 10, "reclaimed": 3}
    refunded = 3 if ceiling == "reclaimed" else 0
    told = {"scope": "task", "name": "a", "ceiling": ceiling, "count": counts[ceiling], "refunded": refunded}
    assert (event.task_id, event.agent_id, event.data) == ("a", None, told)


def test_unpausing_gives_the_task_its_full_number_again(paused, clock):
    """Of ends of every kind: the next ceiling is as far away as the first was."""
    board, ceiling = paused
    assert board.resume(task_id="a") is True
    assert not board.get_task("a").paused
    clock.advance(HOUR)
    WAYS[ceiling][0](board, clock)
    assert board.get_task("a").paused
    assert kinds(board).count("paused") == 2
    board.resume(task_id="a")
    clock.advance(HOUR)
    done(board, "a")
    assert states(board) == {"a": "completed", "child": "pending"}
    assert violations(board) == {}


def test_one_failure_of_the_task_itself_is_enough_to_fail_it(alone, clock):
    """Then reclaims use up what is left, and it fails as it says."""
    claimed(alone, "a").fail("boom")
    clock.advance(10)
    lost(alone, clock, 2)
    task = alone.get_task("a")
    assert (task.state, task.charged, task.reason) == ("failed", 3, "lease expired, attempt 3 of 3")
    assert states(alone)["child"] == "cancelled"


def test_a_failure_of_the_task_stays_charged_over_a_ceiling(alone, clock):
    """Unpausing gives back what was not its fault, and only that."""
    claimed(alone, "a").fail("boom")
    clock.advance(10)
    lost(alone, clock, 1)
    released(alone, clock)
    assert alone.get_task("a").charged == 1
    alone.resume(task_id="a")
    lost(alone, clock, 2)
    assert alone.get_task("a").state == "failed"


def test_failures_before_a_reopening_do_not_count(alone, clock):
    """The task begins anew, so that reclaims alone pause it."""
    claimed(alone, "a").fail("boom", retry=False)
    alone.reopen_task("a")
    lost(alone, clock)
    assert alone.get_task("a").paused


def test_reclaims_far_apart_do_not_pause_a_task_that_has_attempts_left(alone, clock):
    """Two of three."""
    lost(alone, clock, 2)
    assert not alone.get_task("a").paused
    assert claimed(alone, "a")


def test_a_claim_that_heals_the_board_pauses_and_goes_on(alone, clock):
    """What the reclaim takes out of circulation is not handed out by the same claim."""
    put(alone, "b")
    lost(alone, clock, 2)
    claimed(alone, "a")
    clock.advance(61)
    assert alone.claim_task("x").task.id == "b"
    assert alone.get_task("a").paused


def test_a_paused_task_with_paths_leaves_its_pool(board):
    """The next of the pool comes to the head, and back behind it when the pause ends."""
    put(board, "a", "b", writes=["src/**"])
    board.pause(task_id="a")
    claim = board.claim_task("x")
    assert claim.task.id == "b"
    claim.release()
    board.resume(task_id="a")
    assert board.claim_task("y").task.id == "a"
    assert violations(board) == {}


@pytest.mark.parametrize("fields", [{}, {"tags": ["t"]}, {"plan": "p"}, {"requires": ["gpu"]}])
def test_a_pause_by_hand_holds_however_the_task_is_found(board, fields):
    """And names who did it and why."""
    put(board, "a", **fields)
    pause = board.pause(task_id="a", reason="look at it", agent_id="boss")
    assert (pause.scope, pause.name, pause.reason, pause.agent_id) == ("task", "a", "look at it", "boss")
    wish = {"tags": fields.get("tags", ()), "plan": fields.get("plan"), "capabilities": ["gpu"]}
    assert not board.claim_task("x", **wish)
    answer = board.claim_task("x", task_id="a", capabilities=["gpu"])
    assert (answer.reason, answer.message) == ("paused", "Task a was paused by boss.")
    assert board.resume(task_id="a") is True
    assert board.claim_task("x", **wish).task.id == "a"


def test_a_running_attempt_of_a_paused_task_goes_on(board):
    """Only the next hand-out is held back; the end of the task ends its pause."""
    put(board, "a", "b")
    claim, other = claimed(board, "a"), claimed(board, "b")
    board.pause(task_id="a")
    board.pause(task_id="b")
    claim.heartbeat()
    claim.complete()
    other.fail("x", retry=False)
    assert board.status().pauses == ()
    assert violations(board) == {}


def test_a_blocked_task_can_be_paused(board):
    """It is named for itself, and stays where it is when its dependency has ended."""
    put(board, "a", "b: a")
    board.pause(task_id="b", agent_id="boss")
    assert board.explain("b").causes[0].message == "Task b was paused by boss."
    done(board, "a")
    assert states(board) == {"a": "completed", "b": "pending"}
    assert board.claim_task("x").reason == "paused"


def test_a_final_task_is_not_paused(board):
    """Nothing of it would be handed out."""
    put(board, "a")
    done(board, "a")
    with pytest.raises(WrongState):
        board.pause(task_id="a")
    with pytest.raises(NotFound):
        board.pause(task_id="z")
    with pytest.raises(InvalidArgument):
        board.pause(task_id="a", plan="default")
    with pytest.raises(NotFound):
        board.resume(task_id="z")


def test_unpausing_a_task_that_is_not_paused_says_so(board):
    """False, and no event."""
    put(board, "a")
    before = event_count(board)
    assert board.resume(task_id="a") is False
    assert event_count(board) == before


def test_a_ceiling_takes_the_place_of_a_pause_by_hand(alone, clock):
    """Its end would otherwise bring the task back without anybody having looked."""
    released(alone, clock, 19)
    claim = claimed(alone, "a", "last")
    alone.pause(task_id="a", until=(clock.now_us() + 1_000_000) / 1_000_000)
    claim.release()
    clock.advance(HOUR)
    assert alone.claim_task("x").reason == "paused"
    assert [pause.ceiling for pause in alone.status().pauses] == ["released"]


def test_what_is_ready_beside_a_paused_task_is_handed_out(alone, clock):
    """And in the end the answer is a pause, not a wish for capabilities."""
    released(alone, clock)
    put(alone, "b")
    done(alone, "b")
    assert alone.claim_task("x", capabilities=["gpu"]).reason == "paused"
    put(alone, "c")
    claimed(alone, "c")
    assert alone.claim_task("x").reason == "in_progress"


def test_a_paused_task_can_still_be_changed_and_cancelled(paused):
    """It is an open task like any other."""
    board, _ = paused
    board.update_task("a", title="New", priority=4)
    board.cancel_task("a")
    assert states(board) == {"a": "cancelled", "child": "cancelled"}
    assert board.status().pauses == ()
    assert violations(board) == {}


def test_the_status_lists_the_first_hundred_and_counts_all(board):
    """However many there are."""
    put(board, *(f"t{number}" for number in range(105)))
    for number in range(105):
        board.pause(task_id=f"t{number}")
    status = board.status()
    assert (len(status.pauses), status.paused_tasks) == (100, 105)


def test_a_claim_costs_the_same_beside_many_paused_tasks(board_path, clock):
    """A pick walks an index in which they do not stand: the steps of SQLite's machine say so, not the time."""
    with open_board(board_path, clock) as board:
        put(board, *(f"t{number}" for number in range(2000)), priority=9)
        put(board, "free")
        connection = board.store._writer
        connection.execute("INSERT INTO task_pause SELECT pk, '', 'x', 0, NULL, NULL FROM task WHERE priority = 9")
        connection.execute("UPDATE task SET paused = 1 WHERE priority = 9")
        steps = 0

        def step():
            nonlocal steps
            steps += 1
            return False

        connection.set_progress_handler(step, 100)
        assert board.claim_task("x").task.id == "free"
        assert board.claim_task("x").reason == "in_progress"
        connection.set_progress_handler(None)
        assert steps < 100
