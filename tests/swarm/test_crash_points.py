"""A call that fails, or whose process dies, at any point of it: its effect is there entirely or not at all (P5, P6).

The points are those of the store and every statement in between; each is tried, from the first on, until the call runs
through.
"""

import itertools
import os
import signal

import apsw
import pytest

from agentmesh.board import prune
from agentmesh.errors import StoreError
from agentmesh.store import sqlite_copy
from tests.support.boards import rows, violations
from tests.support.faults import Killer, Recorder
from tests.support.interleave import outcome
from tests.support.processes import Worker
from tests.support.scene import ACTS, everything

KILLED = [
    "claim",
    "claim held",
    "complete",
    "fail",
    "fail for good",
    "release",
    "split",
    "cancel",
    "create batch",
    "reclaim",
    "reopen",
    "prune",
    "record",
    "set budget",
    "fail infra",
]


def reference(scene, act):
    """The board before and after a call, and the points that the call passes."""
    seen = Recorder()
    with scene.open(probe=seen) as board:
        before = everything(board)
        board.has_work()  # what never changes is read once and then known
        seen.points.clear()
        assert not isinstance(outcome(lambda: ACTS[act](board, scene)), Exception)
        return before, everything(board), list(seen.points)


class Trip:
    """A probe that raises at the n-th point before the commit, counted from when it was set."""

    def __init__(self):
        self.left = 0
        self.at = None

    def set(self, number):
        """Raise at the n-th point from here."""
        self.left, self.at = number, None

    def reached(self, point):
        """The store is at `point`."""
        self.left = 0 if point == "committed" else self.left - 1
        if self.left == 0 and point != "committed":
            self.at = point
            raise apsw.IOError("injected")


@pytest.mark.parametrize("act", ACTS)
def test_a_call_that_fails_at_any_point_has_no_effect(scenes, act):
    """Every statement of every call fails once; the board stays as it was, and the last try goes through."""
    before, after, points = reference(scenes(), act)
    scene, trip, failed = scenes(), Trip(), []
    with scene.open(probe=trip) as board:
        board.has_work()
        for number in itertools.count(1):
            board.store.chance.seed(1)
            trip.set(number)
            answer = outcome(lambda: ACTS[act](board, scene))
            if trip.at is None:
                break
            failed.append(trip.at)
            assert isinstance(answer, (StoreError, apsw.IOError)), trip.at
            assert everything(board) == before, trip.at
        assert everything(board) == after
        assert violations(board) == {}
    assert failed == points[: points.index("committed")]


def _die(line, scene, act, number):
    """Make a call and die at its n-th point, or else when it has returned."""
    killer = Killer()
    board = scene.open(probe=killer)
    board.has_work()
    killer.arm(number)
    ACTS[act](board, scene)
    line.send("returned")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.multiproc
@pytest.mark.kill
@pytest.mark.parametrize("act", KILLED)
def test_a_process_that_is_killed_at_any_point_leaves_all_or_nothing(scenes, act):
    """Before the commit nothing of the call is there, after it everything; the next process needs no repair."""
    before, after, points = reference(scenes(), act)
    for number, point in enumerate([*points, "returned"], start=1):
        scene = scenes()
        worker = Worker(_die, scene, act, number)
        assert worker.last_words() == (["returned"] if point == "returned" else [])
        assert worker.end() == -signal.SIGKILL
        with scene.open(seed=3, create=False) as board:
            there = number > points.index("committed")
            assert everything(board) == (after if there else before), point
            assert rows(board, "PRAGMA integrity_check") == [("ok",)]
            assert violations(board) == {}


def _die_in_small_batches(line, scene, number):
    prune.TASKS_AT_ONCE = 1
    _die(line, scene, "prune", number)


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_prune_that_is_killed_between_its_batches_is_finished_by_the_next(scenes, monkeypatch):
    """Each batch is there whole or not at all, and what is pruned in two runs is what is pruned in one."""
    monkeypatch.setattr(prune, "TASKS_AT_ONCE", 1)
    _, after, points = reference(scenes(), "prune")
    assert points.count("committed") == 2
    for number in range(1, len(points) + 1):
        scene = scenes()
        worker = Worker(_die_in_small_batches, scene, number)
        assert worker.end() == -signal.SIGKILL
        with scene.open(seed=3, create=False) as board:
            assert violations(board) == {}
            ACTS["prune"](board, scene)
            assert everything(board) == after


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_process_that_dies_while_it_takes_leases_back_leaves_the_work_to_the_next(scenes):
    """No lock and no half-finished reclaim survives it (A10)."""
    scene = scenes()
    worker = Worker(_die, scene, "reclaim", 8)
    assert worker.end() == -signal.SIGKILL
    with scene.open(busy_timeout_sec=0) as board:
        assert [attempt.task_id for attempt in board.reclaim_zombies()] == ["held"]
        assert violations(board) == {}


def _die_copying(line, scene, target, number):
    """Make a backup, five pages at a time, and die at its n-th point, or else when it has returned."""
    sqlite_copy.STRETCH_PAGES = 5
    killer = Killer()
    board = scene.open(probe=killer)
    killer.arm(number)
    board.backup(target)
    line.send("returned")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_process_that_is_killed_at_any_point_of_a_backup_leaves_a_whole_one_or_none(scenes, tmp_path, monkeypatch):
    """The board stands as it was; what was begun says so in its name, and is in nobody's way."""
    monkeypatch.setattr(sqlite_copy, "STRETCH_PAGES", 5)
    seen = Recorder()
    with scenes().open(probe=seen) as board:
        before = everything(board)
        seen.points.clear()
        board.backup(tmp_path / "reference.db")
    assert seen.points.count("copy") > 3
    for number, point in enumerate([*seen.points, "returned"], start=1):
        scene, folder = scenes(), tmp_path / f"{number}"
        folder.mkdir()
        worker = Worker(_die_copying, scene, folder / "copy.db", number)
        assert worker.last_words() == (["returned"] if point == "returned" else [])
        assert worker.end() == -signal.SIGKILL
        left = {file.name for file in folder.iterdir()}
        assert ("copy.db" in left) == (point in ("linked", "returned")), point
        assert all(name.startswith("copy.db.unfinished-") for name in left - {"copy.db"})
        with scene.open(seed=3, create=False) as board:
            assert everything(board) == before
            assert rows(board, "PRAGMA integrity_check") == [("ok",)]
            if "copy.db" not in left:
                board.backup(folder / "copy.db")
        with scene._replace(path=folder / "copy.db").open(create=False) as copy:
            assert everything(copy) == before
            assert violations(copy) == {}
