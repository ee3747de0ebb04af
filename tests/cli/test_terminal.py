"""What people see: safe on any terminal, readable on a narrow one, plain in a pipe."""

import re

import pytest
from rich.cells import cell_len

from agentmesh.cli.screen import Column, table_lines, wrap
from agentmesh.cli.text import duration, place
from tests.support.hostile import TERMINAL, UNICODE

CORPUS = [*TERMINAL, *UNICODE]
OWN_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def hostile(call, board):
    """A board whose results, reasons and notes carry the corpus, and whose title is markup."""
    title = "[bold]not bold[/bold] [link=x]" + "".join(CORPUS)
    board.create_task(title, id="hostile", description="\n".join(CORPUS))
    claim = board.claim_task("ada")
    board.note(claim.lease, "".join(CORPUS))
    board.fail_task(claim.lease, "".join(CORPUS), retry=False)
    return call


def test_a_password_in_a_url_is_not_shown():
    """The board of a database server is named without its secret."""
    assert place("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"


@pytest.mark.parametrize("args", ["list", "show hostile", "watch --once", "graph", "events", "why hostile"])
@pytest.mark.parametrize("columns", [40, 80])
def test_no_foreign_escape_reaches_a_terminal(hostile, terminal, args, columns):
    """Only our own colours do; markup in a title is text."""
    terminal(columns)
    result = hostile(*args.split())

    assert result.exit_code == 0
    assert OWN_COLOURS.sub("", result.stdout).replace("\n", "").isprintable()
    if args in ("list", "graph", "show hostile"):
        assert "[bold]" in result.stdout


@pytest.mark.parametrize("args", ["list", "show hostile", "graph", "status", "watch --once"])
def test_a_pipe_gets_plain_text(hostile, args):
    """No colour and no trailing blanks."""
    out = hostile(*args.split()).stdout

    assert "\x1b" not in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_no_color_is_honoured(hostile, terminal, monkeypatch):
    """The terminal keeps its width and loses its colours."""
    terminal(80)
    monkeypatch.setenv("NO_COLOR", "1")

    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", hostile("list").stdout)


@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize("args", ["list", "show t-0", "graph", "status", "events", "watch --once", "why"])
def test_nothing_is_wider_than_the_terminal(call, board, terminal, args, columns):
    """Tables become records, sentences wrap, and ids are still whole."""
    for number in range(4):
        before = [f"t-{number - 1}"] if number else []
        board.create_task("A title of some length, " * 4, id=f"t-{number}", depends_on=before, priority=number)
    terminal(columns)
    shown = OWN_COLOURS.sub("", call(*args.split()).stdout)

    assert max(cell_len(line) for line in shown.splitlines()) <= columns
    if args in ("list", "graph"):
        assert all(f"t-{number}" in shown for number in range(4))


def test_an_id_in_a_pipe_is_whole(call, board):
    """Nothing is cut, however long it is."""
    name = "a" * 60
    board.create_task("b" * 300, id=name)

    assert name in call("list").stdout
    assert "b" * 300 in call("list").stdout
    assert call("list", "-q").stdout == f"{name}\n"


def test_a_terminal_without_the_signs_gets_others(call, board):
    """An ASCII terminal sees ASCII."""
    board.create_task("über", id="a")
    board.create_task("b", id="b", depends_on=["a"])
    done = call.process("graph", env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})

    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "`- . b" in done.stdout


def test_words_wrap_and_long_ones_break():
    """No line is longer than asked for, and no character is lost."""
    text = "a word or two and averyveryverylongword"
    wrapped = ["".join(part[0] for part in line) for line in wrap([text], 8)]

    assert max(map(len, wrapped)) <= 8
    assert "".join(wrapped).replace(" ", "") == text.replace(" ", "")


def test_a_column_without_values_is_left_out():
    """An empty column costs no room."""
    shown = list(table_lines([Column("A"), Column("B")], [["1", ""], ["2", ""]], None))
    assert all("B" not in str(line) for line in shown)


@pytest.mark.parametrize(
    ("us", "text"),
    [(0, "0 ms"), (1_500_000, "1.5 s"), (59_700_000, "1 min"), (3_661_000_000, "1 h 1 min"), (-5, "0 ms")],
)
def test_a_duration_is_told_in_two_units(us, text):
    """As one would say it."""
    assert duration(us) == text


def test_the_status_tells_of_a_storm_while_it_lasts(call, board):
    """A plan whose hand-outs pause does not look idle."""
    board.create_tasks([{"title": "t"} for _ in range(5)])
    for _ in range(5):
        board.claim_task("ann").fail("x", kind="infra")
    assert re.search(r"^storm: plan default pauses for \S+ s after infra", call("status").stdout, re.MULTILINE)
    assert call.json("status")["plans"][0]["storm_until_at"]
