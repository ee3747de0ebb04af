"""What stands beside the failure of a test: what happened on its boards, as a picture and as a page."""

import pytest

SWARM = """
from pytest_agentmesh import agent, claim, complete, kill, work


def test_it(mesh_swarm, mesh_history):
    mesh_swarm.board.create_task("Task", id="a")
    mesh_swarm.run(agent("coder", claim(), work(sec=30), complete()) * 2, faults=[kill("complete_task")])
    mesh_history.check()
    assert [mark.agent for mark in mesh_history.marks] == ["coder-1"]
    mesh_swarm.board.assert_attempts("a", ["completed"])
"""


def test_a_picture_stands_beside_the_failure(pytester):
    """Lanes of the agents, and the fault that struck."""
    pytester.makepyfile(SWARM)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*Captured agentmesh history call*", "coder-1 *a*", "*kill of coder-1 at complete_task*"]
    )


def test_the_picture_fits_the_terminal(pytester, monkeypatch):
    """A line that is broken is no line of a picture."""
    monkeypatch.setenv("COLUMNS", "70")
    pytester.makepyfile(SWARM)
    lines = pytester.runpytest_subprocess("--tb=line").stdout.lines
    (ruler,) = [line for line in lines if "┬" in line]
    assert 60 < len(ruler) <= 70


def test_the_picture_can_be_a_page(pytester):
    """In the folder that was named, and the failure says where; a test that passes is not drawn."""
    pytester.makepyfile(SWARM, test_good="def test_good(mesh_board): mesh_board.create_task('Task')")
    result = pytester.runpytest("--agentmesh-timeline=pictures")
    (page,) = (pytester.path / "pictures").iterdir()
    result.stdout.fnmatch_lines([f"as a page: pictures/{page.name}"])
    assert "kill of coder-1" in page.read_text("utf-8")


@pytest.mark.parametrize("body", ["pass", "mesh_board.create_task('Task'); mesh_board.close()"])
def test_without_a_history_there_is_no_picture(pytester, body):
    """A board on which nothing happened, and one that the test has closed."""
    pytester.makepyfile(f"def test_it(mesh_board):\n    {body}\n    assert False")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.no_fnmatch_line("*agentmesh history*")


def test_a_wait_that_nobody_ends_is_explained(pytester):
    """The time of the test is over, and the clock of its board stood still."""
    pytester.makepyfile(
        """
        import threading

        import pytest


        @pytest.mark.timeout(1, method="signal")
        def test_it(mesh_board):
            call = threading.Thread(target=mesh_board.claim_task, args=("ada",), kwargs={"wait_sec": 30})
            call.start()
            try:
                call.join()
            finally:
                mesh_board.clock.advance(30)
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Captured agentmesh clock call*", "*ends when the test turns it*"])


def test_so_is_a_process_that_takes_too_long(pytester):
    """Whoever's patience it is that ends."""
    pytester.makepyfile("def test_it(mesh_board):\n    raise TimeoutError('5 s are over')")
    pytester.runpytest().stdout.fnmatch_lines(["*Captured agentmesh clock call*", "*autojump()*"])


def test_faults_of_sessions_are_history_too(pytester):
    """One list for all who write them down."""
    pytester.makepyfile(
        """
        import anyio
        import pytest


        @pytest.mark.anyio
        @pytest.mark.parametrize("anyio_backend", ["asyncio"])
        async def test_it(mesh_session, mesh_history):
            async with mesh_session("ada", faults=["create_task:lost_reply"]) as session:
                with pytest.raises(Exception, match="lost_reply"):
                    await session.call_tool("create_task", {"title": "Task"})
            assert [mark.at for mark in mesh_history.marks] == ["create_task"]
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)


def test_an_error_ends_with_the_line_of_the_test_and_the_next_step(pytester):
    """Our insides are no news to whoever tests; --full-trace shows them."""
    pytester.makepyfile("def test_it(mesh_board):\n    mesh_board.create_task('A', depends_on=['b'])")
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(
        ["E *There is no task 'b' on this board.", "E *List what is there*", "test_*.py:2: NotFound"]
    )
    result.stdout.no_fnmatch_line("*lookup.py*")
    pytester.runpytest("--full-trace").stdout.fnmatch_lines(["*lookup.py*"])


def test_our_own_mistakes_are_shown_with_our_insides(pytester):
    """What is no answer to the caller is a bug, and says where."""
    pytester.makepyfile("def test_it(mesh_board):\n    mesh_board._write = None\n    mesh_board.create_task('A')")
    pytester.runpytest().stdout.fnmatch_lines(["*planning.py:*: TypeError"])


def test_a_board_in_a_wider_fixture_is_told_the_way(pytester):
    """Pytest says that it cannot be; we say what can."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def shared(mesh_board):
            return mesh_board

        def test_it(shared):
            pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["ScopeMismatch*", "agentmesh: *mesh_board_factory*"])


def test_an_answer_without_a_task_says_why_there_is_none(mesh_board):
    """To whoever takes it for a claim."""
    mesh_board.create_task("A", id="a")
    mesh_board.claim_task("ann")
    with pytest.raises(AttributeError, match="nothing was claimed, so there is no 'task': Tasks being worked on: 1"):
        mesh_board.claim_task("bob").task  # noqa: B018 - reading it is the mistake
