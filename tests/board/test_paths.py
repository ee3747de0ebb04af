"""Paths: no two running attempts hold overlapping patterns; who waits for one is found again when it is free."""

import pytest
from hypothesis import given, settings, strategies as st

from agentmesh.errors import PathsHeld
from agentmesh.patterns import conflict, normalised
from tests.support.boards import claimed, event_count, open_board, put, rows, states, violations
from tests.support.clock import TurnableClock


def lots(board):
    """The lots of the board: pattern -> whether it is open."""
    return dict(rows(board, "SELECT pattern, is_open FROM lot"))


def parked(board):
    """How many pools wait in lots."""
    return rows(board, "SELECT COUNT(*) FROM pool WHERE lot_pk IS NOT NULL")[0][0]


@pytest.mark.parametrize(
    ("held", "wanted", "mode", "free"),
    [
        ("f", "f", "writes", False),
        ("src/**", "src/a.py", "writes", False),
        ("src/", "src/deep/er/a.py", "writes", False),
        ("src/a.py", "src/**", "writes", False),
        ("*", "a", "writes", False),
        ("**", "x/y", "writes", False),
        ("a/*/c", "a/b/*", "writes", False),
        ("src", "src2", "writes", True),
        ("src/**", "src2/a", "writes", True),
        ("a/*", "a/b/c", "writes", True),
        ("*.py", "*.md", "writes", True),
        ("f", "F", "writes", True),
        ("f", "f", "reads", False),
        ("src/**", "src/a", "reads", False),
    ],
)
def test_a_task_waits_exactly_while_a_held_pattern_overlaps(board, held, wanted, mode, free):
    """Write against write, write against read; apart they run side by side."""
    put(board, "a", writes=[held])
    put(board, "b", **{mode: [wanted]})
    claim = claimed(board, "a")
    answer = board.claim_task("x")
    assert (answer.task.id == "b") if free else (answer.reason == "paths_held")
    claim.complete()
    assert free or board.claim_task("x").task.id == "b"


def test_readers_share_a_path_and_a_writer_waits_for_all_of_them(board):
    """Two read, one writes: the writer goes when the last reader has."""
    put(board, "r1", "r2", reads=["f"])
    put(board, "w", writes=["**"])
    claims = [board.claim_task("x"), board.claim_task("y")]
    assert [claim.task.id for claim in claims] == ["r1", "r2"]
    assert not board.claim_task("z")
    claims[0].complete()
    assert not board.claim_task("z")
    claims[1].complete()
    assert board.claim_task("z").task.id == "w"


def test_a_reader_waits_for_a_writer(board):
    """What is being written is not read."""
    put(board, "w", writes=["f"])
    put(board, "r", reads=["f"])
    claim = board.claim_task("x")
    assert not board.claim_task("y")
    claim.release()
    assert board.claim_task("y").task.id == "w"


def test_a_task_without_paths_waits_for_none(board):
    """Whatever is held."""
    put(board, "a", writes=["**"])
    put(board, "b")
    board.claim_task("x")
    assert board.claim_task("y").task.id == "b"


def test_plans_with_workspaces_of_their_own_do_not_meet(board):
    """The same pattern in two workspaces is two places; in the shared one it is one."""
    for plan, workspace in [("one", "/repo/1"), ("two", "/repo/2"), ("three", "/repo/2")]:
        board.apply_plan({"plan": plan, "workspace": workspace, "tasks": [{"id": plan, "title": "T", "writes": ["f"]}]})
    assert board.claim_task("x", task_id="one")
    assert board.claim_task("x", task_id="two")
    assert board.claim_task("x", task_id="three").reason == "paths_held"


def test_plans_without_a_workspace_share_one(board):
    """The default."""
    put(board, "a", plan="one", writes=["f"])
    put(board, "b", plan="two", writes=["f"])
    assert board.claim_task("x").task.id == "a"
    assert board.claim_task("y").reason == "paths_held"


@pytest.mark.parametrize("end", ["complete", "fail", "release", "split", "cancel", "reclaim", "cancel_plan"])
def test_every_end_of_an_attempt_frees_its_paths(board, clock, end):
    """Those of the task and those that were added; who waited is offered again."""
    put(board, "a", writes=["f"], plan="p")
    put(board, "b", writes=["f"])
    put(board, "c", writes=["g/x"])
    claim = claimed(board, "a")
    claim.hold_paths(writes=["g/**"])
    assert not board.claim_task("x")
    ends = {
        "complete": claim.complete,
        "fail": lambda: claim.fail("x"),
        "release": claim.release,
        "split": lambda: claim.split([{"title": "s", "requires": ["nobody"]}]),
        "cancel": lambda: board.cancel_task("a"),
        "cancel_plan": lambda: board.cancel_plan("p"),
        "reclaim": lambda: (clock.advance(60), board.reclaim_zombies()),
    }
    ends[end]()
    assert rows(board, "SELECT COUNT(*) FROM hold") == [(0,)]
    board.pause(plan="p")
    assert [board.claim_task("x").task.id, board.claim_task("y").task.id] == ["b", "c"]


def test_a_waiting_pool_is_looked_at_once_however_many_tasks_are_in_it(board):
    """It is parked with the pattern that is in its way, so the next claim does not meet it."""
    put(board, "holder", writes=["src/**"])
    put(board, *[f"t{n}" for n in range(30)], writes=["src/a"])
    put(board, *[f"u{n}" for n in range(30)], writes=["src/b"])
    put(board, "free")
    claimed(board, "holder")
    assert board.claim_task("x").task.id == "free"
    assert not board.claim_task("x")
    assert (lots(board), parked(board)) == ({"src/**": 0}, 2)


def test_a_parked_pool_costs_a_claim_nothing(board_path, clock):
    """A claim that is given another task runs no statement about what is parked."""
    seen = []

    class Probe:
        def reached(self, point):
            seen.append(point)

    with open_board(board_path, clock, probe=Probe()) as board:
        put(board, "holder", writes=["src/**"])
        put(board, *[f"t{n}" for n in range(50)], writes=["src/a"])
        claimed(board, "holder")
        assert not board.claim_task("x")
        put(board, "free")
        seen.clear()
        assert board.claim_task("x").task.id == "free"
        assert not {"do:holds_at", "do:holds_below", "do:park_pool", "do:parked_pools"} & set(seen)


def test_the_lot_opens_when_its_pattern_is_free_and_closes_when_it_is_held_again(board):
    """One row, however many wait in it."""
    put(board, "a", "b", writes=["src/**"])
    put(board, *[f"t{n:02}" for n in range(12)], requires=["slow"])
    for n in range(12):
        board.update_task(f"t{n:02}", writes=[f"src/{n:02}"])
    claim = claimed(board, "a")
    assert not board.claim_task("x", capabilities=["slow"])
    assert (lots(board), parked(board)) == ({"src/**": 0}, 13)
    claim.complete()
    assert lots(board) == {"src/**": 1}
    second = claimed(board, "b")
    assert lots(board) == {"src/**": 0}
    assert board.claim_task("x", capabilities=["slow"]).reason == "paths_held"
    second.complete()
    assert {board.claim_task("x", capabilities=["slow"]).task.id for _ in range(12)} == {f"t{n:02}" for n in range(12)}
    assert (lots(board), parked(board)) == ({}, 0)


def test_more_pools_than_are_parked_at_once_are_parked_all_the_same(board):
    """The claim commits on its way and finds the one task behind three hundred."""
    put(board, "holder", writes=["src/**"])
    board.create_tasks([{"title": "T", "writes": [f"src/{n}"]} for n in range(300)])
    put(board, "free", writes=["docs"])
    claimed(board, "holder")
    assert board.claim_task("x").task.id == "free"
    assert parked(board) == 300


def test_a_pool_behind_two_holds_waits_for_both(board):
    """Freed from the first, it is parked with the second."""
    put(board, "one", writes=["a"])
    put(board, "two", writes=["b"])
    put(board, "both", writes=["a", "b"])
    claims = {name: claimed(board, name) for name in ("one", "two")}
    assert not board.claim_task("x")
    claims["one"].complete()
    assert not board.claim_task("x")
    claims["two"].complete()
    assert board.claim_task("x").task.id == "both"


def test_a_wide_task_waits_behind_narrow_ones_and_goes_in_the_end(board):
    """Nobody is stopped for its sake: that is the documented order."""
    put(board, "n1", writes=["src/1"])
    claim = claimed(board, "n1")
    board.create_task("Wide", id="wide", writes=["src/**"], priority=9)
    put(board, "n2", writes=["src/2"])
    second = board.claim_task("x")
    assert second.task.id == "n2"
    claim.complete()
    assert not board.claim_task("x")
    second.complete()
    assert board.claim_task("x").task.id == "wide"


def test_a_holder_may_hold_more_paths(board):
    """Until its attempt ends, against everybody else."""
    put(board, "a")
    put(board, "b", writes=["db/schema.sql"])
    claim = claimed(board, "a")
    assert claim.hold_paths(writes=["db/"], reads=["docs/"]).id == "a"
    assert not board.claim_task("x")
    event = board.events()[-1]
    assert (event.kind, event.data) == ("paths_held", {"writes": ["db/**"], "reads": ["docs/**"]})


def test_paths_that_another_attempt_holds_are_refused_and_the_holder_named(board):
    """All or none are taken."""
    put(board, "a", "b")
    claimed(board, "a", "ada").hold_paths(writes=["db/**"])
    claim = claimed(board, "b", "bob")
    before = event_count(board)
    with pytest.raises(PathsHeld) as caught:
        claim.hold_paths(writes=["free", "db/x"])
    assert (caught.value.pattern, caught.value.held) == ("db/x", "db/**")
    assert (caught.value.task_id, caught.value.holder) == ("a", "ada")
    assert event_count(board) == before
    assert rows(board, "SELECT pattern FROM hold") == [("db/**",)]


def test_ones_own_paths_are_never_in_ones_way(board):
    """Nor is taking the same one twice."""
    put(board, "a", writes=["src/**"])
    claim = claimed(board, "a")
    claim.hold_paths(writes=["src/a"], reads=["src/**"])
    claim.hold_paths(writes=["src/a"])
    assert rows(board, "SELECT COUNT(*) FROM hold") == [(3,)]


def test_paths_held_in_addition_close_a_lot_as_well(board):
    """A pattern that somebody waited for is held again by `hold_paths`."""
    put(board, "a", writes=["src/**"])
    put(board, "b")
    put(board, *[f"t{n}" for n in range(10)])
    for n in range(10):
        board.update_task(f"t{n}", writes=[f"src/{n}"], requires=["slow"])
    claim = claimed(board, "a")
    assert board.claim_task("x", capabilities=["slow"]).task.id == "b"
    assert not board.claim_task("x", capabilities=["slow"])
    claim.complete()
    put(board, "c")
    claimed(board, "c").hold_paths(writes=["src/**"])
    assert lots(board) == {"src/**": 0}
    assert board.claim_task("x", capabilities=["slow"]).reason == "paths_held"


def test_a_resumed_attempt_keeps_its_paths(board):
    """It is the same attempt."""
    put(board, "a", "b", writes=["f"])
    board.claim_task("x")
    board.claim_task("x", resume=True)
    assert board.claim_task("y").reason == "paths_held"


def test_letters_in_either_unicode_form_are_one_path(board):
    """One agent writes on a Mac."""
    put(board, "a", writes=["caf\u00e9"])
    put(board, "b", writes=["cafe\u0301"])
    board.claim_task("x")
    assert board.claim_task("y").reason == "paths_held"


def test_changed_paths_count_from_the_next_hand_out(board):
    """A waiting task that no longer needs the path goes at once."""
    put(board, "a", "b", writes=["f"])
    claimed(board, "a")
    assert not board.claim_task("x")
    board.update_task("b", writes=["g"])
    assert board.claim_task("x").task.id == "b"
    assert states(board) == {"a": "in_progress", "b": "in_progress"}


def test_a_path_is_found_whatever_stands_next_to_it_in_the_order(board):
    """Neighbours in the index that merely look alike are no conflict; what is below is."""
    held = ["a", "a b", "a-", "a.b", "a0", "a/b", "a/b/c", "ab", "\U0001f600", "a/\U0001f600"]
    put(board, *[f"t{n}" for n in range(len(held))])
    for n, pattern in enumerate(held):
        claimed(board, f"t{n}").hold_paths(writes=[pattern])
    put(board, "probe")
    claim = claimed(board, "probe")
    with pytest.raises(PathsHeld) as caught:
        claim.hold_paths(writes=["a/*"])
    assert caught.value.held in ("a/b", "a/\U0001f600")
    with pytest.raises(PathsHeld):
        claim.hold_paths(writes=["**"])
    with pytest.raises(PathsHeld) as caught:
        claim.hold_paths(writes=["\U0001f600/**"])
    assert caught.value.held == "\U0001f600"
    assert claim.hold_paths(writes=["a1", "b", "a/bb/*"])


PATTERNS = ["a", "b", "a/", "a/x", "a/*", "b/**/z", "b/y/z", "**", "*"]
WISHES = st.lists(st.tuples(st.sampled_from(PATTERNS), st.sampled_from(["write", "read"])), max_size=2)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "claim", "complete", "release", "fail", "hold", "die", "put"]),
        st.integers(0, 20),
        WISHES,
    ),
    max_size=30,
)


class Yard:
    """A board, and beside it what its tasks want and what is held, kept in plain lists."""

    def __init__(self, board):
        self.board = board
        self.wants = {}
        self.held = {}
        self.agents = 0

    def put(self, wishes):
        """One more task; a pattern that is written need not be read."""
        name = f"t{len(self.wants):03}"
        by_mode = {how: [pattern for pattern, mode in wishes if mode == how] for how in ("write", "read")}
        self.board.create_task("T", id=name, writes=by_mode["write"], reads=by_mode["read"], max_attempts=99)
        self.wants[name] = [(normalised("p", pattern), mode) for pattern, mode in wishes]

    def free(self, wants, but=None):
        """Whether nobody holds what excludes these."""
        others = [held for name, (_, holds) in self.held.items() if name != but for held in holds]
        return not any(conflict(*want, *held) for want in wants for held in others)

    def step(self, how, number, wishes):
        """Do one thing to the board and to the lists, and compare."""
        holder = sorted(self.held)[number % len(self.held)] if self.held else None
        if how == "put":
            self.put(wishes)
        elif how == "claim":
            self.claim()
        elif how == "hold" and holder and wishes:
            self.hold(holder, [(normalised("p", pattern), mode) for pattern, mode in wishes])
        elif how == "die" and holder:
            self.board.store.clock.advance(60)
            self.held.clear()
            self.board.reclaim_zombies()
        elif how in ("complete", "release", "fail") and holder:
            claim, _ = self.held.pop(holder)
            {"complete": claim.complete, "release": claim.release, "fail": lambda: claim.fail("x")}[how]()

    def claim(self):
        """A claim gets the oldest ready task whose paths are free, or nothing if there is none."""
        self.agents += 1
        now = self.board.store.clock.advance(0.001)
        tasks = self.board.list_tasks(limit=500).tasks
        due = {task.id for task in tasks if task.state == "scheduled" and task.not_before_us <= now}
        ready = sorted(due | {task.id for task in tasks if task.state == "pending"})
        expected = next((name for name in ready if self.free(self.wants[name])), None)
        claim = self.board.claim_task(f"agent-{self.agents}")
        assert (claim.task.id if claim else None) == expected
        if claim:
            self.held[expected] = (claim, list(self.wants[expected]))

    def hold(self, holder, wants):
        """More paths are had exactly if they are free."""
        claim, holds = self.held[holder]
        by_mode = {how: [pattern for pattern, mode in wants if mode == how] for how in ("write", "read")}
        if self.free(wants, but=holder):
            claim.hold_paths(writes=by_mode["write"], reads=by_mode["read"])
            holds += wants
        else:
            with pytest.raises(PathsHeld):
                claim.hold_paths(writes=by_mode["write"], reads=by_mode["read"])


@settings(max_examples=60)
@given(st.lists(WISHES, max_size=8), STEPS)
def test_whatever_is_held_a_claim_gets_the_first_task_whose_paths_are_free(tmp_path_factory, wishes, steps):
    """Pools, lots and parking change nothing about who is next: plain lists give the same answer, step by step."""
    with open_board(tmp_path_factory.mktemp("yard") / "board.db", TurnableClock()) as board:
        yard = Yard(board)
        for one in wishes:
            yard.put(one)
        for step in steps:
            yard.step(*step)
            assert violations(board) == {}
