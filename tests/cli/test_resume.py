"""Where was I: an agent that lost its memory is shown what it holds, and the way on."""

import json
import shlex

from agentmesh.standing import LIMIT


def test_an_agent_is_shown_what_it_holds_and_how_to_go_on(call, board):
    """The command that it names works as it stands, and gives the lease back."""
    board.create_task("Write the parser", id="parser", plan="shop", estimate_usd="0.5")
    board.budgets.set(plan="shop", usd=2)
    board.claim_task("ada")

    shown = call("resume", "--agent", "ada").stdout
    assert all(word in shown for word in ("ada holds 1 task:", "parser, attempt 1: Write the parser", "1.5 USD"))
    step = shown.splitlines()[-1].strip()
    assert step == "agentmesh claim --agent ada --resume --take-over parser"
    assert call.json(*shlex.split(step)[1:])["resumed"] is True


def test_the_same_as_one_document(call, board):
    """AGENTMESH_AGENT says who asks; another agent's tasks are not among it."""
    board.create_task("a", id="a")
    board.create_task("b", id="b")
    board.claim_task("ada")
    board.claim_task("bob")

    found = call.json("resume", env={"AGENTMESH_AGENT": "bob"})
    assert (found["agent_id"], [attempt["task_id"] for attempt in found["attempts"]]) == ("bob", ["b"])
    assert found["next"].endswith("--take-over b")
    assert call("resume", "-q", "--agent", "bob").stdout == "b\n"


def test_an_agent_with_nothing_in_hand_is_told_whether_there_is_work(call, board):
    """Claim, wait or stop."""
    steps = []
    steps.append(call.json("resume", "--agent", "ada")["next"])
    board.create_task("a", id="a")
    steps.append(call.json("resume", "--agent", "ada")["next"])
    claim = board.claim_task("bob")
    steps.append(call.json("resume", "--agent", "ada")["next"])
    claim.complete()

    assert steps == ["Nothing is left to do.", "agentmesh claim --agent ada", "agentmesh claim --agent ada --wait 50"]
    assert "ada holds 0 tasks.\nNothing is left to do.\n" in call("resume", "--agent", "ada").stdout


def test_it_wants_to_know_who_asks_and_changes_nothing(call, board):
    """A pause, which this command once ended, stands."""
    board.pause(reason="lunch")

    assert call("resume").exit_code == 2
    assert call("resume", "--plan", "p", "--agent", "ada").exit_code == 2
    assert call("resume", "--agent", "ada").exit_code == 0
    assert [pause.reason for pause in board.status().pauses] == ["lunch"]


def test_a_hostile_title_stays_a_title(call, board):
    """Neither a terminal nor a shell obeys it, and the document stays small."""
    board.create_task("\x1b[31m$(reboot)\n" + "語" * 280, id="-$(x)'")
    board.claim_task("ada")

    shown = call("resume", "--agent", "ada").stdout
    assert "\x1b" not in shown
    step = shlex.split(shown.splitlines()[-1])
    assert step[-1] == "-$(x)'"
    assert call(*step[1:]).exit_code == 0
    document = call("resume", "--agent", "ada", "--json").stdout
    assert len(document.encode()) <= LIMIT
    assert json.loads(document)["attempts"][0]["title"].endswith("…")
