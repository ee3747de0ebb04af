"""A waiter sleeps until it is poked; whatever becomes of pokes and sockets, nobody sleeps through ready work."""

import contextlib
import os
import signal
import socket
import stat
import threading
from types import SimpleNamespace

import pytest

from agentmesh import Board
from agentmesh.errors import ResourcesExhausted
from tests.support.boards import open_board
from tests.support.interleave import outcome
from tests.support.patience import PATIENCE_SEC, until
from tests.support.processes import Worker

FOREVER_US = 3_600_000_000


@pytest.fixture
def store(board_path, clock):
    """The store of a board whose waiters have a folder that no other test uses."""
    Board.open(board_path).close()
    with open_board(board_path, clock) as board:
        yield board.store


@pytest.fixture
def waiters(store):
    """Makes waiters for tasks, and lets them leave in the end."""
    with contextlib.ExitStack() as stack:

        def make(count):
            made = [store.waiter(for_tasks=True) for _ in range(count)]
            for waiter in made:
                stack.callback(waiter.close)
            return made

        yield make


def folder(store):
    """Where the waiters of a board have their sockets; made for the first of them."""
    return store._berth._folder


def poked(waiters):
    """The numbers of those that were poked since they were last asked."""
    return [number for number, waiter in enumerate(waiters) if waiter.wait(0)]


def test_a_poke_wakes_a_waiter(store, waiters):
    """It need not be asleep yet: a poke that comes first is kept for it."""
    [waiter] = waiters(1)
    store.poke(1)
    assert waiter.wait(FOREVER_US)
    assert not waiter.wait(0)


def test_a_sleeping_waiter_is_woken_by_another_process(store, waiters):
    """It sleeps in a thread; the poke comes through another board on the same file."""
    [waiter], answers = waiters(1), []

    def doze():
        while not answers or not answers[-1]:
            answers.append(waiter.wait(FOREVER_US))

    thread = threading.Thread(target=doze)
    thread.start()
    with Board.open(store.path) as other:
        other.create_task("t")
    thread.join(PATIENCE_SEC)
    assert answers[-1] is True


@pytest.mark.parametrize(("count", "woken"), [(1, 1), (2, 2), (5, 5), (8, 5)])
def test_a_poke_wakes_as_many_as_there_is_work_for(store, waiters, count, woken):
    """Fifty sleepers do not all get up for one task."""
    crowd = waiters(5)
    store.poke(count)
    assert len(poked(crowd)) == woken


def test_a_poke_that_is_passed_on_visits_each_waiter_once(store, waiters):
    """Nobody can use the work: the poke goes round the whole crowd and then is gone."""
    crowd, visited = waiters(6), []
    store.poke(1)
    while now := poked(crowd):
        visited += now
        crowd[now[0]].pass_on()
    assert sorted(visited) == list(range(6))


def test_a_poke_is_passed_on_once(store, waiters):
    """Passing on twice does not wake two."""
    crowd = waiters(3)
    store.poke(1)
    [first] = poked(crowd)
    crowd[first].pass_on()
    crowd[first].pass_on()
    assert len(poked(crowd)) == 1


def test_all_waiters_get_their_turn(store, waiters):
    """The choice is random, not the order of a listing: nobody is always the last."""
    crowd = waiters(4)
    woken = set()
    for _ in range(100):
        store.poke(1)
        woken.update(poked(crowd))
    assert woken == {0, 1, 2, 3}


def test_a_waiter_that_has_left_is_not_poked(store):
    """It takes its name along."""
    store.waiter(for_tasks=True).close()
    assert list(folder(store).iterdir()) == []
    store.poke(1)


def _wait(line, path):
    with Board.open(path) as board:
        board.store.waiter(for_tasks=True)
        line.send("waiting")
        line.recv()


@pytest.mark.multiproc
@pytest.mark.kill
def test_a_killed_waiter_does_not_swallow_a_poke(store, waiters):
    """The name that it left behind is found dead and removed, and the poke goes to a living one."""
    dead = Worker(_wait, store.path)
    dead.hear()
    dead.kill()
    assert len(list(folder(store).iterdir())) == 1
    [waiter] = waiters(1)
    for _ in range(20):
        store.poke(1)
        assert waiter.wait(0)
    assert len(list(folder(store).iterdir())) == 1


def test_a_reader_of_history_takes_no_pokes(store, waiters):
    """It waits for any commit at all; work is for those who work."""
    [worker] = waiters(1)
    reader = store.waiter(for_tasks=False)
    for _ in range(10):
        store.poke(1)
        assert worker.wait(0)
        assert not reader.wait(0)
    reader.close()


def test_a_waiter_sees_that_something_was_committed(store, waiters, clock):
    """By this board, by another, by another process: it then looks again even without a poke."""
    [waiter] = waiters(1)
    assert not waiter.changed()
    with open_board(store.path, clock, seed=1) as other:
        other.create_task("t")
    assert waiter.changed()
    assert not waiter.changed()
    store.write(lambda tx: tx.execute("insert_plan", name="p", workspace="", retention_us=None, now_us=0))
    assert waiter.changed()


def test_wake_waits_wakes_every_wait_of_the_board(board_path, clock):
    """So that each asks its `cancel`: a server that shuts down does not wait for its sleepers."""
    stop, answers = threading.Event(), []
    with open_board(board_path, clock) as board:

        def wait(call):
            answers.append(call(wait_sec=50, cancel=stop.is_set))

        calls = [lambda **how: board.claim_task("a", **how)] * 3 + [lambda **how: board.events(0, **how)]
        threads = [threading.Thread(target=wait, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        until(lambda: len(board.store._waiters) == 4)
        stop.set()
        board.wake_waits()
        for thread in threads:
            thread.join(PATIENCE_SEC)
    assert [bool(answer) for answer in answers] == [False] * 4


def rename(store, board_id):
    """Let a board say that its id is something else."""
    store._writer.execute("UPDATE meta SET value = ? WHERE key = 'board_id'", (board_id,))


def _no_sockets(monkeypatch, _store):
    monkeypatch.setattr("agentmesh.store.waiting.socket", SimpleNamespace(socketpair=socket.socketpair))


def _name_too_long(monkeypatch, _store):
    monkeypatch.setattr("agentmesh.store.waiting.LONGEST", 20)


def _open_to_others(_monkeypatch, store):
    folder(store).mkdir()
    folder(store).chmod(0o755)


def _a_link(_monkeypatch, store):
    place = folder(store)
    place.symlink_to(store.path.parent)


def _no_word(_monkeypatch, store):
    rename(store, "../somewhere")


@pytest.mark.parametrize("spoil", [_no_sockets, _name_too_long, _open_to_others, _a_link, _no_word])
def test_without_a_safe_folder_for_sockets_a_waiter_looks_by_itself(store, clock, monkeypatch, spoil):
    """No socket is made in a place that others may write to; work is found all the same, a little later."""
    spoil(monkeypatch, store)
    with open_board(store.path, clock, seed=1) as board, Board.open(store.path) as other:
        assert board.store._berth is None
        answers = []
        thread = threading.Thread(target=lambda: answers.append(board.claim_task("a", wait_sec=50)))
        thread.start()
        until(lambda: board.store._waiters)
        other.create_task("t", id="t")
        thread.join(PATIENCE_SEC)
        assert answers[0].task.id == "t"


@pytest.mark.parametrize("board_id", ["../../{}", "", "A/b"])
def test_a_board_from_elsewhere_touches_no_folder_of_its_user(store, clock, tmp_path, board_id):
    """A hostile file names the user's own folder as the place of its waiters: no file there is listed or removed."""
    (tmp_path / "keys").mkdir(mode=0o700)
    tmp_path.chmod(0o700)
    (tmp_path / "keys" / "secret").write_text("precious")
    place = tmp_path / "keys"
    rename(store, board_id.format(place.relative_to("/")))
    with open_board(store.path, clock, seed=1) as board:
        board.create_tasks([{"title": "t"}] * 20)
        assert not board.claim_task("a", plan="none", wait_sec=1, cancel=lambda: clock.advance(2))
        assert board.store._berth is None
    assert [(file.name, file.read_text()) for file in place.iterdir()] == [("secret", "precious")]


def test_only_sockets_are_cleared_away(store):
    """Whatever else lies in the folder of the waiters is none of our business."""
    folder(store).mkdir(mode=0o700)
    (folder(store) / "left-here").write_text("by somebody")
    store.poke(5)
    assert (folder(store) / "left-here").read_text() == "by somebody"
    (folder(store) / "left-here").unlink()


def test_the_last_to_leave_takes_the_folder_away(board_path, clock):
    """A thousand boards leave no thousand folders behind; while somebody waits, the folder stays."""
    Board.open(board_path).close()
    with open_board(board_path, clock) as one:
        place = folder(one.store)
        waiter = one.store.waiter(for_tasks=True)
        open_board(board_path, clock, seed=1).close()
        assert place.is_dir()
        open_board(board_path, clock, seed=1).close()
        one.store.poke(1)
        assert waiter.wait(0)
        waiter.close()
    assert not place.exists()


def test_a_folder_that_was_swept_away_is_made_anew(store, waiters):
    """Cleaners of /tmp take what was not used for days; a long-lived server does not stumble over it."""
    waiters(1)
    for name in folder(store).iterdir():
        name.unlink()
    folder(store).rmdir()
    [waiter] = waiters(1)
    assert stat.S_IMODE(folder(store).stat().st_mode) == 0o700
    store.poke(1)
    assert waiter.wait(0)


def test_boards_with_the_same_chance_wait_side_by_side(store, clock):
    """A seed repeats the names of sockets; the second finds another."""
    with open_board(store.path, clock, seed=5) as one, open_board(store.path, clock, seed=5) as two:
        pair = [one.store.waiter(for_tasks=True), two.store.waiter(for_tasks=True)]
        store.poke(2)
        assert poked(pair) == [0, 1]
        for waiter in pair:
            waiter.close()


def test_a_process_with_thousands_of_descriptors_can_wait(store, waiters):
    """A server has them; `select` would refuse every number above 1023."""
    spare = [os.dup(0) for _ in range(1100)]
    try:
        [waiter] = waiters(1)
        assert waiter._own.fileno() > 1023
        store.poke(1)
        assert waiter.wait(0)
    finally:
        for descriptor in spare:
            os.close(descriptor)


def test_a_full_queue_of_pokes_stops_nobody(store, waiters):
    """A waiter that does not read has enough to wake up for; whoever pokes neither waits nor fails."""
    [waiter] = waiters(1)
    for _ in range(5000):
        store.poke(1)
    assert waiter.wait(0)


def test_a_signal_does_not_end_a_wait_by_itself(store, waiters):
    """The application's own handlers run, and the sleep goes on to its poke."""
    [waiter], handled = waiters(1), []
    before = signal.signal(signal.SIGUSR1, lambda *_: (handled.append(1), store.poke(1)))
    try:
        main = threading.main_thread().ident
        thread = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGUSR1))
        thread.start()
        until(lambda: waiter.wait(FOREVER_US))
        assert handled == [1]
        thread.join(PATIENCE_SEC)
    finally:
        signal.signal(signal.SIGUSR1, before)


READY = {
    "create": (1, lambda board: board.create_task("t")),
    "create three": (3, lambda board: board.create_tasks([{"title": "t"}] * 3)),
    "create twenty": (8, lambda board: board.create_tasks([{"title": "t"}] * 20)),
    "create blocked": (0, lambda board: board.create_task("t", depends_on=["held"])),
    "complete": (2, lambda board: board.held.complete()),
    "complete childless": (0, lambda board: board.alone.complete()),
    "release": (1, lambda board: board.held.release()),
    "fail, to be tried later": (0, lambda board: board.held.fail("x")),
    "fail for good": (0, lambda board: board.alone.fail("x", retry=False)),
    "lease due": (2, lambda board: (board.clock.advance(61), board.reclaim_zombies())),
    "paths freed": (1, lambda board: board.writer.complete()),
    "edge removed": (1, lambda board: board.remove_dependency("child", "held")),
    "heartbeat": (0, lambda board: board.held.heartbeat()),
    "note": (0, lambda board: board.held.note("x")),
    "resume nothing": (0, lambda board: board.resume()),
}


@pytest.mark.parametrize("what", READY)
def test_who_makes_work_ready_pokes_as_many(board_path, clock, monkeypatch, what):
    """One waiter for each task that became ready, eight at most, and none for a commit that made none ready."""
    count, act = READY[what]
    with open_board(board_path, clock) as board:
        board.clock = clock
        for name in ("held", "alone"):
            board.create_task("t", id=name)
            setattr(board, name, board.claim_task("a", task_id=name))
        board.create_tasks([{"title": "t", "id": name, "depends_on": ["held"]} for name in ("child", "second")])
        board.create_task("t", id="writer", writes=["src/**"], lease_timeout_sec=600)
        board.writer = board.claim_task("a", task_id="writer")
        board.create_task("t", id="parked", writes=["src/a"])
        assert not board.claim_task("b")
        pokes = []
        monkeypatch.setattr(board.store, "poke", pokes.append)
        act(board)
        assert sum(pokes) == count


def test_a_waiter_that_cannot_start_leaves_nothing_behind(store, monkeypatch):
    """The system is out of descriptors: the error is typed, and no name stays in the folder."""
    monkeypatch.setattr(socket, "socketpair", lambda: (_ for _ in ()).throw(OSError(24, "too many open files")))
    assert isinstance(outcome(lambda: store.waiter(for_tasks=True)), ResourcesExhausted)
    assert not folder(store).exists()


def test_a_board_nobody_waits_at_has_no_folder(store):
    """Thousands of them are opened by tests; to make and remove a folder costs as much as all else."""
    store.poke(1)
    assert folder(store).parent.exists()
    assert not folder(store).exists()


def test_the_folder_is_private_from_the_start(store, waiters):
    """Nobody else may poke, or read who waits."""
    waiters(1)
    assert [stat.S_IMODE(place.stat().st_mode) for place in (folder(store).parent, folder(store))] == [0o700, 0o700]


def test_a_waiter_that_leaves_hands_on_what_it_did_not_read(store, waiters):
    """A poke that comes while it goes is not lost."""
    leaving, staying = waiters(2)
    store.poke(2)
    assert staying.wait(FOREVER_US)
    leaving.close()
    assert staying.wait(FOREVER_US)


def test_a_copied_board_has_waiters_of_its_own(store, tmp_path, clock):
    """It has the same id; a wake-up for the one is not lost on the other."""
    copy = tmp_path / "copy.db"
    store._writer.execute("VACUUM INTO ?", (str(copy),))
    with open_board(copy, clock) as other:
        assert folder(other.store) != folder(store)


def test_a_waiter_that_leaves_a_closed_board_takes_the_folder_away(store):
    """Its thread may be slower than the one that closes; a poke it had is handed on, and no socket stays open."""
    late, other = store.waiter(for_tasks=True), store.waiter(for_tasks=True)
    store.poke(2)
    store.close()
    assert folder(store).exists()
    other.close()
    late.close()
    assert (folder(store).exists(), store._berth._sender) == (False, None)


def test_a_strange_name_or_datagram_breaks_nothing(store, waiters):
    """A poke comes after a commit: no file in the folder, whatever its name, may make it fail; nor may any bytes."""
    (waiter,) = waiters(1)
    listener, name = waiter._bound
    folder = store._berth._folder
    (folder / os.fsdecode(b"\xff\xfe")).touch()
    store.poke(8)
    assert waiter.wait(FOREVER_US)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as sender:
        sender.sendto(b"\xff\xfe", str(folder / name))
    assert waiter.wait(FOREVER_US)
    waiter.pass_on()
    assert listener.fileno() >= 0
