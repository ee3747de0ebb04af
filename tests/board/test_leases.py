"""Leases: how they are kept, how they run out, and what a holder can do when."""

import pytest

from agentmesh import Lease
from agentmesh.errors import AlreadyClaimed, HoldExhausted, LeaseLost, NotFound, TaskCancelled
from tests.support.boards import claimed, event_count, kinds, open_board, put, states

WRITES = {
    "heartbeat": lambda board, lease: board.heartbeat(lease),
    "complete_task": lambda board, lease: board.complete_task(lease, {"x": 1}),
    "fail_task": lambda board, lease: board.fail_task(lease, "broken"),
    "release_task": lambda board, lease: board.release_task(lease),
    "split_task": lambda board, lease: board.split_task(lease, [{"title": "sub"}]),
    "hold_paths": lambda board, lease: board.hold_paths(lease, writes=["f"]),
    "note": lambda board, lease: board.note(lease, "hello"),
}


def test_a_heartbeat_renews_the_lease_from_now(board, clock):
    """By the timeout of the task; the token stays the same."""
    board.create_task("T", id="a", lease_timeout_sec=10)
    claim = claimed(board, "a")
    clock.advance(7)
    lease = claim.heartbeat()
    assert lease.expires_us == clock.now_us() + 10_000_000
    assert lease == claim.lease
    (attempt,) = board.attempts("a")
    assert (attempt.heartbeat_us, attempt.lease_expires_us) == (clock.now_us(), lease.expires_us)


def test_a_heartbeat_leaves_no_event(board):
    """They are many and say nothing new."""
    put(board, "a")
    claim = claimed(board, "a")
    before = event_count(board)
    claim.heartbeat()
    assert event_count(board) == before


def test_a_heartbeat_never_shortens_a_lease(board, clock):
    """A clock that is set back takes nothing away."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(-3600)
    assert claim.heartbeat().expires_us == claim.lease_expires_us


def test_a_changed_timeout_counts_from_the_next_heartbeat(board, clock):
    """What runs is not cut short."""
    put(board, "a")
    claim = claimed(board, "a")
    board.update_task("a", lease_timeout_sec=600)
    assert board.get_task("a").lease_expires_us == claim.lease_expires_us
    assert claim.heartbeat().expires_us == clock.now_us() + 600_000_000


def test_no_heartbeat_carries_an_attempt_past_its_longest_hold(board, clock):
    """The last one before gives what is left; from then on the holder can only end it."""
    board.create_task("T", id="a", lease_timeout_sec=60, max_hold_sec=100)
    start = clock.now_us()
    claim = claimed(board, "a")
    clock.advance(55)
    assert claim.heartbeat().expires_us == start + 100_000_000
    clock.advance(45)
    with pytest.raises(HoldExhausted) as caught:
        claim.heartbeat()
    assert caught.value.code == "max_hold_reached"
    assert claim.complete().state == "completed"


def test_the_longest_hold_limits_the_first_lease_too(board, clock):
    """Where both are the same."""
    board.create_task("T", id="a", lease_timeout_sec=30, max_hold_sec=30)
    assert claimed(board, "a").lease_expires_us == clock.now_us() + 30_000_000


def test_a_long_lease_stretches_the_default_hold(board):
    """A lease of a day is not cut at four hours."""
    task = board.create_task("T", lease_timeout_sec=86_400)
    assert task.max_hold_us == task.lease_timeout_us == 86_400_000_000


def test_a_lease_is_due_at_its_very_instant(board, clock):
    """`expires_at <= now`, not a microsecond before."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(59.999999)
    assert board.reclaim_zombies() == []
    clock.advance(0.000001)
    assert [attempt.task_id for attempt in board.reclaim_zombies()] == ["a"]


def test_a_named_claim_takes_no_lease_back_before_its_instant(board, clock):
    """A microsecond early it is still held."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(59.999999)
    with pytest.raises(AlreadyClaimed):
        board.claim_task("x", task_id="a")
    clock.advance(0.000001)
    assert board.claim_task("x", task_id="a").lease.fence == 2


def test_an_end_at_the_very_instant_is_late(board, clock):
    """The lease was due."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(60)
    claim.complete()
    assert board.attempts("a")[0].late is True
    assert board.events()[-1].data["late"] is True


def test_a_reclaimed_attempt_is_reported_as_it_ended(board, clock):
    """Who held it, since when, until when; it stays charged."""
    put(board, "a")
    claimed(board, "a", "dead")
    clock.advance(100)
    (attempt,) = board.reclaim_zombies()
    assert (attempt.agent_id, attempt.fence, attempt.outcome, attempt.charged) == ("dead", 1, "reclaimed", True)
    assert (attempt.ended_us, attempt.late) == (clock.now_us(), True)
    assert attempt == board.attempts("a")[0]
    assert board.events()[-1].data == {"state": "pending", "due_us": attempt.lease_expires_us}


def test_reclaiming_twice_takes_back_once(board, clock):
    """The second finds nothing and leaves no event."""
    put(board, "a", "b")
    claimed(board, "a")
    claimed(board, "b")
    clock.advance(60)
    assert [attempt.task_id for attempt in board.reclaim_zombies()] == ["a", "b"]
    before = event_count(board)
    assert board.reclaim_zombies() == []
    assert event_count(board) == before


def test_all_due_leases_are_taken_back_however_many(board, clock):
    """In bounded batches, longest due first."""
    names = [f"t{n:03}" for n in range(130)]
    put(board, *names)
    for name in names:
        claimed(board, name)
        clock.advance(0.001)
    clock.advance(60)
    assert [attempt.task_id for attempt in board.reclaim_zombies()] == names


@pytest.mark.parametrize("verb", [verb for verb in WRITES if verb != "heartbeat"])
def test_a_holder_whose_lease_is_due_is_still_the_holder(board, clock, verb):
    """Until somebody takes it back its writes are accepted; an end is marked late."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(3600)
    WRITES[verb](board, claim.lease)
    (attempt,) = board.attempts("a")
    ends = {"complete_task": "completed", "fail_task": "failed", "release_task": "released", "split_task": "split"}
    assert attempt.outcome == ends.get(verb)
    assert attempt.late is (verb in ends)
    if verb in ("complete_task", "fail_task", "release_task"):
        assert board.events()[-1].data["late"] is True


def test_a_late_heartbeat_saves_the_attempt(board, clock):
    """Nobody has taken it back, so nothing is lost."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(3600)
    assert claim.heartbeat().expires_us == clock.now_us() + 60_000_000
    assert board.reclaim_zombies() == []
    assert claim.complete().state == "completed"
    assert board.attempts("a")[0].late is False


def test_an_end_in_time_is_not_late(board, clock):
    """A microsecond before the lease is due."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(59.999999)
    claim.complete()
    assert board.attempts("a")[0].late is False
    assert "late" not in board.events()[-1].data


@pytest.mark.parametrize("verb", WRITES)
def test_a_reclaimed_lease_buys_no_write(board, clock, verb):
    """Another agent may hold the task now; nothing changes, and the error says how the attempt ended."""
    put(board, "a")
    claim = claimed(board, "a", "slow")
    clock.advance(60)
    claimed(board, "a", "fast")
    before, task = event_count(board), board.get_task("a")
    with pytest.raises(LeaseLost) as caught:
        WRITES[verb](board, claim.lease)
    assert (caught.value.code, caught.value.outcome, caught.value.fence) == ("lease_lost", "reclaimed", 1)
    assert (event_count(board), board.get_task("a")) == (before, task)


@pytest.mark.parametrize("verb", WRITES)
def test_a_cancelled_task_tells_its_holder(board, verb):
    """`cancelled`, so that it stops working, and nothing changes."""
    put(board, "a")
    claim = claimed(board, "a")
    board.cancel_task("a")
    before = event_count(board)
    with pytest.raises(TaskCancelled) as caught:
        WRITES[verb](board, claim.lease)
    assert caught.value.code == "cancelled"
    assert (event_count(board), states(board)) == (before, {"a": "cancelled"})


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize("end", ["complete", "fail", "release"])
def test_an_attempt_that_is_over_buys_no_second_write(board, verb, end):
    """Not even to the one who ended it."""
    put(board, "a")
    claim = claimed(board, "a")
    _ = claim.fail("x", retry=False) if end == "fail" else getattr(claim, end)()
    before, task = event_count(board), board.get_task("a")
    with pytest.raises(LeaseLost):
        WRITES[verb](board, claim.lease)
    assert (event_count(board), board.get_task("a")) == (before, task)


@pytest.mark.parametrize("verb", WRITES)
@pytest.mark.parametrize(
    "forge",
    [
        lambda lease: Lease(lease.task_id, lease.fence, "guess"),
        lambda lease: Lease(lease.task_id, lease.fence, lease.secret[:-1]),
        lambda lease: Lease(lease.task_id, lease.fence, lease.secret.upper() + "\u00e9"),
        lambda lease: Lease(lease.task_id, lease.fence + 1, lease.secret),
        lambda lease: Lease("b", lease.fence, lease.secret),
    ],
    ids=["guessed", "shortened", "foreign letters", "another fence", "another task"],
)
def test_a_forged_token_buys_no_write(board, verb, forge):
    """The secret is that of one attempt of one task."""
    put(board, "a", "b")
    claim = claimed(board, "a")
    claimed(board, "b")
    before = event_count(board)
    with pytest.raises(LeaseLost):
        WRITES[verb](board, forge(claim.lease))
    assert event_count(board) == before


@pytest.mark.parametrize("verb", WRITES)
def test_a_lease_on_a_task_that_is_not_there_is_not_found(board, verb):
    """Another board's token, for example."""
    with pytest.raises(NotFound):
        WRITES[verb](board, Lease("nowhere", 1, "x"))


def test_a_lease_can_be_carried_as_text(board, board_path, clock):
    """Its token is `fence.secret`; another process goes on with it."""
    put(board, "a")
    token = claimed(board, "a").lease.token
    lease = Lease.from_token("a", token)
    assert token == f"1.{lease.secret}"
    with open_board(board_path, clock) as other:
        assert other.complete_task(lease).state == "completed"


@pytest.mark.parametrize("text", ["", ".", "1", "1.", ".x", "x.1", "-1.x", "\u0661.x", " 1.x", "1" * 19 + ".x"])
def test_text_that_is_no_token_makes_no_lease(text):
    """None, not an error: the caller knows what it was given."""
    assert Lease.from_token("a", text) is None


def test_every_hand_out_has_a_secret_of_its_own(board):
    """The old token of a task does not open its next attempt."""
    board.create_task("T", id="a", max_attempts=50)
    secrets = set()
    for _ in range(20):
        claim = claimed(board, "a")
        secrets.add(claim.lease.secret)
        claim.release()
    assert len(secrets) == 20
    assert all(len(secret) >= 16 for secret in secrets)


def test_no_more_than_the_charged_hand_outs_are_lost_to_dead_agents(board, clock):
    """`max_attempts` of them, then the task is paused and says so."""
    board.create_task("T", id="a", max_attempts=3)
    for _ in range(3):
        claimed(board, "a", "dead")
        clock.advance(60)
    board.reclaim_zombies()
    task = board.get_task("a")
    assert (task.state, task.paused, task.fence) == ("pending", True, 3)
    assert board.status().pauses[0].reason == "its lease ran out 3 times, and no attempt failed by itself"
    assert kinds(board).count("lease_reclaimed") == 3


def test_a_clock_that_jumps_ahead_costs_each_live_lease_one_reclaim(board, clock):
    """And the holders that come back late are fenced off."""
    put(board, "a", "b")
    late = [claimed(board, name) for name in ("a", "b")]
    clock.advance(3600)
    assert len(board.reclaim_zombies()) == 2
    clock.advance(-3600)
    assert board.reclaim_zombies() == []
    for claim in late:
        with pytest.raises(LeaseLost):
            claim.complete()
