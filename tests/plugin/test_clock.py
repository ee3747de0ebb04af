"""The clock in a test's hands: deadlines are visited, waits see every instant, nothing waits in real time."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from agentmesh import Board
from agentmesh.cell import VARIABLE
from pytest_agentmesh import ClockStuck
from tests.support.patience import PATIENCE_SEC
from tests.support.processes import Worker, crew

SECOND = 1_000_000


@pytest.fixture
def threads():
    """Threads for calls that wait."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def waiting(mesh_board, mesh_clock, threads):
    """Start a call that waits; returns once it sleeps."""
    started = []

    def start(agent, wait_sec=50, **wishes):
        call = threads.submit(mesh_board.claim_task, agent, wait_sec=wait_sec, **wishes)
        started.append(call)
        mesh_clock.until_waiting(sum(not call.done() for call in started))
        return call

    yield start
    mesh_clock.jump("1h")  # whoever still waits gives up


def answer(call):
    """What a call in a thread returned."""
    return call.result(timeout=PATIENCE_SEC)


def held(board, *, timeout_sec=30):
    """A task that `ada` holds."""
    board.create_task("Task", id="a", lease_timeout_sec=timeout_sec)
    return board.claim_task("ada")


def test_time_stands_still(mesh_board, mesh_clock):
    """Two calls happen at the same instant unless the test says otherwise."""
    first, second = mesh_board.create_task("Task"), mesh_board.create_task("Task")
    assert first.created_us == second.created_us == mesh_clock.now_us()
    assert mesh_clock.now.isoformat() == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize("duration", [5400, 5400.0, "5400s", "90min", "1h 30min", "1.5h", timedelta(hours=1.5)])
def test_durations_are_said_in_many_ways(mesh_clock, duration):
    """Seconds, a timedelta, words."""
    before = mesh_clock.now
    assert mesh_clock.advance(duration) - before == timedelta(hours=1.5)


@pytest.mark.parametrize("duration", ["", "soon", "5", "5 weeks", "1h30", float("nan"), None, True])
def test_what_is_no_duration_is_refused(mesh_clock, duration):
    """The error shows what one looks like."""
    with pytest.raises(ValueError, match=r"not a duration.*5min"):
        mesh_clock.advance(duration)


def test_an_hour_passes_without_waiting(mesh_board, mesh_clock):
    """A lease of an hour runs out at its instant, not before."""
    held(mesh_board, timeout_sec=3600)
    mesh_clock.advance("59min 59.999999s")
    assert not mesh_board.claim_task("bob")
    mesh_clock.advance("1us")
    assert mesh_board.claim_task("bob").task.id == "a"


def test_a_wait_ends_when_its_deadline_comes(mesh_clock, waiting):
    """A microsecond earlier it still sleeps."""
    call = waiting("bob", wait_sec=20)
    mesh_clock.advance("19.999999s")
    assert not call.done()
    mesh_clock.advance("1us")
    assert answer(call).reason == "empty"


def test_a_wait_is_woken_by_what_falls_due(mesh_board, mesh_clock, waiting):
    """When `advance` returns, whoever waited for the lease has the task."""
    held(mesh_board)
    call = waiting("bob")
    mesh_clock.advance(30)
    assert answer(call).task.id == "a"
    assert mesh_board.get_task("a").holder == "bob"


def test_advance_stops_at_each_deadline(mesh_board, mesh_clock, waiting):
    """A task that is claimed on the way is claimed at its instant, not at the end of the stretch."""
    began_us = mesh_clock.now_us()
    mesh_board.create_task("Task", id="later", not_before=began_us // SECOND + 10)
    call = waiting("bob")
    mesh_clock.advance("1h")
    claim = answer(call)
    assert mesh_board.attempts("later")[0].started_us == began_us + 10 * SECOND
    assert claim.lease.expires_us == began_us + 70 * SECOND


def test_a_jump_comes_late(mesh_board, mesh_clock, waiting):
    """The laptop slept: what lay between happens at the end."""
    began_us = mesh_clock.now_us()
    mesh_board.create_task("Task", id="later", not_before=began_us // SECOND + 10)
    call = waiting("bob", wait_sec=50)
    mesh_clock.jump(45)
    assert answer(call)
    assert mesh_board.attempts("later")[0].started_us == began_us + 45 * SECOND


def test_a_jump_may_go_back(mesh_board, mesh_clock):
    """Nothing comes back to life: a lease that was reclaimed stays lost."""
    held(mesh_board)
    mesh_clock.advance(30)
    assert mesh_board.claim_task("bob")
    mesh_clock.jump("-1h")
    assert mesh_board.get_task("a").holder == "bob"


def test_advance_does_not_go_back(mesh_clock):
    """The error names what does."""
    with pytest.raises(ValueError, match=r"jump\(\)"):
        mesh_clock.advance(-1)


def test_many_waits_see_every_instant(mesh_board, mesh_clock, waiting):
    """Ten wait for ten tasks that fall due one after another; each has one when the clock has passed."""
    began_us = mesh_clock.now_us()
    for second in range(10):
        mesh_board.create_task("Task", not_before=began_us // SECOND + second + 1)
    calls = [waiting(f"agent-{number}") for number in range(10)]
    mesh_clock.advance(10)
    assert sorted(mesh_board.attempts(answer(call).task.id)[0].started_us for call in calls) == [
        began_us + (second + 1) * SECOND for second in range(10)
    ]


def test_to_next_goes_to_what_is_due_first(mesh_board, mesh_clock):
    """It says what that is."""
    held(mesh_board)
    mesh_board.blackboard.put("notes", "k", 1, ttl_sec=12)
    assert mesh_clock.to_next().what == "the entry notes/k expires"
    assert mesh_clock.to_next().what == "the lease of 'a', held by ada"
    assert mesh_clock.now.second == 30


def test_without_a_deadline_there_is_no_next(mesh_clock):
    """A test that expects one has a mistake."""
    with pytest.raises(AssertionError, match="nothing waits for the clock"):
        mesh_clock.to_next()


def test_deadlines_say_who_waits_for_what(mesh_board, mesh_clock, waiting):
    """Soonest first."""
    held(mesh_board)
    mesh_board.create_task("Task", id="b", not_before=mesh_clock.now_us() // SECOND + 5)
    waiting("bob", wait_sec=8)
    assert [due.kind for due in mesh_clock.deadlines()] == ["scheduled", "wait", "lease"]
    assert str(mesh_clock.deadlines()[0]) == "2026-01-01 00:00:05.000  'b' becomes ready"


def test_run_until_stops_when_it_is_true(mesh_board, mesh_clock):
    """It looks at each deadline on the way."""
    held(mesh_board)

    def bob_has_it():
        return bool(mesh_board.claim_task("bob"))

    mesh_clock.run_until(bob_has_it, within="1h")
    assert mesh_clock.now.second == 30


def test_run_until_says_what_never_came(mesh_board, mesh_clock):
    """And what is still due."""
    held(mesh_board, timeout_sec=7200)

    def all_done():
        return False

    with pytest.raises(AssertionError, match=r"all_done\(\) was not true within 1h") as failed:
        mesh_clock.run_until(all_done, within="1h")
    assert "the lease of 'a', held by ada" in str(failed.value)


def test_what_run_until_asks_may_wait(mesh_board, mesh_clock):
    """The condition is a call that sleeps: it moves the clock itself meanwhile."""
    mesh_board.create_task("Late", id="late", not_before="2026-01-01T00:00:30Z")
    mesh_clock.run_until(lambda: mesh_board.claim_task("coder-1", wait_sec=20))
    assert mesh_board.state == {"late": "in_progress"}


def test_autojump_moves_when_all_wait(mesh_board, mesh_clock):
    """A call waits for an hour of the board and for no time of ours."""
    held(mesh_board, timeout_sec=3600)
    with mesh_clock.autojump(), ThreadPoolExecutor(1) as pool:
        while not (claim := pool.submit(mesh_board.claim_task, "bob", wait_sec=50).result(PATIENCE_SEC)):
            assert claim.advice == "wait"
    assert mesh_clock.now.hour == 1


def test_a_wait_of_the_tests_own_thread_moves_the_clock(mesh_board, mesh_clock):
    """Nobody else could turn it meanwhile."""
    held(mesh_board)
    assert mesh_board.claim_task("bob", wait_sec=50).task.id == "a"
    assert mesh_clock.now.second == 30
    assert mesh_board.events(mesh_board.status().last_seq, wait_sec=5) == []
    assert mesh_clock.now.second == 35


def test_autojump_moves_when_coroutines_wait(mesh_board, mesh_clock):
    """They wait in threads of their own; the loop is the test's."""
    held(mesh_board)

    async def work():
        reader = asyncio.create_task(mesh_board.events_async(mesh_board.status().last_seq, wait_sec=50))
        claim = await mesh_board.claim_task_async("bob", wait_sec=50)
        return claim.task.id, (await reader)[0].kind

    with mesh_clock.autojump():
        assert asyncio.run(work()) == ("a", "lease_reclaimed")
    assert mesh_clock.now.second == 30


def test_autojump_waits_for_whoever_is_at_work(mesh_board, mesh_clock, waiting):
    """An agent that thinks holds the clock, although another one waits."""
    with mesh_clock.taking_part(), mesh_clock.taking_part(), mesh_clock.autojump():
        call = waiting("bob", wait_sec=20)
        before = mesh_clock.now_us()
        mesh_board.create_task("Task", id="b", requires=["rust"])  # time for the mover to be wrong
        assert mesh_clock.now_us() == before
        mesh_clock.sleep(20)  # now both wait
        assert not answer(call)


def test_a_held_clock_does_not_move_by_itself(mesh_clock):
    """`hold` is for work that the clock cannot see."""
    with mesh_clock.autojump():
        with mesh_clock.hold(), ThreadPoolExecutor(1) as pool:
            call = pool.submit(mesh_clock.sleep, 5)
            mesh_clock.until_waiting()
            assert mesh_clock.now.second == 0
            mesh_clock.advance(5)
            answer(call)
        mesh_clock.sleep(5)
    assert mesh_clock.now.second == 10


def test_whoever_does_not_take_note_is_named(mesh_clock, monkeypatch):
    """A wait that hangs is a failure with a reason, not a test without an end."""
    monkeypatch.setattr("pytest_agentmesh.clock.PATIENCE_US", 1000)
    place = mesh_clock.cell.take_part()
    with pytest.raises(ClockStuck, match="does not take note"):
        mesh_clock.advance(1)
    place.leave()


def work_where_told(line, path, *_):
    """A worker process of a project under test: it is told of test clocks, opens the board and waits for a task."""
    os.environ[VARIABLE] = "1"
    with Board.open(path) as board:
        line.send("open")
        line.send(board.claim_task("worker", wait_sec=50).task.id)


def test_another_process_obeys(mesh_board, mesh_clock):
    """It sleeps until the test's clock says that the lease is due, and has the task when `advance` returns."""
    held(mesh_board)
    with crew(1, work_where_told, str(mesh_board.path)) as (worker,):
        assert worker.hear() == "open"
        mesh_clock.until_waiting()
        mesh_clock.advance(29)
        assert mesh_board.get_task("a").holder == "ada"
        mesh_clock.advance(1)
        assert mesh_board.get_task("a").holder == "worker"
        assert worker.hear() == "a"


def test_a_killed_process_holds_nobody_up(mesh_board, mesh_clock):
    """Its place at the clock is taken back; the clock moves on."""
    worker = Worker(work_where_told, str(mesh_board.path))
    assert worker.hear() == "open"
    mesh_clock.until_waiting()
    worker.kill()
    mesh_clock.advance("1h")
    assert mesh_clock.deadlines() == []


def test_the_code_under_test_may_open_the_board(mesh_board, mesh_clock):
    """By its path, knowing nothing of clocks; its threads wait on this clock, too."""
    held(mesh_board)
    with Board.open(mesh_board.path) as other:
        thread = threading.Thread(target=other.claim_task, args=("bob",), kwargs={"wait_sec": 50})
        thread.start()
        mesh_clock.until_waiting()
        mesh_clock.advance(30)
        thread.join(PATIENCE_SEC)
    assert mesh_board.get_task("a").holder == "bob"


def test_deadlines_are_visited_without_reading_all_tasks(mesh_board, mesh_clock, monkeypatch):
    """To read them at each stop would be slow on a large board."""
    mesh_board.create_tasks({"title": "t", "not_before": f"2026-01-01T00:00:{sec:02}Z"} for sec in range(1, 40))
    monkeypatch.setattr(mesh_board, "list_tasks", None)
    assert mesh_clock.advance("1min").minute == 1


def test_a_wait_on_a_damaged_board_ends(mesh_board, mesh_clock):
    """What is due cannot be read any more; the call that waits comes back at its own time all the same."""
    mesh_board.store._writer.execute("ALTER TABLE plan RENAME TO gone")
    before = mesh_clock.now
    assert not mesh_board.claim_task("coder-1", wait_sec=5)
    assert mesh_clock.now - before == timedelta(seconds=5)
