"""What failed assertions say, word for word."""

import pytest

from tests.plugin import golden
from tests.plugin.assertion_scenes import SCENES, acted, told

TORN = "ran_in_order_by_edges"
"""The scene whose history was changed behind the board's back."""
WIDE = 100 - len("E       ")
PRINTED = {
    "printed_equal": ("assert state(mesh_board) == WANTED",),
    "printed_with_events": ("assert state(mesh_board) == WANTED", "-vv"),
    "printed_backwards": ("assert {'plan': 'completed'} == state(mesh_board).of('plan', 'a')",),
    "printed_unequal": ("assert state(mesh_board) != dict(state(mesh_board))",),
    "printed_no_such_state": ("assert state(mesh_board).of('a') == {'a': 'done'}",),
    "printed_no_mapping": ("assert state(mesh_board) == ['plan', 'a']",),
    "printed_where": ("assert state(mesh_board).where('completed') == {'plan', 'a', 'b'}",),
    "printed_function": ("assert_completed(mesh_board, 'merge')",),
}
"""Each line as a test would have it, and options; what pytest then prints is a golden file, too."""
PREAMBLE = """
from pytest_agentmesh.assertions import assert_completed, state

WANTED = {"plan": "completed", "a": "completed", "b": "completed", "merge": "pending"}

def test_a_swarm(mesh_board, mesh_clock):
    for name, above in [("plan", []), ("a", ["plan"]), ("b", ["plan"]), ("merge", ["a", "b"])]:
        mesh_board.create_task(name, id=name, depends_on=above)
    mesh_board.claim_task("coder-1").complete()
    mesh_clock.advance(10)
    mesh_board.claim_task("coder-1").complete()
    mesh_board.claim_task("coder-2")
    mesh_clock.advance(5)
"""
HOOK = """
from pytest_agentmesh.assertions import compare

def pytest_assertrepr_compare(config, op, left, right):
    return compare(config, op, left, right)
"""


def scenes():
    """Every scene; one of them leaves its board broken."""
    return [pytest.param(name, marks=pytest.mark.damaged if name == TORN else ()) for name in SCENES]


@pytest.mark.parametrize("name", scenes())
def test_a_message_is_its_golden_file(name, board, clock):
    """Every assertion that fails says what its golden file says, in a hundred columns, and writes nothing."""
    call = acted(name, board, clock)
    before = board.store._writer.total_changes()
    text = told(call)
    assert board.store._writer.total_changes() == before
    golden.same(f"assertions/{name}", text)
    assert max(map(len, text.splitlines())) <= WIDE


@pytest.mark.parametrize("name", PRINTED)
def test_what_pytest_prints_is_its_golden_file(name, pytester, monkeypatch):
    """A failed comparison is explained task by task, below the line of the test that failed."""
    for variable in ("CI", "BUILD_NUMBER"):  # there pytest prints more
        monkeypatch.delenv(variable, raising=False)
    line, *options = PRINTED[name]
    pytester.makeconftest(HOOK)
    pytester.makepyfile(f"{PREAMBLE}    {line}\n")
    shown = pytester.runpytest("-p", "no:cacheprovider", "-p", "no:randomly", *options).outlines
    told = [text.rstrip() for text in shown if text.startswith(("E ", ">"))]
    golden.same(f"assertions/{name}", "\n".join(told))
    assert max(map(len, told)) <= WIDE + len("E       ")


def test_every_golden_file_is_some_message():
    """None is left over from a message that is no more."""
    names = {path.stem for path in (golden.HERE / "assertions").iterdir()}
    assert names == {*SCENES, *PRINTED}
