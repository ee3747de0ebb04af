"""Public faults of systems like ours, section G of the bug bank: exports and imports."""

import ast
import json
from pathlib import Path

import pytest

import agentmesh
from agentmesh.errors import Corrupt, ImportRefused
from tests.support.boards import claimed, done, open_board, put, rows, states
from tests.support.scene import everything
from tests.support.transfer import exported, files, find, furnish, imported, parts, whole

SOURCE = Path(agentmesh.__file__).parent
PAGE = 4096


def test_g16_nothing_imports_by_itself(board, clock, tmp_path, board_path):
    """beads#4128: every command took a file beside the board in again, and with it undid the last second's work."""
    put(board, "a", "b")
    for name in ("board.jsonl", "board.db.jsonl", "export.jsonl", "import.jsonl", "issues.jsonl"):
        board.export(tmp_path / name)
    done(board, "a")
    before = everything(board)
    with open_board(board_path, clock) as other:
        other.status(), other.check(), other.has_work(), other.events(), other.doctor()
        assert everything(other) == before
    assert states(board) == {"a": "completed", "b": "pending"}


def test_g16_one_command_imports_and_no_other():
    """Nothing else in the product calls it."""
    callers = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_board")
    }
    assert callers == {"board/verbs/maintaining.py", "cli/transfer.py"}


def test_g17_shifted_fields_are_found_though_counts_fit(board, clock, tmp_path):
    """beads_rust#458, #132, #245: fields moved to their neighbours, counts were right, and the checks passed."""
    furnish(board, clock)
    lines = exported(board).splitlines(keepends=True)
    for number, line in enumerate(lines):
        row = json.loads(line)
        names = list(row)
        shifted = dict(zip(names, [row[names[0]], *[row[name] for name in names[2:]], row[names[1]]], strict=True))
        text = json.dumps(shifted, separators=(",", ":")).encode() + b"\n"
        spoilt = b"".join([*lines[:number], text, *lines[number + 1 :]])
        with pytest.raises(ImportRefused, match=f"^Line {number + 1},"):
            imported(spoilt, tmp_path / "new.db", clock)


def test_g17_what_is_exported_again_is_what_was_imported(board, clock, tmp_path):
    """Again and again, with every text in every field as it was."""
    furnish(board, clock)
    texts = [exported(board).split(b"\n", 1)[1]]
    text = exported(board)
    for turn in range(3):
        imported(text, tmp_path / f"{turn}.db", clock)
        with open_board(tmp_path / f"{turn}.db", clock) as copy:
            text = exported(copy)
            texts.append(text.split(b"\n", 1)[1])
    assert len(set(texts)) == 1


@pytest.mark.parametrize("change", ["null", "missing", "extra"])
@pytest.mark.parametrize("kind", ["plan", "task", "edge", "attempt", "entry", "usage"])
def test_g19_one_bad_row_is_named(board, clock, tmp_path, kind, change):
    """claude-task-master#921: one null broke the whole file, and nobody knew where."""
    furnish(board, clock)
    rows_ = parts(exported(board))
    place = find(rows_, kind)
    field = list(rows_[place])[1]
    if change == "missing":
        del rows_[place][field]
    else:
        rows_[place] |= {"null": {field: None}, "extra": {"metadata": {}}}[change]
    with pytest.raises(ImportRefused) as found:
        imported(whole(rows_), tmp_path / "new.db", clock)
    assert found.value.line == place + 1
    assert found.value.field == ("type" if change == "extra" else field)
    assert files(tmp_path) == ["board.db"]


def spoil(board_path, board, table):
    """Close a board and overwrite the first page of one of its tables."""
    page = dict(rows(board, "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0"))[table]
    board.close()
    whole_ = bytearray(board_path.read_bytes())
    whole_[(page - 1) * PAGE : page * PAGE] = b"\xff" * PAGE
    board_path.write_bytes(whole_)


@pytest.fixture
def sound(board_path, clock):
    """A board that is about to be damaged."""
    with open_board(board_path, clock) as board:
        furnish(board, clock)
        put(board, "last")
        claimed(board, "last")
        yield board


@pytest.mark.parametrize("table", ["task", "edge", "attempt", "body", "entry_value", "usage_entry"])
def test_g20_a_board_whose_rows_are_damaged_is_not_exported(sound, board_path, clock, tmp_path, table):
    """From caro PR#1124: it refuses at once, says what is wrong and what to do, and nobody waits for it in a loop."""
    spoil(board_path, sound, table)
    with open_board(board_path, clock) as board, pytest.raises(Corrupt, match="damaged") as found:
        board.export(tmp_path / "out.jsonl")
    assert "restore a backup" in found.value.hint
    assert files(tmp_path) == ["board.db"]


@pytest.mark.parametrize("table", ["event", "request", "agent", "usage_total", "tally", "task_ready"])
def test_g20_what_an_export_does_not_need_may_be_damaged(sound, board_path, clock, tmp_path, table):
    """History, requests and all that stands for speed only: an export, and the board made of it, are the way back."""
    before = exported(sound)
    spoil(board_path, sound, table)
    with open_board(board_path, clock) as board:
        text = exported(board)
    assert text == before
    imported(text, tmp_path / "new.db", clock)
