"""The ends of an attempt: complete, fail, release, split; what each costs, and what it leaves behind."""

import pytest

from agentmesh.errors import CycleRefused, InvalidArgument, NotFound, WrongState
from agentmesh.rules import CEILINGS, SPLIT_REFUNDS
from tests.support.boards import Loaded, claimed, done, kinds, open_board, put, states


def test_completing_ends_the_task_and_keeps_the_result(board, clock):
    """As it was given: type and content."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(5)
    task = claim.complete({"tables": 12, "note": "<b>", "none": None})
    assert (task.state, task.holder, task.lease_expires_us, task.ended_us) == ("completed", None, None, clock.now_us())
    assert board.get_task("a").result == {"tables": 12, "note": "<b>", "none": None}
    (attempt,) = board.attempts("a")
    assert (attempt.outcome, attempt.charged, attempt.ended_us) == ("completed", True, clock.now_us())


@pytest.mark.parametrize("result", [0, False, "", [], {}, "null", "123", 1.5, [None]])
def test_a_result_keeps_its_type(board, result):
    """What is empty or looks like something else stays what it is."""
    put(board, "a")
    done(board, "a", result)
    kept = board.get_task("a").result
    assert (kept, type(kept)) == (result, type(result))


def test_a_result_of_64_kib_is_kept_whole(board):
    """The limit itself is inside."""
    put(board, "a")
    done(board, "a", "x" * 65_534)
    assert len(board.get_task("a").result) == 65_534


def test_a_failed_attempt_is_tried_again_after_a_delay(board, clock):
    """Scheduled, then ready; the error stays with the attempt."""
    put(board, "a")
    task = claimed(board, "a").fail("Traceback: boom")
    assert (task.state, task.charged) == ("scheduled", 1)
    assert clock.now_us() + 1_000_000 <= task.not_before_us < clock.now_us() + 2_000_000
    assert board.attempts("a")[0].error == "Traceback: boom"
    assert not board.claim_task("x")
    clock.advance(2)
    assert board.claim_task("x").task.id == "a"


@pytest.mark.parametrize(("jitter", "factor"), [(0, 1.0), (2**15, 1.5), (2**16 - 1, 2.0)])
def test_the_delay_doubles_with_each_failure_and_its_jitter_comes_from_the_boards_chance(
    board_path, clock, jitter, factor
):
    """1, 2, 4 seconds and as much again at most: a test that holds the chance knows it to the microsecond."""
    with open_board(board_path, clock) as board:
        board.store.chance = Loaded(jitter=jitter)
        board.create_task("T", id="a", max_attempts=10)
        for base in (1, 2, 4, 8):
            task = claimed(board, "a").fail("x")
            waits = task.not_before_us - clock.now_us()
            assert waits == pytest.approx(base * factor * 1_000_000, rel=1e-4)
            clock.advance(waits / 1_000_000)


def test_the_last_charged_failure_fails_the_task(board, clock):
    """With a reason that says so."""
    board.create_task("T", id="a", max_attempts=2)
    claimed(board, "a").fail("one")
    clock.advance(10)
    task = claimed(board, "a").fail("two")
    assert (task.state, task.charged, task.ended_us) == ("failed", 2, clock.now_us())
    assert task.reason == "max_attempts used up, the last one failed"
    assert [attempt.error for attempt in board.attempts("a")] == ["one", "two"]


def test_a_failure_for_good_is_not_tried_again(board):
    """`retry=False`, whatever is left of the attempts."""
    put(board, "a")
    task = claimed(board, "a").fail("hopeless", retry=False)
    assert (task.state, task.charged) == ("failed", 1)
    assert task.reason == "failed for good by its holder"


@pytest.mark.parametrize("kind", ["infra", "quota"])
def test_a_failure_that_is_not_the_tasks_fault_is_never_charged(board, clock, kind):
    """The last one before the ceiling pauses the task, so that it does not go round for ever."""
    board.create_task("T", id="a", max_attempts=1)
    for number in range(CEILINGS[kind]):
        task = claimed(board, "a").fail("down", kind=kind)
        assert (task.state, task.charged) == ("scheduled", 0)
        assert board.get_task("a").paused == (number == CEILINGS[kind] - 1)
        clock.advance(700)
    assert {(attempt.kind, attempt.charged) for attempt in board.attempts("a")} == {(kind, False)}


def test_each_kind_of_end_has_a_ceiling_of_its_own(board, clock):
    """Nine failures of the network leave nine for the quota, and all the releases."""
    board.create_task("T", id="a", max_attempts=1)
    for kind in ["infra", "quota"] * 9:
        assert claimed(board, "a").fail("x", kind=kind).charged == 0
        clock.advance(700)
    assert claimed(board, "a").release().charged == 0
    assert not board.get_task("a").paused


@pytest.mark.parametrize("kind", ["infra", "quota"])
def test_a_task_waits_until_its_vendor_takes_it_again(board, clock, kind):
    """To the microsecond, instead of the delay that grows; the attempt and the history keep the instant."""
    put(board, "a")
    retry_us = clock.now_us() + 18_000_000_000
    task = claimed(board, "a").fail("limit", kind=kind, retry_after_sec=18_000)
    assert (task.state, task.not_before_us, task.charged) == ("scheduled", retry_us, 0)
    assert board.attempts("a")[0].retry_at_us == board.events()[-1].data["retry_at_us"] == retry_us
    clock.advance(17_999.999_999)
    assert board.claim_task("x").retry_at_us == retry_us
    clock.advance(0.000_001)
    assert board.claim_task("x")


def test_five_hours_without_quota_cost_a_task_one_attempt(board, clock):
    """river#988: it is not tried again and again until it is given up."""
    put(board, "a")
    claimed(board, "a").fail("limit", kind="quota", retry_after_sec=18_000)
    for _ in range(300):
        clock.advance(60)
        claim = board.claim_task("x")
        if claim:
            break
    assert (claim.task.fence, claim.task.charged) == (2, 1)
    assert claim.complete().state == "completed"


@pytest.mark.parametrize("wrong", [{}, {"kind": "quota", "retry": False}, {"kind": "infra", "retry_after_sec": -1}])
def test_a_retry_that_makes_no_sense_is_refused(board, wrong):
    """For a failure of the task itself, or one for good; nothing has happened to the attempt."""
    put(board, "a")
    claim = claimed(board, "a")
    with pytest.raises(InvalidArgument) as caught:
        claim.fail("x", **{"retry_after_sec": 5} | wrong)
    assert caught.value.field == "retry_after_sec"
    assert claim.complete().state == "completed"


def test_a_failure_of_the_task_is_charged(board, clock):
    """The default kind."""
    board.create_task("T", id="a", max_attempts=3)
    claimed(board, "a").fail("x", kind="infra")
    clock.advance(10)
    assert claimed(board, "a").fail("x").charged == 1


@pytest.mark.parametrize("kind", ["infra", "quota"])
def test_a_refund_does_not_stop_a_failure_for_good(board, kind):
    """The task has failed; the attempt was still not its fault."""
    put(board, "a")
    task = claimed(board, "a").fail("x", kind=kind, retry=False)
    assert (task.state, task.charged) == ("failed", 0)


def test_a_failure_is_told_without_its_text(board):
    """Errors come from agents and may be hostile."""
    put(board, "a")
    claimed(board, "a", "x").fail("<script>secret")
    event = board.events()[-1]
    assert (event.kind, event.fence, event.agent_id) == ("task_failed", 1, "x")
    assert event.data == {"kind": "task", "state": "scheduled", "refunded": False}


def test_a_release_gives_the_task_back_at_once(board):
    """Ready, not charged."""
    put(board, "a")
    task = claimed(board, "a", "x").release()
    assert (task.state, task.charged, task.fence, task.holder) == ("pending", 0, 1, None)
    assert board.attempts("a")[0].outcome == "released"
    assert board.claim_task("y").task.id == "a"


def test_a_release_may_ask_for_a_delay(board, clock):
    """Scheduled until then."""
    put(board, "a")
    task = claimed(board, "a").release(delay_sec=30)
    assert (task.state, task.not_before_us) == ("scheduled", clock.now_us() + 30_000_000)
    clock.advance(30)
    assert board.claim_task("y").task.id == "a"


def test_a_released_task_is_not_offered_to_the_same_agent_for_a_minute(board, clock):
    """It gets the next best one; others get this one at once."""
    board.create_task("T", id="a", priority=9)
    put(board, "b")
    board.claim_task("x").release()
    board.claim_task("x").complete()
    assert states(board) == {"a": "pending", "b": "completed"}
    answer = board.claim_task("x")
    assert (answer.reason, answer.retry_at_us) == ("released", clock.now_us() + 60_000_000)
    clock.advance(59.999999)
    assert not board.claim_task("x")
    clock.advance(0.000001)
    assert board.claim_task("x").task.id == "a"


@pytest.mark.parametrize("fields", [{}, {"writes": ["f"]}, {"tags": ["t"]}, {"plan": "p"}])
def test_the_aversion_holds_however_the_task_is_found(board, fields):
    """By paths, by tag, by plan."""
    board.create_task("T", id="a", **fields)
    wish = {"tags": fields.get("tags", ()), "plan": fields.get("plan")}
    board.claim_task("x", **wish).release()
    assert not board.claim_task("x", **wish)
    assert board.claim_task("y", **wish).task.id == "a"


def test_an_agent_may_ask_for_what_it_released_by_name(board):
    """Then it means it."""
    put(board, "a")
    claimed(board, "a", "x").release()
    assert board.claim_task("x", task_id="a").task.id == "a"


def test_an_averted_head_of_a_pool_does_not_hide_its_next(board):
    """Two tasks with the same paths, the first released by this agent."""
    put(board, "a", "b", writes=["f"])
    claimed(board, "a", "x").release()
    assert board.claim_task("x").task.id == "b"


def test_a_task_that_is_released_for_ever_is_paused_in_the_end(board):
    """Releases say nothing about the task, so they cannot fail it."""
    board.create_task("T", id="a", max_attempts=2)
    for number in range(CEILINGS["released"]):
        task = claimed(board, "a", f"agent-{number}").release()
    assert (task.state, task.charged, task.fence, board.get_task("a").paused) == ("pending", 0, 20, True)


def test_a_split_task_waits_for_its_subtasks_and_carries_their_results(board):
    """However they end; its next attempt is not charged for the last."""
    put(board, "a", max_attempts=1)
    subtasks = claimed(board, "a").split([{"title": "one", "id": "s1"}, {"title": "two", "id": "s2"}])
    assert [task.id for task in subtasks] == ["s1", "s2"]
    task = board.get_task("a")
    assert (task.state, task.charged, task.unmet, task.fence) == ("blocked", 0, 2, 1)
    assert [(edge.id, edge.condition) for edge in task.depends_on] == [("s1", "finished"), ("s2", "finished")]
    done(board, "s1", {"n": 1})
    claimed(board, "s2").fail("x", retry=False)
    claim = board.claim_task("x")
    assert (claim.task.id, claim.task.fence) == ("a", 2)
    assert [(found.id, found.state, found.result) for found in claim.dependencies] == [
        ("s1", "completed", {"n": 1}),
        ("s2", "failed", None),
    ]


def test_subtasks_may_depend_on_each_other_and_on_others(board):
    """They are tasks like any other, of the plan of the one that was split."""
    put(board, "p")
    put(board, "a", plan="mine")
    claimed(board, "a").split(
        [{"title": "1", "id": "s1", "depends_on": ["p"]}, {"title": "2", "id": "s2", "depends_on": ["s1"]}]
    )
    assert states(board) == {"p": "pending", "a": "blocked", "s1": "blocked", "s2": "blocked"}
    assert {board.get_task(name).plan for name in ("s1", "s2")} == {"mine"}


def test_a_split_lends_the_subtasks_the_urgency_of_the_task(board):
    """What an urgent task waits for is urgent."""
    board.create_task("T", id="a", priority=7)
    (subtask,) = claimed(board, "a").split([{"title": "sub"}])
    assert (subtask.priority, subtask.urgency) == (0, 7)


@pytest.mark.parametrize(
    ("subtasks", "error"),
    [
        ([{"title": "x", "depends_on": ["a"]}], InvalidArgument),
        ([{"title": "x", "depends_on": ["child"]}], CycleRefused),
        ([{"title": "x", "depends_on": ["nowhere"]}], NotFound),
        ([], InvalidArgument),
    ],
)
def test_a_split_that_cannot_be_leaves_the_attempt_as_it_was(board, subtasks, error):
    """Subtasks that wait for the task itself, directly or not, would wait for ever."""
    put(board, "a", "child: a")
    claim = claimed(board, "a")
    with pytest.raises(error):
        claim.split([{"title": "good"}, *subtasks] if subtasks else [])
    assert states(board) == {"a": "in_progress", "child": "blocked"}
    assert claim.complete().state == "completed"


def test_a_split_with_no_hand_out_left_is_refused(board):
    """Nobody could finish the task afterwards; its holder still can."""
    board.create_task("T", id="a", max_attempts=1)
    for number in range(SPLIT_REFUNDS):
        claimed(board, "a").split([{"title": "s", "id": f"s{number}"}])
        done(board, f"s{number}")
    claim = claimed(board, "a")
    with pytest.raises(WrongState):
        claim.split([{"title": "one more"}])
    assert claim.complete().state == "completed"


def test_a_split_writes_its_events_in_order(board):
    """The attempt ends, the subtasks appear, the edges follow; all in one transaction."""
    put(board, "a")
    claimed(board, "a").split([{"title": "s", "id": "s"}])
    assert kinds(board)[-3:] == ["task_split", "task_created", "dependency_added"]
    assert len({event.at_us for event in board.events()[-3:]}) == 1


def test_a_late_split_is_marked_late(board, clock):
    """As every other end that its holder brings about after its lease was due."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(61)
    claim.split([{"title": "s", "id": "s"}])
    assert board.attempts("a")[0].late
    assert next(event.data["late"] for event in board.events() if event.kind == "task_split")


def test_notes_stay_with_the_attempt_that_left_them(board, clock):
    """Oldest first, each with its author and instant; the text stays out of the history."""
    put(board, "a")
    claim = claimed(board, "a", "x")
    note = claim.note("half done <b>")
    assert (note.fence, note.agent_id, note.at_us, note.text) == (1, "x", clock.now_us(), "half done <b>")
    clock.advance(60)
    claimed(board, "a", "y").note("half done <b>")
    assert [(found.fence, found.agent_id) for found in board.notes("a")] == [(1, "x"), (2, "y")]
    assert board.notes("a")[0] == note
    assert "half" not in str(board.events())


def test_attempts_tell_the_whole_story_of_a_task(board, clock):
    """One line for each hand-out, in the order of the fences."""
    board.create_task("T", id="a", max_attempts=9)
    claimed(board, "a", "one").release()
    claimed(board, "a", "two").fail("x", kind="quota")
    clock.advance(10)
    claimed(board, "a", "three")
    clock.advance(60)
    claimed(board, "a", "four").complete()
    found = [(one.fence, one.agent_id, one.outcome, one.kind, one.charged) for one in board.attempts("a")]
    assert found == [
        (1, "one", "released", None, False),
        (2, "two", "failed", "quota", False),
        (3, "three", "reclaimed", None, True),
        (4, "four", "completed", None, True),
    ]


def test_an_open_attempt_has_no_outcome_yet(board, clock):
    """And its first heartbeat is its start."""
    put(board, "a")
    claimed(board, "a", "x")
    (attempt,) = board.attempts("a")
    assert (attempt.outcome, attempt.ended_us, attempt.late) == (None, None, False)
    assert attempt.started_us == attempt.heartbeat_us == clock.now_us()


def test_a_task_that_nobody_was_given_has_no_attempts_and_no_notes(board):
    """Empty lists, not an error."""
    put(board, "a")
    assert board.attempts("a") == board.notes("a") == []


@pytest.mark.parametrize("end", ["fail", "release", "reclaim"])
def test_a_task_whose_parent_was_reopened_meanwhile_waits_for_it_again(board, clock, end):
    """It was handed out rightly; once it is given back, the gate holds it."""
    put(board, "p", "c: p")
    done(board, "p")
    claim = claimed(board, "c")
    board.reopen_task("p")
    if end == "fail":
        claim.fail("x")
    elif end == "release":
        claim.release()
    else:
        clock.advance(60)
        board.reclaim_zombies()
    assert states(board) == {"p": "pending", "c": "blocked"}
