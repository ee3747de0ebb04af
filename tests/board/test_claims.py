"""The claim: which task an agent gets, what it is told, and what it hears when there is nothing for it."""

import pytest

from agentmesh import Board, Claim, NoClaim
from agentmesh.errors import AlreadyClaimed, NotFound, WrongState
from tests.support.boards import claimed, done, event_count, kinds, put, states


def drain(board, agent_id="worker", **wishes):
    """Claim and complete until nothing is handed out; the ids in their order."""
    order = []
    while claim := board.claim_task(agent_id, **wishes):
        order.append(claim.task.id)
        claim.complete()
    return order


def test_the_most_urgent_task_is_handed_out_first_then_the_oldest(board):
    """Urgency before age, age before anything else."""
    for name, priority in [("low", -1), ("old", 5), ("young", 5), ("top", 9), ("plain", 0)]:
        board.create_task(name, id=name, priority=priority)
    assert drain(board) == ["top", "old", "young", "plain", "low"]


def test_age_is_the_order_of_creation_not_the_clock(board, clock):
    """A clock that is set back makes nothing older."""
    put(board, "first")
    clock.advance(-3600)
    put(board, "second", "third")
    assert drain(board) == ["first", "second", "third"]


def test_tasks_with_and_without_paths_stand_in_one_order(board):
    """How a task is found is nobody's business."""
    for name, priority, writes in [("a", 1, []), ("b", 2, ["b"]), ("c", 3, []), ("d", 2, []), ("e", 1, ["e"])]:
        board.create_task(name, id=name, priority=priority, writes=writes)
    assert drain(board) == ["c", "b", "d", "a", "e"]


def test_a_claim_carries_what_the_agent_needs_to_start(board, clock):
    """The task with its texts, the lease, the results of what it waited for."""
    put(board, "a", "b")
    done(board, "a", {"rows": 12})
    claimed(board, "b").fail("broken", retry=False)
    board.create_task("Join", id="c", depends_on=["a", "b:finished"], description="Do it", payload=[1])
    claim = board.claim_task("coder")
    assert isinstance(claim, Claim)
    assert (claim.task.id, claim.task.state, claim.task.holder, claim.task.fence) == ("c", "in_progress", "coder", 1)
    assert (claim.task.description, claim.task.payload) == ("Do it", [1])
    assert claim.lease_expires_us == claim.lease.expires_us == clock.now_us() + 60_000_000
    assert [(found.id, found.state, found.result) for found in claim.dependencies] == [
        ("a", "completed", {"rows": 12}),
        ("b", "failed", None),
    ]


def test_results_that_do_not_fit_are_left_out_and_said_to_be(board):
    """32 KiB travel with a claim; a small one behind a large one still fits."""
    for name, size in [("a", 20_000), ("b", 20_000), ("c", 5)]:
        put(board, name)
        done(board, name, "x" * size)
    put(board, "join: a b c")
    found = board.claim_task("coder").dependencies
    assert [(one.id, one.truncated, one.result is None) for one in found] == [
        ("a", False, False),
        ("b", True, True),
        ("c", False, False),
    ]
    assert len(board.get_task("b").result) == 20_000


def test_results_are_measured_in_bytes(board):
    """Twenty thousand letters of two bytes each are more than 32 KiB."""
    put(board, "a")
    done(board, "a", "\u00e9" * 20_000)
    put(board, "b: a")
    assert board.claim_task("x").dependencies[0].truncated


def test_a_result_of_json_null_is_no_result_and_false_is_one(board):
    """What is empty stays what it is."""
    for name, result in [("a", None), ("b", False), ("c", ""), ("d", 0)]:
        put(board, name)
        done(board, name, result)
    put(board, "join: a b c d")
    assert [one.result for one in board.claim_task("x").dependencies] == [None, False, "", 0]


def test_an_agent_gets_only_tasks_that_it_can_do(board):
    """All that a task requires, whatever else the agent can."""
    board.create_task("Both", id="both", requires=["gpu", "sql"], priority=9)
    board.create_task("One", id="one", requires=["gpu"], priority=5)
    board.create_task("None", id="none")
    assert board.claim_task("a").task.id == "none"
    assert board.claim_task("b", capabilities=["gpu", "cooking"]).task.id == "one"
    assert board.claim_task("c", capabilities=["gpu"]).reason == "capability"
    assert board.claim_task("d", capabilities=["sql", "gpu"]).task.id == "both"


def test_capabilities_are_whole_names(board):
    """`gpu` is not a part of `gpu2`."""
    board.create_task("T", requires=["gpu"])
    assert not board.claim_task("a", capabilities=["gpu2", "gp", "GPU"])


def test_capability_sets_that_appear_later_are_known_to_every_board_object(board, board_path, clock):
    """Each keeps the sets in memory and looks for new ones."""
    with Board.open(board_path, clock=clock) as other:
        assert not other.claim_task("a", capabilities=["gpu"])
        board.create_task("T", id="a", requires=["gpu"])
        assert other.has_work(capabilities=["gpu"])
        assert other.claim_task("a", capabilities=["gpu"]).task.id == "a"


def test_a_set_that_was_never_committed_is_not_remembered(board):
    """A refused call leaves nothing behind in memory either."""
    with pytest.raises(NotFound):
        board.create_task("T", requires=["never"], depends_on=["nowhere"])
    board.create_task("T", id="a", requires=["other"])
    assert not board.claim_task("x", capabilities=["never"])
    assert board.claim_task("x", capabilities=["other"]).task.id == "a"


def test_a_wish_for_tags_is_a_wish_for_all_of_them(board):
    """In the order of urgency, then age."""
    for name, tags, priority in [("a", ["db"], 0), ("b", ["db", "ui"], 0), ("c", ["db", "ui"], 3), ("d", [], 9)]:
        board.create_task(name, id=name, tags=tags, priority=priority)
    assert drain(board, tags=["ui", "db"]) == ["c", "b"]
    assert drain(board, tags=["db"]) == ["a"]
    assert board.claim_task("x", tags=["db"]).reason == "tags"


def test_tagged_tasks_are_found_behind_many_that_do_not_suit(board):
    """More than one page of tasks of the first tag is looked through."""
    board.create_tasks([{"title": "other", "tags": ["a"]} for _ in range(120)])
    board.create_task("Both", id="both", tags=["a", "z"])
    assert board.claim_task("x", tags=["z", "a"]).task.id == "both"


def test_a_tagged_claim_minds_capability_plan_and_paths(board):
    """Tags are one wish more, not another way in."""
    board.create_task("Holder", id="holder", writes=["f"])
    claimed(board, "holder")
    for name, fields in {
        "gpu": {"requires": ["gpu"]},
        "plan": {"plan": "other"},
        "path": {"writes": ["f"]},
        "free": {"writes": ["g"]},
    }.items():
        board.create_task(name, id=name, tags=["t"], **fields)
    assert drain(board, tags=["t"], plan="default") == ["free"]
    assert drain(board, tags=["t"], plan="other") == ["plan"]
    assert drain(board, tags=["t"], capabilities=["gpu"]) == ["gpu"]


def test_a_claim_may_be_for_one_plan(board):
    """However urgent the others are."""
    board.create_task("A", id="a", plan="one", priority=9)
    board.create_task("B", id="b", plan="two")
    assert drain(board, plan="two") == ["b"]
    assert states(board)["a"] == "pending"


def test_a_named_task_is_handed_out_whatever_is_more_urgent(board):
    """By its id."""
    put(board, "a", "b")
    board.create_task("Top", priority=9)
    assert board.claim_task("x", task_id="b").task.id == "b"


def test_a_named_task_that_is_held_names_its_holder(board, clock):
    """And when its lease ends; nothing changes."""
    put(board, "a")
    claimed(board, "a", "ada")
    before = event_count(board)
    with pytest.raises(AlreadyClaimed) as caught:
        board.claim_task("bob", task_id="a")
    assert (caught.value.holder, caught.value.task_id) == ("ada", "a")
    assert caught.value.lease_expires_us == clock.now_us() + 60_000_000
    assert event_count(board) == before


def test_a_name_is_no_key_to_ones_own_task(board):
    """Agent ids are often model names: another session of the same name does not get the task either."""
    put(board, "a")
    claimed(board, "a", "gpt")
    with pytest.raises(AlreadyClaimed):
        board.claim_task("gpt", task_id="a")


def test_a_named_task_whose_lease_is_due_is_taken_back_and_handed_out(board, clock):
    """In one transaction; no monitor has to run."""
    put(board, "a")
    claimed(board, "a", "ada")
    clock.advance(60)
    claim = board.claim_task("bob", task_id="a")
    assert (claim.lease.fence, claim.task.holder) == (2, "bob")
    assert kinds(board)[-2:] == ["lease_reclaimed", "task_claimed"]


def test_a_named_task_whose_time_has_come_is_handed_out(board, clock):
    """Although nobody has looked at the schedule since."""
    board.create_task("T", id="a", not_before="2026-01-01T00:01:00Z")
    clock.advance(60)
    assert board.claim_task("x", task_id="a").task.id == "a"


@pytest.mark.parametrize(
    ("case", "reason", "advice"),
    [
        ("blocked", "blocked", "wait"),
        ("scheduled", "scheduled", "wait"),
        ("completed", "final", "stop"),
        ("capability", "capability", "blocked_by"),
        ("path", "paths_held", "wait"),
        ("board paused", "paused", "wait"),
        ("plan paused", "paused", "wait"),
        ("agent paused", "paused", "wait"),
    ],
)
def test_a_named_task_that_is_not_to_be_had_says_why(board, case, reason, advice):
    """One reason and one piece of advice for each."""
    put(board, "p")
    task = board.create_task(
        "T",
        id="a",
        depends_on=["p"] if case == "blocked" else [],
        not_before="2026-01-02T00:00:00Z" if case == "scheduled" else None,
        requires=["gpu"] if case == "capability" else [],
        writes=["f"] if case == "path" else [],
    )
    if case == "completed":
        done(board, "a")
    if case == "path":
        claimed(board, "p").hold_paths(writes=["**"])
    if case.endswith("paused"):
        scope = case.split()[0]
        board.pause(**{"board": {}, "plan": {"plan": "default"}, "agent": {"agent": "x"}}[scope])
    answer = board.claim_task("x", task_id=task.id)
    assert isinstance(answer, NoClaim)
    assert (bool(answer), answer.reason, answer.advice) == (False, reason, advice)
    assert answer.retry_at_us == (task.not_before_us if case == "scheduled" else None)


def test_a_named_task_of_another_plan_is_a_mistake(board):
    """Not a reason to wait."""
    put(board, "a")
    with pytest.raises(WrongState):
        board.claim_task("x", task_id="a", plan="other")


def test_a_named_task_that_is_not_there_is_not_found(board):
    """Not "nothing to do"."""
    with pytest.raises(NotFound):
        board.claim_task("x", task_id="nowhere")


def hold_its_path(board):
    """Another agent holds what the only ready task needs."""
    claimed(board, "a", "other").hold_paths(writes=["f/**"])
    board.create_task("B", id="b", writes=["f/g"])


NOTHING_FOR_X = {
    "done": lambda board: done(board, "a"),
    "in_progress": lambda board: claimed(board, "a", "other"),
    "scheduled": lambda board: board.update_task("a", not_before="2026-01-01T00:10:00Z"),
    "paths_held": hold_its_path,
    "board paused": lambda board: board.pause(),
    "plan paused": lambda board: board.pause(plan="default"),
    "agent paused": lambda board: board.pause(agent="x"),
    "capability": lambda board: board.update_task("a", requires=["gpu"]),
    "released": lambda board: claimed(board, "a", "x").release(),
    "blocked": lambda board: board.create_task("B", id="b", plan="mine", depends_on=["a"]),
}


@pytest.mark.parametrize(
    ("case", "advice"),
    [
        ("done", "stop"),
        ("in_progress", "wait"),
        ("scheduled", "wait"),
        ("paths_held", "wait"),
        ("board paused", "wait"),
        ("plan paused", "wait"),
        ("agent paused", "wait"),
        ("capability", "blocked_by"),
        ("released", "wait"),
        ("blocked", "wait"),
    ],
)
def test_a_claim_that_gets_nothing_hears_why_and_what_to_do(board, case, advice):
    """Wait, stop, or blocked by what it lacks; a sentence goes with it."""
    put(board, "a")
    NOTHING_FOR_X[case](board)
    before = event_count(board)
    answer = board.claim_task("x", plan="mine" if case == "blocked" else None)
    assert (answer.reason, answer.advice) == (case.split()[-1], advice)
    assert answer.message.endswith(".")
    assert event_count(board) == before


def test_an_empty_board_says_so(board):
    """There is nothing to wait for."""
    answer = board.claim_task("x")
    assert (answer.reason, answer.advice) == ("empty", "stop")


def test_a_wish_for_tags_that_no_ready_task_has_is_the_reason(board):
    """Another wish could be met."""
    put(board, "a")
    assert board.claim_task("x", tags=["t"]).reason == "tags"


def test_the_next_due_time_comes_with_the_advice_to_wait(board, clock):
    """The first lease to end or the first time to come."""
    put(board, "a", "b: a")
    claimed(board, "a")
    board.create_task("T", not_before="2026-01-01T00:00:30Z")
    assert board.claim_task("x").retry_at_us == clock.now_us() + 30_000_000
    board.create_task("U", lease_timeout_sec=10, id="u")
    claimed(board, "u")
    assert board.claim_task("x").retry_at_us == clock.now_us() + 10_000_000


def test_advice_to_stop_comes_without_a_time(board):
    """Nothing is to be waited for."""
    put(board, "a")
    done(board, "a")
    assert board.claim_task("x").retry_at_us is None


def test_a_claim_heals_the_board_on_its_way(board, clock):
    """Due leases are taken back, due times come, in the transaction of the claim."""
    put(board, "a", "b")
    board.create_task("T", id="later", not_before="2026-01-01T00:00:10Z")
    claimed(board, "a", "ada")
    claimed(board, "b", "bob")
    clock.advance(61)
    assert board.claim_task("x").task.id == "a"
    assert states(board) == {"a": "in_progress", "b": "pending", "later": "pending"}
    assert sorted(kinds(board)[-4:]) == ["lease_reclaimed", "lease_reclaimed", "task_claimed", "task_due"]


def test_more_than_a_batch_of_due_leases_is_healed_before_nothing_is_said(board, clock):
    """Sixty dead agents, and the only task for this one is behind the last of them."""
    names = [f"t{n}" for n in range(60)]
    put(board, *names, requires=["gpu"])
    board.create_task("Mine", id="mine")
    for name in names:
        claimed(board, name, capabilities=["gpu"])
    clock.advance(1)
    claimed(board, "mine")
    clock.advance(60)
    assert board.claim_task("x").task.id == "mine"


def test_more_than_a_batch_of_due_times_comes_before_nothing_is_said(board, clock):
    """The last of 120 scheduled tasks is the only one that this agent can do."""
    board.create_tasks([{"title": "T", "not_before": "2026-01-01T00:00:10Z", "requires": ["gpu"]} for _ in range(119)])
    board.create_task("Mine", id="mine", not_before="2026-01-01T00:00:11Z")
    clock.advance(20)
    assert board.claim_task("x").task.id == "mine"


def test_a_lease_that_is_due_frees_its_task_although_another_plan_is_paused(board, clock):
    """A pause elsewhere hides nothing: what a claim has just taken back, it can hand out."""
    put(board, "p", plan="paused")
    put(board, "a", plan="going")
    board.pause(plan="paused")
    claimed(board, "a", "dead")
    clock.advance(60)
    assert board.has_work()
    assert board.claim_task("x").task.id == "a"


def test_a_time_that_has_come_counts_although_another_plan_is_paused(board, clock):
    """The same for a task that was scheduled."""
    put(board, "p", plan="paused")
    board.create_task("T", id="a", plan="going", not_before="2026-01-01T00:01:00Z")
    board.pause(plan="paused")
    clock.advance(60)
    assert board.claim_task("x").task.id == "a"


def test_the_reason_is_that_of_the_board_after_healing(board, clock):
    """The last attempt has just been taken back and has failed its task: there is nothing to wait for."""
    board.create_task("T", id="a", max_attempts=2)
    claimed(board, "a").fail("boom")
    clock.advance(2)
    claimed(board, "a", "dead")
    clock.advance(60)
    answer = board.claim_task("x")
    assert (answer.reason, answer.advice) == ("done", "stop")


@pytest.mark.parametrize("wishes", [{}, {"plan": "default"}, {"tags": ["t"]}, {"capabilities": ["gpu"]}])
def test_has_work_says_what_a_claim_would_do(board, clock, wishes):
    """Without doing it: no event, no attempt."""
    assert not board.has_work(**wishes)
    board.create_task("T", id="a", tags=["t"], requires=wishes.get("capabilities", []))
    assert board.has_work(**wishes)
    claim = board.claim_task("x", **wishes)
    assert not board.has_work(**wishes)
    clock.advance(60)
    before = event_count(board)
    assert board.has_work(**wishes)
    assert event_count(board) == before
    claim.complete()
    assert not board.has_work(**wishes)


def test_has_work_does_not_promise_what_an_agent_has_just_released(board, clock):
    """The task comes due, and this agent is still not offered it."""
    put(board, "a")
    claimed(board, "a", "x").release(delay_sec=5)
    clock.advance(5)
    assert not board.has_work(agent_id="x")
    assert not board.claim_task("x")
    assert board.has_work(agent_id="y")


def test_has_work_sees_a_dead_agents_task_with_paths(board, clock):
    """Its own hold is not in its way."""
    put(board, "a", writes=["f"])
    claimed(board, "a", "dead")
    clock.advance(60)
    assert board.has_work()
    assert board.claim_task("x").task.id == "a"


def test_has_work_sees_what_a_dead_agents_paths_keep_back(board, clock):
    """This agent cannot do the dead one's task, but it can do the one behind it."""
    put(board, "a", writes=["f"], requires=["gpu"])
    put(board, "b", writes=["f"])
    claimed(board, "a", "dead", capabilities=["gpu"])
    assert not board.has_work()
    assert not board.claim_task("x")
    clock.advance(60)
    assert board.has_work()
    assert board.claim_task("x").task.id == "b"


def test_has_work_sees_what_a_claim_would_set_free(board, clock):
    """The dead agent's attempt was its task's last; the failed task lets its `failed` child go."""
    board.create_task("T", id="a", max_attempts=2)
    put(board, "b: a:failed")
    claimed(board, "a").fail("boom")
    clock.advance(2)
    claimed(board, "a", "dead")
    clock.advance(60)
    assert board.has_work()
    assert board.claim_task("x").task.id == "b"


def test_has_work_sees_that_a_reclaim_will_pause_its_task(board, clock):
    """No attempt has failed by itself, so neither the task nor its child is there for a claim."""
    board.create_task("T", id="a", max_attempts=1)
    put(board, "b: a:failed")
    claimed(board, "a", "dead")
    clock.advance(60)
    assert not board.has_work()
    assert board.claim_task("x").reason == "paused"


def test_has_work_counts_on_a_claim_where_more_is_in_the_way_than_it_looks_at(board):
    """Three hundred pools are blocked and not yet parked: whoever claims finds out, and then it is known."""
    put(board, "holder", writes=["src/**"])
    board.create_tasks([{"title": "T", "writes": [f"src/{n}"]} for n in range(300)])
    claimed(board, "holder")
    assert board.has_work()
    assert board.claim_task("x").reason == "paths_held"
    assert not board.has_work()


def test_no_attempt_is_charged_for_nothing(board):
    """A claim that gets nothing leaves fences and charges as they were."""
    put(board, "a")
    claimed(board, "a")
    for _ in range(5):
        assert not board.claim_task("y")
    assert (board.get_task("a").fence, board.get_task("a").charged) == (1, 1)


def test_fences_only_grow(board, clock):
    """Each hand-out has the next number, however the one before it ended."""
    board.create_task("T", id="a", max_attempts=100)
    fences = []
    for end in ("release", "reclaim", "fail", "infra", "release"):
        claim = claimed(board, "a")
        fences.append(claim.lease.fence)
        if end == "release":
            claim.release()
        elif end in ("fail", "infra"):
            claim.fail("x", kind="infra" if end == "infra" else "task")
        clock.advance(700)
    assert fences == [1, 2, 3, 4, 5]
    assert [attempt.fence for attempt in board.attempts("a")] == fences


def test_an_empty_answer_names_what_the_agent_itself_holds(board):
    """Its answer may have been lost: it would wait for itself, and not know."""
    put(board, "a", "b", "c: a")
    claimed(board, "b", "ada")
    claimed(board, "a", "ada")
    assert sorted(board.claim_task("ada").holds) == ["a", "b"]
    assert sorted(board.claim_task("ada", task_id="c").holds) == ["a", "b"]
    assert board.claim_task("bob").holds == ()
