"""What a run leaves behind: nothing, however its tests end."""

import pytest

LOOK = """
    import multiprocessing, os, pathlib, pytest, threading

    def look():
        files = []
        for number in os.listdir("/proc/self/fd"):
            try:
                files.append(os.readlink(f"/proc/self/fd/{number}"))
            except FileNotFoundError:
                pass
        files = sorted(file for file in files if "board.db" in file or file.startswith("socket:"))
        threads = sorted(thread.name for thread in threading.enumerate())
        berths = f"/tmp/agentmesh-{os.getuid()}"
        sockets = [name for *_, names in os.walk(berths) for name in names if name.startswith(f"{os.getpid():x}-")]
        maps = [line for line in pathlib.Path("/proc/self/maps").read_text().splitlines() if "board.db" in line]
        return files, threads, sockets, maps, multiprocessing.active_children()

    before, meeting = look(), []

    @pytest.fixture(autouse=True)
    def _meeting(mesh_board):
        place = mesh_board.store._berth._folder
        if not place.exists():  # a run that was killed may have left one of this name: inodes are given again
            meeting.append(place)

    def pytest_unconfigure():
        print("\\nleft:", "nothing" if look() == before else look())
        boards = [path for path in pathlib.Path("boards").rglob("*") if "board.db" in path.name]
        print("boards left:", len(boards), "meeting places:", sum(place.exists() for place in meeting))
"""
TESTS = """
    import threading, pytest

    @pytest.fixture
    def waits(mesh_board, mesh_clock):
        thread = threading.Thread(target=lambda: mesh_board.claim_task("ada", plan="none", wait_sec=20))
        thread.start()
        mesh_clock.until_waiting(1)
        yield
        mesh_clock.advance("1min")
        thread.join()

    @pytest.mark.parametrize("number", range(COUNT))
    def test_ends_in_many_ways(mesh_board, mesh_board_factory, number):
        mesh_board.create_tasks([{"title": "A"}, {"title": "B"}])
        claim = mesh_board.claim_task("ada")
        with mesh_board_factory() as board:
            board.create_task("C")
            assert number % 5
        if number % 7 == 0:
            mesh_board.store._writer.execute("UPDATE task SET charged = 9")
        if number % 11 == 0:
            mesh_board.close()
        if number % 13 == 0:
            mesh_board.path.unlink()
        if number % 17 == 0:
            pytest.skip("no")

    def test_waits(mesh_board, waits):
        mesh_board.create_task("D")

    def test_fails_while_one_waits(mesh_board, waits):
        assert 0
"""


@pytest.fixture
def left(pytester):
    """Runs a file of tests in a process of its own, where even what nobody closed is an error; what is left of it."""

    def left(tests, *arguments):
        pytester.makeconftest(LOOK)
        pytester.makepyfile(tests)
        strict = ("-W", "error", "-W", "error::ResourceWarning", "--basetemp=boards", "-p", "no:cacheprovider", "-s")
        return pytester.runpytest_subprocess(*strict, *arguments)

    return left


def clean(result):
    """That nothing is left, and nothing was complained of."""
    result.stdout.fnmatch_lines(["left: nothing", "boards left: 0 meeting places: 0"])
    text = result.stdout.str() + result.stderr.str()
    assert "Unraisable" not in text
    assert "ResourceWarning" not in text


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["file", "memory"])
def test_five_hundred_tests_leave_nothing(left, storage):
    """H16: no file, no map, no socket, no thread, no process, no warning; failing ones are among them."""
    result = left(TESTS.replace("COUNT", "498"), f"--agentmesh-storage={storage}", "--tb=no", "-q")
    outcomes = result.parseoutcomes()
    assert sum(outcomes.values()) == 500
    assert min(outcomes["failed"], outcomes["passed"], outcomes["skipped"]) > 10
    clean(result)


@pytest.mark.parametrize(
    ("end", "arguments", "status"),
    [
        ("raise KeyboardInterrupt", (), pytest.ExitCode.INTERRUPTED),
        ("pytest.exit('enough')", (), pytest.ExitCode.INTERRUPTED),
        ("assert 0", ("-x",), pytest.ExitCode.TESTS_FAILED),
        ("assert 0", ("--maxfail=1", "--setup-show"), pytest.ExitCode.TESTS_FAILED),
        ("raise SystemExit(3)", (), pytest.ExitCode.TESTS_FAILED),
    ],
)
def test_a_run_that_is_cut_short_leaves_nothing(left, end, arguments, status):
    """H17: with a board open, another in a `with`, and a call of a thread that waits."""
    result = left(
        TESTS.replace("COUNT", "1")
        .replace("assert 0", f"with mesh_board_factory():\n            {end}")
        .replace(
            "def test_fails_while_one_waits(mesh_board, ",
            "def test_fails_while_one_waits(mesh_board, mesh_board_factory, ",
        ),
        *arguments,
        "-k",
        "one_waits",
    )
    assert result.ret == status
    clean(result)
