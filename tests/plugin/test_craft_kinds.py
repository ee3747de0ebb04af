"""Every kind of test that pytest runs can have a board."""

import pytest


@pytest.fixture
def run(pytester):
    """Runs a file in the strictest mode."""

    def run(*arguments, **files):
        pytester.makepyfile(**files)
        return pytester.runpytest("-W", "error", "--strict-markers", "--strict-config", *arguments)

    return run


def test_classes_and_parameters(run):
    """A board for each; fixtures of any scope may ask for the factory, and functions for all."""
    result = run(
        test_it="""
            import pytest

            @pytest.fixture(scope="module")
            def shared(mesh_board_factory):
                with mesh_board_factory() as board:
                    yield board

            @pytest.fixture(autouse=True)
            def _made(mesh_board):
                mesh_board.create_task("Made", id="made")

            class TestIt:
                @pytest.mark.parametrize("title", ["plain", "größer/[a-b]*?", "x" * 300, "../..", "\\x00", ""])
                def test_names(self, mesh_board, title):
                    assert [task.id for task in mesh_board.list_tasks().tasks] == ["made"]
                    assert mesh_board.path.parent.name.isascii()

                def test_shared(self, shared):
                    shared.create_task("One")

                def test_shared_too(self, shared):
                    assert len(shared.list_tasks().tasks) == 1
        """
    )
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["9 boards, all promises kept"])


def test_doctests(run):
    """By `getfixture`, as pytest has it."""
    result = run(
        "--doctest-modules",
        documented='''
            """
            >>> board = getfixture("mesh_board")
            >>> board.create_task("Write the docs", id="docs").id
            'docs'
            """
        ''',
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["1 board, all promises kept"])


def test_unittest_classes(run):
    """Synchronous and not; each test of the class has a board of its own."""
    result = run(
        test_old="""
            import unittest, pytest

            class Boards:
                @pytest.fixture(autouse=True)
                def _board(self, mesh_board):
                    self.board = mesh_board

            class TestOld(Boards, unittest.TestCase):
                def setUp(self):
                    self.board.create_task("A", id="a")

                def test_one(self):
                    self.assertEqual(self.board.claim_task("ada").task.id, "a")

                def test_two(self):
                    self.assertEqual(self.board.get_task("a").state, "pending")

            class TestAsync(Boards, unittest.IsolatedAsyncioTestCase):
                async def test_async(self):
                    self.board.create_task("A", id="a")
        """
    )
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["3 boards, all promises kept"])


def test_async_tests_of_anyio(run):
    """On every backend it has; the promises are looked at when the coroutine has ended."""
    result = run(
        test_async="""
            import anyio, pytest

            pytestmark = pytest.mark.anyio

            @pytest.fixture
            def anyio_backend():
                return "asyncio"

            async def test_async(mesh_board, mesh_clock):
                mesh_board.create_task("A", id="a")
                await anyio.lowlevel.checkpoint()
                async with anyio.create_task_group() as group:
                    group.start_soon(anyio.to_thread.run_sync, lambda: mesh_board.claim_task("ada"))
                mesh_clock.advance("1h")
                assert mesh_board.claim_task("bob")

            async def test_breaks_late(mesh_board):
                mesh_board.create_task("A", id="a")
                await anyio.lowlevel.checkpoint()
                mesh_board.store._writer.execute("UPDATE task SET charged = 9")
        """
    )
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["2 boards, 1 promise broken", "broken: P3 in *::test_breaks_late"])


def test_subtests(run):
    """Those of pytest 9: one board for the test, one look at the end."""
    if not hasattr(pytest, "Subtests"):
        pytest.skip("needs pytest 9")
    result = run(
        test_it="""
            def test_it(mesh_board, subtests):
                for number in range(3):
                    with subtests.test(number=number):
                        mesh_board.create_task("A")
                        assert number != 1
        """
    )
    result.stdout.fnmatch_lines(["1 board, all promises kept"])
    assert result.parseoutcomes()["failed"] >= 1
