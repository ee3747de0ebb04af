"""Hostile texts through every field of every tool: kept to the letter or refused, and never anything else."""

import json
from itertools import count

import pytest

from agentmesh.mcp_server import resources
from agentmesh.mcp_server.protocol import INVALID_PARAMS, Refused
from agentmesh.mcp_server.reply import result_of
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE
from tests.support.boards import claimed, put
from tests.support.hostile import NUMBERS, TEXTS

TOOLS = {tool.name: tool for tool in TABLE}
PLAIN = ("code", "message", "hint")
FRESH = count()


class Stage:
    """Tools on a board, called as a front calls them."""

    def __init__(self, board):
        self.board = board
        self.session = Session(board, keepalive_sec=0)

    def __call__(self, tool, /, **arguments):
        """What a tool answers, an error too; never the word that AgentMesh itself failed."""
        result = result_of(lambda: TOOLS[tool].run(Call(self.session), dict(arguments)))
        document = json.loads(json.dumps(result["structuredContent"]))
        assert document.get("code") != "internal", (tool, arguments)
        assert result["isError"] == ("hint" in document)
        return document

    def held(self):
        """A new task in ada's hands."""
        task_id = f"held-{next(FRESH)}"
        self("create_task", title="t", id=task_id, plan="usual")
        self("claim_task", agent_id="ada", task_id=task_id)
        return {"task_id": task_id, "agent_id": "ada"}

    def task(self, answer):
        """The task that an answer is about, as it stands."""
        return self("get_task", task_id=answer["id"])

    def usual(self, tool):
        """Arguments with which a call of the tool works."""
        if tool.name in HELD:
            return self.held() | HELD[tool.name]
        return {argument.name: USUAL[argument.name] for argument in tool.arguments if argument.required}


HELD = {
    "heartbeat": {},
    "complete_task": {},
    "fail_task": {"error": "e"},
    "release_task": {},
    "split_task": {"subtasks": []},
    "hold_paths": {},
    "note": {"text": "t"},
}
USUAL = {
    "title": "t",
    "tasks": [],
    "task_id": "a",
    "agent_id": "ada",
    "depends_on": "b",
    "key": "k",
    "value": 1,
}

KEPT = {
    ("create_task", "title"): lambda stage, answer: stage.task(answer)["title"],
    ("create_task", "description"): lambda stage, answer: stage.task(answer).get("description", ""),
    ("create_task", "payload"): lambda stage, answer: stage.task(answer)["payload"],
    ("create_task", "id"): lambda stage, answer: stage.task(answer)["id"],
    ("create_task", "plan"): lambda _, answer: answer["plan"],
    ("create_task", "tags"): lambda _, answer: answer["tags"],
    ("create_task", "requires"): lambda _, answer: answer["requires"],
    ("update_task", "title"): lambda stage, _: stage.task({"id": "a"})["title"],
    ("update_task", "description"): lambda stage, _: stage.task({"id": "a"}).get("description", ""),
    ("update_task", "payload"): lambda stage, _: stage.task({"id": "a"})["payload"],
    ("complete_task", "result"): lambda stage, answer: stage.task(answer)["result"],
    ("fail_task", "error"): lambda stage, answer: stage.task(answer)["attempts"][0].get("error", ""),
    ("note", "text"): lambda _, answer: answer["text"],
    ("put_entry", "key"): lambda stage, answer: stage("get_entry", key=answer["key"])["key"],
    ("put_entry", "namespace"): lambda _, answer: answer.get("namespace", ""),
    ("put_entry", "value"): lambda stage, _: stage("get_entry", key="k")["value"],
    ("put_entry", "agent_id"): lambda stage, _: stage("get_entry", key="k")["agent_id"],
    ("pause", "reason"): lambda _, answer: answer.get("reason", ""),
    ("set_budget", "agent"): lambda _, answer: answer["name"],
}
"""Where what was taken is read again."""


@pytest.fixture
def stage(board):
    """Two tasks and a pair of empty hands."""
    put(board, "a", "b")
    return Stage(board)


def assert_refused(answer, text, where):
    """In our own words: what could be a name may be quoted, a text may not."""
    told = " ".join(answer[word] for word in PLAIN)
    is_name = text.isprintable() and " " not in text
    too_short_to_tell = len(text) < 12
    assert is_name or too_short_to_tell or text not in told, where
    assert told.isprintable(), where


@pytest.mark.parametrize("tool", TABLE, ids=lambda tool: tool.name)
def test_a_text_is_kept_to_the_letter_or_refused(stage, tool):
    """In each argument that may hold one, alone or in a list, an object or any JSON."""
    shapes = {
        "string": lambda text: text,
        "strings": lambda text: [text],
        "json": lambda text: text,
        "object": lambda text: {text: text},
        "objects": lambda text: [{"title": text, "payload": {text: text}}],
    }
    for argument in tool.arguments:
        if argument.kind not in shapes or argument.choices:
            continue
        usual = {"clear": True} if tool.name == "set_budget" and argument.name not in KEPT else {}
        optional = argument.kind == "string" and not (argument.required or argument.blank)
        for text in TEXTS:
            if optional and not text:
                continue  # that is not given
            given = shapes[argument.kind](text)
            more = {"usd": 1} if (tool.name, argument.name) == ("set_budget", "agent") else usual
            if tool.name == "pause":
                stage("resume")  # a pause that stands keeps its reason
            answer = stage(tool.name, **stage.usual(tool) | more | {argument.name: given})
            if "hint" in answer:
                assert_refused(answer, text, (tool.name, argument.name, text))
            elif kept := KEPT.get((tool.name, argument.name)):
                assert kept(stage, answer) == given, (tool.name, argument.name)


@pytest.mark.parametrize("tool", TABLE, ids=lambda tool: tool.name)
def test_a_number_is_taken_as_it_is_or_refused(stage, tool):
    """Whatever its size; a text that looks like one is none."""
    for argument in tool.arguments:
        if argument.kind not in ("integer", "number") or argument.name == "wait_sec":
            continue
        for number in NUMBERS:
            answer = stage(tool.name, **stage.usual(tool) | {argument.name: number})
            if isinstance(number, str | bool):
                assert answer["code"] == "invalid_argument", (tool.name, argument.name, number)


@pytest.mark.parametrize("text", TEXTS)
def test_a_uri_of_hostile_text_names_nothing(stage, text):
    """By itself, or where an id belongs: it is refused, and told as it came."""
    for uri in (text, *(resource.uri.format(id=text, plan=text) for resource in resources.RESOURCES[2:])):
        with pytest.raises(Refused) as caught:
            resources.read(stage.session, uri)
        assert (caught.value.code, caught.value.data["uri"]) == (INVALID_PARAMS, uri)


def keys_of(mark, node, key=""):
    """The names under which a mark stands in a document."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from ([f"{key}(key)"] if mark in name else [])
            yield from keys_of(mark, value, key if key in ("payload", "result", "value") else name)
    elif isinstance(node, list):
        for value in node:
            yield from keys_of(mark, value, key)
    elif isinstance(node, str) and mark in node:
        yield key


MARKS = {
    "MARK-TITLE": {"title"},
    "MARK-DESCRIPTION": {"description"},
    "MARK-PAYLOAD": {"payload", "payload(key)"},
    "MARK-RESULT": {"result"},
    "MARK-ERROR": {"error"},
    "MARK-NOTE": {"text"},
    "MARK-REASON": {"reason"},
    "MARK-PAUSE": {"reason"},
    "MARK-VALUE": {"value", "value(key)"},
    "MARK-PATH": {"writes"},
}
"""Texts of agents, and the only names under which they may ever stand in an answer."""


def test_a_text_of_an_agent_stands_only_in_a_field_of_its_own(stage):
    """Never in a sentence of ours, whatever is asked."""
    texts = {
        "title": "MARK-TITLE here",
        "description": "MARK-DESCRIPTION",
        "payload": {"MARK-PAYLOAD": ["MARK-PAYLOAD"]},
    }
    answers = [stage("create_task", id=name, **texts) for name in ("done", "failed", "off", "free", "held")]
    answers.append(stage("create_task", id="next", depends_on=["done"], **texts))
    answers += [stage("create_task", id=name, writes=["MARK-PATH with blanks"], **texts) for name in ("busy", "waits")]
    answers.append(stage("claim_task", agent_id="ada", task_id="busy"))
    answers.append(stage("hold_paths", agent_id="ada", task_id="busy", writes=["MARK-PATH with blanks/too"]))
    for name in ("done", "failed", "held"):
        answers.append(stage("claim_task", agent_id="ada", task_id=name))
        answers.append(stage("note", agent_id="ada", task_id=name, text="MARK-NOTE"))
        answers.append(stage("hold_paths", agent_id="ada", task_id=name, writes=["MARK-PATH with blanks"]))
    answers.append(stage("complete_task", agent_id="ada", task_id="done", result={"r": "MARK-RESULT"}))
    answers.append(stage("fail_task", agent_id="ada", task_id="failed", error="MARK-ERROR", retry=False))
    answers.append(stage("cancel_task", task_id="off", reason="MARK-REASON"))
    answers.append(stage("put_entry", key="k", value={"MARK-VALUE": "MARK-VALUE"}))
    answers.append(stage("claim_task", agent_id="bob", task_id="next"))
    answers.append(stage("pause", plan="default", reason="MARK-PAUSE"))
    answers.append(stage("claim_task", agent_id="eve"))
    answers.append(stage("claim_task", agent_id="eve", task_id="held"))
    for name in ("done", "failed", "off", "free", "held", "next", "waits"):
        answers += [stage("get_task", task_id=name), stage("explain", task_id=name)]
        answers.append(json.loads(resources.read(stage.session, f"agentmesh://tasks/{name}")["contents"][0]["text"]))
    answers += [stage(name) for name in ("list_tasks", "board_status", "explain", "read_events", "list_entries")]
    answers += [stage("get_entry", key="k"), stage("usage_report"), stage("reclaim_zombies")]
    for name in ("board", "session"):
        answers.append(json.loads(resources.read(stage.session, f"agentmesh://{name}")["contents"][0]["text"]))
    assert {mark: {key for answer in answers for key in keys_of(mark, answer)} for mark in MARKS} == MARKS


def test_no_event_and_no_log_line_carries_a_text_of_an_agent(stage, capfd):
    """The history is read by agents, the log by people."""
    task_id = stage.held()["task_id"]
    stage("note", task_id=task_id, agent_id="ada", text="MARK one")
    stage("fail_task", task_id=task_id, agent_id="ada", error="MARK two")
    stage("create_task", title="MARK three", description="MARK four")
    claimed(stage.board, "a").complete("MARK five")
    assert "MARK" not in json.dumps(stage("read_events"))
    assert "MARK" not in "".join(capfd.readouterr())
