"""What a killed process leaves half made is seen by the doctor and deleted by the next; what is being made, never."""

import os
import signal
import stat

import apsw
import pytest

from agentmesh import Board
from agentmesh.clock import system_chance
from agentmesh.store import drafts
from agentmesh.store.base import COPY_POINTS
from agentmesh.store.drafts import abandoned, clear
from agentmesh.store.unfinished import unfinished
from tests.support.boards import claimed, open_board, put
from tests.support.clock import TurnableClock
from tests.support.processes import Worker


@pytest.fixture
def filled(board_path, clock):
    """The path of a board with an open lease."""
    with open_board(board_path, clock) as board:
        put(board, *(f"t{n}" for n in range(5)))
        claimed(board, "t0")
    return board_path


@pytest.fixture
def elsewhere(tmp_path):
    """An empty folder."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return folder


def names(folder):
    """The files in a folder."""
    return sorted(file.name for file in folder.iterdir())


def warned(path):
    """What the doctor says of drafts: how many, and its verdict."""
    seen = {found.name: found for found in Board.examine(path)}
    assert ("unfinished_bytes" in seen) == ("oldest_unfinished_us" in seen) == bool(seen["unfinished_files"].value)
    return seen["unfinished_files"].value, seen["unfinished_files"].verdict


class _Stop:
    """Says where it is, then waits there until it is killed or told to go on."""

    def __init__(self, line, point):
        self._line = line
        self._point = point

    def reached(self, point):
        """The store is at `point`."""
        if point == self._point:
            self._point = None
            self._line.send(point)
            self._line.recv()

    def told(self, *_):
        """The same as a report of progress."""
        self.reached("progress")


def _back_up(line, path, target, point):
    with open_board(path, TurnableClock(), probe=_Stop(line, point)) as board:
        board.backup(target)
    line.send("done")


def _export(line, path, target, _point):
    with open_board(path, TurnableClock()) as board:
        board.export(target, progress=_Stop(line, "progress").told)
    line.send("done")


def _import(line, path, target, _point):
    Board.import_board(path, target, progress=_Stop(line, "progress").told)
    line.send("done")


def _killed(act, *args):
    worker = Worker(act, *args)
    worker.hear()
    os.kill(worker.pid, signal.SIGKILL)
    worker.process.join()


@pytest.mark.kill
@pytest.mark.parametrize("point", COPY_POINTS)
def test_the_next_backup_deletes_what_a_killed_one_left(filled, elsewhere, point):
    """At whatever point it was killed: before and after the copy had its name, which it keeps."""
    _killed(_back_up, filled, elsewhere / "one.db", point)
    left = names(elsewhere)
    assert any(".unfinished-" in name and not name.endswith(".lock") for name in left)
    with open_board(filled, TurnableClock()) as board:
        board.backup(elsewhere / "two.db")
    assert names(elsewhere) == (["one.db", "two.db"] if point == "linked" else ["two.db"])


@pytest.mark.kill
def test_the_doctor_counts_what_was_left_beside_the_board(filled):
    """With its size and its age, as a warning; the next backup, wherever to, clears it away."""
    assert warned(filled) == (0, "ok")
    _killed(_back_up, filled, filled.parent / "copy.db", "verify")
    assert warned(filled) == (1, "warning")
    _killed(_export, filled, filled.parent / "out.jsonl", "progress")
    assert warned(filled) == (2, "warning")  # the text, and the folder with the copy that it is written from
    [size] = [seen.value for seen in Board.examine(filled) if seen.name == "unfinished_bytes"]
    assert size >= filled.stat().st_size
    (filled.parent / "apart").mkdir()
    with open_board(filled, TurnableClock()) as board:
        board.backup(filled.parent / "apart" / "copy.db")
    assert warned(filled) == (0, "ok")
    assert names(filled.parent) == ["apart", "board.db", "board.db.gate"]


@pytest.mark.kill
@pytest.mark.parametrize("act", [_back_up, _export, _import])
def test_what_is_in_the_making_is_left_alone(filled, elsewhere, act):
    """Others back up, export and import meanwhile, and the doctor looks; it is then finished."""
    with open_board(filled, TurnableClock()) as board:
        board.export(elsewhere / "export.jsonl")
    source = elsewhere / "export.jsonl" if act is _import else filled
    worker = Worker(act, source, filled.parent / "made", "verify")
    worker.hear()
    with open_board(filled, TurnableClock()) as board:
        board.backup(filled.parent / "copy.db")
        board.export(filled.parent / "out.jsonl")
    Board.import_board(elsewhere / "export.jsonl", filled.parent / "imported.db")
    assert warned(filled) == (0, "ok")
    worker.tell("go on")
    assert worker.hear() == "done"
    assert not [name for name in names(filled.parent) if ".unfinished-" in name]
    assert (filled.parent / "made").exists()


@pytest.mark.kill
def test_a_killed_import_is_cleared_away(filled, elsewhere):
    """By the next import to that folder, with all that SQLite put beside it."""
    with open_board(filled, TurnableClock()) as board:
        board.export(elsewhere / "export.jsonl")
    _killed(_import, elsewhere / "export.jsonl", elsewhere / "new.db", "progress")
    assert len(abandoned(elsewhere)) == 1
    Board.import_board(elsewhere / "export.jsonl", elsewhere / "new.db")
    assert names(elsewhere) == ["export.jsonl", "new.db"]


def test_a_draft_without_a_lock_is_counted_and_kept(filled):
    """An older AgentMesh locks none: nobody can tell whether it is in the making."""
    (filled.parent / "copy.db.unfinished-abcdefgh").touch()
    clear(filled.parent)
    assert warned(filled) == (1, "warning")


def test_a_draft_that_was_opened_as_a_board_is_kept(filled):
    """It may be all that somebody has left, and be in use."""
    place = filled.parent / "copy.db.unfinished-abcdefgh"
    (filled.parent / f"{place.name}.lock").touch()
    with Board.open(place) as board:
        clear(filled.parent)
        put(board, "a")
        assert board.status().total == 1


def test_what_only_looks_like_a_draft_is_kept(elsewhere):
    """Names are matched as a whole; a lock that is a link is nobody's."""
    kept = ["a.unfinished-abc", "a.unfinished-abcdefgh.txt", "unfinished-abcdefgh", ".unfinished-abcdefgh"]
    for name in kept:
        (elsewhere / name).touch()
        (elsewhere / f"{name}.lock").touch()
    (elsewhere / "b.unfinished-abcdefgh").touch()
    (elsewhere / "b.unfinished-abcdefgh.lock").symlink_to(elsewhere / "a.unfinished-abc")
    before = names(elsewhere)
    clear(elsewhere)
    assert names(elsewhere) == before


def test_a_draft_is_locked_before_it_is_there_and_until_it_is_gone(elsewhere):
    """Whoever clears the folder at any moment in between finds the lock held; the lock is this user's own."""
    with unfinished(elsewhere / "x", system_chance()) as place:
        clear(elsewhere)
        assert names(elsewhere) == [f"{place.name}.lock"]
        assert stat.S_IMODE((elsewhere / f"{place.name}.lock").stat().st_mode) == 0o600
        place.touch()
        clear(elsewhere)
        assert (place.exists(), abandoned(elsewhere)) == (True, [])
        place.rename(elsewhere / "x")
    assert names(elsewhere) == ["x"]


def test_a_name_whose_lock_was_cleared_away_is_not_used(elsewhere, monkeypatch):
    """Between making the lock file and locking it somebody may clear the folder: then it is another name's turn."""
    free, tries = drafts._free, []

    def late(fd):
        if not tries:
            tries.append(fd)
            clear(elsewhere)
        return free(fd)

    monkeypatch.setattr(drafts, "_free", late)
    with unfinished(elsewhere / "x", system_chance()) as place:
        assert names(elsewhere) == [f"{place.name}.lock"]
        clear(elsewhere)
        assert names(elsewhere) == [f"{place.name}.lock"]
    assert names(elsewhere) == []


def test_clearing_drops_no_lock_of_sqlite(filled):
    """A draft may be a second name of an open board, after a kill between its two names: only the name goes."""
    draft = filled.parent / "board.db.unfinished-abcdefgh"
    (filled.parent / f"{draft.name}.lock").touch()
    with open_board(filled, TurnableClock()) as board:
        os.link(filled, draft)

        def intrude(_tx):
            clear(filled.parent)
            other = apsw.Connection(str(filled))
            with pytest.raises(apsw.BusyError):
                other.execute("BEGIN IMMEDIATE")
            other.close()

        assert abandoned(filled.parent) != []
        board.store.write(intrude)
    assert not draft.exists()
