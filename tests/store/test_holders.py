"""Who holds a lock of a board: named where the system tells, and not waited for where it cannot let go."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.errors import BoardInUse, Busy
from agentmesh.store import holders
from agentmesh.store.gate import Gate
from agentmesh.store.holders import Holder
from tests.support.boards import open_board
from tests.support.patience import until
from tests.support.processes import Worker

pytestmark = [
    pytest.mark.multiproc,
    pytest.mark.skipif(not holders.LOCKS.exists(), reason="this system does not list its file locks"),
]


class Standing:
    """A probe that stands still at a point until its line says something."""

    def __init__(self, line, point):
        self._line, self._point = line, point

    def reached(self, point):
        """The store is at `point`."""
        if point == self._point:
            self._line.send("there")
            self._line.recv()


def _stand(line, path, point):
    with Board.open(path, durability="normal", probe=Standing(line, point)) as board:
        board.create_task("t", id="of-the-holder")


@pytest.fixture
def standing(board_path, clock):
    """Starts a process that stands in the middle of a write, at a point, and ends it well."""
    open_board(board_path, clock).close()
    workers = []

    def start(point):
        worker = Worker(_stand, board_path, point)
        workers.append(worker)
        assert worker.hear() == "there"
        return worker

    yield start
    for worker in workers:
        with contextlib.suppress(ProcessLookupError, BrokenPipeError):  # the test has let it go on already
            worker.go_on()
            worker.tell("go on")
        assert worker.end() == 0


def test_a_writer_that_runs_is_named(board_path, standing):
    """The error of those who waited in vain says which process is in the way."""
    worker = standing("begin")
    with Board.open(board_path, busy_timeout_sec=0.01) as board, pytest.raises(Busy, match=f"process {worker.pid},"):
        board.create_task("t", id="t")


def test_a_writer_that_was_stopped_is_named_and_so_is_the_way_out(board_path, standing):
    """Ctrl-Z, a debugger, a frozen container: only a person can help, and is told whom to look for."""
    worker = standing("begin")
    worker.stop()
    with Board.open(board_path, busy_timeout_sec=0.01) as board:
        with pytest.raises(Busy, match=f"process {worker.pid}, which is stopped") as busy:
            board.create_task("t", id="t")
        assert str(worker.pid) in busy.value.hint
        assert board.status().total == 0  # reads go on


def test_the_gate_of_a_stopped_writer_is_not_waited_for(board_path, standing, monkeypatch):
    """With the gate alone it is in nobody's way: a patience of an hour is not used up at the queue."""
    monkeypatch.setattr("agentmesh.store.gate.SUSPICIOUS_SEC", 0.01)
    worker = standing("gate")
    worker.stop()
    with Board.open(board_path, busy_timeout_sec=3600) as board:
        for number in range(3):
            board.create_task("t", id=f"t{number}")
        assert board.status().total == 3


def test_a_gate_that_a_writer_holds_who_runs_is_waited_for(board_path, standing):
    """It will let go: the turn comes in order."""
    worker = standing("gate")
    gate = Gate(board_path.with_name("board.db.gate"))
    assert not gate.enter(0.01)
    worker.tell("go on")
    assert gate.enter(60)
    gate.leave()
    gate.close()


INHERIT = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
"""


def test_a_lock_that_a_child_has_kept_of_its_dead_parent_is_not_waited_for(board_path, clock, monkeypatch):
    """Only a fork that Python does not know of leaves one: the parent is named, and that it has ended."""
    monkeypatch.setattr("agentmesh.store.gate.SUSPICIOUS_SEC", 0.01)
    open_board(board_path, clock).close()
    gate = board_path.with_name("board.db.gate")
    command = [sys.executable, "-c", INHERIT, str(gate)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        until(lambda: parent.poll() is not None)
        holder = holders.of_gate(gate)
        assert holder == Holder(parent.pid, gone=True)
        assert str(holder) == f"a child of process {parent.pid}, which has ended"
        with Board.open(board_path, busy_timeout_sec=3600) as board:
            assert board.create_task("t", id="t").id == "t"
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(("point", "name"), [("gate", "gate_holder"), ("begin", "writer")])
def test_a_doctor_names_the_process_that_holds_others_up(board_path, standing, point, name):
    """One that runs is no trouble; one that is stopped is."""
    worker = standing(point)
    found = {seen.name: seen for seen in Board.examine(board_path)}
    assert (found[name].value, found[name].verdict) == (f"process {worker.pid}", "ok")
    worker.stop()
    found = {seen.name: seen for seen in Board.examine(board_path)}
    assert (found[name].value, found[name].verdict) == (f"process {worker.pid}, which is stopped", "warning")
    assert "kill -CONT" in found[name].hint


def test_a_restore_names_the_processes_that_have_the_board_open(board_path, standing, tmp_path):
    """Whoever wants to restore knows what to stop."""
    with Board.open(board_path) as board:
        board.backup(tmp_path / "backup.db")
    worker = standing("transaction")
    with pytest.raises(BoardInUse, match=f"is open in process {worker.pid}\\."):
        Board.restore(tmp_path / "backup.db", board_path)


def test_a_free_lock_has_no_holder(board_path, clock):
    """Nor has one that nobody ever took, nor the lock of a file that is not there."""
    with open_board(board_path, clock):
        assert holders.of_write_lock(board_path) is None
        assert holders.of_gate(Path(f"{board_path}.gate")) is None
    assert holders.of_write_lock(board_path.with_name("none.db")) is None


@pytest.mark.parametrize("table", ["", "1: FLOCK\n", "1: FLOCK ADVISORY WRITE 1 fe:00:x 0 EOF\n"])
def test_a_table_of_locks_in_another_form_tells_nothing(board_path, clock, monkeypatch, tmp_path, table):
    """It is a hint for a person: whatever the system writes there breaks no call."""
    (tmp_path / "locks").write_text(table)
    monkeypatch.setattr(holders, "LOCKS", tmp_path / "locks")
    open_board(board_path, clock).close()
    assert holders.of_gate(Path(f"{board_path}.gate")) is None
