"""Why is nobody working? The root causes over edges, paths, capabilities, times and pauses."""

import pytest

from agentmesh.errors import NotFound
from tests.support.boards import claimed, done, event_count, put


def causes(explanation):
    """Kind, task and how many wait behind it."""
    return [(cause.kind, cause.task_id, cause.waiting) for cause in explanation.causes]


@pytest.mark.parametrize(
    ("prepare", "summary"),
    [(lambda _: None, "The board has no tasks."), (lambda board: done(board, "a"), "Every task is final.")],
)
def test_a_board_with_nothing_to_do_says_so(board, prepare, summary):
    """No causes, one sentence."""
    if "final" in summary:
        put(board, "a")
    prepare(board)
    explanation = board.explain()
    assert (explanation.summary, explanation.causes, explanation.more) == (summary, (), 0)


def test_a_ready_task_is_ready(board):
    """Nobody has claimed it yet, and two wait for it."""
    put(board, "a", "b: a", "c: b")
    explanation = board.explain("a")
    assert causes(explanation) == [("ready", "a", 2)]
    assert explanation.summary == "Task a is pending."


def test_a_task_in_hand_names_its_holder_and_the_end_of_the_lease(board, clock):
    """It moves; there is nothing to mend."""
    put(board, "a", "b: a")
    claimed(board, "a", "ada")
    (cause,) = board.explain("b").causes
    assert (cause.kind, cause.task_id, cause.holder, cause.waiting) == ("in_progress", "a", "ada", 1)
    assert cause.until_us == clock.now_us() + 60_000_000


def test_a_dead_agent_is_found_out(board, clock):
    """Its lease is due; the next claim takes the task back."""
    put(board, "a", "b: a")
    claimed(board, "a", "ada")
    clock.advance(60)
    (cause,) = board.explain("b").causes
    assert (cause.kind, cause.task_id, cause.holder) == ("lease_due", "a", "ada")


def test_a_task_for_later_names_its_time(board, clock):
    """And once it has come, the task is ready for the next claim."""
    board.create_task("T", id="a", not_before="2026-01-01T00:01:00Z")
    (cause,) = board.explain("a").causes
    assert (cause.kind, cause.until_us) == ("scheduled", clock.now_us() + 60_000_000)
    clock.advance(60)
    assert causes(board.explain("a")) == [("ready", "a", 0)]


def test_a_task_that_no_known_agent_can_do_names_what_it_requires(board):
    """Agents are known by the claims of the last hour."""
    board.create_task("T", id="a", requires=["gpu", "sql"])
    put(board, "b", "c")
    board.claim_task("x", capabilities=["gpu"])
    (cause,) = board.explain("a").causes
    assert cause.kind == "capability"
    assert "gpu, sql" in cause.message
    board.claim_task("y", capabilities=["gpu", "sql"], task_id="c")
    put(board, "d")
    board.claim_task("z", capabilities=["sql", "gpu", "x"], tags=[])
    assert causes(board.explain("a")) in ([("ready", "a", 0)], [("in_progress", "a", 0)])


def test_an_agent_that_was_not_seen_for_an_hour_does_not_count(board, clock):
    """Whoever could do it is gone."""
    put(board, "b")
    board.claim_task("x", capabilities=["gpu"]).complete()
    board.create_task("T", id="a", requires=["gpu"])
    assert causes(board.explain("a")) == [("ready", "a", 0)]
    clock.advance(3601)
    assert causes(board.explain("a")) == [("capability", "a", 0)]


def test_an_agent_asks_for_itself(board):
    """With what it can do."""
    board.create_task("T", id="a", requires=["gpu"])
    put(board, "b")
    board.claim_task("other", capabilities=["gpu"], plan="none")
    assert causes(board.explain("a", agent_id="me", capabilities=["sql"])) == [("capability", "a", 0)]
    assert causes(board.explain("a", agent_id="me", capabilities=["gpu"])) == [("ready", "a", 0)]


def test_a_task_whose_path_is_held_names_pattern_and_holder(board, clock):
    """Who holds what for which task, until when."""
    put(board, "wide", writes=["src/**"])
    put(board, "narrow", writes=["src/a"])
    claimed(board, "wide", "ada")
    (cause,) = board.explain("narrow").causes
    assert (cause.kind, cause.holder, cause.until_us) == ("paths_held", "ada", clock.now_us() + 60_000_000)
    assert cause.message == "narrow needs 'src/a', which overlaps 'src/**', held by ada for wide."


@pytest.mark.parametrize(
    ("scope", "first"),
    [({}, "The board was paused by boss."), ({"plan": "default"}, "Plan default was paused by boss.")],
)
def test_a_pause_comes_before_everything_else(board, scope, first):
    """With who made it; the tasks behind it are listed too."""
    put(board, "a", "b: a")
    board.pause(agent_id="boss", **scope)
    for explanation in (board.explain(), board.explain("a"), board.explain("b")):
        assert {cause.kind for cause in explanation.causes} == {"paused"}
        assert first in [cause.message for cause in explanation.causes]


def test_the_pause_of_an_agent_is_a_cause_for_that_agent(board):
    """Not for the others."""
    put(board, "a")
    board.pause(agent="x")
    assert causes(board.explain("a", agent_id="x"))[0][0] == "paused"
    assert causes(board.explain("a", agent_id="y")) == [("ready", "a", 0)]


def test_the_pause_of_another_plan_is_no_cause(board):
    """For a task of this one."""
    put(board, "a", plan="one")
    put(board, "b", plan="two")
    board.pause(plan="two")
    assert causes(board.explain("a")) == [("ready", "a", 0)]


def test_root_causes_are_found_over_any_number_of_edges(board):
    """A blocked task is never a cause: what it waits for in the end is."""
    put(board, "held", "ready", "x: held", "y: x ready", "z: y")
    board.create_task("T", id="later", not_before="2026-01-02T00:00:00Z")
    board.add_dependency("z", "later")
    claimed(board, "held", "ada")
    explanation = board.explain("z")
    assert explanation.summary == "Task z is blocked: 2 of its 2 dependencies are not met."
    assert causes(explanation) == [("ready", "ready", 2), ("scheduled", "later", 1), ("in_progress", "held", 3)]


def test_causes_come_gravest_first(board, clock):
    """From what will never move by itself to what is moving."""
    for name, fields in {
        "gpu": {"requires": ["gpu"]},
        "due": {"lease_timeout_sec": 1},
        "path": {"writes": ["f"]},
        "free": {},
        "later": {"not_before": "2026-01-02T00:00:00Z"},
        "held": {"lease_timeout_sec": 600},
    }.items():
        board.create_task("T", id=name, **fields)
    claimed(board, "due", "dead")
    claimed(board, "held", "ada").hold_paths(writes=["f"])
    clock.advance(2)
    kinds = [cause.kind for cause in board.explain().causes]
    assert kinds == ["capability", "lease_due", "paths_held", "ready", "scheduled", "in_progress"]


def test_a_board_is_summed_up_in_one_sentence(board):
    """How many of what."""
    put(board, "a", "b", "c: a")
    claimed(board, "b")
    assert board.explain().summary == "3 tasks are open: 1 in_progress, 1 pending, 1 blocked."


def test_what_does_not_fit_is_counted(board):
    """Twenty causes are shown."""
    put(board, *[f"t{n}" for n in range(30)])
    explanation = board.explain()
    assert (len(explanation.causes), explanation.more) == (20, 10)


@pytest.mark.parametrize("count", [250])
def test_a_large_frontier_is_looked_at_in_part_and_counted_in_full(board, count):
    """200 are weighed, the rest is counted."""
    put(board, *[f"t{n}" for n in range(count)])
    explanation = board.explain()
    assert len(explanation.causes) + explanation.more == count


def test_a_final_task_tells_how_it_ended(board):
    """With the reason, unless that is what an agent wrote: no sentence of ours carries it."""
    put(board, "a", "b: a", "c")
    board.cancel_task("a", reason="not wanted")
    done(board, "c")
    assert board.explain("a").summary == "Task a is cancelled."
    assert board.explain("b").summary == "Task b is cancelled: dependency a ended as cancelled."
    assert board.explain("c").summary == "Task c is completed."
    assert board.explain("a").causes == ()


def test_a_task_that_is_not_there_is_not_found(board):
    """A typing error is no explanation."""
    with pytest.raises(NotFound):
        board.explain("nowhere")


def test_explaining_writes_nothing(board, clock):
    """Not even where a lease is due."""
    put(board, "a")
    claimed(board, "a")
    clock.advance(60)
    before = event_count(board)
    board.explain()
    board.explain("a")
    assert event_count(board) == before


def test_a_task_whose_time_has_come_is_no_readier_than_one_that_is_ready(board, clock):
    """What keeps its plan from being handed out keeps it, too; only then does the next claim get it."""
    put(board, "a", not_before=clock.now_us() / 1_000_000 + 60)
    clock.advance(60)
    assert causes(board.explain("a")) == [("ready", "a", 0)]
    assert board.explain("a").causes[0].message == "a has reached its time."
    board.pause(plan="default")
    assert ("paused", "a", 0) in causes(board.explain("a"))


def test_a_lease_that_a_step_of_the_clock_made_longer_is_found_out(board, clock):
    """Gravest of all: a dead agent keeps what it had for an hour more."""
    put(board, "a", "b: a")
    claimed(board, "a", "ada")
    board.pause()
    clock.advance(-3600)
    first = board.explain("b").causes[0]
    assert (first.kind, first.task_id, first.holder) == ("clock", "a", "ada")
    assert "renewed 3,600 s ahead of now" in first.message
    board.resume()
    board.claim_task("ada", task_id="a", resume=True, take_over=True).release()
    assert board.claim_task("bob").task.id == "a"


def test_a_retry_that_a_step_of_the_clock_put_off_is_found_out(board, clock):
    """Two seconds have become an hour; an update ends it. A time that a user chose is no delay."""
    put(board, "a", "b")
    claimed(board, "a", "ada").fail("x")
    claimed(board, "b", "ada").fail("x")
    board.update_task("b", not_before="2026-01-02T00:00:00Z")
    clock.advance(-3600)
    kinds = {cause.task_id: cause.kind for cause in board.explain().causes}
    assert kinds == {"a": "clock", "b": "scheduled"}
    board.update_task("a", not_before=None)
    assert board.claim_task("ada").task.id == "a"


def test_a_clock_that_was_only_adjusted_is_no_cause(board, clock):
    """Less than a second: time servers do that all day."""
    put(board, "a")
    claimed(board, "a", "ada")
    clock.advance(-0.9)
    assert board.explain("a").causes[0].kind == "in_progress"
