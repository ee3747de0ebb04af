"""Test boards: made on a cell, written on that cell only, read by anybody."""

import pytest

from agentmesh import Board
from agentmesh.cell import START_US, VARIABLE, CellClock, cell_path
from agentmesh.clock import SystemClock
from agentmesh.errors import InvalidArgument, OnTestClock
from tests.support.boards import kinds


@pytest.fixture
def cell(board_path, monkeypatch):
    """A cell beside a board that is not there yet, in a process that was not told of test clocks."""
    monkeypatch.delenv(VARIABLE, raising=False)
    clock = CellClock.create(cell_path(board_path))
    yield clock
    clock.close()


@pytest.fixture
def on_cell(board_path, cell):
    """A test board."""
    with Board.open(board_path, clock=cell) as board:
        board.create_task("Task", id="a")
        yield board


def test_a_test_board_goes_by_its_cell(on_cell, cell):
    """What happens on it happens at the time of the cell."""
    assert on_cell.get_task("a").created_us == START_US
    cell.turn(START_US + 60_000_000)
    assert on_cell.create_task("Task", id="b").created_us == START_US + 60_000_000


def test_without_its_clock_a_test_board_is_read_only(on_cell, board_path):
    """It can be looked at, at the time that its cell tells; a write is refused and names the way."""
    with Board.open(board_path) as board:
        assert board.get_task("a").title == "Task"
        assert board.status().now_us == START_US
        with pytest.raises(OnTestClock, match="goes by a test's clock") as refused:
            board.create_task("Task", id="b")
    assert "--test-clock" in refused.value.hint
    assert kinds(on_cell) == ["task_created"]


def test_without_its_cell_it_is_read_only(on_cell, board_path):
    """What was kept of a failed test can be looked at for ever."""
    on_cell.close()
    cell_path(board_path).unlink()
    with Board.open(board_path) as board:
        assert board.status().total == 1
        with pytest.raises(OnTestClock):
            board.claim_task("ada")


def test_a_copy_is_read_only(on_cell, tmp_path):
    """A backup has no cell beside it."""
    on_cell.backup(tmp_path / "copy.db")
    with Board.open(tmp_path / "copy.db") as copy, pytest.raises(OnTestClock):
        copy.claim_task("ada")


@pytest.mark.usefixtures("on_cell")
def test_another_clock_does_not_write_it(board_path, clock):
    """Handed in or not: it is not the board's."""
    with Board.open(board_path, clock=clock) as board, pytest.raises(OnTestClock):
        board.claim_task("ada")


@pytest.mark.usefixtures("on_cell")
def test_a_process_that_was_told_may_write_it(board_path, monkeypatch):
    """The code under test opens a board by its path, and need not know of clocks."""
    monkeypatch.setenv(VARIABLE, "1")
    with Board.open(board_path) as board:
        assert board.claim_task("ada").lease.expires_us == START_US + 60_000_000


def test_what_was_told_changes_no_other_board(tmp_path, monkeypatch):
    """A board without a cell is an ordinary one, whatever the environment says."""
    monkeypatch.setenv(VARIABLE, "1")
    with Board.open(tmp_path / "real.db") as board:
        assert isinstance(board.store.clock, SystemClock)
        assert not board.store.on_test_clock
        assert board.create_task("Task").created_us > START_US


def test_a_real_board_takes_no_test_clock(board_path, cell):
    """Its leases live in the world's time."""
    Board.open(board_path).close()
    with pytest.raises(OnTestClock, match="was not made on a test clock"):
        Board.open(board_path, clock=cell)


def test_the_cell_of_another_board_is_refused(tmp_path, cell):
    """Before anything is written."""
    with pytest.raises(InvalidArgument, match="the clock cell of this board must be"):
        Board.open(tmp_path / "other.db", clock=cell)
    assert not (tmp_path / "other.db").exists()


def test_heartbeats_are_history_on_a_test_board(on_cell):
    """A timeline is drawn from them."""
    claim = on_cell.claim_task("ada")
    claim.heartbeat()
    (event,) = (event for event in on_cell.events() if event.kind == "heartbeat")
    assert (event.task_id, event.fence, event.agent_id) == ("a", 1, "ada")
    assert event.data == {"expires_us": claim.lease.expires_us}


def test_heartbeats_are_no_history_elsewhere(board):
    """They would be most of it."""
    board.create_task("Task", id="a")
    board.claim_task("ada").heartbeat()
    assert kinds(board) == ["task_created", "task_claimed"]
