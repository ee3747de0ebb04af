"""A short life of a swarm on a test board: a death, a hand-over, a late end, faults, money."""

from pytest_agentmesh.faults import FaultMark, kill, lost_reply

START_US = 1_767_225_600_000_000


def play(board):
    """Four agents work a plan off, more or less; the faults that struck them."""
    board.create_tasks(
        [
            {"title": "Ingest the schema", "id": "ingest", "priority": 5},
            {"title": "Write the migration", "id": "migrate", "depends_on": ["ingest"], "writes": ["db/**"]},
            {"title": "Describe the tables", "id": "docs", "writes": ["docs/**"]},
            {"title": "Review all of it", "id": "review", "depends_on": ["migrate", "docs"]},
        ]
    )
    board.budgets.set(usd=1)
    ada, bob = board.claim_task("ada"), board.claim_task("bob")
    board.clock.advance(20)
    ada.heartbeat()
    board.ledger.record(lease=ada.lease, model="m", input_tokens=1_500, output_tokens=300, cost_usd="0.12")
    board.clock.advance(20)
    ada.heartbeat()
    board.clock.advance(5)
    faults = [FaultMark(board.clock.now_us(), kill("complete_task", agent="ada"), "ada", "complete_task", "died")]
    board.clock.advance(30)
    board.ledger.record(lease=bob.lease, model="m", output_tokens=2_000, cost_usd="0.3")
    bob.complete({"pages": 3})
    mark = lost_reply("complete_task", agent="bob")
    faults.append(FaultMark(board.clock.now_us(), mark, "bob", "complete_task", "done, but bob does not know"))
    board.clock.advance(35)
    bob = board.claim_task("bob")
    _finish(board, bob)
    return faults


def _finish(board, bob):
    """Bob takes over; Cyd fails once and is better the second time; Dan is still at it in the end."""
    board.clock.advance(30)
    bob.heartbeat()
    board.ledger.record(lease=bob.lease, model="m", output_tokens=2_600, cost_usd="0.4")
    board.clock.advance(15)
    bob.complete({"tables": 12})
    board.claim_task("cyd").fail("the provider is down", kind="infra")
    board.clock.advance(10)
    cyd = board.claim_task("cyd")
    board.clock.advance(25)
    cyd.complete()
    board.claim_task("dan")
    board.clock.advance(20)
    board.blackboard.put("notes", "review", "half done", ttl_sec=600)
