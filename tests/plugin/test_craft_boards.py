"""Boards for tests: each a fresh one, whoever else runs; what is kept of them, and who may open them then."""

import os
import signal
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.cell import VARIABLE
from agentmesh.errors import DiskFull, OnTestClock
from pytest_agentmesh import MeshBoard
from pytest_agentmesh.boards import Boards
from pytest_agentmesh.settings import Settings
from tests.support.small_disk import small_disk

ENDING_SEC = 60
STORAGES = pytest.mark.parametrize("storage", ["file", "memory"])
MANY = """
    import pathlib, pytest

    @pytest.mark.parametrize("number", range(10))
    def test_board(mesh_board, mesh_board_factory, number):
        with mesh_board_factory() as second, mesh_board_factory() as third:
            for board in (mesh_board, second, third):
                assert board.list_tasks().tasks == ()
                board.create_task(f"Task {number}", id="same")
                with pathlib.Path("paths").open("a") as file:
                    file.write(f"{board.path}\\n")
"""
RAM = Path("/dev/shm")


@pytest.fixture(autouse=True)
def _outside(monkeypatch):
    """As in a shell: nothing here is part of a test with a board."""
    monkeypatch.delenv(VARIABLE, raising=False)


def ram_folders():
    """What is on the RAM disk now."""
    return {folder for folder in RAM.glob("agentmesh-*") if (folder / "template").exists()}


def paths(pytester):
    """The boards that tests have written down."""
    return (pytester.path / "paths").read_text().split()


@STORAGES
@pytest.mark.parametrize("workers", [(), pytest.param(("-n", "2"), marks=pytest.mark.multiproc)])
def test_every_board_is_fresh(pytester, storage, workers):
    """H1: one for each test, whichever worker runs it, and empty; when the test is over it is gone."""
    pytester.makepyfile(MANY)
    result = pytester.runpytest_subprocess(f"--agentmesh-storage={storage}", *workers)
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["30 boards, all promises kept"])
    found = paths(pytester)
    assert len(set(found)) == len(found) == 30
    assert not [path for path in found if Path(path).parent.exists()]
    if storage == "memory":
        assert not [path for path in found if not path.startswith(str(RAM)) or Path(path).parent.parent.exists()]


@STORAGES
@pytest.mark.multiproc
def test_runs_at_the_same_time_never_share_a_file(pytester, storage):
    """H2: two with two workers each and one without, in one folder, on one machine."""
    pytester.makepyfile(MANY)
    command = [sys.executable, "-m", "pytest", f"--agentmesh-storage={storage}", "-p", "no:cacheprovider"]
    runs = [pytester.popen([*command, *more], stdin=subprocess.DEVNULL) for more in (("-n", "2"), ("-n", "2"), ())]
    answers = [run.communicate(timeout=ENDING_SEC)[0].decode() for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], answers
    found = paths(pytester)
    assert len(set(found)) == len(found) == 90


@STORAGES
@pytest.mark.kill
def test_after_a_kill_the_next_run_passes(pytester, storage):
    """H4: what the killed one left is in nobody's way; a RAM disk is cleared of it."""
    pytester.makepyfile(test_dies="import os\ndef test_dies(mesh_board):\n    os.kill(os.getpid(), 9)", test_many=MANY)
    before = ram_folders()
    arguments = ("--basetemp=boards", f"--agentmesh-storage={storage}")
    assert pytester.runpytest_subprocess(*arguments, "test_dies.py").ret == -signal.SIGKILL
    if storage == "memory":
        assert len(ram_folders() - before) == 1
    pytester.runpytest_subprocess(*arguments, "test_many.py").assert_outcomes(passed=10)
    assert ram_folders() <= before


KEPT = """
    import pytest

    def test_passes(mesh_board):
        mesh_board.create_task("Not kept")

    def test_fails(mesh_board):
        mesh_board.create_task("Write the docs", id="docs")
        mesh_board.claim_task("ada")
        assert 0

    @pytest.mark.xfail
    def test_fails_as_expected(mesh_board):
        assert 0

    def test_fails_in_the_factory(mesh_board_factory):
        with mesh_board_factory() as board:
            board.create_task("Kept")
        with mesh_board_factory() as board:
            board.create_task("Kept, too")
            assert 0

    @pytest.fixture
    def broken(mesh_board):
        raise OSError

    def test_does_not_begin(broken):
        pass
"""


@STORAGES
def test_boards_of_failed_tests_can_be_kept(pytester, storage):
    """They are named beside the failure and at the end of the run; nothing else is left."""
    pytester.makepyfile(KEPT)
    result = pytester.runpytest_subprocess("--agentmesh-keep", f"--agentmesh-storage={storage}")
    result.assert_outcomes(passed=1, failed=2, errors=1, xfailed=1)
    kept = [Path(line.removeprefix("kept: ")) for line in result.outlines if line.startswith("kept: ")]
    listed = kept[-3:]
    assert sorted(kept) == sorted([*listed, *(path for path in listed if "test-fails" in path.parent.name)])
    folder = listed[0].parent.parent
    assert sorted(path.parent for path in listed) == sorted(folder.iterdir())
    for path in listed:
        with Board.open(path, create=False) as board:
            assert all(one.verdict != "violated" for one in board.check())
        path.with_name("board.db.clock").unlink()
        subprocess.run(["rm", "-r", path.parent], check=True)


def test_a_kept_board_is_for_reading(pytester):
    """Whoever opens it by its path has its clock as it stands, and cannot write: no server takes it for a real one."""
    pytester.makepyfile(KEPT)
    result = pytester.runpytest_subprocess("--agentmesh-keep", "-k", "test_fails", "-q")
    [*_, path] = [
        line.removeprefix("kept: ") for line in result.outlines if "kept: " in line and "-test-fails/" in line
    ]
    with Board.open(path) as board:
        assert board.get_task("docs").holder == "ada"
        with pytest.raises(OnTestClock):
            board.create_task("More")
    status = [sys.executable, "-m", "agentmesh.cli", "status", "--board", path]
    done = subprocess.run(status, capture_output=True, text=True, check=False)
    assert (done.returncode, "1 in progress" in done.stdout or "in_progress" in done.stdout) == (0, True), done


def test_without_the_option_nothing_is_kept(pytester):
    """Nor named."""
    pytester.makepyfile(KEPT)
    result = pytester.runpytest_subprocess("--basetemp=boards")
    result.stdout.no_fnmatch_line("*kept: *")
    assert list((pytester.path / "boards").rglob("board.db")) == []


def test_the_factory_is_safe_in_examples_and_the_fixture_points_to_it(pytester):
    """H10's cousin: all examples would share the fixture's board; Hypothesis says so, and we say what to do."""
    pytester.makepyfile("""
        from hypothesis import given, settings, strategies as st

        @given(count=st.integers(1, 5))
        @settings(max_examples=20, database=None, deadline=None)
        def test_factory(mesh_board_factory, count):
            with mesh_board_factory() as board:
                assert board.list_tasks().tasks == ()
                for number in range(count):
                    board.create_task(f"Task {number}")

        @given(count=st.integers(1, 5))
        def test_fixture(mesh_board, count):
            pass
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*FailedHealthCheck*", "*mesh_board_factory and open a board in each example: with *"])


def test_hypothesis_shrinks_what_breaks_a_promise(pytester):
    """The smallest example is the one that is shown."""
    pytester.makepyfile("""
        from hypothesis import given, settings, strategies as st

        @given(count=st.integers(0, 50))
        @settings(database=None, deadline=None, derandomize=True)
        def test_factory(mesh_board_factory, count):
            with mesh_board_factory() as board:
                board.create_task("A", id="a")
                if count > 3:
                    board.store._writer.execute("UPDATE task SET charged = 5")
    """)
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BrokenPromise: the board * breaks P3:", "*count=4,"])
    result.stdout.fnmatch_lines(["broken: P3 in *::test_factory"])


def test_a_thread_or_a_process_of_the_code_under_test_obeys_the_clock(pytester):
    """It opens the board by its path, as it always does; when the run is over, the environment is as it was."""
    pytester.makepyfile("""
        import os, subprocess, sys
        from agentmesh import Board

        def test_by_path(mesh_board, mesh_clock):
            mesh_clock.advance("1d")
            with Board.open(mesh_board.path) as again:
                assert again.create_task("Here").created_us == mesh_clock.now_us()
            code = "import sys, agentmesh; agentmesh.Board.open(sys.argv[1]).create_task('There', id='there')"
            subprocess.run([sys.executable, "-c", code, mesh_board.path], check=True)
            assert mesh_board.get_task("there").created_us == mesh_clock.now_us()
    """)
    assert VARIABLE not in os.environ
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    assert VARIABLE not in os.environ


def test_a_run_within_a_run_leaves_no_trace(pytester, monkeypatch):
    """H14: projects that test their own plugins run pytest in their tests, which may have boards themselves."""
    monkeypatch.setenv(VARIABLE, "as it was")
    pytester.makeconftest("pytest_plugins = ['pytester']")
    pytester.makepyfile("""
        import os
        from agentmesh.cell import VARIABLE

        def test_outer(mesh_board, pytester, request):
            pytester.makepyfile("def test_inner(mesh_board): mesh_board.create_task('Inner'); assert 0")
            pytester.runpytest_inprocess().assert_outcomes(failed=1)
            mesh_board.create_task("Outer")
            assert len(mesh_board.list_tasks().tasks) == 1
            assert os.environ[VARIABLE] == "1"
    """)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=1)
    assert os.environ[VARIABLE] == "as it was"
    result.stdout.fnmatch_lines(["1 board, all promises kept"])


@pytest.mark.parametrize(
    "patch",
    ["time.time", "time.monotonic", "time.perf_counter", "time.time_ns", "time.sleep", "time.monotonic_ns"],
)
def test_a_test_may_patch_the_time(pytester, patch):
    """H7, H8: a clock that stands, or leaps years with each look, neither hangs a board nor changes its time."""
    pytester.makepyfile(f"""
        import threading, time, unittest.mock

        def test_patched(mesh_board, mesh_clock, mesh_board_factory, monkeypatch):
            leaps = iter(range(0, 10**18, 10**9))
            for value in (lambda *_: 0, lambda *_: next(leaps)):
                monkeypatch.setattr("{patch}", value)
                mesh_board.create_task("A")
                waiting = threading.Thread(target=lambda: mesh_board.claim_task("ada", plan="none", wait_sec=20))
                waiting.start()
                mesh_clock.until_waiting(1)
                mesh_clock.advance("1min")
                waiting.join(10)
                assert not waiting.is_alive()
                mesh_board.claim_task("bob", plan="none", wait_sec=20)
                with mesh_board_factory() as board:
                    board.create_task("B")
            assert mesh_clock.now.isoformat() == "2026-01-01T00:02:40+00:00"
    """)
    pytester.runpytest("-W", "error", "-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_boards_are_made_from_several_threads(pytester):
    """As plugins do that run one test many times at once."""
    pytester.makepyfile("""
        from concurrent.futures import ThreadPoolExecutor

        def test_threads(mesh_board_factory):
            def visit(number):
                with mesh_board_factory() as board:
                    board.create_task("A")
                    return str(board.path)

            with ThreadPoolExecutor(8) as pool:
                assert len(set(pool.map(visit, range(40)))) == 40
    """)
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["40 boards, all promises kept"])


@pytest.mark.parametrize("verb", ["claim_task", "events"])
def test_a_verb_that_moves_the_clock_is_called_as_on_any_board(verb):
    """Editors and type checkers see the parameters of `Board`, and `help()` its words."""
    ours, plain = getattr(MeshBoard, verb), getattr(Board, verb)
    assert (signature(ours), ours.__doc__) == (signature(plain), plain.__doc__)


def test_a_board_that_cannot_be_made_leaves_nothing(tmp_path):
    """Neither a template nor a clone of it: the next test finds room, or the same clear error."""
    with small_disk(tmp_path / "disk") as disk:
        boards = Boards(lambda: disk.folder)
        for pages in (20, 20, 120):  # no room for the template, then for a clone
            disk.fill(leave=pages)
            with pytest.raises((OSError, DiskFull)):
                boards.make(Settings())
            assert disk.files() == (["template"] if pages == 120 else [])
            disk.make_room()
        boards.make(Settings()).discard(keep=False)
        boards.close()
        assert disk.files() == []
