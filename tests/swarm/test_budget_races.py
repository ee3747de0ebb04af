"""Many agents and one budget: what it covers is handed out and no more, in whatever order they come."""

import itertools
import random
import shutil
import threading

import pytest

from tests.support.boards import claimed, open_board, rows, violations
from tests.support.clock import TurnableClock
from tests.support.interleave import Party, outcome
from tests.support.patience import PATIENCE_SEC
from tests.support.processes import barrier, results
from tests.support.scene import everything, hasty

AGENTS = 20
COVERED = 5
SHARE = "0.2"
SCOPES = [{}, {"plan": "default"}, {"period": "day"}]


def stage(board, scope):
    """A task for everybody, a budget for five of them."""
    hasty(board).create_tasks([{"title": "t", "estimate_usd": SHARE}] * AGENTS)
    board.budgets.set(usd="1.00", **scope)


def work(board, agent, chance):
    """What an agent does, a call at each step: claim, tell its usage in parts, end somehow; whether it got a task."""
    claim = board.claim_task(agent)
    yield bool(claim)
    if not claim:
        assert claim.reason == "budget"
        return
    for part in ("0.05", "0.15") if chance.random() < 0.5 else (SHARE,):
        board.ledger.record(lease=claim, cost_usd=part, request_id=part)
        yield None
    if chance.random() < 0.5:
        chance.choice([claim.complete, lambda: claim.fail("x"), claim.release])()
        yield None


@pytest.mark.parametrize("seed", range(50))
def test_in_any_order_of_calls_as_many_get_a_task_as_a_budget_covers(board, seed):
    """Twenty agents, each somewhere between its claim and its end; spend takes the place of what was reserved."""
    chance = random.Random(seed)
    stage(board, SCOPES[seed % len(SCOPES)])
    agents, got = [work(board, f"agent-{number}", chance) for number in range(AGENTS)], 0
    while agents:
        agent = chance.choice(agents)
        try:
            got += next(agent) is True
        except StopIteration:
            agents.remove(agent)
    assert got == COVERED
    assert board.budgets.list()[0].spent_pusd == 10**12


@pytest.mark.parametrize("scope", SCOPES)
def test_twenty_threads_at_once_get_as_many_as_a_budget_covers(board, scope):
    """On one board object, let go at the same instant."""
    stage(board, scope)
    start, got = threading.Barrier(AGENTS), []

    def run(number):
        start.wait(PATIENCE_SEC)
        got.extend(work(board, f"agent-{number}", random.Random(number)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(AGENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SEC)
    assert (got.count(True), got.count(False)) == (COVERED, AGENTS - COVERED)


def _work_until_refused(line, path, start, number):
    """One process: work for as long as there is something."""
    with hasty(open_board(path, TurnableClock(), seed=number)) as board:
        start.wait()
        got = 0
        while claim := board.claim_task(f"agent-{number}"):
            got += 1
            board.ledger.record(lease=claim, cost_usd=SHARE)
            claim.complete()
        line.send((got, claim.reason))


@pytest.mark.multiproc
@pytest.mark.parametrize("scope", SCOPES)
def test_eight_processes_spend_a_budget_to_the_last_cent_and_no_further(board_path, clock, scope):
    """Each claims, spends and completes as fast as it can, until it is told that the budget is used up."""
    with open_board(board_path, clock, seed=99) as board:
        stage(board, scope)
        answers = results(8, _work_until_refused, board_path, barrier(8))
        assert sum(got for got, _ in answers) == COVERED
        assert {reason for _, reason in answers} == {"budget"}
        budget = board.budgets.get(**scope)
        assert (budget.spent_pusd, budget.reserved_pusd, budget.over_pusd) == (10**12, 0, None)
        assert violations(board) == {}


def _set_and_claim(line, path, start, number):
    """One sets the first budget of a board on which all others are claiming."""
    with hasty(open_board(path, TurnableClock(), seed=number)) as board:
        start.wait()
        if number == 0:
            line.send(board.budgets.set(usd="1.00").reserved_pusd)
        else:
            line.send([bool(board.claim_task(f"agent-{number}")) for _ in range(5)])


@pytest.mark.multiproc
def test_the_first_budget_of_a_board_counts_whoever_was_faster(board_path, clock):
    """It comes into a crowd of claims: those before it are reserved in it, those after it fit under it."""
    with open_board(board_path, clock, seed=99) as board:
        hasty(board).create_tasks([{"title": "t", "estimate_usd": SHARE}] * 40)
        before, *answers = results(8, _set_and_claim, board_path, barrier(8))
        [(reserved,)] = rows(board, "SELECT SUM(reserved_pusd) FROM attempt WHERE outcome IS NULL")
        assert board.budgets.get().reserved_pusd == reserved == sum(map(sum, answers)) * 2 * 10**11
        assert reserved <= max(before, 10**12)
        assert violations(board) == {}


ACTS = {
    "claim": lambda board, _: board.claim_task("x"),
    "claim of another": lambda board, _: board.claim_task("y"),
    "claim by name": lambda board, _: board.claim_task("z", task_id="b"),
    "usage": lambda board, lease: board.ledger.record(lease=lease, cost_usd="0.3", request_id="r"),
    "usage over the estimate": lambda board, lease: board.ledger.record(lease=lease, cost_usd="0.9"),
    "complete": lambda board, lease: board.complete_task(lease),
    "cancel": lambda board, _: board.cancel_task("a"),
    "lower": lambda board, _: board.budgets.set(usd="0.7"),
    "raise": lambda board, _: board.budgets.set(usd=9),
    "first budget of a plan": lambda board, _: board.budgets.set(plan="default", usd="0.8"),
    "clear": lambda board, _: board.budgets.clear(),
    "estimate": lambda board, _: board.update_task("b", estimate_usd="0.1"),
}


@pytest.fixture(scope="module")
def narrow(tmp_path_factory):
    """A closed board whose budget has room for one more task; its place, and the lease of who works on it."""
    path = tmp_path_factory.mktemp("narrow") / "board.db"
    with open_board(path, TurnableClock()) as board:
        board.create_tasks([{"title": "t", "id": name, "estimate_usd": "0.5"} for name in "abc"])
        board.budgets.set(usd="1.00")
        return path, claimed(board, "a", "ann").lease


def played(narrow, path, first, second, *, at_once):
    """Two calls on a copy, the second under way while the first is made, or after it; what is left on the board."""
    shutil.copyfile(narrow[0], path)
    party, lease = Party(), narrow[1]
    late = open_board(path, TurnableClock(), seed=1, probe=party if at_once else None)
    with hasty(late), hasty(open_board(path, TurnableClock(), seed=2)) as board:
        if at_once:
            party.start(lambda: ACTS[second](late, lease))
        answers = [outcome(lambda: ACTS[first](board, lease))]
        answers.append(party.finish() if at_once else outcome(lambda: ACTS[second](late, lease)))
        assert violations(board) == {}
        return [type(answer) for answer in answers], everything(board)


@pytest.mark.parametrize("first", ACTS)
def test_a_call_that_waited_for_its_turn_finds_the_budget_as_it_then_is(narrow, tmp_path, first):
    """All pairs, at the edge of what the budget covers: as if one had been made after the other."""
    places = (tmp_path / f"{number}.db" for number in itertools.count())
    for second in ACTS:
        at_once = played(narrow, next(places), first, second, at_once=True)
        assert at_once == played(narrow, next(places), first, second, at_once=False), second
