"""Beside pytest-timeout: a test with a board that hangs fails alone, and what the user said of timeouts stays."""

from importlib import import_module

import pytest

HANGS = """
    import threading, pytest
    from pytest_agentmesh.bench import BENCH

    def test_hangs(mesh_board):
        mesh_board.create_task("A")
        threading.Event().wait(50)

    def test_goes_on(mesh_board):
        mesh_board.create_task("B")
"""
WAITS = """
    import asyncio, pytest, pytest_agentmesh.boards
    from concurrent.futures import ThreadPoolExecutor

    @pytest.fixture
    def pool(mesh_board):
        with ThreadPoolExecutor() as pool:
            yield pool

    def test_inside(mesh_board):
        with ThreadPoolExecutor() as pool:
            assert pool.submit(mesh_board.claim_task, "ann", wait_sec=50).result()

    def test_asyncio(mesh_board):
        asyncio.run(asyncio.to_thread(mesh_board.claim_task, "ann", wait_sec=50))

    def test_asleep(mesh_clock):
        with ThreadPoolExecutor() as pool:
            pool.submit(mesh_clock.sleep, "1h")

    def test_left_behind(mesh_board, mesh_clock, pool):
        pool.submit(mesh_board.claim_task, "ann", wait_sec=50)
        mesh_clock.until_waiting(1)
        raise RuntimeError("its own")

    def test_goes_on(mesh_board, mesh_clock, pool):
        call = pool.submit(mesh_board.claim_task, "ann", wait_sec=50)
        mesh_clock.until_waiting(1)
        mesh_clock.advance(50)
        assert not call.result()
"""
DEADLINES = """
    import pytest

    def told(request):
        marker = request.node.get_closest_marker("timeout")
        return marker and marker.args

    def test_board(mesh_board, request):
        assert told(request) == OURS

    def test_factory(mesh_board_factory, request):
        assert told(request) == OURS

    @pytest.fixture
    def through(mesh_clock):
        pass

    def test_through_a_fixture_of_its_own(through, request):
        assert told(request) == OURS

    @pytest.mark.timeout(7)
    def test_marked(mesh_board, request):
        assert told(request) == (7,)

    def test_plain(request):
        assert told(request) is None
"""


def test_a_test_that_hangs_fails_alone(pytester):
    """The run goes on with the next; the board of the first is gone, and its promises were looked at."""
    pytester.makepyfile(HANGS)
    import_module("pytest_agentmesh.boards")  # what a first import costs is not in this deadline
    result = pytester.runpytest_inprocess("--agentmesh-deadline=0.5", "-W", "error")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E * Timeout *0.5*", "2 boards, all promises kept"])


def test_a_call_that_waits_for_a_clock_that_nobody_turns_does_not_stop_the_run(pytester):
    """Neither in an executor that its `with` waits for, nor in a loop's, nor in one that a fixture ends."""
    pytester.makepyfile(WAITS)
    result = pytester.runpytest_subprocess("--agentmesh-deadline=1", "-W", "error", timeout=60)
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines(["E * Timeout *1.0s*", "*mesh_clock.advance()*", "E * RuntimeError: its own"])


@pytest.mark.parametrize(
    ("arguments", "ours"),
    [
        ((), (60.0,)),
        (("--agentmesh-deadline=5",), (5.0,)),
        (("-o", "agentmesh_deadline=6.5"), (6.5,)),
        (("--agentmesh-deadline=0",), None),
        (("--timeout=30",), None),
        (("--timeout=0",), None),
        (("-o", "timeout=30"), None),
        (("-o", "timeout=0"), None),
    ],
)
def test_tests_with_boards_have_a_deadline(pytester, monkeypatch, arguments, ours):
    """However they come to their board; the user's own marker, option and key of the ini file win, also with 0."""
    monkeypatch.delenv("PYTEST_TIMEOUT", raising=False)
    pytester.makepyfile(DEADLINES.replace("OURS", repr(ours)))
    pytester.runpytest("-W", "error", *arguments).assert_outcomes(passed=5)


@pytest.mark.parametrize("said", ["30", "0"])
def test_the_variable_of_the_user_wins(pytester, monkeypatch, said):
    """As pytest-timeout reads it."""
    monkeypatch.setenv("PYTEST_TIMEOUT", said)
    pytester.makepyfile(DEADLINES.replace("OURS", "None"))
    pytester.runpytest("-W", "error").assert_outcomes(passed=5)


def test_the_method_is_the_users_too(pytester, monkeypatch):
    """Ours is a length of time and nothing more."""
    monkeypatch.delenv("PYTEST_TIMEOUT", raising=False)
    pytester.makepyfile("""
        def test_board(mesh_board, request):
            assert request.node.get_closest_marker("timeout").kwargs == {}
    """)
    pytester.runpytest("-o", "timeout_method=thread").assert_outcomes(passed=1)


def test_without_pytest_timeout_there_is_no_deadline(pytester):
    """And no marker that nobody knows."""
    pytester.makepyfile("""
        def test_board(mesh_board, request):
            assert request.node.get_closest_marker("timeout") is None
    """)
    pytester.runpytest("-p", "no:timeout", "-W", "error", "--strict-markers").assert_outcomes(passed=1)
