"""`check()` finds what is broken: each rule, on a board damaged so that exactly that promise is violated."""

import subprocess
import sys

import pytest

from agentmesh.board.check import RULES, UNOBSERVABLE
from tests.support.boards import claimed, damage, done, open_board, put, violations

PK = "(SELECT pk FROM task WHERE id = '{}')"
OPEN_ATTEMPT = """
    INSERT INTO attempt (task_pk, fence, agent_id, secret, charged, holds, started_us, heartbeat_us, lease_expires_us)
    VALUES ({}, {}, 'thief', 'x', 1, 1, 9000000000000000, 9000000000000000, 9000000000000001)
"""


def healthy(board, clock):
    """A board with something of everything, on which every promise holds.

    done (twice handed out), failed, gone (cancelled), held (with paths), ready, blocked, pooled (two), reopened.
    """
    put(board, "done", "failed", "gone", "held", "ready", "blocked: ready", "reopened")
    put(board, "pooled1", "pooled2", writes=["docs/**"])
    put(board, "elsewhere", plan="other")
    claimed(board, "done").fail("x")
    clock.advance(60)
    done(board, "done", {"n": 1})
    claimed(board, "failed").fail("x", retry=False)
    board.cancel_task("gone")
    done(board, "reopened", 5)
    board.reopen_task("reopened")
    claimed(board, "held").hold_paths(writes=["src/**"])
    board.ledger.record("worker", task_id="failed", model="m", input_tokens=9, cost_usd="0.5", duration_ms=7)
    board.ledger.record("ann", task_id="done", output_tokens=3)
    board.ledger.record("bea", cost_usd=1, source="msg")
    board.update_task("held", estimate_usd="0.2")
    board.budgets.set(agent="bea", usd=2)
    board.budgets.set(task_id="held", tokens=10, period="day")
    board.budgets.set(task_id="failed", usd="0.4")
    board.blackboard.put("a/b", "text", "x")
    board.blackboard.put("", "bytes", b"xyz")


DAMAGE = {
    "check_p1_two_owners": (
        "P1",
        "held has more than one open attempt",
        [
            f"UPDATE task SET fence = 2, charged = 2 WHERE pk = {PK.format('held')}",
            OPEN_ATTEMPT.format(PK.format("held"), 2),
        ],
    ),
    "check_p1_owner": (
        "P1",
        "held and its attempts disagree",
        [
            "UPDATE task SET state = 'pending' WHERE id = 'held'",
            "UPDATE task SET max_attempts = 9 WHERE id = 'held'",
            "UPDATE tally SET pending = pending + 1, in_progress = in_progress - 1 WHERE plan_pk = 1",
        ],
    ),
    "check_p1_fences": ("P1", "done has a fence", ["UPDATE task SET fence = 7 WHERE id = 'done'"]),
    "check_p6_pauses": ("P6", "ready is marked as paused", ["UPDATE task SET paused = 1 WHERE id = 'ready'"]),
    "check_p6_pauses of a final task": (
        "P6",
        "done is marked as paused and has no pause, or the other way round, or is final",
        [
            "UPDATE task SET paused = 1 WHERE id = 'done'",
            "INSERT INTO task_pause SELECT pk, '', 'x', 0, NULL, NULL FROM task WHERE id = 'done'",
        ],
    ),
    "check_p2_final": (
        "P2",
        "done is final and has an open attempt",
        [f"UPDATE attempt SET outcome = NULL, ended_us = NULL WHERE fence = 1 AND task_pk = {PK.format('done')}"],
    ),
    "check_p2_twice": (
        "P2",
        "done was completed twice",
        [f"UPDATE attempt SET outcome = 'completed' WHERE fence = 1 AND task_pk = {PK.format('done')}"],
    ),
    "check_p2_twice without an attempt": (
        "P2",
        "ready was completed",
        [
            "UPDATE task SET state = 'completed', ended_us = 1 WHERE id = 'ready'",
            "UPDATE task SET unmet = 0, state = 'pending' WHERE id = 'blocked'",
            "UPDATE tally SET completed = completed + 1, blocked = blocked - 1 WHERE plan_pk = 1",
        ],
    ),
    "check_p3_charged": ("P3", "done counts other charged", ["UPDATE task SET charged = 1 WHERE id = 'done'"]),
    "check_p3_ceiling": ("P3", "ready was handed out more", ["UPDATE task SET max_attempts = 0 WHERE id = 'ready'"]),
    "check_p3_ceiling of a running task": (
        "P3",
        "held was handed out more",
        ["UPDATE task SET max_attempts = 0 WHERE id = 'held'"],
    ),
    "check_p3_reason": (
        "P3",
        "failed failed and does not say why",
        ["UPDATE task SET reason = NULL WHERE id = 'failed'"],
    ),
    "check_p4_unmet": ("P4", "blocked counts other unmet", ["UPDATE task SET unmet = 2 WHERE id = 'blocked'"]),
    "check_p4_unmet of a lost edge": (
        "P4",
        "blocked counts other unmet",
        [f"DELETE FROM edge WHERE child_pk = {PK.format('blocked')}"],
    ),
    "check_p4_gate": (
        "P4",
        "blocked is ready or held",
        [
            "UPDATE task SET state = 'pending' WHERE id = 'blocked'",
            "UPDATE tally SET pending = pending + 1, blocked = blocked - 1 WHERE plan_pk = 1",
        ],
    ),
    "check_p4_early": (
        "P4",
        "held was handed out",
        [
            f"INSERT INTO edge VALUES ({PK.format('held')}, {PK.format('ready')}, 'completed')",
            "UPDATE task SET parents = 1, unmet = 1 WHERE id = 'held'",
        ],
    ),
    "check_p4_early after a parent was reopened": (
        "P4",
        "held was handed out",
        [
            f"INSERT INTO edge VALUES ({PK.format('held')}, {PK.format('reopened')}, 'completed')",
            "UPDATE task SET parents = 1, unmet = 1 WHERE id = 'held'",
        ],
    ),
    "check_p4_stuck": (
        "P4",
        "ready is blocked although nothing holds it",
        [
            "UPDATE task SET state = 'blocked' WHERE id = 'ready'",
            "UPDATE tally SET pending = pending - 1, blocked = blocked + 1 WHERE plan_pk = 1",
        ],
    ),
    "check_p4_impossible": (
        "P4",
        "reopened is open although",
        [
            f"INSERT INTO edge VALUES ({PK.format('reopened')}, {PK.format('gone')}, 'completed')",
            "UPDATE task SET parents = 1, unmet = 1, state = 'blocked' WHERE id = 'reopened'",
            "UPDATE tally SET pending = pending - 1, blocked = blocked + 1 WHERE plan_pk = 1",
        ],
    ),
    "a circle": (
        "P4",
        "is a cycle",
        [
            f"INSERT INTO edge VALUES ({PK.format('ready')}, {PK.format('blocked')}, 'completed')",
            "UPDATE task SET parents = 1, unmet = 1, state = 'blocked' WHERE id = 'ready'",
            "UPDATE tally SET pending = pending - 1, blocked = blocked + 1 WHERE plan_pk = 1",
        ],
    ),
    "check_p6_tallies": ("P6", "other is a plan", ["UPDATE tally SET pending = 2 WHERE plan_pk = 2"]),
    "check_p6_tallies that is missing": ("P6", "other is a plan", ["DELETE FROM tally WHERE plan_pk = 2"]),
    "check_p6_urgency": ("P6", "ready has another urgency", ["UPDATE task SET urgency = 3 WHERE id = 'ready'"]),
    "check_p6_urgency too low": (
        "P6",
        "ready has another urgency",
        ["UPDATE task SET priority = 4, urgency = 4 WHERE id = 'blocked'"],
    ),
    "check_p6_pools": ("P6", "pooled1 and its pool disagree", ["UPDATE pool SET head_pk = head_pk + 1"]),
    "check_p6_pools without a head": ("P6", "pooled", ["UPDATE pool SET head_pk = NULL, head_urgency = NULL"]),
    "check_p6_pools with a head that is not ready": (
        "P6",
        "pooled1 and its pool disagree",
        [
            "UPDATE task SET state = 'cancelled', ended_us = 1 WHERE id IN ('pooled1', 'pooled2')",
            "UPDATE tally SET pending = pending - 2, cancelled = cancelled + 2 WHERE plan_pk = 1",
        ],
    ),
    "check_p6_reports": ("P6", "ready has a result", [f"INSERT INTO result VALUES ({PK.format('ready')}, '1')"]),
    "a gap in the history": ("P6", "lacks 1 events", ["DELETE FROM event WHERE seq = 3"]),
    "check_p7_totals": ("P7", "ann on day", ["UPDATE usage_total SET output_tokens = 4 WHERE output_tokens = 3"]),
    "check_p7_totals of waste": ("P7", "worker on day", ["UPDATE usage_total SET wasted_us = 0 WHERE wasted_us > 0"]),
    "check_p7_totals without a total": ("P7", "worker on day", ["DELETE FROM usage_total WHERE model = 'm'"]),
    "check_p7_totals without entries": (
        "P7",
        "worker on day",
        [
            "UPDATE usage_entry SET model = 'n', at_us = at_us + 9 * 86400000000 WHERE model = 'm'",
            "UPDATE usage_total SET model = 'n' WHERE model = 'm'",
        ],
    ),
    "check_p7_entries": (
        "P7",
        "worker in entry 1 says",
        [
            "UPDATE usage_entry SET fence = 8 WHERE pk = 1",
            "UPDATE usage_total SET wasted_tokens = 0, wasted_us = 0, wasted_pusd = 0",
        ],
    ),
    "check_p7_sources": (
        "P7",
        "msg is a source key with another sum",
        ["UPDATE usage_source SET output_tokens = output_tokens + 1"],
    ),
    "check_p8_reserved": (
        "P8",
        "done has an attempt that reserves",
        [f"UPDATE attempt SET reserved_tokens = 1 WHERE fence = 1 AND task_pk = {PK.format('done')}"],
    ),
    "the books of a budget": (
        "P8",
        "Agent bea's budget has another spent_pusd",
        ["UPDATE budget SET spent_pusd = spent_pusd + 1 WHERE name = 'bea'"],
    ),
    "the reservations of a budget": (
        "P8",
        "Task held's daily budget has another reserved_tokens",
        ["UPDATE budget SET reserved_tokens = 1 WHERE name = 'held'"],
    ),
    "the bar of a budget": (
        "P8",
        "Task failed's budget has another barred_until_us",
        ["UPDATE budget SET barred_until_us = 0 WHERE name = 'failed'"],
    ),
    "check_p9_values": (
        "P9",
        "a/b/text is an entry whose value",
        ["UPDATE entry_value SET body = NULL WHERE entry_pk = 1"],
    ),
    "check_p9_values that is missing": (
        "P9",
        "a/b/text is an entry whose value",
        ["DELETE FROM entry_value WHERE entry_pk = 1"],
    ),
    "check_p9_values without a type": (
        "P9",
        "/bytes is an entry whose value",
        ["UPDATE entry SET content_type = NULL WHERE pk = 2"],
    ),
    "check_p9_sizes": ("P9", "/bytes is an entry of another size", ["UPDATE entry SET size = 4 WHERE pk = 2"]),
    "check_p9_versions": ("P9", "a/b/text is an entry without", ["UPDATE entry SET version = 0 WHERE pk = 1"]),
    "check_p9_versions there and gone": (
        "P9",
        "/bytes is an entry without",
        ["INSERT INTO entry_tombstone (namespace, key, version) VALUES ('', 'bytes', 1)"],
    ),
    "check_p10_orphans": (
        "P10",
        "done holds paths without an open attempt",
        [f"INSERT INTO hold VALUES ('', 'x', 'x', 'write', {PK.format('done')}, 2)"],
    ),
    "check_p10_lots": (
        "P10",
        "left has a lot",
        ["INSERT INTO lot (workspace, pattern, mode, is_open) VALUES ('', 'left', 'write', 0)"],
    ),
    "check_p10_lots that is open": (
        "P10",
        "src/** has a lot",
        ["INSERT INTO lot (workspace, pattern, mode, is_open) VALUES ('', 'src/**', 'write', 1)"],
    ),
    "an overlap": (
        "P10",
        "elsewhere and held hold src/a and src/** at once",
        [
            f"INSERT INTO hold VALUES ('', 'src/a', 'src/a', 'read', {PK.format('elsewhere')}, 1)",
            OPEN_ATTEMPT.format(PK.format("elsewhere"), 1),
            "UPDATE task SET state = 'in_progress', fence = 1, charged = 1 WHERE id = 'elsewhere'",
            "UPDATE tally SET pending = 0, in_progress = 1 WHERE plan_pk = 2",
        ],
    ),
    "check_p11_attempts": (
        "P11",
        "held has an attempt whose times",
        [f"UPDATE attempt SET heartbeat_us = started_us - 1 WHERE task_pk = {PK.format('held')}"],
    ),
    "check_p11_attempts that ended without an outcome": (
        "P11",
        "held has an attempt whose times",
        [f"UPDATE attempt SET ended_us = 5 WHERE task_pk = {PK.format('held')}"],
    ),
    "check_p11_attempts whose lease ended before it began": (
        "P11",
        "held has an attempt whose times",
        [f"UPDATE attempt SET lease_expires_us = started_us - 1 WHERE task_pk = {PK.format('held')}"],
    ),
    "check_p11_ended": ("P11", "done is final without", ["UPDATE task SET ended_us = NULL WHERE id = 'done'"]),
    "check_p11_ended the other way": (
        "P11",
        "ready is final without",
        ["UPDATE task SET ended_us = 5 WHERE id = 'ready'"],
    ),
}


@pytest.mark.damaged
@pytest.mark.parametrize("case", DAMAGE)
def test_exactly_the_broken_promise_is_found_and_the_task_named(board, clock, case):
    """The board is sound before, and after the damage only that promise is violated."""
    healthy(board, clock)
    assert violations(board) == {}
    promise, says, statements = DAMAGE[case]
    for statement in statements:
        assert damage(board, statement) >= 1
    found = violations(board)
    assert list(found) == [promise]
    assert says in " ".join(found[promise])


def test_every_rule_is_broken_by_a_test():
    """No check that cannot fail: each statement has a case of its name above."""
    statements = {statement for rules in RULES.values() for statement, _ in rules}
    assert statements <= {case.split()[0] for case in DAMAGE}


def test_every_promise_gets_a_finding(board):
    """In order; what rows cannot show is said to be not observable, with the reason."""
    found = board.check()
    assert [finding.promise for finding in found] == [f"P{number}" for number in range(1, 13)]
    for finding in found:
        assert finding.verdict == ("not observable" if finding.promise in UNOBSERVABLE else "held")
        assert bool(finding.details) == (finding.promise in UNOBSERVABLE)


@pytest.mark.damaged
def test_many_breaches_are_shown_in_part_and_counted(board):
    """Ten are shown."""
    put(board, *[f"t{n:02}" for n in range(25)])
    damage(board, "UPDATE task SET urgency = 9")
    details = violations(board)["P6"]
    assert len(details) == 11
    assert details[-1] == "and 15 more"


OUTSIDE = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as connection:
    connection.execute("UPDATE task SET charged = charged + 1 WHERE id = 'a'")
"""


@pytest.mark.multiproc
def test_damage_done_from_outside_is_found(board_path, clock):
    """By another program, on a board that nobody has open meanwhile."""
    with open_board(board_path, clock) as board:
        put(board, "a")
    subprocess.run([sys.executable, "-c", OUTSIDE, str(board_path)], check=True, timeout=60)
    with open_board(board_path, clock) as board:
        assert list(violations(board)) == ["P3"]


def test_checking_a_board_that_is_worked_on_finds_nothing_wrong(board, clock):
    """It reads one snapshot."""
    healthy(board, clock)
    claimed(board, "ready").split([{"title": "S"}])
    board.pause()
    assert violations(board) == {}
