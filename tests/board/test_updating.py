"""Changing what a task says of itself: what stays, what follows at once, what is refused while it runs."""

import pytest

from agentmesh.errors import InvalidArgument, WrongState
from tests.support.boards import claimed, done, event_count, put, states
from tests.support.clock import START_US

FIELDS = {
    "title": ("New", "New"),
    "description": ("New text", "New text"),
    "priority": (9, 9),
    "tags": (["b", "a"], ("a", "b")),
    "payload": ([1], [1]),
    "lease_timeout_sec": (90, 90),
    "max_hold_sec": (900, 900),
    "max_attempts": (9, 9),
    "estimate_usd": ("1.5", 1_500_000_000_000),
    "estimate_tokens": (9_000, 9_000),
    "requires": (["gpu"], ("gpu",)),
    "writes": (["g/"], ("g/**",)),
    "reads": (["h"], ("h",)),
    "not_before": ("2026-01-02T00:00:00Z", START_US + 86_400_000_000),
}
WHILE_RUNNING = [field for field in FIELDS if field not in ("requires", "writes", "reads")]
UNITS = {"lease_timeout_sec": ("lease_timeout_us", 10**6), "max_hold_sec": ("max_hold_us", 10**6)}
UNITS |= {"estimate_usd": ("estimate_pusd", 1), "not_before": ("not_before_us", 1)}


def told(task, field):
    """What a task says in the unit of the table."""
    name, unit = UNITS.get(field, (field, None))
    value = getattr(task, name)
    return value // unit if unit and value is not None else value


def full(board):
    """A task with something in every field."""
    board.create_task(
        "Old",
        id="a",
        description="Old text",
        priority=1,
        tags=["t"],
        payload={"old": 1},
        lease_timeout_sec=30,
        max_hold_sec=300,
        max_attempts=3,
        estimate_usd="0.5",
        estimate_tokens=500,
        requires=["sql"],
        writes=["f"],
        reads=["r"],
    )


@pytest.mark.parametrize("field", FIELDS)
def test_one_field_changes_and_the_others_stay(board, field):
    """What is not named is not touched."""
    full(board)
    before = board.get_task("a")
    wanted, expected = FIELDS[field]
    board.update_task("a", **{field: wanted})
    after = board.get_task("a")
    assert told(after, field) == expected
    others = [other for other in FIELDS if other != field]
    assert {other: told(after, other) for other in others} == {other: told(before, other) for other in others}


@pytest.mark.parametrize(
    "field", ["description", "payload", "estimate_usd", "estimate_tokens", "not_before", "tags", "requires", "writes"]
)
def test_a_field_can_be_emptied(board, field):
    """With None, where None is nothing."""
    full(board)
    board.update_task("a", **{field: None})
    assert not told(board.get_task("a"), field)


@pytest.mark.parametrize("field", WHILE_RUNNING)
def test_most_fields_change_while_the_task_is_worked_on(board, field):
    """The attempt goes on."""
    full(board)
    claim = claimed(board, "a", capabilities=["sql"])
    wanted, expected = FIELDS[field]
    assert board.update_task("a", **{field: wanted}).state == "in_progress"
    assert told(board.get_task("a"), field) == expected
    assert claim.complete().state == "completed"


@pytest.mark.parametrize("field", ["requires", "writes", "reads"])
def test_what_the_hand_out_rested_on_does_not_change_under_the_holder(board, field):
    """Paths and capabilities; nothing is written."""
    full(board)
    claimed(board, "a", capabilities=["sql"])
    before = event_count(board)
    with pytest.raises(WrongState, match=field):
        board.update_task("a", **{field: FIELDS[field][0]})
    assert event_count(board) == before


@pytest.mark.parametrize("end", ["completed", "cancelled"])
def test_a_final_task_is_not_changed(board, end):
    """What it should have said is a new task."""
    put(board, "a")
    _ = done(board, "a") if end == "completed" else board.cancel_task("a")
    with pytest.raises(WrongState) as caught:
        board.update_task("a", title="New")
    assert "new task" in caught.value.hint


@pytest.mark.parametrize("field", ["id", "plan", "depends_on"])
def test_what_a_task_is_cannot_be_changed(board, field):
    """Its id, its plan; its dependencies have verbs of their own."""
    put(board, "a")
    with pytest.raises(InvalidArgument) as caught:
        board.update_task("a", **{field: [] if field == "depends_on" else "new"})
    assert caught.value.field == field


def test_a_change_is_told_by_the_names_of_its_fields(board):
    """The texts stay out of the history."""
    put(board, "a")
    board.update_task("a", title="<secret>", description="<secret>", agent_id="boss")
    event = board.events()[-1]
    assert (event.kind, event.agent_id) == ("task_updated", "boss")
    assert event.data == {"fields": ["description", "title"]}


def test_a_task_that_no_longer_requires_anything_is_for_everybody(board):
    """And the other way round."""
    put(board, "a")
    board.update_task("a", requires=["gpu"])
    assert not board.claim_task("x")
    board.update_task("a", requires=[])
    assert board.claim_task("x").task.id == "a"


def test_tags_are_found_as_they_are_now(board):
    """Old ones no longer."""
    board.create_task("T", id="a", tags=["old", "both"])
    board.update_task("a", tags=["new", "both"])
    found = {tag: len(board.list_tasks(tag=tag).tasks) for tag in ("old", "new", "both")}
    assert found == {"old": 0, "new": 1, "both": 1}
    assert board.claim_task("x", tags=["new"]).task.id == "a"


def test_a_ready_task_is_put_off_and_brought_forward(board, clock):
    """Its state follows its time at once."""
    put(board, "a")
    assert board.update_task("a", not_before="2026-01-01T00:01:00Z").state == "scheduled"
    assert board.update_task("a", not_before="2026-01-01T00:00:30Z").state == "scheduled"
    clock.advance(30)
    assert board.claim_task("x").task.id == "a"
    put(board, "b")
    board.update_task("b", not_before="2026-02-01T00:00:00Z")
    assert board.update_task("b", not_before=None).state == "pending"


def test_a_retry_can_be_brought_forward(board):
    """Whoever has mended the cause need not wait for the delay."""
    put(board, "a")
    claimed(board, "a").fail("x")
    assert board.update_task("a", not_before=None).state == "pending"


def test_a_blocked_task_keeps_its_new_time_for_later(board):
    """Dependencies first."""
    put(board, "p", "a: p")
    assert board.update_task("a", not_before="2026-01-02T00:00:00Z").state == "blocked"
    done(board, "p")
    assert states(board)["a"] == "scheduled"


def test_a_running_task_keeps_its_new_time_for_its_next_hand_out(board):
    """A release sends it there."""
    put(board, "a")
    claim = claimed(board, "a")
    board.update_task("a", not_before="2026-01-02T00:00:00Z")
    assert claim.release().state == "scheduled"


def test_the_hand_outs_of_a_task_cannot_be_cut_below_those_it_had(board, clock):
    """A waiting task must have one left; a running one may have its last."""
    board.create_task("T", id="a", max_attempts=5)
    for _ in range(2):
        claimed(board, "a").fail("x")
        clock.advance(60)
    with pytest.raises(InvalidArgument) as caught:
        board.update_task("a", max_attempts=2)
    assert caught.value.field == "max_attempts"
    claim = claimed(board, "a")
    with pytest.raises(InvalidArgument):
        board.update_task("a", max_attempts=2)
    board.update_task("a", max_attempts=3)
    assert claim.fail("x").state == "failed"


def test_a_lease_timeout_above_the_longest_hold_stretches_it(board):
    """A hold is never shorter than a lease."""
    board.create_task("T", id="a", lease_timeout_sec=30, max_hold_sec=60)
    task = board.update_task("a", lease_timeout_sec=90)
    assert (task.lease_timeout_us, task.max_hold_us) == (90_000_000, 90_000_000)


def test_patterns_at_the_limit_survive_any_change(board):
    """What was taken once is taken again when the rest is changed."""
    board.create_task("T", id="a", writes=["x" * 297 + "/"])
    assert board.update_task("a", title="New").writes == ("x" * 297 + "/**",)


def test_reads_that_are_written_too_stay_as_they_were(board):
    """Widening what is written narrows what is merely read."""
    board.create_task("T", id="a", reads=["f", "g"])
    task = board.update_task("a", writes=["f"])
    assert (task.writes, task.reads) == (("f",), ("g",))
