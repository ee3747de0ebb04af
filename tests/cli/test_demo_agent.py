"""The scripted agent of the demo: what it does on a task, over the same tools, without the processes."""

from hashlib import sha256

import pytest

from agentmesh.cli.demo_agent import work_on
from agentmesh.cli.demo_model import MODEL, usage_of
from agentmesh.mcp_server.session import Call, Session
from agentmesh.mcp_server.tools import TABLE
from tests.support.boards import open_board

TOOLS = {tool.name: tool for tool in TABLE}
ARTIFACT = {"key": "figures.csv", "content_type": "text/csv", "text": "a,b\n1,2 µs\n"}


class Client:
    """Calls the tools of a session in this process, as an agent's client would over a pipe."""

    def __init__(self, board):
        self._session = Session(board, agent="ann", keepalive_sec=0)

    def call(self, tool, **arguments):
        """What the tool answers."""
        return TOOLS[tool].run(Call(self._session), arguments)


@pytest.fixture
def board(board_path, clock):
    """A board of its own, since that of the command line runs by the wall clock."""
    with open_board(board_path, clock) as board:
        yield board


def work(board, **payload):
    """Let the agent work on the first task that is ready."""
    if payload:
        board.create_task("T", id="t", plan="p", payload={"work_sec": 0, **payload})
    client = Client(board)
    work_on(client, client.call("claim_task")["task"])


def test_it_reports_what_it_used(board):
    """As its vendor's block, call by call, for the attempt that it holds."""
    work(board, note="nothing special")
    entries = board.ledger.entries(task_id="t").entries
    assert [(entry.agent_id, entry.model, entry.fence) for entry in entries] == [("ann", MODEL, 1)] * 2
    assert [entry.output_tokens for entry in entries] == [usage_of("t", call)["output_tokens"] for call in (0, 1)]
    assert all(entry.cost_pusd for entry in entries)
    assert board.get_task("t").result == {"done": "T"}


def test_a_first_attempt_that_fails_leaves_nothing_but_its_cost(board, clock):
    """The second one does what it was to do."""
    work(board, fails_first="infra", leaves=ARTIFACT)
    assert board.ledger.report(plan="p").total.wasted_pusd > 0
    assert board.blackboard.get("p", "figures.csv") is None
    clock.advance(60)
    work(board)
    assert board.get_task("t").state == "completed"


def test_an_artifact_goes_from_one_task_to_the_next(board):
    """Bytes with their type, signed with the attempt; who uses them names their hash."""
    work(board, leaves=ARTIFACT)
    left = board.blackboard.get("p", "figures.csv")
    data = ARTIFACT["text"].encode()
    assert (left.value, left.content_type, left.task_id, left.fence) == (data, "text/csv", "t", 1)
    board.create_task("U", id="u", plan="p", payload={"work_sec": 0, "uses": "figures.csv"})
    work(board)
    read = {"key": "figures.csv", "bytes": len(data), "sha256": sha256(data).hexdigest()}
    assert board.get_task("u").result == {"done": "U", "read": read}
