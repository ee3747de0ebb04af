"""Plan files: told by place when wrong, harmless when applied again."""

import json
from pathlib import Path

import pytest

from agentmesh.cli.demo import packaged_plan
from agentmesh.cli.plan_file import read_plan
from agentmesh.errors import InvalidArgument

TOML = """
plan = "parser"
[defaults]
tags = ["core"]
[[tasks]]
id = "grammar"
title = "Write the grammar"
[[tasks]]
id = "parser"
title = "Write the parser"
depends_on = ["grammar", { id = "spike", condition = "finished" }]
not_before = 2020-01-01T00:00:00Z
[[tasks]]
id = "spike"
title = "Try it out"
"""


@pytest.fixture
def plan(tmp_path):
    """Write a plan file and give its path."""

    def write(text: str, name: str = "plan.toml") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def defect(path: str) -> str:
    """What reading the file complains about, without the file's name."""
    with pytest.raises(InvalidArgument) as caught:
        read_plan(path)
    return caught.value.message.removeprefix(f"{path}: ")


def test_a_plan_is_applied_once(call, plan):
    """The second time nothing changes; then only what differs."""
    path = plan(TOML)

    assert call.json("plan", "apply", path)["created"] == ["grammar", "parser", "spike"]
    assert call.json("plan", "apply", path)["unchanged"] == ["grammar", "parser", "spike"]
    changed = plan(TOML.replace("Try it out", "Try it"))
    assert call.json("plan", "apply", changed)["updated"] == ["spike"]
    assert "3 unchanged" in call("plan", "apply", changed).stdout


def test_defaults_and_dependencies_arrive(call, plan):
    """Both written forms of a dependency, and a date of TOML's own."""
    call("plan", "apply", plan(TOML))
    task = call.json("show", "parser")["task"]

    assert (task["plan"], task["tags"]) == ("parser", ["core"])
    assert {d["id"]: d["condition"] for d in task["depends_on"]} == {"grammar": "completed", "spike": "finished"}


def test_json_says_the_same_as_toml(call, plan):
    """The ending of the name decides."""
    path = plan(json.dumps({"tasks": [{"id": "a", "title": "A", "payload": {"n": 1.5}}]}), "plan.json")

    assert call.json("plan", "apply", path)["created"] == ["a"]
    assert call.json("show", "a")["task"]["payload"] == {"n": 1.5}


@pytest.mark.parametrize(
    ("task", "place"),
    [
        ('title = "t"\npriority = "high"', "tasks[0] ('a').priority: "),
        ('title = "t"\npriority = 1.5', "tasks[0] ('a').priority: "),
        ('title = "t"\ncolour = "red"', "tasks[0] ('a').colour: "),
        ("title = 5", "tasks[0] ('a').title: "),
        ("", "tasks[0] ('a').title: Field required"),
        ('title = "t"\ntags = "x"', "tasks[0] ('a').tags: "),
        ('title = "t"\ndepends_on = [{ id = "b", condition = "maybe" }]', "tasks[0] ('a').depends_on[0].condition: "),
        ('title = "t"\nlease_timeout_sec = "9"', "tasks[0] ('a').lease_timeout_sec: "),
    ],
)
def test_a_defect_is_told_with_its_place(plan, task, place):
    """One can go to it at once."""
    assert defect(plan(f'[[tasks]]\nid = "a"\n{task}\n')).startswith(place)


def test_several_defects_are_told_at_once(plan):
    """So one round may mend them all."""
    with pytest.raises(InvalidArgument) as caught:
        read_plan(plan('[[tasks]]\nid = "a"\n[[tasks]]\nid = "b"\n'))
    assert "tasks[1] ('b').title" in caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("p.toml", "plan = a", "line 1"),
        ("p.json", '{"tasks": [', "line 1"),
        ("p.json", '{"tasks": [], "tasks": []}', "twice"),
        ("p.json", '{"tasks": [NaN]}', "NaN"),
        ("p.json", "[]", "object"),
        ("p.yaml", "tasks: []", ".json or .toml"),
        ("p.json", "{}", "tasks: Field required"),
        ("p.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(plan, name, text, problem):
    """The message says what is wrong with it."""
    assert problem in defect(plan(text, name))


def test_a_missing_file_is_an_error(call):
    """Not an empty plan."""
    result = call("plan", "apply", "nowhere.toml")
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_a_refused_plan_changes_nothing(call, plan):
    """All or nothing: the board's own limits refuse the whole file too."""
    tasks = [{"id": "a", "title": "A"}, {"id": "b", "title": "B", "depends_on": ["nobody"]}]
    path = plan(json.dumps({"tasks": tasks}), "plan.json")

    assert call("plan", "apply", path).exit_code != 0
    assert call.json("list")["tasks"] == []


def test_the_plan_of_the_demo_is_a_realistic_one(call):
    """A diamond, priorities, two capabilities, a shared path and a `finished`."""
    plan = read_plan(str(packaged_plan()))
    tasks = plan["tasks"]
    writes = [pattern for task in tasks for pattern in task.get("writes", [])]

    assert call("plan", "apply", str(packaged_plan())).exit_code == 0
    assert len(tasks) >= 24
    assert {name for task in tasks for name in task.get("requires", [])} == {"backend", "browser"}
    assert len(writes) > len(set(writes))
    assert "finished" in Path(packaged_plan()).read_text()
    assert len({task.get("priority", 0) for task in tasks}) > 3
