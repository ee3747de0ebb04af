"""Every write is inside a transaction that took the write lock first, and nothing stays open behind a call."""

import apsw
import pytest

from tests.support.boards import open_board, violations


class Trace:
    """Everything that the connections of this process run, and what of it breaks the rule."""

    def __init__(self):
        self.connections = []
        self.begun = {}
        self.offences = []
        self.statements = 0

    def __call__(self, connection):
        """A connection is opened."""
        self.connections.append(connection)
        connection.exec_trace = self.ran

    def ran(self, cursor, sql, _bindings):
        """A connection runs a statement."""
        self.statements += 1
        connection, words = cursor.connection, sql.split(None, 2)
        verb = words[0].upper()
        if verb == "BEGIN":
            self.begun[connection] = sql
        elif verb in ("COMMIT", "ROLLBACK"):
            self.begun.pop(connection, None)
        elif not cursor.is_readonly and verb != "PRAGMA" and self.begun.get(connection) != "BEGIN IMMEDIATE":
            self.offences.append((self.begun.get(connection), sql))
        return True


@pytest.fixture
def trace():
    """Watches every connection that is opened from here on."""
    watching = Trace()
    apsw.connection_hooks.append(watching)
    yield watching
    apsw.connection_hooks.remove(watching)


def a_working_day(board, clock):
    """A bit of everything that a board does."""
    board.apply_plan({"plan": "p", "tasks": [{"id": f"p{n}", "title": "t", "writes": [f"p/{n}"]} for n in range(4)]})
    board.create_tasks([{"title": "t", "id": f"t{n}", "tags": ["x"]} for n in range(6)], request_id="once")
    board.create_task("t", id="child", depends_on=["t0", "t1:finished"], description="d", payload={"a": 1})
    board.create_task("t", id="urgent", depends_on=["child"], priority=9)
    board.claim_task("a", task_id="t0").complete({"done": True})
    board.claim_task("a", task_id="t1").fail("broken", kind="infra")
    board.claim_task("a", task_id="t2").release(delay_sec=1)
    board.claim_task("a", task_id="t3").split([{"title": "s"}, {"title": "s"}])
    held = board.claim_task("b", plan="p")
    held.hold_paths(writes=["q/**"])
    held.note("seen")
    held.heartbeat()
    board.claim_task("c", tags=["x"], request_id="once")
    board.claim_task("c", resume=True)
    board.add_dependency("t5", "urgent")
    board.remove_dependency("t5", "urgent")
    board.update_task("t5", priority=3, writes=["q/1"], tags=["y"])
    clock.advance(100)
    board.reclaim_zombies()
    board.claim_task("d")
    board.pause(plan="p")
    board.claim_task("e", wait_sec=0)
    board.resume(plan="p")
    board.cancel_task("child")
    board.reopen_task("child", cascade=True)
    board.cancel_plan("p")
    for look in (board.status, board.explain, board.check, board.edges, board.list_tasks, board.has_work):
        look()
    board.events(0)


def test_every_write_takes_the_write_lock_first(board_path, clock, trace):
    """A transaction that reads first and then writes fails at once when another writes too; here none can."""
    with open_board(board_path, clock) as board:
        a_working_day(board, clock)
        assert violations(board) == {}
    assert trace.statements > 500
    assert trace.offences == []


def test_nothing_stays_open_behind_a_call(board_path, clock, trace):
    """No transaction and no unread cursor, which would pin the log or hold the lock."""
    open_board(board_path, clock).close()
    trace.connections.clear()  # those with which the board was made are closed
    with open_board(board_path, clock) as board:
        a_working_day(board, clock)
        assert not any(connection.in_transaction for connection in trace.connections)
        _, frames, copied = 0, *board.store._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        assert (frames, copied) == (0, 0)


def test_a_transaction_reads_the_clock_once(board_path, clock):
    """Everything in it happens at one instant, read when the write lock is held."""
    told = []

    class Ticking:
        """A clock that never tells the same time twice."""

        def now_us(self):
            """One second later at each look."""
            told.append(clock.advance(1))
            return told[-1]

    with open_board(board_path, Ticking()) as board:
        told.clear()
        tasks = board.create_tasks([{"title": "t"}] * 5)
        assert len(told) == 1
        assert {task.created_us for task in tasks} == {event.at_us for event in board.events(0)} == {told[0]}


def test_the_clock_is_read_after_the_lock_is_held(board_path, clock):
    """A call that waited for its turn does not act on the time at which it began to wait."""

    class Slow:
        """A turn that takes a minute to come."""

        def reached(self, point):
            """The store is at `point`."""
            if point == "begin":
                clock.advance(60)

    with open_board(board_path, clock, probe=Slow()) as board:
        before = clock.now_us()
        assert board.create_task("t").created_us == before + 60_000_000


def test_statements_of_a_read_see_one_instant(board_path, clock):
    """Somebody commits between two statements of a read: it still sees the board as it was."""
    with open_board(board_path, clock) as board, open_board(board_path, clock, seed=1) as other:

        def look(tx):
            first = tx.fetch_one("tally_totals")
            other.create_task("t")
            return first, tx.fetch_one("tally_totals")

        first, second = board.store.read(look)
        assert first == second
        assert board.status().total == 1
