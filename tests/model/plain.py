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
    ended: int = 0
    held: tuple | None = None
    averse: dict = field(default_factory=dict)


class PlainBoard:
    """The rules of the design, each written down once."""

    def __init__(self, lease_us):
        self.tasks = {}
        self.ends = {}
        self.ever = 0
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

    def create(self, name, parents, **said):
        """Put a task on the board."""
        task = self.tasks[name] = PlainTask(name, self.ever, **said)
        self.ever += 1
        for parent, condition in parents.items():
            self.wait(task, parent, condition)

    def wait(self, task, parent, condition):
        """Let a task wait for another, which may have been pruned."""
        if parent in self.tasks:
            task.parents[parent] = condition
            self.doom(task)
        elif not task.end and self.ends[parent] not in MET[condition]:
            self.finish(task, "cancelled")

    def doom(self, task):
        """Cancel a task that can never run, and so on down."""
        if not task.end and any(self.tasks[p].end and self.tasks[p].end not in MET[c] for p, c in task.parents.items()):
            self.finish(task, "cancelled")

    def finish(self, task, end):
        """End a task and tell its children."""
        task.end, task.ended, task.held = end, self.now, None
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

    def prune(self, age_us):
        """Forget what ended long enough ago, but for how it ended, unless an open task waits for it."""
        for task in list(self.tasks.values()):
            if task.end and task.ended <= self.now - age_us and all(child.end for child in self.children(task)):
                self.ends[task.name] = task.end
                for child in self.children(task):
                    del child.parents[task.name]
                del self.tasks[task.name]
