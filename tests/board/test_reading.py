"""Looking at a board: status, lists, single tasks; one rule decides readiness for all of them."""

import pytest
from hypothesis import given, settings, strategies as st

from agentmesh.model import STATES
from tests.support.boards import claimed, done, event_count, open_board, put
from tests.support.clock import TurnableClock


def ids(page):
    """The ids of a page."""
    return [task.id for task in page.tasks]


def all_states(board):
    """A board with a task in each state, named after it."""
    put(board, "completed", "failed", "cancelled", "in_progress", "pending", "blocked: pending")
    board.create_task("T", id="scheduled", not_before="2026-01-01T00:10:00Z")
    done(board, "completed")
    claimed(board, "failed").fail("x", retry=False)
    board.cancel_task("cancelled")
    claimed(board, "in_progress", "ada")


def test_the_status_counts_tasks_by_state_and_plan(board, clock):
    """From the tallies, whatever their number."""
    all_states(board)
    put(board, "x", "y", plan="other")
    status = board.status()
    assert status.counts == dict.fromkeys(STATES, 1) | {"pending": 3}
    assert [(plan.plan, plan.total) for plan in status.plans] == [("default", 7), ("other", 2)]
    assert status.plans[1].counts == dict.fromkeys(STATES, 0) | {"pending": 2}
    assert (status.total, status.open) == (9, 6)
    assert (status.now_us, status.last_seq) == (clock.now_us(), event_count(board))


def test_the_status_of_an_empty_board(board):
    """All zeros."""
    status = board.status()
    assert status.counts == dict.fromkeys(STATES, 0)
    assert (status.total, status.open, status.plans, status.pauses) == (0, 0, (), ())
    assert (status.last_seq, status.leases_due, status.next_due_us) == (0, 0, None)


def test_the_status_tells_what_time_will_change_next(board, clock):
    """The first lease to end or time to come, and how many leases are due already."""
    put(board, "a", "b")
    board.create_task("T", not_before="2026-01-01T00:00:30Z")
    assert board.status().next_due_us == clock.now_us() + 30_000_000
    claimed(board, "a")
    claimed(board, "b")
    clock.advance(60)
    status = board.status()
    assert (status.leases_due, status.next_due_us) == (2, clock.now_us() - 30_000_000)


@pytest.mark.parametrize("state", STATES)
def test_tasks_are_listed_by_state(board, state):
    """Each in its own list."""
    all_states(board)
    assert ids(board.list_tasks(state=state)) == [state]


def test_tasks_are_listed_in_the_order_of_their_creation(board, clock):
    """Not of urgency, not of the clock."""
    put(board, "b", priority=1)
    clock.advance(-60)
    put(board, "a", priority=9)
    assert ids(board.list_tasks()) == ["b", "a"]


def test_filters_narrow_each_other(board):
    """Plan, state, tag and holder, in any combination."""
    for name, plan, tags in [("a", "p", ["t"]), ("b", "p", []), ("c", "q", ["t", "u"]), ("d", "q", ["t"])]:
        board.create_task(name, id=name, plan=plan, tags=tags)
    claimed(board, "a", "ada")
    claimed(board, "c", "ada")
    claimed(board, "d", "bob")
    assert ids(board.list_tasks(plan="p")) == ["a", "b"]
    assert ids(board.list_tasks(tag="t")) == ["a", "c", "d"]
    assert ids(board.list_tasks(holder="ada")) == ["a", "c"]
    assert ids(board.list_tasks(tag="t", plan="q", holder="ada")) == ["c"]
    assert ids(board.list_tasks(state="in_progress", plan="q")) == ["c", "d"]
    assert ids(board.list_tasks(state="pending", holder="ada")) == []
    assert ids(board.list_tasks(tag="t", state="in_progress", holder="bob")) == ["d"]
    assert ids(board.list_tasks(plan="none")) == ids(board.list_tasks(tag="none")) == []


def test_names_in_filters_are_no_patterns(board):
    """`%` and `_` mean themselves."""
    put(board, "a", plan="john-doe", tags=["x_y"])
    for wild in ("john_doe", "%", "john%"):
        assert ids(board.list_tasks(plan=wild)) == []
    assert ids(board.list_tasks(tag="x%y")) == []
    assert ids(board.list_tasks(plan="john-doe", tag="x_y")) == ["a"]


@pytest.mark.parametrize("filters", [{}, {"state": "pending"}, {"tag": "t"}, {"plan": "default"}, {"holder": "ada"}])
@pytest.mark.parametrize("limit", [1, 3, 10, 11])
def test_pages_give_every_task_once(board, filters, limit):
    """The cursor of the last page is None; there is no empty page at the end."""
    names = [f"t{n:02}" for n in range(10)]
    put(board, *names, tags=["t"])
    if "holder" in filters:
        for name in names:
            claimed(board, name, "ada")
    found, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = board.list_tasks(limit=limit, cursor=cursor, **filters)
        assert 0 < len(page.tasks) <= limit
        found += ids(page)
        cursor, pages = page.cursor, pages + 1
    assert found == names
    assert pages == -(-10 // limit)


def test_a_page_is_stable_while_tasks_come_and_go(board):
    """New ones come at the end; what was seen is not seen again."""
    put(board, "a", "b", "c")
    page = board.list_tasks(limit=2)
    done(board, "a")
    put(board, "d")
    assert ids(board.list_tasks(limit=2, cursor=page.cursor)) == ["c", "d"]


def test_a_list_spares_the_long_texts(board):
    """They are for `get_task`; who holds a task is in both."""
    put(board, "p")
    board.create_task("T", id="a", description="long", payload=[1], depends_on=["p"])
    claimed(board, "p", "ada")
    listed, parent = board.list_tasks(plan="default").tasks[1], board.list_tasks().tasks[0]
    assert (listed.description, listed.payload, listed.depends_on, listed.unmet) == (None, None, (), 1)
    assert (parent.holder, parent.lease_expires_us) == ("ada", board.get_task("p").lease_expires_us)
    full = board.get_task("a")
    assert (full.description, full.payload, full.depends_on[0].id) == ("long", [1], "p")


def test_reading_changes_nothing(board, clock):
    """No verb that looks writes so much as a row; due leases are left to the next claim."""
    all_states(board)
    clock.advance(3600)
    before = board.store._writer.total_changes()
    version = board.store.version()
    for look in (board.status, board.list_tasks, board.explain, board.check, board.edges, board.has_work, board.events):
        look()
    board.get_task("failed")
    board.attempts("failed")
    board.notes("failed")
    assert board.store._writer.total_changes() == before
    assert board.store.version() == version


def test_a_result_is_shown_only_while_its_task_is_completed(board):
    """A reopened task has none until it is completed again."""
    put(board, "a")
    done(board, "a", 1)
    board.reopen_task("a")
    claimed(board, "a").fail("x", retry=False)
    assert board.get_task("a").result is None


STEPS = st.lists(st.tuples(st.sampled_from("cfxrap"), st.integers(0, 5), st.integers(0, 5)), max_size=20)


def some_step(board, how, one, two):
    """One of: complete, fail, cancel, release, add an edge, pass a minute."""
    task = board.get_task(f"t{one}")
    if how in "cfr" and task.state == "pending":
        claim = board.claim_task("x", task_id=task.id, capabilities=["gpu"])
        _ = claim and {"c": claim.complete, "f": lambda: claim.fail("x"), "r": claim.release}[how]()
    elif how == "x" and task.state in ("pending", "blocked", "scheduled"):
        board.cancel_task(task.id)
    elif how == "a" and one > two and task.state in ("pending", "blocked", "scheduled"):
        board.add_dependency(task.id, f"t{two}", condition="finished")
    elif how == "p":
        board.store.clock.advance(61)


@settings(max_examples=30)
@given(STEPS)
def test_list_counts_and_claims_agree_on_what_is_ready(tmp_path_factory, steps):
    """On any board: the tasks listed as pending, their count, and what claims hand out are the same."""
    with open_board(tmp_path_factory.mktemp("ready") / "board.db", TurnableClock()) as board:
        for number in range(6):
            fields = {"requires": ["gpu"]} if number == 5 else {"writes": [f"f{number}"]} if number % 2 else {}
            board.create_task("T", id=f"t{number}", **fields)
        for step in steps:
            some_step(board, *step)
        board.store.clock.advance(700)
        first = board.claim_task("other", capabilities=["gpu"])
        ready = {task.id for task in board.list_tasks(state="pending").tasks}
        assert board.status().counts["pending"] == len(ready)
        given_out = set()
        while claim := board.claim_task("y", capabilities=["gpu"]):
            given_out.add(claim.task.id)
        assert given_out == ready
        assert first or not ready
        assert not board.has_work(capabilities=["gpu"])
