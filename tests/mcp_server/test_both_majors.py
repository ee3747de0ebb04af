"""The SDK's clients of both majors, each in an environment of its own, on both fronts: they are told the same."""

import json
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path

import pytest

from agentmesh import Board
from agentmesh.mcp_server.tokens import TokenFile
from tests.mcp_server.driver import DEADLINE_SEC, run_command, serve_command
from tests.support.environments import NEEDS_AN_INDEX, python_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiproc,
    pytest.mark.timeout(300),  # the first run installs the older SDK
    NEEDS_AN_INDEX,
]

CLIENTS = Path(__file__).parent / "clients"
OLDER = "mcp>=1.20,<2"
AGENTS = (None, "ada")
SIDES = tuple(product((1, 2), ("stdio", "http")))
KEYS_OF_THE_NEWEST_ERA = ("_meta", "cacheScope", "resultType", "ttlMs")
"""Beside each result in the newest era of the protocol, which only the newer SDK speaks; on stdio as over HTTP."""

VOLATILE = (
    (re.compile(r"\btask_[0-9a-z]{10}\b"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<time>"),
    (re.compile(r"\b\d{16}\b"), "0"),  # the same as a number
    (re.compile(r"\b\d+\.[0-9a-f]{32}\b"), "<lease>"),
)


class Client:
    """A client in its own process; what it is told is written down."""

    def __init__(self, process):
        self._process = process
        self.greeting = self._hear()
        self.told = []

    def _hear(self):
        line = self._process.stdout.readline()
        assert line, "the client has gone; its last words are among what was captured"
        return json.loads(line)

    def ask(self, method, **arguments):
        """What the server answers to one of the client's methods."""
        self._process.stdin.write(json.dumps([method, arguments]) + "\n")
        self._process.stdin.flush()
        answer = self._hear()
        for key in KEYS_OF_THE_NEWEST_ERA:
            answer.pop(key, None)
        self.told.append({"asked": [method, arguments], "answer": answer})
        return answer

    def call(self, tool, **arguments):
        """What a tool answers."""
        return self.ask("call_tool", name=tool, arguments=arguments).get("structuredContent")


def play(client, name):
    """Everything that is listed, then a day at the board."""
    for listed in ("tools", "resources", "resource_templates", "prompts"):
        client.ask(f"list_{listed}")
    for prompt, arguments in (("plan_work", {"goal": "ship"}), ("worker_loop", {}), ("plan_work", {})):
        client.ask("get_prompt", name=prompt, arguments=arguments)
    play_quoted_calls(client, name)
    client.call("create_task", title="größer", id="two", payload={"n": [1, None, "2"], "text": "[1]"}, estimate_usd=1)
    client.call("set_budget", plan="default", usd=2)
    for resource in ("board", "session", "tasks/two", "plans/default/graph", "tasks/nobody", "nothing"):
        client.ask("read_resource", uri=f"agentmesh://{resource}")
    client.call("claim_task", agent_id=name)
    block = {"input_tokens": 1000, "output_tokens": 400}
    client.call("record_usage", agent_id=name, task_id="two", model="claude-sonnet-4-5", usage=block)
    client.call("note", agent_id=name, task_id="two", text='</system>"result": \\u2028\x1b[31m')
    client.call("fail_task", agent_id=name, task_id="two", error="no", retry=False)
    client.call("put_entry", key="k", value={"none": None, "list": []})
    client.call("get_entry", key="k")
    for wrong in ({"title": "again", "id": "two"}, {"titel": "typo"}, {"title": "x", "priority": "high"}):
        client.call("create_task", **wrong)
    client.call("heartbeat", agent_id=name, task_id="two")
    client.call("claim_task", agent_id=name)
    client.call("claim_task", agent_id="somebody-else")
    client.call("drop_table")
    for tool in ("list_tasks", "read_events", "usage_report", "board_status", "explain"):
        client.call(tool)


def play_quoted_calls(client, name):
    """The five calls that every description of the server quotes, as they are written there."""
    made = client.call("create_task", title="Refactor auth module", priority=5)
    client.call("claim_task", agent_id=name)
    client.call("heartbeat", task_id=made["id"], agent_id=name)
    client.call("complete_task", task_id=made["id"], agent_id=name, result={"diff": "+12 -4"})
    client.call("reclaim_zombies")


def masked(document):
    """Without what is another in each run."""
    text = json.dumps(document)
    for pattern, mask in VOLATILE:
        text = pattern.sub(mask, text)
    return json.loads(text)


@contextmanager
def served(path, agent):
    """`agentmesh serve` on a board, for those with a token if an agent is named; how a client is told to reach it."""
    tokens = [TokenFile.beside(path).add(agent, "all", 0, random.Random(0))[1]] if agent else []
    with subprocess.Popen(serve_command(path), stderr=subprocess.PIPE, text=True) as process:
        try:
            found = filter(None, (re.search(r"serving (http://127\.0\.0\.1:\d+/mcp)", line) for line in process.stderr))
            url = next(found, None)
            assert url, "the server did not start"
            yield ["http", url[1], *tokens]
        finally:
            process.terminate()


@contextmanager
def connected(python, major, reached):
    """A client of this major."""
    command = [python, CLIENTS / f"v{major}.py", *reached]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Client(process)
        finally:
            process.stdin.close()
            try:
                process.wait(DEADLINE_SEC)
            finally:
                process.kill()


@pytest.fixture(scope="module")
def pythons(request, tmp_path_factory):
    """The Python of each major's environment."""
    return {1: python_with(request, tmp_path_factory, OLDER), 2: sys.executable}


@pytest.fixture(scope="module")
def told(pythons, tmp_path_factory):
    """What the client of each side was told, by agent; each at a board of its own."""
    folder = tmp_path_factory.mktemp("boards")

    def visit(agent, side):
        major, front = side
        path = folder / f"{agent}-{major}-{front}.db"
        Board.open(path).close()
        if front == "http":
            server = served(path, agent)
        else:
            server = nullcontext(["stdio", *run_command(path, *(["--agent", agent] if agent else []))])
        with server as reached, connected(pythons[major], major, reached) as client:
            play(client, agent or "claude-3-7-sonnet")
            return client

    with ThreadPoolExecutor() as pool:
        visits = {(agent, side): pool.submit(visit, agent, side) for agent, side in product(AGENTS, SIDES)}
        return {agent: {side: visits[agent, side].result() for side in SIDES} for agent in AGENTS}


@pytest.mark.parametrize("agent", AGENTS)
def test_both_majors_are_told_the_same_on_both_fronts(told, agent):
    """Lists, prompts, resources, results and refusals; with a session's name or a token, and without."""
    documents = {side: masked([client.greeting["instructions"], *client.told]) for side, client in told[agent].items()}
    first, *others = documents.values()
    for other in others:
        assert other == first
    assert [client.greeting["sdk"][:2] for client in told[agent].values()] == ["1.", "1.", "2.", "2."]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_text_of_every_result_is_its_structure(told, agent):
    """Whichever of them a client shows to its model."""
    for client in told[agent].values():
        results = [told["answer"] for told in client.told if "content" in told["answer"]]
        assert len(results) > 20
        for result in results:
            assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


@pytest.mark.parametrize("agent", AGENTS)
def test_the_quoted_calls_work_as_written_for_both_majors(told, agent):
    """Each of them gives what it says."""
    for client in told[agent].values():
        calls = (told for told in client.told if told["asked"][0] == "call_tool")
        made, claim, beat, done, swept = (next(calls)["answer"] for _ in range(5))
        assert not any(answer["isError"] for answer in (made, claim, beat, done, swept))
        task_id = made["structuredContent"]["id"]
        assert claim["structuredContent"]["task"]["id"] == task_id
        assert beat["structuredContent"]["lease_expires_at"] >= claim["structuredContent"]["lease_expires_at"]
        assert (done["structuredContent"]["id"], done["structuredContent"]["state"]) == (task_id, "completed")
        assert swept["structuredContent"] == {"count": 0, "reclaimed": []}
