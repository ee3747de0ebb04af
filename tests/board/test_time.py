"""Time: one clock decides, read once per transaction, after the write lock is held; correctness rests on fences."""

import threading

import pytest

from agentmesh import Board
from agentmesh.errors import LeaseLost
from tests.support.boards import claimed, kinds, open_board, put, states, violations
from tests.support.clock import START_US, TurnableClock

WRITES = {
    "create_task": lambda board, _: board.create_task("T"),
    "claim_task": lambda board, _: board.claim_task("x"),
    "heartbeat": lambda board, lease: board.heartbeat(lease),
    "complete_task": lambda board, lease: board.complete_task(lease),
    "fail_task": lambda board, lease: board.fail_task(lease, "x"),
    "release_task": lambda board, lease: board.release_task(lease, delay_sec=5),
    "cancel_task": lambda board, _: board.cancel_task("a"),
    "reclaim_zombies": lambda board, _: board.reclaim_zombies(),
    "pause": lambda board, _: board.pause(),
}


class Watched(TurnableClock):
    """A clock and a probe: it notes when it is read between the points of a transaction, and ticks at each reading."""

    def __init__(self):
        super().__init__()
        self.log = []
        self.on_begin = lambda: None

    def now_us(self):
        """The time, a second later each time it is asked."""
        self.log.append("read")
        return self.advance(1)

    def reached(self, point):
        """The store is at `point`."""
        if not point.startswith("do:"):
            self.log.append(point)
        if point == "begin":
            self.on_begin()


@pytest.mark.parametrize("verb", WRITES)
def test_a_write_reads_the_clock_once_and_under_the_lock(board_path, verb):
    """After begin, before commit."""
    clock = Watched()
    with open_board(board_path, clock, probe=clock) as board:
        put(board, "a", "b", lease_timeout_sec=600)
        lease = claimed(board, "b").lease
        clock.log.clear()
        WRITES[verb](board, lease)
        log = clock.log
        if verb == "pause":
            log = log[: log.index("committed")]
        assert log.count("read") == 1
        assert log.index("begin") < log.index("read") < log.index("commit")


def test_all_that_a_transaction_writes_bears_one_instant(board_path):
    """Task, attempt, event, lease: the clock ticks, they agree."""
    clock = Watched()
    with open_board(board_path, clock) as board:
        put(board, "a", "b: a")
        claim = claimed(board, "a")
        claim.fail("x", retry=False)
        (attempt,) = board.attempts("a")
        by_kind = {event.kind: event.at_us for event in board.events()}
        assert attempt.started_us == attempt.heartbeat_us == by_kind["task_claimed"]
        assert attempt.lease_expires_us == attempt.started_us + 60_000_000
        ends = {attempt.ended_us, board.get_task("a").ended_us, board.get_task("b").ended_us}
        assert ends == {by_kind["task_failed"]} == {by_kind["task_cancelled"]}


def test_a_writer_that_waited_for_the_lock_does_not_act_on_an_older_time(board_path):
    """The lease was alive when the call was made and is due when the lock is had: the later instant counts."""
    clock = Watched()
    with open_board(board_path, clock, probe=clock) as board:
        put(board, "a", lease_timeout_sec=100)
        claim = claimed(board, "a")
        clock.on_begin = lambda: clock.advance(100)
        claim.complete()
        assert board.attempts("a")[0].late is True


def test_two_boards_on_one_clock_never_hand_out_twice(board_path, clock):
    """Whatever the clock does between the calls."""
    with open_board(board_path, clock) as one, open_board(board_path, clock, seed=1) as two:
        put(one, "a", max_attempts=50)
        claims = []
        for turn, jump in enumerate([0, 3600, -3600, 60, -59, 61, -100_000, 100_000]):
            clock.advance(jump)
            claim = (one, two)[turn % 2].claim_task(f"agent-{turn}")
            if claim:
                claims.append(claim)
        assert [claim.lease.fence for claim in claims] == list(range(1, len(claims) + 1))
        for stale in claims[:-1]:
            with pytest.raises(LeaseLost):
                stale.complete()
        assert claims[-1].complete().state == "completed"
        assert violations(one) == {}


def test_agents_with_clocks_that_disagree_are_kept_apart_by_fences(board_path):
    """One process is an hour ahead: it takes a live lease back, and the slow one is fenced off, not the task lost."""
    slow, fast = TurnableClock(), TurnableClock(START_US + 3600 * 1_000_000)
    with open_board(board_path, slow) as here, open_board(board_path, fast, seed=1) as ahead:
        put(here, "a")
        mine = claimed(here, "a", "slow")
        theirs = ahead.claim_task("fast")
        assert theirs.lease.fence == 2
        with pytest.raises(LeaseLost):
            mine.complete()
        assert theirs.complete().state == "completed"
        assert kinds(here).count("task_completed") == 1
        assert violations(here) == {}


@pytest.mark.parametrize("pruned", [False, True])
def test_a_parent_that_is_reopened_after_a_step_back_accuses_nobody(board, clock, pruned):
    """Its child runs, having waited for it: the history says so, or is gone, and the instants say the opposite."""
    put(board, "p", "c: p")
    claimed(board, "p").complete()
    claimed(board, "c")
    if pruned:
        clock.advance(10)
        board.prune(older_than_sec=1_000_000, events_older_than_sec=1)
    clock.advance(-3600)
    board.reopen_task("p")
    assert violations(board) == {}


def test_a_clock_that_is_set_back_brings_nothing_down(board, clock):
    """Leases live longer, times come later; everything can still be ended."""
    put(board, "a")
    board.create_task("T", id="later", not_before="2026-01-01T00:00:10Z")
    claim = claimed(board, "a")
    clock.advance(-86_400)
    assert claim.heartbeat().expires_us == claim.lease_expires_us
    assert claim.complete().state == "completed"
    assert not board.claim_task("x")
    clock.advance(86_410)
    assert board.claim_task("x").task.id == "later"
    assert states(board) == {"a": "completed", "later": "in_progress"}


def test_two_ends_of_one_instant_are_both_applied_in_order(board):
    """No change is ignored because it came too soon after another."""
    put(board, "a", "b: a", "c: b")
    for name in "abc":
        claimed(board, name).complete()
        board.reopen_task(name)
        claimed(board, name).complete()
    assert set(states(board).values()) == {"completed"}
    assert kinds(board).count("task_completed") == 6


def test_the_boards_own_clock_is_the_systems(tmp_path):
    """Where none is given."""
    with Board.open(tmp_path / "board.db", durability="normal") as board:
        before = board.store.clock.now_us()
        task = board.create_task("T")
        assert before <= task.created_us <= board.store.clock.now_us()


def test_threads_of_one_board_take_turns(board):
    """Each of eight threads claims and completes; every task is done once."""
    board.create_tasks([{"title": "T", "id": f"t{n}"} for n in range(80)])
    together = threading.Barrier(8)
    found = []

    def work(name):
        together.wait(30)
        while claim := board.claim_task(name):
            found.append(claim.task.id)
            claim.complete()

    threads = [threading.Thread(target=work, args=(f"agent-{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == sorted(f"t{n}" for n in range(80))
