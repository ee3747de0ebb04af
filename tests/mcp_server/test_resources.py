"""What can be read: the board, tasks, graphs, and where the session stands."""

import json
import re
from itertools import product
from urllib.parse import quote

import pytest

from agentmesh.mcp_server import resources
from agentmesh.mcp_server.offer import offer
from agentmesh.mcp_server.profiles import PROFILES
from agentmesh.mcp_server.protocol import INTERNAL_ERROR, INVALID_PARAMS, Refused
from agentmesh.mcp_server.resources import MERMAID, MOST_BYTES, MOST_EDGES, RESOURCES, Place, place
from agentmesh.mcp_server.session import Call, Session
from agentmesh.standing import LIMIT
from tests.support.boards import claimed, open_board, put

CAP = 60 * 1024


@pytest.fixture
def session(board):
    """A session of ada's, which renews nothing."""
    return Session(board, agent="ada", keepalive_sec=0)


def read(session, uri):
    """The text of a resource; its URI has to come back as it was asked for."""
    (content,) = resources.read(session, uri)["contents"]
    assert content["uri"] == uri
    assert len(content["text"].encode()) <= CAP
    return content["text"] if content["mimeType"] == MERMAID else json.loads(content["text"])


def refusal(session, uri):
    """How a read is refused; the URI is always told."""
    with pytest.raises(Refused) as caught:
        resources.read(session, uri)
    assert caught.value.data["uri"] == uri
    return caught.value.code, caught.value.data.get("code")


def do(session, tool, **arguments):
    """Call a tool of the session's profile."""
    return offer(session.profile).tools[tool].run(Call(session), arguments)


def test_the_board_is_counts_plans_pauses_and_budgets(session, board):
    """As board_status has it."""
    put(board, "a", plan="shop")
    board.budgets.set(plan="shop", usd=2)
    board.pause(plan="shop", reason="lunch")
    found = read(session, "agentmesh://board")
    assert found["counts"]["pending"] == 1
    assert found["plans"][0]["plan"] == "shop"
    assert found["pauses"][0]["reason"] == "lunch"
    assert found["budgets"] == [
        {
            "scope": "plan",
            "name": "shop",
            "period": "lifetime",
            "left_usd": "2",
            "limit_usd": "2",
            "spent_usd": "0",
            "spent_tokens": 0,
        }
    ]
    assert do(session, "board_status") == found


def test_a_board_of_many_plans_and_budgets_still_fits(session, board):
    """What was left out is counted."""
    board.create_tasks([{"title": "t", "plan": f"{number:0100}"} for number in range(600)])
    for number in range(30):
        board.budgets.set(agent=f"a{number}", tokens=1)
    found = read(session, "agentmesh://board")
    assert found["truncated"][0]["of"] == 600
    assert (len(found["budgets"]), found["more_budgets"]) == (20, 10)


@pytest.mark.parametrize("task_id", ["plain", "a/b", "50%", "a%2Fb", "größe", "?x#y", "..", "a+b"])
def test_a_task_is_read_by_its_id(session, board, task_id):
    """Percent-encoded, as clients make a URI of a template."""
    board.create_task("one", id=task_id, payload={"n": 1})
    found = read(session, "agentmesh://tasks/" + quote(task_id, safe=""))
    assert (found["id"], found["payload"], found["attempts"]) == (task_id, {"n": 1}, [])


def test_a_huge_task_is_cut_with_a_mark(session, board):
    """It says how to read on."""
    board.create_task("big", id="big", description="d" * 60_000, payload={"p": "é" * 20_000})
    found = read(session, "agentmesh://tasks/big")
    assert {mark["field"] for mark in found["truncated"]} <= {"description", "payload"}
    assert "get_task" in found["truncated_hint"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("agentmesh://tasks/nobody", (INVALID_PARAMS, "not_found")),
        ("agentmesh://plans/nowhere/graph", (INVALID_PARAMS, "not_found")),
        ("agentmesh://tasks/two%20words", (INVALID_PARAMS, "invalid_argument")),
        ("agentmesh://tasks/%00", (INVALID_PARAMS, "invalid_argument")),
        ("agentmesh://tasks/", (INVALID_PARAMS, None)),
        ("agentmesh://plans//graph", (INVALID_PARAMS, None)),
        ("agentmesh://plans/shop", (INVALID_PARAMS, None)),
        ("agentmesh://nothing", (INVALID_PARAMS, None)),
        ("file:///etc/passwd", (INVALID_PARAMS, None)),
        ("", (INVALID_PARAMS, None)),
        ("\ud800", (INVALID_PARAMS, None)),
    ],
)
def test_what_is_not_there_is_refused_with_its_uri(session, uri, expected):
    """As the specification has it: bad params, the URI in the data."""
    assert refusal(session, uri) == expected


def test_a_board_that_cannot_be_read_is_an_internal_error(tmp_path, clock):
    """With the code of its own."""
    with open_board(tmp_path / "closed.db", clock) as board:
        session = Session(board)
    assert refusal(session, "agentmesh://board") == (INTERNAL_ERROR, "board_closed")


def test_a_uri_and_a_place_are_two_ways_to_say_the_same():
    """Whatever the name."""
    for resource, name in product(RESOURCES, ["a", "a/b", "/graph", "%", "é", "{x}"]):
        expected = Place(resource.kind, name) if resource.is_template else Place(resource.kind)
        uri = re.sub(r"\{\w+\}", lambda _, name=name: quote(name, safe=""), resource.uri)
        assert place(uri) == expected


def test_a_graph_is_drawn_with_its_edges(session, board):
    """Also those that come from another plan."""
    put(board, "base", plan="other")
    put(board, "a: base", "b: a:failed", plan="shop")
    graph = read(session, "agentmesh://plans/shop/graph")
    assert graph.startswith("flowchart TD\n")
    assert re.search(r'n\d\["base"\]', graph)
    assert re.search(r"n\d -\. failed \.-> n\d", graph)
    assert "cut" not in graph


def test_a_hostile_title_draws_nothing_of_its_own(session, board):
    """It stays within the label, as entities."""
    title = 'x"] --> evil["<img src=x onerror=alert(1)>\n%%{init: {}}%%\nclick n0 href "javascript:x"'
    board.create_task(title, id='a"]-->b', plan="p")
    lines = read(session, "agentmesh://plans/p/graph").splitlines()
    assert len(lines) == 3
    assert re.fullmatch(r'    n0\["[\w .,/#;<>-]*"\]:::pending', lines[1])
    assert "<img" not in lines[1]


def test_a_large_graph_is_cut_to_what_mermaid_draws(session, board):
    """What is unfinished stays, a comment counts the rest."""
    spec = [{"title": "語" * 250, "id": f"t{n}", "depends_on": [f"t{n - 1}"] if n else []} for n in range(700)]
    board.create_tasks(spec, plan="p")
    claimed(board, "t0")
    graph = read(session, "agentmesh://plans/p/graph")
    assert len(graph.encode()) <= MOST_BYTES
    kept, total, edges, all_edges = map(int, re.search(r"%% cut: (\d+) of (\d+) tasks, (\d+) of (\d+)", graph).groups())
    assert 0 < kept < total == 700
    assert (edges, all_edges) == (graph.count("-->"), 699)
    assert '"t0<br/>' in graph


def test_a_graph_has_no_more_edges_than_mermaid_draws(session, board):
    """With few tasks, and many edges between them."""
    put(board, *(f"t{n}: " + " ".join(f"t{m}" for m in range(n)) for n in range(40)), plan="p")
    graph = read(session, "agentmesh://plans/p/graph")
    assert graph.count("-->") == MOST_EDGES < 780
    assert "40 of 40 tasks, 500 of 780 edges" in graph


def test_a_session_is_told_what_it_holds_and_what_next(session, board):
    """Its open attempt, what budgets leave it, and to go on."""
    put(board, "a", "b", estimate_usd="0.5")
    board.budgets.set(agent="ada", usd=2)
    board.budgets.set(agent="bob", usd=1)
    assert read(session, "agentmesh://session")["next"] == "There is work: claim_task."
    do(session, "claim_task")
    found = read(session, "agentmesh://session")
    (attempt,) = found["attempts"]
    assert (found["agent_id"], attempt["task_id"], attempt["title"], attempt["fence"]) == ("ada", "a", "Task a", 1)
    assert attempt["lease_known"] is True
    assert [(left["name"], left["left_usd"]) for left in found["budgets"]] == [("ada", "1.5")]
    assert found["next"].startswith("Go on with the first task")


def test_after_a_restart_a_session_is_told_the_way_back(session, board):
    """And the way leads there."""
    put(board, "a")
    do(session, "claim_task")
    anew = Session(board, agent="ada", profile="worker", keepalive_sec=0)
    found = read(anew, "agentmesh://session")
    assert found["attempts"][0]["lease_known"] is False
    assert "resume=true" in found["next"]
    assert do(anew, "claim_task", task_id="a", resume=True, take_over=True)["resumed"] is True
    assert read(anew, "agentmesh://session")["attempts"][0]["lease_known"] is True
    assert do(anew, "complete_task", task_id="a")["state"] == "completed"


def test_a_due_lease_is_told(session, board, clock):
    """Its holder may still be in time."""
    put(board, "a")
    do(session, "claim_task")
    clock.advance(61)
    assert read(session, "agentmesh://session")["attempts"][0]["lease_due"] is True


def test_with_nothing_in_hand_it_says_whether_to_wait(session, board):
    """Or to stop, once all is done."""
    assert read(session, "agentmesh://session") == {
        "agent_id": "ada",
        "attempts": [],
        "next": "Nothing is left to do: stop.",
    }
    put(board, "a")
    lease = claimed(board, "a", "bob").lease
    assert read(session, "agentmesh://session")["next"] == "Nothing is ready: claim_task with wait_sec=50."
    board.complete_task(lease)
    assert read(session, "agentmesh://session")["next"] == "Nothing is left to do: stop."


def test_a_session_without_a_name_stands_where_its_leases_are(board):
    """For every agent that it claimed for."""
    put(board, "a", "b", "c")
    session = Session(board, keepalive_sec=0)
    assert "agent_id" not in read(session, "agentmesh://session")
    do(session, "claim_task", agent_id="ada")
    do(session, "claim_task", agent_id="bob")
    claimed(board, "c", "eve")
    found = read(session, "agentmesh://session")
    assert {(attempt["agent_id"], attempt["task_id"]) for attempt in found["attempts"]} == {("ada", "a"), ("bob", "b")}


@pytest.mark.parametrize("profile", PROFILES)
def test_the_next_step_names_only_tools_of_the_profile(board, profile):
    """A lead is not sent to claim."""
    put(board, "a")
    told = read(Session(board, agent="ada", profile=profile), "agentmesh://session")["next"]
    named = set(re.findall(r"[a-z]+_[a-z]+", told)) & set(offer("all").tools)
    assert named <= set(offer(profile).tools)


@pytest.mark.parametrize("letter", ["x", "語", "😀", '"'])
def test_where_a_session_stands_is_told_in_two_kilobytes(board, letter):
    """However much it holds, and however long the names are."""
    name = letter * 128
    session = Session(board, agent=name, keepalive_sec=0)
    for number in range(12):
        plan, task_id = (f"{number:02}" + name)[:128], (f"t{number:02}" + name)[:128]
        board.create_task(letter * 300, id=task_id, plan=plan)
        board.budgets.set(plan=plan, usd=1)
        claimed(board, task_id, name)
    text = resources.read(session, "agentmesh://session")["contents"][0]["text"]
    assert len(text.encode()) <= LIMIT
    found = json.loads(text)
    assert len(found["attempts"]) + found["more_attempts"] == 12
