"""Resume: the way back to one's own attempt, and why a name alone is not enough."""

import pytest

from agentmesh.board.verbs import holding
from agentmesh.errors import AlreadyClaimed, LeaseLost
from tests.support.boards import claimed, done, event_count, kinds, open_board, put, states


@pytest.fixture
def other(board_path, clock):
    """Another session: a board object of its own on the same file."""
    with open_board(board_path, clock, seed=99) as other:
        yield other


def test_a_claim_never_resumes_by_itself(board):
    """Agent ids are often model names: the second session gets another task, or none."""
    put(board, "a", "b")
    assert board.claim_task("gpt").task.id == "a"
    assert board.claim_task("gpt").task.id == "b"
    assert not board.claim_task("gpt")


def test_resume_gives_ones_own_attempt_back_with_the_same_fence_and_a_new_secret(board):
    """The session that claimed it may do so at any time; the old token is worthless then."""
    put(board, "a")
    old = board.claim_task("gpt")
    new = board.claim_task("gpt", resume=True)
    assert (new.task.id, new.lease.fence, new.resumed) == ("a", 1, True)
    assert new.lease.secret != old.lease.secret
    assert [attempt.fence for attempt in board.attempts("a")] == [1]
    with pytest.raises(LeaseLost):
        old.complete()
    assert new.complete().state == "completed"


def test_resume_renews_the_lease(board, clock):
    """As a heartbeat would."""
    put(board, "a")
    board.claim_task("gpt")
    clock.advance(50)
    assert board.claim_task("gpt", resume=True).lease_expires_us == clock.now_us() + 60_000_000
    assert board.attempts("a")[0].heartbeat_us == clock.now_us()


def test_resume_carries_what_a_claim_carries(board):
    """Texts and results of dependencies, for a session that has forgotten them."""
    put(board, "p")
    done(board, "p", {"n": 1})
    board.create_task("T", id="a", depends_on=["p"], description="Do it", payload=[1])
    board.claim_task("gpt")
    claim = board.claim_task("gpt", resume=True)
    assert (claim.task.description, claim.task.payload) == ("Do it", [1])
    assert [(found.id, found.result) for found in claim.dependencies] == [("p", {"n": 1})]


def test_resume_with_nothing_to_resume_claims(board):
    """A restarted agent need not know whether it held something."""
    put(board, "a")
    claim = board.claim_task("gpt", resume=True)
    assert (claim.task.id, claim.resumed) == ("a", False)


def test_another_session_does_not_resume_a_live_attempt(board, other):
    """It would fence the one that works; the answer names the holder and the end of its lease."""
    put(board, "a", "b")
    claim = board.claim_task("gpt")
    before = event_count(board)
    with pytest.raises(AlreadyClaimed) as caught:
        other.claim_task("gpt", resume=True)
    assert (caught.value.task_id, caught.value.holder) == ("a", "gpt")
    assert caught.value.lease_expires_us == claim.lease_expires_us
    assert event_count(board) == before
    assert claim.complete().state == "completed"


def test_another_session_resumes_once_the_lease_is_due(board, other, clock):
    """Before anybody has taken it back: same fence, same attempt."""
    put(board, "a")
    old = board.claim_task("gpt")
    clock.advance(60)
    new = other.claim_task("gpt", resume=True)
    assert (new.lease.fence, new.resumed) == (1, True)
    assert "lease_reclaimed" not in kinds(board)
    with pytest.raises(LeaseLost):
        old.heartbeat()


def test_another_session_may_take_over(board, other):
    """Told to, it does; the first one is fenced off from that moment."""
    put(board, "a")
    old = board.claim_task("gpt")
    new = other.claim_task("gpt", resume=True, take_over=True)
    assert new.lease.fence == 1
    with pytest.raises(LeaseLost):
        old.complete()
    assert states(board) == {"a": "in_progress"}


def test_a_session_knows_the_last_few_thousand_of_its_leases(board, monkeypatch):
    """The oldest are forgotten first; one that was resumed is young again."""
    monkeypatch.setattr(holding, "REMEMBERED", 2)
    put(board, "a", "b", "c")
    claimed(board, "a", "gpt")
    claimed(board, "b", "gpt")
    assert board.claim_task("gpt", task_id="a", resume=True).resumed
    claimed(board, "c", "gpt")
    assert board.claim_task("gpt", task_id="a", resume=True).resumed
    with pytest.raises(AlreadyClaimed):
        board.claim_task("gpt", task_id="b", resume=True)


def test_to_take_over_is_to_resume(board, other):
    """`take_over` says it all."""
    put(board, "a")
    board.claim_task("gpt")
    assert other.claim_task("gpt", take_over=True).resumed


def test_nobody_takes_over_from_another_agent(board, other):
    """Not by name of the task, not by wishing."""
    put(board, "a")
    board.claim_task("ada")
    with pytest.raises(AlreadyClaimed) as caught:
        other.claim_task("bob", task_id="a", resume=True, take_over=True)
    assert caught.value.holder == "ada"
    assert not other.claim_task("bob", resume=True, take_over=True)


def test_resume_may_name_the_task(board):
    """Or takes the oldest."""
    put(board, "a", "b", "c")
    for _ in range(3):
        board.claim_task("gpt")
    assert board.claim_task("gpt", task_id="b", resume=True).task.id == "b"
    assert board.claim_task("gpt", resume=True).task.id == "a"


def test_resume_of_a_named_task_that_is_free_claims_it(board):
    """Whatever else the agent holds."""
    put(board, "a", "b")
    claimed(board, "a", "gpt")
    claim = board.claim_task("gpt", task_id="b", resume=True)
    assert (claim.task.id, claim.resumed) == ("b", False)


def test_resume_keeps_to_the_plan_that_was_asked_for(board):
    """An attempt in another plan is not what is wanted."""
    put(board, "a", plan="one")
    put(board, "b", plan="two")
    claimed(board, "a", "gpt")
    assert board.claim_task("gpt", plan="two", resume=True).task.id == "b"
    assert board.claim_task("gpt", plan="one", resume=True).task.id == "a"


def test_resume_looks_past_what_another_live_session_holds(board, other, clock):
    """Its own attempt, which is due, is behind an older one of a session that is alive."""
    put(board, "a", "b")
    claimed(other, "a", "gpt")
    claimed(board, "b", "gpt")
    assert board.claim_task("gpt", resume=True).task.id == "b"
    clock.advance(59)
    assert other.claim_task("gpt", resume=True).task.id == "a"


def test_an_attempt_that_was_taken_back_is_not_resumed(board, clock):
    """It is over; the task is handed out anew, with the next fence."""
    put(board, "a")
    board.claim_task("gpt")
    clock.advance(60)
    board.reclaim_zombies()
    claim = board.claim_task("gpt", resume=True)
    assert (claim.lease.fence, claim.resumed) == (2, False)


def test_resume_never_outlasts_the_longest_hold(board, clock):
    """`max_hold_sec` counts from the hand-out, whoever resumes."""
    board.create_task("T", id="a", lease_timeout_sec=60, max_hold_sec=100)
    start = clock.now_us()
    board.claim_task("gpt")
    clock.advance(55)
    assert board.claim_task("gpt", resume=True).lease_expires_us == start + 100_000_000


def test_a_resume_is_an_event_without_the_secret(board):
    """The history says that the attempt changed hands."""
    put(board, "a")
    board.claim_task("gpt")
    claim = board.claim_task("gpt", resume=True)
    event = board.events()[-1]
    assert (event.kind, event.task_id, event.fence, event.agent_id) == ("task_resumed", "a", 1, "gpt")
    assert claim.lease.secret not in str(event)


def test_the_name_of_an_agent_authorises_no_write(board, other):
    """A token of the right form for the right attempt is still not its token."""
    put(board, "a")
    claim = board.claim_task("gpt")
    forged = type(claim.lease)("a", 1, "0" * len(claim.lease.secret))
    for verb in ("heartbeat", "complete_task", "release_task"):
        with pytest.raises(LeaseLost):
            getattr(other, verb)(forged)
    assert board.get_task("a").state == "in_progress"
