"""From a built wheel, in an environment of its own, beside the plugins that projects of agents have."""

import subprocess

import pytest

from tests.support.environments import NEEDED, NEEDS_AN_INDEX, built, command, joined, python_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(300),  # the first run installs the neighbours
    NEEDS_AN_INDEX,
]

NEIGHBOURS = ("anyio", "hatchling", "hypothesis", "pytest-asyncio", "pytest-randomly", "pytest-rerunfailures")
STRICT = ("-W", "error", "--strict-markers", "--strict-config", "-p", "no:cacheprovider")
ASYNCIO = ("-o", "asyncio_default_fixture_loop_scope=function")


@pytest.fixture(scope="module")
def python(request, tmp_path_factory):
    """The Python of a new environment with our wheel and its neighbours."""
    neighbours = python_with(request, tmp_path_factory, *NEEDED, *NEIGHBOURS)
    wheel = built(neighbours, tmp_path_factory.mktemp("wheels"))
    return joined(neighbours, wheel, tmp_path_factory.mktemp("outside") / "venv")


@pytest.fixture
def run(python, tmp_path):
    """Runs a file of tests there; what pytest says."""

    def run(tests, *arguments):
        (tmp_path / "test_it.py").write_text(tests)
        return command(python, "-m", "pytest", *STRICT, *arguments, cwd=tmp_path)

    return run


FIVE_LINES = """
def test_a_lost_worker_is_replaced(mesh_board, mesh_clock):
    mesh_board.create_task("Write the docs", id="docs")
    mesh_board.claim_task("ada")
    mesh_clock.advance("1h")
    assert mesh_board.claim_task("bob").task.id == "docs"
"""


def test_five_lines_are_enough(run):
    """With all neighbours there; nothing of ours is the clone's."""
    said = run(
        FIVE_LINES
        + "\n\ndef test_place():\n    import agentmesh, sys\n    assert agentmesh.__file__.startswith(sys.prefix)",
        *ASYNCIO,
    )
    assert "2 passed" in said
    assert "1 board, all promises kept" in said


def test_a_script_may_import_it_before_it_starts_pytest(python, tmp_path):
    """H11: all of a plugin's packages are to be rewritten, and pytest warns of what comes too early."""
    (tmp_path / "test_it.py").write_text(FIVE_LINES)
    script = "import sys, pytest, agentmesh, pytest_agentmesh; sys.exit(pytest.main(sys.argv[1:]))"
    assert "1 passed" in command(python, "-c", script, *STRICT, *ASYNCIO, cwd=tmp_path)


def test_its_command_is_installed(python, tmp_path):
    """With the examples of the demo, which are in the wheel only."""
    (python.parent / "agentmesh").stat()
    assert "agentmesh" in command(python, "-m", "agentmesh.cli", "--version", cwd=tmp_path)
    assert list(python.parents[1].glob("lib/python*/site-packages/agentmesh/cli/examples/*"))


ASYNC = """
import asyncio, pytest
{mark}
async def test_async(mesh_board, mesh_clock):
    mesh_board.create_task("A", id="a")
    await asyncio.to_thread(mesh_board.claim_task, "ada")
    waiting = asyncio.create_task(asyncio.to_thread(mesh_board.claim_task, "bob", wait_sec=50))
    await asyncio.to_thread(mesh_clock.until_waiting, 1)
    await asyncio.to_thread(mesh_clock.advance, "1h")
    assert not await waiting or waiting.result().task.id == "a"

{mark}
@pytest.mark.xfail(strict=True)
async def test_breaks_when_the_loop_has_turned(mesh_board):
    mesh_board.create_task("A", id="a")
    await asyncio.to_thread(int)
    mesh_board.store._writer.execute("UPDATE task SET charged = 9")

def test_it_was_found(mesh_board_factory):
    pass
"""


@pytest.mark.parametrize(
    ("mode", "mark"), [("strict", "@pytest.mark.asyncio"), ("auto", ""), ("auto", "@pytest.mark.anyio")]
)
def test_async_tests_are_judged_when_they_have_ended(python, tmp_path, mode, mark):
    """Under pytest-asyncio in both modes, with anyio's plugin there, too."""
    backend = "\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n"
    (tmp_path / "test_it.py").write_text(ASYNC.format(mark=mark) + backend)
    arguments = (*STRICT, *ASYNCIO, "-o", f"asyncio_mode={mode}")
    done = subprocess.run(
        [python, "-m", "pytest", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "broken: P3 in test_it.py::test_breaks_when_the_loop_has_turned" in done.stdout


DRAWN = """
import pathlib, pytest

@pytest.mark.parametrize("number", range(9))
def test_draws(mesh_board, number):
    with pathlib.Path("drawn").open("a") as file:
        file.write(f"{number} {mesh_board.create_task('A').id}\\n")
"""


def test_another_order_draws_the_same(run, tmp_path):
    """pytest-randomly shuffles tests and seeds `random`: neither reaches a board."""
    drawn = []
    for order in (("-p", "no:randomly"), ("--randomly-seed=1",), ("--randomly-seed=4242",)):
        run(DRAWN, *ASYNCIO, *order)
        drawn.append((tmp_path / "drawn").read_text().splitlines())
        (tmp_path / "drawn").unlink()
    assert len({tuple(lines) for lines in drawn}) > 1
    assert len({tuple(sorted(lines)) for lines in drawn}) == 1


def test_a_test_that_is_run_again_has_a_new_board(run):
    """pytest-rerunfailures: each try is a board, and counts once."""
    said = run(
        """
tries = []

def test_flaky(mesh_board):
    assert mesh_board.list_tasks().tasks == ()
    mesh_board.create_task("A")
    tries.append(1)
    assert len(tries) == 3
""",
        *ASYNCIO,
        "--reruns=2",
    )
    assert "1 passed, 2 rerun" in said
    assert "3 boards, all promises kept" in said
