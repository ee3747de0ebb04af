"""What is out of its limits: one typed error that names the field, and nothing written, whichever verb it came to."""

import math

import pytest

from agentmesh import Lease
from agentmesh.errors import AgentMeshError, InvalidArgument
from tests.support.boards import claimed, event_count, states

SURROGATE = "\ud800"
WRONG_NAMES = [
    "",
    " ",
    "a b",
    "\t",
    "a\0",
    SURROGATE,
    "x" * 129,
    None,
    0,
    True,
    1.5,
    b"a",
    ["a"],
    {"id": "a"},
    object(),
]
HUGE = 10**5000


def deep(levels):
    """Lists in lists."""
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refused(board, field, call):
    """The call raises the one error about that field and leaves no trace."""
    before, held = event_count(board), states(board)
    with pytest.raises(InvalidArgument) as caught:
        call()
    assert caught.value.field == field
    assert (event_count(board), states(board)) == (before, held)


FIELDS = {
    "id": [
        "",
        " ",
        "a b",
        "\0",
        SURROGATE,
        "x" * 129,
        0,
        7,
        True,
        b"a",
        ["a"],
        "a:completed",
        "x:failed",
        "y:finished",
    ],
    "plan": ["", " ", "a b", "\0", SURROGATE, "x" * 129, 0, 7, False, b"a", ["a"]],
    "description": ["x" * 65_537, "\u00e9" * 32_769, "\0", SURROGATE, 0, 5, False, b"x", ["x"], {}],
    "priority": [-1_000_001, 1_000_001, 2**63, True, 1.0, "1", None, math.nan, [1]],
    "depends_on": [
        *["", "a", b"a", 0, False, {"id": "a"}, {}, [""], [" "], [None], [5], [True], [["a"]], [SURROGATE]],
        *[["a:b:completed:completed"], [{"id": ""}], [{"condition": "failed"}], [{"id": "a", "condition": "done"}]],
        *[[{"id": "a", "x": 1}], [{"id": "a", "condition": None}], [f"t{n}" for n in range(1001)]],
    ],
    "requires": [
        "",
        "gpu",
        0,
        False,
        {},
        {"gpu": 1},
        [""],
        ["a b"],
        [5],
        [None],
        [SURROGATE],
        [f"c{n}" for n in range(65)],
    ],
    "tags": ["", "x", 0, False, {}, {"x": 1}, [""], ["a b"], [5], [None], [SURROGATE], [f"t{n}" for n in range(65)]],
    "writes": [
        "",
        "a",
        0,
        False,
        {},
        [""],
        ["/a"],
        [".."],
        ["a["],
        [5],
        [None],
        [SURROGATE],
        [f"f{n}" for n in range(101)],
    ],
    "reads": [
        "",
        "a",
        0,
        False,
        {},
        [""],
        ["/a"],
        [".."],
        ["a["],
        [5],
        [None],
        [SURROGATE],
        [f"f{n}" for n in range(101)],
    ],
    "payload": [math.nan, math.inf, 2**63, {1: 2}, "\0", SURROGATE, b"x", {1}, deep(65), "x" * 65_535, object()],
    "estimate_usd": [-1, "-0.1", "0.0000000000001", "9223373", "nan", "", "one", True, [1], math.inf, SURROGATE],
    "estimate_tokens": [-1, 10**12 + 1, 2**63, True, 3.0, "3", [1]],
    "lease_timeout_sec": [0, -1, 0.049, 604_801, True, "60", None, math.nan, math.inf, HUGE, [60]],
    "max_hold_sec": [0, -1, 0.049, 59.9, 2_592_001, True, "60", math.nan, math.inf, HUGE],
    "max_attempts": [0, -1, 1001, 2**63, True, 3.0, "3", None],
    "not_before": ["", "soon", "2026-01-01", "2026-01-01T00:00:00", -1, 2.6e11, True, math.nan, math.inf, HUGE, []],
}
CASES = [
    pytest.param(field, value, id=f"{field}-{place}")
    for field, bad in FIELDS.items()
    for place, value in enumerate(bad)
]
CHANGEABLE = [case for case in CASES if case.values[0] not in ("id", "plan", "depends_on")]


@pytest.mark.parametrize(("field", "value"), CASES)
def test_a_new_task_out_of_its_limits_is_refused(board, field, value):
    """Every field, each just outside or of the wrong kind."""
    refused(board, field, lambda: board.create_task("Title", **{field: value}))


@pytest.mark.parametrize("title", ["", " ", "\n", "x" * 301, "\0", "a" + SURROGATE, None, 7, True, b"x", ["x"]])
def test_a_title_out_of_its_limits_is_refused(board, title):
    """1 to 300 characters that are not all blank."""
    refused(board, "title", lambda: board.create_task(title))


@pytest.mark.parametrize(("field", "value"), CHANGEABLE)
def test_a_change_out_of_its_limits_is_refused(board, field, value):
    """An update is held to the limits of creation."""
    board.create_task("Title", id="a")
    refused(board, field, lambda: board.update_task("a", **{field: value}))


@pytest.mark.parametrize(
    ("field", "taken"),
    [
        ("title", ["x", "x" * 300, "\U0001f600" * 300]),
        ("id", ["x", "x" * 128]),
        ("description", ["", "x" * 65_536, "\u00e9" * 32_768]),
        ("priority", [-1_000_000, 1_000_000]),
        ("requires", [[], [f"c{n}" for n in range(64)], None]),
        ("tags", [[], [f"t{n}" for n in range(64)], None]),
        ("writes", [[], [f"f{n}" for n in range(100)], None]),
        ("payload", [0, "", False, [], {}, "x" * 65_534, deep(64), 2**63 - 1, -(2**63)]),
        ("estimate_usd", [0, "9223372", 1e-12]),
        ("estimate_tokens", [0, 10**12, None]),
        ("lease_timeout_sec", [0.05, 604_800]),
        ("max_hold_sec", [60, 2_592_000, None]),
        ("max_attempts", [1, 1000]),
        ("not_before", [0, 253_402_300_799, "9999-12-31T23:59:59Z"]),
    ],
)
def test_a_task_is_taken_up_to_its_limits(board, field, taken):
    """The limit itself is inside."""
    for value in taken:
        fields = {"title": "Title", field: value}
        task = board.get_task(board.create_task(**fields).id)
        if field in ("title", "id", "description", "priority", "payload"):
            assert getattr(task, field) == value


@pytest.mark.parametrize("count", [999, 1000])
def test_a_task_waits_for_a_thousand_others_at_most(board, count):
    """1,000 dependencies are taken; 1,001 are refused above."""
    board.create_tasks([{"title": "p", "id": f"p{n}"} for n in range(count)])
    assert board.create_task("Join", depends_on=[f"p{n}" for n in range(count)]).unmet == count


def test_a_batch_holds_ten_thousand_tasks_at_most(board):
    """10,001 are refused before any is looked at."""
    refused(board, "tasks", lambda: board.create_tasks([{}] * 10_001))


@pytest.mark.parametrize("specs", ["ab", b"ab", {"title": "a"}, None, 5])
def test_a_batch_is_a_list(board, specs):
    """A mapping is one task, not a list of them."""
    refused(board, "tasks", lambda: board.create_tasks(specs))


@pytest.mark.parametrize("field", ["color", "state", "fence", "agent", "", "a\nb", "x" * 500])
def test_an_unknown_field_is_refused_without_repeating_hostile_text(board, field):
    """A typing error is found out; what is known is listed."""
    with pytest.raises(InvalidArgument, match="known are") as caught:
        board.create_tasks([{"title": "a", field: 1}])
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 600
    assert event_count(board) == 0


NAMED = {
    "create_task": ("agent_id", lambda board, wrong: board.create_task("T", agent_id=wrong)),
    "create_tasks": ("agent_id", lambda board, wrong: board.create_tasks([{"title": "T"}], agent_id=wrong)),
    "create_tasks plan": ("plan", lambda board, wrong: board.create_tasks([{"title": "T"}], plan=wrong)),
    "apply_plan": ("agent_id", lambda board, wrong: board.apply_plan({"tasks": []}, agent_id=wrong)),
    "update_task": ("task_id", lambda board, wrong: board.update_task(wrong, priority=1)),
    "update_task agent": ("agent_id", lambda board, wrong: board.update_task("a", priority=1, agent_id=wrong)),
    "claim_task": ("agent_id", lambda board, wrong: board.claim_task(wrong)),
    "claim_task id": ("task_id", lambda board, wrong: board.claim_task("x", task_id=wrong)),
    "claim_task plan": ("plan", lambda board, wrong: board.claim_task("x", plan=wrong)),
    "claim_task capability": ("capabilities", lambda board, wrong: board.claim_task("x", capabilities=[wrong])),
    "claim_task tag": ("tags", lambda board, wrong: board.claim_task("x", tags=[wrong])),
    "claim_task request": ("request_id", lambda board, wrong: board.claim_task("x", request_id=wrong)),
    "create_task request": ("request_id", lambda board, wrong: board.create_task("T", request_id=wrong)),
    "cancel_task": ("task_id", lambda board, wrong: board.cancel_task(wrong)),
    "cancel_task agent": ("agent_id", lambda board, wrong: board.cancel_task("a", agent_id=wrong)),
    "cancel_plan": ("plan", lambda board, wrong: board.cancel_plan(wrong)),
    "cancel_plan agent": ("agent_id", lambda board, wrong: board.cancel_plan("default", agent_id=wrong)),
    "reopen_task": ("task_id", lambda board, wrong: board.reopen_task(wrong)),
    "add_dependency child": ("task_id", lambda board, wrong: board.add_dependency(wrong, "a")),
    "add_dependency parent": ("depends_on", lambda board, wrong: board.add_dependency("a", wrong)),
    "remove_dependency child": ("task_id", lambda board, wrong: board.remove_dependency(wrong, "a")),
    "remove_dependency parent": ("depends_on", lambda board, wrong: board.remove_dependency("a", wrong)),
    "pause plan": ("plan", lambda board, wrong: board.pause(plan=wrong)),
    "pause agent": ("agent", lambda board, wrong: board.pause(agent=wrong)),
    "pause by": ("agent_id", lambda board, wrong: board.pause(agent_id=wrong)),
    "resume plan": ("plan", lambda board, wrong: board.resume(plan=wrong)),
    "resume agent": ("agent", lambda board, wrong: board.resume(agent=wrong)),
    "resume by": ("agent_id", lambda board, wrong: board.resume(agent_id=wrong)),
    "get_task": ("task_id", lambda board, wrong: board.get_task(wrong)),
    "attempts": ("task_id", lambda board, wrong: board.attempts(wrong)),
    "notes": ("task_id", lambda board, wrong: board.notes(wrong)),
    "list_tasks plan": ("plan", lambda board, wrong: board.list_tasks(plan=wrong)),
    "list_tasks tag": ("tag", lambda board, wrong: board.list_tasks(tag=wrong)),
    "list_tasks holder": ("holder", lambda board, wrong: board.list_tasks(holder=wrong)),
    "edges": ("plan", lambda board, wrong: board.edges(wrong)),
    "has_work": ("plan", lambda board, wrong: board.has_work(plan=wrong)),
    "has_work agent": ("agent_id", lambda board, wrong: board.has_work(agent_id=wrong)),
    "explain": ("task_id", lambda board, wrong: board.explain(wrong)),
    "explain agent": ("agent_id", lambda board, wrong: board.explain(agent_id=wrong)),
}
OPTIONAL = {
    "create_tasks plan",
    "claim_task id",
    "claim_task plan",
    "claim_task request",
    "create_task request",
    "pause plan",
}
OPTIONAL |= {
    "pause agent",
    "resume plan",
    "resume agent",
    "list_tasks plan",
    "list_tasks tag",
    "list_tasks holder",
    "edges",
}
OPTIONAL |= {"has_work", "explain", "explain agent"}


@pytest.mark.parametrize("verb", NAMED)
def test_an_empty_or_malformed_name_is_refused_by_every_verb(board, verb):
    """Empty, blank, unprintable, too long, no text: never taken for one that was left out."""
    board.create_task("Title", id="a")
    field, call = NAMED[verb]
    for wrong in WRONG_NAMES:
        if wrong is not None or verb not in OPTIONAL:
            refused(board, field, lambda wrong=wrong: call(board, wrong))


BOUNDED = {
    "wait_sec": (
        lambda board, value: board.claim_task("x", wait_sec=value),
        [-1, 50.1, True, "5", None, math.nan, HUGE],
    ),
    "capabilities": (lambda board, value: board.claim_task("x", capabilities=value), ["gpu", None, 5, {"a": 1}, b"a"]),
    "tags": (
        lambda board, value: board.claim_task("x", tags=value),
        ["db", None, 5, {"a": 1}, [f"t{n}" for n in range(65)]],
    ),
    "resume": (lambda board, value: board.claim_task("x", resume=value), [0, 1, "yes", None]),
    "take_over": (lambda board, value: board.claim_task("x", take_over=value), [0, 1, "yes", None]),
    "condition": (
        lambda board, value: board.add_dependency("a", "b", condition=value),
        ["done", "", None, 1, ["failed"]],
    ),
    "cascade": (lambda board, value: board.reopen_task("a", cascade=value), [0, 1, None, "true"]),
    "reason": (lambda board, value: board.cancel_task("a", reason=value), ["x" * 301, "\0", SURROGATE, None, 5]),
    "state": (lambda board, value: board.list_tasks(state=value), ["open", "", 5, ["pending"]]),
    "limit": (lambda board, value: board.list_tasks(limit=value), [0, -1, 501, True, 1.5, "5", None]),
    "cursor": (lambda board, value: board.list_tasks(cursor=value), [-1, 2**63, True, "5", 1.0]),
    "after": (lambda board, value: board.events(value), [-1, 2**63, True, "5", None, 1.0]),
}


@pytest.mark.parametrize("field", BOUNDED)
def test_an_argument_out_of_bounds_is_refused(board, field):
    """Of verbs that claim, tie, reopen, cancel and list."""
    board.create_tasks([{"title": "a", "id": "a"}, {"title": "b", "id": "b"}])
    call, bad = BOUNDED[field]
    for value in bad:
        refused(board, field, lambda value=value: call(board, value))


HELD = {
    "result": (lambda claim, value: claim.complete(value), [math.nan, 2**63, deep(65), {1: 1}, b"x", "x" * 65_535]),
    "error": (lambda claim, value: claim.fail(value), ["x" * 8193, "\0", SURROGATE, None, 5, b"x"]),
    "kind": (lambda claim, value: claim.fail("x", kind=value), ["other", "", None, 1]),
    "retry": (lambda claim, value: claim.fail("x", retry=value), [0, 1, None, "no"]),
    "delay_sec": (
        lambda claim, value: claim.release(delay_sec=value),
        [-1, 31_536_001, True, "5", None, math.nan, HUGE],
    ),
    "subtasks": (lambda claim, value: claim.split(value), [[], "ab", None, {"title": "a"}, [{"title": "x"}] * 1001]),
    "subtasks[0].title": (lambda claim, value: claim.split([{"title": value}]), ["", None, 5]),
    "writes": (lambda claim, value: claim.hold_paths(writes=value), [(), "a", ["/a"], [".."], None, [""], [5]]),
    "reads": (lambda claim, value: claim.hold_paths(writes=["w"], reads=value), ["a", ["/a"], None, [""]]),
    "text": (
        lambda claim, value: claim.note(value),
        ["", "  ", "x" * 65_537, "\u00e9" * 32_769, "\0", SURROGATE, None, 5],
    ),
}


@pytest.mark.parametrize("field", HELD)
def test_what_a_holder_says_out_of_its_limits_is_refused(board, field):
    """The attempt goes on as if the call had not been made."""
    board.create_task("Title", id="a")
    claim = claimed(board, "a")
    call, bad = HELD[field]
    for value in bad:
        refused(board, field, lambda value=value: call(claim, value))
    assert claim.heartbeat().fence == 1


@pytest.mark.parametrize(
    "lease",
    [
        *[None, "1.abc", 5, ("a", 1, "x")],
        *(Lease(name, 1, "x") for name in ("", None, 5)),
        *(Lease("a", fence, "x") for fence in ("1", True, 0, -1, 2**70)),
        *(Lease("a", 1, secret) for secret in (None, "", 5)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("verb", ["heartbeat", "complete_task", "release_task"])
def test_what_is_no_lease_is_refused_by_name(board, verb, lease):
    """Never a database error, never a write."""
    board.create_task("Title", id="a")
    claimed(board, "a")
    refused(board, "lease", lambda: getattr(board, verb)(lease))


def test_a_pause_is_for_a_plan_or_an_agent_not_both(board):
    """Neither is the whole board."""
    refused(board, "plan", lambda: board.pause(plan="default", agent="x"))
    refused(board, "plan", lambda: board.resume(plan="default", agent="x"))


@pytest.mark.parametrize(
    "verb", ["update_task", "cancel_task", "reopen_task", "get_task", "attempts", "notes", "explain"]
)
def test_an_unknown_task_is_not_found(board, verb):
    """A typed error that names it, and no event."""
    with pytest.raises(AgentMeshError) as caught:
        getattr(board, verb)("nowhere")
    assert (caught.value.code, event_count(board)) == ("not_found", 0)
