"""A damaged file is called damaged: typed, at once or when the damage is met, and nothing is written to it."""

import pytest

from agentmesh import Board
from agentmesh.errors import Corrupt, ForeignFile, StoreError
from tests.support.boards import open_board, rows
from tests.support.interleave import outcome

PAGE = 4096
EMPTY_INDEX = b"\x0a\0\0\0\0\x10\0\0".ljust(PAGE, b"\0")
"""A page of an index without entries, as SQLite writes it."""
READS = (
    lambda board: board.check(),
    lambda board: board.status(),
    lambda board: board.events(0),
    lambda board: board.list_tasks(),
    lambda board: board.explain(),
)


@pytest.fixture
def sound(board_path, clock):
    """A closed board with something in every table that a claim touches; where each table begins."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "writes": [f"src/{n}/**"]} for n in range(50)])
        for _ in range(10):
            board.claim_task("a").complete({"done": True})
        board.claim_task("a")
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


@pytest.mark.parametrize("table", ["task", "attempt", "event"])
def test_a_damaged_board_gets_no_backup(sound, clock, table):
    """A copy that would restore the damage is worse than none; the error says what is wrong with the board."""
    path, places = sound
    spoil(path, places[table])
    with open_board(path, clock) as board, pytest.raises(Corrupt, match=r"board\.db is damaged"):
        board.backup(path.parent / "copy.db")
    assert not list(path.parent.glob("copy*"))


def test_an_index_that_lost_its_rows_is_found_by_a_backup(sound, clock):
    """Every page reads well, and no promise is broken; the copy's indexes are compared with its tables."""
    path, places = sound
    spoil(path, places["attempt_due"], EMPTY_INDEX)
    with open_board(path, clock) as board:
        assert not any(isinstance(outcome(lambda call=call: call(board)), Exception) for call in READS)
        with pytest.raises(Corrupt, match="does not pass"):
            board.backup(path.parent / "copy.db")
    assert not list(path.parent.glob("copy*"))


CALLS = (
    *READS,
    lambda board: board.claim_task("b").complete(),
    lambda board: board.create_task("t"),
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


def test_no_damaged_page_gets_into_a_backup(sound, clock):
    """Each page in turn is spoilt; there is a sound copy (the page was free, or ends up so) or an error and no file."""
    path, _ = sound
    whole, made = path.read_bytes(), 0
    for page in range(2, len(whole) // PAGE + 1):
        spoil(path, page)
        board = outcome(lambda: open_board(path, clock))
        if isinstance(board, Board):
            answer = outcome(lambda board=board: board.backup(path.parent / "copy.db"))
            board.close()
            assert isinstance(answer, StoreError) != (path.parent / "copy.db").exists(), page
            made += (path.parent / "copy.db").exists()
            (path.parent / "copy.db").unlink(missing_ok=True)
        path.write_bytes(whole)
    assert made < 3
    assert not list(path.parent.glob("copy*"))
