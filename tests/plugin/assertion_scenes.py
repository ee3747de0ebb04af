"""Scripted boards on which an assertion fails: each scene returns the call whose message is a golden file."""

import re

from agentmesh.errors import AgentMeshError
from pytest_agentmesh.assertions import (
    assert_all_completed,
    assert_all_final,
    assert_attempts,
    assert_blocked,
    assert_budget_left,
    assert_claimed,
    assert_completed,
    assert_entry,
    assert_failed,
    assert_handed_over,
    assert_lease,
    assert_never_ran,
    assert_no_entry,
    assert_not_together,
    assert_ran_in_order,
    assert_ready,
    assert_result,
    assert_spent,
    assert_state,
    assert_unclaimed,
    assert_wasted,
    assert_within,
)
from tests.support.boards import claimed, damage, done, put

SCENES = {}


def scene(function):
    """Give a scene the name of its golden file."""
    SCENES[function.__name__] = function
    return function


def diamond(board, clock):
    """`plan`, then `a` and `b`, then `merge`: plan and a are done, c works on b."""
    put(board, "plan", "a: plan", "b: plan", "merge: a b")
    clock.advance(1)
    done(board, "plan")
    clock.advance(10)
    done(board, "a")
    clock.advance(4)
    return claimed(board, "b", "coder-2")


def relay(board, clock):
    """`t1` went from coder-1, whose lease ran out, to coder-2, who failed it; it waits to be tried again."""
    put(board, "t1", max_attempts=3)
    claimed(board, "t1", "coder-1")
    clock.advance(75)
    claimed(board, "t1", "coder-2").fail("ImportError: no module named 'shop'\n  in checkout.py")


def spending(board, clock):
    """coder-1 reported a call twice, since the reply to the first report was lost."""
    put(board, "t1", "t2")
    first, second = claimed(board, "t1", "a"), claimed(board, "t2", "b")
    clock.advance(12)
    for cost in ("0.27", "0.03", "0.03"):
        board.ledger.record(lease=first, model="o-model", input_tokens=1_200, output_tokens=600, cost_usd=cost)
        clock.advance(1)
    board.ledger.record(lease=second, model="o-model", input_tokens=4_000, output_tokens=800, cost_usd="0.12")


@scene
def state(board, clock):
    """Several tasks are not where they should be, each for a reason of its own."""
    diamond(board, clock)
    return lambda: assert_state(
        board, {"plan": "completed", "a": "completed", "b": "completed", "merge": "in_progress"}
    )


@scene
def state_only(board):
    """There is a task that nobody expected, and one that was expected is spelt otherwise."""
    put(board, "migrate", "publish: migrate")
    return lambda: assert_state(board, {"migrate": "pending", "pubish": "blocked"}, only=True)


@scene
def state_of_every_kind(board, clock):
    """One task in each state, all expected to be something else."""
    put(board, "done", "held", "ready", "waits: held", "lost", "broken", "doomed: broken", "given-up", "retried")
    done(board, "done")
    board.create_task("Not yet", id="later", not_before="2026-01-01T02:00:00Z")
    claimed(board, "broken").fail("Traceback: KeyError 'id'", retry=False)
    board.cancel_task("given-up", reason="the customer changed their mind")
    claimed(board, "lost", "coder-9")
    clock.advance(61)
    claimed(board, "held", "coder-1")
    claimed(board, "retried", "coder-2").fail("429 from the vendor", kind="quota")
    names = ["done", "held", "ready", "waits", "lost", "broken", "doomed", "given-up", "retried", "later"]
    return lambda: assert_state(board, dict.fromkeys(names, "completed") | {"done": "pending"})


@scene
def completed(board, clock):
    """A task that should be done was lost by its agent and waits for another."""
    put(board, "t1", "t2")
    done(board, "t1")
    claimed(board, "t2", "coder-1")
    clock.advance(90)
    board.reclaim_zombies()
    return lambda: assert_completed(board, "t1", "t2")


@scene
def completed_one(board):
    """The one task has failed; its title is hostile, and so is its error."""
    title = "Refactor \x1b[31mauth\u202e module"
    task = board.create_task(title)
    claimed(board, task.id, "coder-1").fail("boom\x1b[2J\nsecond line", retry=False)
    return lambda: assert_completed(board, task.id)


@scene
def completed_titles(board):
    """Ids that the board made up tell nothing, so titles stand beside them."""
    first = board.create_task("Write the migration")
    second = board.create_task('Review it, then say "done"', depends_on=[first.id])
    return lambda: assert_completed(board, first.id, second.id)


@scene
def all_completed(board, clock):
    """Half a plan is done."""
    diamond(board, clock)
    return lambda: assert_all_completed(board)


@scene
def all_completed_no_plan(board):
    """The plan is spelt otherwise."""
    put(board, "a", plan="checkout")
    return lambda: assert_all_completed(board, plan="chekout")


@scene
def all_completed_empty(board):
    """There is nothing on the board."""
    return lambda: assert_all_completed(board)


@scene
def all_final(board):
    """A hundred tasks are open still: some are shown, the rest are counted."""
    put(board, *(f"t{n:03}" for n in range(100)))
    done(board, "t000")
    return lambda: assert_all_final(board)


@scene
def ready(board, clock):
    """The task waits for its retry."""
    relay(board, clock)
    return lambda: assert_ready(board, "t1")


@scene
def blocked(board, clock):
    """It is blocked by something else than expected."""
    diamond(board, clock)
    return lambda: assert_blocked(board, "merge", by={"a"})


@scene
def blocked_not(board, clock):
    """It is not blocked at all any more."""
    diamond(board, clock).complete()
    return lambda: assert_blocked(board, "merge", by={"a", "b"})


@scene
def blocked_stranger(board):
    """What is expected to block it is nothing it depends on."""
    put(board, "a", "b: a", "c")
    board.create_task("Clean up", id="d", depends_on=[{"id": "b", "condition": "finished"}])
    return lambda: assert_blocked(board, "d", by={"b", "c"})


@scene
def unknown_task(board, clock):
    """The test means another task."""
    diamond(board, clock)
    return lambda: assert_completed(board, "mrege")


@scene
def pruned_task(board):
    """The task was there once."""
    put(board, "a")
    done(board, "a")
    board.prune(older_than_sec=0)
    return lambda: assert_completed(board, "a")


@scene
def ran_in_order(board, clock):
    """Somebody forgot an edge."""
    put(board, "plan", "b: plan", "merge: plan")
    done(board, "plan")
    clock.advance(15)
    held = claimed(board, "b", "coder-2")
    clock.advance(46)
    merging = claimed(board, "merge", "coder-3")
    held.heartbeat()
    clock.advance(13)
    held.complete()
    merging.complete()
    return lambda: assert_ran_in_order(board, "plan", "b", "merge")


@scene
def ran_in_order_idle(board, clock):
    """One of them never ran."""
    diamond(board, clock)
    return lambda: assert_ran_in_order(board, "plan", "a", "merge")


@scene
def ran_in_order_reopened(board, clock):
    """The first was done again after the second."""
    put(board, "a", "b: a")
    done(board, "a")
    clock.advance(5)
    done(board, "b")
    clock.advance(5)
    board.reopen_task("a")
    clock.advance(5)
    claimed(board, "a", "coder-2")
    return lambda: assert_ran_in_order(board, "a", "b")


@scene
def ran_in_order_by_edges(board, clock):
    """A hand-out did not wait for an edge, which only a damaged history can show."""
    held = diamond(board, clock)
    clock.advance(46)
    held.heartbeat()
    clock.advance(13)
    held.complete()
    claimed(board, "merge", "coder-3")
    late, early = (e for e in board.events(limit=1000) if e.kind in ("task_completed", "task_claimed") and e.seq > 9)
    damage(board, "UPDATE event SET seq = -1 WHERE seq = :seq", seq=late.seq)
    damage(board, "UPDATE event SET seq = :to, at_us = at_us - 13000000 WHERE seq = :seq", seq=early.seq, to=late.seq)
    damage(board, "UPDATE event SET seq = :to WHERE seq = -1", to=early.seq)
    return lambda: assert_ran_in_order(board)


@scene
def ran_in_order_pruned(board, clock):
    """What happened first is no longer known."""
    diamond(board, clock)
    clock.advance(100)
    board.prune(events_older_than_sec=50)
    return lambda: assert_ran_in_order(board)


@scene
def not_together(board, clock):
    """Two tasks on the same files ran at once."""
    put(board, "docs", "code")
    writing = claimed(board, "docs", "writer")
    clock.advance(10)
    claimed(board, "code", "coder-1")
    clock.advance(20)
    writing.complete()
    return lambda: assert_not_together(board, "docs", "code")


@scene
def never_ran(board, clock):
    """A task ran that should not have."""
    relay(board, clock)
    return lambda: assert_never_ran(board, "t1")


@scene
def claimed_by_another(board, clock):
    """It was taken from the agent that should hold it."""
    put(board, "t1")
    claimed(board, "t1", "coder-1")
    clock.advance(75)
    claimed(board, "t1", "coder-2")
    return lambda: assert_claimed(board, "t1", by="coder-1")


@scene
def claimed_by_a_stranger(board):
    """The agent is spelt otherwise."""
    put(board, "t1")
    claimed(board, "t1", "coder-1")
    return lambda: assert_claimed(board, "t1", by="codr-1")


@scene
def claimed_attempt(board, clock):
    """It is another attempt than expected."""
    put(board, "t1")
    claimed(board, "t1", "coder-1").release()
    clock.advance(5)
    claimed(board, "t1", "coder-1")
    return lambda: assert_claimed(board, "t1", by="coder-1", attempt=1)


@scene
def claimed_not(board):
    """Nobody holds it: it is paused."""
    put(board, "t1")
    board.pause(reason="night")
    return lambda: assert_claimed(board, "t1")


@scene
def unclaimed(board, clock):
    """Somebody holds it, past its lease."""
    put(board, "t1")
    claimed(board, "t1", "coder-1")
    clock.advance(75)
    return lambda: assert_unclaimed(board, "t1")


@scene
def attempts(board, clock):
    """They ended otherwise."""
    relay(board, clock)
    return lambda: assert_attempts(board, "t1", ["reclaimed", "completed"])


@scene
def attempts_by(board, clock):
    """They were made by others, and there were fewer."""
    relay(board, clock)
    return lambda: assert_attempts(board, "t1", ["reclaimed", "failed", "open"], by=["coder-1", "coder-1", "coder-2"])


@scene
def handed_over(board, clock):
    """It went to another agent than expected."""
    relay(board, clock)
    return lambda: assert_handed_over(board, "t1", from_="coder-1", to="coder-3")


@scene
def lease(board, clock):
    """It was renewed later than expected."""
    put(board, "t1")
    held = claimed(board, "t1", "coder-1")
    clock.advance(20)
    held.heartbeat()
    clock.advance(15)
    return lambda: assert_lease(board, "t1", left=25)


@scene
def lease_out(board, clock):
    """It has run out, and nobody has noticed yet."""
    put(board, "t1")
    claimed(board, "t1", "coder-1")
    clock.advance(75.5)
    return lambda: assert_lease(board, "t1", at_least="1s")


@scene
def lease_none(board):
    """Nobody holds the task."""
    put(board, "t1")
    done(board, "t1")
    return lambda: assert_lease(board, "t1", at_most=60)


@scene
def failed(board, clock):
    """It will be tried again."""
    relay(board, clock)
    return lambda: assert_failed(board, "t1")


@scene
def failed_kind(board, clock):
    """It failed for another reason: nobody reported anything."""
    put(board, "t1", max_attempts=2)
    claimed(board, "t1", "coder-1").fail("x")
    clock.advance(10)
    claimed(board, "t1", "coder-1")
    clock.advance(75)
    board.reclaim_zombies()
    return lambda: assert_failed(board, "t1", kind="infra")


@scene
def failed_error(board):
    """The error says something else."""
    put(board, "t1")
    claimed(board, "t1", "coder-1").fail("ImportError: no module named 'shop'", retry=False)
    return lambda: assert_failed(board, "t1", error=re.compile(r"KeyError: '\w+'"))


@scene
def result(board):
    """The result differs deep inside."""
    put(board, "t1")
    claimed(board, "t1", "coder-1").complete({"files": [{"name": "a.py", "lines": 12}, {"name": "b.py"}], "ok": True})
    wanted = {"files": [{"name": "a.py", "lines": 14}, {"name": "b.py"}, {"name": "c.py"}], "ok": True, "notes": None}
    return lambda: assert_result(board, "t1", wanted)


@scene
def result_none(board, clock):
    """There is none yet."""
    diamond(board, clock)
    return lambda: assert_result(board, "b", {"ok": True})


@scene
def entry_value(board, clock):
    """Another agent wrote over it."""
    board.blackboard.put("patches/auth", "status", {"state": "draft"}, agent_id="coder-1")
    clock.advance(5)
    board.blackboard.put("patches/auth", "status", {"state": "ready"}, agent_id="coder-2", ttl_sec=60)
    return lambda: assert_entry(board, "patches/auth", "status", {"state": "draft"}, version=1, by="coder-1")


@scene
def entry_expired(board, clock):
    """Its time ran out."""
    put(board, "t1")
    board.blackboard.put("patches", "t1", "diff", lease=claimed(board, "t1", "coder-1"), ttl_sec=60)
    clock.advance(75)
    return lambda: assert_entry(board, "patches", "t1")


@scene
def entry_deleted(board, clock):
    """Somebody deleted it."""
    board.blackboard.put("patches", "t1", "diff", agent_id="coder-1")
    clock.advance(5)
    board.blackboard.delete("patches", "t1", agent_id="cleaner")
    return lambda: assert_entry(board, "patches", "t1", "diff")


@scene
def entry_elsewhere(board):
    """It is in another namespace."""
    board.blackboard.put("patch", "t1", "diff", agent_id="coder-1")
    return lambda: assert_entry(board, "patches", "t1", "diff")


@scene
def entry_misspelt(board):
    """It has another name."""
    board.blackboard.put("patches", "task-1", b"\x00\x01diff", agent_id="coder-1")
    return lambda: assert_entry(board, "patches", "task1", b"diff")


@scene
def no_entry(board, clock):
    """It is there for a while yet."""
    board.blackboard.put("patches", "t1", "diff", agent_id="coder-1", ttl_sec=60)
    clock.advance(45)
    return lambda: assert_no_entry(board, "patches", "t1")


@scene
def spent_twice(board, clock):
    """A call was recorded twice."""
    spending(board, clock)
    return lambda: assert_spent(board, usd=0.42, by_agent={"a": 0.30, "b": 0.12})


@scene
def spent_too_little(board):
    """Nobody knows what a model costs, and an agent reported nothing."""
    put(board, "t1", "t2")
    first = claimed(board, "t1", "coder-1")
    board.ledger.record(lease=first, model="home-made-7b", input_tokens=1_000, output_tokens=500)
    board.ledger.record(lease=first, model="o-model", input_tokens=1_000, output_tokens=500, cost_usd="0.10")
    first.complete()
    done(board, "t2")
    return lambda: assert_spent(board, usd="0.25", tokens=4_500)


@scene
def spent_by_another(board, clock):
    """The sum is right, but another task is booked."""
    spending(board, clock)
    return lambda: assert_spent(board, by_task={"t1": "0.06", "t2": "0.39"}, by_model={"o-model": "0.45"})


@scene
def spent_one_more(board, clock):
    """One entry is the whole difference."""
    spending(board, clock)
    return lambda: assert_spent(board, usd=0, agent="b")


@scene
def spent_in_vain(board, clock):
    """An attempt was lost after it had used something."""
    put(board, "t1")
    held = claimed(board, "t1", "coder-1")
    board.ledger.record(lease=held, model="o-model", input_tokens=900, output_tokens=100, cost_usd="0.05")
    clock.advance(75)
    again = claimed(board, "t1", "coder-2")
    board.ledger.record(lease=again, model="o-model", input_tokens=1_000, output_tokens=100, cost_usd="0.06")
    board.ledger.record(lease=again, model="o-model", input_tokens=1_000, output_tokens=300, cost_usd="0.07")
    again.complete()
    return lambda: assert_spent(board, usd="0.13", tokens=2_400)


@scene
def spent_nothing(board, clock):
    """The agent is spelt otherwise."""
    spending(board, clock)
    return lambda: assert_spent(board, usd="0.12", agent="c")


@scene
def within(board, clock):
    """Limits were passed, in dollars and in tokens."""
    spending(board, clock)
    return lambda: assert_within(board, usd=0.40, tokens=8_000)


@scene
def within_unpriced(board):
    """Nobody knows whether the limit was kept."""
    board.ledger.record("coder-1", model="home-made-7b", input_tokens=1_000)
    return lambda: assert_within(board, usd=1)


@scene
def within_task(board, clock):
    """A task was dearer than it may be."""
    spending(board, clock)
    return lambda: assert_within(board, usd="0.29", task_id="t1")


@scene
def budget_left(board):
    """A reservation is part of it."""
    put(board, "t1", "t2", estimate_usd="0.50")
    board.budgets.set(usd=2, tokens=10_000)
    held = claimed(board, "t1", "coder-1")
    board.ledger.record(lease=held, model="o-model", input_tokens=900, output_tokens=100, cost_usd="0.20")
    return lambda: assert_budget_left(board, usd="1.80", tokens=9_000)


@scene
def budget_none(board):
    """The budget is another's."""
    put(board, "t1")
    board.budgets.set(plan="default", usd=2)
    board.budgets.set(agent="coder-1", usd=1, period="day")
    return lambda: assert_budget_left(board, usd=2)


@scene
def wasted(board, clock):
    """Less was wasted than expected."""
    put(board, "t1", max_attempts=5)
    for agent in ("coder-1", "coder-2"):
        held = claimed(board, "t1", agent)
        board.ledger.record(lease=held, model="o-model", input_tokens=900, output_tokens=100, cost_usd="0.05")
        clock.advance(75)
    board.reclaim_zombies()
    return lambda: assert_wasted(board, usd="0.15", tokens=3_000)


@scene
def no_such_state(board):
    """The word is not one of ours."""
    put(board, "a")
    return lambda: assert_state(board, {"a": "done"})


def acted(name, board, clock):
    """Play a scene; the call that then fails."""
    function = SCENES[name]
    return function(*(board, clock)[: function.__code__.co_argcount])


def told(call):
    """What a call fails with."""
    try:
        call()
    except AssertionError as error:
        return str(error)
    except AgentMeshError as error:
        return f"{type(error).__name__}: {error}"
    raise LookupError("the call does not fail")
