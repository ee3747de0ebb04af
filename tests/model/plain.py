"""The board as a page of plain Python: no rows, no countdowns, no indexes; every answer is worked out from scratch.

It is what the real board is compared with. What chance decides (secrets, retry delays) is told to it.
"""

from dataclasses import dataclass, field

from agentmesh.patterns import overlap

FINAL = ("completed", "failed", "cancelled")
MET = {"completed": ("completed",), "failed": ("failed",), "finished": FINAL}
SECOND = 1_000_000
CEILINGS = {"released": 20, "infra": 10, "quota": 10}
SPLIT_REFUNDS = 20


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
    ends: dict = field(default_factory=dict)
    own_failures: int = 0
    paused: bool = False
    key: str | None = None
    end: str | None = None
    ended: int = 0
    root: str | None = None
    result: object = None
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
        self.stopped_until = 0
        self.failures = []
        self.storms = 0
        self.storm_until = 0

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

    def impossible(self, task):
        """The parents that ended as the task did not wait for."""
        ends = [(parent, self.tasks[parent].end, condition) for parent, condition in task.parents.items()]
        return [parent for parent, end, condition in ends if end and end not in MET[condition]]

    def carried(self, task):
        """What a claim hands over of the parents that have ended: each with its end, and its result if it completed."""
        parents = sorted((self.tasks[parent] for parent in task.parents), key=lambda parent: parent.age)
        return [
            (parent.name, parent.end, parent.result if parent.end == "completed" else None)
            for parent in parents
            if parent.end
        ]

    def blocked_by_paths(self, task):
        """Whether a running task writes what this one would write."""
        running = [other for other in self.tasks.values() if other.held and other is not task]
        return any(overlap(one, two) for other in running for one in task.writes for two in other.writes)

    def paused(self, task):
        """Whether hand-outs of a task pause: its own, those of the board, or those of the plan after a storm."""
        return task.paused or self.now < max(self.stopped_until, self.storm_until)

    def best(self, agent, able):
        """The task a claim must get, or None."""
        ready = [
            task
            for task in self.tasks.values()
            if self.state(task) == "pending"
            and not self.paused(task)
            and task.requires <= able
            and task.averse.get(agent, 0) <= self.now
            and not self.blocked_by_paths(task)
        ]
        return min(ready, key=lambda task: (-self.urgency(task), task.age), default=None)

    def open_of(self, key):
        """The open task that has a key, or None."""
        return next((task for task in self.tasks.values() if key and task.key == key and not task.end), None)

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

    def doom(self, task, root=None):
        """Cancel a task that can never run, and so on down; the root is the task whose end began it."""
        never = self.impossible(task)
        if never and not task.end:
            self.finish(task, "cancelled", root=root or never[0])

    def finish(self, task, end, root=None, result=None):
        """End a task and tell its children."""
        task.end, task.ended, task.held, task.root, task.result = end, self.now, None, root, result
        task.paused = False
        for child in self.children(task):
            self.doom(child, root or task.name)

    def cancel_all(self):
        """End all that is open, oldest first."""
        for task in self.tasks.values():
            if not task.end:
                self.finish(task, "cancelled")

    def hand_out(self, task, agent):
        """Open an attempt."""
        task.fence += 1
        task.charged += 1
        task.held = (agent, self.now + self.lease_us)

    def put_back(self, task, how, not_before=None):
        """End an attempt that did not finish the task: by its own failure, or by something that is not its fault."""
        task.held = None
        task.own_failures += how == "failed"
        if how in CEILINGS or (how == "split" and task.ends.get(how, 0) < SPLIT_REFUNDS):
            task.charged -= 1
        if how in (*CEILINGS, "split"):
            task.ends[how] = task.ends.get(how, 0) + 1
        used_up = task.charged >= task.max_attempts
        if used_up and task.own_failures:
            self.finish(task, "failed")
            return
        if not_before is not None:
            task.not_before = not_before
        if how != "split" and (used_up or task.ends.get(how, 0) >= CEILINGS.get(how, task.max_attempts + 1)):
            splits = {name: count for name, count in task.ends.items() if name == "split"}
            task.paused, task.charged, task.ends = True, task.own_failures, splits

    def fail(self, task, how, retry_at):
        """A failure; the fifth in a minute that is no task's fault is a storm, which lasts until the latest retry."""
        self.put_back(task, how, retry_at)
        if how not in CEILINGS:
            return
        told = retry_at if how == "quota" else 0
        self.failures.append((task.name, self.now, told))
        recent = [one for one in self.failures if one[1] >= max(self.now - 60 * SECOND, self.storm_until)]
        if len(recent) >= 5:
            soon = self.now - self.storm_until <= 600 * SECOND
            self.storms = self.storms + 1 if soon else 1
            longest = min(30 * SECOND << (self.storms - 1), 1800 * SECOND)
            self.storm_until = max(self.now + longest, *(one[2] for one in recent))
        elif told > self.storm_until > self.now:
            self.storm_until = told

    def reclaim(self):
        """Take due leases back, longest due first."""
        due = [task for task in self.tasks.values() if task.held and task.held[1] <= self.now]
        for task in sorted(due, key=lambda task: (task.held[1], task.age)):
            self.put_back(task, "reclaimed")

    def reopen(self, task, *, cascade=False):
        """Bring a final task back, and on request what was cancelled because of it."""
        task.end, task.root, task.charged, task.ends, task.own_failures = None, None, 0, {}, 0
        opened = [task]
        for parent in opened if cascade else []:
            for child in self.children(parent):
                doomed = child.end == "cancelled" and child.root == task.name and not self.impossible(child)
                if doomed and not self.open_of(child.key):
                    self.reopen(child)
                    opened.append(child)

    def prune(self, age_us):
        """Forget what ended long enough ago, but for how it ended, unless an open task waits for it."""
        for task in list(self.tasks.values()):
            if task.end and task.ended <= self.now - age_us and all(child.end for child in self.children(task)):
                self.ends[task.name] = task.end
                for child in self.children(task):
                    del child.parents[task.name]
                for other in self.tasks.values():
                    other.root = None if other.root == task.name else other.root
                del self.tasks[task.name]
                self.failures = [one for one in self.failures if one[0] != task.name]
