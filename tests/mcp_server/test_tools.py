"""The table of tools, and what each tool does on a board."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from agentmesh.errors import AgentMeshError, InvalidArgument, LeaseUnknown
from agentmesh.mcp_server.about import INSTRUCTIONS, SERVER
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE

TOOLS = {tool.name: tool for tool in TABLE}


@pytest.fixture
def session(board):
    """A session on a new board, which renews nothing."""
    return Session(board, keepalive_sec=0)


@pytest.fixture
def do(session):
    """Call a tool by its name."""
    return lambda tool, **arguments: TOOLS[tool].run(Call(session), arguments)


def test_the_schemas_are_flat():
    """No reference, no null, nothing without a type; an unknown argument is refused by the call."""
    schemas = [tool.listing(None)["inputSchema"] for tool in TABLE]
    assert not any(word in json.dumps(schemas) for word in ("$ref", "$defs", "oneOf", "null"))
    properties = [argument for schema in schemas for argument in schema["properties"].values()]
    assert all("type" in argument or "anyOf" in argument for argument in properties)
    assert all("additionalProperties" in p or "properties" in p for p in properties if p.get("type") == "object")
    assert all(p["items"].get("type") != "object" or p["items"]["properties"] for p in properties if "items" in p)


def test_every_argument_is_named_once():
    """And each tool has a name that every client takes."""
    for tool in TABLE:
        names = [argument.name for argument in tool.arguments]
        assert len(set(names)) == len(names)
        assert tool.name.isidentifier()
        assert tool.name.islower()


def test_every_tool_is_in_the_documentation():
    """By its name, in the table of tools, and no other is."""
    page = Path(__file__).parents[2].joinpath("docs", "mcp.md").read_text("utf-8")
    table = page.partition("## Tools")[2].partition("## ")[0]
    assert sorted(re.findall(r"`(\w+)`", table.partition("Arguments are flat")[0])) == sorted(TOOLS)


def test_the_version_is_that_of_the_distribution():
    """It is written down, because asking for it is slow."""
    assert SERVER["version"] == version("pytest-agentmesh")
    assert all(len(text) < 500 for text in INSTRUCTIONS.values())


def test_a_plan_is_made_and_worked_off(do):
    """Create, depend, claim, note, hold, fail, release, split, complete."""
    do("create_tasks", tasks=[{"title": "a", "id": "a"}, {"title": "b", "id": "b", "depends_on": ["a"]}], plan="p")
    do("create_task", title="c", id="c", plan="p")
    do("add_dependency", task_id="c", depends_on="b")
    do("remove_dependency", task_id="c", depends_on="b")
    do("update_task", task_id="a", priority=9)
    claim = do("claim_task", agent_id="ada", plan="p")
    assert claim["task"]["id"] == "a"
    held = {"task_id": "a", "agent_id": "ada"}
    assert do("note", **held, text="half done")["text"] == "half done"
    assert do("hold_paths", **held, writes=["src/**"])["state"] == "in_progress"
    parts = do("split_task", **held, subtasks=[{"title": "a1", "id": "a1", "priority": 99}])
    assert parts["subtasks"] == [{"id": "a1", "title": "a1", "state": "pending"}]
    part = {"task_id": do("claim_task", agent_id="ada", plan="p")["task"]["id"], "agent_id": "ada"}
    assert part["task_id"] == "a1"
    assert do("complete_task", **part, result=[1])["state"] == "completed"
    again = do("claim_task", agent_id="ada", plan="p", task_id="a")
    assert again["dependencies"][0]["result"] == [1]
    assert do("release_task", **held)["state"] == "pending"
    do("claim_task", agent_id="ada", task_id="a")
    assert do("fail_task", **held, error="no luck", retry=False)["state"] == "failed"
    assert do("get_task", task_id="b")["state"] == "cancelled"
    assert do("get_task", task_id="a")["notes"][0]["text"] == "half done"


def test_the_board_is_looked_at(do):
    """List, status, explanation, history; a pause and its end; a cancelled task; dead agents."""
    do("create_task", title="a", id="a")
    do("create_task", title="b", id="b", depends_on='["a"]')
    assert [task["id"] for task in do("list_tasks", state="blocked")["tasks"]] == ["b"]
    assert do("board_status")["counts"]["pending"] == 1
    assert "causes" in do("explain", task_id="b")
    seen = do("read_events")
    assert seen["cursor"] == seen["events"][-1]["seq"]
    assert do("read_events", after=seen["cursor"]) == {"events": [], "cursor": seen["cursor"]}
    do("pause", reason="lunch", agent_id="boss")
    assert do("claim_task", agent_id="ada")["reason"] == "paused"
    assert do("resume") == {"resumed": True}
    assert do("cancel_task", task_id="a", reason="no need")["state"] == "cancelled"
    assert do("reclaim_zombies")["count"] == 0


def test_a_task_within_a_list_is_checked_like_one_alone(do):
    """The error says where."""
    with pytest.raises(InvalidArgument) as caught:
        do("create_tasks", tasks=[{"title": "a"}, {"title": "b", "prio": 1}])
    assert caught.value.field == "tasks[1].prio"


def test_a_lease_belongs_to_its_agent(do):
    """A name alone never authorises: a second agent of the session has no use of the first one's token."""
    do("create_task", title="a", id="a")
    do("claim_task", agent_id="ada")
    with pytest.raises(LeaseUnknown):
        do("complete_task", task_id="a", agent_id="bob")


def test_a_repeated_call_gives_the_first_answer(do):
    """Also when it ended the attempt: the token is still remembered."""
    do("create_task", title="a", id="a")
    do("claim_task", agent_id="ada")
    ending = {"task_id": "a", "agent_id": "ada", "result": 1, "request_id": "r1"}
    assert do("complete_task", **ending) == do("complete_task", **ending)


def test_a_token_of_another_form_is_refused_by_name(do):
    """Before the board is asked."""
    with pytest.raises(InvalidArgument) as caught:
        do("heartbeat", task_id="a", agent_id="ada", lease="nonsense")
    assert caught.value.field == "lease"


@pytest.mark.parametrize("tool", TABLE, ids=lambda tool: tool.name)
def test_no_argument_breaks_a_tool(session, tool):
    """Odd values of the right kind give an answer or an error of ours, never anything else."""
    odd = {
        "string": ["", "x", "\ud800", "a\0b", "x" * 100_000],
        "integer": [-1, 0, 10**30],
        "number": [-1.0, 0, 1e300],
        "boolean": [True, False],
        "strings": [[], ["a", "\ud800"], ["x"] * 2000],
        "object": [{}, {"input_tokens": 1, "output_tokens": 1}, {"x": {"y": [1]}}],
        "objects": [[], [{}], [{"title": "x"}]],
        "json": [0, "\ud800", {"a": [1e308]}, [[[[]]]]],
    }
    usual = {argument.name: odd[argument.kind][1] for argument in tool.arguments if argument.required}
    for argument in tool.arguments:
        for value in odd[argument.kind]:
            if argument.name == "wait_sec" and value == 0:
                continue
            try:
                answer = tool.run(Call(session), usual | {argument.name: value})
            except AgentMeshError:
                continue
            assert isinstance(answer, dict)


def test_a_task_is_paused_and_its_pause_ends(do, board):
    """By id, with an end; the status lists a few of many."""
    do("create_task", title="t", id="a")
    paused = do("pause", task_id="a", until="2999-01-01T00:00:00Z")
    assert (paused["scope"], paused["name"], paused["until_at"]) == ("task", "a", "2999-01-01T00:00:00Z")
    assert do("claim_task", agent_id="ada", task_id="a")["reason"] == "paused"
    assert do("explain", task_id="a")["causes"][0]["kind"] == "paused"
    assert do("resume", task_id="a") == {"resumed": True}
    for number in range(25):
        board.create_task("t", id=f"t{number}")
        do("pause", task_id=f"t{number}")
    found = do("board_status")
    assert (len(found["pauses"]), found["more_pauses"], found["paused_tasks"]) == (20, 5, 25)


def test_a_task_of_a_key_is_made_once_while_it_is_open(do):
    """Alone and among others; the answer says that it was there."""
    first = do("create_task", title="t", key="nightly")
    assert do("create_task", title="t", key="nightly") == first | {"existing": True}
    [found, made] = do("create_tasks", tasks=[{"title": "t", "key": "nightly"}, {"title": "u", "key": "v"}])["tasks"]
    assert (found["id"], found["existing"], "existing" in made) == (first["id"], True, False)
