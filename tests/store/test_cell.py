"""The clock cell: one time for all who map it, and places by which its turner knows who has seen it."""

import pickle
import subprocess
import sys

import pytest

from agentmesh.cell import AGENT, PARKED, PLACES, RUNNING, START_US, CellClock, alive, cell_path
from agentmesh.errors import InvalidArgument, Overloaded
from tests.support.patience import until
from tests.support.processes import descriptors
from tests.support.small_disk import small_disk


@pytest.fixture
def cell(tmp_path):
    """A new cell, mapped."""
    clock = CellClock.create(tmp_path / "a.clock")
    yield clock
    clock.close()


def python(code, *arguments):
    """What a new process prints."""
    return subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True).stdout


def test_a_new_cell_begins_in_2026(cell):
    """Every board of every run starts at the same instant."""
    assert cell.now_us() == START_US


def test_all_who_map_it_tell_the_same_time(cell):
    """Turned in one place, it is turned in all, and the generation says so."""
    other, before = CellClock(cell.path), cell.generation
    cell.turn(START_US + 5)
    assert (other.now_us(), other.generation) == (START_US + 5, before + 1)
    other.close()


def test_another_process_reads_the_time(cell):
    """No message and no query: it maps the file."""
    cell.turn(42)
    code = "import sys; from agentmesh.cell import CellClock; print(CellClock(sys.argv[1]).now_us())"
    assert python(code, str(cell.path)) == "42\n"


def test_a_pickled_cell_is_the_same_cell(cell):
    """A pool of processes may hand it over."""
    other = pickle.loads(pickle.dumps(cell))
    cell.turn(7)
    assert other.now_us() == 7
    other.close()


def test_a_cell_is_not_made_twice(cell):
    """Whoever makes one finds no other test's there."""
    with pytest.raises(FileExistsError):
        CellClock.create(cell.path)


@pytest.mark.parametrize("content", [b"", b"x" * 20, b"\0" * 40_000])
def test_what_is_no_cell_is_refused(tmp_path, content):
    """Too short, or long enough and something else."""
    place = tmp_path / "x.clock"
    place.write_bytes(content)
    with pytest.raises(InvalidArgument, match="clock cell"):
        CellClock(place)


def test_no_cell_beside_a_board_is_refused(tmp_path):
    """The error names the argument."""
    with pytest.raises(InvalidArgument, match="no clock cell beside"):
        CellClock.beside(tmp_path / "board.db")


def test_the_cell_of_a_board_has_its_real_name(tmp_path):
    """By whatever link a board is named, its cell is the same."""
    (tmp_path / "board.db").touch()
    (tmp_path / "link.db").symlink_to("board.db")
    assert cell_path(tmp_path / "link.db") == tmp_path / "board.db.clock"


def test_a_place_tells_how_its_owner_stands(cell):
    """It runs, is parked, and is gone."""
    place = cell.take_part()
    assert [stand.kind for stand in cell.stands()] == [RUNNING]
    place.park(START_US + 9, seen=cell.generation)
    (stand,) = cell.stands()
    assert (stand.kind, stand.due_us, stand.seen) == (PARKED, START_US + 9, cell.generation)
    place.leave()
    assert cell.stands() == []


def test_places_are_told_apart(cell):
    """Two threads that wait have one each; one that is left is taken again."""
    first, second = cell.take_part(), cell.take_part(AGENT)
    assert [stand.number for stand in cell.stands()] == [0, 1]
    first.leave()
    cell.take_part()
    assert sorted((stand.number, stand.kind) for stand in cell.stands()) == [(0, RUNNING), (1, AGENT)]
    second.leave()


def test_the_places_of_the_dead_are_taken_back(cell):
    """A process that was killed while it waited holds nobody up."""
    code = "import os, sys; from agentmesh.cell import CellClock; CellClock(sys.argv[1]).take_part(); os._exit(0)"
    python(code, str(cell.path))
    assert cell.stands() == []
    cell.take_part()
    assert [stand.number for stand in cell.stands()] == [0]


def test_there_are_only_so_many_places(cell):
    """One more is refused with a typed error."""
    for _ in range(PLACES):
        cell.take_part()
    with pytest.raises(Overloaded):
        cell.take_part()


def test_a_closed_cell_whose_places_are_left_is_not_mapped(cell):
    """Even while something still refers to such a place, as a thread's remains do until they are collected."""
    before = descriptors()
    other = CellClock(cell.path)
    place = other.take_part()
    other.close()
    assert descriptors() == before + 1
    place.leave()
    place.leave()
    assert descriptors() == before


def test_a_process_nobody_has_reaped_is_dead():
    """A zombie answers signals, and does nothing any more."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        until(lambda: not alive(process.pid))
        assert process.returncode is None
    assert not alive(process.pid)


def test_holds_are_counted(cell):
    """The clock moves by itself only when the last holder has let go."""
    with cell.hold():
        with cell.hold():
            assert cell.held
        assert cell.held
    assert not cell.held


def test_a_cell_that_does_not_fit_is_not_there_at_all(tmp_path):
    """The same call makes it once there is room."""
    with small_disk(tmp_path / "disk") as disk:
        disk.fill(leave=2)
        with pytest.raises(OSError, match="space"):
            CellClock.create(disk.folder / "a.clock")
        assert disk.files() == []
        disk.make_room()
        CellClock.create(disk.folder / "a.clock").close()
