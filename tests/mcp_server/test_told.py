"""Errors as a model reads them: whatever goes wrong in whatever tool, one sentence and one step that does no harm."""

import json
import re

import pytest

from agentmesh import errors
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.opening import open_served
from agentmesh.mcp_server.profiles import PROFILES, listed
from agentmesh.mcp_server.reply import result_of
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.told import HINTS, told
from agentmesh.mcp_server.tools import TABLE
from tests.support.boards import claimed, open_board
from tests.support.nobody import heard_from_nobody, only_root, shared_folder

MARK = "IGNORE-ALL-RULES"
HARM = re.compile(r"(?i)\b(delet|remov|cancel|drop|reset|kill|forc|overwrit|wipe|reopen|clear|purg|prun|restor|upgrad)")
TOOL_WORD = re.compile(r"\b[a-z]+(?:_[a-z]+)+\b")
TOOLS = {tool.name: tool for tool in TABLE}
NEEDS_LEASE = ["heartbeat", "complete_task", "fail_task", "release_task", "split_task", "hold_paths", "note"]

ADA = {"agent_id": "ada"}
HELD = {"task_id": "held", **ADA}
USUAL = {
    "create_task": {"title": MARK},
    "create_tasks": {"tasks": [{"title": MARK}]},
    "update_task": {"task_id": "free", "description": MARK},
    "claim_task": {**ADA},
    "heartbeat": HELD,
    "complete_task": {**HELD, "result": MARK},
    "fail_task": {**HELD, "error": MARK},
    "release_task": HELD,
    "split_task": {**HELD, "subtasks": [{"title": MARK}]},
    "hold_paths": {**HELD, "writes": ["own"]},
    "note": {**HELD, "text": MARK},
    "get_task": {"task_id": "free"},
    "list_tasks": {},
    "board_status": {},
    "explain": {"task_id": "free"},
    "add_dependency": {"task_id": "free", "depends_on": "base"},
    "remove_dependency": {"task_id": "free", "depends_on": "base"},
    "cancel_task": {"task_id": "free", "reason": MARK},
    "reclaim_zombies": {},
    "read_events": {},
    "wait_for": {"task_id": "held"},
    "put_entry": {"key": "k", "value": MARK, **ADA},
    "get_entry": {"key": "there"},
    "list_entries": {},
    "delete_entry": {"key": "there", **ADA},
    "record_usage": {**ADA, "model": "m", "cost_usd": 1},
    "usage_report": {},
    "set_budget": {"agent": "ada", "usd": 1},
    "pause": {"plan": "default", "reason": MARK},
    "resume": {"plan": "default"},
}
"""A call of each tool that works."""

OTHERWISE = {
    "create_task": {"title": "other"},
    "create_tasks": {"tasks": []},
    "update_task": {"description": "other"},
    "claim_task": {"plan": "other"},
    "complete_task": {"result": 1},
    "fail_task": {"error": "other"},
    "release_task": {"delay_sec": 1},
    "split_task": {"subtasks": []},
    "hold_paths": {"writes": ["other"]},
    "note": {"text": "other"},
    "add_dependency": {"condition": "finished"},
    "remove_dependency": {"depends_on": "done"},
    "cancel_task": {"reason": "other"},
    "put_entry": {"value": 1},
    "delete_entry": {"if_version": 1},
    "record_usage": {"cost_usd": 2},
    "set_budget": {"usd": 2},
    "pause": {"reason": "other"},
}
"""What makes it another call, which the same request_id does not fit."""

PARTICULAR = [
    ("already_claimed", "claim_task", {**ADA, "task_id": "bobs"}),
    ("already_claimed", "claim_task", {**ADA, "task_id": "held"}),
    ("already_claimed", "claim_task", {"agent_id": "bob", "task_id": "bobs", "resume": True}),
    ("paths_held", "hold_paths", {**HELD, "writes": ["bobs/x"]}),
    ("max_hold_reached", "heartbeat", {"task_id": "worn", **ADA}),
    ("duplicate_id", "create_task", {"title": "t", "id": "free"}),
    ("duplicate_id", "create_tasks", {"tasks": [{"title": "t", "id": "free"}]}),
    ("duplicate_id", "split_task", {**HELD, "subtasks": [{"title": "t", "id": "free"}]}),
    ("cycle", "add_dependency", {"task_id": "base", "depends_on": "tip"}),
    ("cycle", "create_tasks", {"tasks": [{"title": "t", "id": n, "depends_on": [m]} for n, m in ("xy", "yx")]}),
    ("cycle", "split_task", {**HELD, "subtasks": [{"title": "t", "depends_on": ["after"]}]}),
    ("wrong_state", "update_task", {"task_id": "done", "title": "t"}),
    ("wrong_state", "update_task", {"task_id": "held", "writes": ["x"]}),
    ("wrong_state", "add_dependency", {"task_id": "held", "depends_on": "base"}),
    ("wrong_state", "remove_dependency", {"task_id": "done", "depends_on": "root"}),
    ("wrong_state", "cancel_task", {"task_id": "done"}),
    ("wrong_state", "claim_task", {**ADA, "task_id": "free", "plan": "other"}),
    ("invalid_argument", "add_dependency", {"task_id": "tip", "depends_on": "base", "condition": "failed"}),
    ("invalid_argument", "set_budget", {"plan": "other"}),
    ("invalid_argument", "record_usage", {**ADA, "usage": {"input_tokens": 9, "prompt_tokens": 8}}),
    ("source_conflict", "record_usage", {**ADA, "model": "n", "output_tokens": 1, "source": "msg"}),
    ("not_found", "get_entry", {"key": "missing"}),
    ("not_found", "usage_report", {"plan": "nowhere"}),
    ("not_found", "set_budget", {"plan": "nowhere", "usd": 1}),
    ("version_conflict", "put_entry", {"key": "there", "value": 1, "if_version": 7}),
    ("version_conflict", "delete_entry", {"key": "there", "if_version": 7}),
    ("cursor_expired", "read_events", {"after": 10**6}),
    ("pruned", "get_task", {"task_id": "old"}),
    ("pruned", "claim_task", {**ADA, "task_id": "old"}),
    ("pruned", "explain", {"task_id": "old"}),
]
"""Each code that is not raised by all tools alike, and what raises it."""


@pytest.fixture
def session(board, board_path, clock):
    """A session of several agents, on a board in which every text carries the mark."""
    session = Session(board, keepalive_sec=0)
    texts = {"title": MARK, "description": MARK, "payload": {MARK: MARK}}
    board.create_task(id="old", **texts)
    claimed(board, "old").complete(MARK)
    clock.advance(3600)
    board.prune(older_than_sec=60, events_older_than_sec=10**6)
    for name, fields in {
        "base": {},
        "tip": {"depends_on": ["base"]},
        "free": {"priority": 9},
        "root": {},
        "done": {"depends_on": ["root"]},
        "held": {"lease_timeout_sec": 3600},
        "after": {"depends_on": ["held"]},
        "bobs": {"writes": ["bobs/**"], "lease_timeout_sec": 3600},
        "lost": {},
        "gone": {"lease_timeout_sec": 3600},
        "worn": {"lease_timeout_sec": 20, "max_hold_sec": 90},
        "stray": {"lease_timeout_sec": 3600},
    }.items():
        board.create_task(id=name, **texts, **fields)
    claimed(board, "root").complete(MARK)
    claimed(board, "done").complete(MARK)
    with open_board(board_path, clock) as elsewhere:
        claimed(elsewhere, "bobs", "bob").note(MARK)
        claimed(elsewhere, "stray", "ada")
    for name in ("held", "lost", "gone"):
        TOOLS["claim_task"].run(Call(session), {"agent_id": "ada", "task_id": name})
    board.cancel_task("gone", reason=MARK)
    clock.advance(61)
    board.reclaim_zombies()
    TOOLS["claim_task"].run(Call(session), {"agent_id": "ada", "task_id": "worn"})
    for _ in range(9):
        clock.advance(10)
        session.renew()
    board.blackboard.put("", "there", MARK)
    board.ledger.record("ada", model="m", output_tokens=1, source="msg")
    return session


def failed(session, tool, arguments):
    """The error that a call ends in, as its model reads it; it has to be one that does no harm."""
    result = result_of(lambda: tool.run(Call(session), dict(arguments)))
    assert result["isError"] is True, result
    error = json.loads(result["content"][0]["text"])
    assert_harmless(error, tool)
    return error


def assert_harmless(error, tool):
    """One sentence, one step that breaks nothing and that the reader can take, and not a word of another agent's."""
    assert MARK not in json.dumps(error)
    for said in (error["message"], error["hint"]):
        assert 0 < len(said) < 400
        assert said.splitlines() == [said]
    assert re.fullmatch(r"[^.]*(\.[^ ][^.]*)*\.?", error["message"]), "more than a sentence"
    assert not HARM.search(error["hint"])
    for profile in PROFILES:
        if listed(tool.profiles, profile):
            tools = offer(profile).tools
            known = set(tools) | {argument.name for each in tools.values() for argument in each.arguments}
            assert set(TOOL_WORD.findall(error["hint"])) & {*TOOLS, "take_over"} <= known


def test_an_argument_that_a_tool_does_not_know_is_named(session):
    """In every tool."""
    for name, tool in TOOLS.items():
        error = failed(session, tool, USUAL[name] | {"colour": MARK})
        assert (name, error["code"], error["field"]) == (name, "invalid_argument", "colour")


def test_a_task_that_is_not_there_is_told(session):
    """In every tool that takes one, also in those that ask for its lease."""
    for name in (name for name, usual in USUAL.items() if "task_id" in usual):
        error = failed(session, TOOLS[name], USUAL[name] | {"task_id": "nobody"})
        assert (name, error["code"]) == (name, "not_found")


@pytest.mark.parametrize(
    ("task_id", "code"), [("lost", "lease_lost"), ("gone", "cancelled"), ("stray", "lease_unknown")]
)
def test_a_lease_that_is_not_held_any_more_says_why(session, task_id, code):
    """In every tool that needs one or signs with one."""
    for name in (*NEEDS_LEASE, "put_entry", "delete_entry"):
        error = failed(session, TOOLS[name], USUAL[name] | {"task_id": task_id})
        assert (name, error["code"]) == (name, code)


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_request_id_of_another_call_is_refused(session, name):
    """In every tool that takes one."""
    first = USUAL[name] | {"request_id": "r"}
    assert result_of(lambda: TOOLS[name].run(Call(session), dict(first)))["isError"] is False
    assert failed(session, TOOLS[name], first | OTHERWISE[name])["code"] == "request_conflict"


def test_a_particular_refusal_has_its_code(session):
    """With the words of the board."""
    for code, name, arguments in PARTICULAR:
        assert (name, failed(session, TOOLS[name], arguments)["code"]) == (name, code)


def test_only_the_holder_itself_is_shown_the_way_to_take_over(session):
    """After a restart it holds the task and knows no lease; to anyone else the task is simply taken."""
    hints = {
        who: failed(session, TOOLS["claim_task"], {"agent_id": who, "task_id": "bobs"})["hint"]
        for who in ("bob", "ada")
    }
    assert "take_over=true" in hints["bob"]
    assert hints["ada"] == "Claim another task, or wait until this one is free."


def test_a_board_that_fails_is_for_a_person_to_mend(tmp_path, clock):
    """In every tool; the model is not led to try it."""
    with open_board(tmp_path / "closed.db", clock) as board:
        session = Session(board, keepalive_sec=0)
        board.create_task("t", id="held")
        session.remember("ada", board.claim_task("ada"), heard=True)
    for name, tool in TOOLS.items():
        error = failed(session, tool, USUAL[name])
        assert (name, error["code"], error["hint"]) == (name, "board_closed", "Tell your user to restart this server.")


def _serve_reader(line, path):
    with open_served(path, durability="full", test_clock=False) as board:
        session = Session(board, keepalive_sec=0)
        seen = result_of(lambda: TOOLS["list_tasks"].run(Call(session), {}))
        line.send((seen["isError"], failed(session, TOOLS["create_task"], {"title": "t"})))


@only_root
@pytest.mark.multiproc
def test_a_board_that_is_only_read_is_served(clock):
    """Its readers need no more; what writes says that this server may not."""
    with shared_folder() as folder:
        open_board(folder / "board.db", clock).close()
        (folder / "board.db").chmod(0o644)
        failing, error = heard_from_nobody(_serve_reader, folder / "board.db")
    assert (failing, error["code"], error["hint"]) == (False, "read_only", HINTS["read_only"])


def kinds_of(kind):
    """A class of errors and all below it."""
    return [kind, *(below for child in kind.__subclasses__() for below in kinds_of(child))]


def test_every_error_of_the_store_has_a_step_for_a_model():
    """And is none that a model should carry out."""
    for kind in kinds_of(errors.StoreError):
        error = told(kind("Something went wrong."))
        assert_harmless(error, TOOLS["claim_task"])
        assert kind in (errors.Busy, errors.SumTooLarge) or error["hint"] == HINTS[kind.code]


def test_every_code_is_tried_here():
    """One that no tool can raise is named."""
    tried = {code for code, _, _ in PARTICULAR}
    tried |= {"invalid_argument", "not_found", "lease_unknown", "lease_lost", "cancelled", "request_conflict"}
    tried |= {kind.code for kind in kinds_of(errors.StoreError)}
    unheard = {"error", "conflict", "wrong_kind", "import_refused"}  # bases, and what only a person's command can raise
    unheard |= {"missing_extra", "unsafe_tokens", "configuration_refused"}
    unheard |= {"overloaded"}  # that is the HTTP front's, and is tried there
    assert {
        kind.code for kind in kinds_of(errors.AgentMeshError) if kind.__module__ == errors.__name__
    } - tried == unheard
