"""Workers that die, freeze, or come back late: their work is taken over, and what they still write changes nothing."""

import pytest

from agentmesh.errors import LeaseLost, TaskCancelled
from tests.support.boards import kinds, open_board, states, violations
from tests.support.clock import SharedClock
from tests.support.interleave import outcome
from tests.support.processes import Worker

pytestmark = [pytest.mark.multiproc, pytest.mark.kill]

WRITES = {
    "heartbeat": lambda claim: claim.heartbeat(),
    "complete": lambda claim: claim.complete({"by": "zombie"}),
    "fail": lambda claim: claim.fail("by a zombie"),
    "release": lambda claim: claim.release(),
    "split": lambda claim: claim.split([{"title": "by a zombie"}]),
    "hold": lambda claim: claim.hold_paths(writes=["zombie/**"]),
    "note": lambda claim: claim.note("by a zombie"),
}


@pytest.fixture
def time(tmp_path):
    """The time of all processes of a test."""
    return SharedClock(tmp_path / "now")


@pytest.fixture
def board(board_path, time):
    """A board on that time; sound when the test ends."""
    with open_board(board_path, time) as board:
        yield board
        assert violations(board) == {}


def _work(line, path, time, agent_id):
    """Claim a task, say so, and do with it what one is told."""
    with open_board(path, time, seed=hash(agent_id) % 1000) as board:
        claim = board.claim_task(agent_id)
        line.send((claim.task.id, claim.lease.fence) if claim else claim.reason)
        while word := line.recv():
            answer = outcome(lambda word=word: WRITES[word](claim))
            line.send(type(answer).__name__)


def worker(board, time, agent_id="zombie"):
    """A process that has claimed a task, and which it is."""
    started = Worker(_work, board.store.path, time, agent_id)
    return started, started.hear()


def frozen_past_its_lease(board, time):
    """A process that holds task `t`, frozen; its lease has run out."""
    zombie, claimed = worker(board, time)
    assert claimed == ("t", 1)
    zombie.stop()
    time.advance(61)
    return zombie


def told(zombie, write):
    """What a frozen process hears when it goes on and writes."""
    zombie.tell(write)
    zombie.go_on()
    answer = zombie.hear()
    zombie.tell(None)
    assert zombie.end() == 0
    return answer


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_that_slept_past_its_lease_changes_nothing(board, time, write):
    """Another has the task meanwhile; the late write is refused and leaves no trace (P2)."""
    board.create_task("t", id="t")
    zombie = frozen_past_its_lease(board, time)
    heir = board.claim_task("heir")
    assert (heir.task.id, heir.lease.fence) == ("t", 2)
    before = board.status().last_seq
    assert told(zombie, write) == LeaseLost.__name__
    assert board.status().last_seq == before
    assert heir.complete({"by": "heir"}).state == "completed"
    assert board.get_task("t").result == {"by": "heir"}
    assert states(board) == {"t": "completed"}


@pytest.mark.parametrize("write", ["complete", "fail", "release", "split", "heartbeat"])
def test_a_worker_whose_lease_is_due_is_still_the_holder(board, time, write):
    """Nobody has taken the task back yet: what it writes counts, and is marked late."""
    board.create_task("t", id="t")
    zombie = frozen_past_its_lease(board, time)
    assert told(zombie, write) in ("Task", "list", "Lease")
    [attempt] = board.attempts("t")
    assert attempt.outcome == {"complete": "completed", "fail": "failed", "release": "released", "split": "split"}.get(
        write
    )
    assert attempt.late is (write != "heartbeat")


def test_a_worker_whose_task_was_cancelled_is_told_so(board, time):
    """It learns with its next call that nobody wants the result any more."""
    board.create_task("t", id="t")
    zombie, _ = worker(board, time)
    board.cancel_task("t")
    zombie.tell("heartbeat")
    assert zombie.hear() == TaskCancelled.__name__
    zombie.kill()


def test_a_worker_that_is_killed_after_each_claim_pauses_the_task_at_its_limit(board, time):
    """Three hand-outs, three deaths: the task is paused and says why; it is not handed out a fourth time (A23, P3)."""
    board.create_task("t", id="t", max_attempts=3)
    board.create_task("t", id="child", depends_on=["t"])
    for fence in (1, 2, 3):
        victim, claimed = worker(board, time)
        assert claimed == ("t", fence)
        victim.kill()
        time.advance(61)
    spared, said = worker(board, time)
    assert said == "paused"
    spared.tell(None)
    assert spared.end() == 0
    task = board.get_task("t")
    assert (task.state, task.paused) == ("pending", True)
    assert [attempt.outcome for attempt in board.attempts("t")] == ["reclaimed"] * 3
    assert board.get_task("child").state == "blocked"


def test_a_task_whose_worker_is_killed_is_seen_again(board, time):
    """Being claimed does not take it off the board (A29); nobody needs to notice the death."""
    board.create_task("t", id="t")
    victim, _ = worker(board, time)
    victim.kill()
    assert not board.claim_task("heir")
    time.advance(60)
    assert board.claim_task("heir").task.id == "t"


@pytest.mark.parametrize("end", ["killed", "cancelled", "aborted"])
def test_paths_are_free_again_however_their_holder_ends(board, time, end):
    """Killed, cancelled, or given up half-way: no hold outlives its attempt (A28, P10)."""
    board.create_task("t", id="first", writes=["src/**"], priority=1)
    board.create_task("t", id="second", writes=["src/a"])
    holder, claimed = worker(board, time)
    assert claimed == ("first", 1)
    assert not board.claim_task("heir", task_id="second")
    if end == "cancelled":
        board.cancel_task("first")
    if end == "aborted":
        holder.tell("fail")
        holder.hear()
    holder.kill()
    if end == "killed":
        time.advance(61)
        assert board.claim_task("other").task.id == "first"
        board.cancel_task("first")
    assert board.claim_task("heir", task_id="second").task.id == "second"


@pytest.mark.parametrize("jump_sec", [3600, -3600, 10 * 365 * 86_400])
def test_a_clock_that_jumps_does_not_hand_a_task_to_two(board, time, jump_sec):
    """A laptop wakes up, or a server corrects its clock: leases may run out early or late, but fences decide (A32)."""
    board.create_tasks([{"title": "t", "id": f"t{n}", "max_attempts": 5} for n in range(3)])
    holders = [worker(board, time, f"agent-{n}")[0] for n in range(3)]
    time.advance(jump_sec)
    heirs = [board.claim_task("heir") for _ in range(3)]
    assert [bool(heir) for heir in heirs] == [jump_sec > 0] * 3
    for holder in holders:
        holder.tell("complete")
        assert holder.hear() == (LeaseLost.__name__ if jump_sec > 0 else "Task")
        holder.tell(None)
        assert holder.end() == 0
    for heir in filter(None, heirs):
        heir.complete()
    assert set(states(board).values()) == {"completed"}
    assert kinds(board).count("lease_reclaimed") == (3 if jump_sec > 0 else 0)


def test_an_agent_that_starts_again_under_its_name_is_another_session(board, time):
    """The new process does not keep the old one's lease alive, and cannot be fenced by it (A8)."""
    board.create_task("t", id="t")
    board.create_task("t", id="u", priority=-1)
    first, claimed = worker(board, time, "same-name")
    assert claimed == ("t", 1)
    first.kill()
    second, claimed = worker(board, time, "same-name")
    assert claimed == ("u", 1)
    for _ in range(3):
        time.advance(50)
        second.tell("heartbeat")
        assert second.hear() == "Lease"
    assert board.claim_task("heir").task.id == "t"
    second.tell(None)
    assert second.end() == 0
