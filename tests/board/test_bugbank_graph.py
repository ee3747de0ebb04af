"""Public faults of systems like ours, section B of the bug bank: dependencies and graphs."""

import random
from itertools import permutations, product

import pytest

from agentmesh.errors import Busy, CycleRefused, InvalidArgument, NotFound
from tests.support.boards import claimed, done, event_count, kinds, open_board, put, rows, states, violations
from tests.support.clock import TurnableClock
from tests.support.faults import Raiser
from tests.support.processes import barrier, results

TABLES = ("task", "edge", "attempt", "hold", "note", "result", "body", "task_tag")


def ready(board):
    """The ids of the ready list, but for those that are paused."""
    return {task.id for task in board.list_tasks(state="pending", limit=500).tasks if not task.paused}


def test_b1_the_ready_list_holds_the_blocker_not_the_blocked(board):
    """beads#544, gascity#806: A needs B: B is ready; when B is done, A is."""
    put(board, "B", "A: B")
    assert ready(board) == {"B"}
    done(board, "B")
    assert ready(board) == {"A"}


@pytest.mark.parametrize("seed", range(8))
def test_b2_list_counts_claims_and_explanations_agree_on_readiness(board, clock, seed):
    """beads#587, #6630, Agent-MCP#23: on random boards one rule decides everywhere."""
    chance = random.Random(seed)
    for number in range(40):
        parents = [f"t{n}:{chance.choice(['completed', 'finished'])}" for n in range(number) if chance.random() < 0.06]
        board.create_task("T", id=f"t{number}", depends_on=parents, priority=chance.randrange(5))
    for _ in range(12):
        if claim := board.claim_task("x"):
            chance.choice([claim.complete, claim.release, lambda c=claim: c.fail("x"), lambda: None])()
        clock.advance(chance.randrange(90))
    board.reclaim_zombies()
    claim = board.claim_task("last")
    listed = ready(board)
    assert board.status().counts["pending"] - board.status().paused_tasks == len(listed)
    explained = {cause.task_id for cause in board.explain().causes if cause.kind == "ready"}
    assert explained <= listed
    assert {task_id for task_id in listed if board.explain(task_id).causes[0].kind == "ready"} == listed
    assert board.has_work(agent_id="fresh") == bool(listed)
    handed = set()
    while claim := board.claim_task("fresh"):
        handed.add(claim.task.id)
    assert handed == listed


@pytest.mark.parametrize("point", ["begin", "do:add_edge", "do:add_event", "commit"])
def test_b4_a_creation_that_was_tried_twice_is_as_one_that_was_not(tmp_path, clock, point):
    """From rq PR#1615: the store is busy once, in the middle; the second try leaves the board as if it had not been."""
    found = []
    for name, probe in [("calm.db", None), ("busy.db", Raiser(point, Busy("once"), n=2))]:
        with open_board(tmp_path / name, clock, probe=probe) as board:
            put(board, "p")
            specs = [
                {"title": "a", "id": "a", "depends_on": ["p"]},
                {"title": "b", "id": "b", "depends_on": ["a", "p"]},
            ]
            try:
                board.create_tasks(specs)
            except Busy:
                board.create_tasks(specs)
            done(board, "p")
            assert violations(board) == {}
            found.append([states(board), board.edges(), kinds(board), board.status()])
    assert found[0] == found[1]
    assert found[0][0] == {"p": "completed", "a": "pending", "b": "blocked"}


def test_b5_an_unknown_parent_is_an_error_and_an_unstarted_one_holds(board):
    """rq#2275: neither is ever taken for satisfied."""
    with pytest.raises(NotFound) as caught:
        board.create_task("T", depends_on=["nowhere"])
    assert (caught.value.name, event_count(board)) == ("nowhere", 0)
    board.create_task("Later", id="later", not_before="2026-01-02T00:00:00Z")
    put(board, "a: later")
    assert states(board)["a"] == "blocked"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_b7_a_join_over_any_number_of_tasks_fires(board, count):
    """celery#4333, #3597: over none it is ready at once, over one and two when they are done."""
    names = [f"p{n}" for n in range(count)]
    put(board, *names)
    board.create_task("Join", id="join", depends_on=names)
    for name in names:
        assert states(board)["join"] == "blocked"
        done(board, name)
    assert states(board)["join"] == "pending"
    assert board.claim_task("x").task.id == "join"


def test_b8_a_join_waits_for_a_member_that_is_tried_again(board, clock):
    """celery#1401, #2324, #2405: it fires after the success, once."""
    put(board, "p", "q", "join: p q")
    done(board, "q")
    claimed(board, "p").fail("x")
    assert states(board)["join"] == "blocked"
    clock.advance(10)
    assert states(board)["join"] == "blocked"
    done(board, "p")
    assert board.claim_task("x").task.id == "join"
    assert not board.claim_task("y")


def test_b10_a_removed_edge_closes_no_circle(board):
    """beads_rust#142: no false cycle, and no node stays poisoned; a real one is refused."""
    put(board, "A", "B", "C")
    board.add_dependency("A", "B")
    board.add_dependency("B", "C")
    board.remove_dependency("A", "B")
    board.add_dependency("C", "A")
    with pytest.raises(CycleRefused):
        board.add_dependency("A", "B")
    assert set(board.edges()) == {("B", "C", "completed"), ("C", "A", "completed")}


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_b11_a_loop_of_mixed_edges_is_refused_in_any_order(board, order):
    """From beads PR#6148: edges that wait for other ends; the last one is refused, whichever it is."""
    put(board, "a", "b", "c", "d")
    edges = [("a", "b", "completed"), ("b", "c", "failed"), ("c", "d", "finished"), ("d", "a", "completed")]
    for place in order[:3]:
        child, parent, condition = edges[place]
        board.add_dependency(child, parent, condition=condition)
    child, parent, condition = edges[order[3]]
    with pytest.raises(CycleRefused):
        board.add_dependency(child, parent, condition=condition)


def test_b11_a_split_closes_no_loop(board):
    """From beads PR#6148: no subtask waits for what waits for the task; nothing of such a split stays."""
    put(board, "a", "b: a:finished")
    claim = claimed(board, "a")
    with pytest.raises(CycleRefused):
        claim.split([{"title": "S", "id": "s", "depends_on": ["b"]}])
    assert set(states(board)) == {"a", "b"}


def tie(line, path, rounds, start, number):
    """Add an edge in each round, one process A to B and the other B to A; say whether it was taken."""
    child, parent = "ab" if number else "ba"
    with open_board(path, TurnableClock(), seed=number) as board:
        got = []
        for turn in range(rounds):
            start.wait()
            try:
                board.add_dependency(f"{child}{turn}", f"{parent}{turn}")
                got.append(True)
            except CycleRefused:
                got.append(False)
        line.send(got)


@pytest.mark.multiproc
def test_b13_two_edges_that_close_a_circle_are_never_both_taken(board_path, clock):
    """Two processes add A to B and B to A at once, a thousand times: exactly one is accepted each time."""
    with open_board(board_path, clock) as board:
        board.create_tasks([{"title": "T", "id": f"{name}{n}"} for name, n in product("ab", range(1000))])
        one, two = results(2, tie, board_path, 1000, barrier(2))
        assert [mine != theirs for mine, theirs in zip(one, two, strict=True)] == [True] * 1000
        assert len(board.edges()) == 1000
        assert violations(board) == {}


COMMANDS = {
    "cancel_plan": lambda board: board.cancel_plan("x"),
    "apply_plan": lambda board: board.apply_plan({"plan": "x", "tasks": [{"id": "x1", "title": "New"}]}),
    "create_tasks": lambda board: board.create_tasks([{"title": "T"}], plan="x"),
    "cancel_task": lambda board: board.cancel_task("x1"),
    "update_task": lambda board: board.update_task("x2", priority=9, tags=["n"], writes=["g"]),
    "claim_task": lambda board: board.claim_task("a", plan="x").complete(),
    "add_dependency": lambda board: board.add_dependency("x1", "x3"),
    "remove_dependency": lambda board: board.remove_dependency("x2", "x1"),
    "pause": lambda board: board.pause(plan="x"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_b14_a_command_on_one_plan_leaves_the_rows_of_others_as_they_are(board, command):
    """claude-task-master#1636: byte by byte, whatever is repaired, cancelled or applied next door."""
    for plan in "yx":
        put(board, f"{plan}1", f"{plan}2: {plan}1", f"{plan}3", plan=plan, tags=["t"], writes=[plan])
    claimed(board, "y3").note("hello")
    mine = (
        f"SELECT pk FROM task WHERE plan_pk = {rows(board, 'SELECT pk FROM plan WHERE name = :name', name='y')[0][0]}"
    )

    def others():
        keys = {"task": "pk", "edge": "child_pk"}
        return {
            table: rows(board, f"SELECT * FROM {table} WHERE {keys.get(table, 'task_pk')} IN ({mine})")
            for table in TABLES
        }

    before = others()
    COMMANDS[command](board)
    assert others() == before


@pytest.mark.parametrize("wrong", [None, "", 0, 7, True, 1.5, {}, {"id": 1}, "a", [None], [""], [[]], [{}], b"a"])
def test_b16_a_dependencies_argument_of_any_kind_is_understood_or_refused(board, wrong):
    """claude-task-master#811, #159: left out and None are none; everything else is named in an error."""
    put(board, "a")
    if wrong is None:
        assert board.create_task("T", depends_on=None).state == board.create_task("T").state == "pending"
        return
    before = event_count(board)
    with pytest.raises(InvalidArgument) as caught:
        board.create_task("T", depends_on=wrong)
    assert (caught.value.field, event_count(board)) == ("depends_on", before)


@pytest.mark.parametrize("verb", ["add_dependency", "remove_dependency"])
@pytest.mark.parametrize("wrong", [None, "", 0, True, ["a"], {"id": "a"}, b"a"])
def test_b16_an_edge_argument_of_any_kind_is_refused(board, verb, wrong):
    """claude-task-master#811, #159: never a crash, never a write."""
    put(board, "a", "b")
    for arguments in [("a", wrong), (wrong, "a")]:
        with pytest.raises(InvalidArgument):
            getattr(board, verb)(*arguments)
    assert event_count(board) == 2


ENDS = ["completed", "failed", "cancelled", "open"]
MET = {
    "completed": {"completed"},
    "failed": {"failed"},
    "finished": {"completed", "failed", "cancelled"},
}


def bring_to(board, task_id, end):
    """Let a task end so."""
    if end == "completed":
        done(board, task_id)
    elif end == "failed":
        claimed(board, task_id).fail("x", retry=False)
    elif end == "cancelled":
        board.cancel_task(task_id)


@pytest.mark.parametrize("ends", list(product(ENDS, repeat=2)), ids="-".join)
@pytest.mark.parametrize("conditions", list(product(MET, repeat=2)), ids="-".join)
def test_b17_two_parents_make_of_a_child_what_the_table_says(board, conditions, ends):
    """airflow#11768, #55187, PR#7464: conditions times ends, in the order in which they come."""
    put(board, "p", "q", f"c: p:{conditions[0]} q:{conditions[1]}")
    for parent, end in zip("pq", ends, strict=True):
        bring_to(board, parent, end)
    verdicts = [
        "waits" if end == "open" else "met" if end in MET[condition] else "never"
        for condition, end in zip(conditions, ends, strict=True)
    ]
    expected = "cancelled" if "never" in verdicts else "blocked" if "waits" in verdicts else "pending"
    assert states(board)["c"] == expected


def test_b19_a_worker_is_told_to_wait_while_others_work_on_what_it_needs(board):
    """luigi#3049: "stop" comes when everything is final, not when nothing is left for this one."""
    put(board, "a", "b: a")
    claim = claimed(board, "a", "elsewhere")
    assert board.claim_task("x").advice == "wait"
    claim.complete()
    last = board.claim_task("x")
    assert board.claim_task("y").advice == "wait"
    last.complete()
    assert board.claim_task("y").advice == "stop"


def test_b20_changes_of_one_instant_are_all_applied_in_their_order(board):
    """luigi#2824: no change is ignored for coming too soon after another; the sequence counts, not the time."""
    put(board, "a", "b: a")
    for _ in range(3):
        done(board, "a")
        board.reopen_task("a")
    assert states(board) == {"a": "pending", "b": "blocked"}
    assert kinds(board).count("task_completed") == kinds(board).count("task_reopened") == 3


def test_b22_a_task_with_many_blockers_and_a_deep_chain_is_no_trouble(board):
    """Shapes seen in the wild: eleven blockers, eleven deep; the big ones are in test_big_shapes.py."""
    put(board, "t0", *[f"t{n}: " + " ".join(f"t{m}" for m in range(n)) for n in range(1, 12)])
    for number in range(12):
        claim = board.claim_task("x")
        assert (claim.task.id, len(claim.dependencies)) == (f"t{number}", number)
        claim.complete()
    assert board.claim_task("x").reason == "done"


@pytest.mark.parametrize("seed", range(3))
def test_random_graphs_never_hold_a_circle(board, seed):
    """Whatever edges are asked for in whatever order, what is refused is exactly what would close a circle."""
    chance = random.Random(seed)
    put(board, *[f"t{n}" for n in range(12)])
    above = {f"t{n}": set() for n in range(12)}

    def leads_to(start, target):
        return start == target or any(leads_to(parent, target) for parent in above[start])

    for _ in range(120):
        child, parent = f"t{chance.randrange(12)}", f"t{chance.randrange(12)}"
        if leads_to(parent, child):
            with pytest.raises(CycleRefused):
                board.add_dependency(child, parent)
        else:
            board.add_dependency(child, parent)
            above[child].add(parent)
    assert {(child, parent) for child, parent, _ in board.edges()} == {(c, p) for c in above for p in above[c]}
