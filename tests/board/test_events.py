"""The history: every change writes its event in its own transaction, and a cursor reads them all, once, in order."""

import threading
from itertools import pairwise

import pytest

from agentmesh.errors import AgentMeshError, CursorExpired
from tests.support.boards import claimed, damage, done, event_count, kinds, open_board, put, rows, states, violations


def lease_of(board):
    """The lease of a task `h` in hand."""
    put(board, "h")
    return claimed(board, "h").lease


def dead(board):
    """A task `z` whose holder has died."""
    put(board, "z", lease_timeout_sec=1)
    claimed(board, "z")
    board.store.clock.advance(1)


def pause(board):
    """A paused board."""
    board.pause()


MUTATIONS = {
    "create_task": (None, lambda board, _: board.create_task("T"), ["task_created"]),
    "create_tasks": (None, lambda board, _: board.create_tasks([{"title": "T"}] * 2), ["task_created"] * 2),
    "apply_plan": (None, lambda board, _: board.apply_plan({"tasks": [{"id": "n", "title": "N"}]}), ["task_created"]),
    "update_task": (None, lambda board, _: board.update_task("a", priority=2), ["task_updated"]),
    "claim_task": (None, lambda board, _: board.claim_task("x"), ["task_claimed"]),
    "resume": (lease_of, lambda board, _: board.claim_task("worker", task_id="h", resume=True), ["task_resumed"]),
    "complete_task": (lease_of, lambda board, lease: board.complete_task(lease), ["task_completed"]),
    "fail_task": (lease_of, lambda board, lease: board.fail_task(lease, "x"), ["task_failed"]),
    "release_task": (lease_of, lambda board, lease: board.release_task(lease), ["task_released"]),
    "split_task": (
        lease_of,
        lambda board, lease: board.split_task(lease, [{"title": "S"}]),
        ["task_split", "task_created", "dependency_added"],
    ),
    "hold_paths": (lease_of, lambda board, lease: board.hold_paths(lease, writes=["f"]), ["paths_held"]),
    "note": (lease_of, lambda board, lease: board.note(lease, "hello"), ["noted"]),
    "cancel_task": (None, lambda board, _: board.cancel_task("a"), ["task_cancelled"] * 2),
    "cancel_plan": (None, lambda board, _: board.cancel_plan("default"), ["task_cancelled"] * 3),
    "reopen_task": (None, lambda board, _: board.reopen_task("done"), ["task_reopened"]),
    "add_dependency": (None, lambda board, _: board.add_dependency("b", "a"), ["dependency_added"]),
    "remove_dependency": (None, lambda board, _: board.remove_dependency("c", "a"), ["dependency_removed"]),
    "reclaim_zombies": (dead, lambda board, _: board.reclaim_zombies(), ["lease_reclaimed"]),
    "pause": (None, lambda board, _: board.pause(), ["paused"]),
    "prune": (None, lambda board, _: board.prune(plan="default", older_than_sec=0), ["pruned"]),
    "put": (None, lambda board, _: board.blackboard.put("n", "k", 1), ["entry_put"]),
    "increment": (None, lambda board, _: board.blackboard.increment("n", "k"), ["entry_put"]),
    "append": (None, lambda board, _: board.blackboard.append("n", "k", 1), ["entry_put"]),
    "delete": (
        lambda board: board.blackboard.put("n", "k", 1),
        lambda board, _: board.blackboard.delete("n", "k"),
        ["entry_deleted"],
    ),
    "unpause": (pause, lambda board, _: board.resume(), ["resumed"]),
}
TABLES = (
    "plan",
    "task",
    "edge",
    "attempt",
    "hold",
    "pause",
    "note",
    "result",
    "body",
    "tally",
    "event",
    "request",
    "entry",
    "entry_value",
    "entry_tombstone",
    "task_tombstone",
)


class Stop(Exception):
    """What a test throws into a commit."""


class Thrower:
    """A probe that notes where the store is, and throws at one point once it is armed."""

    def __init__(self):
        self.points = []
        self.armed = None

    def reached(self, point):
        """The store is at `point`."""
        self.points.append(point)
        if point == self.armed:
            raise Stop


@pytest.fixture
def probe():
    """A probe that can be armed."""
    return Thrower()


@pytest.fixture(params=MUTATIONS)
def mutation(request, board_path, clock, probe):
    """A board on which one mutation is about to happen: the board, the call, the events that it writes."""
    prepare, call, expected = MUTATIONS[request.param]
    with open_board(board_path, clock, probe=probe) as board:
        put(board, "done", "a", "b", "c: a")
        done(board, "done")
        given = prepare(board) if prepare else None
        yield board, lambda: call(board, given), expected
        assert violations(board) == {}


def everything(board):
    """All rows of all tables."""
    return {table: rows(board, f"SELECT * FROM {table}") for table in TABLES}


def test_every_mutation_writes_its_events(mutation):
    """One or more, of the kinds that tell what happened."""
    board, call, expected = mutation
    before = event_count(board)
    call()
    assert kinds(board, before) == expected


def test_every_mutation_writes_its_events_in_its_own_transaction(mutation, probe):
    """If the commit does not happen, neither the change nor the event has: no row of any table differs."""
    board, call, _ = mutation
    before = everything(board)
    probe.armed = "commit"
    with pytest.raises(Stop):
        call()
    probe.armed = None
    assert everything(board) == before
    call()
    assert everything(board) != before


def test_every_mutation_is_one_transaction_with_events_last(mutation, probe):
    """One begin, one commit; after the first event only events follow, so their order is that of the commits."""
    _, call, _ = mutation
    probe.points.clear()
    call()
    assert probe.points.count("commit") == 1
    written = [point for point in probe.points[: probe.points.index("commit")] if point.startswith("do:")]
    first = written.index("do:add_event")
    later = {"do:add_event", "do:task_by_id", "do:note_by_pk"}  # the answer is read back at the end
    assert set(written[first:]) <= later


@pytest.mark.parametrize("point", ["begin", "commit", "do:add_event", "do:count_states"])
def test_a_call_that_is_stopped_anywhere_takes_no_effect(board_path, clock, probe, point):
    """And the board goes on as if it had never been made."""
    with open_board(board_path, clock, probe=probe) as board:
        put(board, "a", "b: a")
        claim = claimed(board, "a")
        before = everything(board)
        probe.armed = point
        with pytest.raises(Stop):
            claim.complete({"n": 1})
        probe.armed = None
        assert everything(board) == before
        assert claim.complete({"n": 1}).state == "completed"
        assert states(board) == {"a": "completed", "b": "pending"}


def test_a_cursor_reads_every_event_once_in_order(board):
    """Page by page, without gaps."""
    for number in range(25):
        put(board, f"t{number}")
    found, cursor = [], 0
    while page := board.events(cursor, limit=7):
        assert len(page) <= 7
        found += page
        cursor = page[-1].seq
    assert [event.seq for event in found] == list(range(1, 26))
    assert [event.task_id for event in found] == [f"t{number}" for number in range(25)]


def test_events_are_numbered_without_gaps_whatever_was_refused_between(board, probe, board_path, clock):
    """A transaction that is rolled back uses up no number."""
    with open_board(board_path, clock, seed=3, probe=probe) as other:
        put(board, "a")
        probe.armed = "commit"
        with pytest.raises(Stop):
            other.create_task("T")
        with pytest.raises(AgentMeshError):
            board.create_task("T", id="a")
        put(board, "b")
    assert [event.seq for event in board.events()] == [1, 2]


def test_two_events_of_one_instant_keep_their_order(board):
    """The order is that of the commits, not of the clock."""
    put(board, "a")
    claimed(board, "a").complete()
    board.reopen_task("a")
    found = board.events()
    assert len({event.at_us for event in found}) == 1
    assert [event.kind for event in found] == ["task_created", "task_claimed", "task_completed", "task_reopened"]


def test_the_order_survives_a_clock_that_goes_back(board, clock):
    """`seq` counts on; the instants tell what the clock told."""
    put(board, "a")
    clock.advance(-60)
    put(board, "b")
    one, two = board.events()
    assert one.seq < two.seq
    assert one.at_us > two.at_us


def test_an_event_tells_who_did_what_to_which_task_of_which_plan(board, clock):
    """With the fence of the attempt, where there is one."""
    put(board, "a", plan="p")
    clock.advance(3)
    claimed(board, "a", "coder")
    event = board.events()[-1]
    assert (event.kind, event.plan, event.task_id, event.fence, event.agent_id) == (
        "task_claimed",
        "p",
        "a",
        1,
        "coder",
    )
    assert event.at_us == clock.now_us()
    assert event.data == {"expires_us": clock.now_us() + 60_000_000}


@pytest.mark.parametrize("after", [4, 1000, 2**63 - 1])
def test_a_cursor_past_the_newest_event_has_expired(board, after):
    """It is of another board, or of one that was restored: the reader must begin anew, and is told from where."""
    put(board, "a", "b", "c")
    with pytest.raises(CursorExpired) as caught:
        board.events(after)
    assert (caught.value.code, caught.value.after) == ("cursor_expired", after)
    assert "3" in caught.value.hint


def test_a_cursor_at_the_newest_event_reads_nothing_yet(board):
    """It is not expired: it waits for the next."""
    put(board, "a")
    assert board.events(1) == []
    assert board.events(0)[0].seq == 1


def test_an_empty_history_is_read_from_the_beginning(board):
    """Cursor 0 is good, any other is not."""
    assert board.events() == []
    with pytest.raises(CursorExpired):
        board.events(1)


@pytest.mark.damaged
def test_a_cursor_before_the_oldest_event_kept_has_expired(board):
    """What was pruned cannot be told; the last one before the first that is kept is still good."""
    put(board, "a", "b", "c", "d")
    damage(board, "DELETE FROM event WHERE seq <= 2")
    assert [event.seq for event in board.events(2)] == [3, 4]
    for after in (0, 1):
        with pytest.raises(CursorExpired):
            board.events(after)


def test_readers_and_writers_of_many_threads_agree_on_one_order(board):
    """Six threads write; two read along with a cursor; both readers see the same gap-free history."""
    together = threading.Barrier(8)
    seen = [[], []]

    def write(name):
        together.wait(30)
        for number in range(20):
            put(board, f"{name}-{number}")

    def read(mine):
        together.wait(30)
        while len(mine) < 120:
            mine += board.events(mine[-1].seq if mine else 0, wait_sec=50)

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(6)]
    threads += [threading.Thread(target=read, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert seen[0] == seen[1]
    assert all(later.seq == earlier.seq + 1 for earlier, later in pairwise(seen[0]))
