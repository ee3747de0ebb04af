"""Records as JSON: the names and units that every edge shows, and what is left out."""

import json

import pytest
from hypothesis import given, strategies as st

from agentmesh import errors
from agentmesh.documents import document, dollars, error_document, rfc3339
from agentmesh.limits import INSTANT_US, INTEGER, instant_us, pusd
from agentmesh.model import Finding, Lease, Note, PlanReport
from tests.support.boards import claimed, done, put

START = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000001Z"),
        (1_767_225_600_500_000, "2026-01-01T00:00:00.500000Z"),
        (INSTANT_US, "9999-12-31T23:59:59Z"),
    ],
)
def test_an_instant_is_rfc_3339_in_utc(us, text):
    """To the microsecond, with a Z."""
    assert rfc3339(us) == text


@given(st.integers(0, INSTANT_US))
def test_an_instant_that_is_shown_can_be_given_back(us):
    """What a reader gets is what `not_before` takes."""
    assert instant_us("field", rfc3339(us)) == us


@pytest.mark.parametrize(
    ("units", "text"),
    [
        (0, "0"),
        (1, "0.000000000001"),
        (10**11, "0.1"),
        (10**12, "1"),
        (10**15, "1000"),
        (184_918_125_000, "0.184918125"),
        (INTEGER, "9223372.036854775807"),
    ],
)
def test_money_is_exact_decimal_text(units, text):
    """Never an exponent, never a binary fraction."""
    assert dollars(units) == text


@given(st.integers(0, 9_223_372 * 10**12))
def test_money_that_is_shown_can_be_given_back(units):
    """To the last of twelve decimals."""
    assert pusd("field", dollars(units)) == units


def test_a_task_shows_instants_durations_and_money_in_the_units_of_the_edges(board):
    """`_at`, `_sec`, `_usd`; zeros are shown, what is not there is not."""
    board.create_task(
        "T", id="a", estimate_usd="0.25", not_before="2026-01-02T00:00:00Z", tags=["t"], description="", payload=[]
    )
    assert document(board.get_task("a")) == {
        "id": "a",
        "title": "T",
        "plan": "default",
        "state": "scheduled",
        "priority": 0,
        "urgency": 0,
        "fence": 0,
        "charged": 0,
        "max_attempts": 3,
        "lease_timeout_sec": 60.0,
        "max_hold_sec": 14_400.0,
        "created_at": START,
        "tags": ["t"],
        "not_before_at": "2026-01-02T00:00:00Z",
        "estimate_usd": "0.25",
        "unmet": 0,
        "description": "",
        "payload": [],
    }


@pytest.mark.parametrize("result", [0, False, "", [], {}, "123", {"a_us": 1, "b": None}, [[], {}]])
def test_the_json_of_agents_is_handed_on_as_it_is(board, result):
    """Empty or not, whatever its keys are called."""
    put(board, "a")
    done(board, "a", result)
    shown = document(board.get_task("a"))["result"]
    assert (shown, type(shown)) == (result, type(result))


def test_a_claim_shows_task_token_and_dependencies(board):
    """The token is its holder's to keep; it is nowhere else."""
    put(board, "p")
    done(board, "p", 5)
    put(board, "a: p")
    claim = board.claim_task("x")
    shown = document(claim)
    assert list(shown) == ["claimed", "task", "lease", "lease_expires_at", "dependencies"]
    assert (shown["claimed"], shown["lease"], shown["task"]["id"]) == (True, claim.lease.token, "a")
    assert shown["lease_expires_at"] == shown["task"]["lease_expires_at"] == "2026-01-01T00:01:00Z"
    assert shown["dependencies"] == [{"id": "p", "title": "Task p", "state": "completed", "result": 5}]
    assert document(board.claim_task("x", resume=True))["resumed"] is True


def test_nothing_claimed_shows_why(board):
    """With the time to ask again, where there is one."""
    put(board, "a")
    board.update_task("a", not_before="2026-01-02T00:00:00Z")
    shown = document(board.claim_task("x"))
    assert (shown["claimed"], shown["reason"], shown["advice"]) == (False, "scheduled", "wait")
    assert shown["retry_at"] == "2026-01-02T00:00:00Z"


def test_a_lease_shows_no_secret(board):
    """Whom it may concern has the token already."""
    put(board, "a")
    assert document(claimed(board, "a").lease) == {
        "task_id": "a",
        "fence": 1,
        "lease_expires_at": "2026-01-01T00:01:00Z",
    }


def test_a_status_shows_its_sums(board):
    """Counts by state and plan, and what they add up to."""
    put(board, "a", "b: a")
    board.pause(plan="default")
    shown = document(board.status())
    assert (shown["total"], shown["open"], shown["last_seq"], shown["leases_due"]) == (2, 2, 3, 0)
    assert shown["plans"][0]["counts"]["pending"] == 1
    assert shown["plans"][0]["paused"] is True
    assert shown["pauses"] == [
        {"scope": "plan", "name": "default", "reason": "", "agent_id": "operator", "since_at": START}
    ]
    assert shown["now_at"] == START


def test_every_kind_of_record_is_json(board):
    """Strictly: no NaN, no tuple, no key that is not text."""
    put(board, "a", "b: a")
    claim = claimed(board, "a")
    note = claim.note("x")
    found = [board.status(), board.explain(), board.explain("b"), board.list_tasks(), *board.events(), *board.check()]
    found += [claim, claim.lease, note, board.pause(), board.claim_task("y"), *board.attempts("a"), board.get_task("b")]
    found.append(board.apply_plan({"tasks": [{"id": "z", "title": "Z"}]}))
    for record in found:
        shown = document(record)
        assert json.loads(json.dumps(shown, allow_nan=False)) == shown


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        (Note(1, "x", 0, "hi"), {"fence": 1, "agent_id": "x", "at": "1970-01-01T00:00:00Z", "text": "hi"}),
        (Finding("P1", "held"), {"promise": "P1", "verdict": "held"}),
        (PlanReport("p", ("a",), (), ()), {"plan": "p", "created": ["a"]}),
        (Lease("a", 2, "secret", 0), {"task_id": "a", "fence": 2, "lease_expires_at": "1970-01-01T00:00:00Z"}),
    ],
)
def test_small_records_show_what_they_hold(record, shown):
    """Lists for tuples; empty ones are left out."""
    assert document(record) == shown


ERRORS = [
    (errors.InvalidArgument("title", "must be text"), {"field": "title"}),
    (errors.NotFound("task", "a"), {}),
    (errors.AlreadyClaimed("a", "ada", 5), {"task_id": "a", "holder": "ada"}),
    (errors.LeaseLost("a", 2, "reclaimed"), {"task_id": "a", "outcome": "reclaimed"}),
    (errors.TaskCancelled("a", 2), {"task_id": "a", "outcome": "cancelled"}),
    (errors.WrongState("a", "completed", "no"), {"task_id": "a", "state": "completed"}),
    (errors.CycleRefused(["a", "b", "a"]), {"path": ["a", "b", "a"]}),
    (errors.PathsHeld("f", "f/**", "a", "ada"), {"task_id": "a", "holder": "ada"}),
    (errors.CursorExpired(0, 5, 9), {"after": 0}),
    (errors.RequestConflict("r"), {}),
    (errors.Busy("later"), {}),
]


@pytest.mark.parametrize(("error", "told"), ERRORS, ids=[type(error).__name__ for error, _ in ERRORS])
def test_an_error_shows_its_code_a_sentence_a_next_step_and_what_it_knows(error, told):
    """The same keys for each; the code is stable."""
    shown = error_document(error)
    assert shown == {"code": error.code, "message": str(error), "hint": error.hint, **told}
    assert all(shown[key] for key in ("code", "message", "hint"))
    assert json.loads(json.dumps(shown)) == shown


def test_every_error_has_a_code_of_its_own():
    """Machines tell them apart by it."""
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.AgentMeshError)
    ]
    codes = [kind.code for kind in kinds]
    assert len(set(codes)) == len(codes)
