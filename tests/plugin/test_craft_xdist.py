"""Under pytest-xdist: workers run the tests, and one summary tells of all of them."""

import pytest

pytestmark = pytest.mark.multiproc
TWO = ("-n", "2", "-W", "error", "--strict-markers")
BROKEN = "mesh_board.store._writer.execute('UPDATE task SET charged = 9')"


def summary(result):
    """The lines of ours in the output, from all processes."""
    lines = result.outlines
    assert sum(line.strip("= ") == "agentmesh" for line in lines) == 1
    at = [line.strip("= ") for line in lines].index("agentmesh")
    return lines[at + 1 :]


@pytest.mark.parametrize("how", [(), ("--dist=loadscope",), ("--dist=worksteal", "-v"), ("-q",)])
def test_the_summary_is_printed_once_with_the_sums_of_all_workers(pytester, how):
    """Boards, broken promises and kept boards."""
    pytester.makepyfile(f"""
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_board(mesh_board, mesh_board_factory, number):
            mesh_board.create_task("A")
            with mesh_board_factory() as board:
                board.create_task("B")

        class TestIt:
            def test_breaks(self, mesh_board):
                mesh_board.create_task("A")
                {BROKEN}

            def test_fails(self, mesh_board):
                assert 0
    """)
    result = pytester.runpytest_subprocess(*TWO, *how, "--agentmesh-keep")
    result.assert_outcomes(passed=6, failed=2)
    first, broken, *rest = summary(result)
    assert first == "14 boards, 1 promise broken"
    assert broken.startswith("broken: P3 in ")
    assert [line.partition("/")[0] for line in rest[:3]][:2] == ["kept: ", "kept: "]


def test_when_a_worker_dies_the_others_are_counted(pytester):
    """The board of the test that killed it is lost with it, and nothing hangs."""
    pytester.makepyfile("""
        import os, pytest

        @pytest.mark.parametrize("number", range(6))
        def test_board(mesh_board, number):
            mesh_board.create_task("A")
            if number == 2:
                os._exit(1)
    """)
    result = pytester.runpytest_subprocess(*TWO)
    result.assert_outcomes(passed=5, failed=1)
    assert summary(result)[0] == "5 boards, all promises kept"


def test_options_reach_the_workers(pytester):
    """And the ids drawn are those of a run without workers."""
    pytester.makepyfile("""
        import pathlib, pytest

        @pytest.mark.parametrize("number", range(4))
        def test_board(mesh_board, number, request):
            assert str(mesh_board.path).startswith("/dev/shm")
            with pathlib.Path("drawn").open("a") as file:
                file.write(f"{number} {mesh_board.create_task('A').id}\\n")
    """)
    drawn = []
    for workers in (TWO, ()):
        pytester.runpytest_subprocess(*workers, "--agentmesh-seed=5", "--agentmesh-storage=memory").assert_outcomes(
            passed=4
        )
        drawn.append(sorted((pytester.path / "drawn").read_text().splitlines()))
        (pytester.path / "drawn").unlink()
    assert drawn[0] == drawn[1]


def test_a_wrong_marker_is_one_readable_line_there_too(pytester):
    """What a worker says of collecting is lost, so the test itself is refused."""
    pytester.makepyfile("import pytest\n@pytest.mark.agentmesh(colour=1)\ndef test_it(): pass")
    result = pytester.runpytest_subprocess(*TWO)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["E  *UsageError: *::test_it: @pytest.mark.agentmesh knows no 'colour'; *"])
