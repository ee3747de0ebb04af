"""The board in asyncio: waits that block no loop, and a cancellation that gives back what it came too late for."""

import asyncio
import contextvars
import gc
import inspect
import threading

import pytest

from agentmesh import Board, Claim
from agentmesh.board.verbs.awaiting import Awaiting
from agentmesh.errors import BoardClosed, Busy, CursorExpired, ResourcesExhausted
from tests.support.boards import claimed, kinds, put, violations
from tests.support.patience import until
from tests.support.processes import descriptors
from tests.support.waiting import SOON_SEC, sleepers

MANY = 50


@pytest.fixture
def asleep(monkeypatch):
    """Wait, in a coroutine, until one more call sleeps on the board."""
    with sleepers(monkeypatch) as found:
        yield lambda: asyncio.to_thread(found.until_asleep)


@pytest.fixture(autouse=True)
def nothing_left():
    """No thread of a call outlives its test."""
    yield
    until(lambda: not calls())


def calls():
    """The threads of calls."""
    return [thread for thread in threading.enumerate() if thread.name == "agentmesh-call"]


def run(coroutine):
    """What a coroutine gives, soon."""

    async def soon():
        async with asyncio.timeout(SOON_SEC):
            return await coroutine

    return asyncio.run(soon())


async def answered():
    """Let the calls that were just made begin, and end; the loop has not heard of their ends yet."""
    turn = asyncio.get_running_loop().create_future()
    turn.get_loop().call_soon(turn.set_result, None)
    await turn
    for thread in calls():
        thread.join()


def late_claim(board, monkeypatch, *, then):
    """Let `then` run when a claim has been made and its caller does not have it yet."""
    claim_task = board.claim_task

    def claim(*args, **options):
        found = claim_task(*args, **options)
        then()
        return found

    monkeypatch.setattr(board, "claim_task", claim)


@pytest.mark.parametrize("verb", ["claim_task", "events"])
def test_a_coroutine_takes_what_the_call_takes(verb):
    """The same arguments with the same defaults, but for `cancel`."""
    of = {name: inspect.signature(getattr(Awaiting, name)).parameters for name in (verb, f"{verb}_async")}
    wanted = {name: (found.kind, found.default) for name, found in of[verb].items() if name != "cancel"}
    assert {name: (found.kind, found.default) for name, found in of[f"{verb}_async"].items()} == wanted


def test_a_claim_without_a_wait_is_a_claim(board):
    """And nothing to do is an answer."""
    put(board, "a")

    async def both():
        return [await board.claim_task_async("x"), await board.claim_task_async("x", tags=["none"])]

    claim, nothing = run(both())
    assert (claim.task.id, claim.complete().state) == ("a", "completed")
    assert not nothing


def test_all_of_many_agents_wait_and_are_woken(board, asleep):
    """More than asyncio's own executor has threads; the loop goes on meanwhile."""

    async def work():
        waiting = [asyncio.create_task(board.claim_task_async(f"x{n}", wait_sec=50)) for n in range(MANY)]
        for _ in waiting:
            await asleep()
        put(board, *[f"t{n}" for n in range(MANY)])
        return [(await task).task.id for task in waiting]

    assert sorted(run(work())) == sorted(f"t{n}" for n in range(MANY))


def test_a_reader_is_woken_by_news(board, asleep):
    """History is waited for in the same way."""

    async def read():
        waiting = asyncio.create_task(board.events_async(0, wait_sec=50))
        await asleep()
        board.pause()
        return await waiting

    assert [event.kind for event in run(read())] == ["paused"]


def test_an_error_is_raised_where_the_call_is_awaited(board):
    """The same as without asyncio."""
    with pytest.raises(CursorExpired):
        run(board.events_async(7, wait_sec=50))


@pytest.mark.parametrize("verb", ["claim_task_async", "events_async"])
@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_a_cancelled_wait_ends_at_once(board, asleep, verb, how):
    """By `task.cancel()` or `asyncio.timeout`; another wait of the same board goes on."""
    call = {"claim_task_async": (board.claim_task_async, "x"), "events_async": (board.events_async, 0)}[verb]

    async def work():
        staying = asyncio.create_task(board.claim_task_async("staying", wait_sec=50))
        await asleep()
        leaving = asyncio.create_task(call[0](call[1], wait_sec=50))
        await asleep()
        if how == "cancel":
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        else:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await leaving
        until(lambda: len(calls()) == 1)
        put(board, "a")
        return await staying

    assert run(work()).task.id == "a"


def test_a_claim_that_was_made_while_the_call_was_cancelled_is_given_back(board, monkeypatch):
    """Uncharged, told by its event, and the same agent may have it at once."""
    put(board, "a", max_attempts=1)

    async def work():
        loop, waiting = asyncio.get_running_loop(), []
        cancelled = threading.Event()

        def cancel():
            loop.call_soon_threadsafe(lambda: (waiting[0].cancel(), loop.call_soon(cancelled.set)))
            assert cancelled.wait(SOON_SEC)

        late_claim(board, monkeypatch, then=cancel)
        waiting.append(asyncio.create_task(board.claim_task_async("x", wait_sec=50)))
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]

    run(work())
    monkeypatch.undo()
    assert kinds(board)[-2:] == ["task_claimed", "task_released"]
    assert board.claim_task("x").lease.fence == 2
    assert violations(board) == {}


def test_a_claim_that_came_before_its_caller_was_cancelled_is_given_back(board):
    """The answer is there, and the coroutine is cancelled before it goes on."""
    put(board, "a", max_attempts=1)

    async def work():
        task = asyncio.create_task(board.claim_task_async("x"))
        await answered()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())
    assert kinds(board)[-2:] == ["task_claimed", "task_released"]
    assert board.claim_task("x").task.id == "a"


@pytest.mark.parametrize("wish", [{"request_id": "r"}, {"resume": True}])
def test_a_claim_that_can_be_had_again_is_kept(board, wish):
    """By the repeated request, or by resuming what was held before."""
    put(board, "a")
    if "resume" in wish:
        claimed(board, "a", "x")

    async def work():
        task = asyncio.create_task(board.claim_task_async("x", **wish))
        await answered()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(work())
    assert board.claim_task("x", **wish).complete().state == "completed"


def test_a_claim_that_cannot_be_given_back_is_told_of(board, monkeypatch):
    """The cancellation is raised all the same, and says it."""
    put(board, "a")

    def busy(_):
        raise Busy("The board is busy.")

    monkeypatch.setattr(board, "give_back", busy)

    async def work():
        task = asyncio.create_task(board.claim_task_async("x"))
        await answered()
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as cancelled:
            await task
        return cancelled.value.__notes__

    assert run(work()) == ["What the call did could not be undone: The board is busy."]


def test_a_loop_that_is_closed_around_a_wait_leaves_nothing_held(board, asleep):
    """Nobody cancelled it; the task that it claims then is given back by its thread."""
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(board.claim_task_async("x", wait_sec=50))
    loop.run_until_complete(asleep())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    put(board, "a")
    until(lambda: kinds(board)[-2:] == ["task_claimed", "task_released"])
    waiting._log_destroy_pending = False  # it is, and that is the point
    del waiting
    gc.collect()
    assert board.claim_task("x").task.id == "a"


def test_a_coroutine_that_is_closed_gives_its_claim_back(board):
    """Its loop is stopped for good after the answer has come."""
    put(board, "a")
    loop = asyncio.new_event_loop()

    async def begin():
        coroutine = board.claim_task_async("x")
        coroutine.send(None)
        for thread in calls():
            thread.join()
        return coroutine

    coroutine = loop.run_until_complete(begin())
    loop.close()
    coroutine.close()
    assert kinds(board)[-2:] == ["task_claimed", "task_released"]


def test_closing_the_board_ends_a_wait(board_path, clock, asleep):
    """With the error that a call without asyncio gets."""
    board = Board.open(board_path, clock=clock)

    async def work():
        waiting = asyncio.create_task(board.claim_task_async("x", wait_sec=50))
        await asleep()
        board.close()
        await waiting

    with pytest.raises(BoardClosed):
        run(work())


def test_several_loops_may_wait_on_one_board(board, asleep):
    """Each in its own thread; each task comes to one of them."""

    async def work():
        waiting = [asyncio.create_task(asyncio.to_thread(run, wait(n))) for n in range(3)]
        for _ in waiting:
            await asleep()
        put(board, "a", "b", "c")
        return sorted([await one for one in waiting])

    async def wait(number):
        claim = await board.claim_task_async(f"x{number}", wait_sec=50)
        return claim.task.id

    assert run(work()) == ["a", "b", "c"]


def test_calls_leave_no_descriptor(board, asleep):
    """Neither those that were answered nor those that were cancelled."""
    put(board, "held")
    claimed(board, "held")

    async def work():
        task = asyncio.create_task(board.claim_task_async("x", wait_sec=50))
        await asleep()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await board.events_async()

    run(work())
    before = descriptors()
    for _ in range(5):
        run(work())
    assert descriptors() == before


def test_no_thread_left_is_an_error_of_its_own(board, monkeypatch):
    """The call has not begun."""
    put(board, "a")

    def exhausted(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", exhausted)
    with pytest.raises(ResourcesExhausted):
        asyncio.run(board.claim_task_async("x"))
    monkeypatch.undo()
    assert isinstance(board.claim_task("x"), Claim)


def test_what_is_said_of_the_caller_goes_along(board, monkeypatch):
    """Context variables, as with `asyncio.to_thread`."""
    who = contextvars.ContextVar("who")
    seen = []
    late_claim(board, monkeypatch, then=lambda: seen.append(who.get()))

    async def work():
        who.set("ada")
        await board.claim_task_async("x")

    run(work())
    assert seen == ["ada"]
