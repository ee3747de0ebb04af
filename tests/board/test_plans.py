"""Applying a plan: it brings the board in line, and applying it again changes nothing."""

import copy

import pytest

from agentmesh.errors import CycleRefused, InvalidArgument, NotFound, WrongState
from tests.support.boards import claimed, done, event_count, put, rows, states

PLAN = {
    "plan": "release",
    "workspace": "/repo",
    "defaults": {"priority": 2, "lease_timeout_sec": 90, "tags": ["r"]},
    "tasks": [
        {"id": "build", "title": "Build", "writes": ["dist/"], "estimate_usd": "0.10"},
        {"id": "test", "title": "Test", "depends_on": ["build"], "reads": ["dist/"], "description": "All of it"},
        {"id": "ship", "title": "Ship", "depends_on": ["test", "build:finished"], "priority": 9, "payload": {"x": [1]}},
    ],
}


def changed(**tasks):
    """The plan with some fields of some tasks changed."""
    plan = copy.deepcopy(PLAN)
    return plan | {"tasks": [task | tasks.get(task["id"], {}) for task in plan["tasks"]]}


def test_a_plan_puts_its_tasks_on_the_board(board):
    """With its defaults, in its workspace."""
    report = board.apply_plan(PLAN, agent_id="planner")
    assert (report.plan, report.created) == ("release", ("build", "test", "ship"))
    assert (report.updated, report.unchanged) == ((), ())
    assert states(board) == {"build": "pending", "test": "blocked", "ship": "blocked"}
    task = board.get_task("build")
    assert (task.plan, task.priority, task.urgency, task.tags) == ("release", 2, 9, ("r",))
    assert (task.lease_timeout_us, task.estimate_pusd) == (90_000_000, 10**11)
    assert board.status().plans[0].workspace == "/repo"
    assert {event.agent_id for event in board.events()} == {"planner"}


def test_applying_a_plan_again_changes_nothing(board):
    """No task, no event; however far the work has come."""
    board.apply_plan(PLAN)
    claimed(board, "build").note("working")
    before = event_count(board)
    report = board.apply_plan(PLAN)
    assert (report.created, report.updated, report.unchanged) == ((), (), ("build", "test", "ship"))
    assert event_count(board) == before


@pytest.mark.parametrize("reads", [["dist/"], ["dist/", "src"]])
def test_a_plan_that_reads_what_it_writes_is_the_same_the_second_time(board, reads):
    """The forms in which things are kept do not count as a change."""
    plan = {"tasks": [{"id": "a", "title": "A", "writes": ["dist/"], "reads": reads, "requires": ["b", "a", "b"]}]}
    board.apply_plan(plan)
    assert board.apply_plan(plan).unchanged == ("a",)


@pytest.mark.parametrize(
    ("fields", "attribute", "value"),
    [
        ({"title": "Test all"}, "title", "Test all"),
        ({"priority": 4}, "priority", 4),
        ({"description": None}, "description", None),
        ({"writes": ["out/"], "reads": []}, "writes", ("out/**",)),
        ({"requires": ["gpu"]}, "requires", ("gpu",)),
        ({"tags": []}, "tags", ()),
        ({"max_attempts": 7}, "max_attempts", 7),
        ({"lease_timeout_sec": 30}, "lease_timeout_us", 30_000_000),
        ({"max_hold_sec": 300}, "max_hold_us", 300_000_000),
        ({"estimate_usd": "2"}, "estimate_pusd", 2 * 10**12),
        ({"estimate_tokens": 50}, "estimate_tokens", 50),
        ({"payload": False}, "payload", False),
        ({"not_before": "2026-01-02T00:00:00Z"}, "not_before_us", 1_767_312_000_000_000),
    ],
)
def test_a_changed_plan_changes_what_it_says(board, fields, attribute, value):
    """The one task, once."""
    board.apply_plan(PLAN)
    report = board.apply_plan(changed(test=fields))
    assert (report.created, report.updated, report.unchanged) == ((), ("test",), ("build", "ship"))
    assert getattr(board.get_task("test"), attribute) == value
    assert board.apply_plan(changed(test=fields)).updated == ()


def test_a_changed_plan_changes_the_edges(board):
    """Old ones go, new ones come, conditions change; the states follow."""
    board.apply_plan(PLAN)
    report = board.apply_plan(changed(test={"depends_on": []}, ship={"depends_on": ["test:finished", "build"]}))
    assert report.updated == ("test", "ship")
    assert set(board.edges()) == {("ship", "test", "finished"), ("ship", "build", "completed")}
    assert states(board)["test"] == "pending"


def test_a_plan_that_takes_urgency_and_edge_away_lowers_what_was_waited_for(board):
    """All the way up, also where two edges in a row go at once."""
    chain = [{"id": "a", "title": "A"}, {"id": "b", "title": "B", "depends_on": ["a"]}]
    board.apply_plan({"tasks": [*chain, {"id": "c", "title": "C", "depends_on": ["b"], "priority": 5}]})
    assert board.get_task("a").urgency == 5
    loose = [{"id": name, "title": name.upper()} for name in "cba"]
    board.apply_plan({"tasks": loose})
    assert [board.get_task(name).urgency for name in "abc"] == [0, 0, 0]


def test_new_tasks_may_wait_for_old_ones_and_old_ones_for_new(board):
    """In one application."""
    board.apply_plan(PLAN)
    plan = changed(ship={"depends_on": ["test", "build:finished", "sign"]})
    plan["tasks"].append({"id": "sign", "title": "Sign", "depends_on": ["build"]})
    report = board.apply_plan(plan)
    assert (report.created, report.updated) == (("sign",), ("ship",))
    assert board.get_task("sign").urgency == 9


def test_tasks_that_a_plan_no_longer_lists_are_left_alone(board):
    """Nothing is ever removed by a file that lacks it."""
    board.apply_plan(PLAN)
    report = board.apply_plan({**PLAN, "tasks": PLAN["tasks"][:1]})
    assert (report.unchanged, len(states(board))) == (("build",), 3)


def test_a_task_that_has_ended_may_be_listed_as_it_was(board):
    """But not changed: the whole plan is refused then."""
    board.apply_plan(PLAN)
    done(board, "build")
    assert board.apply_plan(PLAN).unchanged == ("build", "test", "ship")
    before = event_count(board)
    with pytest.raises(WrongState) as caught:
        board.apply_plan(changed(build={"title": "New"}, test={"title": "New"}))
    assert (caught.value.task_id, event_count(board)) == ("build", before)
    assert board.get_task("test").title == "Test"


def test_a_task_of_another_plan_is_not_taken_over(board):
    """Ids are unique on the board; the error says where it belongs."""
    put(board, "build", plan="other")
    with pytest.raises(WrongState, match="'other'"):
        board.apply_plan(PLAN)
    assert states(board) == {"build": "pending"}


def test_a_plan_may_wait_for_tasks_of_other_plans(board):
    """The graph does not end at the plan."""
    put(board, "outside", plan="other")
    board.apply_plan({"plan": "mine", "tasks": [{"id": "a", "title": "A", "depends_on": ["outside"]}]})
    assert states(board)["a"] == "blocked"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"tasks": [{"title": "x"}]}, "tasks[0].id"),
        ({"tasks": [{"id": "a"}]}, "tasks[0].title"),
        ({"tasks": [{"id": "a", "title": "A"}, {"id": "b", "title": ""}]}, "tasks[1].title"),
        ({"tasks": [{"id": "a", "title": "A", "color": "red"}]}, "tasks[0].color"),
        ({"tasks": [{"id": "a", "title": "A", "plan": "other"}]}, "tasks[0].plan"),
        ({"tasks": ["a"]}, "tasks[0]"),
        ({"tasks": None}, "tasks"),
        ({"tasks": {"a": 1}}, "tasks"),
        ({}, "tasks"),
        ({"tasks": [], "color": "red"}, "plan"),
        ({"tasks": [], "plan": ""}, "plan"),
        ({"tasks": [], "plan": None}, "plan"),
        ({"tasks": [], "workspace": 5}, "workspace"),
        ({"tasks": [], "workspace": "x" * 129}, "workspace"),
        ({"tasks": [], "defaults": ["a"]}, "defaults"),
        ({"tasks": [], "defaults": ""}, "defaults"),
        ({"tasks": [], "defaults": {"id": "a"}}, "defaults"),
        ({"tasks": [{"id": "a", "title": "A"}], "defaults": {"priority": "high"}}, "tasks[0].priority"),
        ([], "plan"),
        (None, "plan"),
        ("plan", "plan"),
    ],
)
def test_what_is_no_plan_is_refused_and_the_place_named(board, document, field):
    """Nothing is written, not even the plan's name."""
    with pytest.raises(InvalidArgument) as caught:
        board.apply_plan(document)
    assert caught.value.field == field
    assert (event_count(board), board.status().plans) == (0, ())


@pytest.mark.parametrize(
    ("tasks", "error"),
    [
        (
            [{"id": "a", "title": "A", "depends_on": ["b"]}, {"id": "b", "title": "B", "depends_on": ["a"]}],
            CycleRefused,
        ),
        ([{"id": "a", "title": "A", "depends_on": ["nowhere"]}], NotFound),
    ],
)
def test_a_plan_that_cannot_be_leaves_the_board_as_it_was(board, tasks, error):
    """All or none."""
    with pytest.raises(error):
        board.apply_plan({"plan": "mine", "tasks": tasks})
    assert (event_count(board), rows(board, "SELECT COUNT(*) FROM plan")) == (0, [(0,)])


def test_a_new_edge_that_closes_a_circle_with_old_ones_is_refused(board):
    """The board as a whole counts, not the file."""
    board.apply_plan(PLAN)
    with pytest.raises(CycleRefused):
        board.apply_plan(changed(build={"depends_on": ["ship"]}))
    assert len(board.edges()) == 3


@pytest.mark.parametrize("there", [False, True])
def test_a_task_listed_twice_is_refused(board, there):
    """Which of the two would count? Whether it is on the board already or not."""
    if there:
        put(board, "a")
    with pytest.raises(InvalidArgument) as caught:
        board.apply_plan({"tasks": [{"id": "a", "title": "A"}, {"id": "a", "title": "B"}]})
    assert caught.value.field == "tasks[1].id"
    assert len(states(board)) == there


def test_a_time_in_a_plan_counts_until_the_task_is_first_handed_out(board, clock):
    """From then on the board sets times itself: applying the plan again cuts no retry short."""
    plan = {"tasks": [{"id": "a", "title": "A", "not_before": "2026-01-01T00:00:10Z"}]}
    board.apply_plan(plan)
    board.update_task("a", not_before=None)
    assert board.apply_plan(plan).updated == ("a",)
    clock.advance(10)
    retry = claimed(board, "a").fail("x").not_before_us
    assert board.apply_plan(plan).unchanged == ("a",)
    assert board.get_task("a").not_before_us == retry


def test_the_workspace_of_a_plan_does_not_change(board):
    """Its paths are held there; leaving it out is no change."""
    board.apply_plan(PLAN)
    with pytest.raises(InvalidArgument) as caught:
        board.apply_plan({**PLAN, "workspace": "/elsewhere"})
    assert caught.value.field == "workspace"
    assert board.apply_plan({key: value for key, value in PLAN.items() if key != "workspace"}).unchanged


def test_an_empty_plan_is_a_plan(board):
    """With its workspace, to be filled later."""
    report = board.apply_plan({"plan": "later", "workspace": "/w", "tasks": []})
    assert (report.created, report.updated, report.unchanged) == ((), (), ())
    assert board.create_task("T", plan="later").plan == "later"


def test_a_plan_without_a_name_is_the_default_one(board):
    """As a task without one."""
    assert board.apply_plan({"tasks": [{"id": "a", "title": "A"}]}).plan == "default"
