"""An agent is killed while it holds a task: its lease runs out, another one takes the task, and nothing is lost.

Play it: agentmesh simulate examples/swarms/killed_holder.py --runs 20
"""

from pytest_agentmesh import World, agent, claim, complete, kill, spend, work

WORKER = agent("worker", claim(), work(minutes=2, beat_every=15), spend(usd="0.05"), complete()).forever()


def scenario(world: World) -> None:
    """The dead agent's attempt counts as waste; the task has one result, from a living one."""
    world.board.create_tasks([{"id": f"page-{n}", "title": f"Translate page {n}"} for n in range(1, 6)])
    run = world.run(WORKER * 2, faults=[kill("complete_task", nth=2)])

    (dead,) = [name for name, one in run.outcomes.items() if one.how == "killed"]
    attempts = [attempt for n in range(1, 6) for attempt in world.board.attempts(f"page-{n}")]
    (lost,) = [attempt for attempt in attempts if attempt.outcome == "reclaimed"]
    assert lost.agent_id == dead
    assert world.board.get_task(lost.task_id).state == "completed"
    assert world.board.ledger.report().total.wasted_pusd == 50_000_000_000
