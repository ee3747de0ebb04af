"""Imports: a new board that is as the exported one was, except for what nobody may take over."""

import io
import random
import stat
from contextlib import suppress

import pytest

from agentmesh import Board, Lease
from agentmesh.errors import BoardExists, ImportRefused, InvalidArgument, LeaseLost, NotFound, WrongState
from tests.support.boards import claimed, kinds, open_board, put, rows, states, violations
from tests.support.clock import TurnableClock
from tests.support.transfer import exported, files, find, furnish, imported, of_version_1, parts, whole

DERIVED = {
    "tasks": """
        SELECT task.id, task.state, task.priority, task.parents, task.unmet, task.urgency, task.fence, task.charged,
               task.has_body, task.tags, task.reason, root.id, requirement.names, pool.paths
          FROM task JOIN requirement ON requirement.pk = task.requires_pk LEFT JOIN pool ON pool.pk = task.pool_pk
          LEFT JOIN task AS root ON root.pk = task.root_pk
         WHERE task.state NOT IN ('completed', 'failed', 'cancelled') ORDER BY task.pk""",
    "tallies": """
        SELECT plan.name, plan.workspace, blocked, scheduled, pending, in_progress, completed, failed, cancelled
          FROM tally JOIN plan ON plan.pk = plan_pk ORDER BY plan.name""",
    "pools": """
        SELECT plan.name, pool.paths, pool.head_urgency, task.id FROM pool JOIN plan ON plan.pk = pool.plan_pk
          JOIN task ON task.pk = head_pk ORDER BY plan.name, pool.paths""",
    "totals": """
        SELECT plan.name, agent_id, model, day, entries, unpriced, input_tokens, cached_input_tokens,
               cache_write_tokens, output_tokens, duration_us, cost_pusd, wasted_tokens, wasted_us, wasted_pusd
          FROM usage_total LEFT JOIN plan ON plan.pk = plan_pk ORDER BY 1, 2, 3, 4""",
    "budgets": """
        SELECT scope, name, period, limit_pusd, limit_tokens, strict, day, spent_pusd, spent_tokens, unpriced,
               reserved_pusd, reserved_tokens, warned, barred_until_us FROM budget ORDER BY 1, 2, 3""",
    "entries": "SELECT namespace, key, version, size, content_type FROM entry WHERE key <> 'over' ORDER BY 1, 2",
    "tags": "SELECT tag, id FROM task_tag JOIN task ON pk = task_pk ORDER BY 1, 2",
}
"""What a board keeps beside what an export says."""


def derived(board):
    """All of that, by names."""
    return {name: rows(board, sql) for name, sql in DERIVED.items()}


def body(text):
    """An export without its header, which says when it was made and of which board."""
    return text.split(b"\n", 1)[1]


@pytest.fixture
def again(tmp_path, clock):
    """Make a board of an export and open it."""
    opened = []

    def make(text, **options):
        path = tmp_path / f"again{len(opened)}.db"
        imported(text, path, clock, **options)
        opened.append(open_board(path, clock, seed=5))
        return opened[-1]

    yield make
    for board in opened:
        assert violations(board) == {}
        board.close()


def test_what_is_exported_again_is_the_same(board, clock, again):
    """Byte for byte, the header aside."""
    furnish(board, clock)
    text = exported(board)
    assert body(exported(again(text))) == body(text)


def test_what_stands_for_speed_is_worked_out_as_it_was(board, clock, again):
    """Urgencies, countdowns, tallies, heads of pools, totals, the books of budgets: none of it is in the file."""
    furnish(board, clock)
    copy = again(exported(board))
    assert derived(copy) == derived(board)
    assert all(derived(board).values())


@pytest.mark.parametrize("seed", range(12))
def test_boards_in_the_middle_of_their_lives_survive(tmp_path, again, seed):
    """Whatever agents did in whatever order; nobody holds anything when it is exported."""
    clock, chance = TurnableClock(), random.Random(seed)
    with open_board(tmp_path / "lived.db", clock, seed=seed) as board:
        live(board, clock, chance)
        clock.advance(500)
        board.reclaim_zombies()
        text = exported(board)
        copy = again(text)
        assert body(exported(copy)) == body(text)
        assert states(copy) == states(board)


def live(board, clock, chance):
    """Let a few agents do this and that."""
    for number in range(40):
        parents = [
            f"t{n}:{chance.choice(['completed', 'failed', 'finished'])}"
            for n in range(number)
            if chance.random() < 0.07
        ]
        fields = {"writes": [f"p/{chance.randrange(5)}"]} if chance.random() < 0.3 else {}
        tags = [f"g{n}" for n in range(chance.randrange(3))]
        board.create_task(
            "t", id=f"t{number}", depends_on=parents, priority=chance.randrange(-2, 5), tags=tags, **fields
        )
    for _ in range(60):
        clock.advance(chance.randrange(40))
        claim = board.claim_task(f"a{chance.randrange(4)}")
        if claim:
            board.ledger.record(lease=claim.lease, model="m", output_tokens=chance.randrange(1, 9), cost_usd="0.1")
            ends = [claim.complete, claim.release, lambda c=claim: c.fail("x"), lambda: None]
            ends += [lambda c=claim: c.split([{"title": "s"}]), lambda c=claim: c.fail("x", retry=False)]
            chance.choice(ends)()
        final = [task.id for task in board.list_tasks(limit=500).tasks if task.state in ("failed", "cancelled")]
        if final and chance.random() < 0.2:
            with suppress(WrongState):  # not every task can come back
                board.reopen_task(chance.choice(final), cascade=True)


def test_the_board_goes_on_where_it_was(board, clock, again):
    """In the same order of hand-outs, with results for those who come after."""
    furnish(board, clock)
    copy = again(exported(board))
    for both in (board, copy):
        both.clear_claim_cap()
        both.resume(plan="main")
    orders = []
    for both in (board, copy):
        order = []
        while claim := both.claim_task("w", capabilities=["py"]):
            order.append((claim.task.id, claim.task.fence, [edge.result for edge in claim.dependencies]))
            claim.complete()
        orders.append(order)
    assert orders[0] == orders[1]
    assert len(orders[0]) > 5


def test_the_history_begins_anew(board, clock, again):
    """With the import; that of the file is counted, and stays there."""
    furnish(board, clock)
    text = exported(board, events=True)
    copy = again(text, agent_id="olga")
    first = copy.events()[0]
    assert (first.seq, first.kind, first.agent_id) == (1, "board_imported", "olga")
    assert first.data == {"source": parts(text)[0]["board_id"], "exported_us": clock.now_us(), "tasks": 21}
    assert set(kinds(copy)) == {"board_imported", "budget_warning", "budget_exceeded"}
    assert body(exported(copy)) == body(exported(board))


def test_what_an_import_reports(board, clock, tmp_path):
    """Of which board it is, how much there was, what was taken back, what was left out."""
    furnish(board, clock)
    put(board, "held")
    claimed(board, "held")
    rows_ = parts(exported(board, events=True))
    made = imported(whole(rows_), tmp_path / "new.db", clock)
    assert made.source_id == rows_[0]["board_id"] != made.board_id
    assert made.rows == {kind: number for kind, number in rows_[0]["counts"].items() if kind != "event"}
    assert (made.reclaimed, made.events_ignored) == (("held",), board.status().last_seq)
    assert (made.board, made.at_us) == (str(tmp_path / "new.db"), clock.now_us())
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == 0o600


def test_open_attempts_are_taken_back(board, clock, again):
    """Their tasks can be claimed again, and the leases that were handed out then are lost, whatever they show."""
    put(board, "a", "last: a", "b")
    claim = claimed(board, "a", "ann")
    copy = again(exported(board))
    assert states(copy) == {"a": "pending", "last": "blocked", "b": "pending"}
    attempt = copy.attempts("a")[0]
    assert (attempt.outcome, attempt.agent_id, attempt.ended_us) == ("reclaimed", "ann", clock.now_us())
    assert kinds(copy) == ["board_imported", "lease_reclaimed"]
    assert rows(copy, "SELECT DISTINCT secret FROM attempt") == [("",)]
    for secret in (claim.lease.secret, "x", ""):
        with pytest.raises((LeaseLost, InvalidArgument)):
            copy.complete_task(Lease("a", 1, secret))
    assert claimed(copy, "a", "bob").task.fence == 2


def test_an_open_attempt_that_was_the_last_fails_its_task(board, clock, again):
    """As if its lease had run out: what can never run now is cancelled, and what waited for it is ready."""
    put(board, "a", max_attempts=2)
    put(board, "then: a", "far: then", "else: a:failed")
    claimed(board, "a").fail("boom")
    clock.advance(2)
    claimed(board, "a")
    copy = again(exported(board))
    assert states(copy) == {"a": "failed", "then": "cancelled", "far": "cancelled", "else": "pending"}
    assert copy.get_task("a").reason == "board imported, attempt 2 of 2"
    assert kinds(copy).count("task_cancelled") == 2


def test_an_open_attempt_that_was_the_last_pauses_a_task_that_never_failed(board, again):
    """An import is nobody's failure."""
    put(board, "a", max_attempts=1)
    put(board, "then: a")
    claimed(board, "a")
    copy = again(exported(board))
    assert states(copy) == {"a": "pending", "then": "blocked"}
    assert [pause.ceiling for pause in copy.status().pauses] == ["reclaimed"]


def test_a_file_of_the_first_version_is_read(board, again):
    """It has no pauses of tasks, no ends of pauses and no counts toward ceilings; all else is as it was."""
    put(board, "a", "b: a", plan="p")
    board.pause(plan="p", reason="lunch")
    claimed(board, "a") if board.resume(plan="p") else None
    board.pause(plan="p", reason="lunch")
    copy = again(whole(of_version_1(parts(exported(board)))))
    assert states(copy) == {"a": "pending", "b": "blocked"}
    assert [(pause.name, pause.until_us) for pause in copy.status().pauses] == [("p", None)]


def test_held_paths_and_reservations_are_free_again(board, again):
    """They were those of attempts that are over."""
    put(board, "a", "b", writes=["src/**"], estimate_usd=1)
    board.budgets.set(usd=5)
    claimed(board, "a")
    copy = again(exported(board))
    assert rows(copy, "SELECT * FROM hold") == []
    assert copy.budgets.get().reserved_pusd == 0
    assert copy.claim_task("x").task.id == "a"


def test_fences_go_on(board, again):
    """They are the numbers of attempts, so an agent of before cannot be mistaken for one of now."""
    put(board, "a")
    for _ in range(3):
        claimed(board, "a").release()
    board.cancel_task("a")
    board.reopen_task("a")
    copy = again(exported(board))
    assert claimed(copy, "a").task.fence == 4


def test_versions_of_entries_go_on(board, clock, again):
    """Also those of names that are gone."""
    furnish(board, clock)
    copy = again(exported(board))
    for key in ("gone", "over"):
        assert copy.blackboard.put("ttl", key, 1).version == 2


def test_a_board_is_never_imported_over_another(board, clock, tmp_path, board_path):
    """Nor over any file, nor beside the log of one; nothing is touched."""
    put(board, "a")
    text = exported(board)
    (tmp_path / "file.db").write_text("mine")
    (tmp_path / "log.db-wal").write_text("mine")
    for target in (board_path, tmp_path / "file.db", tmp_path / "log.db"):
        with pytest.raises(BoardExists):
            imported(text, target, clock)
    assert states(board) == {"a": "pending"}
    assert (tmp_path / "file.db").read_text() == "mine"
    assert not (tmp_path / "log.db").exists()


def test_whoever_makes_the_board_first_has_it(board, clock, tmp_path):
    """It may appear while an import is under way: then that fails, and leaves nothing of its own."""
    put(board, "a")
    target = tmp_path / "new.db"

    def be_faster(stage, _done, _of):
        if stage == "check":
            open_board(target, clock).close()

    with pytest.raises(BoardExists):
        imported(exported(board), target, clock, progress=be_faster)
    with open_board(target, clock) as other:
        assert other.status().total == 0
    assert files(tmp_path) == ["board.db", "new.db"]


def test_an_import_that_is_given_up_leaves_nothing(board, clock, tmp_path):
    """At whatever stage."""
    furnish(board, clock)
    text = exported(board)
    before = sorted(tmp_path.iterdir())
    for stage in ("rows", "derive", "check"):

        def give_up(at, _done, _of, stage=stage):
            if at == stage:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            imported(text, tmp_path / "new.db", clock, progress=give_up)
        assert sorted(tmp_path.iterdir()) == before


def test_places_that_hold_no_board_or_no_file_are_named(board, clock, tmp_path):
    """Before anything is read."""
    text = exported(board)
    with pytest.raises(InvalidArgument, match="does not exist"):
        imported(text, tmp_path / "missing" / "new.db", clock)
    with pytest.raises(InvalidArgument, match="cannot be read"):
        Board.import_board(tmp_path / "missing.jsonl", tmp_path / "new.db")
    with pytest.raises(InvalidArgument, match="must be a path"):
        imported(text, "", clock)


def test_a_file_is_imported_by_its_name(board, clock, tmp_path):
    """As a stream is."""
    put(board, "a")
    board.export(tmp_path / "out.jsonl")
    Board.import_board(str(tmp_path / "out.jsonl"), tmp_path / "new.db", clock=clock)
    with open_board(tmp_path / "new.db", clock) as copy:
        assert states(copy) == {"a": "pending"}


def test_an_empty_board_is_a_board(board, again):
    """Its export has a header and a trailer."""
    copy = again(exported(board))
    assert (copy.status().total, kinds(copy)) == (0, ["board_imported"])
    with pytest.raises(NotFound):
        copy.get_task("a")


def test_names_of_agents_give_no_right_to_anything(board, again):
    """They are labels: who says to be one of them gets what anybody gets."""
    put(board, "a")
    claimed(board, "a", "ann")
    copy = again(exported(board))
    assert not copy.claim_task("ann", task_id="a", resume=True).resumed


def test_a_stream_that_fails_leaves_nothing(clock, tmp_path):
    """The system's error is the error."""

    class Broken(io.BytesIO):
        def readline(self, _size=-1, /):
            raise OSError(5, "Input/output error")

    with pytest.raises(OSError, match="Input/output"):
        Board.import_board(Broken(), tmp_path / "new.db", clock=clock)
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_says_the_line_the_field_and_the_next_step(board, clock, tmp_path):
    """And repeats nothing of what the line says."""
    furnish(board, clock)
    rows_ = parts(exported(board))
    place = find(rows_, "task", id="u")
    rows_[place]["priority"] = "<script>"
    with pytest.raises(ImportRefused) as found:
        imported(whole(rows_), tmp_path / "new.db", clock)
    assert (found.value.line, found.value.field) == (place + 1, "priority")
    assert found.value.message == f"Line {place + 1}, priority: must be a whole number."
    assert "no board was made" in found.value.hint
    assert files(tmp_path) == ["board.db"]
