"""Twenty agents, a budget for five tasks: whoever comes first, the budget is never passed.

Play it: agentmesh simulate examples/swarms/budget_for_five.py --order random --runs 20
"""

from pytest_agentmesh import World, agent, claim, complete, some, spend, work

REVIEWER = agent("reviewer", claim(), work(minutes=3, beat_every=20), spend(usd="0.20"), complete()).forever()


def scenario(world: World) -> None:
    """A task is handed out only if what it may cost is left; the dead give back what was reserved for them."""
    world.board.create_tasks([{"id": f"pr-{n}", "title": f"Review #{n}", "estimate_usd": "0.20"} for n in range(1, 31)])
    world.board.budgets.set(usd="1.00")
    world.run(REVIEWER * 20, faults=[some("kill", "lost_reply", max=3)])

    budget = world.board.budgets.get()
    assert budget is not None
    assert budget.spent_pusd + budget.reserved_pusd <= 1_000_000_000_000
    assert world.board.status().counts["completed"] <= 5
