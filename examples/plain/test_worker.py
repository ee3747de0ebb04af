"""How a plain worker is tested: on a real board, in no real time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from worker import ModelError, summarise, work_off


@pytest.fixture
def release(mesh_board):
    """A small plan: two parts, then what needs both."""
    mesh_board.create_tasks(
        [
            {"title": "Schema", "id": "schema"},
            {"title": "API", "id": "api", "depends_on": ["schema"]},
            {"title": "Docs", "id": "docs", "depends_on": ["schema"]},
            {"title": "Release", "id": "release", "depends_on": ["api", "docs"]},
        ]
    )
    return mesh_board


def test_one_worker_does_it_all(release):
    """In an order that the graph allows, each with the results of what came before."""
    assert work_off(release, "coder-1", summarise) == 4
    release.assert_ran_in_order("schema", "api", "release")
    assert release.get_task("release").result == {"text": "Schema + API + Schema + Docs + Release"}


def test_three_workers_share_it(release, mesh_clock):
    """Nothing is done twice; whoever finds nothing to do waits for the others, and no test waits for them."""

    def agent(name):
        with mesh_clock.taking_part():  # the clock moves only while all three wait
            return work_off(release, name, summarise)

    with ThreadPoolExecutor() as pool, mesh_clock.autojump():
        calls = [pool.submit(agent, f"coder-{number}") for number in (1, 2, 3)]
        assert sum(call.result() for call in calls) == 4
    assert set(release.state.values()) == {"completed"}


def test_what_a_dead_worker_held_is_done_by_another(release, mesh_clock):
    """After the lease, not before."""
    release.claim_task("coder-1")  # and coder-1 dies
    assert not release.claim_task("coder-2")
    mesh_clock.advance("1min")
    assert work_off(release, "coder-2", summarise) == 4
    release.assert_attempts("schema", ["reclaimed", "completed"])


def test_a_failed_call_of_the_model_is_tried_again(release, mesh_clock):
    """With a delay, which passes on the clock of the test."""
    answers = iter([ModelError("not JSON")])

    def flaky(claim):
        if error := next(answers, None):
            raise error
        return summarise(claim)

    with mesh_clock.autojump():
        assert work_off(release, "coder-1", flaky) == 4
    release.assert_attempts("schema", ["failed", "completed"])


def test_a_worker_that_was_too_slow_does_no_harm(release, mesh_clock):
    """Another has taken over: the late result is refused, and the worker goes on."""

    def slow(claim):
        if claim.task.id == "schema" and claim.lease.fence == 1:
            mesh_clock.advance("2min")
            release.claim_task("coder-2").complete({"text": "Schema, by coder-2"})
        return summarise(claim)

    assert work_off(release, "coder-1", slow) == 3
    release.assert_attempts("schema", ["reclaimed", "completed"])
    assert release.get_task("schema").result == {"text": "Schema, by coder-2"}
