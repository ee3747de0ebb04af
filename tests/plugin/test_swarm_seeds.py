"""The same seed is the same history, byte for byte; other seeds are other histories, and none breaks a promise."""

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_agentmesh import agent, claim, complete, put, spend, work
from pytest_agentmesh.faults import some
from pytest_agentmesh.swarm import World
from pytest_agentmesh.swarm.scheduler import Seeded
from tests.support.boards import open_board, put as tasks, states
from tests.support.clock import TurnableClock
from tests.support.scene import everything

CODER = agent(
    "coder",
    claim(capabilities=["b", "a"]),
    work(1, beat_every=40),
    spend(usd="0.03"),
    put("ns", "{task}", 1),
    complete(),
).forever()
FAULTS = [some("kill", "stall", "lost_reply", max=2)]
PRINTED = """
import sys
from tests.plugin.test_swarm_seeds import played
print(played(sys.argv[1], seed=7))
"""


def played(path, seed, **how):
    """Everything on a board after a swarm has been over it, secrets included, and the story, as one digest."""
    with open_board(path, TurnableClock(), seed=seed) as board:
        board.create_tasks([{"title": f"T{n}", "requires": ["a", "b"][: n % 3]} for n in range(4)])
        tasks(board, "plan", "a: plan", "b: plan", "merge: a b")
        run = World(board).run(CODER * 3, faults=FAULTS, order="random", seed=seed, **how)
        return hashlib.sha256(repr((everything(board), run)).encode()).hexdigest()


def test_the_same_seed_is_the_same_history(tmp_path):
    """Every row of every table, with ids and secrets, and every step."""
    assert played(tmp_path / "one.db", seed=7) == played(tmp_path / "two.db", seed=7)
    assert played(tmp_path / "three.db", seed=8) != played(tmp_path / "four.db", seed=7)


@pytest.mark.multiproc
def test_the_order_of_hashes_does_not_matter(tmp_path):
    """Two processes whose sets are in other orders play the same."""
    root = Path(__file__).parents[2]
    answers = set()
    for number in "12":
        command = [sys.executable, "-c", PRINTED, str(tmp_path / number)]
        env = {"PYTHONHASHSEED": number, "PYTHONPATH": f"{root}:{root / 'src'}"}
        answers.add(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)
    assert answers == {played(tmp_path / "here", seed=7) + "\n"}


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_as_many_seeds_are_as_many_histories(tmp_path, first_seed):
    """Each is repeated exactly, and no promise is broken on the way."""
    seen = set()
    for seed in range(first_seed, first_seed + 50):
        first = played(tmp_path / f"{seed}.db", seed)
        assert played(tmp_path / f"{seed}-again.db", seed, check_every=0) == first, seed
        seen.add(first)
    assert len(seen) == 50


@pytest.mark.parametrize("seed", range(10))
def test_whoever_survives_does_the_work(board, seed):
    """At most two are killed, so one is left; nothing stays undone."""
    tasks(board, "plan", "a: plan", "b: plan", "merge: a b", "x", "y")
    World(board).run(CODER * 3, faults=FAULTS, order="random", seed=seed)

    assert set(states(board).values()) == {"completed"}


def test_who_decides_can_be_somebody_else(board):
    """Choices of one's own: this one always lets the last come first, and is asked nothing else."""
    asked = []

    class Last:
        def __init__(self, *seed_and_order):
            assert seed_and_order == (0, "fifo")

        def choose(self, what, options):
            asked.append(what)
            return options - 1

    tasks(board, "a", "b")
    run = World(board, choices=Last).run(agent("x", claim(), complete()) * 2)

    assert [taken.agent for taken in run.steps] == ["x-2", "x-2", "x-1", "x-1"]
    assert set(asked) == {"who"}


def test_in_order_only_faults_are_drawn():
    """First come, first served needs no chance; a random order does."""
    fifo, random = Seeded(1, "fifo"), Seeded(1, "random")
    assert {fifo.choose("who", 3) for _ in range(50)} == {0}
    assert {random.choose("who", 3) for _ in range(50)} == {fifo.choose("kind", 3) for _ in range(50)} == {0, 1, 2}
