"""Repeating a call: the same answer, no second effect; another call under the same id is refused."""

import pytest

from agentmesh.errors import AgentMeshError, LeaseLost, Pruned, RequestConflict
from tests.support.boards import claimed, done, event_count, open_board, put, rows, states

HOUR = 3600


def held(board):
    """The lease of task `h`, claimed by the agent that calls."""
    put(board, "h")
    return claimed(board, "h", "me").lease


def no_lease(board):
    """Verbs that need none."""


VERBS = {
    "create_task": (no_lease, lambda board, _, r: board.create_task("T", agent_id="me", request_id=r)),
    "create_tasks": (
        no_lease,
        lambda board, _, r: board.create_tasks([{"title": "A"}, {"title": "B"}], agent_id="me", request_id=r),
    ),
    "update_task": (no_lease, lambda board, _, r: board.update_task("a", priority=3, agent_id="me", request_id=r)),
    "claim_task": (no_lease, lambda board, _, r: board.claim_task("me", request_id=r)),
    "claim_task by id": (no_lease, lambda board, _, r: board.claim_task("me", task_id="b", request_id=r)),
    "complete_task": (held, lambda board, lease, r: board.complete_task(lease, {"n": 1}, request_id=r)),
    "fail_task": (held, lambda board, lease, r: board.fail_task(lease, "x", request_id=r)),
    "release_task": (held, lambda board, lease, r: board.release_task(lease, request_id=r)),
    "split_task": (held, lambda board, lease, r: board.split_task(lease, [{"title": "S"}], request_id=r)),
    "hold_paths": (held, lambda board, lease, r: board.hold_paths(lease, writes=["f"], request_id=r)),
    "note": (held, lambda board, lease, r: board.note(lease, "hello", request_id=r)),
    "cancel_task": (no_lease, lambda board, _, r: board.cancel_task("a", agent_id="me", request_id=r)),
    "cancel_plan": (no_lease, lambda board, _, r: board.cancel_plan("default", agent_id="me", request_id=r)),
    "reopen_task": (no_lease, lambda board, _, r: board.reopen_task("done", agent_id="me", request_id=r)),
    "add_dependency": (no_lease, lambda board, _, r: board.add_dependency("b", "a", agent_id="me", request_id=r)),
    "remove_dependency": (
        no_lease,
        lambda board, _, r: board.remove_dependency("c", "a", agent_id="me", request_id=r),
    ),
    "pause": (no_lease, lambda board, _, r: board.pause(reason="x", agent_id="me", request_id=r)),
    "put": (no_lease, lambda board, _, r: board.blackboard.put("n", "k", [1], agent_id="me", request_id=r)),
    "put with a lease": (held, lambda board, lease, r: board.blackboard.put("n", "k", b"x", lease=lease, request_id=r)),
    "increment": (no_lease, lambda board, _, r: board.blackboard.increment("n", "c", agent_id="me", request_id=r)),
    "append": (no_lease, lambda board, _, r: board.blackboard.append("n", "l", 1, agent_id="me", request_id=r)),
    "record": (no_lease, lambda board, _, r: board.ledger.record("me", output_tokens=1, request_id=r)),
    "record with a lease": (held, lambda board, lease, r: board.ledger.record(lease=lease, cost_usd=1, request_id=r)),
    "set a budget": (no_lease, lambda board, _, r: board.budgets.set(usd=1, agent_id="me", request_id=r)),
    "clear a budget": (
        lambda board: board.budgets.set(usd=1),
        lambda board, _, r: board.budgets.clear(agent_id="me", request_id=r),
    ),
    "set_claim_cap": (no_lease, lambda board, _, r: board.set_claim_cap(3, agent_id="me", request_id=r)),
    "clear_claim_cap": (
        lambda board: board.set_claim_cap(3),
        lambda board, _, r: board.clear_claim_cap(agent_id="me", request_id=r),
    ),
}
OTHER_ARGUMENTS = {
    "create_task": lambda board, _, r: board.create_task("T", priority=1, agent_id="me", request_id=r),
    "create_tasks": lambda board, _, r: board.create_tasks([{"title": "A"}], agent_id="me", request_id=r),
    "update_task": lambda board, _, r: board.update_task("a", priority=4, agent_id="me", request_id=r),
    "claim_task": lambda board, _, r: board.claim_task("me", plan="default", request_id=r),
    "claim_task by id": lambda board, _, r: board.claim_task("me", task_id="a", request_id=r),
    "complete_task": lambda board, lease, r: board.complete_task(lease, {"n": 2}, request_id=r),
    "fail_task": lambda board, lease, r: board.fail_task(lease, "x", retry=False, request_id=r),
    "release_task": lambda board, lease, r: board.release_task(lease, delay_sec=5, request_id=r),
    "split_task": lambda board, lease, r: board.split_task(lease, [{"title": "T"}], request_id=r),
    "hold_paths": lambda board, lease, r: board.hold_paths(lease, reads=["f"], request_id=r),
    "note": lambda board, lease, r: board.note(lease, "bye", request_id=r),
    "cancel_task": lambda board, _, r: board.cancel_task("b", agent_id="me", request_id=r),
    "cancel_plan": lambda board, _, r: board.cancel_plan("default", reason="x", agent_id="me", request_id=r),
    "reopen_task": lambda board, _, r: board.reopen_task("done", cascade=True, agent_id="me", request_id=r),
    "add_dependency": lambda board, _, r: board.add_dependency(
        "b", "a", condition="failed", agent_id="me", request_id=r
    ),
    "remove_dependency": lambda board, _, r: board.remove_dependency("b", "a", agent_id="me", request_id=r),
    "put": lambda board, _, r: board.blackboard.put("n", "k", ["1"], agent_id="me", request_id=r),
    "put with a lease": lambda board, lease, r: board.blackboard.put("n", "k", b"y", lease=lease, request_id=r),
    "increment": lambda board, _, r: board.blackboard.increment("n", "c", 2, agent_id="me", request_id=r),
    "append": lambda board, _, r: board.blackboard.append("n", "l", 1, ttl_sec=9, agent_id="me", request_id=r),
    "pause": lambda board, _, r: board.pause(agent="y", reason="x", agent_id="me", request_id=r),
    "record": lambda board, _, r: board.ledger.record("me", input_tokens=1, request_id=r),
    "record with a lease": lambda board, lease, r: board.ledger.record(lease=lease, cost_usd=2, request_id=r),
    "set a budget": lambda board, _, r: board.budgets.set(usd=1, strict=True, agent_id="me", request_id=r),
    "clear a budget": lambda board, _, r: board.budgets.clear(agent="x", agent_id="me", request_id=r),
    "set_claim_cap": lambda board, _, r: board.set_claim_cap(3, agent="x", agent_id="me", request_id=r),
    "clear_claim_cap": lambda board, _, r: board.clear_claim_cap(agent="x", agent_id="me", request_id=r),
}


@pytest.fixture(params=VERBS)
def verb(request, board):
    """Every verb that takes a request id: its name, the call with an id, a call with other arguments."""
    put(board, "a", "b", "c: a", "done")
    done(board, "done")
    prepare, call = VERBS[request.param]
    lease = prepare(board)
    return (
        request.param,
        lambda request_id, on=board: call(on, lease, request_id),
        lambda request_id, on=board: OTHER_ARGUMENTS[request.param](on, lease, request_id),
    )


def test_a_repeated_call_gives_the_first_answer_and_has_no_second_effect(board, clock, verb):
    """An agent that heard nothing asks again; up to a day later."""
    _, call, _ = verb
    first, events = call("r"), event_count(board)
    for sec in (0, 5, 23 * HOUR):
        clock.advance(sec)
        assert call("r") == first
        assert event_count(board) == events


def test_a_repeated_call_is_known_to_every_process(board, board_path, clock, verb):
    """It is kept on the board, not in memory."""
    _, call, _ = verb
    first, events = call("r"), event_count(board)
    with open_board(board_path, clock, seed=77) as other:
        assert call("r", other) == first
    assert event_count(board) == events


NEEDS_NO_TASK = (
    "cancel_plan",
    "pause",
    "put",
    "increment",
    "append",
    "record",
    "set a budget",
    "clear a budget",
    "set_claim_cap",
    "clear_claim_cap",
)


def test_a_repeated_call_whose_task_was_pruned_says_so(board, verb):
    """What it was about is gone: that is told, unless the answer needs no task; it takes no effect anew."""
    name, call, _ = verb
    first = call("r")
    board.cancel_plan("default")
    board.prune(older_than_sec=0)
    if name in NEEDS_NO_TASK:
        assert call("r") == first
    else:
        with pytest.raises(Pruned):
            call("r")
    assert states(board) == {}


def test_a_request_id_with_other_arguments_is_a_conflict(board, verb):
    """It names the id, and nothing changes."""
    _, call, other_arguments = verb
    call("r")
    events, held_states = event_count(board), states(board)
    with pytest.raises(RequestConflict) as caught:
        other_arguments("r")
    assert (caught.value.code, caught.value.request_id) == ("request_conflict", "r")
    assert (event_count(board), states(board)) == (events, held_states)


def test_a_request_id_of_another_verb_is_a_conflict(board, verb):
    """One id, one call."""
    name, call, _ = verb
    board.create_task("Something else", agent_id="me", request_id="r", tags=["t"])
    with pytest.raises(RequestConflict):
        call("r")
    assert name not in states(board)


def test_the_same_request_id_of_another_agent_is_another_request(board):
    """Each agent counts for itself."""
    one = board.create_task("T", agent_id="me", request_id="r")
    two = board.create_task("T", agent_id="you", request_id="r")
    assert one.id != two.id


def test_a_request_is_forgotten_after_a_day(board, clock):
    """24 hours to the microsecond; then the call is a new one."""
    first = board.create_task("T", request_id="r")
    clock.advance(24 * HOUR - 0.000001)
    assert board.create_task("T", request_id="r").id == first.id
    clock.advance(0.000001)
    second = board.create_task("T", request_id="r")
    assert second.id != first.id
    assert board.create_task("T", request_id="r").id == second.id


def test_old_requests_are_swept_on_the_way(board, clock):
    """Two with each that is kept, once the board has seen that a day has gone."""
    for number in range(15):
        board.create_task("T", request_id=f"old-{number}")
    clock.advance(25 * HOUR)
    left = []
    for number in range(9):
        board.create_task("T", request_id=f"new-{number}")
        left += rows(board, "SELECT COUNT(*) FROM request WHERE request_id LIKE 'old-%'")
    assert [count for (count,) in left] == [15, 13, 11, 9, 7, 5, 3, 1, 0]


def test_one_wrong_instant_forgets_no_request(board, clock):
    """A clock that was a day ahead for one call: what was recorded before is not booked twice."""
    recorded = {"task_id": None, "cost_usd": 1, "request_id": "usage-1"}
    first = board.ledger.record("me", **recorded)
    for number in range(5):
        board.create_task("T", agent_id="me", request_id=f"young-{number}")
    clock.advance(25 * HOUR)
    board.create_task("T", agent_id="me", request_id="ahead")
    clock.advance(-25 * HOUR)
    assert board.ledger.record("me", **recorded).entry == first.entry
    assert board.ledger.report("agent").total.entries == 1
    assert rows(board, "SELECT COUNT(*) FROM request") == [(7,)]


def test_a_clock_that_stays_ahead_forgets_requests_slowly(board, clock):
    """Oldest first, two for each call that comes: of a hundred, ten calls at the wrong time leave most."""
    for number in range(100):
        clock.advance(1)
        board.create_task("T", request_id=f"young-{number}")
    clock.advance(25 * HOUR)
    for number in range(10):
        board.create_task("T", request_id=f"ahead-{number}")
    clock.advance(-25 * HOUR)
    assert rows(board, "SELECT MIN(created_us), COUNT(*) FROM request WHERE request_id LIKE 'young-%'") == [
        (clock.now_us() - 81_000_000, 82)
    ]


REFUSED = {
    "bad argument": lambda board: board.create_task("", agent_id="me", request_id="r"),
    "duplicate": lambda board: board.create_task("T", id="a", agent_id="me", request_id="r"),
    "not found": lambda board: board.cancel_task("nowhere", agent_id="me", request_id="r"),
    "held": lambda board: board.claim_task("me", task_id="h", request_id="r"),
    "wrong state": lambda board: board.reopen_task("a", agent_id="me", request_id="r"),
    "circle": lambda board: board.add_dependency("a", "a", agent_id="me", request_id="r"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_not_kept(board, case):
    """The call may be put right and made again under the same id."""
    put(board, "a", "h")
    claimed(board, "h", "other")
    with pytest.raises(AgentMeshError):
        REFUSED[case](board)
    assert rows(board, "SELECT COUNT(*) FROM request") == [(0,)]
    assert board.create_task("Right", agent_id="me", request_id="r").title == "Right"


def test_nothing_to_do_is_not_kept(board):
    """A claim that got nothing asks again and gets the task that has come meanwhile."""
    assert not board.claim_task("me", request_id="r")
    assert rows(board, "SELECT COUNT(*) FROM request") == [(0,)]
    put(board, "a")
    assert board.claim_task("me", request_id="r").task.id == "a"


def test_a_refused_end_is_not_kept_either(board, clock):
    """The lease was lost; the next attempt may use the same id."""
    put(board, "a")
    old = claimed(board, "a", "me")
    clock.advance(60)
    new = claimed(board, "a", "me")
    with pytest.raises(LeaseLost):
        old.complete(request_id="r")
    assert new.complete(request_id="r").state == "completed"


def test_a_repeated_claim_gives_back_the_lease_as_it_is_now(board, clock):
    """Same fence, same secret, the end of the lease as renewed since."""
    put(board, "a")
    claim = board.claim_task("me", request_id="r")
    clock.advance(30)
    renewed = claim.heartbeat()
    again = board.claim_task("me", request_id="r")
    assert (again.lease, again.lease_expires_us) == (claim.lease, renewed.expires_us)
    assert again.complete().state == "completed"


def test_a_repeated_claim_of_an_attempt_that_is_over_buys_no_write(board, clock):
    """It is the first answer still; the lease says no when it is used."""
    put(board, "a", "b")
    first = board.claim_task("me", request_id="r")
    clock.advance(60)
    claimed(board, "a", "other")
    again = board.claim_task("me", request_id="r")
    assert (again.task.id, again.lease) == ("a", first.lease)
    with pytest.raises(LeaseLost):
        again.complete()


def test_a_repeated_end_needs_the_token_like_the_first(board):
    """A request id is no key."""
    put(board, "a")
    claim = claimed(board, "a", "me")
    claim.complete(request_id="r")
    forged = type(claim.lease)("a", 1, "guess")
    with pytest.raises(LeaseLost):
        board.complete_task(forged, request_id="r")
    assert claim.complete(request_id="r").state == "completed"


def test_a_repeated_note_is_the_first_one(board, clock):
    """Others may have followed, of the same text even."""
    put(board, "a")
    claim = claimed(board, "a", "me")
    first = claim.note("hello", request_id="r")
    clock.advance(1)
    claim.note("again")
    claim.note("hello")
    assert claim.note("hello", request_id="r") == first
    assert len(board.notes("a")) == 3


def test_a_repeated_pause_that_has_ended_pauses_nothing(board):
    """The answer is the first one; hand-outs go on."""
    put(board, "a")
    first = board.pause(reason="x", request_id="r")
    board.resume()
    assert board.pause(reason="x", request_id="r") == first
    assert board.claim_task("x").task.id == "a"


def test_equal_arguments_are_the_same_call_however_they_are_written(board):
    """Order of keys, list or tuple."""
    one = board.create_task("T", tags=["a", "b"], payload={"x": 1, "y": 2}, request_id="r")
    two = board.create_task("T", payload={"y": 2, "x": 1}, tags=("a", "b"), request_id="r")
    assert one == two


def test_capabilities_of_a_claim_are_a_set(board):
    """Their order makes no other call."""
    put(board, "a")
    one = board.claim_task("me", capabilities=["x", "y"], request_id="r")
    assert board.claim_task("me", capabilities=["y", "x", "y"], request_id="r").lease == one.lease
