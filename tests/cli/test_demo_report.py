"""What the demo tells at its end, and when it counts as seen."""

import io
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from agentmesh.cli.demo_costs import read_costs
from agentmesh.cli.demo_report import Handed, Killed, Report, document_of, tell_report
from agentmesh.cli.graph import read_drawing
from agentmesh.cli.screen import Screen
from agentmesh.model import Finding
from tests.support.boards import open_board


@pytest.fixture
def report(board_path, clock):
    """A small board on which an agent died, another took over, two tasks took turns, and one used what another left."""
    with open_board(board_path, clock) as board:
        board.create_task("A", id="a", lease_timeout_sec=3, writes=["db/**"])
        board.create_task("B", id="b", writes=["db/**"])
        board.budgets.set(plan="default", usd=1)
        board.ledger.record(lease=board.claim_task("ben", task_id="a"), output_tokens=1000, cost_usd="0.25")
        clock.advance(3.6)
        again = board.claim_task("ada", task_id="a")
        board.ledger.record(lease=again, output_tokens=2000, cost_usd="0.50")
        board.blackboard.put("default", "a.csv", b"1,2", content_type="text/csv", lease=again)
        again.complete()
        last = board.claim_task("ada", task_id="b")
        board.ledger.record(lease=last, output_tokens=500, cost_usd="0.10")
        last.complete()
        drawing = read_drawing(board, None)
        return Report(
            board=Path("b.db"),
            took_us=3_600_000,
            drawing=drawing,
            attempts={task.id: board.attempts(task.id) for task in drawing.tasks},
            killed=Killed("ben", 4711, "a", 1, 500_000, server_ended=True),
            findings=board.check(),
            costs=read_costs(board, "default", 2_000_000),
            handed=[Handed("b", "a.csv", board.blackboard.get("default", "a.csv"), sha256(b"1,2").hexdigest())],
        )


def told(report: Report) -> str:
    """The report as it reads in a pipe."""
    out = io.StringIO()
    tell_report(Screen(out), report)
    return out.getvalue()


def test_the_whole_story_is_told(report):
    """Who was killed and where, who took over, who took turns, and how to look at the board."""
    text = told(report)

    assert "ben was killed after 500 ms while it held a (attempt 1). Its MCP server ended with it." in text
    assert "reclaimed 3.6 s after its last sign of life, and ada got the task as attempt 2: completed." in text
    assert "a, then b: both write db/**, so they never ran at once." in text
    assert "2 tasks completed" in text
    assert "agentmesh show a --board b.db" in text
    assert "agentmesh ledger report --by task --board b.db" in text
    assert report.exit_code() == 0
    assert document_of(report)["killed"] == {"agent": "ben", "task_id": "a", "fence": 1}


def test_what_it_cost_is_told_by_task_and_by_agent(report):
    """What the killed agent had spent is waste, and the attempt is named; the budget says where it stands."""
    text = told(report)
    rows = [line.split() for line in text.splitlines()]

    assert [row[-1] for row in rows if row[1:2] in (["a"], ["b"]) and row[-1].startswith("0.")] == ["0.75", "0.10"]
    assert ["AGENT", "CALLS", "TOKENS", "USD", "WASTED"] in rows
    assert ["ben", "1", "1,000", "0.25", "0.25"] in rows
    assert ["all", "3", "3,500", "0.85", "0.25"] in rows
    assert "The 0.25 USD that ben had spent on it count as waste." in text
    assert "Wasted: 0.25 USD by ben on a (attempt 1, reclaimed)." in text
    assert "0.85 of 1.00 USD spent, 0.00 reserved, 0.15 left; the warning at 80 % came after 2.0 s." in text
    assert "token counts are made up" in text
    whole = document_of(report)
    assert (whole["budget"]["left_usd"], whole["budget"]["warned"]) == ("0.15", True)
    assert [(line["task_id"], line["fence"], line["wasted_usd"]) for line in whole["wasted"]] == [("a", 1, "0.25")]
    assert whole["usage"]["total"]["cost_usd"] == "0.85"


def test_an_artifact_that_was_used_is_told(report):
    """Who left it, who got it, and that it was the same."""
    text = told(report)

    assert "a left a.csv for b: 3 bytes of text/csv on the blackboard, signed with attempt 2." in text
    assert document_of(report)["artifacts"] == [
        {"key": "a.csv", "used_by": "b", "whole": True, "left_by": "a", "size": 3}
    ]


@pytest.mark.parametrize("changed", [{"sha256": "0" * 64}, {"sha256": None}, {"entry": None}])
def test_an_artifact_that_did_not_arrive_fails(report, changed):
    """Another hash, none, or nothing on the blackboard."""
    lost = replace(report, handed=[replace(report.handed[0], **changed)])

    assert "b did not get a.csv as it was left." in told(lost)
    assert document_of(lost)["artifacts"][0]["whole"] is False
    assert lost.exit_code() == 1


def test_a_budget_without_its_warning_fails(report):
    """Where there is a budget; a plan of one's own has none."""
    silent = replace(report, costs=replace(report.costs, warned_us=None))
    free = replace(report, costs=replace(report.costs, warned_us=None, budget=None))

    assert "no warning came" in told(silent)
    assert silent.exit_code() == 1
    assert "Budget" not in told(free)
    assert "budget" not in document_of(free)
    assert free.exit_code() == 0


def test_a_killed_agent_that_had_cost_nothing_shows_no_waste(report):
    """The point of it is what its death cost."""
    cheap = replace(report, costs=replace(report.costs, by_attempt={}))

    assert cheap.exit_code() == 1


def test_without_a_killed_agent_the_demo_has_not_shown_its_point(report):
    """It says so, and fails."""
    calm = replace(report, killed=None)

    assert "No agent was killed" in told(calm)
    assert calm.exit_code() == 1


def test_an_attempt_that_was_not_reclaimed_does_not_count(report):
    """The attempt named must be one that was taken back."""
    assert replace(report, killed=replace(report.killed, fence=2)).exit_code() == 1


def test_a_violated_promise_is_shown_and_fails(report):
    """With an exit code of its own, whatever else went well."""
    broken = replace(report, findings=[Finding("P1", "violated", ("two owners",))])

    assert "two owners" in told(broken)
    assert broken.exit_code() == 4


def test_an_unfinished_task_is_named_and_fails(report):
    """Nothing is left out in silence."""
    first, *rest = report.drawing.tasks
    stuck = replace(report, drawing=replace(report.drawing, tasks=(replace(first, state="failed"), *rest)))

    assert "1 of 2 tasks not completed: a" in told(stuck)
    assert stuck.exit_code() == 1
