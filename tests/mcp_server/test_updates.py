"""Word of what changed: enough of it, not too much, and none to those who did not ask."""

import pytest

from agentmesh.board.facade import Board
from agentmesh.mcp_server import updates
from agentmesh.mcp_server.protocol import INVALID_PARAMS, Refused
from agentmesh.mcp_server.resources import Place
from agentmesh.mcp_server.session import Session
from agentmesh.mcp_server.updates import Follower, Subscriptions, honoured
from tests.mcp_server.driver import ENVELOPE, Server, run_command
from tests.support.boards import claimed, put

BOARD, SESSION = Place("board"), Place("session")
GRAPH, TASK, CHILD = Place("graph", "default"), Place("task", "a"), Place("task", "b")
EVERYTHING = sorted([BOARD, SESSION, GRAPH, TASK, CHILD])
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture
def follower(board):
    """Follows a board with two tasks, of which `b` waits for `a`, for a session of ada's."""
    put(board, "a", "b: a")
    with Follower(Session(board, agent="ada"), EVERYTHING) as follower:
        yield follower


def test_nothing_is_told_while_nothing_happens(follower, board):
    """Reading is nothing, and neither is a refusal."""
    assert follower.news(EVERYTHING) == []
    board.get_task("a")
    board.has_work()
    assert follower.news(EVERYTHING) == []


def test_what_happens_is_told_once(follower, board):
    """To the board, the plan's graph, the task and the agent whom it concerns."""
    claimed(board, "a", "ada")
    assert follower.news(EVERYTHING) == [BOARD, GRAPH, SESSION, TASK]
    assert follower.news(EVERYTHING) == []


def test_only_what_is_wanted_is_told(follower, board):
    """Each subscription has its own wishes."""
    claimed(board, "a", "ada")
    assert follower.news([TASK]) == [TASK]


def test_a_heartbeat_is_no_news(follower, board):
    """It is a commit without an event."""
    claim = claimed(board, "a", "ada")
    follower.news(EVERYTHING)
    claim.heartbeat()
    assert follower.news(EVERYTHING) == []


def test_a_task_that_becomes_ready_by_the_end_of_another_is_told(follower, board):
    """No event names it, and who waits for it wants to know."""
    claim = claimed(board, "a", "bob")
    follower.news(EVERYTHING)
    claim.complete()
    assert CHILD in follower.news(EVERYTHING)


def test_a_note_and_an_entry_change_no_counts(follower, board):
    """A note is read with its task; an entry is no resource."""
    claim = claimed(board, "a", "bob")
    follower.news(EVERYTHING)
    claim.note("half done")
    assert follower.news(EVERYTHING) == [TASK]
    board.blackboard.put("", "k", 1)
    assert follower.news(EVERYTHING) == []


def test_money_changes_the_board_and_whom_it_is_for(follower, board):
    """Not the graph."""
    board.budgets.set(agent="ada", usd=1)
    assert follower.news(EVERYTHING) == [BOARD, SESSION]
    board.ledger.record("ada", cost_usd="0.1")
    assert follower.news(EVERYTHING) == [BOARD, SESSION]


def test_more_than_one_look_can_hold_counts_as_everything(follower, board, monkeypatch):
    """And from there it goes on."""
    monkeypatch.setattr(updates, "MOST_EVENTS", 5)
    put(board, *"cdefgh")
    assert follower.news(EVERYTHING) == EVERYTHING
    assert follower.news(EVERYTHING) == []
    claimed(board, "a", "ada")
    assert follower.news(EVERYTHING) == [BOARD, GRAPH, SESSION, TASK]


def test_another_process_is_heard_of(follower, board_path, clock):
    """The history is on the board, not in the server."""
    with Board.open(board_path, clock=clock) as other:
        claimed(other, "a", "ada")
    assert TASK in follower.news(EVERYTHING)


def test_only_what_can_be_read_is_honoured():
    """Under the URI by which the client knows it; a flood of them is cut."""
    assert honoured(["agentmesh://tasks/a%62", "agentmesh://nothing", "x"]) == {
        Place("task", "ab"): "agentmesh://tasks/a%62"
    }
    assert len(honoured([f"agentmesh://tasks/{number}" for number in range(1000)])) == updates.MOST_PLACES


def test_a_subscription_to_nothing_is_refused(board):
    """And so is one too many; to end one that is not there is no error."""
    subscriptions = Subscriptions(Session(board), lambda _: True)
    subscriptions.remove("agentmesh://board")
    with pytest.raises(Refused) as caught:
        subscriptions.add("agentmesh://nothing")
    assert (caught.value.code, caught.value.data) == (INVALID_PARAMS, {"uri": "agentmesh://nothing"})
    for number in range(updates.MOST_PLACES):
        subscriptions.add(f"agentmesh://tasks/{number}")
    subscriptions.add("agentmesh://tasks/0")
    with pytest.raises(Refused, match="At most"):
        subscriptions.add("agentmesh://board")
    subscriptions.close()


@pytest.fixture
def server(tmp_path):
    """The server as clients start it, with a task on its board."""
    with Board.open(tmp_path / "board.db") as board:
        put(board, "a")
    with Server(run_command(tmp_path / "board.db")) as running:
        yield running


def listen(server, *uris):
    """Begin to listen; the id of the request."""
    wanted = {"resourceSubscriptions": list(uris), "toolsListChanged": True}
    return server.begin("subscriptions/listen", {"notifications": wanted, "_meta": ENVELOPE})


@pytest.mark.multiproc
def test_a_listener_is_acknowledged_told_and_in_the_end_answered(server):
    """Each message names the subscription; the end of input ends it well."""
    number = listen(server, "agentmesh://tasks/a", "agentmesh://nothing")
    acknowledged = server.receive()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": ["agentmesh://tasks/a"]}
    assert server.tool("claim_task", agent_id="ada")["claimed"] is True
    updated = (server.unclaimed or [server.receive()])[0]
    assert updated["method"] == "notifications/resources/updated"
    assert updated["params"]["uri"] == "agentmesh://tasks/a"
    server.process.stdin.close()
    (last,) = server.rest()
    assert last["id"] == number
    subscribed = [message["params"]["_meta"][SUBSCRIPTION] for message in (acknowledged, updated)]
    assert [*subscribed, last["result"]["_meta"][SUBSCRIPTION]] == [number] * 3


@pytest.mark.multiproc
def test_a_listener_that_goes_is_told_no_more(server):
    """Its request is cancelled, and never answered."""
    number = listen(server, "agentmesh://board")
    server.receive()
    server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert server.tool("claim_task", agent_id="ada")["claimed"] is True
    second = listen(server, "agentmesh://tasks/a")
    server.receive()
    server.tool("note", task_id="a", agent_id="ada", text="still here")
    told = (server.unclaimed or [server.receive()])[0]
    assert told["params"]["_meta"][SUBSCRIPTION] == second
    server.process.stdin.close()
    assert [message["id"] for message in server.rest()] == [second]


@pytest.mark.multiproc
def test_the_older_era_subscribes_one_by_one(server):
    """And is told without the name of a subscription, until it ends it."""
    server.greet()
    assert server.ask("resources/subscribe", {"uri": "agentmesh://tasks/a"})["result"] == {}
    server.tool("claim_task", agent_id="ada")
    told = (server.unclaimed or [server.receive()])[0]
    assert told["params"] == {"uri": "agentmesh://tasks/a"}
    assert server.ask("resources/unsubscribe", {"uri": "agentmesh://tasks/a"})["result"] == {}
    assert server.ask("resources/subscribe", {"uri": "x"})["error"]["code"] == INVALID_PARAMS
    server.process.stdin.close()
    assert server.rest() == []
