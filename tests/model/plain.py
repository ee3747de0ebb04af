"""The board as a page of plain Python: no rows, no countdowns, no indexes; every answer is worked out from scratch.

It is what the real board is compared with. What chance decides (secrets, retry delays) is told to it.
"""

from dataclasses import dataclass, field

from agentmesh.patterns import overlap

FINAL = ("completed", "failed", "cancelled")
MET = {"completed": ("completed",), "failed": ("failed",), "finished": FINAL}
REFUNDS = {"released": 20, "infra": 10, "quota": 10}


@dataclass
class PlainTask:
    """A task; `end` is None until it is final, `held` is None while nobody works on it."""

    name: str
    age: int
    priority: int = 0
    parents: dict = field(default_factory=dict)
    requires: frozenset = frozenset()
    writes: tuple = ()
    max_attempts: int = 3
    not_before: int = 0
    fence: int = 0
    charged: int = 0
    refunds: dict = field(default_factory=dict)
    end: str | None = None
    held: tuple | None = None
    averse: dict = field(default_factory=dict)


class PlainBoard:
    """The rules of the design, each written down once."""

    def __init__(self, lease_us):
        self.tasks = {}
        self.now = 0
        self.lease_us = lease_us

    def state(self, task):
        """The one rule for readiness."""
        if task.end:
            return task.end
        if task.held:
            return "in_progress"
        if any(self.tasks[p].end not in MET[c] for p, c in task.parents.items()):
            return "blocked"
        return "scheduled" if task.not_before > self.now else "pending"

    def children(self, task):
        """The tasks that wait for this one."""
        return [child for child in self.tasks.values() if task.name in child.parents]

    def urgency(self, task):
        """The highest priority among the task and the open tasks that wait for it."""
        below = [self.urgency(child) for child in self.children(task) if not child.end]
        return max([task.priority, *below])

    def reaches(self, start, goal):
        """Whether `start` waits, over any edges, for `goal`."""
        return start == goal or any(self.reaches(parent, goal) for parent in self.tasks[start].parents)

    def blocked_by_paths(self, task):
        """Whether a running task writes what this one would write."""
        running = [other for other in self.tasks.values() if other.held and other is not task]
        return any(overlap(one, two) for other in running for one in task.writes for two in other.writes)

    def best(self, agent, able):
        """The task a claim must get, or None."""
        ready = [
            task
            for task in self.tasks.values()
            if self.state(task) == "pending"
            and task.requires <= able
            and task.averse.get(agent, 0) <= self.now
            and not self.blocked_by_paths(task)
        ]
        return min(ready, key=lambda task: (-self.urgency(task), task.age), default=None)

    def create(self, name, **said):
        """Put a task on the board."""
        task = self.tasks[name] = PlainTask(name, len(self.tasks), **said)
        self.doom(task)

    def doom(self, task):
        """Cancel a task that can never run, and so on down."""
        if not task.end and any(self.tasks[p].end and self.tasks[p].end not in MET[c] for p, c in task.parents.items()):
            self.finish(task, "cancelled")

    def finish(self, task, end):
        """End a task and tell its children."""
        task.end, task.held = end, None
        for child in self.children(task):
            self.doom(child)

    def hand_out(self, task, agent):
        """Open an attempt."""
        task.fence += 1
        task.charged += 1
        task.held = (agent, self.now + self.lease_us)

    def put_back(self, task, key=None, not_before=None):
        """End an attempt that did not finish the task."""
        task.held = None
        if key and task.refunds.get(key, 0) < REFUNDS[key]:
            task.refunds[key] = task.refunds.get(key, 0) + 1
            task.charged -= 1
        if task.charged >= task.max_attempts:
            self.finish(task, "failed")
        elif not_before is not None:
            task.not_before = not_before

    def reclaim(self):
        """Take due leases back, longest due first."""
        due = [task for task in self.tasks.values() if task.held and task.held[1] <= self.now]
        for task in sorted(due, key=lambda task: (task.held[1], task.age)):
            self.put_back(task)

    def reopen(self, task):
        """Bring a final task back."""
        task.end, task.charged, task.refunds = None, 0, {}
