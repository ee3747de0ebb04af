"""Keys: at most one open task of a key; it is given back while it is open, and the key is free when it has ended."""

import pytest

from agentmesh.errors import CycleRefused, DuplicateId, InvalidArgument, WrongState
from tests.support.boards import claimed, done, ended, event_count, open_board, put, states, violations

DAY = 86_400


def test_an_open_task_of_the_key_is_given_back(board):
    """Whatever else is said of the new one; nothing happens on the board, and the answer says so."""
    first = board.create_task("Nightly", key="nightly", id="n1")
    before = event_count(board)
    again = board.create_task("Other", key="nightly", id="n2", plan="elsewhere", priority=5)
    assert (first.key, first.existing) == ("nightly", False)
    assert (again.id, again.title, again.plan, again.existing) == ("n1", "Nightly", "default", True)
    assert event_count(board) == before
    assert states(board) == {"n1": "pending"}


@pytest.mark.parametrize("how", ["completed", "failed", "cancelled"])
def test_the_key_is_free_when_its_task_is_final(board, how):
    """However it ended, and whether it was held meanwhile."""
    board.create_task("T", key="nightly", id="n1")
    ended(board, "n1", how)
    second = board.create_task("T", key="nightly", id="n2")
    assert (second.id, second.existing) == ("n2", False)
    assert violations(board) == {}


@pytest.mark.parametrize("state", ["pending", "scheduled", "blocked", "in_progress", "paused"])
def test_a_task_in_any_open_state_has_its_key(board, clock, state):
    """Ready or not."""
    put(board, "p")
    fields = {
        "scheduled": {"not_before": clock.now_us() / 1_000_000 + 9},
        "blocked": {"depends_on": ["p"]},
    }.get(state, {})
    board.create_task("T", key="k", id="n1", **fields)
    if state == "in_progress":
        claimed(board, "n1")
    if state == "paused":
        board.pause(task_id="n1")
    assert board.create_task("T", key="k").id == "n1"


def test_the_task_of_the_second_night_is_a_new_one(board, clock):
    """Neither an id, which is for good, nor a request, which is for a day, does that."""
    for night in range(3):
        task = board.create_task("Nightly", key="nightly")
        assert not task.existing
        assert board.create_task("Nightly", key="nightly").id == task.id
        done(board, task.id)
        clock.advance(DAY * 20 / 24)
        assert len(states(board)) == night + 1


def test_an_id_that_is_taken_is_refused_unless_its_task_is_the_open_one_of_the_key(board):
    """Same id and same key while it is open: that one; later the id stays taken."""
    board.create_task("T", key="k", id="n")
    assert board.create_task("T", key="k", id="n").existing
    done(board, "n")
    with pytest.raises(DuplicateId):
        board.create_task("T", key="k", id="n")


def test_in_a_batch_the_open_task_stands_for_the_wished_one(board):
    """Those that wait for it by the id that was wished wait for the open one."""
    board.create_task("T", key="k", id="open")
    made = board.create_tasks(
        [
            {"title": "Nightly", "id": "wished", "key": "k"},
            {"title": "Report", "id": "report", "depends_on": ["wished:finished"]},
            {"title": "New", "id": "new", "key": "other"},
        ]
    )
    assert [(task.id, task.existing) for task in made] == [("open", True), ("report", False), ("new", False)]
    assert [(edge.id, edge.condition) for edge in board.get_task("report").depends_on] == [("open", "finished")]
    assert violations(board) == {}


def test_a_key_is_named_once_in_a_batch(board):
    """Which of the two would stand for it?"""
    with pytest.raises(InvalidArgument) as caught:
        board.create_tasks([{"title": "a", "key": "k"}, {"title": "b", "key": "k"}])
    assert caught.value.field == "key"
    assert states(board) == {}


def test_a_request_is_repeated_beside_a_key(board):
    """The same answer, also after the key has become free."""
    board.create_task("T", key="k", id="n1")
    second = board.create_task("T", key="k", request_id="r")
    done(board, "n1")
    again = board.create_task("T", key="k", request_id="r")
    assert (second.id, again.id, again.existing, again.state) == ("n1", "n1", True, "completed")


def test_a_task_whose_key_is_taken_is_not_reopened(board):
    """The open one is named; once it has ended, the other may come back."""
    board.create_task("T", key="k", id="n1")
    done(board, "n1")
    board.create_task("T", key="k", id="n2")
    before = event_count(board)
    with pytest.raises(WrongState, match="task 'n2' is open and has its key"):
        board.reopen_task("n1")
    assert event_count(board) == before
    done(board, "n2")
    assert board.reopen_task("n1").state == "pending"


def test_a_cascade_leaves_out_whose_key_is_taken(board):
    """As it leaves out what can not run; of two with one key, one comes back."""
    board.create_task("T", id="root")
    board.create_task("T", id="c1", key="k", depends_on=["root"])
    board.cancel_task("root")
    board.create_task("T", id="c2", key="k")
    board.reopen_task("root", cascade=True)
    assert states(board) == {"root": "pending", "c1": "cancelled", "c2": "pending"}
    assert violations(board) == {}


def test_a_split_may_wait_for_an_open_task_of_a_key(board):
    """It is one of its parts; the task itself is not."""
    board.create_task("T", id="shared", key="k")
    board.create_task("T", id="whole", key="w")
    parts = claimed(board, "whole").split([{"title": "Part", "key": "k"}])
    assert [part.id for part in parts] == ["shared"]
    assert states(board) == {"shared": "pending", "whole": "blocked"}
    done(board, "shared")
    with pytest.raises(CycleRefused):
        claimed(board, "whole").split([{"title": "Part", "key": "w"}])


def test_a_key_is_given_once(board):
    """An update does not change it, nor does a plan."""
    board.create_task("T", id="n", key="k")
    with pytest.raises(InvalidArgument) as caught:
        board.update_task("n", key="other")
    assert caught.value.field == "key"
    with pytest.raises(InvalidArgument) as caught:
        board.apply_plan({"tasks": [{"id": "n", "title": "T", "key": "other"}]})
    assert caught.value.field == "key"


def test_a_plan_is_applied_twice_beside_an_open_task_of_its_key(board):
    """The task is not created while another has its key; those that wait for it wait for that one, both times."""
    board.create_task("T", id="last-night", key="nightly")
    plan = {
        "tasks": [
            {"id": "tonight", "title": "Nightly", "key": "nightly"},
            {"id": "report", "title": "Report", "depends_on": ["tonight"]},
        ]
    }
    report = board.apply_plan(plan)
    assert (report.created, report.unchanged) == (("report",), ("tonight",))
    report = board.apply_plan(plan)
    assert (report.created, report.updated, report.unchanged) == ((), (), ("tonight", "report"))
    done(board, "last-night")
    assert board.apply_plan(plan).created == ("tonight",)
    assert violations(board) == {}


def test_two_processes_of_one_key_make_one_task(board_path, clock):
    """The second board object sees what the first has written, whatever it knew before."""
    with open_board(board_path, clock) as one, open_board(board_path, clock, seed=1) as two:
        two.status()
        first = one.create_task("T", key="k")
        assert two.create_task("T", key="k").id == first.id


@pytest.mark.parametrize("key", ["", "with space", "x" * 129, 5])
def test_a_key_is_a_name(board, key):
    """Like an id."""
    with pytest.raises(InvalidArgument) as caught:
        board.create_task("T", key=key)
    assert caught.value.field == "key"


def test_the_history_names_the_key(board):
    """Of the task that was created."""
    board.create_task("T", key="k", id="n")
    assert board.events()[-1].data["key"] == "k"
