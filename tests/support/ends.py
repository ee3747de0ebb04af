"""Every way in which an attempt ends, brought about on a test's board."""

from tests.support.boards import claimed


def _let_run_out(board):
    """Turn the clock past the end of every lease of the usual length."""
    board.store.clock.advance(61)


def _reclaim(board, _claim):
    _let_run_out(board)
    assert board.reclaim_zombies()


def _lose(board, claim):
    _let_run_out(board)
    claimed(board, claim.task.id, "next").release()


ENDS = {
    "completed": lambda _, claim: claim.complete(),
    "released": lambda _, claim: claim.release(),
    "split": lambda _, claim: claim.split([{"title": "part"}]),
    "failed": lambda _, claim: claim.fail("x"),
    "failed for good": lambda _, claim: claim.fail("x", retry=False),
    "failed for want of quota": lambda _, claim: claim.fail("x", kind="quota"),
    "cancelled": lambda board, claim: board.cancel_task(claim.task.id),
    "cancelled with its plan": lambda board, claim: board.cancel_plan(claim.task.plan),
    "reclaimed": _reclaim,
    "reclaimed by a claim": _lose,
}
"""How an attempt ends -> what brings it about, given the board and the claim."""

IN_VAIN = frozenset(ENDS) - {"completed", "released", "split"}
"""The ends that make waste of what the attempt used."""
