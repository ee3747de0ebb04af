"""The ledger from a shell: entries in, sums out, in a table, in bars and in CSV."""

import csv
import io
import json
import os
import re
from datetime import date, timedelta
from decimal import Decimal

import pytest
from rich.cells import cell_len

from agentmesh.cli import ledger
from agentmesh.cli.bars import METER, bar, meter
from agentmesh.cli.money import compact, usd
from agentmesh.documents import rfc3339

HOSTILE = [
    "=cmd()",
    "@SUM(A1)",
    "+1",
    "-1",
    "\uff1d1",
    "\uff201",
    'a;=1"',
    "x|+1",
    "'=1",
    '"=1',
    "a,=1",
    "漢字\u0301",
    "1.5",
]
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
REPORTS = ["ledger report", "ledger report --by model", "ledger report --format chart", "ledger entries", "budget list"]


@pytest.fixture
def spent(call, board):
    """A board with usage of all kinds: priced, unpriced, wasted, of no task, and attempts without any."""
    for name in ("good", "bad", "silent", "dear"):
        board.create_task(name, id=name, plan="shop")
    good, bad = (board.claim_task("ann", task_id=name) for name in ("good", "bad"))
    board.ledger.record(
        lease=good.lease, model="known", input_tokens=1_000, output_tokens=200, cost_usd="1.000000000001"
    )
    board.ledger.record(lease=bad.lease, model="known", cached_input_tokens=5_000, duration_ms=90_000, cost_usd="0.25")
    board.ledger.record(lease=bad.lease, model="nobody-knows-it", input_tokens=7)
    board.ledger.record("bob", input_tokens=3)
    good.complete()
    bad.fail("no", retry=False)
    board.claim_task("ann", task_id="silent").complete()
    return call


def csv_rows(result) -> list[dict[str, str]]:
    """CSV as a program reads it: strictly, with CR LF at the end of each line."""
    text = result.stdout_bytes.decode()
    assert text.endswith("\r\n")
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


def rows_of(shown: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell."""
    rows = [re.split(" {2,}", line.strip()) for line in shown.splitlines()]
    return {row[0]: row for row in rows}


def test_an_entry_is_written_and_priced(call):
    """With what it comes to, by the list or by a word; quiet gives its number."""
    entry = call.json("ledger", "record", "--agent", "ann", "--model", "gpt-4o", "--input-tokens", "1000000")["entry"]
    assert (entry["agent_id"], entry["input_tokens"], entry["cost_usd"]) == ("ann", 1_000_000, "2.5")
    given = call.json(
        "ledger", "record", "--output-tokens", "5", "--cost-usd", "0.000000000001", "--duration-ms", "1.5"
    )
    assert (given["entry"]["cost_usd"], given["entry"]["duration_sec"]) == ("0.000000000001", 0.0015)
    shown = call("ledger", "record", "--model", "gpt-4o", "--cached-input-tokens", "1000", "--cache-write-tokens", "0")
    assert shown.stdout == "Entry 3: 1,000 tokens of gpt-4o, 0.0013 USD.\n"
    assert call("ledger", "record", "--cost-usd", "1", "-q").stdout == "4\n"


def test_a_usage_block_is_read(call, tmp_path):
    """From the line, a file or standard input; what it says beyond the buckets is named."""
    block = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}, "weird": 1}
    (tmp_path / "usage.json").write_text(json.dumps(block))
    for told, more in ((json.dumps(block), {}), (f"@{tmp_path}/usage.json", {}), ("@-", {"input": json.dumps(block)})):
        receipt = call.json("ledger", "record", "--usage", told, **more)
        entry = receipt["entry"]
        assert (entry["input_tokens"], entry["cached_input_tokens"], entry["output_tokens"]) == (6, 4, 5)
        assert receipt["unknown"] == ["weird"]
    args = ("ledger", "record", "--dialect", "openai_chat", "--usage")
    assert "Not understood, so not counted: weird\n" in call(*args, json.dumps(block)).stdout


def test_an_entry_belongs_to_an_attempt(call, board):
    """By a lease from the option or the environment, lost or not; or to the agent's last attempt, or to no task."""
    board.create_task("t", id="t")
    claim = board.claim_task("ann")
    board.fail_task(claim.lease, "no", retry=False)
    args = ("ledger", "record", "--input-tokens", "1", "--task", "t")
    by_option = call.json(*args, "--lease", claim.lease.token)["entry"]
    by_variable = call.json(*args, env={"AGENTMESH_LEASE": claim.lease.token})["entry"]
    for entry in (by_option, by_variable, call.json(*args, "--agent", "ann")["entry"]):
        assert (entry["agent_id"], entry["task_id"], entry["fence"]) == ("ann", "t", 1)
    assert "fence" not in call.json(*args, "--agent", "bob")["entry"]
    alone = call.json(*args[:-2], "--agent", "bob", env={"AGENTMESH_LEASE": claim.lease.token})["entry"]
    assert "task_id" not in alone


def test_an_unpriced_entry_is_never_free(call):
    """It says so, in its line and below."""
    shown = call("ledger", "record", "--model", "=nobody", "--input-tokens", "1234").stdout
    assert shown.startswith("Entry 1: 1,234 tokens of =nobody, unpriced.\nUnpriced, not free: the price of =nobody")
    assert "no model is named" in call("ledger", "record", "--input-tokens", "1").stdout
    for args in ("ledger entries", "ledger report", "ledger report --format chart", "status"):
        assert not re.search(r"\b0(\.0+)?\b", call(*args.split()).stdout)
    assert "used: 1.24k tokens, unpriced\n" in call("status").stdout


def test_a_receipt_warns_of_budgets(call, terminal):
    """Yellow from four fifths on, red when it is over; all of it told."""
    call("budget", "set", "--usd", "1", "--tokens", "100")
    call("budget", "set", "--agent", "ann", "--usd", "9")
    terminal(80)
    args = ("ledger", "record", "--agent", "ann", "--input-tokens", "10", "--cost-usd")
    assert "\x1b" not in call(*args, "0.79").stdout.split("board", 1)[1]
    assert re.search(r"\x1b\[33m.*0\.20.*USD", call(*args, "0.01").stdout)
    over = call(*args, "0.5").stdout
    assert re.search(r"the board: \x1b\[1;31mover", over)
    assert COLOURS.sub("", over).splitlines()[1:] == [
        "  the board: over by 0.30 USD, 70 tokens left",
        "  agent ann: 7.70 USD left",
    ]


def test_a_repeated_call_is_written_once(call):
    """By its key."""
    args = ("ledger", "record", "--input-tokens", "1", "--request-id", "r")
    assert call.json(*args) == call.json(*args)
    assert len(call.json("ledger", "entries")["entries"]) == 1


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["record"], 2),
        (["record", "--input-tokens", "-1"], 2),
        (["record", "--input-tokens", "x"], 2),
        (["record", "--cost-usd", "nan"], 2),
        (["record", "--cost-usd", "-1"], 2),
        (["record", "--duration-ms", "nan"], 2),
        (["record", "--usage", "[1]"], 2),
        (["record", "--usage", "{}"], 2),
        (["record", "--usage", "@/nowhere"], 2),
        (["record", "--input-tokens", "1", "--usage", '{"input": 1, "output": 1}'], 2),
        (["record", "--input-tokens", "1", "--dialect", "klingon"], 2),
        (["record", "--input-tokens", "1", "--model", "a b"], 2),
        (["record", "--input-tokens", "1", "--lease", "1.x"], 2),
        (["record", "--input-tokens", "1", "--task", "nobody"], 5),
        (["record", "--input-tokens", "1", "--task", "t", "--lease", "1.x"], 9),
        (["report", "--by", "colour"], 2),
        (["report", "--plan", "nobody"], 5),
        (["report", "--task", "nobody"], 5),
        (["report", "--since", "yesterday"], 2),
        (["report", "--limit", "0"], 2),
        (["report", "--offset", "-1", "--format", "csv"], 2),
        (["entries", "--task", "nobody"], 5),
        (["entries", "--cursor", "-1"], 2),
    ],
    ids=str,
)
def test_each_refusal_has_its_exit_code(call, board, args, code):
    """And one document on stderr."""
    board.create_task("t", id="t")
    result = call("ledger", *args, "--json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert json.loads(result.stderr)["exit_code"] == code


def test_the_table_has_a_row_for_each_and_one_for_all(spent):
    """What is unpriced is counted, and its cost is nowhere a nought."""
    shown = spent("ledger", "report", "--by", "task").stdout
    rows = rows_of(shown)
    assert rows["good"][1:4] == ["1.00k", "200", "1.0000"]
    assert rows["bad"][1:6] == ["7", "5.00k", "≥0.2500", "0.2500", "1 min 30 s"]
    assert rows["no task, or pruned"][1:] == ["3", "unpriced", "1", "1"]
    assert rows["in total"][1:6] == ["1.01k", "5.00k", "200", "≥1.2500", "0.2500"]
    assert rows["in total"][-3:] == ["3", "4", "2"]
    assert "\n2 of 4 entries are unpriced: nobody knows what they cost, so no sum has it in.\n" in shown
    assert "\n1 completed attempt reported no usage.\n" in shown


def test_quiet_leaves_the_notes_out(spent):
    """The rows say it all."""
    assert spent("ledger", "report", "-q").stdout == "".join(
        spent("ledger", "report").stdout.splitlines(keepends=True)[:4]
    )


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("plan", ["shop", "no plan"]),
        ("task", ["good", "bad", "no task, or pruned", "silent"]),
        ("attempt", ["good #1", "bad #1", "no task, or pruned", "silent #1"]),
        ("agent", ["ann", "bob"]),
        ("model", ["known", "no model", "nobody-knows-it"]),
        ("day", []),
    ],
)
def test_every_group_names_its_lines(spent, board, by, names):
    """Dearest first, but days one after the other; what has no name is told apart from every name."""
    names = names or sorted({rfc3339(entry.at_us)[:10] for entry in board.ledger.entries().entries})
    shown = spent("ledger", "report", "--by", by).stdout.splitlines()
    found = [line.split("  ")[0] for line in shown[1 : len(names) + 1]]
    assert sorted(found) == sorted(names)
    assert found[0] == names[0]


def test_a_report_is_narrowed_and_paged(spent):
    """By what it is of, by day, and by lines."""
    assert spent.json("ledger", "report", "--task", "bad")["total"]["cost_usd"] == "0.25"
    assert spent.json("ledger", "report", "--agent", "bob", "--plan", "shop")["total"]["entries"] == 0
    assert spent.json("ledger", "report", "--model", "known")["total"]["entries"] == 2
    assert spent.json("ledger", "report", "--since", "2000-01-01", "--until", "2000-01-02")["lines"] == []
    page = spent("ledger", "report", "--by", "task", "--limit", "1", "--offset", "1").stdout
    assert "\nbad " in page
    assert "2 more: --offset 2\n" in page
    assert spent("ledger", "report", "--offset", "9").stdout == "No line is that far down.\n"


@pytest.mark.parametrize("form", ["table", "chart"])
def test_nothing_used_is_said_so(call, form):
    """And CSV has its names alone."""
    assert call("ledger", "report", "--format", form).stdout == "No usage is recorded.\n"
    assert call("ledger", "entries").stdout == "No usage is recorded.\n"
    assert csv_rows(call("ledger", "report", "--format", "csv")) == []
    assert call.json("ledger", "report")["lines"] == []
    assert call.json("ledger", "entries") == {"entries": []}


def test_entries_are_listed_in_pages(spent):
    """Oldest first."""
    page = spent.json("ledger", "entries", "--limit", "3")
    assert ([entry["id"] for entry in page["entries"]], page["cursor"]) == ([1, 2, 3], 3)
    assert "--cursor 3" in spent("ledger", "entries", "--limit", "3").stdout
    assert spent("ledger", "entries", "--cursor", "3", "-q").stdout == "4\n"
    assert spent("ledger", "entries", "--task", "bad", "-q").stdout == "2\n3\n"
    assert rows_of(spent("ledger", "entries").stdout)["2"][-3:] == ["1 min 30 s", "0.2500", "given"]


def test_csv_is_exact(spent, board):
    """Every sum to its last digit, every name of a line; no cost where none is known."""
    board.ledger.record(lease=board.claim_task("ann", task_id="dear").lease, cost_usd="98765.432109876543")
    rows = {row["task_id"]: row for row in csv_rows(spent("ledger", "report", "--by", "task", "--format", "csv"))}
    assert (rows["good"]["cost_usd"], rows["good"]["plan"]) == ("1.000000000001", "shop")
    assert rows["dear"]["cost_usd"] == "98765.432109876543"
    assert (rows["bad"]["cost_usd"], rows["bad"]["wasted_usd"], rows["bad"]["duration_sec"]) == ("0.25", "0.25", "90")
    assert (rows[""]["cost_usd"], rows[""]["unpriced"], rows[""]["rest"]) == ("", "1", "true")
    assert (rows["silent"]["entries"], rows["silent"]["unreported"]) == ("0", "1")
    whole = spent.json("ledger", "report")["total"]
    assert sum(Decimal(row["cost_usd"] or 0) for row in rows.values()) == Decimal(whole["cost_usd"])
    assert sum(int(row["tokens"]) for row in rows.values()) == whole["tokens"]


def test_csv_has_every_line(spent, board, monkeypatch):
    """Page by page, unless a limit is given; always the same columns."""
    for number in range(60):
        board.ledger.record(f"a{number}", input_tokens=1)
    assert len(csv_rows(spent("ledger", "report", "--format", "csv", "--by", "agent"))) == 62
    monkeypatch.setattr(ledger, "PAGE", 2)
    args = ("ledger", "report", "--format", "csv", "--by", "task")
    assert len({row["task_id"] for row in csv_rows(spent(*args))}) == 4
    assert csv_rows(spent(*args, "--offset", "1"))[0]["task_id"] == "bad"
    assert len(csv_rows(spent(*args, "--limit", "1"))) == 1
    assert csv_rows(spent(*args))[0].keys() == csv_rows(spent(*args[:-1], "day"))[0].keys()


@pytest.mark.parametrize("by", ["agent", "model", "task", "plan"])
def test_no_name_becomes_a_formula(call, board, by):
    """In no spreadsheet, of whatever locale; numbers stay numbers, and names can be told back."""
    for number, name in enumerate(HOSTILE):
        board.create_task("t", id=name, plan=name)
        board.ledger.record(name, task_id=name, model=name, input_tokens=1, cost_usd=len(HOSTILE) - number)
    column = {"agent": "agent_id", "task": "task_id"}.get(by, by)
    result = call("ledger", "report", "--by", by, "--format", "csv")
    rows = csv_rows(result)
    assert [
        re.sub(r"(^|[;,|])'(?=[=+\-@\uff1d\uff20])", r"\1", row[column]) for row in rows if row[column] != "'=1"
    ] == [name for name in HOSTILE if name != "'=1"]
    for separator in ",;|\t":
        for row in csv.reader(io.StringIO(result.stdout_bytes.decode(), newline=""), delimiter=separator):
            assert not [cell for cell in row if cell[:1] in set("=+-@\uff1d\uff0b\uff0d\uff20")]
    assert all(Decimal(row["cost_usd"]) > 0 for row in rows)


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
@pytest.mark.parametrize("args", [*REPORTS, "status", "show bad"])
def test_nothing_is_wider_than_the_terminal(spent, board, terminal, args, columns):
    """Columns give way, then rows become records, and bars go below their names."""
    board.ledger.record("a" * 60, model="=" + "m" * 50, input_tokens=10**9, cost_usd="99999.5")
    board.budgets.set(plan="shop", usd="0.1", tokens=10**6)
    terminal(columns)
    shown = COLOURS.sub("", spent(*args.split()).stdout)
    assert max(cell_len(line) for line in shown.splitlines()) <= columns
    assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize("args", REPORTS)
def test_a_pipe_gets_plain_whole_lines(spent, args):
    """No colour, no trailing blanks, names whole."""
    spent("ledger", "record", "--agent", "a" * 100, "--model", "m" * 100, "--cost-usd", "3")
    out = spent(*args.split()).stdout
    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())
    if "model" in args or "entries" in args:
        assert "m" * 100 in out


def test_a_narrow_table_says_what_it_left_out(spent, terminal):
    """And a wide one leaves nothing out."""
    terminal(80)
    head, *lines = COLOURS.sub("", spent("ledger", "report").stdout).splitlines()
    assert [line.split(":")[0] for line in lines if line.endswith("ENTRIES")] == ["No room for"]
    assert "UNPRICED" in head
    terminal(120)
    assert "No room" not in spent("ledger", "report").stdout


def test_waste_is_red(spent, terminal, monkeypatch):
    """Where there is some; without colour its sign tells."""
    terminal(120)
    assert "\x1b[31m0.2500\x1b[0m" in spent("ledger", "report").stdout
    assert "\x1b[31m▒" in spent("ledger", "report", "--format", "chart").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    bare = spent("ledger", "report", "--format", "chart").stdout
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", bare)
    assert "▒" in bare


def test_waste_without_a_price_is_told_in_tokens(call, board):
    """It is not hidden behind a nought of dollars."""
    board.create_task("t", id="t")
    claim = board.claim_task("ann")
    board.ledger.record(lease=claim.lease, input_tokens=5_000)
    claim.fail("no", retry=False)
    assert rows_of(call("ledger", "report", "--by", "task").stdout)["t"][1:4] == ["5.00k", "unpriced", "5.00k tokens"]
    assert re.search(r"^  wasted +5.00k tokens$", call("show", "t").stdout, re.MULTILINE)
    assert "unpriced, 5.00k tokens wasted\n" in call("status").stdout


def test_the_chart_is_drawn_to_scale(spent):
    """The dearest fills the room; what has no price has no bar."""
    first, *lines = spent("ledger", "report", "--by", "task", "--format", "chart").stdout.splitlines()
    assert first == "USD by task: █ used  ▒ of it wasted"
    bars = {line.split(" ")[0]: line for line in lines}
    assert (bars["good"].count("█"), bars["good"].count("▒"), bars["good"][-6:]) == (40, 0, "1.0000")
    assert (bars["bad"].count("█"), bars["bad"].count("▒"), bars["bad"][-7:]) == (0, 10, "≥0.2500")
    assert ("█" in bars["no"], "unpriced" in bars["no"]) == (False, True)
    assert lines[3] == "in total at least 1.25 USD, 0.25 USD wasted"


def test_a_bar_without_room_beside_its_name_goes_below(spent, terminal):
    """All of them do, so they can be compared."""
    terminal(40)
    spent("ledger", "record", "--model", "m" * 30, "--cost-usd", "4")
    chart = COLOURS.sub("", spent("ledger", "report", "--by", "model", "--format", "chart").stdout).splitlines()
    assert chart[1:4] == ["m" * 30, "  " + "█" * 29 + "  4.0000", "known"]


def test_without_any_price_the_chart_shows_tokens(call, board):
    """And says so."""
    board.ledger.record("ann", input_tokens=4_000)
    board.ledger.record("bob", input_tokens=1_000)
    first, ann, bob, total, *_ = call("ledger", "report", "--by", "agent", "--format", "chart").stdout.splitlines()
    assert first.startswith("tokens by agent:")
    assert (ann.count("█"), bob.count("█"), ann[-5:], total) == (40, 10, "4.00k", "in total 5.00k tokens")


def test_ascii_terminals_get_other_signs(spent):
    """Bars, meters and bounds."""
    spent("budget", "set", "--usd", "2")
    for args in ("ledger report --format table", "ledger report --format chart", "budget list"):
        done = spent.process(*args.split(), env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
        assert done.returncode == 0
        assert done.stdout.isascii()
        assert "\\" not in done.stdout
        assert {"table": ">=1.25", "chart": "====", "list": "#####--- 62%"}[args.split()[-1]] in done.stdout


def test_a_task_and_the_board_tell_what_was_used(spent):
    """With what was in vain, and only where there is anything."""
    shown = spent("show", "bad").stdout
    assert re.search(r"^  usage +5.01k tokens, at least 0.25 USD \(1 of 2 entries unpriced\)$", shown, re.MULTILINE)
    assert re.search(r"^  wasted +0.25 USD$", shown, re.MULTILINE)
    assert spent.json("show", "bad")["usage"]["wasted_usd"] == "0.25"
    assert ("usage" in spent.json("show", "silent"), "usage" in spent("show", "silent").stdout) == (False, False)
    line = "used: 6.21k tokens, at least 1.25 USD (2 of 4 entries unpriced), 0.25 USD wasted\n"
    assert line in spent("status").stdout
    assert line in spent("watch", "--once").stdout
    assert spent.json("status")["usage"]["entries"] == 4


def test_events_tell_money_in_dollars(spent):
    """Not in the unit of the rows."""
    assert "tokens=5000 cost_usd=0.25" in spent("events").stdout


@pytest.mark.parametrize(
    ("pusd", "text"),
    [(0, "0.00"), (1, "<0.0001"), (10**8, "0.0001"), (10**12, "1.00"), (1_234_567_800_000_000, "1,234.5678")],
)
def test_money_is_rounded_but_never_away(pusd, text):
    """To a hundredth of a cent."""
    assert usd(pusd) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1000, "1.00k"),
        (9_995, "10.0k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (7 * 10**17, "700000T"),
    ],
)
def test_a_count_has_three_digits(number, text):
    """Also where rounding makes another one."""
    assert compact(number) == text


def test_a_bar_shows_what_there_is():
    """The least of it takes a cell, and only the whole takes all."""
    drawn = {
        part: "".join(text for text, _ in bar(100, part, 100, 10, "red", unicode=False)) for part in (0, 1, 99, 100)
    }
    assert drawn == {0: "#" * 10, 1: "#########=", 99: "#=========", 100: "=" * 10}
    assert bar(1, 0, 10**6, 10, "", unicode=False)[0][0] == "#"
    assert bar(0, 0, 0, 10, "", unicode=False) == [("", "cyan"), ("", "")]


@pytest.mark.parametrize(
    ("spent", "reserved", "limit", "drawn"),
    [
        (0, 0, 9, "--------"),
        (1, 0, 999, "#-------"),
        (0, 1, 999, "=-------"),
        (998, 0, 999, "#######-"),
        (500, 499, 999, "####===="),
        (10**9, 5, 3, "########"),
        (0, 0, 0, "########"),
    ],
)
def test_a_meter_is_full_when_nothing_is_left(spent, reserved, limit, drawn):
    """And never before."""
    assert meter(spent, reserved, limit, unicode=False) == drawn
    assert len(drawn) == METER


def test_a_source_key_an_instant_and_an_origin_come_in_and_are_shown(call):
    """The second report of a reply that has grown: its entry holds the difference and names the first."""
    told = ("--source", "msg_1", "--origin", "import")
    for output in ("1", "384", "1"):
        assert call("ledger", "record", "--agent", "ann", "--output-tokens", output, *told).exit_code == 0
    shown = json.loads(call("ledger", "entries", "--json").stdout)["entries"]
    assert [entry["output_tokens"] for entry in shown] == [1, 383]
    assert [entry.get("corrects") for entry in shown] == [None, 1]
    assert {(entry["source"], entry["origin"]) for entry in shown} == {("msg_1", "import")}
    refused = call("ledger", "record", "--agent", "ann", "--model", "m", "--output-tokens", "1", *told)
    assert (refused.exit_code, "source 'msg_1' was counted before" in refused.stderr) == (50, True)
    late = call("ledger", "record", "--agent", "ann", "--output-tokens", "1", "--at", "2001-01-01T00:00:00Z")
    assert late.exit_code == 2


def test_days_are_those_of_the_zone_that_is_named(call, board):
    """The same in the table and in JSON; a zone that is none is a wrong call."""
    now = board.ledger.record("ann", output_tokens=5).entry.at_us
    midnight = rfc3339(now // 86_400_000_000 * 86_400_000_000)
    board.ledger.record("ann", output_tokens=7, at=midnight)
    shown = json.loads(call("ledger", "report", "--by", "day", "--tz", "America/New_York", "--json").stdout)
    before = (date.fromisoformat(midnight[:10]) - timedelta(days=1)).isoformat()
    assert {line["day"]: line["tokens"] for line in shown["lines"]}[before] >= 7
    assert before in call("ledger", "report", "--by", "day", "--tz", "America/New_York").stdout
    assert call("ledger", "report", "--tz", "Mars").exit_code == 2
