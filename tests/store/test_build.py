"""What exports and imports stand on: long reads of a copy, many rows at once, boards built before they are seen."""

import contextlib
import os
import random
import signal
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from agentmesh.errors import BoardExists, BoardReplaced, InvalidArgument, StoreError
from agentmesh.store.base import StoreOptions
from agentmesh.store.connect import build, connect
from tests.support.boards import open_board, put, rows, states
from tests.support.clock import TurnableClock
from tests.support.faults import Killer, Recorder
from tests.support.processes import Worker
from tests.support.transfer import exported, files, imported


def options(clock, **more):
    """How these tests open a store."""
    return StoreOptions(clock=clock, chance=random.Random(3), **more)


def add(store, *names):
    """Plans on a store."""
    values = [
        {"pk": place, "name": name, "workspace": "", "created_us": 1, "retention_us": None}
        for place, name in enumerate(names, 1)
    ]
    return store.write(lambda tx: tx.execute_many("import_plan", values))


def test_many_rows_are_entered_at_once(board):
    """As many as there are; none is none."""
    assert add(board.store, "a", "b", "c") == 3
    assert add(board.store) == 0
    assert [name for (name,) in rows(board, "SELECT name FROM plan ORDER BY pk")] == ["a", "b", "c"]


def test_many_rows_are_entered_or_none(board):
    """They are part of their transaction."""
    with pytest.raises(StoreError):
        add(board.store, "a", "b", "a")
    assert rows(board, "SELECT * FROM plan") == []


def test_many_rows_are_one_point(board_path, clock):
    """A probe sees them like any statement."""
    seen = Recorder()
    with open_board(board_path, clock, probe=seen) as board:
        seen.points.clear()
        add(board.store, "a", "b")
    assert seen.points.count("do:import_plan") == 1


def test_a_long_read_sees_one_snapshot_at_its_instant(board, clock):
    """Whatever is written meanwhile, whatever time it is."""
    put(board, "a")
    then = clock.now_us()

    def look(tx):
        clock.advance(5)
        put(board, "b")
        return tx.now, len(tx.fetch_all("list_tasks", after=0, plan=None, state=None, holder=None, most=9))

    assert board.store.read_apart(look) == (then, 1)
    assert states(board) == {"a": "pending", "b": "pending"}


def test_a_long_read_can_change_nothing(board):
    """It reads a copy, and that only reads."""
    with pytest.raises(StoreError):
        board.store.read_apart(
            lambda tx: tx.execute_many(
                "import_plan", [dict.fromkeys(("pk", "name", "workspace", "created_us", "retention_us"), 1)]
            )
        )


def test_the_copy_of_a_long_read_is_private_and_gone_afterwards(board, tmp_path):
    """It has the secrets of leases in it."""
    put(board, "a")
    seen = []

    def look(_tx):
        (folder,) = [file for file in tmp_path.iterdir() if file.is_dir()]
        seen.extend(stat.S_IMODE(place.stat().st_mode) for place in (folder, *folder.iterdir()))
        raise InterruptedError

    with pytest.raises(InterruptedError):
        board.store.read_apart(look)
    assert seen == [0o700, 0o600]
    assert files(tmp_path) == ["board.db"]


def test_a_long_read_of_a_board_that_was_replaced_is_refused(board_path, clock):
    """As every read is."""
    with open_board(board_path, clock) as board:
        board_path.rename(board_path.with_name("other"))
        with pytest.raises(BoardReplaced):
            board.store.read_apart(lambda tx: tx.now)


def test_a_built_board_is_there_when_it_is_whole(tmp_path, clock):
    """One file, for this user only, and a board like any other."""
    seen = []

    def work(store):
        seen.append(files(tmp_path))
        add(store, "a")
        return "done"

    umask = os.umask(0)
    try:
        assert build(tmp_path / "new.db", options(clock), work) == "done"
    finally:
        os.umask(umask)
    assert [name.startswith("new.db.unfinished-") for name in seen[0]] == [True, True]  # the draft and its lock
    assert [file.name for file in tmp_path.iterdir()] == ["new.db"]
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == 0o600
    with contextlib.closing(connect(tmp_path / "new.db", replace(options(clock), create=False))) as store:
        assert store.read(lambda tx: tx.fetch_one("plan_by_name", name="a"))["pk"] == 1


def test_a_board_that_is_not_finished_is_not_there(tmp_path, clock):
    """Nor is anything of it."""

    def fail(store):
        add(store, "a")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(tmp_path / "new.db", options(clock), fail)
    assert list(tmp_path.iterdir()) == []


def test_a_board_is_built_where_nothing_is(tmp_path, clock):
    """And where there is a folder, on a file system that can hold one."""
    calls = []
    (tmp_path / "there.db").write_text("mine")
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere")
    for name in ("there.db", "link.db"):
        with pytest.raises(BoardExists):
            build(tmp_path / name, options(clock), calls.append)
    with pytest.raises(InvalidArgument, match="folder"):
        build(tmp_path / "no" / "new.db", options(clock), calls.append)
    with pytest.raises(InvalidArgument, match="path"):
        build("postgresql://x/y", options(clock), calls.append)
    assert calls == []


def test_a_built_board_passes_the_points_of_its_naming(tmp_path, clock):
    """Where a test may hold it."""
    seen = Recorder()
    build(tmp_path / "new.db", options(clock, probe=seen), lambda store: add(store, "a"))
    assert seen.points[-3:] == ["committed", "link", "linked"]


def _import(line, text, path, number):
    probe = Killer()
    probe.arm(number)
    imported(text, Path(path), TurnableClock(), probe=probe)
    line.send("through")


@pytest.mark.kill
def test_a_killed_import_leaves_no_board(board, tmp_path):
    """At any point of it: the target is not there, or it is there whole."""
    put(board, "a", "b: a")
    text = exported(board)
    outcomes = []
    for number in range(1, 500, 3):
        target = tmp_path / f"{number}.db"
        worker = Worker(_import, text, str(target), number)
        heard = worker.last_words()
        outcomes.append(worker.end())
        if target.exists():
            with open_board(target, TurnableClock()) as copy:
                assert states(copy) == {"a": "pending", "b": "blocked"}
        if heard:
            break
    assert outcomes[0] == -signal.SIGKILL
    assert outcomes[-1] == 0
    assert len(outcomes) > 10
