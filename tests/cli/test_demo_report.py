"""What the demo tells at its end, and when it counts as seen."""

import io
from dataclasses import replace
from pathlib import Path

import pytest

from agentmesh.cli.demo_report import Killed, Report, document_of, tell_report
from agentmesh.cli.graph import read_drawing
from agentmesh.cli.screen import Screen
from agentmesh.model import Finding
from tests.support.boards import open_board


@pytest.fixture
def report(board_path, clock):
    """A small board on which an agent died, another took over, and two tasks took turns."""
    with open_board(board_path, clock) as board:
        board.create_task("A", id="a", lease_timeout_sec=3, writes=["db/**"])
        board.create_task("B", id="b", writes=["db/**"])
        board.claim_task("ben", task_id="a")
        clock.advance(3.6)
        board.claim_task("ada", task_id="a").complete()
        board.claim_task("ada", task_id="b").complete()
        drawing = read_drawing(board, None)
        return Report(
            board=Path("b.db"),
            took_us=3_600_000,
            drawing=drawing,
            attempts={task.id: board.attempts(task.id) for task in drawing.tasks},
            killed=Killed("ben", 4711, "a", 1, 500_000, server_ended=True),
            findings=board.check(),
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
    assert report.exit_code() == 0
    assert document_of(report)["killed"] == {"agent": "ben", "task_id": "a", "fence": 1}


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
