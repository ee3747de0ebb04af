"""The clock while others move: waits that begin, end, die or stand still as it is turned, and who fails to turn it."""

import contextlib
import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from agentmesh import Board
from agentmesh.cell import AGENT, HOLD, PARKED, PLACES, VARIABLE, CellClock, alive
from agentmesh.errors import BoardClosed, BoardReplaced, Overloaded
from agentmesh.store.parking import clock_berth
from pytest_agentmesh import ClockStuck
from pytest_agentmesh.durations import micros, words
from tests.support.patience import PATIENCE_SEC, until as comes_true
from tests.support.processes import Worker, crew, descriptors

SECOND = 1_000_000


@pytest.fixture
def threads():
    """Threads for calls that wait."""
    with ThreadPoolExecutor(64) as pool:
        yield pool


@pytest.fixture
def waiting(mesh_board, mesh_clock, threads):
    """Start a call that waits; returns once it sleeps."""

    def start(agent, wait_sec=50):
        call = threads.submit(mesh_board.claim_task, agent, wait_sec=wait_sec)
        mesh_clock.until_waiting()
        return call

    yield start
    with contextlib.suppress(BoardClosed, BoardReplaced):
        mesh_clock.jump("1h")


def error_of(call):
    """What a call in a thread ended with."""
    return call.exception(PATIENCE_SEC)


def broken(*_):
    """What cannot be done."""
    raise OSError("the disk is gone")


def test_autojump_waits_until_a_poke_has_arrived(mesh_board, mesh_clock, threads):
    """One agent makes a task every five seconds; the other one has each at the instant at which it is made."""

    def lead():
        with mesh_clock.taking_part():
            for number in range(40):
                mesh_board.create_task("Task", id=f"t{number}")
                mesh_clock.sleep(5)

    def worker():
        with mesh_clock.taking_part():
            for _ in range(40):
                mesh_board.claim_task("bob", wait_sec=50).complete()  # and does the next one

    calls = [threads.submit(worker), threads.submit(lead)]
    mesh_clock.until_waiting(2)
    with mesh_clock.autojump():
        assert [error_of(call) for call in calls] == [None, None]
    tasks = [mesh_board.get_task(f"t{number}") for number in range(40)]
    assert [task.id for task in tasks if mesh_board.attempts(task.id)[0].started_us != task.created_us] == []


def test_autojump_waits_until_history_was_read(mesh_board, mesh_clock, threads):
    """Whoever reads history looks now and then; the clock does not pass by what it has not seen."""
    began_us, seen = mesh_clock.now_us(), []

    def reader():
        with mesh_clock.taking_part():
            cursor = 0
            while len(seen) < 20:
                for event in mesh_board.events(cursor, wait_sec=50):
                    cursor = event.seq
                    seen.append((event.at_us, mesh_clock.now_us()))

    def writer():
        with mesh_clock.taking_part():
            for _ in range(20):
                mesh_clock.sleep(1)
                mesh_board.create_task("Task")

    calls = [threads.submit(reader), threads.submit(writer)]
    mesh_clock.until_waiting(2)
    with mesh_clock.autojump():
        assert [error_of(call) for call in calls] == [None, None]
    assert seen == [(began_us + second * SECOND,) * 2 for second in range(1, 21)]


@pytest.mark.timeout(60)
def test_a_condition_may_wait_itself(mesh_board, mesh_clock):
    """`run_until` asks it while nobody else is kept from turning the clock."""
    mesh_board.create_task("Task", id="a", lease_timeout_sec=30)
    mesh_board.claim_task("ada")
    mesh_clock.run_until(lambda: mesh_board.claim_task("bob", wait_sec=7))
    assert mesh_clock.now.second == 30


def test_a_clock_that_cannot_be_moved_ends_the_wait(mesh_board, mesh_clock, monkeypatch):
    """Whatever ends the thread that moves it is raised where somebody would wait for ever."""
    monkeypatch.setattr(mesh_clock, "_next_us", broken)
    with pytest.raises(ClockStuck, match="autojump moves the clock no more: the disk is gone") as stuck:
        mesh_board.claim_task("bob", wait_sec=50)
    assert isinstance(stuck.value.__cause__, OSError)
    monkeypatch.undo()
    assert not mesh_board.claim_task("bob", wait_sec=5)  # it was told; the next wait begins anew


def test_all_who_wait_hear_that_the_clock_cannot_be_moved(mesh_clock, threads, waiting, monkeypatch):
    """In every thread, in calls and asleep; and the `with` fails, too."""
    monkeypatch.setattr(mesh_clock, "_next_us", broken)
    calls = [waiting("bob"), threads.submit(mesh_clock.sleep, 5)]
    mesh_clock.until_waiting(2)
    with pytest.raises(ClockStuck), mesh_clock.autojump():
        assert [type(error_of(call)) for call in calls] == [ClockStuck, ClockStuck]


@pytest.fixture
def stops(mesh_clock, monkeypatch):
    """The seconds, since the test began, at which the clock stops."""
    turn, began_us, seen = mesh_clock.cell.turn, mesh_clock.now_us(), []

    def turned(at_us, **how):
        done = turn(at_us, **how)
        seen.extend([(at_us - began_us) / SECOND] if done and at_us != began_us else [])
        return done

    monkeypatch.setattr(mesh_clock.cell, "turn", turned)
    return seen


@pytest.fixture
def meanwhile(mesh_clock, monkeypatch):
    """Have something happen, once, after the clock's next deadline was looked up and before it is turned."""

    def arrange(act):
        look, left = mesh_clock._next_us, [act]

        def looked():
            due_us = look()
            if left:
                left.pop()()
            return due_us

        monkeypatch.setattr(mesh_clock, "_next_us", looked)

    return arrange


def test_who_joins_while_the_clock_is_about_to_move_is_waited_for(mesh_clock, waiting, meanwhile):
    """An agent that begins to work just then finds the time as it was, until it waits, too."""
    began_us, joined = mesh_clock.now_us(), []
    meanwhile(lambda: joined.append(mesh_clock.cell.take_part(AGENT)))
    call = waiting("bob", wait_sec=20)
    with mesh_clock.taking_part(), mesh_clock.autojump():
        comes_true(lambda: joined)
        with mesh_clock.hold():  # the decision is made
            assert mesh_clock.now_us() == began_us
        joined[0].leave()
        assert not call.result(PATIENCE_SEC)


def test_a_lease_that_begins_while_the_clock_is_about_to_move_is_a_stop(mesh_board, mesh_clock, stops, meanwhile):
    """It is not passed by, whoever turns the clock."""
    mesh_board.create_task("Task", id="a", lease_timeout_sec=5)
    meanwhile(lambda: mesh_board.claim_task("ada"))
    mesh_clock.advance(10)
    assert stops == [5, 10]


def test_a_wait_that_begins_while_the_clock_is_about_to_move_ends_in_time(
    mesh_board, mesh_clock, threads, stops, meanwhile
):
    """Its end is a stop on the way."""
    calls = []

    def begin():
        calls.append(threads.submit(mesh_board.claim_task, "bob", wait_sec=3))
        mesh_clock.until_waiting()

    meanwhile(begin)
    mesh_clock.advance(10)
    assert not calls[0].result(PATIENCE_SEC)
    assert stops == [3, 10]


def test_of_several_movers_the_most_demanding_counts(mesh_board, mesh_clock, threads):
    """A wait of the test's own thread does not move a clock that is to move when two wait."""
    second = threading.Event()

    def late():
        second.wait(PATIENCE_SEC)
        return mesh_board.claim_task("ada", wait_sec=10)

    with mesh_clock.autojump(waiting=2):
        call = threads.submit(late)
        threads.submit(lambda: (mesh_clock.until_waiting(1), second.set()))
        assert not mesh_board.claim_task("bob", wait_sec=5)
        assert mesh_clock.now.second == 5
        with mesh_clock.autojump(waiting=1):
            mesh_clock.cell.stands()
    mesh_clock.advance(10)
    assert not call.result(PATIENCE_SEC)


def test_autojump_leaves_no_thread(mesh_board, mesh_clock):
    """Also when the test fails inside, or one moves in another."""
    before = threading.active_count()
    with pytest.raises(OSError, match="gone"), mesh_clock.autojump(), mesh_clock.autojump():
        broken(mesh_board.claim_task("bob", wait_sec=5))
    assert threading.active_count() == before


def test_a_wait_hears_that_its_board_was_closed(mesh_board, mesh_clock, waiting):
    """With the clock; it is told so, and not of memory that was released."""
    call = waiting("bob")
    mesh_board.close()
    mesh_clock.close()
    assert type(error_of(call)) is BoardClosed


def test_a_clock_that_was_closed_says_so(mesh_clock):
    """Whatever it is asked."""
    mesh_clock.close()
    for ask in (mesh_clock.now_us, mesh_clock.cell.stands, mesh_clock.cell.take_part, lambda: mesh_clock.jump(1)):
        with pytest.raises(BoardClosed, match="clock of the board is closed"):
            ask()


def test_a_wait_hears_that_its_board_was_deleted(mesh_board, mesh_clock, waiting):
    """So does whoever turns the clock, and no place is left behind."""
    call = waiting("bob")
    mesh_board.path.unlink()
    with pytest.raises(BoardReplaced):
        mesh_clock.advance("1min")
    assert type(error_of(call)) is BoardReplaced
    assert mesh_clock.cell.stands() == []


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists what is mapped")
def test_a_board_that_was_opened_by_its_path_leaves_no_mapping(mesh_board, mesh_clock):
    """It mapped the cell for itself."""

    def mapped():
        return Path("/proc/self/maps").read_text().count(str(mesh_clock.cell.path))

    before = mapped()
    with Board.open(mesh_board.path) as board:
        assert not board.claim_task("bob", cancel=lambda: True, wait_sec=5)
        assert mapped() == before + 1
    assert mapped() == before


def test_a_wait_that_finds_no_place_leaves_nothing_behind(mesh_board, mesh_clock):
    """No socket, no name among those who wait."""
    assert not mesh_board.claim_task("ada", wait_sec=1)
    places = [mesh_clock.cell.take_part(HOLD) for _ in range(PLACES)]
    before = descriptors()
    with pytest.raises(Overloaded):
        mesh_board.events(wait_sec=5) or mesh_board.store.waiter(for_tasks=True)
    assert descriptors() == before
    assert clock_berth(mesh_clock.cell).waiting() == 0
    for place in places:
        place.leave()
    assert not mesh_board.claim_task("ada", wait_sec=1)


def test_a_cell_that_was_deleted_is_missed(mesh_board, mesh_clock):
    """By whoever wants to wait or to turn the clock; nothing of it is left behind."""
    mesh_board.claim_task("bob", wait_sec=1)
    mesh_clock.cell.path.unlink()
    before = descriptors()
    for ask in (lambda: mesh_board.claim_task("bob", wait_sec=5), lambda: mesh_clock.advance(1)):
        with pytest.raises(BoardReplaced, match="clock cell"):
            ask()
    mesh_clock.cell.path.write_bytes(b"another")
    with pytest.raises(BoardReplaced, match="clock cell"):
        mesh_clock.cell.take_part()
    assert (descriptors(), mesh_clock.cell.stands()) == (before, [])


def test_rings_that_nobody_hears_keep_nobody(mesh_board):
    """A waiter that is at work for long is rung by all who cancel meanwhile."""
    with contextlib.closing(mesh_board.store.waiter(for_tasks=True)) as waiter:
        for _ in range(5000):
            waiter.ring()
        waiter.wait(SECOND)


def test_a_commit_needs_no_socket(mesh_board, mesh_clock, waiting, monkeypatch):
    """Without a descriptor left it wakes nobody, and is no failure: it was committed."""
    call = waiting("bob")
    monkeypatch.setattr("agentmesh.store.waiting.socket.socket", broken)
    mesh_board.create_task("Task", id="a")
    monkeypatch.undo()
    mesh_clock.advance(1)
    assert call.result(PATIENCE_SEC).task.id == "a"


def test_a_clock_that_waits_for_nobody_moves(mesh_board, mesh_clock):
    """`waiting=0`: from deadline to deadline, as fast as it can."""
    mesh_board.create_task("Task", id="a", lease_timeout_sec=30)
    mesh_board.claim_task("ada")
    with mesh_clock.autojump(waiting=0):
        comes_true(lambda: mesh_clock.now.second == 30)


def test_a_forked_child_takes_nobodys_place(mesh_clock):
    """What unwinds in it is its parent's."""
    place = mesh_clock.cell.take_part()
    if not (child := os.fork()):
        place.leave()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(mesh_clock.cell.stands()) == 1
    place.leave()


def test_an_id_that_is_used_again_is_another_process(mesh_clock):
    """The owner of a place is known by its start, too."""
    place = mesh_clock.cell.take_part()
    at = place._at + 1
    assert mesh_clock.cell.stands()[0].pid == os.getpid()
    place._words[at] = os.getppid()  # a process with this id, which began when the system did
    assert alive(os.getppid())
    assert len(mesh_clock.cell.stands()) == (0 if Path("/proc/self/stat").exists() else 1)
    place.leave()


def hold_it(line, path, *_):
    """A process that keeps the clock from moving, and never lets go."""
    with contextlib.closing(CellClock.beside(path)) as cell, cell.hold():
        line.send("held")
        threading.Event().wait(PATIENCE_SEC)


def test_the_hold_of_a_killed_process_ends(mesh_board, mesh_clock):
    """As its places do."""
    worker = Worker(hold_it, str(mesh_board.path))
    assert worker.hear() == "held"
    assert mesh_clock.cell.held
    worker.kill()
    assert not mesh_clock.cell.held
    assert not mesh_board.claim_task("bob", wait_sec=5)


def wait_for_task(line, path, *_):
    """A process that waits for a task."""
    os.environ[VARIABLE] = "1"
    with Board.open(path) as board:
        line.send("open")
        line.send(bool(board.claim_task("worker", wait_sec=50)))


@pytest.mark.parametrize("by", ["advance", "autojump"])
def test_a_stopped_process_is_named(mesh_board, mesh_clock, monkeypatch, by):
    """It waits and cannot see the time: that is said, and nobody hangs; when it goes on, so does the clock."""
    monkeypatch.setattr("pytest_agentmesh.clock.PATIENCE_US", 300_000)
    with crew(1, wait_for_task, str(mesh_board.path)) as (worker,):
        assert worker.hear() == "open"
        mesh_clock.until_waiting()
        worker.stop()
        with pytest.raises(ClockStuck, match=f"process {worker.pid}, which is stopped"):
            mesh_clock.advance(1) if by == "advance" else mesh_board.claim_task("bob", wait_sec=5)
        worker.go_on()
        monkeypatch.undo()
        mesh_clock.advance("1min")
        assert worker.hear() is False


def turn_it(line, path, *_):
    """Another process's test, which turns the clock, too."""
    with contextlib.closing(CellClock.beside(path)) as cell:
        line.send("ready")
        line.recv()
        for _ in range(TURNS):
            cell.turn(cell.now_us() + 1)


TURNS = 2000


def test_two_processes_turn_one_clock(mesh_board, mesh_clock):
    """No turn is taken for another: whoever waits sees them all."""
    cell = mesh_clock.cell
    before = cell.generation
    with crew(1, turn_it, str(mesh_board.path)) as (worker,):
        assert worker.hear() == "ready"
        worker.tell("go")
        for _ in range(TURNS):
            cell.turn(cell.now_us() + 1)
    assert cell.generation == before + 2 * TURNS


@pytest.mark.parametrize("duration", ["-57y", "-20455d", "3000000d", 1e300, "9" * 400 + "s"])
def test_the_calendar_has_ends(mesh_clock, duration):
    """Beyond them nothing could be told; the clock stays where it is."""
    before = mesh_clock.now
    with pytest.raises(ValueError, match=r"goes from 1970 to 9998|not a duration"):
        mesh_clock.jump(duration)
    assert mesh_clock.now == before


@given(st.integers(-(10**19), 10**19))
def test_what_is_said_of_a_duration_is_read_as_the_same(us):
    """To the microsecond, however long it is."""
    assert micros(words(us)) == us
    with contextlib.suppress(OverflowError):
        assert micros(timedelta(microseconds=us)) == us


@given(st.text("0123456789.- adhimnsu\u0663", max_size=12))
def test_any_text_is_a_duration_or_no_duration(text):
    """No other error comes of it."""
    with contextlib.suppress(ValueError):
        assert micros(words(micros(text))) == micros(text)


def wait_again_and_again(line, path, number):
    """A process of four threads that wait, each for its own time; it tells who returned too early or too late."""
    os.environ[VARIABLE] = "1"
    chance, over = random.Random(number), threading.Event()
    wrong = []

    def act(agent):
        while not over.is_set():
            sec = chance.randrange(1, 50)
            began_us = board.store.clock.now_us()
            board.claim_task(agent, wait_sec=sec, cancel=over.is_set)
            if board.store.clock.now_us() < began_us + sec * SECOND and not over.is_set():
                wrong.append((agent, sec))

    with Board.open(path) as board:
        crowd = [threading.Thread(target=act, args=(f"agent-{number}-{count}",)) for count in range(4)]
        for thread in crowd:
            thread.start()
        line.send("waiting")
        line.recv()
        over.set()
        board.wake_waits()
        for thread in crowd:
            thread.join(PATIENCE_SEC)
    line.send(wrong)


@pytest.mark.multiproc
def test_a_crowd_sees_every_instant(mesh_board, mesh_clock):
    """Processes and threads wait while the clock goes on, leaps, goes back: none is late, early, or forgotten."""
    rounds, chance = 60, random.Random(7)
    with crew(3, wait_again_and_again, str(mesh_board.path)) as workers:
        assert [worker.hear() for worker in workers] == ["waiting"] * 3
        for _ in range(rounds):
            mesh_clock.advance(chance.random() * 30)
            generation, now_us = mesh_clock.cell.generation, mesh_clock.now_us()
            parked = [stand for stand in mesh_clock.cell.stands() if stand.kind == PARKED and stand.seen == generation]
            assert [stand for stand in parked if stand.due_us < now_us] == []
            if chance.random() < 0.1:
                mesh_clock.jump(chance.randrange(60))
        for worker in workers:
            worker.tell("enough")
        assert [worker.hear() for worker in workers] == [[]] * 3
    comes_true(lambda: mesh_clock.cell.stands() == [])


def test_the_same_test_has_the_same_history(mesh_board_factory):
    """To the microsecond, whatever the threads inside do."""
    told = set()
    for _ in range(10):
        with mesh_board_factory(seed=3) as board:
            board.create_task("Task", id="a", lease_timeout_sec=20, max_attempts=9)
            board.create_task("Task", id="b", not_before=board.clock.now_us() // SECOND + 33)
            for agent in ("ada", "bob", "cy"):
                board.claim_task(agent, wait_sec=50)
            board.events(board.status().last_seq, wait_sec=3)
            told.add(str([(event.at_us, event.kind, event.task_id, event.agent_id) for event in board.events()]))
    assert len(told) == 1
