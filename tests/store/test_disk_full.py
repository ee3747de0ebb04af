"""A full disk: a typed answer, nothing half done, reads go on, and the same board object works once there is room."""

import pytest

from agentmesh import Board
from agentmesh.errors import DiskFull
from agentmesh.model import Task
from tests.support.boards import open_board, rows, states, violations
from tests.support.interleave import outcome
from tests.support.small_disk import small_disk

BIG = "x" * 60_000


@pytest.fixture
def disk(tmp_path):
    """A disk of a megabyte."""
    with small_disk(tmp_path / "disk") as disk:
        yield disk


def test_a_write_on_a_full_disk_has_no_effect(disk, clock):
    """Not the task, not its event, not its place in the counts; and reading works as before."""
    with open_board(disk.board, clock) as board:
        board.create_task("before", id="before")
        disk.fill()
        for number in range(3):
            with pytest.raises(DiskFull, match="No space"):
                board.create_task("t", id=f"t{number}", description=BIG)
        assert states(board) == {"before": "pending"}
        assert board.status().last_seq == 1
        assert violations(board) == {}


def test_the_same_board_works_again_once_there_is_room(disk, clock):
    """No restart, no repair: the call that failed is made again."""
    with open_board(disk.board, clock) as board:
        board.create_task("t", id="t")
        claim = board.claim_task("a")
        disk.fill()
        with pytest.raises(DiskFull):
            claim.complete({"log": BIG})
        assert board.get_task("t").state == "in_progress"
        disk.make_room()
        assert claim.complete({"log": BIG}).state == "completed"
        assert board.get_task("t").result == {"log": BIG}
        assert violations(board) == {}


def test_a_batch_that_does_not_fit_is_not_there_at_all(disk, clock):
    """Hundreds of tasks in one call, and room for half of them."""
    batch = [{"title": "t", "id": f"t{n}", "description": BIG, "depends_on": ["root"]} for n in range(40)]
    with open_board(disk.board, clock) as board:
        board.create_task("root", id="root")
        with pytest.raises(DiskFull):
            board.create_tasks(batch)
        assert states(board) == {"root": "pending"}
        assert rows(board, "SELECT count(*) FROM body") == [(0,)]
        assert len(board.create_tasks(batch[:2])) == 2
        assert violations(board) == {}


def test_what_was_acknowledged_before_the_disk_filled_is_kept(disk, clock):
    """Write until nothing fits; whoever opens the board next finds exactly what was answered with success."""
    done = []
    with open_board(disk.board, clock) as board:
        while isinstance(made := outcome(lambda: board.create_task("t", description="y" * 5000)), Task):
            done.append(made.id)
    assert isinstance(made, DiskFull)
    assert len(done) > 10
    with open_board(disk.board, clock) as board:
        assert list(states(board)) == done
        assert rows(board, "PRAGMA integrity_check") == [("ok",)]
        assert violations(board) == {}


@pytest.mark.parametrize("there", [False, True])
def test_opening_on_a_full_disk_says_so(disk, clock, there):
    """A new board, or one whose side files do not fit; with room the same call opens it."""
    if there:
        open_board(disk.board, clock).close()
    disk.fill()
    with pytest.raises(DiskFull):
        Board.open(disk.board)
    disk.make_room()
    with open_board(disk.board, clock) as board:
        assert board.create_task("t", id="t").id == "t"


def test_a_board_that_does_not_fit_is_not_there_at_all(disk, clock):
    """However much of it there is room for: no stub, no log, no gate, no draft; and it is made once there is room."""
    outcomes = set()
    for pages in (0, 1, 2, 3, 8, 12, 40, *range(62, 130, 4)):
        disk.fill(leave=pages)
        try:
            open_board(disk.board, clock).close()
        except DiskFull:
            outcomes.add("full")
            assert disk.files() == []
        else:
            outcomes.add("made")
            assert disk.files() == ["board.db", "board.db.gate"]
            disk.board.unlink()
        disk.make_room()
    assert outcomes == {"full", "made"}
    with open_board(disk.board, clock) as board:
        assert board.status().total == 0


def test_an_empty_file_that_was_there_stays_and_is_finished_once_there_is_room(disk, clock):
    """It is not ours to remove."""
    for pages in (0, 3, 12, 40):
        disk.board.touch()
        disk.fill(leave=pages)
        with pytest.raises(DiskFull):
            Board.open(disk.board)
        assert disk.board.is_file()
        disk.make_room()
        with open_board(disk.board, clock) as board:
            assert board.status().total == 0
        disk.board.unlink()


def test_a_full_disk_does_not_fail_a_write_that_was_committed(disk, clock):
    """Copying the log needs room in the board file; that it finds none is no business of whoever commits."""
    with open_board(disk.board, clock) as board:
        for number in range(5):
            board.create_task("t", id=f"t{number}", description="y" * 20_000)
        disk.fill()
        log = board.store._log
        log.committed(board.store._writer, "main", 1_000_000)
        log.close()  # waits for the pass
        assert len(states(board)) == 5
    disk.make_room()
    with open_board(disk.board, clock) as board:
        assert len(states(board)) == 5
        assert violations(board) == {}


def test_a_backup_that_does_not_fit_is_not_there_at_all(disk, board):
    """The error names the place that is full, not the board; no unfinished file goes on taking room."""
    for number in range(30):
        board.create_task("t", id=f"t{number}", description=BIG)
    target = disk.folder / "copy.db"
    with pytest.raises(DiskFull, match=str(target)):
        board.backup(target)
    assert list(disk.folder.iterdir()) == []
    assert violations(board) == {}


def test_a_backup_is_made_once_there_is_room(disk, board):
    """Not a byte is free, the call fails; other files are deleted, the same call makes it."""
    board.create_task("t")
    disk.fill()
    with pytest.raises(DiskFull):
        board.backup(disk.folder / "copy.db")
    disk.make_room()
    board.backup(disk.folder / "copy.db")
    with Board.open(disk.folder / "copy.db") as copy:
        assert states(copy) == states(board)
