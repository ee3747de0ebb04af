"""Claim caps: how many tasks an agent may hold at once, and what gives a place back."""

import pytest

from agentmesh.errors import InvalidArgument, NotFound, RequestConflict
from agentmesh.model import ClaimCap
from tests.support.boards import claimed, event_count, kinds, open_board, put, states
from tests.support.ends import ENDS


@pytest.fixture
def crowded(board):
    """A board with more than enough for everybody."""
    put(board, *[f"t{number}" for number in range(9)], max_attempts=9)
    return board


def held(board, agent_id):
    """How many tasks an agent gets before it is told to end one first; each refusal is one by the cap."""
    got = 0
    while claim := board.claim_task(agent_id):
        got += 1
    assert (claim.reason, claim.advice) == ("claim_cap", "blocked_by")
    return got


def test_an_agent_gets_no_more_than_its_cap(crowded):
    """The refusal says how many it holds and may hold, and changes nothing."""
    crowded.set_claim_cap(2, agent="ann")
    assert held(crowded, "ann") == 2
    before = event_count(crowded)
    refused = crowded.claim_task("ann")
    assert refused.message == "ann holds 2 tasks, and may hold 2: end one first."
    assert event_count(crowded) == before
    assert crowded.claim_task("bob")


def test_a_cap_of_ones_own_wins_over_that_of_everybody(crowded):
    """Whether it is smaller or larger; who has none of its own falls under the general one."""
    crowded.set_claim_cap(2)
    crowded.set_claim_cap(1, agent="ann")
    crowded.set_claim_cap(3, agent="bob")
    assert [held(crowded, agent) for agent in ("ann", "bob", "cyd")] == [1, 3, 2]
    assert crowded.clear_claim_cap(agent="ann")
    assert held(crowded, "ann") == 1
    assert crowded.clear_claim_cap()
    assert crowded.claim_task("ann")
    assert not crowded.clear_claim_cap()


def test_a14_whoever_asks_again_and_again_sits_on_no_more_than_its_cap(crowded):
    """pgqueuer#173: a worker grabbed a batch beyond its limit. By rank, tag, name, plan, or the same request."""
    crowded.set_claim_cap(1)
    assert crowded.claim_task("ann", request_id="r")
    assert crowded.claim_task("ann", request_id="r")
    crowded.update_task("t5", tags=["x"])
    for wish in ({}, {"task_id": "t5"}, {"tags": ["x"]}, {"plan": "default"}, {"request_id": "s"}):
        assert crowded.claim_task("ann", **wish).reason == "claim_cap"
    assert list(states(crowded).values()).count("in_progress") == 1


def test_a13_a_dead_agents_task_does_not_count_against_it(crowded, clock):
    """pgqueuer#475: it did, so nothing could take it back. From the end of its lease on the place is free."""
    crowded.set_claim_cap(1)
    claimed(crowded, "t0", "ann")
    clock.advance(59)
    assert crowded.claim_task("ann").reason == "claim_cap"
    clock.advance(1)
    assert crowded.has_work(agent_id="ann")
    assert crowded.claim_task("ann").task.id == "t0"


@pytest.mark.parametrize("task_id", ["t0", "t5"])
def test_a13_the_last_place_of_the_dead_is_free_for_a_named_task(crowded, clock, task_id):
    """The one that it held, or another."""
    crowded.set_claim_cap(1)
    claimed(crowded, "t0", "ann")
    clock.advance(60)
    assert claimed(crowded, task_id, "ann")


@pytest.mark.parametrize("how", ENDS)
def test_a28_every_end_gives_the_place_back(crowded, how):
    """prefect#17415, #9895, #15952, luigi#1548: slots leaked after a crash, a cancel, an aborted submit."""
    crowded.set_claim_cap(1)
    put(crowded, "elsewhere", plan="elsewhere")
    claim = claimed(crowded, "t0", "ann")
    assert crowded.claim_task("ann").reason == "claim_cap"
    ENDS[how](crowded, claim)
    assert claimed(crowded, "elsewhere", "ann")
    assert crowded.claim_task("ann").reason == "claim_cap"


def test_a28_a_place_does_not_leak_over_a_hundred_rounds(crowded, clock):
    """Every end in turn, each time from the last place."""
    crowded.set_claim_cap(1)
    for number, how in enumerate(list(ENDS) * 10):
        crowded.create_task("T", id=f"round-{number}", priority=9, plan=f"p{number}")
        ENDS[how](crowded, claimed(crowded, f"round-{number}", "ann"))
        clock.advance(1)
    assert crowded.claim_task("ann")
    assert crowded.claim_task("ann").reason == "claim_cap"


def test_a_lease_that_is_renewed_late_counts_again(crowded, clock):
    """A holder whose lease is due is still the holder; nobody has taken its task."""
    crowded.set_claim_cap(1)
    claim = claimed(crowded, "t0", "ann")
    clock.advance(61)
    claim.heartbeat()
    assert crowded.claim_task("ann").reason == "claim_cap"


def test_ones_own_attempt_is_resumed_at_the_cap(crowded, clock):
    """It is held already; only a further one is refused."""
    crowded.set_claim_cap(1)
    claimed(crowded, "t0", "ann")
    assert crowded.claim_task("ann", resume=True).resumed
    clock.advance(30)
    assert crowded.claim_task("ann", resume=True, take_over=True, task_id="t0").resumed
    assert crowded.claim_task("ann").reason == "claim_cap"


def test_a_cap_below_what_is_held_takes_nothing_away(crowded):
    """It lets nothing more out until enough has ended."""
    claims = [crowded.claim_task("ann") for _ in range(3)]
    crowded.set_claim_cap(1, agent="ann")
    for claim in claims:
        assert crowded.claim_task("ann").reason == "claim_cap"
        claim.heartbeat()
        claim.complete()
    assert crowded.claim_task("ann")


def test_a_cap_is_told_when_no_agent_is_named_too(crowded, clock):
    """`explain` for the agent at its cap; anybody else may claim. The answer says when a lease runs out."""
    crowded.set_claim_cap(1)
    claimed(crowded, "t0", "ann")
    assert {cause.kind for cause in crowded.explain(agent_id="ann").causes} == {"claim_cap", "in_progress"}
    assert {cause.kind for cause in crowded.explain().causes} == {"ready", "in_progress"}
    assert crowded.claim_task("ann").retry_at_us == clock.now_us() + 60_000_000


def test_caps_are_listed_that_of_everybody_first(crowded):
    """Set again, a cap is replaced."""
    crowded.set_claim_cap(5, agent="ann")
    crowded.set_claim_cap(2)
    assert crowded.set_claim_cap(3, agent="ann") == ClaimCap("ann", 3)
    assert crowded.claim_caps() == [ClaimCap(None, 2), ClaimCap("ann", 3)]


def test_caps_outlive_the_board_object(board_path, clock):
    """They stand in the file."""
    with open_board(board_path, clock) as board:
        put(board, "a", "b")
        board.set_claim_cap(1)
        claimed(board, "a", "ann")
    with open_board(board_path, clock) as board:
        assert board.claim_task("ann").reason == "claim_cap"


def test_setting_and_clearing_are_told_in_the_history(board):
    """Once for a call that is repeated; clearing nothing is nothing."""
    for _ in range(2):
        board.set_claim_cap(4, agent="ann", agent_id="boss", request_id="s")
    for _ in range(2):
        assert board.clear_claim_cap(agent="ann", agent_id="boss", request_id="c")
    assert not board.clear_claim_cap(agent="ann")
    was_set, was_cleared = board.events(0)
    assert (was_set.kind, was_set.agent_id, was_set.data) == ("claim_cap_set", "boss", {"name": "ann", "most": 4})
    assert (was_cleared.kind, was_cleared.data) == ("claim_cap_cleared", {"name": "ann"})
    with pytest.raises(RequestConflict):
        board.set_claim_cap(5, agent="ann", agent_id="boss", request_id="s")


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("most", lambda board: board.set_claim_cap(0)),
        ("most", lambda board: board.set_claim_cap(1001)),
        ("most", lambda board: board.set_claim_cap("2")),
        ("most", lambda board: board.set_claim_cap(True)),
        ("agent", lambda board: board.set_claim_cap(1, agent="")),
        ("agent", lambda board: board.clear_claim_cap(agent="a b")),
        ("agent_id", lambda board: board.set_claim_cap(1, agent_id="")),
    ],
)
def test_an_argument_out_of_its_limits_is_named(board, field, call):
    """And no cap is set."""
    with pytest.raises(InvalidArgument) as caught:
        call(board)
    assert caught.value.field == field
    assert (board.claim_caps(), kinds(board)) == ([], [])


def test_a_task_that_is_not_there_is_not_found_at_the_cap_either(crowded):
    """The cap hides no typing error."""
    crowded.set_claim_cap(1)
    claimed(crowded, "t0", "ann")
    with pytest.raises(NotFound):
        crowded.claim_task("ann", task_id="nope")
