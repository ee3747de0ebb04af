"""What an import refuses: every line that is not as an export has it, by its number, and then there is no board."""

import hashlib
import io
import json

import pytest

from agentmesh import Board
from agentmesh.board.transfer.form import LONGEST
from agentmesh.errors import ImportRefused
from agentmesh.limits import INTEGER
from tests.support.boards import claimed, open_board, put
from tests.support.clock import START_US, TurnableClock
from tests.support.transfer import exported, find, furnish, imported, line, parts, whole


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """An export of a board with something of every kind."""
    clock = TurnableClock()
    with open_board(tmp_path_factory.mktemp("exported") / "board.db", clock) as board:
        furnish(board, clock)
        put(board, "held")
        claimed(board, "held")
        return exported(board)


@pytest.fixture
def refusal(tmp_path):
    """What an import says; it must leave nothing behind."""

    def ask(text):
        with pytest.raises(ImportRefused) as found:
            imported(text, tmp_path / "new.db", TurnableClock())
        assert list(tmp_path.iterdir()) == []
        assert found.value.hint
        return found.value

    return ask


CHANGES = {
    "an id that is no name": ("task", {"id": "u"}, {"id": "a b"}, "id"),
    "an id that ends like a condition": ("task", {"id": "u"}, {"id": "u:failed"}, "id"),
    "an id too long": ("task", {"id": "u"}, {"id": "u" * 129}, "id"),
    "an id of a row before": ("task", {"id": "u"}, {"id": "a"}, "id"),
    "a plan that is not there": ("task", {"id": "u"}, {"plan": "nowhere"}, "plan"),
    "a plan that is a list": ("task", {"id": "u"}, {"plan": []}, "plan"),
    "a title too long": ("task", {"id": "u"}, {"title": "x" * 301}, "title"),
    "a blank title": ("task", {"id": "u"}, {"title": " "}, "title"),
    "a title with a lone surrogate": ("task", {"id": "u"}, {"title": "\ud800"}, "title"),
    "a title with NUL": ("task", {"id": "u"}, {"title": "\0"}, "title"),
    "an unknown state": ("task", {"id": "u"}, {"state": "done"}, "state"),
    "a state that is a list": ("task", {"id": "u"}, {"state": ["pending"]}, "state"),
    "a priority out of bounds": ("task", {"id": "u"}, {"priority": 1_000_001}, "priority"),
    "a priority that is true": ("task", {"id": "u"}, {"priority": True}, "priority"),
    "a priority that is a fraction": ("task", {"id": "u"}, {"priority": 1.0}, "priority"),
    "a null where none may be": ("task", {"id": "u"}, {"priority": None}, "priority"),
    "capabilities that are not sorted": ("task", {"id": "u"}, {"requires": ["b", "a"]}, "requires"),
    "capabilities given twice": ("task", {"id": "u"}, {"requires": ["a", "a"]}, "requires"),
    "capabilities that are no list": ("task", {"id": "u"}, {"requires": "a"}, "requires"),
    "too many tags": ("task", {"id": "u"}, {"tags": [f"{n:02}" for n in range(65)]}, "tags"),
    "a pattern not in its normal form": ("task", {"id": "u"}, {"writes": ["src/"]}, "writes"),
    "a pattern out of the workspace": ("task", {"id": "u"}, {"writes": ["../x"]}, "writes"),
    "a pattern read and written": ("task", {"id": "u"}, {"writes": ["x"], "reads": ["x"]}, "reads"),
    "a lease out of bounds": ("task", {"id": "u"}, {"lease_timeout_us": 1}, "lease_timeout_us"),
    "a hold shorter than a lease": ("task", {"id": "u"}, {"max_hold_us": 50_000}, "max_hold_us"),
    "no hand-outs": ("task", {"id": "u"}, {"max_attempts": 0}, "max_attempts"),
    "an instant before the epoch": ("task", {"id": "u"}, {"created_us": -1}, "created_us"),
    "an instant after the year 9999": ("task", {"id": "u"}, {"created_us": INTEGER}, "created_us"),
    "an end of what goes on": ("task", {"id": "u"}, {"ended_us": START_US}, "ended_us"),
    "no end of what is over": ("task", {"state": "completed"}, {"ended_us": None}, "ended_us"),
    "a failure without a reason": ("task", {"state": "failed"}, {"reason": None}, "reason"),
    "a wait for no time": ("task", {"state": "scheduled"}, {"not_before_us": None}, "not_before_us"),
    "a root of what goes on": ("task", {"id": "u"}, {"root": "a"}, "root"),
    "a root that is not there": ("task", {"state": "cancelled"}, {"root": "nowhere"}, "root"),
    "opened after its last attempt": ("task", {"id": "u"}, {"opened_fence": 1}, "opened_fence"),
    "a description too long": ("task", {"id": "u"}, {"description": "x" * 65_537}, "description"),
    "a payload nested too deeply": ("task", {"id": "u"}, {"payload": json.loads("[" * 65 + "]" * 65)}, "payload"),
    "a payload with too large a number": ("task", {"id": "u"}, {"payload": 2**63}, "payload"),
    "a task that waits for itself": ("edge", {"task": "b"}, {"depends_on": "b"}, "depends_on"),
    "an edge to nowhere": ("edge", {"task": "b"}, {"depends_on": "nowhere"}, "depends_on"),
    "an edge from nowhere": ("edge", {"task": "b"}, {"task": "nowhere"}, "task"),
    "an unknown condition": ("edge", {"task": "b"}, {"condition": "done"}, "condition"),
    "an edge that is there already": ("edge", {"task": "d", "depends_on": "c"}, {"depends_on": "b"}, "type"),
    "a fence of none": ("attempt", {"task": "first"}, {"fence": 0}, "fence"),
    "a gap in the fences": ("attempt", {"task": "first", "fence": 2}, {"fence": 3}, "fence"),
    "fences that begin late": ("attempt", {"task": "first", "fence": 1}, {"fence": 2}, "fence"),
    "a fence past all bounds": ("attempt", {"task": "first"}, {"fence": 2**63}, "fence"),
    "an attempt at nothing": ("attempt", {"task": "first"}, {"task": "nowhere"}, "task"),
    "an unknown outcome": ("attempt", {"task": "first"}, {"outcome": "won"}, "outcome"),
    "an open attempt at what rests": (
        "attempt",
        {"task": "first", "fence": 2},
        {"outcome": None, "ended_us": None},
        "outcome",
    ),
    "an open attempt that ended": ("attempt", {"task": "held"}, {"ended_us": START_US}, "ended_us"),
    "a lease that ends before it begins": ("attempt", {"task": "held"}, {"lease_expires_us": 0}, "lease_expires_us"),
    "a kind of what has not failed": ("attempt", {"task": "held"}, {"kind": "infra"}, "kind"),
    "a charge that is a number": ("attempt", {"task": "held"}, {"charged": 1}, "charged"),
    "a note on no attempt": ("note", {}, {"fence": 3}, "fence"),
    "a pause of a plan that is not there": ("pause", {"scope": "plan"}, {"name": "nowhere"}, "name"),
    "a pause of a board with a name": ("pause", {"scope": "agent"}, {"scope": "board"}, "name"),
    "a pause of a task that is not there": ("task_pause", {}, {"task": "nowhere"}, "task"),
    "a pause of a final task": ("task_pause", {"task": "halted"}, {"task": "x2"}, "task"),
    "a pause by nobody": ("task_pause", {"ceiling": None}, {"agent_id": None}, "agent_id"),
    "a pause by a ceiling that is none": ("task_pause", {}, {"ceiling": "split"}, "ceiling"),
    "a key of two open tasks": ("task", {"id": "halted"}, {"key": "unwanted"}, "key"),
    "a count past the last attempt": ("task", {"id": "unwanted"}, {"excused_fence": 99}, "excused_fence"),
    "a cap of none": ("cap", {}, {"most": 0}, "most"),
    "budgets not in their order": ("budget", {"scope": "board"}, {"scope": "agent", "name": "aa"}, "type"),
    "a budget of a task that is not there": ("budget", {"scope": "task"}, {"name": "nowhere"}, "name"),
    "a budget below nothing": ("budget", {"scope": "board"}, {"limit_pusd": -1}, "limit_pusd"),
    "an entry without a version": ("entry", {"namespace": "texts"}, {"version": 0}, "version"),
    "an entry twice": ("entry", {"namespace": "texts", "key": "k1"}, {"key": "k0"}, "type"),
    "an entry too large": ("entry", {"namespace": "texts"}, {"value": "x" * 262_144}, "value"),
    "bytes that are no base64": ("entry", {"namespace": "bytes/é"}, {"value": "?"}, "value"),
    "bytes in another base64": ("entry", {"namespace": "bytes/é"}, {"value": "QR=="}, "value"),
    "bytes that are a number": ("entry", {"namespace": "bytes/é"}, {"value": 7}, "value"),
    "bytes of no type": ("entry", {"namespace": "bytes/é"}, {"content_type": "x"}, "content_type"),
    "a namespace with an empty segment": ("entry", {"namespace": "texts"}, {"namespace": "texts//x"}, "namespace"),
    "a tombstone of what is there": ("task_tombstone", {"id": "older"}, {"id": "x"}, "id"),
    "tombstones not in their order": ("task_tombstone", {"id": "older"}, {"id": "aa"}, "type"),
    "usage of a task that is not there": ("usage", {"model": "m1"}, {"task": "nowhere"}, "task"),
    "usage of another plan than its task's": ("usage", {"task": "costly"}, {"plan": "main"}, "plan"),
    "usage of no attempt": ("usage", {"task": "costly"}, {"fence": 2}, "fence"),
    "usage below nothing": ("usage", {"model": "m1"}, {"input_tokens": -1}, "input_tokens"),
    "more waste than usage": ("usage_pruned", {"model": "m1"}, {"wasted_pusd": 10**11}, "wasted_pusd"),
    "sums not in their order": ("usage_pruned", {"model": "m2"}, {"model": "a"}, "type"),
    "sums of a plan that is not there": ("usage_pruned", {"model": "m1"}, {"plan": "nowhere"}, "plan"),
    "usage of a source key that is not there": ("usage", {"model": "m1"}, {"source": "nowhere"}, "source"),
    "usage of no known origin": ("usage", {"model": "m1"}, {"origin": "me"}, "origin"),
    "a price of what has no cost": ("usage", {"model": "m1"}, {"cost_pusd": None}, "price"),
}
"""A type, what finds the row, what of it is changed, the field that is then named."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_row_that_is_not_right_is_refused_by_its_line(text, refusal, change):
    """Whatever else of the file fits together: checks, counts and digest are right here."""
    type_, found_by, fields, field = CHANGES[change]
    rows = parts(text)
    place = find(rows, type_, **found_by)
    rows[place] |= fields
    found = refusal(whole(rows))
    assert (found.line, found.field) == (place + 1, field)


def test_a_cycle_is_refused_at_the_edge_that_closes_it(text, refusal):
    """The last of its edges in the file; the message names the way round."""
    rows = parts(text)
    rows[find(rows, "edge", task="a")]["depends_on"] = "u"
    found = refusal(whole(rows))
    closing = rows[found.line - 1]
    assert (closing["task"], closing["depends_on"]) == ("u", "d")
    assert all(f"{name!r} -> " in found.message for name in ("a", "u", "d", "b"))


def test_nothing_follows_an_open_attempt(text, refusal):
    """A task has one owner at most: its last attempt, if it is open."""
    rows = parts(text)
    place = find(rows, "attempt", task="held")
    rows.insert(place + 1, rows[place] | {"fence": 2, "outcome": "released", "ended_us": START_US})
    found = refusal(whole(rows))
    assert (found.line, found.field) == (place + 2, "fence")


def test_sums_of_usage_have_64_bits(text, refusal):
    """The entry that makes them too large is named."""
    rows = parts(text)
    first, second = [place for place, row in enumerate(rows) if row["type"] == "usage"][:2]
    rows[first]["duration_us"], rows[second]["duration_us"] = INTEGER, 1
    found = refusal(whole(rows))
    assert (found.line, found.field) == (second + 1, "duration_us")
    rows = parts(text)
    place = find(rows, "usage_pruned", model="m1")
    rows[place] |= {"cached_input_tokens": INTEGER, "output_tokens": 1}
    found = refusal(whole(rows))
    assert (found.line, found.field) == (place + 1, "input_tokens")


@pytest.mark.parametrize("type_", ["header", "plan", "task", "edge", "attempt", "entry", "usage", "trailer"])
def test_a_field_that_is_missing_unknown_or_in_another_place_is_refused(text, refusal, type_):
    """Fields cannot be shifted (G17): what has no value is null, and nothing is ignored."""
    for change in (_without_last, _with_another, _turned_round):
        rows = parts(text)
        place = find(rows, type_)
        rows[place] = change(rows[place])
        lines = [line(row) for row in rows]
        found = refusal(b"".join(lines))
        assert found.line == place + 1
        assert found.field
        assert "SELECT" not in found.message


def _without_last(row):
    return {name: row[name] for name in list(row)[:-1]}


def _with_another(row):
    return row | {"SELECT": 1}


def _turned_round(row):
    names = list(row)
    return {name: row[name] for name in [names[0], *reversed(names[1:])]}


def test_a_file_that_is_cut_short_is_refused(text, refusal):
    """Wherever: after each line, and within the last ones."""
    lines = text.splitlines(keepends=True)
    for number in range(len(lines)):
        assert refusal(b"".join(lines[:number])).line == number + 1
    for end in range(len(text) - 300, len(text), 7):
        assert refusal(text[:end]).line >= len(lines) - 1
    assert "cut short" in refusal(b"".join(lines[:-1])).hint


def test_a_byte_that_was_changed_is_found_at_its_line(text, refusal):
    """Each byte of some lines, to another one: a count of rows would not see it (G17)."""
    lines = text.splitlines(keepends=True)
    for number in (0, 1, 5, len(lines) - 1):
        for place in range(0, len(lines[number]) - 1, 13):
            spoilt = bytearray(lines[number])
            spoilt[place] ^= 1
            if spoilt[place] == 0x0A:
                continue
            assert refusal(b"".join([*lines[:number], bytes(spoilt), *lines[number + 1 :]])).line == number + 1


def test_lines_that_are_missing_doubled_or_shuffled_are_noticed(text, refusal):
    """Each of them fits its own check."""
    lines = text.splitlines(keepends=True)
    for number in range(1, len(lines) - 1):
        refusal(b"".join(lines[:number] + lines[number + 1 :]))
        refusal(b"".join(lines[:number] + lines[number - 1 :]))
        refusal(b"".join([*lines[: number - 1], lines[number], lines[number - 1], *lines[number + 1 :]]))


def test_rows_that_are_missing_are_noticed_though_counts_fit(text, refusal):
    """The counts of a file that somebody cut are made to fit; what rows say of each other is not."""
    rows = parts(text)
    for type_, fields, field in (
        ("plan", {"name": "side"}, "plan"),
        ("attempt", {"task": "held"}, "state"),
        ("attempt", {"task": "first", "fence": 1}, "fence"),
    ):
        fewer = list(rows)
        del fewer[find(rows, type_, **fields)]
        assert refusal(whole(fewer)).field == field


BROKEN = {
    "a task that is ready although it waits": ("P4", "task", {"id": "u"}, {"state": "pending"}, "u"),
    "a task that waits for nothing": ("P4", "task", {"id": "b"}, {"state": "blocked"}, "b"),
    "a task that can never be ready": ("P4", "edge", {"task": "b"}, {"condition": "failed"}, "b"),
    "a task with no hand-out left": ("P3", "task", {"id": "costly"}, {"max_attempts": 1}, "costly"),
    "an end that no attempt made": ("P2", "attempt", {"task": "first", "fence": 2}, {"outcome": "released"}, "first"),
    "an end that two attempts made": ("P2", "attempt", {"task": "a", "fence": 1}, {"outcome": "completed"}, "a"),
    "a result of what has not ended": ("P6", "task", {"id": "u"}, {"result": 1}, "u"),
    "an entry that is there and gone": ("P9", "entry_tombstone", {"key": "gone"}, {"key": "kept"}, None),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_board_that_would_break_a_promise_is_refused(text, refusal, what):
    """Each row is right by itself; the line is that of the task that shows what is wrong."""
    promise, type_, found_by, fields, task = BROKEN[what]
    rows = parts(text)
    rows[find(rows, type_, **found_by)] |= fields
    found = refusal(whole(rows))
    assert f"promise {promise}" in found.message
    assert found.line == (find(rows, "task", id=task) + 1 if task else len(rows))


NO_LINES = {
    "nothing": b"",
    "an empty line": b"\n",
    "no JSON": line({"type": "x"}).replace(b'{"type"', b'?"type"'),
    "a list": b"[]\n",
    "a board": b"SQLite format 3\0" + bytes(100),
    "a line without a check": b'{"type":"header"}\n',
    "an export with a byte order mark": b"\xef\xbb\xbf",
}


@pytest.mark.parametrize("start", NO_LINES)
def test_what_does_not_begin_as_an_export_is_none(text, refusal, start):
    """The first line says so."""
    following = text if start.startswith("an export") else b""
    assert refusal(NO_LINES[start] + following).line == 1


def forged(bare):
    """Any bytes as a line whose check fits."""
    return bare[:-1] + b',"check":"' + hashlib.sha256(bare).hexdigest()[:16].encode() + b'"}\n'


ROW = b'{"type":"cap","agent_id":"zoe","most":%s}'
FORGED = {
    "NaN": (ROW % b"NaN", "NaN"),
    "an infinity": (ROW % b"-Infinity", "NaN"),
    "a number of a thousand digits": (ROW % (b"9" * 5000), "limit"),
    "a number with a large exponent": (ROW % b"1e999", "whole number"),
    "a name twice": (b'{"type":"cap","agent_id":"zoe","agent_id":"ann","most":1}', "twice"),
    "a name twice within": (ROW % b'{"a":1,"a":1}', "twice"),
    "a type twice": (b'{"type":"plan","type":"cap","agent_id":"zoe","most":1}', "twice"),
    "bytes that are no ASCII": (ROW % '"é"'.encode(), "ASCII"),
    "nesting without end": (ROW % (b"[" * 100_000), "nested|JSON"),
    "two objects": (ROW % b"1}{", "JSON"),
    "something after it": (ROW % b"1} ,{", "JSON"),
    "blanks before it": (b" " + ROW % b"1", "JSON"),
    "no type": (b'{"agent_id":"zoe","most":1}', "type"),
    "a type that is a number": (b'{"type":7,"agent_id":"zoe","most":1}', "type"),
    "a type of its own": (b'{"type":"<script>","agent_id":"zoe","most":1}', "not known"),
    "a type out of order": (b'{"type":"plan","name":"p"}', "too late"),
    "a second header": (b'{"type":"header"}', "not known"),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_line_that_readers_understand_differently_is_refused(text, refusal, what):
    """Though its check fits."""
    bare, message = FORGED[what]
    rows = parts(text)
    place = find(rows, "cap")
    rows[place] = forged(bare)
    found = refusal(whole(rows))
    assert found.line == place + 1
    assert any(part in found.message for part in message.split("|")), found.message
    assert "script" not in found.message


def test_a_line_without_end_is_not_read_to_its_end(tmp_path):
    """A file of one line of ten gigabytes takes no more memory than a long line may have."""

    class Endless(io.BytesIO):
        """Gives as many bytes as one asks for."""

        given = 0

        def readline(self, size=-1, /):
            """A piece of a line."""
            assert 0 < size <= LONGEST + 1
            Endless.given += size
            return b"x" * size

    with pytest.raises(ImportRefused, match=f"at most {LONGEST} bytes"):
        Board.import_board(Endless(), tmp_path / "new.db")
    assert Endless.given == LONGEST + 1


def test_the_longest_line_of_a_board_can_be_read(board, clock, tmp_path):
    """An artifact of a mebibyte, and texts that escape into six times their length, are no trouble."""
    board.blackboard.put("n", "k", bytes(1024 * 1024))
    board.blackboard.put("n", "text", "é" * 131_000)
    wild = "\x01" * 65_536
    paths = [f"{'é' * 290}/{n:03}" for n in range(100)]
    names = ["é" * 120 + f"{n}" for n in range(64)]
    fields = {"writes": paths[:50], "reads": paths[50:], "tags": names, "requires": names}
    board.create_task("\x01" * 300, description=wild, payload="\x01" * 10_000, **fields)
    text = exported(board)
    assert max(len(line_) for line_ in text.split(b"\n")) <= LONGEST
    imported(text, tmp_path / "new.db", clock)


def test_a_newer_format_is_refused_with_what_to_do(text, refusal):
    """Before anything else of it is looked at."""
    rows = parts(text)
    newer = {"type": "header", "format": "agentmesh-export", "version": 3, "new": True}
    found = refusal(line(newer) + line(rows[1]))
    assert (found.line, found.field) == (1, "version")
    assert "Upgrade" in found.hint


@pytest.mark.parametrize(
    "fields", [{"format": "beads"}, {"version": 0}, {"version": True}, {"counts": []}, {"counts": {}}]
)
def test_another_header_is_refused(text, refusal, fields):
    """It says what the file is."""
    rows = parts(text)
    lines = [line(rows[0] | fields), *(line(row) for row in rows[1:])]
    assert refusal(b"".join(lines)).line == 1


def test_counts_and_digest_have_to_fit(text, refusal):
    """Those of the header, of the trailer, and of the rows."""
    lines = text.splitlines(keepends=True)
    rows = parts(text)
    more = rows[0]["counts"] | {"plan": 9}
    for header, trailer in (
        (rows[0] | {"counts": more}, rows[-1]),
        (rows[0], rows[-1] | {"counts": more}),
        (rows[0], rows[-1] | {"sha256": "0" * 64}),
    ):
        assert refusal(b"".join([line(header), *lines[1:-1], line(trailer)])).line == len(lines)


def test_nothing_may_follow_the_trailer(text, refusal):
    """Not another export either."""
    number = text.count(b"\n")
    assert refusal(text + text).line == number + 1
    assert refusal(text + b"\n").line == number + 1
