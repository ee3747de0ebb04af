"""After the body of a test its boards are asked for their promises, and the real failure always comes first."""

from pathlib import Path
from textwrap import dedent

import pytest

GOLDEN = Path(__file__).parent / "golden" / "promises.txt"
BREAK = "board.store._writer.execute(\"UPDATE task SET charged = 5, fence = 7 WHERE id = 'docs'\")"
HEAD = f"""
    import pathlib, unittest, pytest

    def broken(board):
        board.create_task("Write the docs", id="docs")
        {BREAK}
        return board
"""
SUMMARY = ["1 board, 2 promises broken", "broken: P1 in *", "broken: P3 in *"]


@pytest.fixture
def run(pytester):
    """Runs tests that can break a board, one to a call."""

    def run(body, *arguments, head=HEAD):
        (pytester.path / "test_it.py").write_text(dedent(head) + dedent(body))
        return pytester.runpytest("-W", "error", *arguments)

    return run


def test_a_broken_promise_fails_a_test_that_passed(run):
    """Which promise, what it says, what breaks it, and what to do if that was wanted."""
    result = run("""
    def test_passes(mesh_board):
        broken(mesh_board)
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["__* test_passes *__", *GOLDEN.read_text().splitlines(), "*= agentmesh =*"])
    result.stdout.fnmatch_lines(SUMMARY)
    result.stdout.fnmatch_lines(["FAILED test_it.py::test_passes - *"])


def test_the_message_is_laid_out_as_it_is_kept(tmp_path):
    """The golden file, byte for byte: two promises, two kinds of detail."""
    from pytest_agentmesh.boards import Boards  # noqa: PLC0415 - as the fixture does
    from pytest_agentmesh.promises import told  # noqa: PLC0415 - as the fixture does
    from pytest_agentmesh.settings import Settings  # noqa: PLC0415 - as the fixture does

    boards = Boards(lambda: tmp_path)
    board = boards.make(Settings(), "test-passes")
    board.create_task("Write the docs", id="docs")
    board.store._writer.execute("UPDATE task SET charged = 5, fence = 7 WHERE id = 'docs'")
    text = told(board.broken(), "00001-test-passes")
    board.discard(keep=False)
    boards.close()
    assert text + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize(
    "mark", ["xfail", "xfail(strict=True)", "xfail(raises=AssertionError)", "xfail(raises=ValueError, strict=True)"]
)
def test_an_expected_failure_does_not_hide_it(run, pytester, mark):
    """It was the body that was expected to fail; a report for machines says the same."""
    result = run(
        f"""
    @pytest.mark.{mark}
    def test_passes(mesh_board):
        broken(mesh_board)

    @pytest.mark.{mark}
    def test_uses_the_factory(mesh_board_factory):
        with mesh_board_factory() as board:
            broken(board)
    """,
        "--junitxml=report.xml",
    )
    result.assert_outcomes(failed=2)
    report = (pytester.path / "report.xml").read_text()
    assert (report.count("breaks P1, P3") >= 2, "unexpectedly" in report) == (True, False)
    result.stdout.fnmatch_lines(["2 boards, 4 promises broken", "broken: P1 in *passes", "broken: P1 in *factory"])


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ("assert 1 == 2, 'the real one'", {"failed": 1}),
        ("raise OSError('the real one')", {"failed": 1}),
        ("pytest.fail('the real one', pytrace=False)", {"failed": 1}),
        ("raise SystemExit('the real one')", {"failed": 1}),
    ],
)
def test_the_failure_of_a_test_stays_what_it_is(run, ending, outcome):
    """What is broken stands beside it, in a section of the report."""
    result = run(f"""
    def test_fails(mesh_board):
        broken(mesh_board)
        {ending}
    """)
    result.assert_outcomes(**outcome)
    result.stdout.fnmatch_lines(["*the real one*", "*agentmesh promises*", "the board 00001-test-fails *"])
    result.stdout.fnmatch_lines(SUMMARY)
    assert "BrokenPromise" not in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "ending", "outcome"),
    [
        ("", "pytest.skip('not here')", {"skipped": 1}),
        ("", "pytest.xfail('known')", {"xfailed": 1}),
        ("@pytest.mark.xfail", "assert False", {"xfailed": 1}),
        ("@pytest.mark.xfail(strict=True)", "assert False", {"xfailed": 1}),
        ("@pytest.mark.xfail(raises=OSError)", "raise OSError", {"xfailed": 1}),
    ],
)
def test_a_test_that_is_skipped_or_fails_as_expected_stays_so(run, marker, ending, outcome):
    """The summary still names what is broken."""
    result = run(f"""
    {marker}
    def test_ends(mesh_board):
        broken(mesh_board)
        {ending}
    """)
    result.assert_outcomes(**outcome)
    assert result.ret == 0
    result.stdout.fnmatch_lines(SUMMARY)


def test_every_board_of_a_test_is_asked(run):
    """The one that is right says nothing; the factory's is asked at the end of its `with`."""
    result = run("""
    @pytest.fixture
    def second(mesh_board_factory):
        with mesh_board_factory() as board:
            yield board

    def test_two(mesh_board, mesh_board_factory):
        mesh_board.create_task("Fine")
        with pytest.raises(AssertionError, match="P1: a task has at most one open attempt"):
            with mesh_board_factory() as board:
                broken(board)
        with mesh_board_factory() as board:
            board.create_task("Fine")

    def test_a_fixture_has_one(second):
        broken(second)
    """)
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["4 boards, 4 promises broken"])


def test_a_factory_points_to_the_with_of_the_test(run):
    """And to no line of ours."""
    result = run("""
    def test_it(mesh_board_factory):
        with mesh_board_factory() as board:  # here
            broken(board)
    """)
    result.stdout.fnmatch_lines(
        [">       with mesh_board_factory() as board:  # here", "E  *breaks P1, P3:", "test_it.py:*"]
    )
    assert ".py:" not in result.stdout.str().replace("test_it.py:", "")


def test_an_error_in_a_with_keeps_its_type_and_gets_a_note(run):
    """So that `pytest.raises` around a factory's board works, and the broken promise is read all the same."""
    result = run("""
    def test_raises(mesh_board_factory):
        with pytest.raises(ZeroDivisionError) as raised:
            with mesh_board_factory() as board:
                broken(board)
                1 / 0
        assert "breaks P1, P3" in raised.value.__notes__[0]

    def test_fails(mesh_board_factory):
        with mesh_board_factory() as board:
            broken(board)
            assert 1 == 2
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E * assert 1 == 2", "E * P3: no task is lost*", "2 boards, 4 promises broken"])


@pytest.mark.parametrize(
    "spoil",
    [
        "broken(mesh_board).close()",
        "broken(mesh_board); mesh_board.path.write_bytes(b'nothing of the kind')",
        "broken(mesh_board); mesh_board.path.write_bytes(b'SQLite format 3' + bytes(99_985))",
        "broken(mesh_board); mesh_board.path.unlink()",
        "broken(mesh_board).close(); __import__('shutil').rmtree(mesh_board.path.parent)",
        "mesh_board.path.rename(mesh_board.path.with_name('elsewhere'))",
        "pathlib.Path(f'{mesh_board.path}.clock').unlink(); mesh_board.create_task('A')",
        "pathlib.Path(f'{mesh_board.path}.gate').unlink(); mesh_board.create_task('A')",
    ],
)
def test_a_board_that_the_test_closed_or_damaged_is_left_alone(run, spoil):
    """A test may try what happens then; the next one has a board as new."""
    result = run(f"""
    def test_spoils(mesh_board):
        {spoil}

    def test_after_it(mesh_board):
        mesh_board.create_task("Fine")
    """)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["2 boards, all promises kept"])


@pytest.mark.parametrize(
    "where",
    [
        ("", '@pytest.mark.agentmesh(unchecked="P1 P3")', "", ()),
        ("", "", '@pytest.mark.agentmesh(unchecked={"P1", "P3"})', ()),
        ('pytestmark = pytest.mark.agentmesh(unchecked=["P1", "P3"])', "", "", ()),
        ("", "", "", ("-o", "agentmesh_unchecked=P1 P3")),
        ("", '@pytest.mark.agentmesh(unchecked="P1")', "", ("-o", "agentmesh_unchecked=P3")),
    ],
)
def test_a_promise_that_is_broken_on_purpose_is_named(run, where):
    """At the test, its class, its module, or for the whole run; the others are asked for."""
    module, at_class, at_test, arguments = where
    body = f"""
    {module}
    {at_class}
    class TestIt:
        {at_test}
        def test_breaks(self, mesh_board):
            broken(mesh_board)
    """
    run(body, *arguments).assert_outcomes(passed=1)


def test_one_name_switches_one_promise_off(run):
    """P1 is not P10, and the rest is still asked for: also where a factory is told."""
    result = run("""
    @pytest.mark.agentmesh(unchecked="P3 P10")
    def test_passes(mesh_board):
        broken(mesh_board)

    def test_in_the_factory(mesh_board_factory):
        with mesh_board_factory(unchecked="P3 P10") as board:
            broken(board)

    def test_all_of_it(mesh_board_factory):
        with mesh_board_factory(unchecked={"P1", "P3"}) as board:
            broken(board)
    """)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["3 boards, 2 promises broken", "broken: P1 in *factory", "broken: P1 in *passes"])
    result.stdout.no_fnmatch_line("broken: P3*")


def test_what_another_process_broke_is_found(run):
    """This one wrote nothing: a board that is as it was made is known by its file, not by who wrote."""
    result = run("""
    import subprocess, sys

    def test_other(mesh_board):
        code = (
            "import sys, apsw; db = apsw.Connection(sys.argv[1]); "
            "db.execute('INSERT INTO meta VALUES (?, ?)', ('x', 'y')); "
            "db.execute('DROP TRIGGER IF EXISTS no'); db.execute('PRAGMA foreign_keys = 0'); "
            "db.execute('INSERT INTO usage_total SELECT 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1')"
        )
        subprocess.run([sys.executable, "-c", code, str(mesh_board.path)], check=False)
        assert not mesh_board._is_as_made()
    """)
    result.assert_outcomes(passed=1)


def test_a_board_nobody_wrote_to_is_as_it_was_made(run):
    """Reading, waiting and turning the clock change nothing in it; one task does, also when it has left the log."""
    result = run("""
    def test_untouched(mesh_board):
        mesh_board.status(); mesh_board.check(); mesh_board.clock.advance("1h"); mesh_board.list_tasks()
        assert mesh_board._is_as_made()

    def test_written(mesh_board):
        mesh_board.create_task("One")
        assert not mesh_board._is_as_made()
        mesh_board.store._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert not pathlib.Path(f"{mesh_board.path}-wal").stat().st_size
        assert not mesh_board._is_as_made()
    """)
    result.assert_outcomes(passed=2)


def test_a_failure_in_a_unittest_class_stays_what_it_is(run):
    """Its body's errors take another way through pytest; a broken promise of one that passed is told."""
    result = run("""
    class TestOld(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def _board(self, mesh_board):
            self.board = mesh_board

        def test_fails(self):
            broken(self.board)
            self.assertEqual(1, 2)

        def test_passes(self):
            broken(self.board)

        @unittest.expectedFailure
        def test_is_expected_to_fail(self):
            broken(self.board)
            self.assertEqual(1, 3)

        def test_is_fine(self):
            self.board.create_task("Fine")
    """)
    result.assert_outcomes(failed=2, passed=1, xfailed=1)
    result.stdout.fnmatch_lines(["E * AssertionError: 1 != 2", "the board 00004-test-passes breaks P1, P3:"])
