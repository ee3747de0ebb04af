"""Pruning: what ended long ago goes, its id and its end stay known, and no sum changes."""

import random
from dataclasses import replace
from functools import partial

import pytest

from agentmesh import Board
from agentmesh.board import blackboard, operations, prune, tasks
from agentmesh.board.specs import read_spec
from agentmesh.errors import CursorExpired, InvalidArgument, NotFound, Pruned, StoreError
from agentmesh.model import CONDITIONS, PruneReport
from tests.support.boards import (
    ENDS,
    buried,
    claimed,
    done,
    ended,
    event_count,
    open_board,
    put,
    rows,
    states,
    violations,
)
from tests.support.faults import Intruder, Raiser
from tests.support.interleave import outcome
from tests.support.scene import everything


def spend(board, claim, scale=1, *, model="m", usd="0.01"):
    """Report what an attempt has used so far."""
    tokens = {"input_tokens": scale, "cached_input_tokens": 2, "cache_write_tokens": 3, "output_tokens": 4 * scale}
    board.ledger.record(lease=claim, model=model, **tokens, duration_ms=5, cost_usd=usd)


def reports(board):
    """All that the ledger says: by plan, agent, model and day, times held included."""
    found = [board.ledger.report(by, attempts=True) for by in ("plan", "agent", "model", "day")]
    lines = [line for report in found for line in (*report.lines, report.total)]
    return {(line.plan, line.agent_id, line.model, line.day): replace(line, unreported=None) for line in lines}


# What goes, and what stays.


def test_final_tasks_that_are_old_enough_go(board, clock):
    """Whatever their end; the younger ones and the open ones stay."""
    put(board, *ENDS, "young", "open", "held")
    for how in ENDS:
        ended(board, how, how)
    clock.advance(60)
    done(board, "young")
    claimed(board, "held")
    report = board.prune(older_than_sec=60)
    assert (report.tasks, report.plans, report.dry_run) == (3, {"default": 3}, False)
    assert states(board) == {"young": "completed", "open": "pending", "held": "in_progress"}


def test_a_task_that_an_open_one_waits_for_stays(board):
    """Its result is still wanted; it goes when the last child has ended."""
    put(board, "a", "b: a", "c: a")
    done(board, "a", {"wanted": True})
    done(board, "b")
    assert board.prune(older_than_sec=0).tasks == 1
    assert claimed(board, "c").dependencies[0].result == {"wanted": True}
    board.cancel_task("c")
    assert board.prune(older_than_sec=0).tasks == 2
    assert states(board) == {}


def test_nothing_of_a_pruned_task_is_left_but_its_tombstone(board, clock):
    """No text, tag, edge, attempt, note, release or budget, and no pool that only it stood in."""
    board.create_task("A", id="a", description="d", payload=[1], tags=["t"], writes=["w"])
    put(board, "child: a")
    board.budgets.set(task_id="a", usd=1)
    claimed(board, "a").release()
    claim = claimed(board, "a", "other")
    claim.note("n")
    spend(board, claim)
    board.cancel_task("a")
    assert board.prune(older_than_sec=0).tasks == 2
    left = {table for table, found in everything(board).items() if found}
    assert left == {"meta", "plan", "tally", "requirement", "event", "usage_total", "usage_pruned", "task_tombstone"}
    tombstones = [("a", "cancelled", 2, clock.now_us()), ("child", "cancelled", 0, clock.now_us())]
    assert rows(board, "SELECT id, state, fence, pruned_us FROM task_tombstone ORDER BY id") == tombstones


def test_a_result_goes_with_its_task(board):
    """And with the task that got another one after it was reopened."""
    put(board, "a")
    done(board, "a", {"n": 1})
    board.reopen_task("a")
    done(board, "a", {"n": 2})
    assert board.prune(older_than_sec=0).tasks == 1
    assert rows(board, "SELECT * FROM result") == []


def test_a_child_that_stays_has_one_parent_less(board, clock):
    """It has ended, so nothing changes for it but that its parent cannot be shown any more."""
    put(board, "a", "b", "c: a b")
    done(board, "a")
    clock.advance(60)
    done(board, "b")
    done(board, "c")
    assert board.prune(older_than_sec=60).tasks == 1
    assert [edge.id for edge in board.get_task("c").depends_on] == ["b"]
    assert board.edges() == [("c", "b", "completed")]


def test_a_pool_stays_while_a_task_stands_in_it(board):
    """The last one takes it along; a task with the same paths then makes it anew."""
    put(board, "a", "b", writes=["src/**"])
    done(board, "a")
    board.prune(older_than_sec=0)
    done(board, "b")
    assert len(rows(board, "SELECT pk FROM pool")) == 1
    board.prune(older_than_sec=0)
    assert rows(board, "SELECT pk FROM pool") == []
    put(board, "c", writes=["src/**"])
    assert claimed(board, "c").task.writes == ("src/**",)


def test_the_counts_are_of_what_is_there(board):
    """A board from which all was pruned is empty, and whoever claims is told to stop."""
    put(board, "a", "b")
    done(board, "a")
    board.prune(older_than_sec=0)
    assert (board.status().total, board.status().counts["completed"]) == (1, 0)
    board.cancel_task("b")
    board.prune(older_than_sec=0)
    assert (board.status().total, board.claim_task("w").reason, board.claim_task("w").advice) == (0, "empty", "stop")


def test_only_the_named_plan_is_pruned(board):
    """A plan that is not there is an error."""
    for plan in ("one", "two"):
        put(board, f"{plan}-a", f"{plan}-b", plan=plan)
        board.cancel_plan(plan)
    assert board.prune(plan="one", older_than_sec=0).plans == {"one": 2}
    assert set(states(board)) == {"two-a", "two-b"}
    with pytest.raises(NotFound):
        board.prune(plan="three", older_than_sec=0)


@pytest.mark.parametrize("sec", [-1, 1e12, float("nan"), "1", True])
def test_an_age_is_a_number_of_seconds_within_bounds(board, sec):
    """Nothing is pruned by mistake."""
    buried(board)
    for field in ("older_than_sec", "events_older_than_sec"):
        with pytest.raises(InvalidArgument, match=field):
            board.prune(**{field: sec})


# Retention.


def plan_of(board, name, **terms):
    """A plan of one task, which is cancelled."""
    board.apply_plan({"plan": name, "tasks": [{"id": f"{name}-1", "title": "t"}], **terms})
    board.cancel_plan(name)


def test_without_an_age_each_plan_keeps_its_tasks_as_long_as_it_says(board, clock):
    """A plan that says nothing keeps them for ever."""
    plan_of(board, "short", retention_sec=60)
    plan_of(board, "long", retention_sec=3600)
    plan_of(board, "mute")
    for sec, gone in ((59, {}), (1, {"short": 1}), (3540, {"long": 1}), (10**6, {})):
        clock.advance(sec)
        assert board.prune().plans == gone
    assert set(states(board)) == {"mute-1"}


def test_an_age_counts_more_than_what_plans_say(board, clock):
    """Whoever names one means it, in both directions."""
    plan_of(board, "short", retention_sec=60)
    plan_of(board, "long", retention_sec=3600)
    clock.advance(100)
    assert board.prune(older_than_sec=200).tasks == 0
    assert board.prune(older_than_sec=100).tasks == 2


def test_a_retention_is_shown_and_does_not_change(board):
    """As the workspace: it is said when the plan is new."""
    plan_of(board, "p", retention_sec=86_400)
    assert board.status().plans[0].retention_us == 86_400_000_000
    plan_of(board, "p")
    plan_of(board, "p", retention_sec=86_400)
    plan_of(board, "none")
    for name in ("p", "none"):
        with pytest.raises(InvalidArgument, match="retention_sec"):
            plan_of(board, name, retention_sec=60)


# The ledger.


def test_usage_is_summed_up_and_no_report_changes(board, clock):
    """Entries of all attempts and of none, by model and day; those of attempts that ended in vain are waste."""
    put(board, "a", "b", lease_timeout_sec=60)
    for scale, how in ((7, "fail"), (100, "release"), (2, "lapse")):
        claim = claimed(board, "a", "first")
        clock.advance(40_000)
        spend(board, claim, scale)
        {"fail": partial(claim.fail, "x"), "release": claim.release, "lapse": board.reclaim_zombies}[how]()
        clock.advance(700)
    claim = claimed(board, "a", "second")
    spend(board, claim, model="other", usd=None)
    claim.complete()
    board.ledger.record("somebody", task_id="a", duration_ms=1)
    spend(board, claimed(board, "b", "second"), 3)
    before = reports(board)
    board.prune(older_than_sec=0)
    assert reports(board) == before
    total = board.ledger.report().total
    assert (total.entries, total.unpriced, total.wasted_tokens, total.wasted_us) == (6, 1, 55, 10_000)
    assert [entry.task_id for entry in board.ledger.entries().entries] == ["b"]
    assert [(line.task_id, line.entries) for line in board.ledger.report("task").lines] == [(None, 5), ("b", 1)]


def test_sums_of_several_prunes_add_up(board, clock):
    """One row for each plan, agent, model and day, however many tasks and prunes it stems from."""
    for number in range(3):
        put(board, f"t{number}")
        claim = claimed(board, f"t{number}")
        clock.advance(10)
        spend(board, claim)
        claim.complete()
        board.prune(older_than_sec=0)
    columns = "model, entries, input_tokens, output_tokens, duration_us, cost_pusd, attempts, held_us"
    assert rows(board, f"SELECT {columns} FROM usage_pruned ORDER BY model") == [
        ("", 0, 0, 0, 0, 0, 3, 30_000_000),
        ("m", 3, 3, 12, 15_000, 30_000_000_000, 0, 0),
    ]


def test_only_the_budgets_of_pruned_tasks_go(board):
    """All others stay, and what was spent under them counts on."""
    put(board, "a", "b")
    for scope in ({"task_id": "a"}, {"task_id": "b"}, {"plan": "default"}, {"agent": "worker"}, {}):
        board.budgets.set(**scope, usd=1)
    claim = claimed(board, "a")
    spend(board, claim)
    claim.complete()
    before = board.budgets.list()
    board.prune(older_than_sec=0)
    assert board.budgets.list() == [budget for budget in before if budget.name != "a"]


def test_what_arrives_for_a_pruned_task_is_booked_on_its_plan(board):
    """The money was spent; only a lease on it proves nothing any more."""
    lease = buried(board)
    board.budgets.set(plan="default", usd=1)
    late = board.ledger.record("worker", task_id="a", model="m", cost_usd="0.25", request_id="r")
    assert (late.entry.plan, late.entry.task_id, late.budgets[0].left_pusd) == ("default", None, 75 * 10**10)
    assert board.ledger.record("worker", task_id="a", model="m", cost_usd="0.25", request_id="r") == late
    assert board.ledger.report(plan="default").total.cost_pusd == 25 * 10**10
    with pytest.raises(Pruned):
        board.ledger.record(lease=lease, cost_usd=1)


def test_the_number_of_a_pruned_entry_is_not_given_again(board):
    """A reader who goes on from it misses nothing, and a repeated report does not answer with another entry."""
    put(board, "a")
    report = {"task_id": "a", "cost_usd": 1, "request_id": "r"}
    first = board.ledger.record("worker", **report).entry.id
    board.cancel_task("a")
    board.prune(older_than_sec=0)
    assert board.ledger.record("other", cost_usd=2).entry.id > first
    with pytest.raises(NotFound, match="usage entry"):
        board.ledger.record("worker", **report)


# The history, and entries that are gone.


def test_the_history_is_cut_from_its_beginning_on(board, clock):
    """Events before the age go; a reader further back is told, a reader at the end goes on."""
    put(board, "a", "b", "c")
    clock.advance(60)
    put(board, "d")
    report = board.prune(older_than_sec=60)
    assert report.events == 3
    assert [(event.kind, event.data) for event in board.events(3)] == [
        ("task_created", board.events(3)[0].data),
        ("pruned", {"events": 3}),
    ]
    for after in (0, 2):
        with pytest.raises(CursorExpired):
            board.events(after)


def test_the_newest_event_stays_and_the_next_is_numbered_after_it(board, clock):
    """However old it is: a number never stands for two events."""
    put(board, "a", "b")
    clock.advance(10**6)
    assert board.prune(older_than_sec=0).events == 1
    assert [event.seq for event in board.events(1)] == [2, 3]
    assert board.prune(older_than_sec=0).events == 1
    put(board, "c")
    assert [event.seq for event in board.events(2)] == [3, 4, 5]


def test_a_clock_that_was_set_back_makes_no_gap(board, clock):
    """What is old behind something young stays until that goes."""
    put(board, "old")
    clock.advance(100)
    put(board, "young")
    clock.advance(-100)
    put(board, "old-again", "newest")
    clock.advance(100)
    assert board.prune(older_than_sec=50).events == 1
    assert [event.seq for event in board.events(1)] == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("how", "events"),
    [
        ({}, 0),
        ({"plan": "default", "older_than_sec": 10}, 0),
        ({"older_than_sec": 10}, 2),
        ({"older_than_sec": 0, "events_older_than_sec": 10}, 2),
        ({"older_than_sec": 0, "events_older_than_sec": 11}, 0),
        ({"plan": "default", "events_older_than_sec": 10}, 2),
        ({"events_older_than_sec": 10}, 2),
    ],
)
def test_what_belongs_to_no_plan_goes_by_an_age_for_the_whole_board(board, clock, how, events):
    """The retention of one plan does not cut the history of the others."""
    put(board, "a", "b")
    board.apply_plan({"plan": "p", "retention_sec": 0, "tasks": []})
    clock.advance(10)
    put(board, "c")
    assert board.prune(**how).events == events


def test_an_entry_that_has_been_gone_for_long_is_forgotten(board, clock):
    """Its version begins anew; one that came back, or went lately, counts on."""
    bb = board.blackboard
    for key in ("gone", "back", "lately", "expired"):
        bb.put("n", key, 1, ttl_sec=1 if key == "expired" else None)
    bb.delete("n", "gone")
    bb.delete("n", "back")
    bb.put("n", "back", 2)
    clock.advance(60)
    bb.delete("n", "lately")
    assert board.prune(older_than_sec=60).entry_tombstones == 1
    assert [bb.put("n", key, 3).version for key in ("gone", "back", "lately", "expired")] == [1, 3, 2, 2]


# How it goes about it.


def test_a_dry_run_says_what_would_go_and_changes_nothing(board, clock):
    """To the row; the prune that follows takes away exactly that."""
    put(board, "a", "b: a", "c", plan="p")
    put(board, "d", "needed")
    put(board, "needs: needed")
    board.cancel_plan("p")
    done(board, "needed")
    board.blackboard.put("n", "k", 1)
    board.blackboard.delete("n", "k")
    clock.advance(10)
    put(board, "e")
    before = everything(board)
    asked = board.prune(older_than_sec=10, dry_run=True)
    assert everything(board) == before
    assert asked == PruneReport(3, {"p": 3}, 13, 1, dry_run=True)
    assert board.prune(older_than_sec=10) == PruneReport(3, {"p": 3}, 13, 1)


def test_a_prune_that_finds_nothing_leaves_no_trace(board):
    """No event, so that one may run it every hour."""
    put(board, "a")
    before = everything(board)
    assert board.prune() == board.prune(older_than_sec=60) == PruneReport(0, {}, 0, 0)
    assert everything(board) == before


def test_each_batch_tells_the_history_who_pruned_how_much(board, monkeypatch):
    """A batch is a transaction of its own, so that others get their turn in between."""
    for limit_, most in (("TASKS_AT_ONCE", 2), ("EVENTS_AT_ONCE", 4), ("ENTRIES_AT_ONCE", 1)):
        monkeypatch.setattr(prune, limit_, most)
    put(board, *"abcde")
    board.cancel_plan("default")
    for key in "xy":
        board.blackboard.put("n", key, 1)
        board.blackboard.delete("n", key)
    before = event_count(board)
    assert board.prune(older_than_sec=0, agent_id="janitor") == PruneReport(5, {"default": 5}, 13, 2)
    told = [(event.kind, event.agent_id, event.data) for event in board.events(before)]
    data = [{"tasks": 2}, {"tasks": 2}, {"tasks": 1}, {"events": 4}, {"events": 4}, {"events": 4}, {"events": 1}]
    data += [{"entry_tombstones": 1}] * 2
    assert told == [("pruned", "janitor", one) for one in data]


def test_a_prune_that_fails_midway_has_pruned_whole_batches(board_path, clock, monkeypatch):
    """What was committed is gone, the rest is as it was, and the next prune goes on."""
    monkeypatch.setattr(prune, "TASKS_AT_ONCE", 2)
    probe = Raiser("do:drop_task", StoreError("injected"), n=4)
    with open_board(board_path, clock, probe=probe) as board:
        put(board, *"abcde")
        board.cancel_plan("default")
        with pytest.raises(StoreError, match="injected"):
            board.prune(older_than_sec=0)
        assert set(states(board)) == set("cde")
        assert violations(board) == {}
        assert board.prune(older_than_sec=0).tasks == 3


def _end_otherwise(change):
    operations.reopen(change, "a", "intruder", cascade=False)
    operations.cancel_task(change, "a", None, "intruder")


INTRUDERS = {
    "reopens it": lambda change: operations.reopen(change, "a", "intruder", cascade=False),
    "ends it otherwise": _end_otherwise,
    "waits for it": lambda change: tasks.insert(
        change, [read_spec({"title": "t", "id": "late", "depends_on": ["a"]})], "intruder"
    ),
}


@pytest.mark.parametrize("intruder", INTRUDERS)
def test_a_task_that_is_wanted_again_after_it_was_found_stays(board, intruder):
    """It is looked at once more when it is taken; the others go."""
    put(board, "a", "b")
    done(board, "a", {"n": 1})
    done(board, "b")
    came = Intruder(board.store, "kin_of", INTRUDERS[intruder])
    assert Board(came).prune(older_than_sec=0).tasks == 1
    assert came.came
    assert "a" in states(board)
    assert "b" not in states(board)


def test_an_entry_that_comes_back_before_it_is_forgotten_counts_on(board):
    """Its tombstone was found, and is none any more when it is taken."""
    bb = board.blackboard
    for key in "xy":
        bb.put("n", key, 1)
        bb.delete("n", key)

    def put_again(change):
        place = blackboard.Place("n", "y")
        found = blackboard.find(change, place)
        blackboard.write(change, place, found, blackboard.Author("x"), blackboard.Content("2"), expires_us=None)

    assert Board(Intruder(board.store, "forget_entry", put_again)).prune(older_than_sec=0).entry_tombstones == 1
    assert [bb.put("n", key, 3).version for key in "xy"] == [1, 3]


def test_whoever_waits_for_a_task_that_is_pruned_under_its_hands_still_learns_how_it_ended(board):
    """It is created as if the parent had been pruned before (on an engine where others write meanwhile)."""
    put(board, "a", "z")
    ended(board, "a", "failed")

    def act(change):
        found = prune.find_tasks(change.tx, prune.horizon(change.tx, None, 0, None), None)
        prune.take_tasks(change, found, "intruder")

    came = Intruder(board.store, "id_taken", act)
    victim = Board(came)
    assert victim.create_task("t", id="b", depends_on=["a", "z"]).state == "cancelled"
    assert came.came


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_pruned_the_board_stays_sound(board, clock, seed):
    """Random graphs with random ends, pruned again and again: every promise holds and no sum changes."""
    chance = random.Random(seed)
    known = []
    for number in range(40):
        name, parents = f"t{number}", chance.sample(known, min(len(known), chance.randrange(4)))
        lines = " ".join(f"{parent}:{chance.choice(CONDITIONS)}" for parent in parents)
        fields = {"writes": [f"p{number % 3}"]} if number % 2 else {}
        put(board, f"{name}: {lines}", plan=chance.choice("xy") if known else "x", **fields)
        known.append(name)
        clock.advance(chance.randrange(30))
        for _ in range(chance.randrange(4)):
            _live(board, chance)
        if chance.random() < 0.3:
            before = reports(board)
            board.prune(older_than_sec=chance.choice([0, 20, 60]), plan=chance.choice([None, "x"]))
            assert reports(board) == before
            assert violations(board) == {}
    there = set(states(board))
    assert there | {name for (name,) in rows(board, "SELECT id FROM task_tombstone")} == set(known)
    assert len(there) < len(known)


def _live(board, chance):
    """One thing that happens to a board."""
    claim = board.claim_task(chance.choice(["ann", "bob"]))
    names = sorted(states(board))
    if not claim or chance.random() < 0.1:
        outcome(lambda: chance.choice([board.cancel_task, board.reopen_task])(chance.choice(names)))
    if claim:
        spend(board, claim, usd=chance.choice([None, "0.5"]))
        fail = lambda: claim.fail("x", retry=chance.random() < 0.3)  # noqa: E731 - one of three
        outcome(chance.choice([claim.complete, claim.complete, fail, claim.release]))
