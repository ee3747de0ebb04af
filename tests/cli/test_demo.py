"""The demo, whole."""

import json

import pytest

from agentmesh import Board
from agentmesh.cli import demo as demo_module
from agentmesh.cli.demo_model import MODEL, SHARES, usage_of
from agentmesh.cli.demo_swarm import ROLES
from agentmesh.cli.plan_file import read_plan
from agentmesh.limits import PUSD
from agentmesh.prices import price
from agentmesh.rules import WARNING_PERCENT
from agentmesh.usage import read_usage
from tests.support.boards import violations
from tests.support.small_disk import small_disk


def calls_of(task_id):
    """What the agents report of one attempt at a task."""
    return [read_usage(usage_of(task_id, number)).usage for number in range(len(SHARES))]


@pytest.mark.slow
@pytest.mark.multiproc
@pytest.mark.kill
def test_the_demo_shows_what_it_claims(mesh, tmp_path):
    """Every task is completed, the killed agent's task was taken back, what it cost is known, no promise violated."""
    place = tmp_path / "board.db"
    done = mesh.process("demo", "--board", str(place))

    assert done.returncode == 0, done.stdout + done.stderr
    for words in ("is killed with SIGKILL", " USD wasted", "80 % of the budget: 2.4", "28 tasks completed"):
        assert words in done.stdout
    with Board.open(place, create=False) as board:
        tasks = board.list_tasks(limit=500).tasks
        assert {task.state for task in tasks} == {"completed"}
        (lost,) = [a for task in tasks for a in board.attempts(task.id) if a.outcome == "reclaimed"]
        again = board.attempts(lost.task_id)[-1]
        assert (lost.agent_id, again.outcome, again.agent_id == lost.agent_id) == ("ben", "completed", False)
        lines = {(line.task_id, line.fence): line for line in board.ledger.report("attempt", limit=500).lines}
        first_call = calls_of(lost.task_id)[0]
        assert lines[lost.task_id, lost.fence].wasted_tokens == first_call.total_tokens
        for attempt in (board.attempts(task.id)[-1] for task in tasks):
            used = sum(usage.total_tokens for usage in calls_of(attempt.task_id))
            assert lines[attempt.task_id, attempt.fence].tokens == used
        assert board.blackboard.get("shop-checkout", "load-test.csv").task_id == "load-test"
        assert violations(board) == {}


@pytest.mark.slow
@pytest.mark.multiproc
def test_a_plan_of_ones_own_has_no_budget(mesh, tmp_path):
    """Its usage is counted like any; without a second task nobody is killed, so not everything was seen."""
    plan = {"plan": "own", "tasks": [{"id": "one", "title": "One", "payload": {"work_sec": 0.1}}]}
    (tmp_path / "own.json").write_text(json.dumps(plan), "utf-8")
    done = mesh.process("demo", str(tmp_path / "own.json"), "--json", "--board", str(tmp_path / "board.db"))
    report = json.loads(done.stdout)

    assert (done.returncode, report["ok"], report["tasks"][0]["state"]) == (1, False, "completed")
    assert report["usage"]["total"]["tokens"] == sum(usage.total_tokens for usage in calls_of("one"))
    assert (report["wasted"], report["artifacts"]) == ([], [])
    assert "budget" not in report


def test_the_budget_is_as_tight_as_the_demo_needs_it():
    """The plan, with all that may be wasted, fits in; its warning comes while there is still work to do."""
    tasks = read_plan(str(demo_module.packaged_plan()))
    cost = {
        task["id"]: [price(MODEL, usage, at_us=1_767_225_600_000_000).cost_pusd for usage in calls_of(task["id"])]
        for task in tasks["tasks"]
    }
    limit = demo_module.BUDGET_USD * PUSD
    least = sum(map(sum, cost.values()))
    wasted = sum(cost["load-test"]) + max(first for first, _ in cost.values())
    reserved_too_much = len(ROLES) * (tasks["defaults"]["estimate_usd"] * PUSD - min(map(sum, cost.values())))
    assert least - sum(cost["release"]) >= limit * WARNING_PERCENT // 100
    assert least + wasted + reserved_too_much <= limit


def test_the_demo_does_not_touch_a_board_that_is_there(call):
    """It makes one of its own."""
    assert call("demo", "--board", str(call.board_path)).exit_code == 29


def test_an_installation_without_the_plan_says_so(mesh, monkeypatch):
    """A clear error, with the way out."""
    monkeypatch.setattr(demo_module, "PLAN_FILE", "missing.toml")
    result = mesh("demo")

    assert result.exit_code == 2
    assert "Name a plan file" in result.stderr


def test_a_demo_without_room_leaves_no_folder(mesh, tmp_path, monkeypatch):
    """The folder is made for the board, and there is none."""
    with small_disk(tmp_path / "disk") as disk:
        monkeypatch.setattr(demo_module.tempfile, "tempdir", str(disk.folder))
        disk.fill(leave=20)
        assert mesh("demo").exit_code == 22
        assert disk.files() == []
