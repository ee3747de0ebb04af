"""The demo, whole."""

import json

import pytest

from agentmesh import Board
from agentmesh.cli import demo as demo_module


@pytest.mark.slow
@pytest.mark.multiproc
@pytest.mark.kill
def test_the_demo_shows_what_it_claims(mesh, tmp_path):
    """Every task is completed, the killed agent's task was taken back, no promise was violated."""
    place = tmp_path / "demo" / "board.db"
    place.parent.mkdir()
    done = mesh.process("demo", "--json", "--board", str(place))
    report = json.loads(done.stdout)

    assert done.returncode == 0, done.stderr
    assert {task["state"] for task in report["tasks"]} == {"completed"}
    assert report["took_sec"] < 55
    killed = report["killed"]
    with Board.open(place, create=False) as board:
        lost, *later = board.attempts(killed["task_id"])[killed["fence"] - 1 :]
        assert (lost.agent_id, lost.outcome) == (killed["agent"], "reclaimed")
        assert later[-1].outcome == "completed"
        assert later[-1].agent_id != killed["agent"]
        assert not [finding for finding in board.check() if finding.verdict == "violated"]


def test_the_demo_does_not_touch_a_board_that_is_there(call):
    """It makes one of its own."""
    assert call("demo", "--board", str(call.board_path)).exit_code == 29


def test_an_installation_without_the_plan_says_so(mesh, monkeypatch):
    """A clear error, with the way out."""
    monkeypatch.setattr(demo_module, "PLAN_FILE", "missing.toml")
    result = mesh("demo")

    assert result.exit_code == 2
    assert "Name a plan file" in result.stderr
