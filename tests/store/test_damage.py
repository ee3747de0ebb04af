"""A damaged file is called damaged: typed, at once or when the damage is met, and nothing is written to it."""

import pytest

from agentmesh import Board
from agentmesh.errors import Corrupt, ForeignFile, StoreError
from tests.support.boards import open_board, rows
from tests.support.interleave import outcome

PAGE = 4096


@pytest.fixture
def sound(board_path, clock):
    """A closed board with something in every table that a claim touches; where each table begins."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "writes": [f"src/{n}/**"]} for n in range(50)])
        for _ in range(10):
            board.claim_task("a").complete({"done": True})
        places = dict(rows(board, "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))
    return board_path, places


def spoil(path, page, junk=b"\xff" * PAGE):
    """Overwrite one page of a closed board."""
    whole = bytearray(path.read_bytes())
    whole[(page - 1) * PAGE : page * PAGE] = junk
    path.write_bytes(whole)


@pytest.mark.parametrize("table", ["task", "attempt", "event"])
def test_a_damaged_table_is_called_corrupt(sound, clock, table):
    """The error names the file and the one thing to do."""
    path, places = sound
    spoil(path, places[table])
    with open_board(path, clock) as board, pytest.raises(Corrupt, match="damaged") as found:
        board.check()
    assert "restore a backup" in found.value.hint


def test_damage_that_is_met_on_opening_is_called_corrupt(sound):
    """What the board needs to know of itself stands in a table like any other; nothing stays open behind the error."""
    path, places = sound
    spoil(path, places["meta"])
    with pytest.raises(Corrupt):
        Board.open(path)
    assert sorted(file.name for file in path.parent.iterdir()) == ["board.db", "board.db.gate"]


def test_a_file_without_its_header_is_foreign(sound):
    """Nobody can tell what it was; it is left as it is."""
    path, _ = sound
    spoil(path, 1)
    before = path.read_bytes()
    with pytest.raises(ForeignFile):
        Board.open(path)
    assert path.read_bytes() == before


def test_a_file_that_was_cut_short_is_corrupt(sound, clock):
    """As an interrupted copy leaves it."""
    path, _ = sound
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2 // PAGE * PAGE])
    with pytest.raises(Corrupt), open_board(path, clock) as board:
        board.check()


CALLS = (
    lambda board: board.check(),
    lambda board: board.status(),
    lambda board: board.claim_task("b").complete(),
    lambda board: board.create_task("t"),
    lambda board: board.events(0),
    lambda board: board.list_tasks(),
    lambda board: board.explain(),
)


def test_no_damaged_page_brings_out_anything_but_a_store_error(sound, clock):
    """Each page in turn is spoilt; every call then works or fails with a type of ours."""
    path, _ = sound
    whole = path.read_bytes()
    met = 0
    for page in range(1, len(whole) // PAGE + 1):
        spoil(path, page)
        board = outcome(lambda: open_board(path, clock))
        if isinstance(board, Board):
            answers = [outcome(lambda call=call, board=board: call(board)) for call in CALLS]
            board.close()
        else:
            answers = [board]
        failed = [answer for answer in answers if isinstance(answer, Exception)]
        assert all(isinstance(answer, StoreError) for answer in failed), (page, failed)
        met += bool(failed)
        path.write_bytes(whole)
    assert met > 20
