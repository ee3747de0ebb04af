"""What a hot call reads does not grow with the board: by query plan, by pages written, by steps taken."""

import re

import pytest

from tests.support.boards import open_board, reader_of
from tests.support.clock import TurnableClock
from tests.support.faults import Recorder

GROWING = {
    "agent",
    "attempt",
    "aversion",
    "body",
    "edge",
    "entry",
    "entry_tombstone",
    "entry_value",
    "event",
    "hold",
    "lot",
    "note",
    "pool",
    "request",
    "result",
    "task",
    "task_tag",
    "task_tombstone",
    "usage_entry",
    "usage_source",
}
"""Tables with a row per task, edge, agent or call. Plans, capability sets, tallies and pauses stay few."""

COLD = {
    "agents": "explain() asks what the agents of the last hour can do",
    "all_holds": "check()",
    "count_attempts": "doctor()",
    "count_entries": "stats() of the blackboard, doctor()",
    "count_kept": "doctor()",
    "sum_attempts": "a report was asked to count the attempts",
    "sum_entries": "a report by task or attempt",
    "edges_of_plan": "a whole graph was asked for",
    "export_counts": "the head of an export, on a copy of its own",
    "event_bounds": "one row from either end",
    "frontier": "explain() on the whole board",
    "list_held": "a page of a listing, found by the open attempts",
    "list_tagged": "a page of a listing",
    "list_tasks": "a page of a listing",
    "newest_instant": "doctor()",
    "open_tasks_of_plan": "cancel_plan() changes them all",
    "pick_tagged": "a claim by tag costs more the more tasks carry the tag; picking.py says so",
    "roots_of": "explain() on one task walks up the graph",
}
"""Statements that may read much, each with the reason; those of check() and of an import read everything by design."""

FINE = {
    ("pulse", "SCAN attempt USING INDEX attempt_due"): "the first row of a partial index",
    ("pulse", "SCAN task USING COVERING INDEX task_scheduled"): "the first row of a partial index",
    ("pulse", "SCAN pool USING INDEX pool_ready"): "the first row of a partial index",
    ("pulse", "SCAN lot USING COVERING INDEX lot_open"): "the first row of a partial index",
    ("open_lots", "SCAN lot USING COVERING INDEX lot_open"): "a partial index over lots that are about to go",
    ("entries_due", "SCAN event"): "the newest event, one row",
    ("find_entry", "SCAN event"): "the newest event, one row",
    ("sweep_requests", "SCAN event"): "the newest event, one row",
    ("own_open_attempts", "SCAN attempt USING INDEX attempt_due"): "a partial index over what is worked on, on resume",
    ("own_open_attempts", "USE TEMP B-TREE FOR ORDER BY"): "the open attempts of one agent",
    ("reserved_of_scope", "SCAN attempt USING INDEX attempt_due"): "a partial index over what is worked on, for set()",
    ("sum_totals", "USE TEMP B-TREE FOR GROUP BY"): "the totals stay few",
    ("sum_pruned_attempts", "USE TEMP B-TREE FOR GROUP BY"): "the totals stay few",
    ("sum_pruned", "USE TEMP B-TREE FOR GROUP BY"): "the totals stay few",
    ("usage_of_task_after", "USE TEMP B-TREE FOR ORDER BY"): "the entries of one task",
    ("waste_usage", "USE TEMP B-TREE FOR GROUP BY"): "the entries of one attempt",
    ("budgets_before", "USE TEMP B-TREE FOR ORDER BY"): "budgets stay few",
    ("budgets_over", "USE TEMP B-TREE FOR ORDER BY"): "eight budgets at most",
    ("holds_below", "USE TEMP B-TREE FOR GROUP BY"): "the patterns held below one folder",
    ("kin_of", "USE TEMP B-TREE FOR ORDER BY"): "the children of one task that is pruned",
    ("roll_up_usage", "USE TEMP B-TREE FOR GROUP BY"): "the entries of one task that is pruned",
    ("roll_up_attempts", "USE TEMP B-TREE FOR GROUP BY"): "the attempts of one task that is pruned",
}


def is_cold(name):
    """Whether a statement is known to read much."""
    return name in COLD or name.startswith(("check_", "derive_"))


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    """A board with something in every table."""
    with open_board(tmp_path_factory.mktemp("plans") / "board.db", TurnableClock()) as board:
        specs = [{"title": "t", "id": f"t{n}", "priority": n % 7} for n in range(300)]
        for number, spec in enumerate(specs):
            if number % 3 == 1:
                spec["depends_on"] = [f"t{number - 1}"]
            if number % 5 == 0:
                spec |= {"writes": [f"src/{number % 40}/**"], "tags": ["x"]}
            if number % 4 == 0:
                spec["requires"] = ["python"]
            if number % 11 == 0:
                spec["not_before"] = 4_102_444_800
        board.create_tasks(specs, request_id="r")
        for number in range(300):
            board.blackboard.put(f"n{number % 7}/m{number % 5}", f"k{number}", number, ttl_sec=(number % 2 + 1) * 600)
            if number % 10 == 0:
                board.blackboard.delete(f"n{number % 7}/m{number % 5}", f"k{number}")
        for number in range(40):
            claim = board.claim_task(f"a{number % 5}", capabilities=["python"])
            [claim.complete, claim.release, lambda claim=claim: claim.note("n"), lambda: None][number % 4]()
            board.ledger.record(lease=claim.lease, model=f"m{number % 3}", output_tokens=number + 1)
        board.budgets.set(usd=100)
        yield board


def plan_of(board, name):
    """What SQLite says it will do for a statement."""
    sql = board.store.statements[name]
    parameters = dict.fromkeys(re.findall(r":(\w+)", sql), 1)
    return [row[3] for row in board.store._writer.execute("EXPLAIN QUERY PLAN " + sql, parameters)]


def tables_of(sql):
    """The names under which a statement knows growing tables."""
    used = re.findall(r"(?:FROM|JOIN|INTO|UPDATE)\s+(\w+)(?:\s+AS\s+(\w+))?", sql)
    views = {"task_view": {"task", "attempt", "pool"}}
    return {alias or table for table, alias in used if table in GROWING} | {
        name for table, _ in used for name in views.get(table, ())
    }


def test_no_hot_statement_reads_a_whole_table(furnished):
    """Nor sorts one: it finds what it needs by an index, in the order in which it needs it."""
    found = {}
    for name, sql in furnished.store.statements.items():
        if not sql or is_cold(name):
            continue
        growing = tables_of(sql)
        for step in plan_of(furnished, name):
            scanned = re.match(r"SCAN (\w+)", step)
            heavy = (scanned and scanned[1] in growing) or "TEMP B-TREE" in step or "AUTOMATIC" in step
            if heavy and (name, step) not in FINE:
                found.setdefault(name, []).append(step)
    assert found == {}


def test_the_exceptions_are_needed(furnished):
    """What has become fast is taken off the list."""
    assert [key for key in FINE if key[1] not in plan_of(furnished, key[0])] == []
    assert [name for name in COLD if name not in furnished.store.statements] == []


HOT = {
    "create": lambda board: board.create_task("t", depends_on=["t0"], writes=["a/b"], requires=["python"], tags=["x"]),
    "claim": lambda board: board.claim_task("w", capabilities=["python"]),
    "claim by id": lambda board: board.claim_task("w", task_id="named"),
    "claim nothing": lambda board: board.claim_task("w", plan="empty"),
    "resume": lambda board: board.claim_task("w", resume=True),
    "heartbeat": lambda board: board.claim_task("w").heartbeat(),
    "complete": lambda board: board.claim_task("w").complete({"a": 1}),
    "fail": lambda board: board.claim_task("w").fail("x"),
    "fail for good": lambda board: board.claim_task("w", task_id="named").fail("x", retry=False),
    "release": lambda board: board.claim_task("w").release(),
    "split": lambda board: board.claim_task("w").split([{"title": "s"}]),
    "hold": lambda board: board.claim_task("w").hold_paths(writes=["q/r"]),
    "note": lambda board: board.claim_task("w").note("n"),
    "cancel": lambda board: board.cancel_task("named"),
    "reopen": lambda board: (board.cancel_task("named"), board.reopen_task("named", cascade=True)),
    "edge": lambda board: (board.add_dependency("after", "t1"), board.remove_dependency("after", "t1")),
    "update": lambda board: board.update_task("named", priority=9, tags=["y"]),
    "reclaim": lambda board: (board.claim_task("w"), board.store.clock.advance(100), board.reclaim_zombies()),
    "promote": lambda board: (board.store.clock.advance(700), board.claim_task("w")),
    "status": lambda board: board.status(),
    "events": lambda board: board.events(1, limit=5),
    "has_work": lambda board: board.has_work(capabilities=["python"]),
    "get": lambda board: board.get_task("named"),
    "put entry": lambda board: (board.blackboard.put("a", "k", 1, ttl_sec=1), board.blackboard.put("a", "k", 2)),
    "get entry": lambda board: board.blackboard.get("a", "k"),
    "list entries": lambda board: board.blackboard.list("a", prefix="k", limit=5),
    "increment entry": lambda board: (board.blackboard.increment("a", "n"), board.blackboard.increment("a", "n")),
    "append entry": lambda board: (board.blackboard.append("a", "l", 1), board.blackboard.append("a", "l", 2)),
    "delete entry": lambda board: (board.blackboard.put("a", "k", 1), board.blackboard.delete("a", "k")),
    "record": lambda board: board.ledger.record("w", output_tokens=1, request_id="r"),
    "record by lease": lambda board: board.ledger.record(lease=board.claim_task("w"), output_tokens=1, cost_usd=1),
    "record by task": lambda board: board.ledger.record("w", task_id="named", output_tokens=1),
    "report": lambda board: board.ledger.report("agent", since="2026-01-01"),
    "set a budget": lambda board: (board.budgets.set(task_id="named", usd=1), board.budgets.set(usd=9)),
    "claim under budgets": lambda board: (
        board.budgets.set(usd=1),
        board.budgets.set(plan="default", tokens=1, period="day"),
        board.claim_task("w").complete(),
    ),
    "claim under a cap": lambda board: (board.set_claim_cap(1), board.claim_task("w"), board.claim_task("w")),
    "storm": lambda board: [board.claim_task("w").fail("x", kind="infra") for _ in range(5)],
    "sweep entries": lambda board: (
        board.blackboard.put("a", "k", 1, ttl_sec=1),
        board.store.clock.advance(1),
        board.blackboard.put("a", "other", 1),
        board.blackboard.put("a", "other", 2),
    ),
}


@pytest.mark.parametrize("call", HOT)
def test_a_hot_call_runs_no_cold_statement(board_path, clock, call):
    """What agents call all day keeps away from the statements that may read much."""
    seen = Recorder()
    with open_board(board_path, clock, probe=seen) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(5)])
        board.create_task("t", id="named", priority=-1)
        board.create_task("t", id="after", depends_on=["named"])
        board.create_task("t", id="later", not_before=clock.now_us() / 1e6 + 600)
        board.create_task("t", id="paths", writes=["z/**"], priority=5)
        seen.points.clear()
        HOT[call](board)
    run = {point.removeprefix("do:") for point in seen.points if point.startswith("do:")}
    assert run
    assert {name for name in run if is_cold(name)} <= {"event_bounds"}


@pytest.mark.parametrize(
    ("fields", "most"), [({}, 16), ({"tags": ["x"], "requires": ["py"]}, 16), ({"writes": ["a/**"]}, 20)]
)
def test_a_claim_and_its_end_write_few_pages(board_path, clock, fields, most):
    """Dirty pages are most of what a commit costs: sixteen for the pair, a few more where paths are held."""
    pages = []
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": f"t {n}", "description": "d" * 2000, **fields} for n in range(1000)])
        writer = board.store._writer
        writer.wal_checkpoint(mode=3)
        writer.set_wal_hook(lambda _connection, _name, length: pages.append(length) or 0)
        for number in range(200):
            board.claim_task(f"agent-{number % 4}", capabilities=["py"]).complete({"done": True, "files": ["a.py"]})
        assert len(pages) == 400
        assert pages[-1] / 200 <= most


def steps(board, act):
    """How many instructions SQLite's machine runs for an act, on whatever machine and however busy it is."""
    count = 0

    def tick():
        nonlocal count
        count += 1
        return False

    with reader_of(board.store) as reader:
        connections = (board.store._writer, reader)
    for connection in connections:
        connection.set_progress_handler(tick, 1)
    act()
    for connection in connections:
        connection.set_progress_handler(None, 1)
    return count


def many(board, **fields):
    """Six hundred tasks of a kind."""
    return [task.id for task in board.create_tasks([{"title": "t", "plan": "ballast", **fields}] * 600)]


def _completed(board):
    many(board)
    for _ in range(600):
        board.claim_task("x", plan="ballast").complete({"a": 1})


def _failed(board):
    many(board)
    for _ in range(600):
        board.claim_task("x", plan="ballast").fail("x", retry=False)


def _blocked(board):
    board.create_task("t", id="gate", requires=["a-key"], plan="ballast")
    many(board, depends_on=["gate"])


def _parked(board):
    board.create_task("t", id="wide", plan="ballast", priority=9, writes=["src/**"])
    assert board.claim_task("x", plan="ballast").task.id == "wide"
    specs = [{"title": "t", "plan": "ballast", "priority": 8, "writes": [f"src/{n}"]} for n in range(600)]
    board.create_tasks(specs)
    assert not board.claim_task("x", plan="ballast")


def _one_pool(board):
    board.create_task("t", id="wide", plan="ballast", priority=9, writes=["src/**"])
    assert board.claim_task("x", plan="ballast").task.id == "wide"
    many(board, writes=["src/a"], priority=8)
    assert not board.claim_task("x", plan="ballast")


def _spent_pools(board):
    board.create_tasks([{"title": "t", "plan": "ballast", "writes": [f"old/{n}"]} for n in range(600)])
    board.cancel_plan("ballast")


def _held(board):
    board.create_tasks([{"title": "t", "plan": "ballast", "writes": [f"held/{n}"]} for n in range(600)])
    for _ in range(600):
        assert board.claim_task("x", plan="ballast")


def _plans(board):
    board.create_tasks([{"title": "t", "plan": f"p{n}", "priority": -1} for n in range(600)])


def _requests_and_events(board):
    board.create_task("t", id="noted", plan="ballast")
    claim = board.claim_task("x", plan="ballast")
    for number in range(600):
        claim.note("n", request_id=f"r{number}")


BALLAST = {
    "completed": _completed,
    "failed": _failed,
    "for other agents": lambda board: many(board, requires=["another-skill"], priority=9),
    "blocked": _blocked,
    "scheduled": lambda board: many(board, not_before=4_102_444_800, priority=9),
    "less urgent": lambda board: many(board, priority=-1),
    "tagged": lambda board: many(board, tags=["x", "y"], priority=-1),
    "parked behind a held path": _parked,
    "parked in one pool": _one_pool,
    "with spent paths": _spent_pools,
    "holding paths": _held,
    "plans": _plans,
    "requests, notes and events": _requests_and_events,
}


def pair(board):
    """Claim, renew, complete: what an agent does all day."""
    claim = board.claim_task("a")
    claim.heartbeat()
    claim.complete({"a": 1})


@pytest.mark.parametrize("ballast", BALLAST)
def test_nothing_on_a_board_slows_a_claim_down(board_path, clock, ballast):
    """Six hundred tasks that this claim does not get cost it next to nothing; steps are counted, not seconds."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}"} for n in range(10)])
        pair(board)
        before = steps(board, lambda: pair(board))
        BALLAST[ballast](board)
        pair(board)
        assert steps(board, lambda: pair(board)) < before * 1.3


def _usage(board):
    many(board)
    for _ in range(60):
        claim = board.claim_task("x", plan="ballast")
        for model in "klmnopqrst":
            board.ledger.record(lease=claim, model=model, output_tokens=1)
        claim.fail("x", kind="infra", retry=False)
        board.store.clock.advance(61)


def _budgets(board):
    board.create_tasks([{"title": "t", "id": f"b{n}", "plan": f"plan-{n % 10}", "priority": -1} for n in range(600)])
    for number in range(600):
        board.budgets.set(agent=f"agent-{number}", usd=9)
        board.budgets.set(task_id=f"b{number}", usd=9)
    for number in range(10):  # each costs a claim a glance
        board.budgets.set(plan=f"plan-{number}", usd=9)
        board.cancel_plan(f"plan-{number}")


ACCOUNTS = {**{name: BALLAST[name] for name in ("completed", "less urgent")}, "usage": _usage, "budgets": _budgets}


@pytest.mark.parametrize("ballast", ACCOUNTS)
def test_nothing_on_a_board_slows_an_entry_or_a_claim_under_budgets_down(board_path, clock, ballast):
    """Entries, budgets and tasks of others: claim, tell the usage, fail, with five budgets over it."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "t", "id": f"t{n}", "estimate_usd": 1, "priority": 1} for n in range(10)])
        for key in ({}, {"plan": "default"}, {"agent": "a"}, {"task_id": "t9"}, {"task_id": "t8"}):
            board.budgets.set(usd=1_000, tokens=10**9, **key)

        def work():
            claim = board.claim_task("a")
            board.ledger.record(lease=claim, output_tokens=5, cost_usd="0.5")
            claim.fail("x", kind="infra", retry=False)

        work()
        before = steps(board, work)
        ACCOUNTS[ballast](board)
        work()
        assert steps(board, work) < before * 1.3


def test_ending_a_task_costs_its_children_and_no_more(board_path, clock):
    """A countdown for each: twice as many children cost twice as much, the rest of the graph costs nothing."""
    with open_board(board_path, clock) as board:

        def run(name, width):
            board.create_task("t", id=name)
            board.create_tasks([{"title": "t", "depends_on": [name], "priority": -5}] * width)
            return steps(board, board.claim_task("a", task_id=name).complete)

        few, lots = run("few", 20), run("lots", 200)
        assert lots < few * 10
        assert run("few-again", 20) < few * 1.1
