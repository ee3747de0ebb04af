"""Public faults of systems like ours, section A of the bug bank: claims, leases, retries, priorities."""

import os
import signal
import threading
from collections import Counter

import pytest

from agentmesh import Board, Lease
from agentmesh.board import attempts, leases, lookup
from agentmesh.board.claim import hand_out
from agentmesh.errors import AlreadyClaimed, InvalidArgument, LeaseLost
from tests.support.boards import claimed, damage, event_count, kinds, open_board, put, rows, states, violations
from tests.support.clock import TurnableClock
from tests.support.faults import Intruder
from tests.support.interleave import Party
from tests.support.processes import Worker, barrier, results

AGENT = "claude-3-7-sonnet"


def claim_next(line, path, rounds, start, number):
    """Ask for the next task in each round; say what was got."""
    with open_board(path, TurnableClock(), seed=number) as board:
        got = []
        for _ in range(rounds):
            start.wait()
            claim = board.claim_task(f"agent-{number}")
            got.append((claim.task.id, claim.lease.fence) if claim else claim.reason)
            start.wait()
            if claim:
                claim.complete()
                board.create_task("T")
        line.send(got)


@pytest.mark.multiproc
def test_a1_asking_and_claiming_is_one_step(board_path, clock):
    """beads#3570, #3575: one ready task, two who ask at once, 500 rounds: one winner each time, no error."""
    with open_board(board_path, clock, seed=99) as board:
        put(board, "first")
        one, two = results(2, claim_next, board_path, 500, barrier(2))
        for mine, theirs in zip(one, two, strict=True):
            assert sorted(isinstance(got, tuple) for got in (mine, theirs)) == [False, True]
            assert {got for got in (mine, theirs) if isinstance(got, str)} == {"in_progress"}
        assert {fence for _, fence in [got for got in one + two if isinstance(got, tuple)]} == {1}
        assert violations(board) == {}


def claim_by_name(line, path, rounds, start, number):
    """Claim the same task in each round; say whether it was had, and who has it if not."""
    with open_board(path, TurnableClock(), seed=number) as board:
        got = []
        for turn in range(rounds):
            start.wait()
            try:
                got.append(board.claim_task(f"agent-{number}", task_id=f"t{turn}").task.holder)
            except AlreadyClaimed as error:
                got.append(f"not: {error.holder}")
        line.send(got)


@pytest.mark.multiproc
def test_a2_a_named_task_has_one_winner_and_names_it_to_all_others(board_path, clock):
    """beads#4657: eight processes claim the same id from a barrier, 200 rounds: one success, seven refusals."""
    with open_board(board_path, clock, seed=99) as board:
        put(board, *[f"t{n}" for n in range(200)])
        for got in zip(*results(8, claim_by_name, board_path, 200, barrier(8)), strict=True):
            (winner,) = [one for one in got if not one.startswith("not: ")]
            assert sorted(got) == sorted([winner] + [f"not: {winner}"] * 7)
        assert violations(board) == {}


def drain(line, path, number):
    """Claim and complete until everything is done; say what was completed."""
    with open_board(path, TurnableClock(), seed=number) as board:
        done = []
        while claim := board.claim_task(f"agent-{number}"):
            done.append(claim.task.id)
            claim.complete()
        line.send(done)


@pytest.mark.multiproc
@pytest.mark.parametrize("count", [2, 8])
def test_a4_a_thousand_tasks_are_done_a_thousand_times(board_path, clock, count):
    """dbos-transact-py#541: two, then eight runners; each task has one attempt."""
    with open_board(board_path, clock, seed=99) as board:
        board.create_tasks([{"title": "T"} for _ in range(1000)])
        done = [task for mine in results(count, drain, board_path) for task in mine]
        assert (len(done), len(set(done))) == (1000, 1000)
        assert rows(board, "SELECT COUNT(*), MIN(fence), MAX(fence) FROM attempt") == [(1000, 1, 1)]
        assert violations(board) == {}


def complete(change, lease):
    """The holder completes."""
    attempts.complete(change, leases.shown(change.tx, lease), None)


def release_and_claim_again(change, lease):
    """The holder gives the task back, and another agent gets it."""
    attempts.release(change, leases.shown(change.tx, lease), 0)
    hand_out(change, lookup.task_row(change.tx, lease.task_id), "other")


@pytest.mark.parametrize(("act", "state"), [(complete, "completed"), (release_and_claim_again, "in_progress")])
def test_a5_a_rescuer_does_not_act_on_what_it_read_before(board, clock, act, state):
    """river#1302: the attempt ends between the reaper's list and its write: no row changes, no event."""
    put(board, "a")
    lease = claimed(board, "a").lease
    clock.advance(60)
    store = board.store
    board._store = intruder = Intruder(store, "due_attempts", lambda change: act(change, lease))
    assert board.reclaim_zombies() == []
    board._store = store
    assert intruder.came
    assert states(board) == {"a": state}
    assert "lease_reclaimed" not in kinds(board)


def test_a7_the_second_of_two_reapers_changes_nothing(board_path, clock):
    """dbos-transact-py#742: both have seen the due lease; one reclaim event, the other sees nothing left."""
    party = Party()
    with open_board(board_path, clock) as board, open_board(board_path, clock, probe=party) as other:
        put(board, "a")
        claimed(board, "a")
        clock.advance(60)
        party.start(other.reclaim_zombies)
        assert party.at == "transaction"
        found = board.reclaim_zombies() + party.finish()
        assert [attempt.task_id for attempt in found] == ["a"]
        assert kinds(board).count("lease_reclaimed") == 1
        assert violations(board) == {}


@pytest.mark.damaged
def test_a8_a_task_is_taken_back_whatever_is_known_of_its_agent(board, clock):
    """procrastinate#1518: the record of the dead agent is gone; its task is not."""
    put(board, "a")
    board.claim_task(AGENT)
    assert damage(board, "DELETE FROM agent") == 1
    clock.advance(60)
    assert board.claim_task("other").task.id == "a"


def test_a8_an_agent_of_the_same_name_keeps_no_old_attempt_alive(board_path, clock):
    """procrastinate#1518: a restarted agent's heartbeats are for its own attempt, not for the one of its past life."""
    with open_board(board_path, clock) as board, open_board(board_path, clock, seed=1) as reborn:
        put(board, "old", "new")
        claimed(board, "old", AGENT)
        clock.advance(30)
        claim = claimed(reborn, "new", AGENT)
        claim.heartbeat()
        clock.advance(30)
        claim.heartbeat()
        assert [attempt.task_id for attempt in reborn.reclaim_zombies()] == ["old"]


class DiesAt:
    """A probe that kills its process at a point, once it is armed."""

    def __init__(self, point):
        self.point = point
        self.armed = False

    def reached(self, point):
        """The store is at `point`."""
        if self.armed and point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


def reap_and_die(_line, path, now_us, point):
    """Reap, and be killed in the middle of it."""
    probe = DiesAt(point)
    with open_board(path, TurnableClock(now_us), probe=probe) as board:
        probe.armed = True
        board.reclaim_zombies()


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.parametrize("point", ["gate", "begin", "do:end_attempt", "do:add_event", "commit", "committed"])
def test_a10_a_reaper_that_dies_at_it_holds_nobody_up(board_path, clock, point):
    """procrastinate#1408: killed in the middle of reaping; the next process reaps, once, and no lock survives."""
    with open_board(board_path, clock) as board:
        put(board, "a", "b")
        claimed(board, "a")
        claimed(board, "b")
        clock.advance(60)
        worker = Worker(reap_and_die, board_path, clock.now_us(), point)
        assert worker.last_words() == []
        assert worker.end() == -signal.SIGKILL
        before = kinds(board).count("lease_reclaimed")
        assert before == (2 if point == "committed" else 0)
        assert len(board.reclaim_zombies()) == 2 - before
        assert kinds(board).count("lease_reclaimed") == 2
        assert violations(board) == {}


def test_a13_a_dead_agents_paths_do_not_hold_back_its_own_task(board, clock):
    """pgqueuer#475: the only slot is held by the dead one; after its lease the task, and the slot, can be had again."""
    put(board, "a", "b", writes=["slot"])
    claimed(board, "a", "dead")
    assert not board.claim_task("x")
    clock.advance(60)
    claim = board.claim_task("x")
    assert (claim.task.id, claim.lease.fence) == ("a", 2)
    claim.complete()
    assert board.claim_task("x").task.id == "b"


@pytest.mark.parametrize("wrong", [None, 0, -1, float("inf")])
def test_a16_a_lease_without_an_end_does_not_exist(board, clock, wrong):
    """river#1287: none, zero, negative and endless are refused; a week is the longest, and it holds for a week."""
    with pytest.raises(InvalidArgument):
        board.create_task("T", lease_timeout_sec=wrong)
    board.create_task("T", id="a", lease_timeout_sec=7 * 86_400)
    claimed(board, "a")
    clock.advance(7 * 86_400 - 1)
    assert board.reclaim_zombies() == []
    clock.advance(1)
    assert len(board.reclaim_zombies()) == 1


def test_a17_no_lease_runs_while_a_task_waits_for_its_time(board, clock):
    """celery#2599, #3270: a task for two leases from now is handed out once, at its time."""
    board.create_task("T", id="a", not_before="2026-01-01T00:02:00Z", lease_timeout_sec=60)
    for _ in range(2):
        clock.advance(59)
        assert not board.claim_task("x")
        assert board.reclaim_zombies() == []
    clock.advance(2)
    claim = board.claim_task("x")
    assert (claim.task.id, claim.lease.fence, claim.lease_expires_us) == ("a", 1, clock.now_us() + 60_000_000)


def test_a19_a_zombie_is_handled_once_by_many_reapers(board_path, clock):
    """airflow#51969, #32289: eight reapers at once; one more attempt, one event, no deadlock."""
    boards = [open_board(board_path, clock, seed=seed) for seed in range(8)]
    put(boards[0], "a", "b", "c")
    for name in "abc":
        claimed(boards[0], name)
    clock.advance(60)
    together, found = threading.Barrier(8), []

    def reap(board):
        together.wait(30)
        found.extend(attempt.task_id for attempt in board.reclaim_zombies())

    threads = [threading.Thread(target=reap, args=(board,)) for board in boards]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == ["a", "b", "c"]
    assert kinds(boards[0]).count("lease_reclaimed") == 3
    assert [task.charged for task in boards[0].list_tasks().tasks] == [1, 1, 1]
    assert violations(boards[0]) == {}
    for board in boards:
        board.close()


def test_a20_the_first_heartbeat_is_the_hand_out(board, clock):
    """airflow#29455: no attempt is without a beat; right after its start a task is no zombie."""
    put(board, "a")
    claimed(board, "a")
    (attempt,) = board.attempts("a")
    assert attempt.heartbeat_us == attempt.started_us == clock.now_us()
    assert board.reclaim_zombies() == []


def claim_and_die(line, path, now_us):
    """Claim the next task and wait to be killed."""
    with open_board(path, TurnableClock(now_us)) as board:
        claim = board.claim_task("doomed")
        line.send((claim.task.id, claim.lease.fence))
        line.recv()


@pytest.mark.multiproc
@pytest.mark.kill
def test_a23_a_task_that_kills_its_worker_stops_after_its_attempts(board_path, clock):
    """hindsight#2675, sidekiq#4069: killed after each claim, at most three times, then paused with the reason.

    Whether the task kills its workers or the machine was restarted, the board cannot know (hermes-agent#113840).
    """
    with open_board(board_path, clock) as board:
        board.create_task("T", id="a", max_attempts=3)
        for fence in (1, 2, 3):
            worker = Worker(claim_and_die, board_path, clock.now_us())
            assert worker.hear() == ("a", fence)
            worker.kill()
            clock.advance(60)
        assert board.claim_task("x").reason == "paused"
        [pause] = board.status().pauses
        assert (pause.name, pause.ceiling) == ("a", "reclaimed")
        assert pause.reason == "its lease ran out 3 times, and no attempt failed by itself"
        assert Counter(attempt.outcome for attempt in board.attempts("a")) == {"reclaimed": 3}
        assert violations(board) == {}


@pytest.mark.parametrize("blank", ["", " ", "\t", "\n", "\u00a0"])
def test_a25_a_blank_id_is_refused_everywhere(board, blank):
    """dbos-transact-py#759: an empty string is never taken for a missing one: id, agent, parent, plan, key."""
    put(board, "a")
    claim = claimed(board, "a")
    before = event_count(board)
    for call in (
        lambda: board.create_task("T", id=blank),
        lambda: board.create_task("T", plan=blank),
        lambda: board.create_task("T", depends_on=[blank]),
        lambda: board.create_task("T", request_id=blank),
        lambda: board.create_task("T", agent_id=blank),
        lambda: board.create_task(blank),
        lambda: board.claim_task(blank),
        lambda: board.claim_task("x", task_id=blank),
        lambda: board.claim_task("x", plan=blank),
        lambda: board.complete_task(Lease(blank, 1, claim.lease.secret)),
        lambda: board.complete_task(claim.lease, request_id=blank),
        lambda: board.add_dependency("a", blank),
        lambda: board.cancel_task(blank),
    ):
        with pytest.raises(InvalidArgument):
            call()
    assert event_count(board) == before


@pytest.mark.parametrize("end", ["dead", "cancelled", "failed", "released", "refused"])
def test_a28_a_slot_is_free_after_any_end(board, clock, end):
    """prefect#17415, luigi#1548: however the holder of the last slot ends, nobody holds it afterwards."""
    put(board, "a", writes=["slot"], max_attempts=1)
    put(board, "b", writes=["slot"])
    claim = claimed(board, "a")
    if end == "dead":
        clock.advance(60)
        board.reclaim_zombies()
    elif end == "cancelled":
        board.cancel_task("a")
    elif end == "failed":
        claim.fail("x")
    elif end == "released":
        claim.release(delay_sec=60)
    else:
        with pytest.raises(InvalidArgument):
            claim.complete(float("nan"))
        assert rows(board, "SELECT COUNT(*) FROM hold") == [(1,)]
        claim.complete()
    assert rows(board, "SELECT COUNT(*) FROM hold") == [(0,)]
    assert board.claim_task("x").task.id == "b"


@pytest.mark.multiproc
@pytest.mark.kill
def test_a29_a_killed_worker_loses_no_task(board_path, clock):
    """huey#253, #571, #844: killed between claim and completion; the task is there and is handed out again."""
    with open_board(board_path, clock) as board:
        put(board, "a")
        worker = Worker(claim_and_die, board_path, clock.now_us())
        assert worker.hear() == ("a", 1)
        worker.kill()
        assert states(board) == {"a": "in_progress"}
        clock.advance(60)
        assert board.claim_task("x").lease.fence == 2
        assert violations(board) == {}


def create_hundred(line, path, start, number):
    """Put a hundred tasks on the board, one by one; say their ids."""
    with Board.open(path, durability="normal") as board:
        start.wait()
        line.send([board.create_task(f"by {number}").id for _ in range(100)])


@pytest.mark.multiproc
def test_a31_two_sessions_that_add_tasks_overwrite_nothing(board_path, clock):
    """claude-code#21060: two processes, a hundred tasks each: two hundred ids, each with its own title."""
    with open_board(board_path, clock) as board:
        one, two = results(2, create_hundred, board_path, barrier(2))
        assert len({*one, *two}) == 200
        titles = Counter(task.title for task in board.list_tasks(limit=500).tasks)
        assert titles == {"by 0": 100, "by 1": 100}
        assert violations(board) == {}


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a32_a_clock_that_jumps_takes_each_due_lease_back_once(board, clock, jump):
    """ever-works PR#2364, valkey#2651: an hour on or back under live claims; late writers are fenced, none twice."""
    names = ["a", "b", "c"]
    put(board, *names)
    claims = [claimed(board, name, "asleep") for name in names]
    clock.advance(jump)
    taken = board.reclaim_zombies() + board.reclaim_zombies()
    assert [attempt.task_id for attempt in taken] == (names if jump > 0 else [])
    for claim in claims:
        if jump > 0:
            with pytest.raises(LeaseLost):
                claim.complete()
        else:
            assert claim.complete().state == "completed"


def test_a34_urgent_tasks_go_first_and_a_low_one_goes_when_they_are_done(board):
    """harness#1583: there is no ageing: the documented order is urgency, then age, and nothing else."""
    board.create_task("Low", id="low", priority=-1)
    for number in range(50):
        board.create_task("High", id=f"high-{number}", priority=1)
        assert board.claim_task("x").task.id == f"high-{number}"
    assert board.claim_task("x").task.id == "low"


def write_without_end(line, path, number):
    """Write until told to stop; say that it has begun."""
    with open_board(path, TurnableClock(), seed=number) as board:
        line.send("begun")
        while not line.poll():
            board.create_task("flood", requires=["nobody"])


@pytest.mark.multiproc
def test_a34_a_writer_in_a_loop_does_not_keep_a_claim_out(board_path, clock):
    """sqlx#3920: one process writes without a pause; a claim of another gets its turn and is never told `busy`."""
    with open_board(board_path, clock, seed=9) as board:
        worker = Worker(write_without_end, board_path, 3)
        assert worker.hear() == "begun"
        for number in range(20):
            put(board, f"t{number}")
            assert board.claim_task("x").task.id == f"t{number}"
        worker.tell("stop")
        assert worker.end() == 0
