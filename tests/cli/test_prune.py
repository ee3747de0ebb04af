"""Taking away what ended long ago."""

import json

import pytest

from agentmesh.cli.params import Age

PLAN = {"plan": "p", "retention_sec": 0, "tasks": [{"id": "a", "title": "A"}, {"id": "b", "title": "B"}]}


@pytest.fixture
def worked_off(call, tmp_path):
    """A board with a plan whose two tasks are final, and a task of another plan that is, too."""
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    call("plan", "apply", tmp_path / "plan.json")
    call("add", "c", "--id", "c")
    call("cancel", "--plan", "p")
    call("cancel", "c")
    return call


def test_a_prune_tells_what_went(worked_off):
    """By plan, where there are several; as a document with every key."""
    asked = worked_off.json("prune", "--older-than", "0", "--dry-run")
    assert asked == {"dry_run": True, "tasks": 3, "plans": {"p": 2, "default": 1}, "events": 5, "entry_tombstones": 0}
    assert worked_off("prune", "--older-than", "0s", "--dry-run").stdout.startswith("Would prune 3 tasks, 5 events.\n")
    assert worked_off("prune", "--older-than", "0d").stdout == (
        "Pruned 3 tasks, 5 events.\n  default: 1 task\n  p: 2 tasks\n"
    )
    nothing = {"dry_run": False, "tasks": 0, "plans": {}, "events": 0, "entry_tombstones": 0}
    assert worked_off.json("prune", "--older-than", "1h") == nothing
    assert worked_off("prune", "--older-than", "1h").stdout == "Nothing is old enough.\n"


def test_without_an_age_plans_decide(worked_off):
    """The retention stands in the plan's file; `status` shows it."""
    assert worked_off.json("status")["plans"][0]["retention_sec"] == 0
    assert worked_off("prune").stdout == "Pruned 2 tasks.\n"
    assert worked_off("prune", "-q").stdout == ""
    assert [task["id"] for task in worked_off.json("list")["tasks"]] == ["c"]


def test_a_pruned_task_has_an_exit_code_of_its_own(worked_off):
    """A script can tell it from one that never was."""
    worked_off("prune")
    assert worked_off("show", "a").exit_code == 34
    assert worked_off("show", "never").exit_code == 5
    assert json.loads(worked_off("show", "a", "--json").stderr)["state"] == "cancelled"


def test_the_history_of_a_pruned_board_is_read_from_what_is_kept(worked_off):
    """Only a cursor that somebody names can have expired."""
    worked_off("prune", "--plan", "p", "--older-than", "0", "--events-older-than", "0")
    kinds = [event["kind"] for event in worked_off.json("events")["events"]]
    assert kinds == ["task_cancelled", "pruned", "pruned"]
    assert worked_off("events", "--after", "0").exit_code == 17


@pytest.mark.parametrize(
    ("text", "sec"), [("45", 45), ("45s", 45), ("90min", 5400), ("12h", 43_200), ("30d", 2_592_000), ("0.5h", 1800)]
)
def test_an_age_is_read_with_its_unit(text, sec):
    """Seconds when it has none."""
    assert Age().convert(text, None, None) == sec


@pytest.mark.parametrize("text", ["", "d", "-1d", "1m", "1 d", "1d2h", "1e3", "nan", "٣d", "9" * 400])
def test_an_age_that_is_none_is_a_usage_error(call, text):
    """`1m` too: a minute or a month?"""
    assert call("prune", f"--older-than={text}").exit_code == 2
