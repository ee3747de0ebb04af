"""Three coders share a diamond: plan, then two halves side by side, then the merge. One of them stalls on the way.

Play it: agentmesh simulate examples/swarms/diamond.py --order random --seed 7
"""

from pytest_agentmesh import World, agent, claim, complete, put, spend, stall, work

TASKS = [
    {"id": "plan", "title": "Write down what the import shall do", "priority": 5},
    {"id": "parser", "title": "Parse the supplier's CSV", "depends_on": ["plan"], "writes": ["src/parser/**"]},
    {"id": "store", "title": "Store the rows", "depends_on": ["plan"], "writes": ["src/store/**"]},
    {"id": "merge", "title": "Put both together and test it", "depends_on": ["parser", "store"]},
]
CODER = agent(
    "coder",
    claim(),
    work(minutes=4, beat_every=20),
    spend("claude-sonnet-4-5", input_tokens=18_000, output_tokens=2_400),
    put("patches", "{task}", {"by": "{agent}"}, ttl_sec=3600),
    complete({"ok": True}),
).forever()


def scenario(world: World) -> None:
    """Whoever stalls, the tasks are done in order, each with one result."""
    world.board.create_tasks(TASKS)
    run = world.run(CODER * 3, faults=[stall("heartbeat", nth=5)])

    tasks = {task.id: task for task in world.board.list_tasks().tasks}
    assert {task.state for task in tasks.values()} == {"completed"}
    assert run.unused_faults == ()
    started = {name: world.board.attempts(name)[-1].started_us for name in tasks}
    assert started["plan"] < started["parser"] < started["merge"]
