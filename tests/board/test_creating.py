"""Putting tasks on the board: what is kept, what is made up, what is refused as a whole."""

from datetime import UTC, datetime

import pytest

from agentmesh import Dependency, limits
from agentmesh.clock import ALPHABET
from agentmesh.errors import CycleRefused, DuplicateId, InvalidArgument, NotFound
from tests.support.boards import claimed, done, event_count, kinds, open_board, put, states
from tests.support.clock import START_US


def test_a_task_keeps_all_that_was_said_of_it(board):
    """Every field comes back from `get_task` in its own unit."""
    board.create_task("Parent", id="parent")
    board.create_task(
        "Write migration",
        id="migrate",
        plan="release",
        description="Long text",
        priority=7,
        depends_on=["parent:finished"],
        requires=["sql", "python"],
        tags=["db"],
        writes=["db/", "a.txt"],
        reads=["docs/**"],
        payload={"n": [1, None, "x"]},
        estimate_usd="0.25",
        lease_timeout_sec=90,
        max_hold_sec=600,
        max_attempts=5,
        not_before="2026-01-01T01:00:00Z",
    )
    task = board.get_task("migrate")
    assert (task.title, task.plan, task.description, task.priority) == ("Write migration", "release", "Long text", 7)
    assert task.depends_on == (Dependency("parent", "finished"),)
    assert (task.requires, task.tags) == (("python", "sql"), ("db",))
    assert (task.writes, task.reads) == (("a.txt", "db/**"), ("docs/**",))
    assert (task.payload, task.estimate_pusd) == ({"n": [1, None, "x"]}, 25 * 10**10)
    assert (task.lease_timeout_us, task.max_hold_us, task.max_attempts) == (90_000_000, 600_000_000, 5)
    assert task.not_before_us == START_US + 3600 * 1_000_000


def test_a_task_needs_nothing_but_a_title(board):
    """The defaults: plan `default`, a lease of a minute, three attempts, four hours, ready at once."""
    task = board.create_task("Just do it")
    assert (task.plan, task.state, task.priority, task.urgency) == ("default", "pending", 0, 0)
    assert (task.lease_timeout_us, task.max_hold_us, task.max_attempts) == (60_000_000, 4 * 3600 * 1_000_000, 3)
    assert (task.fence, task.charged, task.unmet, task.created_us) == (0, 0, 0, START_US)
    assert (task.holder, task.ended_us, task.reason, task.not_before_us) == (None, None, None, None)


def test_a_made_up_id_is_short_and_readable(board):
    """It has no letter that is mistaken for a digit, and no two are the same."""
    names = [board.create_task("Title").id for _ in range(50)]
    assert len(set(names)) == 50
    assert all(name.startswith("task_") and set(name[5:]) <= set(ALPHABET) for name in names)


def test_made_up_ids_come_from_the_boards_chance(tmp_path, clock):
    """The same chance makes the same board: a run can be replayed."""
    found = []
    for name in ("one.db", "two.db"):
        with open_board(tmp_path / name, clock, seed=5) as board:
            found.append([task.id for task in board.create_tasks([{"title": "a"}, {"title": "b"}])])
    assert found[0] == found[1]


@pytest.mark.parametrize("given_id", ["a", "x" * 128, "a:b", ":completed-not", "task/1.2", "\u00fc", "1"])
def test_an_id_is_any_name(board, given_id):
    """1 to 128 printable characters without white space."""
    assert board.create_task("Title", id=given_id).id == given_id
    assert board.get_task(given_id).title == "Title"


def test_an_id_is_taken_once(board):
    """Also when its task has ended."""
    board.create_task("First", id="a")
    done(board, "a")
    before = event_count(board)
    with pytest.raises(DuplicateId) as caught:
        board.create_task("Second", id="a")
    assert caught.value.task_id == "a"
    assert (event_count(board), board.get_task("a").title) == (before, "First")


def test_tasks_of_one_call_may_wait_for_each_other_in_any_order(board):
    """A later one may be named before it is listed."""
    listed = board.create_tasks(
        [
            {"title": "last", "id": "c", "depends_on": ["b"]},
            {"title": "middle", "id": "b", "depends_on": ["a"]},
            {"title": "first", "id": "a"},
        ]
    )
    assert [task.id for task in listed] == ["c", "b", "a"]
    assert states(board) == {"c": "blocked", "b": "blocked", "a": "pending"}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ({"title": ""}, InvalidArgument),
        ({"title": "x", "id": "taken"}, DuplicateId),
        ({"title": "x", "id": "new"}, DuplicateId),
        ({"title": "x", "depends_on": ["nowhere"]}, NotFound),
        ({"title": "x", "id": "loop", "depends_on": ["loop"]}, CycleRefused),
        ({"title": "x", "color": "red"}, InvalidArgument),
        ("x", InvalidArgument),
        (None, InvalidArgument),
    ],
)
def test_one_bad_task_keeps_the_whole_call_off_the_board(board, bad, error):
    """All or none, and no event."""
    board.create_task("Taken", id="taken")
    before = event_count(board)
    with pytest.raises(error):
        board.create_tasks([{"title": "good", "id": "new"}, bad, {"title": "good too"}])
    assert (event_count(board), states(board)) == (before, {"taken": "pending"})


def test_a_circle_among_new_tasks_is_named_from_end_to_end(board):
    """Whoever reads the error knows which edge to take out."""
    with pytest.raises(CycleRefused) as caught:
        board.create_tasks(
            [{"title": name, "id": name, "depends_on": [above]} for name, above in ("ab", "bc", "ca", "da")]
        )
    path = caught.value.path
    assert (path[0], set(path), len(path)) == (path[-1], {"a", "b", "c"}, 4)


def test_the_error_of_a_batch_names_the_place(board):
    """`tasks[1].priority`, not merely `priority`."""
    with pytest.raises(InvalidArgument) as caught:
        board.create_tasks([{"title": "a"}, {"title": "b", "priority": "high"}])
    assert caught.value.field == "tasks[1].priority"


def test_a_batch_goes_into_one_plan_unless_a_task_says_otherwise(board):
    """The call's plan is the default of its tasks."""
    one, two = board.create_tasks([{"title": "a"}, {"title": "b", "plan": "own"}], plan="shared")
    assert (one.plan, two.plan) == ("shared", "own")


def test_an_empty_batch_is_an_empty_list(board):
    """Nothing to do is no error and no event."""
    assert board.create_tasks([]) == []
    assert event_count(board) == 0


@pytest.mark.parametrize(
    "form",
    [
        "p:failed",
        Dependency("p", "failed"),
        {"id": "p", "condition": "failed"},
    ],
)
def test_a_dependency_has_three_forms(board, form):
    """Text, record, mapping: they mean the same."""
    board.create_task("P", id="p")
    board.create_task("C", id="c", depends_on=[form])
    assert board.edges() == [("c", "p", "failed")]


@pytest.mark.parametrize("form", ["p", "p:completed", Dependency("p"), {"id": "p"}])
def test_a_dependency_waits_for_completion_unless_told_otherwise(board, form):
    """The default condition."""
    board.create_task("P", id="p")
    board.create_task("C", id="c", depends_on=[form])
    assert board.edges() == [("c", "p", "completed")]


def test_a_dependency_named_twice_is_one_edge(board):
    """But not with two conditions: that is refused."""
    board.create_task("P", id="p")
    assert board.create_task("C", id="c", depends_on=["p", "p:completed"]).unmet == 1
    with pytest.raises(InvalidArgument):
        board.create_task("D", depends_on=["p", "p:failed"])


@pytest.mark.parametrize(
    "when", ["2026-01-01T00:00:01Z", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), START_US / 1_000_000 + 1]
)
def test_a_task_for_later_is_scheduled(board, clock, when):
    """It is handed out at its time, not before."""
    assert board.create_task("Later", id="a", not_before=when).state == "scheduled"
    assert board.claim_task("agent").reason == "scheduled"
    clock.advance(1)
    assert board.claim_task("agent").task.id == "a"


def test_a_time_that_has_come_is_no_time_to_wait_for(board):
    """At its very instant a task is ready."""
    assert board.create_task("Now", not_before="2026-01-01T00:00:00Z").state == "pending"


def test_a_task_that_waits_for_both_is_blocked_first_and_scheduled_then(board, clock):
    """Dependencies before time: both must be met."""
    board.create_task("P", id="p")
    board.create_task("C", id="c", depends_on=["p"], not_before="2026-01-01T00:01:00Z")
    assert states(board)["c"] == "blocked"
    done(board, "p")
    assert states(board)["c"] == "scheduled"
    clock.advance(60)
    assert board.claim_task("agent").task.id == "c"


@pytest.mark.parametrize(
    ("how", "condition", "state"),
    [
        ("complete", "completed", "pending"),
        ("fail", "failed", "pending"),
        ("cancel", "finished", "pending"),
        ("complete", "failed", "cancelled"),
        ("fail", "completed", "cancelled"),
        ("cancel", "completed", "cancelled"),
    ],
)
def test_a_task_that_waits_for_one_that_has_ended_knows_at_once(board, how, condition, state):
    """Met: it is ready. Impossible: it is cancelled, and its reason names the parent."""
    board.create_task("P", id="p")
    if how == "cancel":
        board.cancel_task("p")
    else:
        claim = claimed(board, "p")
        _ = claim.complete() if how == "complete" else claim.fail("broken", retry=False)
    task = board.create_task("C", id="c", depends_on=[f"p:{condition}"])
    assert task.state == state
    assert (task.reason is None) == (state == "pending")
    assert "p" in (task.reason or "p")


def test_what_can_never_run_is_cancelled_all_the_way_down(board):
    """New tasks behind a new task behind a failed one; each names the root."""
    board.create_task("P", id="p")
    claimed(board, "p").fail("broken", retry=False)
    put(board, "a: p", "b: a", "c: b", "d: b:finished")
    assert states(board) == {"p": "failed", "a": "cancelled", "b": "cancelled", "c": "cancelled", "d": "pending"}
    assert [event.data["root"] for event in board.events() if event.kind == "task_cancelled"] == ["p", "p", "p"]
    assert "(root: p)" in board.get_task("c").reason


def test_creation_is_told_without_the_texts_of_agents(board):
    """The event says what the task is to the graph; title, description and payload stay out of it."""
    board.create_task("Hostile <title>", id="a", description="secret plan", payload={"k": "secret"}, priority=3)
    (event,) = board.events()
    assert (event.kind, event.task_id, event.plan, event.agent_id) == ("task_created", "a", "default", "operator")
    assert event.data == {"state": "pending", "priority": 3, "max_attempts": 3}


def test_each_task_has_an_event_of_its_own(board):
    """In the order of the call."""
    board.create_tasks([{"title": "a", "id": "a"}, {"title": "b", "id": "b"}], agent_id="planner")
    assert kinds(board) == ["task_created", "task_created"]
    assert [(event.task_id, event.agent_id) for event in board.events()] == [("a", "planner"), ("b", "planner")]


def test_what_is_written_need_not_be_said_to_be_read(board):
    """A pattern in both lists counts once, as written."""
    task = board.create_task("T", writes=["a"], reads=["a", "b"])
    assert (task.writes, task.reads) == (("a",), ("b",))


def test_a_call_takes_a_bounded_number_of_dependencies(board, monkeypatch):
    """It is one transaction, and others wait for it; the error says how many there were and what to do."""
    monkeypatch.setattr(limits, "EDGES", 3)
    put(board, "a", "b", "held")
    wishes = [{"title": "T", "id": name, "depends_on": ["a", "b"]} for name in ("x", "y")]
    claim = claimed(board, "held")
    calls = {
        "tasks": lambda: board.create_tasks(wishes),
        "tasks in a plan": lambda: board.apply_plan({"tasks": wishes}),
        "subtasks": lambda: claim.split(wishes),
    }
    for field, call in calls.items():
        with pytest.raises(InvalidArgument, match=f"^{field.split()[0]}: have 4 .* takes 3") as refused:
            call()
        assert "several calls" in refused.value.hint
    assert set(states(board)) == {"a", "b", "held"}
    board.create_tasks(wishes[:1])
