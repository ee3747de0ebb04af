"""A board in the middle of its life, and everything that can be done to it; made once, copied for each try.

It stands a second past the end of Ann's lease, so her task can be taken back, and she may still be first to end it.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

from tests.support.boards import open_board, rows
from tests.support.clock import START_US, TurnableClock

PAST_THE_LEASE_US = START_US + 61_000_000


class Scene(NamedTuple):
    """Where the board is kept, and the leases on it."""

    path: Path
    ann: object
    bob: object

    def copy(self, path):
        """The same scene at another place."""
        shutil.copyfile(self.path, path)  # it is closed: no lock is lost
        return self._replace(path=path)

    def open(self, *, seed=1, **options):
        """The board, at the scene's instant; the same seed makes the same ids and secrets."""
        return hasty(open_board(self.path, TurnableClock(PAST_THE_LEASE_US), seed=seed, **options))


def hasty(board):
    """The board, which does not wait for the disk from here on: no test of it cuts the power."""
    board.store._writer.pragma("synchronous", 0)
    return board


def prepare(path):
    """Build the scene at a place."""
    with open_board(path, TurnableClock()) as board:
        board.create_tasks(
            [
                {
                    "title": "t",
                    "id": "held",
                    "priority": 9,
                    "writes": ["src/**"],
                    "max_attempts": 2,
                    "tags": ["x"],
                    "estimate_usd": 1,
                    "estimate_tokens": 1000,
                },
                {"title": "t", "id": "then", "depends_on": ["held"], "payload": {"a": 1}},
                {"title": "t", "id": "else", "depends_on": ["held:failed"]},
                {"title": "t", "id": "after", "depends_on": ["held:finished", "other"]},
                {"title": "t", "id": "far", "depends_on": ["then"], "priority": 3},
                {"title": "t", "id": "other", "priority": 8, "writes": ["docs/**"], "lease_timeout_sec": 600},
                {"title": "t", "id": "done", "priority": 7},
                {"title": "t", "id": "parked", "writes": ["docs/a"], "priority": 6},
                {"title": "t", "id": "later", "not_before": (START_US + 30_000_000) / 1_000_000},
                {"title": "t", "id": "free", "estimate_usd": 2},
                *({"title": "t", "id": f"storm{number}"} for number in range(4)),
            ]
        )
        board.budgets.set(usd=50)
        board.budgets.set(plan="default", tokens=9_000, period="day")
        board.budgets.set(task_id="held", usd=5, tokens=5_000)
        ann = board.claim_task("ann", task_id="held").lease
        bob = board.claim_task("bob", task_id="other").lease
        board.claim_task("ann", task_id="done").complete({"early": True})
        board.create_task("t", id="behind-done", depends_on=["done"], plan="side")
        board.claim_task("cyd", plan="side").release()
        board.blackboard.put("notes", "kept", [1])
        board.blackboard.put("notes", "over", "x", ttl_sec=1)
        _past(board)
        board.ledger.record(lease=ann, model="m", input_tokens=30, output_tokens=10, cost_usd="0.25", source="msg_1")
        board.store.clock.advance(20)
        for number in range(4):
            board.claim_task("eve", task_id=f"storm{number}").fail("down", kind="infra", retry=False)
    return Scene(path, ann, bob)


def _past(board):
    """A plan that has been worked off, with all that may hang on its tasks; what waited for it is in another plan."""
    board.create_task("t", id="past", plan="past", description="d", payload=[1], tags=["x"], writes=["old/**"])
    board.create_task("t", id="past-too", plan="past", depends_on=["past"])
    board.create_task("t", id="doomed", plan="side", depends_on=["past-too", "past"])
    first = board.claim_task("cyd", task_id="past")
    first.note("n")
    board.ledger.record(lease=first, model="m", input_tokens=1, cost_usd="0.5")
    first.release()
    board.claim_task("dan", task_id="past").complete({"r": 1})
    board.cancel_task("past-too")


ACTS = {
    "complete": lambda board, scene: board.complete_task(scene.ann, {"x": 1}),
    "complete other": lambda board, scene: board.complete_task(scene.bob),
    "fail": lambda board, scene: board.fail_task(scene.ann, "broken"),
    "fail infra": lambda board, scene: board.fail_task(scene.ann, "down", kind="infra"),
    "fail for good": lambda board, scene: board.fail_task(scene.ann, "broken", retry=False),
    "release": lambda board, scene: board.release_task(scene.ann),
    "split": lambda board, scene: board.split_task(scene.ann, [{"title": "s"}, {"title": "s", "writes": ["q"]}]),
    "heartbeat": lambda board, scene: board.heartbeat(scene.ann),
    "hold": lambda board, scene: board.hold_paths(scene.ann, writes=["more/**"]),
    "note": lambda board, scene: board.note(scene.ann, "seen"),
    "resume": lambda board, _: board.claim_task("ann", task_id="held", resume=True, take_over=True),
    "reclaim": lambda board, _: board.reclaim_zombies(),
    "claim": lambda board, _: board.claim_task("dan"),
    "claim once": lambda board, _: board.claim_task("dan", request_id="r"),
    "claim held": lambda board, _: board.claim_task("eve", task_id="held"),
    "cancel": lambda board, _: board.cancel_task("held", reason="enough"),
    "cancel plan": lambda board, _: board.cancel_plan("default"),
    "create": lambda board, _: board.create_task("t", id="new", depends_on=["held"], priority=5),
    "create batch": lambda board, _: board.create_tasks(
        [
            {"title": "t", "id": "b1", "depends_on": ["held", "done"], "description": "d", "tags": ["x", "y"]},
            {"title": "t", "id": "b2", "depends_on": ["b1"], "priority": 20, "requires": ["skill"], "plan": "new"},
            {"title": "t", "id": "b3", "writes": ["q/**"], "reads": ["r"]},
        ],
        request_id="batch",
    ),
    "tie": lambda board, _: board.add_dependency("free", "held"),
    "untie": lambda board, _: board.remove_dependency("then", "held"),
    "reopen": lambda board, _: board.reopen_task("done", cascade=True),
    "update": lambda board, _: board.update_task("far", priority=50, writes=["z"], description="new"),
    "pause": lambda board, _: board.pause(plan="default"),
    "prune": lambda board, _: board.prune(plan="past", older_than_sec=0),
    "put": lambda board, scene: board.blackboard.put("notes", "new", b"x", lease=scene.bob, request_id="put"),
    "append": lambda board, _: board.blackboard.append("notes", "kept", 2),
    "delete": lambda board, _: board.blackboard.delete("notes", "kept"),
    "record": lambda board, scene: board.ledger.record(
        lease=scene.ann, model="m", output_tokens=2_000, cost_usd="0.5", request_id="used"
    ),
    "record by name": lambda board, _: board.ledger.record("bob", task_id="other", duration_ms=5, cost_usd=3),
    "set budget": lambda board, _: board.budgets.set(agent="ann", usd=2, strict=True),
    "set task budget": lambda board, _: board.budgets.set(task_id="free", usd=1, period="day"),
    "stop": lambda board, _: board.budgets.set(usd=0, request_id="stop"),
    "clear budget": lambda board, _: board.budgets.clear(task_id="held"),
    "estimate": lambda board, _: board.update_task("held", estimate_usd=6),
    "cap": lambda board, _: board.set_claim_cap(1),
    "plan": lambda board, _: board.apply_plan(
        {"plan": "default", "tasks": [{"id": "free", "title": "other title"}, {"id": "n1", "title": "t"}]}
    ),
}
"""Everything that writes, each as a function of a board and the scene."""


def everything(board):
    """Every row of every table: two boards are in the same state if this is equal."""
    tables = [name for (name,) in rows(board, "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")]
    return {name: rows(board, f'SELECT * FROM "{name}"') for name in tables if not name.startswith("sqlite_")}
