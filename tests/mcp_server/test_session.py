"""A session renews the leases it claimed, as long as it should and no longer."""

import threading

import pytest

from agentmesh import Board
from agentmesh.mcp_server import actions
from agentmesh.mcp_server.reply import result_of
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE
from tests.support.patience import PATIENCE_SEC, until

TOOLS = {tool.name: tool for tool in TABLE}
SECOND_US = 1_000_000


@pytest.fixture
def session(board, clock, monkeypatch):
    """A session whose keepalive runs when the test says so: its thread never starts."""
    session = Session(board, keepalive_sec=900, clock=clock)
    monkeypatch.setattr(session, "_keep", lambda _: None)
    return session


def do(session, tool, **arguments):
    """Call a tool by its name."""
    return TOOLS[tool].run(Call(session), arguments)


@pytest.fixture
def claim(session):
    """Make a task and claim it."""

    def made(task_id="a", **fields):
        do(session, "create_task", title=task_id, id=task_id, lease_timeout_sec=60, **fields)
        return do(session, "claim_task", agent_id="ada", task_id=task_id)

    return made


def expires_us(board, task_id="a"):
    """When the lease runs out."""
    return board.get_task(task_id).lease_expires_us


def test_nothing_is_renewed_before_a_third_of_the_lease(session, board, claim, clock):
    """The next look is when a third has gone."""
    claim()
    before = expires_us(board)
    assert session.renew() == 20 * SECOND_US
    clock.advance(19)
    assert session.renew() == 1 * SECOND_US
    assert expires_us(board) == before


def test_a_lease_is_renewed_every_third(session, board, claim, clock):
    """For as long as the agent is heard of."""
    claim()
    for _ in range(10):
        clock.advance(20)
        assert session.renew() == 20 * SECOND_US
    assert expires_us(board) == clock.now_us() + 60 * SECOND_US


def test_a_clock_that_is_set_back_renews_at_once(session, claim, clock):
    """A wait by the wrong hour would lose the lease."""
    claim()
    clock.advance(-3600)
    assert session.renew() == 20 * SECOND_US


@pytest.mark.parametrize("step_sec", [-3600, 3600])
def test_a_step_of_the_wall_clock_does_not_end_the_keepalive(board, clock, monkeypatch, step_sec):
    """How long ago a task was named is real time, and so is the third of the lease."""
    session = Session(board, keepalive_sec=900)
    monkeypatch.setattr(session, "_keep", lambda _: None)
    do(session, "create_task", title="a", id="a", lease_timeout_sec=60)
    do(session, "claim_task", agent_id="ada")
    clock.advance(step_sec)
    assert 0 < session.renew() <= 20 * SECOND_US


def test_renewal_ends_some_time_after_the_task_was_last_named(session, claim, clock):
    """The lease runs out; naming the task before that goes on with it."""
    claim()
    for _ in range(44):
        clock.advance(20)
        session.renew()
    do(session, "get_task", task_id="a")
    for _ in range(44):
        clock.advance(20)
        assert session.renew() is not None
    clock.advance(20)
    assert session.renew() is None
    clock.advance(60)
    assert do(session, "claim_task", agent_id="bob")["task"]["id"] == "a"


def test_the_keepalive_is_woken_only_for_a_task_it_had_given_up(session, claim, clock, monkeypatch):
    """It has its next look anyway: to be woken by each call would cost that call more than its own work."""
    claim()
    rung = []
    monkeypatch.setattr(session, "_ring", lambda: rung.append(clock.now_us()))
    do(session, "heartbeat", task_id="a", agent_id="ada")
    clock.advance(900)
    assert session.renew() is None
    do(session, "get_task", task_id="a")
    assert rung == [clock.now_us()]


def test_naming_another_task_helps_this_one_nothing(session, claim, clock):
    """Each lease has its own end."""
    claim("a")
    claim("b")
    clock.advance(880)
    do(session, "heartbeat", task_id="b", agent_id="ada")
    clock.advance(20)
    assert [held.lease.task_id for held in session._cared_for(clock.now_us())] == ["b"]


def test_an_ended_task_is_renewed_no_more(session, claim):
    """And nothing is said about it in the log."""
    claim()
    do(session, "complete_task", task_id="a", agent_id="ada")
    assert session.renew() is None


def test_a_lost_lease_is_dropped_and_its_loss_still_told(session, board, claim, clock, capfd):
    """The board says why, not that the session forgot."""
    claim()
    clock.advance(61)
    board.reclaim_zombies()
    assert session.renew() is None
    assert "keepalive" in capfd.readouterr().err
    with pytest.raises(Exception, match="reclaimed"):
        do(session, "complete_task", task_id="a", agent_id="ada")


def test_the_lease_of_a_pruned_task_is_given_up(session, board, claim, clock, capfd):
    """It is over for good: said once, and never tried again."""
    claim()
    board.cancel_task("a")
    board.prune(older_than_sec=0)
    clock.advance(20)
    assert session.renew() is None
    assert "was pruned" in capfd.readouterr().err


def test_a_lease_is_never_renewed_past_its_longest_hold(session, board, claim, clock):
    """The board ends it."""
    claim(max_hold_sec=100)
    start = clock.now_us()
    for _ in range(12):
        clock.advance(10)
        session.renew()
    assert expires_us(board) is None or expires_us(board) <= start + 100 * SECOND_US


def test_a_claim_nobody_hears_of_is_given_back(session, board):
    """Its undo releases it, uncharged."""
    do(session, "create_task", title="a", id="a")
    call = Call(session)
    TOOLS["claim_task"].run(call, {"agent_id": "ada"})
    call.undo()
    task = board.get_task("a")
    assert (task.state, task.charged) == ("pending", 0)
    assert session.renew() is None


def test_a_claim_whose_answer_cannot_be_made_is_given_back(session, board, monkeypatch):
    """The client is told of an internal error, and no lease: the task is free again, for this agent, too."""
    do(session, "create_task", title="a", id="a")
    with monkeypatch.context() as broken:
        broken.setattr(actions, "document", lambda _: 1 / 0)
        call = Call(session)
        answer = result_of(lambda: TOOLS["claim_task"].run(call, {"agent_id": "ada"}), call.take_back)
    assert answer["structuredContent"]["code"] == "internal"
    assert (board.get_task("a").state, session.renew()) == ("pending", None)
    assert do(session, "claim_task", agent_id="ada")["task"]["id"] == "a"


def test_a_claim_stands_without_a_thread_for_its_keepalive(session, board, monkeypatch):
    """The agent gets its lease; the next claim starts the thread."""

    def refuse(_):
        raise RuntimeError("can't start new thread")

    for name in ("a", "b"):
        do(session, "create_task", title=name, id=name)
    with monkeypatch.context() as exhausted:
        exhausted.setattr(threading.Thread, "start", refuse)
        claim = do(session, "claim_task", agent_id="ada")
    assert (claim["task"]["id"], session._thread) == ("a", None)
    do(session, "claim_task", agent_id="ada")
    assert session._thread is not None
    assert {task.id: task.state for task in board.list_tasks().tasks} == {"a": "in_progress", "b": "in_progress"}


def test_a_claim_that_can_be_asked_for_again_is_kept(session):
    """With a request_id the client gets its answer the second time."""
    do(session, "create_task", title="a", id="a")
    call = Call(session)
    TOOLS["claim_task"].run(call, {"agent_id": "ada", "request_id": "r"})
    assert call.undo is None


def test_the_thread_keeps_a_short_lease_alive(tmp_path):
    """In real time: nobody else gets the task while the session lives, somebody does when it is over."""
    with Board.open(tmp_path / "real.db") as board:
        session = Session(board)
        do(session, "create_task", title="a", id="a", lease_timeout_sec=0.5)
        do(session, "claim_task", agent_id="ada")
        assert not board.claim_task("bob", wait_sec=1.5)
        session.close()
        assert board.claim_task("bob", wait_sec=5).task.id == "a"


@pytest.fixture
def late_claim(session, clock, monkeypatch):
    """Claim a task after a wait of so many seconds: the client may have given the call up long before."""

    def made(wait_sec, task_id="a"):
        do(session, "create_task", title=task_id, id=task_id, lease_timeout_sec=60)
        real = session.board.claim_task

        def after_a_wait(*args, **wishes):
            clock.advance(wait_sec)
            return real(*args, **wishes)

        with monkeypatch.context() as patch:
            patch.setattr(session.board, "claim_task", after_a_wait)
            return do(session, "claim_task", agent_id="ada", wait_sec=50)

    return made


def test_a_claim_that_was_answered_late_is_renewed_once_a_call_names_its_task(session, late_claim, clock):
    """Its answer may have gone to nobody: then the lease runs out as that of a dead agent does."""
    answer = late_claim(5)
    assert "heartbeat" in answer["hint"]
    assert session.renew() is None
    do(session, "heartbeat", agent_id="ada", task_id="a")
    assert session.renew() == 20 * SECOND_US
    clock.advance(20)
    assert session.renew() == 20 * SECOND_US


def test_a_claim_that_was_answered_at_once_is_renewed_from_the_start(session, late_claim):
    """No client gives a call up so soon, and agents work for long without a word."""
    assert "hint" not in late_claim(0.5)
    assert session.renew() == 20 * SECOND_US


def test_an_agent_that_never_heard_of_its_claim_is_told_to_resume_it(session, late_claim, board):
    """It does not wait for itself."""
    late_claim(5)
    answer = do(session, "claim_task", agent_id="ada")
    assert (answer["claimed"], answer["advice"], answer["holds"]) == (False, "resume", ["a"])
    assert "resume=true" in answer["hint"]
    resumed = do(session, "claim_task", agent_id="ada", task_id="a", resume=True)
    assert (resumed["task"]["id"], session.renew()) == ("a", 20 * SECOND_US)
    answer = do(session, "claim_task", agent_id="ada")
    assert (answer["advice"], answer["holds"]) == ("wait", ["a"])
    assert board.claim_task("bob").holds == ()


def test_a_new_claim_ends_the_older_waits_of_its_agent_and_client(session, board):
    """Nobody listens to them any more. Another agent, or another client in the same session, waits on."""
    client, over, answers = object(), threading.Event(), {}

    def wait(name, agent, whose):
        call = Call(session, over.is_set, client=whose)
        answers[name] = TOOLS["claim_task"].run(call, {"agent_id": agent, "wait_sec": 50})

    def begin(name, agent, whose):
        thread = threading.Thread(target=wait, args=(name, agent, whose))
        thread.start()
        return thread

    do(session, "create_task", title="a", id="a")
    board.pause(plan="default")
    old, *others = begin("old", "ada", client), begin("bob", "bob", client), begin("far", "ada", object())
    until(lambda: len(board.store._waiters) == 3)
    others.append(begin("new", "ada", client))
    old.join(PATIENCE_SEC)
    assert {name: answer["claimed"] for name, answer in answers.items()} == {"old": False}
    until(lambda: len(board.store._waiters) == 3)
    over.set()
    board.wake_waits()
    for thread in others:
        thread.join(PATIENCE_SEC)
    assert set(answers) == {"old", "bob", "far", "new"}
    assert session._waits == {}
