"""From a built wheel, in an environment of its own, beside the plugins that projects of agents have."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(300),  # the first run installs the neighbours
    pytest.mark.skipif(os.environ.get("AGENTMESH_OFFLINE") == "1", reason="AGENTMESH_OFFLINE=1: nothing is installed"),
]

ROOT = Path(__file__).parents[2]
NEIGHBOURS = ("anyio", "hatchling", "hypothesis", "pytest-asyncio", "pytest-randomly", "pytest-rerunfailures")
STRICT = ("-W", "error", "--strict-markers", "--strict-config", "-p", "no:cacheprovider")
ASYNCIO = ("-o", "asyncio_default_fixture_loop_scope=function")


def command(*words, cwd=None):
    """Run a command that must end well; what it says."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{words} ended with {done.returncode}\n{done.stdout}\n{done.stderr}", pytrace=False)
    return done.stdout


@pytest.fixture(scope="module")
def neighbours(request, tmp_path_factory):
    """The site-packages of an environment with what we need and what others bring; pytest's cache keeps it."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    cache = getattr(request.config, "cache", None)
    cached = cache.mkdir("neighbours") if cache else tmp_path_factory.mktemp("neighbours")
    folder = cached / f"{sys.version_info.major}.{sys.version_info.minor}"
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        command(sys.executable, "-m", "venv", folder)
        command(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *needed, *NEIGHBOURS)
        (folder / "complete").touch()
    [packages] = folder.glob("lib/python*/site-packages")
    return folder / "bin" / "python", packages


@pytest.fixture(scope="module")
def python(neighbours, tmp_path_factory):
    """The Python of a new environment into which the wheel was installed, as it was built from these files."""
    builder, packages = neighbours
    wheels, folder = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("outside") / "venv"
    pip = [builder, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    command(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, ROOT)
    command(sys.executable, "-m", "venv", "--without-pip", folder)
    [wheel] = wheels.glob("pytest_agentmesh-*.whl")
    command(*pip, "--python", folder / "bin" / "python", "install", "--no-deps", wheel)
    [own] = folder.glob("lib/python*/site-packages")
    (own / "neighbours.pth").write_text(f"{packages}\n")
    return folder / "bin" / "python"


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
