"""`History.check()`: it accepts what boards do, and names the promise, the event and the cause when a history lies."""

from dataclasses import replace
from pathlib import Path

import pytest

from agentmesh.model import Event
from pytest_agentmesh.checkers.ending import compare
from pytest_agentmesh.checkers.replay import Replay
from pytest_agentmesh.checkers.rows import look
from pytest_agentmesh.checkers.verdict import Violation
from pytest_agentmesh.faults import FaultMark, kill
from pytest_agentmesh.history import History
from tests.support.boards import claimed, damage, done, ended, open_board, put
from tests.support.clock import START_US, TurnableClock
from tests.support.played import play

GOLDEN = Path(__file__).parent / "golden" / "history"


def numbered(events):
    """The events under numbers without gaps, as if nothing had ever been among them."""
    return [replace(event, seq=seq) for seq, event in enumerate(events, start=1)]


def without(events, kind, **fields):
    """The events but those of a kind."""
    return numbered(event for event in events if not is_one(event, kind, fields))


def altered(events, kind, *, data=None, where=None, **fields):
    """The events, the last one of a kind with other fields or other data."""
    place = max(n for n, event in enumerate(events) if is_one(event, kind, where or {}))
    event = replace(events[place], **fields)
    return [*events[:place], replace(event, data={**event.data, **(data or {})}), *events[place + 1 :]]


def added(events, kind, *, at=None, **fields):
    """The events and one more, at a place among them, or at the end."""
    place = len(events) if at is None else at
    last = events[place - 1]
    data = fields.pop("data", {})
    return numbered(
        [*events[:place], replace(last, kind=kind, data=data, **{"fence": None, **fields}), *events[place:]]
    )


def is_one(event, kind, fields):
    """Whether an event is of that kind, and says that."""
    return event.kind == kind and all(getattr(event, name) == value for name, value in fields.items())


def lie(events):
    """What the check says of doctored events."""
    with pytest.raises(AssertionError) as caught:
        History.of_events(events).check()
    return str(caught.value)


def lie_on(history, events):
    """What the check says of doctored events of a board whose rows are there."""
    history._events = events
    with pytest.raises(AssertionError) as caught:
        history.check()
    return str(caught.value)


@pytest.fixture
def history(board):
    """The history of the board."""
    return History(board)


def worked(board, clock):
    """Ann lost `a`, Bob did it; `b` waited for it and is held; `c` was for the failure of `a`."""
    put(board, "a", "b: a", "c: a:failed")
    claimed(board, "a", "ann")
    clock.advance(70)
    claimed(board, "a", "bob").complete()
    claimed(board, "b", "cyd")


UNTIL = {"expires_us": START_US + 200_000_000}
ENTRY = {"namespace": "n", "key": "k", "version": 1, "size": 1}
DOCTORED = {
    "a hand-out of what is held": (
        lambda events: without(events, "lease_reclaimed"),
        "P1",
        "attempt 1 of ann to hold a until it ends or is reclaimed",
    ),
    "a fence that is left out": (
        lambda events: altered(events, "task_claimed", where={"task_id": "b"}, fence=2),
        "P1",
        "attempt 1 of b",
    ),
    "an end by a stranger": (
        lambda events: altered(events, "task_completed", agent_id="eve"),
        "P2",
        "only attempt 2 of bob, which holds a, to act on it",
    ),
    "an end by one who lost it": (
        lambda events: added(events, "task_completed", at=6, task_id="a", agent_id="ann", fence=1),
        "P2",
        "only attempt 2 of bob",
    ),
    "a note after the end": (
        lambda events: added(events, "noted", task_id="a", agent_id="bob", fence=2),
        "P2",
        "nothing more of attempt 2 of a, which ended as completed in event 7",
    ),
    "an end that is falsely marked late": (
        lambda events: altered(events, "task_completed", data={"late": True}),
        "P2",
        "an end that is not marked late",
    ),
    "a final task that changes": (
        lambda events: added(events, "task_updated", task_id="a", agent_id="ann", data={"fields": ["title"]}),
        "P2",
        "a to stay as it is, for it is completed",
    ),
    "a lease taken back too early": (
        lambda events: altered(events, "lease_reclaimed", data={"due_us": START_US + 80_000_000}),
        "P3",
        "the lease of ann on a to run until",
    ),
    "one hand-out too many": (
        lambda events: altered(events, "task_created", where={"task_id": "a"}, data={"max_attempts": 1}),
        "P3",
        "a to be paused, for it has reached a ceiling",
    ),
    "a failure for the deaths of agents": (
        lambda events: altered(
            altered(events, "task_created", where={"task_id": "a"}, data={"max_attempts": 1}),
            "lease_reclaimed",
            data={"state": "failed"},
        ),
        "P3",
        "a, of which no attempt failed by itself, to be paused",
    ),
    "a hand-out of a paused task": (
        lambda events: added(events, "paused", at=4, task_id="a", data={"scope": "task", "name": "a"}),
        "P4",
        "no hand-out while task a is paused",
    ),
    "a pause of a task that has ended": (
        lambda events: added(events, "paused", task_id="a", data={"scope": "task", "name": "a"}),
        "P2",
        "a, which is completed, to stay as it is",
    ),
    "a hand-out of what must never be handed out": (
        lambda events: altered(events, "task_created", where={"task_id": "b"}, data={"max_attempts": 0}),
        "P3",
        "at most 0 charged hand-outs of b",
    ),
    "a hand-out before its time": (
        lambda events: without(without(events, "task_completed"), "task_cancelled"),
        "P4",
        "b to wait until a to end as completed, and that is in_progress",
    ),
    "a doomed task that lives on": (
        lambda events: without(events, "task_cancelled"),
        "P4",
        "c to be cancelled at once, for a ended so that it can never run",
    ),
    "a task that is cancelled for nothing": (
        lambda events: added(events, "task_cancelled", at=5, task_id="b", data={"was": "blocked", "root": "a"}),
        "P4",
        "no dependency of it ended so",
    ),
    "a state that the graph does not allow": (
        lambda events: altered(events, "task_created", where={"task_id": "b"}, data={"state": "pending"}),
        "P4",
        "b to wait for a to end as completed",
    ),
    "a circle": (
        lambda events: added(
            events, "dependency_added", at=3, task_id="a", data={"parent": "b", "condition": "completed"}
        ),
        "P4",
        "a graph without cycles",
    ),
    "tasks that wait for each other from the beginning": (
        lambda events: altered(
            events, "task_created", where={"task_id": "a"}, data={"depends_on": ["b:finished"], "state": "blocked"}
        ),
        "P4",
        "a graph without cycles",
    ),
    "a hand-out during a pause": (
        lambda events: added(events, "paused", at=8, task_id=None, data={"scope": "plan", "name": "default"}),
        "P4",
        "no hand-out while plan default is paused",
    ),
    "a hand-out while a breaker is open": (
        lambda events: added(events, "breaker_opened", at=8, data={"until_us": START_US + 99_000_000, "storms": 1}),
        "P4",
        "no hand-out while the breaker of plan default is open",
    ),
    "a gap": (lambda events: [event for event in events if event.seq != 5], "P6", "event 5"),
    "a task that nobody created": (
        lambda events: numbered(events[1:]),
        "P4",
        "every dependency to be on the board",
    ),
    "usage for another's attempt": (
        lambda events: added(
            events, "usage_recorded", task_id="b", fence=1, agent_id="eve", data={"tokens": 1, "cost_pusd": 1}
        ),
        "P7",
        "an attempt of that agent",
    ),
    "a hand-out past a cap": (
        lambda events: added(events, "claim_cap_set", at=5, task_id=None, data={"name": "", "most": 0}),
        "P8",
        "bob to hold at most 0 tasks at once",
    ),
    "a task that is created twice": (
        lambda events: added(events, "task_created", task_id="a", data={"state": "pending", "max_attempts": 3}),
        "P6",
        "one task a",
    ),
    "a hand-out of what is done": (
        lambda events: added(events, "task_claimed", task_id="a", agent_id="eve", fence=3, data=UNTIL),
        "P2",
        "a to stay completed",
    ),
    "a renewal that makes a lease shorter": (
        lambda events: added(
            events, "task_resumed", task_id="b", agent_id="cyd", fence=1, data={"expires_us": START_US}
        ),
        "P2",
        "a lease that lasts until 2min 10s at least",
    ),
    "a renewal by a stranger": (
        lambda events: added(events, "heartbeat", task_id="b", agent_id="eve", fence=1, data=UNTIL),
        "P2",
        "only attempt 1 of cyd, which holds b",
    ),
    "a cancellation of what is done": (
        lambda events: added(events, "task_cancelled", task_id="a", agent_id="eve", data={"was": "completed"}),
        "P2",
        "a to stay completed",
    ),
    "a cancellation that misses the attempt": (
        lambda events: added(
            events, "task_cancelled", task_id="b", agent_id="eve", fence=7, data={"was": "in_progress"}
        ),
        "P2",
        "attempt 1 to end with it",
    ),
    "a cancellation that tells of another state": (
        lambda events: altered(events, "task_cancelled", data={"was": "pending"}),
        "P6",
        "c to have been blocked",
    ),
    "a reopening of what is open": (
        lambda events: added(events, "task_reopened", task_id="b", data={"was": "failed"}),
        "P2",
        "a task that is failed",
    ),
    "a reopening of what can never run": (
        lambda events: added(events, "task_reopened", task_id="c", data={"was": "cancelled"}),
        "P4",
        "a task to be opened again only if it can run",
    ),
    "a time that comes for what is ready": (
        lambda events: added(events, "task_due", at=3, task_id="a"),
        "P4",
        "a, which is pending, to stay so",
    ),
    "paths that change under their holder": (
        lambda events: added(events, "task_updated", task_id="b", data={"fields": ["writes"]}),
        "P10",
        "the paths of b to stay while it is held",
    ),
    "a new dependency of what is held": (
        lambda events: added(events, "dependency_added", task_id="b", data={"parent": "c", "condition": "finished"}),
        "P4",
        "new dependencies only for a task that is open",
    ),
    "an edge that is there already": (
        lambda events: added(
            events, "dependency_added", at=3, task_id="b", data={"parent": "a", "condition": "failed"}
        ),
        "P4",
        "one edge from a to b",
    ),
    "an edge to nothing": (
        lambda events: added(
            events, "dependency_added", at=3, task_id="b", data={"parent": "z", "condition": "failed"}
        ),
        "P4",
        "z was never created",
    ),
    "the loss of an edge that was not there": (
        lambda events: added(events, "dependency_removed", at=3, task_id="a", data={"parent": "b"}),
        "P4",
        "a to wait for b",
    ),
    "the loss of an edge of what has ended": (
        lambda events: added(events, "dependency_removed", task_id="c", data={"parent": "a"}),
        "P4",
        "the dependencies of c to stay",
    ),
    "a state that nothing holds": (
        lambda events: altered(events, "lease_reclaimed", data={"state": "blocked"}),
        "P4",
        "a to be free: nothing holds it",
    ),
    "an end as failed with hand-outs left": (
        lambda events: altered(events, "lease_reclaimed", data={"state": "failed"}),
        "P3",
        "a task with hand-outs left to be tried again",
    ),
    "a lease taken back for another reason than its end": (
        lambda events: altered(events, "lease_reclaimed", data={"due_us": START_US + 1}),
        "P3",
        "the lease to run until 1min",
    ),
    "a lease of no length": (
        lambda events: altered(events, "task_claimed", data={"expires_us": START_US}),
        "P3",
        "a lease that lasts for a while",
    ),
    "a split with no hand-out left": (
        lambda events: added(
            altered(events, "task_created", where={"task_id": "b"}, data={"max_attempts": 1}),
            "task_split",
            task_id="b",
            agent_id="cyd",
            fence=1,
            data={"refunded": False},
        ),
        "P3",
        "the charge to be given back",
    ),
    "something done to a task that nobody created": (
        lambda events: added(events, "noted", task_id="z", agent_id="cyd", fence=1),
        "P6",
        "z to have been created",
    ),
    "usage for a task that nobody created": (
        lambda events: added(events, "usage_recorded", task_id="z", agent_id="cyd", data={"tokens": 1, "cost_pusd": 1}),
        "P6",
        "z to have been created",
    ),
    "usage that is no usage": (
        lambda events: added(
            events, "usage_recorded", task_id=None, agent_id="cyd", data={"tokens": -1, "cost_pusd": 1}
        ),
        "P7",
        "tokens, and a cost or the word that there is no price",
    ),
    "an import in the middle": (
        lambda events: added(events, "board_imported", task_id=None, data={"source": "x"}),
        "P6",
        "an import before everything else",
    ),
    "a breaker that opens for no time": (
        lambda events: added(events, "breaker_opened", task_id=None, data={"until_us": START_US, "storms": 1}),
        "P4",
        "a breaker that opens for a while",
    ),
    "an entry that expires before it is there": (
        lambda events: added(events, "entry_put", task_id=None, data={**ENTRY, "expires_us": START_US}),
        "P9",
        "entry n/k to last beyond its own writing",
    ),
    "an entry that is deleted though it is missing": (
        lambda events: added(events, "entry_deleted", task_id=None, data=ENTRY),
        "P9",
        "entry n/k to be there before it is deleted",
    ),
    "an entry that is deleted at another version": (
        lambda events: added(
            added(events, "entry_put", task_id=None, data=ENTRY),
            "entry_deleted",
            task_id=None,
            data={**ENTRY, "version": 2},
        ),
        "P9",
        "version 1 of entry n/k",
    ),
    "an entry signed by one who lost the lease": (
        lambda events: added(events, "entry_put", task_id="a", agent_id="ann", fence=1, data=ENTRY),
        "P2",
        "nothing more of attempt 1 of a, which ended as reclaimed in event 5",
    ),
    "a cascade at two instants": (
        lambda events: altered(events, "task_cancelled", at_us=START_US + 71_000_000),
        "P11",
        "a call to have one instant",
    ),
}


@pytest.mark.parametrize("name", DOCTORED)
def test_a_doctored_history_is_caught_and_its_promise_named(board, clock, history, name):
    """Each lie breaks the promise that it is about; the truth breaks none."""
    worked(board, clock)
    doctor, promise, told = DOCTORED[name]
    assert History.of_events(history.events).check().events == 9
    said = lie(doctor(history.events))
    assert f"breaks {promise}: " in said
    assert told in said


def test_a_charge_that_is_given_back_for_nothing_is_caught(board, history):
    """P3: an ordinary failure costs its charge."""
    put(board, "a")
    claimed(board, "a").fail("x")
    said = lie(altered(history.events, "task_failed", data={"refunded": True}))
    assert "breaks P3" in said
    assert "the charge to stay" in said


def test_a_failure_of_the_last_charge_that_fails_nothing_is_caught(board, history):
    """P3: the task's own failure was its last."""
    put(board, "a")
    claimed(board, "a").fail("x")
    doctored = altered(history.events, "task_created", data={"max_attempts": 1})
    assert "a task without hand-outs left to fail" in lie(doctored)


@pytest.mark.parametrize("how", ["released", "reclaimed"])
def test_a_history_with_a_ceiling_is_legal_and_each_lie_about_it_is_caught(board, clock, history, how):
    """P3: a task at its ceiling is paused at once, and every charge that it is owed is given back."""
    put(board, "a", "b: a")
    for number in range(20 if how == "released" else 3):
        claim = claimed(board, "a", f"x{number}")
        claim.release() if how == "released" else clock.advance(61)
        board.reclaim_zombies()
    board.resume(task_id="a")
    board.pause(task_id="b", until=clock.now_us() / 1_000_000 + 5)
    history.check()
    clock.advance(6)
    history.check()
    claimed(board, "a").complete()
    claimed(board, "b").complete()
    events = history.events
    history.check()
    assert "a to be paused, for it has reached a ceiling" in lie(without(events, "paused", task_id="a"))
    more = altered(events, "paused", where={"task_id": "a"}, data={"refunded": 7})
    assert "charges of a to be given back" in lie(more)
    early = altered(events, "paused", where={"task_id": "b"}, data={"until_us": clock.now_us() + 1})
    assert "the pause of b to last until its end" in lie(early)


def test_a_second_chance_that_no_charge_is_left_for_is_caught(board, history):
    """P3: a split gives its charge back; one that does not leaves none for the end."""
    put(board, "a", max_attempts=1)
    claimed(board, "a").split([{"title": "s", "id": "s"}])
    assert "the charge to be given back" in lie(altered(history.events, "task_split", data={"refunded": False}))


def test_a_lease_of_another_length_than_its_task_says_is_caught(board, history):
    """P3: the rows tell how long it should be."""
    put(board, "a", lease_timeout_sec=45)
    claimed(board, "a")
    told = altered(history.events, "task_claimed", data={"expires_us": START_US + 44_000_000})
    assert "a lease of 45000000 us" in lie_on(history, told)


def test_an_end_that_should_be_marked_late_is_caught(board, clock, history):
    """P2: the attempt's row tells when its lease ran out."""
    put(board, "a")
    claim = claimed(board, "a")
    clock.advance(61)
    claim.complete()
    assert "an end that is marked late" in lie_on(
        history, altered(history.events, "task_completed", data={"late": False})
    )


def test_a_strict_budget_with_unpriced_usage_is_caught(board, history):
    """P8: nothing more is handed out under it."""
    put(board, "a", "b")
    board.budgets.set(usd=5, strict=False)
    board.ledger.record(lease=claimed(board, "a").lease, model="nobody-knows", output_tokens=9)
    claimed(board, "b")
    said = lie(altered(history.events, "budget_set", data={"strict": True}))
    assert "no hand-out under the strict board's budget" in said


def test_an_estimate_that_does_not_fit_is_caught(board, history):
    """P8: what is reserved counts, too."""
    put(board, "a", "b", estimate_tokens=60)
    board.budgets.set(tokens=120)
    claimed(board, "a")
    claimed(board, "b")
    told = altered(history.events, "budget_set", data={"limit_tokens": 119})
    assert "60 of 119 tokens are spent or reserved, and b is estimated at 60" in lie_on(history, told)


def test_a_warning_that_is_not_due_or_says_other_sums_is_caught(board, history):
    """P8: the words of a warning are checked."""
    board.budgets.set(tokens=100)
    board.ledger.record("ann", output_tokens=85)
    *before, warning = history.events
    other = replace(warning, data={**warning.data, "spent_tokens": 99})
    assert "to have {'pusd': 0, 'tokens': 85} spent" in lie([*before, other])
    assert "budget_warning of the board's budget" in lie([*before, replace(warning, kind="budget_exceeded")])


def test_usage_of_another_day_makes_no_warning_of_today_due(board, history, clock):
    """P8: a daily budget goes by the instant of the usage, which the event names where it is not its own."""
    board.budgets.set(period="day", tokens=10)
    board.ledger.record("ann", output_tokens=9, at=clock.now_us() / 1e6 - 2 * 86_400)
    assert history.check().compared
    *before, used = history.events
    today = {name: value for name, value in used.data.items() if name != "used_us"}
    assert today != used.data
    assert "budget_warning of the board's daily budget" in lie([*before, replace(used, data=today)])


def test_an_entry_that_comes_back_after_a_prune_begins_anew(board, clock, history):
    """P9: only what was forgotten does."""
    board.blackboard.put("notes", "a", 1, ttl_sec=1)
    clock.advance(60)
    for value in (1, 2):  # the second sees that it is old by the newest event, too, and sweeps it
        board.blackboard.put("notes", "other", value)
    board.prune(older_than_sec=0, events_older_than_sec=10_000)
    assert board.blackboard.put("notes", "a", 2).version == 1
    assert history.check().compared
    assert "version 2 of entry notes/a" in lie(without(history.events, "pruned"))


def test_a_budget_that_was_passed_unseen_is_caught(board, history):
    """P8: usage that makes a warning due is followed by it."""
    put(board, "a")
    board.budgets.set(usd=1)
    board.ledger.record(lease=claimed(board, "a").lease, cost_usd="0.9")
    assert history.kinds()[-1] == "budget_warning"
    assert "breaks P8" in lie(without(history.events, "budget_warning"))
    assert "budget_warning of the board's budget" in lie(without(history.events, "budget_warning"))


def test_a_hand_out_under_a_spent_budget_is_caught(board, history):
    """P8: what was spent leaves nothing for the next task."""
    put(board, "a", "b")
    board.budgets.set(agent="worker", tokens=100)
    board.ledger.record(lease=claimed(board, "a").lease, output_tokens=79)
    claimed(board, "b")
    said = lie(altered(history.events, "budget_set", data={"limit_tokens": 79, "strict": False}, at_us=START_US))
    assert "P8" in said
    dearer = altered(history.events, "usage_recorded", data={"tokens": 100})
    told = {"scope": "agent", "name": "worker", "period": "lifetime", "limit_pusd": None, "spent_pusd": 0}
    warned = added(
        dearer, "budget_warning", at=5, task_id=None, data={**told, "limit_tokens": 100, "spent_tokens": 100}
    )
    assert "100 of 100 tokens are spent or reserved" in lie(warned)


def test_a_version_that_is_left_out_is_caught(board, history):
    """P9: versions count the writes."""
    board.blackboard.put("notes", "a", 1)
    board.blackboard.put("notes", "a", 2)
    said = lie(altered(history.events, "entry_put", data={"version": 3}))
    assert "breaks P9" in said
    assert "version 2 of entry notes/a" in said


def test_an_entry_that_is_deleted_after_its_end_is_caught(board, clock, history):
    """P9: what has expired is missing."""
    board.blackboard.put("notes", "a", 1, ttl_sec=60)
    clock.advance(59)
    board.blackboard.delete("notes", "a")
    said = lie(altered(history.events, "entry_deleted", at_us=START_US + 60_000_000))
    assert "breaks P9" in said
    assert "it has expired" in said


def test_overlapping_paths_are_caught(board, history):
    """P10: two attempts hold what excludes each other."""
    put(board, "a", writes=["src/**"])
    put(board, "b", writes=["docs/**"])
    claimed(board, "a")
    claimed(board, "b")
    said = lie(altered(history.events, "task_created", data={"writes": ["src/*.py"]}))
    assert "breaks P10" in said
    assert "b holds src/*.py to write while a holds src/** to write" in said


def test_paths_that_are_held_later_are_caught(board, history):
    """P10: the same for what a running attempt takes."""
    put(board, "a", "b")
    claimed(board, "a").hold_paths(writes=["x/y"])
    claimed(board, "b").hold_paths(reads=["z"])
    assert "breaks P10" in lie(altered(history.events, "paths_held", data={"reads": ["x/*"]}))


ROWS = {
    "state": ("UPDATE task SET state = 'pending', ended_us = NULL WHERE id = 'a'", "P6"),
    "fence": ("UPDATE task SET fence = 7 WHERE id = 'a'", "P1"),
    "charge": ("UPDATE task SET charged = 0 WHERE id = 'a'", "P3"),
    "task": ("DELETE FROM task WHERE id = 'c'", "P3"),
    "edge": ("DELETE FROM edge", "P4"),
    "countdown": ("UPDATE task SET unmet = 1 WHERE id = 'b'", "P4"),
    "attempt": ("UPDATE attempt SET agent_id = 'eve' WHERE fence = 2", "P1"),
    "outcome": ("UPDATE attempt SET outcome = 'failed', kind = 'task' WHERE fence = 2", "P2"),
    "release": ("UPDATE attempt SET outcome = 'released' WHERE fence = 2", "P2"),
    "charge of an attempt": ("UPDATE attempt SET charged = 0 WHERE fence = 2", "P3"),
    "ceiling": ("UPDATE task SET max_attempts = 9 WHERE id = 'b'", "P3"),
    "lost attempt": ("DELETE FROM attempt WHERE fence = 1 AND outcome = 'reclaimed'", "P1"),
    "lease": ("UPDATE attempt SET lease_expires_us = lease_expires_us - 1 WHERE outcome IS NULL", "P2"),
    "end": ("UPDATE attempt SET ended_us = ended_us + 1 WHERE fence = 2", "P11"),
    "lost budget": ("DELETE FROM budget", "P8"),
    "reservation": ("UPDATE budget SET reserved_tokens = 1", "P8"),
    "lost entry": ("DELETE FROM entry", "P9"),
    "writer": ("UPDATE entry SET agent_id = 'eve'", "P9"),
    "beginning": ("UPDATE attempt SET started_us = started_us + 1 WHERE fence = 2", "P11"),
    "late": ("UPDATE attempt SET late = 1 WHERE fence = 2", "P2"),
    "totals": ("UPDATE usage_total SET cost_pusd = cost_pusd + 1", "P7"),
    "kind": ("UPDATE attempt SET kind = 'infra' WHERE fence = 2", "P2"),
    "totals of another": ("UPDATE usage_total SET agent_id = 'eve'", "P7"),
    "lost totals": ("DELETE FROM usage_total", "P7"),
    "waste": ("UPDATE usage_total SET wasted_tokens = 5", "P7"),
    "budget": ("UPDATE budget SET spent_pusd = 1", "P8"),
    "limit": ("UPDATE budget SET limit_pusd = 1", "P8"),
    "entry": ("UPDATE entry SET version = 9", "P9"),
    "pause": ("DELETE FROM pause", "P4"),
    "cap": ("DELETE FROM claim_cap", "P8"),
}


@pytest.mark.damaged
@pytest.mark.parametrize("name", ROWS)
def test_rows_that_tell_another_story_are_caught(board, clock, history, name):
    """Each change behind the board's back breaks the promise that the row is about."""
    worked(board, clock)
    board.ledger.record("bob", task_id="a", model="m", output_tokens=5, cost_usd="0.1")
    board.budgets.set(usd=5)
    board.blackboard.put("notes", "a", 1)
    board.pause(agent="eve")
    board.set_claim_cap(3)
    history.check()
    statement, promise = ROWS[name]
    board.store._writer.execute("PRAGMA foreign_keys = OFF")
    assert damage(board, statement)
    with pytest.raises(
        AssertionError, match=rf"^the board disagrees with its history, up to event \d+, and breaks {promise}: "
    ):
        history.check()


def of_rows(board, events):
    """What the comparison of doctored events with the rows of a board says."""
    rows = look(board)
    replay = Replay(events, rows)
    replay.run()
    with pytest.raises(Violation) as caught:
        compare(replay, rows)
    return caught.value


def test_a_task_that_no_event_created_is_caught(board, clock, history):
    """P6: rows and event come in one transaction."""
    worked(board, clock)
    put(board, "d")
    broken = of_rows(board, history.events[:-1])
    assert (broken.promise, broken.found) == ("P6", "none for d")


@pytest.mark.damaged
def test_a_task_that_became_ready_before_its_time_is_caught(board, clock, history):
    """P4: its row tells what it waited for."""
    board.create_task("t", id="a", not_before=(START_US + 30_000_000) / 1_000_000)
    clock.advance(30)
    claimed(board, "a")
    history.check()
    damage(board, "UPDATE task SET not_before_us = not_before_us + 1")
    broken = of_rows(board, history.events)
    assert (broken.promise, broken.at_end) == ("P4", True)
    assert broken.expected.startswith("a to wait for its time")


def test_an_entry_that_no_event_explains_is_caught(board, clock, history):
    """P9: it was never put, or has expired by what its event says."""
    board.blackboard.put("n", "k", 1, ttl_sec=60)
    clock.advance(10)
    assert of_rows(board, history.events[:-1]).found == "n/k is listed"
    sooner = altered(history.events, "entry_put", data={"expires_us": START_US + 5_000_000})
    assert of_rows(board, sooner).found == "it is listed"


@pytest.mark.damaged
def test_a_prune_that_takes_what_is_open_is_caught(board, clock, history):
    """P3: only what has ended may go."""
    worked(board, clock)
    board.store._writer.execute("PRAGMA foreign_keys = OFF")
    damage(board, "DELETE FROM task WHERE id = 'b'")
    broken = of_rows(board, added(history.events, "pruned", task_id=None, data={"tasks": 1}))
    assert (broken.promise, broken.found) == ("P3", "b had not")


def test_a_failure_shows_what_stands_around_it(board, clock, history):
    """The message is a product: compared with its golden file."""
    worked(board, clock)
    assert lie(without(history.events, "lease_reclaimed")) + "\n" == (GOLDEN / "two_owners.txt").read_text()
    assert lie(without(history.events, "task_cancelled")) + "\n" == (GOLDEN / "doomed.txt").read_text()


@pytest.mark.damaged
def test_a_disagreement_of_the_rows_shows_the_last_event_on_the_matter(board, clock, history):
    """The same for the end."""
    worked(board, clock)
    damage(board, "UPDATE task SET charged = 0 WHERE id = 'a'")
    with pytest.raises(AssertionError) as caught:
        history.check()
    assert f"{caught.value}\n" == (GOLDEN / "rows.txt").read_text()


def test_a_pruned_past_is_no_lie(board, clock):
    """What is left is judged, and the report says where it begins."""
    worked(board, clock)
    clock.advance(60)
    board.prune(older_than_sec=30)
    put(board, "d")
    done(board, "d")
    report = History(board).check()
    assert report.first > 1
    assert report.not_observable == (f"what happened before event {report.first}: it was pruned",)


def test_a_parent_that_ended_in_the_pruned_past_is_not_counted_as_open(board, clock):
    """Another parent is known and still open; how many dependencies are unmet, the history then does not tell."""
    put(board, "old")
    board.cancel_task("old")
    clock.advance(100)
    put(board, "new", "child: old:finished new:finished")
    board.prune(older_than_sec=50)
    assert History(board).check().first > 1


def test_a_cycle_through_a_pruned_task_is_none(board, history):
    """Its edges went with it."""
    put(board, "a", "between: a:finished", "c: between:finished", "open: a c:finished")
    board.cancel_task("between")
    board.cancel_task("c")
    assert board.prune(older_than_sec=0, events_older_than_sec=1_000_000).plans == {"default": 1}
    board.add_dependency("a", "c", condition="finished")
    assert history.check().compared


def test_a_history_that_was_read_before_a_prune_is_kept(board, clock, history):
    """Whoever has seen the beginning judges all of it."""
    worked(board, clock)
    before = history.check()
    clock.advance(60)
    board.prune(older_than_sec=30)
    report = history.check()
    assert report.first == before.first == 1
    assert report.not_observable == ()


def test_an_imported_board_is_judged_from_its_import_on(board, clock, tmp_path):
    """What was held is taken back at once, though its lease was not due."""
    put(board, "a", "b: a")
    claimed(board, "a")
    text = tmp_path / "board.jsonl"
    with text.open("wb") as file:
        board.export(file)
    with open_board(tmp_path / "empty.db", clock):
        pass
    target = tmp_path / "other.db"
    with text.open("rb") as file:
        type(board).import_board(file, target, clock=clock)
    with open_board(target, clock) as other:
        done(other, "a")
        report = History(other).check()
    assert report.events == 4
    assert report.not_observable == ("what happened before event 1: it was imported",)


def test_a_lie_after_a_prune_is_caught(board, clock):
    """A task of which the history knows nothing is known from its first event on."""
    put(board, "a")
    claimed(board, "a", "ann")
    clock.advance(40)
    board.prune(older_than_sec=20)
    history = History(board)
    history.check()
    events = [
        *history.events,
        replace(
            history.events[-1],
            seq=history.events[-1].seq + 1,
            kind="noted",
            task_id="a",
            fence=1,
            agent_id="ann",
            data={},
        ),
        replace(
            history.events[-1],
            seq=history.events[-1].seq + 2,
            kind="task_claimed",
            task_id="a",
            fence=2,
            agent_id="bob",
            data={"expires_us": clock.now_us() + 1},
        ),
    ]
    assert "breaks P1" in lie(events)


def test_a_clock_that_is_set_back_is_told(board, clock, history):
    """It breaks no promise: correctness rests on fences."""
    put(board, "a")
    clock.advance(-30)
    claimed(board, "a")
    assert history.check().clock_set_back == (2,)


def test_an_empty_board_has_an_empty_history(history):
    """Nothing happened, and nothing is wrong with it."""
    assert len(history) == 0
    assert history.check().events == 0


def test_a_history_is_read_in_pages_and_grows(board, history):
    """More events than the board gives at once; what comes later is there at the next look."""
    board.create_tasks([{"title": "t"} for _ in range(1_100)])
    assert len(history) == 1_100
    board.create_task("t", id="last")
    assert history.events[-1].task_id == "last"
    assert [event.seq for event in history] == list(range(1, 1_102))


def test_a_history_is_looked_at_by_task_agent_and_kind(board, clock, history):
    """The three ways to what one wants to know."""
    worked(board, clock)
    assert [event.kind for event in history.of("c")] == ["task_created", "task_cancelled"]
    assert [event.kind for event in history.by("bob")] == ["task_claimed", "task_completed"]
    assert history.kinds().count("task_created") == 3


def test_heartbeats_make_the_ends_of_leases_exact(mesh_board):
    """On a test clock each renewal is told, so a lease that is taken back before its true end is a lie."""
    marks = play(mesh_board)
    history = History(mesh_board, marks)
    assert history.check().not_observable == ()
    doctored = altered(history.events, "lease_reclaimed", data={"due_us": START_US + 105_000_000})
    assert "breaks P3" in lie(doctored)


def test_jsonl_gives_events_and_faults_back(board, clock, tmp_path):
    """What was written is read as it was, and can be checked as far as events go."""
    worked(board, clock)
    marks = [FaultMark(START_US + 5, kill("complete_task", agent="ann"), "ann", "complete_task", "died")]
    history = History(board, marks)
    text = history.to_jsonl(tmp_path / "history.jsonl")
    again = History.from_jsonl((tmp_path / "history.jsonl").read_text())
    assert text.splitlines()[4].startswith('{"at":"2026-01-01T00:00:00.000005Z"')
    assert (again.events, again.marks) == (history.events, tuple(marks))
    assert again.check().compared is False
    assert again.to_jsonl() == text


def test_a_line_that_is_no_event_is_refused():
    """It is named by its number."""
    with pytest.raises(ValueError, match="line 1 is not one that to_jsonl writes"):
        History.from_jsonl('{"kind": "task_created"}')


def test_an_event_of_an_unknown_kind_is_told_of(history, board):
    """A newer board may say more than this checker knows."""
    put(board, "a")
    report = History.of_events(added(history.events, "dreamt", task_id=None)).check()
    assert report.not_observable == ("what events of kind dreamt mean: this AgentMesh does not know them",)


def test_a_failed_task_dooms_and_frees(board, history):
    """The table of conditions, as the board lives it, is found right."""
    put(board, "a", "on: a", "if: a:failed", "then: a:finished", "far: on")
    ended(board, "a", "failed")
    assert isinstance(history.events[0], Event)
    assert history.check().compared


class GoingOn(TurnableClock):
    """A clock that goes on by a second with each look at it, as the system's does in its own measure."""

    def now_us(self):
        """Microseconds since the Unix epoch, UTC."""
        self.advance(1)
        return super().now_us()


def test_an_entry_that_expires_while_the_board_is_read_is_no_lie(board_path):
    """The rows are not of one instant; an entry that is missing before its time is one."""
    with open_board(board_path, GoingOn()) as board:
        put(board, *"abcdefgh")
        board.blackboard.put("n", "k", 1, ttl_sec=10, agent_id="a")
        seen = look(board)
        assert not seen.entries
        entry = History(board).events[-1]
        assert seen.now_us < entry.data["expires_us"] <= seen.read_us
        assert History(board).check().compared
        early = replace(seen, read_us=seen.now_us)
        replay = Replay(History(board).events, early)
        replay.run()
        with pytest.raises(Violation, match="P9"):
            compare(replay, early)
