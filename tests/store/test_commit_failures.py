"""A commit that fails: the error says what is known of it, and how to find out what is not."""

import json
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from agentmesh import Board
from agentmesh.errors import OutcomeUnknown, ResourcesExhausted, StoreError
from tests.support.boards import open_board, violations
from tests.support.faults import Raiser
from tests.support.limits import no_more_files
from tests.support.patience import until

ROOT = Path(__file__).parents[2]


class Failing(apsw.VFS):
    """A file system on which the log can no longer be synced, or no longer be written, from a moment on."""

    def __init__(self):
        self.fails = None
        self.real = apsw.vfs_names()[0]
        super().__init__("failing", self.real, makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        """Open a file."""
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return File(self, (path or "").endswith("-wal"), self.real, name, flags)


class File(apsw.VFSFile):
    """A file of it."""

    def __init__(self, vfs, is_log, *where):
        self._vfs, self._is_log = vfs, is_log
        super().__init__(*where)

    def _perhaps_fail(self, what):
        if self._is_log and self._vfs.fails == what:
            raise apsw.IOError("injected")

    def xSync(self, flags):  # noqa: N802 - SQLite's name
        """Sync it, or fail."""
        self._perhaps_fail("sync")
        super().xSync(flags)

    def xWrite(self, data, offset):  # noqa: N802 - SQLite's name
        """Write to it, or fail."""
        self._perhaps_fail("write")
        super().xWrite(data, offset)


@pytest.fixture
def disk():
    """A disk that can fail."""
    vfs = Failing()
    yield vfs
    vfs.unregister()


def test_a_commit_whose_sync_fails_may_have_taken_effect(board_path, disk):
    """It is in the log, and there after the next open: the error does not say that it had no effect."""
    with Board.open(board_path) as board:
        board.create_task("t", id="before")
        disk.fails = "sync"
        with pytest.raises(OutcomeUnknown, match="commit") as unknown:
            board.create_task("t", id="t", request_id="once")
        assert "same request_id" in unknown.value.hint
        assert "no effect" not in unknown.value.hint
        assert [task.id for task in board.list_tasks().tasks] == ["before"]
        disk.fails = None
    with Board.open(board_path) as board:
        assert board.create_task("t", id="t", request_id="once").id == "t"  # the way out, whatever it was
        assert {task.id for task in board.list_tasks().tasks} == {"before", "t"}
        assert violations(board) == {}


def test_a_commit_whose_write_fails_is_told_in_the_same_way(board_path, disk):
    """And the same board object works again when the disk does."""
    with Board.open(board_path) as board:
        disk.fails = "write"
        with pytest.raises(OutcomeUnknown):
            board.create_task("t", id="t", request_id="once")
        disk.fails = None
        assert board.create_task("t", id="t", request_id="once").id == "t"
        assert violations(board) == {}


def test_a_write_that_fails_before_its_commit_had_no_effect(board_path, clock):
    """There it is known."""
    with open_board(board_path, clock, probe=Raiser("do:add_event", apsw.IOError("injected"))) as board:
        with pytest.raises(StoreError) as failed:
            board.create_task("t", id="t")
        assert failed.value.code == "store_error"
        assert "no effect" in failed.value.hint


def test_a_process_without_descriptors_is_told_so(board_path, clock):
    """SQLite says that it cannot open the file, which would send a person to look at permissions."""
    open_board(board_path, clock).close()
    with no_more_files(), pytest.raises(ResourcesExhausted, match="may not open another file") as error:
        Board.open(board_path)
    assert "ulimit" in error.value.hint
    with Board.open(board_path) as board:
        board.create_task("t", id="t")
        with no_more_files(), pytest.raises(ResourcesExhausted):
            board.list_tasks()  # the first read needs a connection of its own
        assert board.status().total == 1


def test_a_wait_without_descriptors_is_a_typed_error(board):
    """A waiter sleeps on a socket; nothing was claimed when it cannot have one."""
    with no_more_files(), pytest.raises(ResourcesExhausted):
        board.claim_task("a", wait_sec=1)
    board.create_task("t", id="t")
    assert board.claim_task("a", wait_sec=1).task.id == "t"  # now what a wait needs for itself is open
    with no_more_files(), pytest.raises(ResourcesExhausted):
        board.claim_task("a", wait_sec=1)
    with no_more_files(), pytest.raises(ResourcesExhausted):
        board.events(after=board.status().last_seq, wait_sec=1)


def test_the_thread_that_shortens_the_log_outlives_a_want_of_descriptors(board_path, clock, monkeypatch):
    """It tries again with the next commits; no traceback on stderr, and no log that grows for ever."""
    monkeypatch.setattr("agentmesh.store.checkpoints.MARK_PAGES", 1)
    monkeypatch.setattr("agentmesh.store.checkpoints.STEP_PAGES", 1)
    tried = []

    class Watch:
        """Counts the attempts."""

        def reached(self, point):
            """The store is at `point`."""
            if point == "checkpoint":
                tried.append(point)

    with open_board(board_path, clock, probe=Watch()) as board:
        with no_more_files():
            board.create_task("t", id="a")
            until(lambda: tried)
            board.create_task("t", id="b")
            until(lambda: len(tried) > 1)
        board.create_task("t", id="c")
        assert board.store._log._thread.is_alive()
        until(lambda: board.create_task("t") and board.store._log._pages < 20)


BARE = """
import io, json, sys
from agentmesh import Board
from agentmesh.errors import AgentMeshError
from tests.support.limits import no_more_files
board = Board.open(sys.argv[1], durability="normal")
board.create_task("t", id="t")
calls = {
    "list": board.list_tasks,
    "backup": lambda: board.backup(sys.argv[1] + ".copy"),
    "export": lambda: board.export(io.BytesIO()),
    "import": lambda: Board.import_board(io.BytesIO(b""), sys.argv[1] + ".new"),
    "examine": lambda: Board.examine(sys.argv[1]),
    "open": lambda: Board.open(sys.argv[1]),
    "price": lambda: board.ledger.record("a", model="gpt-4o", input_tokens=1),
}
found = {}
with no_more_files():
    for name, call in calls.items():
        try:
            call()
        except AgentMeshError as error:
            found[name] = error.code
        except BaseException as error:
            found[name] = repr(error)
        else:
            found[name] = "done"
board.create_task("after", id="after")
print(json.dumps(found))
"""


@pytest.mark.multiproc
def test_every_call_of_a_process_without_descriptors_says_so(board_path):
    """Also one that imports a module only when it is called: that opens files, too."""
    command = [sys.executable, "-c", BARE, str(board_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    assert set(json.loads(run.stdout).values()) == {"resources_exhausted"}, run.stdout
