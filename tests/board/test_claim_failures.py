"""A claim that fails hands nothing out: whatever a claim needs is read before its commit."""

import json
import subprocess
import sys

import apsw
import pytest

from agentmesh.errors import StoreError
from agentmesh.store.sqlite import SqliteStore
from tests.support.boards import claimed, done, event_count, open_board, put, states
from tests.support.faults import Raiser, Recorder
from tests.support.waiting import answer, sleepers

LAST_READS = ("do:body_of", "do:dependency_results")
FAULT = apsw.IOError("disk I/O error")


def filled(path, clock):
    """A board on which one task is done and another, with a payload, waits to be claimed."""
    with open_board(path, clock) as board:
        put(board, "a")
        done(board, "a", {"rows": 12})
        board.create_task("Join", id="b", depends_on=["a"], description="Do it", payload=[1])


@pytest.mark.parametrize("point", LAST_READS)
@pytest.mark.parametrize("wishes", [{}, {"task_id": "b"}, {"wait_sec": 5}, {"request_id": "r"}], ids=str)
def test_a_claim_whose_texts_cannot_be_read_hands_nothing_out(board_path, clock, point, wishes):
    """No task is held by an agent that does not know its lease; the same call then succeeds."""
    filled(board_path, clock)
    with open_board(board_path, clock, probe=Raiser(point, FAULT)) as board:
        before = event_count(board)
        with pytest.raises(StoreError):
            board.claim_task("x", **wishes)
        assert (states(board)["b"], event_count(board)) == ("pending", before)
        assert board.claim_task("x", **wishes).dependencies[0].result == {"rows": 12}


@pytest.mark.parametrize("point", LAST_READS)
def test_an_attempt_whose_texts_cannot_be_read_is_not_resumed(board_path, clock, point):
    """The lease from before is still the lease."""
    filled(board_path, clock)
    with open_board(board_path, clock, probe=Raiser(point, FAULT, n=2)) as board:
        lease = claimed(board, "b", "x").lease
        with pytest.raises(StoreError):
            board.claim_task("x", resume=True)
        board.heartbeat(lease)
        resumed = board.claim_task("x", resume=True)
        assert (resumed.task.payload, resumed.resumed) == ([1], True)
        resumed.complete()


def test_a_claim_reads_nothing_after_its_commit(board_path, clock):
    """After it the only thing left is to wake others."""
    filled(board_path, clock)
    recorder = Recorder()
    with open_board(board_path, clock, probe=recorder) as board:
        put(board, "c", "d")
        recorder.points.clear()
        assert board.claim_task("x", wait_sec=5)
        after = recorder.points[recorder.points.index("committed") + 1 :]
        assert not [point for point in after if point != "poke"], after


def test_a_woken_claim_survives_a_read_that_fails(board_path, clock, monkeypatch):
    """Whether there is something left for others is asked after the commit; that this fails does not lose the claim."""
    with open_board(board_path, clock) as board, sleepers(monkeypatch) as threads:
        waiting = threads.start(board.claim_task, "x", wait_sec=50)
        read, write = SqliteStore.read, SqliteStore.write

        def write_then_break(store, work, **how):
            result = write(store, work, **how)
            if getattr(result, "lease", None):
                monkeypatch.setattr(SqliteStore, "read", refuse)
            return result

        def refuse(_store, _work):
            raise StoreError("Reading failed.")

        monkeypatch.setattr(SqliteStore, "write", write_then_break)
        board.create_task("T", id="a")
        claim = answer(waiting)
        monkeypatch.setattr(SqliteStore, "read", read)
        assert claim.task.id == "a"
        claim.complete()


def test_a_claim_that_was_given_back_is_offered_again_at_once(board):
    """To the same agent, too; it was charged nothing."""
    put(board, "a")
    board.give_back(board.claim_task("x"))
    assert board.get_task("a").charged == 0
    assert board.claim_task("x").task.id == "a"


WITHOUT_DESCRIPTORS = """
import json, os, resource, sys
from agentmesh import Board
from agentmesh.errors import StoreError

with Board.open(sys.argv[1]) as board:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    try:
        claim = board.claim_task("x")
    except StoreError as error:
        said = {"code": error.code}
    else:
        said = {"task": claim.task.id, "payload": claim.task.payload, "results": len(claim.dependencies)}
    for fd in taken:
        os.close(fd)
    said["state"] = board.get_task("b").state
print(json.dumps(said))
"""


def test_a_claim_needs_no_descriptor(board_path, clock):
    """With all of them used up, a board that was just opened hands out a task with its texts."""
    filled(board_path, clock)
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(board_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"task": "b", "payload": [1], "results": 1, "state": "in_progress"}
