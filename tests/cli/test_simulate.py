"""`agentmesh simulate`: a scenario from a file, what it came to, and how a failure is told."""

import re
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.cli.errors import FAILED, VIOLATED

EXAMPLES = Path(__file__).parents[2] / "examples" / "swarms"
IMPORTS = """
from pytest_agentmesh import agent, claim, complete, spend, work
from pytest_agentmesh.faults import kill, some
CODER = agent("coder", claim(), work(sec=30), spend(usd="0.03"), complete()).forever()
"""


@pytest.fixture
def scenario(in_an_empty_folder):
    """Write a scenario into a file; its name."""

    def write(*lines, before=""):
        body = "".join(f"    {line}\n" for line in lines)
        (in_an_empty_folder / "swarm.py").write_text(f"{IMPORTS}{before}\ndef scenario(world):\n{body}")
        return "swarm.py"

    return write


TWO = 'world.board.create_tasks([{"title": "A", "id": "a"}, {"title": "B", "id": "b"}])'


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_the_examples_play(mesh, example):
    """In order, and in every one of ten random orders."""
    assert mesh("simulate", example).exit_code == 0
    played = mesh.json("simulate", example, "--order", "random", "--runs", 10)
    assert ([run["seed"] for run in played["runs"]], played["ok"]) == ([*range(10)], True)


def test_a_run_is_told_in_a_line(mesh, scenario):
    """Tasks by state, attempts, what was taken back, faults, cost, board time, steps."""
    file = scenario(TWO, 'world.run(CODER * 2, faults=[kill("complete_task")])')

    assert mesh("simulate", file).stdout == (
        "seed 0, fifo: 2 completed, 3 attempts, 1 reclaimed, 1 fault, 0.09 USD, 1 min 30 s of board time, 11 steps\n"
    )


def test_a_run_is_told_in_json(mesh, scenario):
    """The same, for programs."""
    file = scenario(TWO, "world.run(CODER)")

    assert mesh.json("simulate", file, "--seed", 4) == {
        "ok": True,
        "runs": [
            {
                "seed": 4,
                "order": "fifo",
                "ok": True,
                "counts": {"completed": 2},
                "attempts": 2,
                "reclaimed": 0,
                "faults": 0,
                "cost_usd": "0.06",
                "board_sec": 60.0,
                "steps": 7,
            }
        ],
    }


def test_a_failure_is_told_with_its_story(mesh, scenario):
    """Where in the file, the steps, and the line that plays it again; it ends the series."""
    file = scenario(TWO, "world.run(CODER)", "assert world.took_us == 0, 'too slow'")
    result = mesh("simulate", file, "--runs", 3, "--order", "random", "--seed", 5)

    assert result.exit_code == FAILED
    for words in (
        "It failed.",
        'File "swarm.py", line 9, in scenario',
        "AssertionError: too slow",
        "  7  1min  coder  claim_task           nothing: done",
        "agentmesh simulate swarm.py --seed 5 --order random",
    ):
        assert words in result.stdout
    assert (result.stdout.count("seed 5, random"), "seed 6" in result.stdout, "simulate.py" in result.stdout) == (
        1,
        False,
        False,
    )


def test_the_seed_is_that_of_the_board(mesh, scenario):
    """Ids are drawn from it: the same with the same one, others with another."""
    file = scenario("raise ValueError(world.board.create_task('A').id)")
    ids = [re.search(r"ValueError: (\S+)", mesh("simulate", file, "--seed", seed).stdout)[1] for seed in (1, 1, 2)]

    assert ids[0] == ids[1] != ids[2]


def test_a_failure_in_json_is_a_document(mesh, scenario):
    """On stdout like any other; the exit code says that it failed."""
    file = scenario("world.run(CODER, within='1 h')", "raise ValueError('x')")
    result = mesh("simulate", file, "--json")

    assert result.exit_code == FAILED
    assert '"ok":false' in result.stdout
    assert "ValueError: x" in result.stdout


def test_the_steps_of_an_agents_own_error_are_told_once(mesh, scenario):
    """The error has them as its note."""
    file = scenario(TWO, 'world.run(CODER, agent("x", complete()))')

    assert mesh("simulate", file).stdout.count("claim_task") == 1


def test_time_is_limited(mesh, scenario):
    """A swarm that takes longer says who waits for what."""
    file = scenario(TWO, "world.run(CODER)")
    result = mesh("simulate", file, "--within", "45s")

    assert (result.exit_code, "not quiet within 45s\n    coder works on b" in result.stdout) == (FAILED, True)
    assert result.stdout.endswith("agentmesh simulate swarm.py --seed 0 --order fifo --within 45s\n")


def test_a_broken_promise_has_its_own_exit_code(mesh, scenario):
    """That of `check`."""
    file = scenario(TWO, "world.board.store._writer.execute('UPDATE task SET fence = 7')", "world.run(CODER)")

    assert mesh("simulate", file).exit_code == VIOLATED


def test_the_last_run_can_be_drawn(mesh, scenario, tmp_path):
    """Also one that failed, with the faults that struck."""
    file = scenario(TWO, 'world.run(CODER * 2, faults=[kill("complete_task")])', "assert False")
    page = tmp_path / "timeline.html"

    assert mesh("simulate", file, "--timeline", page).exit_code == FAILED
    assert "kill at complete_task" in page.read_text("utf-8")


def test_the_board_can_be_kept(mesh, scenario, tmp_path):
    """That of the last run, in a new folder, to be read with every other command."""
    file = scenario(TWO, "world.run(CODER)")
    kept = tmp_path / "kept"
    assert mesh("simulate", file, "--runs", 2, "--keep", kept).exit_code == 0

    with Board.open(kept / "board.db", create=False) as board:
        assert board.status().counts["completed"] == 2
    assert mesh("simulate", file, "--keep", kept).exit_code == 29


@pytest.mark.parametrize(
    "wrong", [("missing.py",), ("swarm.py", "--within", "soon"), ("swarm.py", "--runs", "0"), ("empty.py",)]
)
def test_a_wrong_call_is_one(mesh, scenario, wrong):
    """A file that is not there, a duration that is none, no scenario in the file."""
    scenario("pass")
    Path("empty.py").write_text("")

    assert mesh("simulate", *wrong).exit_code == 2


def test_a_file_that_cannot_be_run_says_where(mesh):
    """With the line of its own error, and not as a fault of ours."""
    Path("broken.py").write_text("import nothing_of_that_name\n")
    result = mesh("simulate", "broken.py")

    assert result.exit_code == FAILED
    assert 'File "broken.py", line 1' in result.stderr
    assert "broken.py cannot be run: ModuleNotFoundError." in result.stderr


def test_what_stands_beside_the_file_can_be_imported(mesh, scenario):
    """As when Python runs it."""
    Path("beside_it.py").write_text("AGENTS = 3\n")
    file = scenario("world.run(CODER * beside_it.AGENTS)", before="import beside_it\n")

    assert mesh("simulate", file).exit_code == 0


def test_no_board_of_ones_own_is_touched(call, board, scenario):
    """Although there is one in the folder."""
    assert call("simulate", scenario(TWO, "world.run(CODER)")).exit_code == 0
    assert board.status().total == 0
