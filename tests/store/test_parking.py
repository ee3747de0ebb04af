"""Waiting at a clock cell: a place is given back however a wait ends."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from agentmesh import Board
from agentmesh.cell import PARKED, CellClock, cell_path
from agentmesh.errors import BoardClosed, ResourcesExhausted
from agentmesh.store import parking
from tests.support.patience import PATIENCE_SEC, until


@pytest.fixture
def cell(tmp_path):
    """The cell of a board to be."""
    clock = CellClock.create(cell_path(tmp_path / "board.db"))
    yield clock
    clock.close()


@pytest.fixture
def board(tmp_path, cell):
    """A board on the cell."""
    with Board.open(tmp_path / "board.db", clock=cell) as board:
        yield board


def test_a_wait_that_cannot_begin_keeps_no_place(board, cell, monkeypatch):
    """Else whoever turns the clock would wait for it for ever."""

    def fail(_):
        raise OSError(errno.EMFILE, "no descriptor left")

    monkeypatch.setattr(parking, "clock_berth", fail)
    with pytest.raises(ResourcesExhausted):
        board.claim_task("coder-1", wait_sec=1)
    assert cell.stands() == []


def test_a_call_that_waits_hears_that_its_board_is_closed(board, cell):
    """The cell is closed right behind the board, and the call is told of the board."""
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(board.claim_task, f"coder-{number}", wait_sec=50) for number in range(8)]
        until(lambda: [stand.kind for stand in cell.stands()] == [PARKED] * 8)
        board.close()
        cell.close()
        assert [type(call.exception(PATIENCE_SEC)) for call in calls] == [BoardClosed] * 8
