"""Big graphs: deep, wide and layered ones, without recursion errors and with every promise kept."""

import pytest

from agentmesh.errors import CycleRefused
from tests.support.boards import claimed, done, rows, violations


def create(board, specs):
    """Put many tasks on the board, as few calls as it takes."""
    for start in range(0, len(specs), 10_000):
        board.create_tasks(specs[start : start + 10_000])


def chain(length):
    """t0, t1 ..., each waiting for the one before."""
    return [{"title": "T", "id": f"t{n}", "depends_on": [f"t{n - 1}"] if n else []} for n in range(length)]


def test_a_chain_of_a_thousand_is_drained_in_order(board):
    """One ready task at a time."""
    create(board, chain(1000))
    for number in range(1000):
        claim = board.claim_task("x")
        assert claim.task.id == f"t{number}"
        claim.complete()
    assert board.claim_task("x").reason == "done"


def test_a_chain_of_five_thousand_falls_with_its_root(board):
    """Cancelled in one transaction, each naming the root; reopened with cascade in another."""
    create(board, chain(5000))
    board.cancel_task("t0")
    assert board.status().counts["cancelled"] == 5000
    assert board.get_task("t4999").reason == "dependency t4998 ended as cancelled (root: t0)"
    board.reopen_task("t0", cascade=True)
    assert board.status().counts["blocked"] == 4999
    assert board.claim_task("x").task.id == "t0"


def test_a_circle_of_five_thousand_is_refused(board):
    """The way round is known in full and shown in part."""
    create(board, chain(5000))
    with pytest.raises(CycleRefused) as caught:
        board.add_dependency("t0", "t4999")
    assert (len(caught.value.path), caught.value.path[0], caught.value.path[-1]) == (5001, "t0", "t0")
    assert len(caught.value.message) < 300
    fresh = [{"title": "T", "id": f"u{n}", "depends_on": [f"u{n - 1 if n else 4999}"]} for n in range(5000)]
    with pytest.raises(CycleRefused) as caught:
        board.create_tasks(fresh)
    assert len(caught.value.path) == 5001


def test_urgency_climbs_and_falls_through_a_chain_of_five_thousand(board):
    """From the last to the first and back."""
    create(board, chain(5000))
    board.update_task("t4999", priority=7)
    assert board.get_task("t0").urgency == 7
    board.update_task("t2500", priority=3)
    board.cancel_task("t4999")
    assert rows(board, "SELECT urgency, COUNT(*) FROM task WHERE state <> 'cancelled' GROUP BY 1 ORDER BY 1") == [
        (0, 2498),
        (3, 2501),
    ]


def layered(layers, width):
    """Each node waits for three of the layer above."""
    return [
        {
            "title": "T",
            "id": f"n{layer}-{place}",
            "depends_on": [f"n{layer - 1}-{(place + step) % width}" for step in (0, 1, 7)] if layer else [],
        }
        for layer in range(layers)
        for place in range(width)
    ]


def test_a_layered_graph_of_ten_thousand_is_created_raised_and_worked_on(board):
    """100 layers of 100 in one call; an urgent task at the bottom raises what it needs, and only that."""
    create(board, layered(100, 100))
    assert board.status().counts["pending"] == 100
    board.create_task("Hot", id="hot", priority=9, depends_on=["n99-50"])
    raised = rows(board, "SELECT COUNT(*) FROM task WHERE urgency = 9")[0][0]
    assert raised == 1 + count_above("n99-50", layered(100, 100))
    first = board.claim_task("x")
    assert first.task.urgency == 9
    first.complete()
    board.cancel_task("hot")
    assert rows(board, "SELECT MAX(urgency) FROM task WHERE state IN ('blocked', 'pending')") == [(0,)]
    assert len(board.explain("n99-0").causes) == 20


def count_above(start, specs):
    """How many tasks a task waits for in the end, itself included, worked out by hand."""
    above = {spec["id"]: spec["depends_on"] for spec in specs}
    seen, queue = {start}, [start]
    while queue:
        fresh = set(above[queue.pop()]) - seen
        seen |= fresh
        queue += fresh
    return len(seen)


def test_a_layered_graph_is_doomed_by_its_first_failures(board):
    """Three of the first layer fail: what hangs on them, over every edge, is cancelled, and the rest is not."""
    create(board, layered(60, 40))
    for place in (0, 1, 2):
        claimed(board, f"n0-{place}").fail("x", retry=False)
    counts = board.status().counts
    assert counts["cancelled"] + counts["blocked"] + counts["pending"] + counts["failed"] == 2400
    doomed = {"n0-0", "n0-1", "n0-2"}
    for spec in layered(60, 40):
        if doomed & set(spec["depends_on"]):
            doomed.add(spec["id"])
    assert counts["cancelled"] == len(doomed) - 3


def test_a_fan_in_of_a_thousand_fires_once(board):
    """The join waits for all; its claim carries what fits of a thousand results."""
    create(board, [{"title": "T", "id": f"p{n}"} for n in range(1000)])
    board.create_task("Join", id="join", depends_on=[f"p{n}" for n in range(1000)])
    for number in range(1000):
        assert board.get_task("join").unmet == 1000 - number
        done(board, f"p{number}", number)
    claim = board.claim_task("x")
    assert claim.task.id == "join"
    assert [found.result for found in claim.dependencies] == list(range(1000))


def test_a_fan_out_of_a_thousand_is_set_free_at_once(board):
    """And doomed at once, the other half."""
    board.create_task("P", id="p")
    create(board, [{"title": "T", "depends_on": [f"p:{'completed' if n % 2 else 'failed'}"]} for n in range(1000)])
    done(board, "p")
    counts = board.status().counts
    assert (counts["pending"], counts["cancelled"], counts["completed"]) == (500, 500, 1)


def test_a_thousand_tasks_behind_one_path_are_one_row_to_a_claim(board):
    """They are parked once, and all of them are done in the end."""
    board.create_task("Holder", id="holder", writes=["src/**"])
    create(board, [{"title": "T", "writes": ["src/a"]} for _ in range(500)])
    create(board, [{"title": "T", "writes": [f"src/{n}"]} for n in range(500)])
    holder = claimed(board, "holder")
    assert board.claim_task("x").reason == "paths_held"
    holder.complete()
    count = 0
    while claim := board.claim_task("x"):
        claim.complete()
        count += 1
    assert count == 1000


def test_the_checks_of_a_big_board_find_nothing(board):
    """On five thousand tasks in a binary tree, half of them done."""
    create(board, [{"title": "T", "id": f"t{n}", "depends_on": [f"t{(n - 1) // 2}"] if n else []} for n in range(5000)])
    for _ in range(500):
        board.claim_task("x").complete()
    assert violations(board) == {}
