"""Exports: what is in them and what is not, whole files or none, one snapshot while others write."""

import hashlib
import io
import json
import stat

import pytest

from agentmesh.errors import Corrupt, InvalidArgument
from tests.support.boards import claimed, damage, done, open_board, put, rows
from tests.support.transfer import HOSTILE, exported, files, find, furnish, imported, parts


class Gone(io.BytesIO):
    """A reader that goes away after so many writes."""

    def __init__(self, writes):
        super().__init__()
        self._left = writes

    def write(self, data):
        """Take some, then no more."""
        self._left -= 1
        if self._left < 0:
            raise BrokenPipeError
        return super().write(data)


def test_every_line_is_an_object_with_a_check_between_header_and_trailer(board, clock):
    """As docs/export.md says, so that any reader can verify a line by itself and the whole by one digest."""
    furnish(board, clock)
    lines = exported(board, events=True).split(b"\n")
    assert lines.pop() == b""
    for line in lines:
        bare, tail = line[:-28], line[-28:]
        assert tail == b',"check":"%s"}' % hashlib.sha256(bare + b"}").hexdigest()[:16].encode()
    header, trailer = json.loads(lines[0]), json.loads(lines[-1])
    assert (header["type"], header["format"], header["version"]) == ("header", "agentmesh-export", 2)
    assert header["exported_us"] == clock.now_us()
    assert trailer["sha256"] == hashlib.sha256(b"".join(line + b"\n" for line in lines[1:-1])).hexdigest()
    assert trailer["counts"] == header["counts"]
    assert sum(header["counts"].values()) == len(lines) - 2


def test_kinds_of_rows_stand_in_one_order_and_say_all_their_fields(board, clock):
    """A field without a value is null, never left out: what is missing is damage."""
    furnish(board, clock)
    rows_ = parts(exported(board, events=True))[1:-1]
    order = list(dict.fromkeys(row["type"] for row in rows_))
    assert order == [
        *(
            "plan",
            "task",
            "edge",
            "attempt",
            "note",
            "pause",
            "task_pause",
            "cap",
            "budget",
            "entry",
            "entry_tombstone",
        ),
        *("task_tombstone", "usage", "usage_pruned", "event"),
    ]
    for kind in order:
        assert len({tuple(row) for row in rows_ if row["type"] == kind}) == 1


def test_numbers_are_those_of_the_tables(board, clock):
    """Whole microseconds and 10^-12 dollars: nothing is rounded."""
    furnish(board, clock)
    rows_ = parts(exported(board))
    cheap = rows_[find(rows_, "usage", model="m1")]
    assert (cheap["cost_pusd"], cheap["at_us"]) == (1, rows(board, "SELECT at_us FROM usage_entry")[0][0])
    assert rows_[find(rows_, "task", id="costly")]["estimate_pusd"] == 500_000_000_000


def test_no_export_holds_a_secret_or_what_agents_asked_for(board, clock):
    """Nor requests, holds, what agents can do, or where they are."""
    furnish(board, clock)
    claim = board.claim_task("eve", plan="default", capabilities=["rare-skill"], request_id="request-of-eve")
    text = exported(board, events=True).decode()
    assert rows(board, "SELECT COUNT(*) FROM request") == [(1,)]
    assert [word for word in (claim.lease.secret, "request-of-eve", "rare-skill") if word in text] == []
    secrets = [secret for (secret,) in rows(board, "SELECT secret FROM attempt")]
    assert len(secrets) > 5
    assert [secret for secret in secrets if secret in text] == []


def test_an_entry_that_has_expired_is_in_no_export(board, clock):
    """Swept or not: its name and version are, as those of an entry that is gone (P9)."""
    furnish(board, clock)
    assert rows(board, "SELECT COUNT(*) FROM entry WHERE key = 'over'") == [(1,)]
    text = exported(board)
    assert b"never to be seen" not in text
    gone = [row["key"] for row in parts(text) if row["type"] == "entry_tombstone"]
    assert gone == ["gone", "over"]


def test_an_export_is_ascii_whatever_agents_wrote(board, clock):
    """It cannot act on a terminal, and no reader breaks a line where there is none."""
    furnish(board, clock)
    text = exported(board, events=True)
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in text)
    rows_ = parts(text)
    assert rows_[find(rows_, "task", id="h1")]["description"] == HOSTILE[1]
    assert len(text.decode().splitlines()) == len(rows_)


def test_a_file_is_there_only_when_it_is_whole(board, clock, tmp_path):
    """For this user only; an export that fails leaves nothing."""
    furnish(board, clock)
    made = board.export(tmp_path / "out.jsonl")
    assert stat.S_IMODE((tmp_path / "out.jsonl").stat().st_mode) == 0o600
    assert (tmp_path / "out.jsonl").read_bytes() == exported(board)
    assert (made.at_us, made.rows["plan"]) == (clock.now_us(), 5)

    def give_up(stage, _done, _of):
        if stage == "rows":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        board.export(tmp_path / "other.jsonl", progress=give_up)
    assert files(tmp_path) == ["board.db", "out.jsonl"]


def test_a_file_that_is_there_stays_unless_it_may_be_replaced(board, clock, tmp_path):
    """A board is never replaced, whatever is allowed."""
    target = tmp_path / "out.jsonl"
    target.write_text("mine")
    with pytest.raises(InvalidArgument, match="is there already"):
        board.export(target)
    assert target.read_text() == "mine"
    board.export(target, replace=True)
    assert target.read_bytes() == exported(board)
    for place in (tmp_path / "board.db", tmp_path, tmp_path / "missing" / "x"):
        with pytest.raises(InvalidArgument):
            board.export(place, replace=True)
    with open_board(tmp_path / "board.db", clock) as again:
        assert again.status().total == 0


def test_an_export_is_one_snapshot_although_others_write_on(board, clock, tmp_path):
    """What comes after its instant is not in it, whatever it is; the file makes a board that keeps its promises."""
    furnish(board, clock)
    calm, busy, written = exported(board), io.BytesIO(), []

    def meddle(stage, _done, _of):
        if stage == "rows":
            written.append(board.create_task("Later", priority=7).id)
            done(board, written[-1])
            board.blackboard.put("texts", "k0", len(written))

    board.export(busy, progress=meddle)
    assert len(written) > 5
    assert busy.getvalue() == calm
    imported(calm, tmp_path / "new.db", clock)


def test_an_export_does_not_hold_the_log_up(board, clock):
    """While rows are written, the whole log can be copied back and begun anew: nobody reads the board itself."""
    furnish(board, clock)
    answers = []

    def checkpoint(stage, _done, _of):
        if stage == "rows":
            board.store._writer.set_busy_timeout(0)
            answers.append(board.store._writer.wal_checkpoint(mode=3))

    exported(board, progress=checkpoint)
    assert len(answers) > 5
    assert set(answers) == {(0, 0)}


@pytest.mark.parametrize("writes", [0, 1, 5])
def test_a_reader_that_goes_away_leaves_nothing_behind(board, clock, tmp_path, writes):
    """The copy that was read goes with it."""
    furnish(board, clock)
    with pytest.raises(BrokenPipeError):
        board.export(Gone(writes))
    assert files(tmp_path) == ["board.db"]
    exported(board)
    assert files(tmp_path) == ["board.db"]


@pytest.mark.damaged
@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DELETE FROM plan WHERE name = 'side'", "[0-9]+ rows of kind task name what is missing"),
        ("UPDATE body SET payload = '{' WHERE payload IS NOT NULL", r"body\.payload of task '\w+' is not the JSON"),
        (
            "UPDATE entry_value SET body = CAST(x'22ff22' AS TEXT) WHERE body IS NOT NULL",
            r"value\.body of .* not UTF-8",
        ),
        ("UPDATE entry_value SET bytes = NULL, body = '1' WHERE bytes IS NOT NULL", "of kind entry cannot be read"),
        ("UPDATE entry_value SET body = NULL", "of kind entry cannot be read"),
        ("UPDATE pool SET paths = '{}' WHERE pk = 1", r"pool\.paths of pk 1 is not the JSON"),
        ("DELETE FROM entry_value", "[0-9]+ rows of kind entry name what is missing"),
    ],
)
def test_what_cannot_be_exported_whole_is_not_exported(board, clock, tmp_path, sql, says):
    """Rows that name what is not there, or that nobody can read: a typed error that says which, and no file."""
    furnish(board, clock)
    damage(board, "PRAGMA foreign_keys = 0")
    assert damage(board, sql)
    with pytest.raises(Corrupt, match=says):
        board.export(tmp_path / "out.jsonl")
    assert files(tmp_path) == ["board.db"]


def test_a_held_task_is_exported_as_held(board):
    """The import takes it back, not the export."""
    put(board, "a")
    claimed(board, "a")
    rows_ = parts(exported(board))
    assert rows_[find(rows_, "task", id="a")]["state"] == "in_progress"
    assert rows_[find(rows_, "attempt", task="a")]["outcome"] is None


def test_pages_follow_each_other_without_gap_or_overlap(board, clock, tmp_path):
    """Of what there are many, there are more than fit on a page."""
    board.create_tasks([{"title": "t", "id": f"t{n}", "depends_on": [f"t{n - 1}"] * (n > 0)} for n in range(1_100)])
    for number in range(50):
        board.blackboard.put(f"n{number % 3}", f"k{number}", number)
    for number in range(1, 1_100):
        board.ledger.record("a", output_tokens=number, model="m")
    text = exported(board)
    rows_ = parts(text)
    assert [row["id"] for row in rows_ if row["type"] == "task"] == [f"t{n}" for n in range(1_100)]
    assert [row["output_tokens"] for row in rows_ if row["type"] == "usage"] == list(range(1, 1_100))
    assert len({row["key"] for row in rows_ if row["type"] == "entry"}) == 50
    imported(text, tmp_path / "new.db", clock)
