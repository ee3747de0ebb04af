"""Boards for tests: opened on a clock that can be turned and a chance that repeats itself, looked at from inside."""

import random
from pathlib import Path

from agentmesh import Board

ENDS = ("completed", "failed", "cancelled")


def open_board(path, clock, *, seed=0, **options):
    """A board on a test's clock; `seed` makes its ids, secrets and jitter those of the last run."""
    return Board.open(Path(path), clock=clock, chance=random.Random(seed), durability="normal", **options)


def violations(board):
    """What `check()` finds broken: promise -> details."""
    return {found.promise: found.details for found in board.check() if found.verdict == "violated"}


def event_count(board):
    """How many events the board has; a call that changed nothing leaves it as it was."""
    return board.status().last_seq


def kinds(board, after=0):
    """The kinds of the events after a cursor, in order."""
    return [event.kind for event in board.events(after, limit=1000)]


def rows(board, sql, **values):
    """Rows as the board's own connection sees them: no second SQLite library touches the file."""
    return board.store._writer.execute(sql, values).fetchall()


def reader_of(store):
    """A connection with which a store reads, off its shelf meanwhile; a context manager."""
    return store._reader()


def damage(board, sql, **values):
    """Change rows behind the board's back; how many were changed."""
    board.store._writer.execute(sql, values)
    return board.store._writer.changes()


def put(board, *lines, **fields):
    """Tasks from lines such as `c: a b:failed`: an id, then what it waits for. All of them get the same fields."""
    named = [line.partition(": ") for line in lines]
    return board.create_tasks(
        [{"title": f"Task {name}", "id": name, "depends_on": above.split(), **fields} for name, _, above in named]
    )


def states(board):
    """The state of every task by id."""
    return {task.id: task.state for task in board.list_tasks(limit=500).tasks}


def claimed(board, task_id, agent_id="worker", **wishes):
    """A claim of the named task, which must be to be had."""
    claim = board.claim_task(agent_id, task_id=task_id, **wishes)
    assert claim, claim
    return claim


def done(board, task_id, result=None):
    """Claim and complete a task."""
    return claimed(board, task_id).complete(result)


def ended(board, task_id, how="completed"):
    """Bring a task to its end; the lease that did it, if one did."""
    if how == "cancelled":
        board.cancel_task(task_id)
        return None
    claim = claimed(board, task_id)
    claim.complete({"n": 1}) if how == "completed" else claim.fail("x", retry=False)
    return claim.lease


def buried(board, task_id="a", how="completed"):
    """Put a task on the board, end it and prune it; its last lease."""
    put(board, task_id)
    lease = ended(board, task_id, how)
    assert board.prune(older_than_sec=0).plans == {"default": 1}
    return lease


class Loaded:
    """A chance whose next bits are given; afterwards it is an ordinary one."""

    def __init__(self, *, jitter):
        self._jitter = jitter
        self._random = random.Random(7)

    def getrandbits(self, k, /):
        """The loaded value for 16 bits, which is how the board asks for jitter; random bits else."""
        return self._jitter if k == 16 else self._random.getrandbits(k)
