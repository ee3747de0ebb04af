"""The ledger and the budgets as a page of plain Python: lists that are gone through, sums that are worked out anew.

It is what the real ones are compared with. Everything is kept that ever happened; nothing is counted beforehand.
"""

from dataclasses import dataclass, field

DAY_US = 86_400_000_000
IN_VAIN = ("failed", "reclaimed", "cancelled")
FINAL = ("completed", "failed", "cancelled")
NOTHING = {"pusd": 0, "tokens": 0}


@dataclass
class PlainAttempt:
    """A hand-out; `end` is None while it is open, `reserved` what it reserved when it was handed out."""

    agent: str
    due: int
    reserved: dict
    end: str | None = None


@dataclass
class PlainTask:
    """A task without dependencies."""

    name: str
    age: int
    plan: str
    priority: int
    tag: str | None
    path: str | None
    estimate: dict
    state: str = "pending"
    not_before: int = 0
    ended: int = 0
    pruned: bool = False
    attempts: list = field(default_factory=list)
    averse: dict = field(default_factory=dict)


@dataclass
class PlainEntry:
    """An entry; `drew` says whether its attempt was open, so that it drew on its reservation."""

    at: int
    agent: str
    model: str
    tokens: tuple
    us: int
    pusd: int | None
    task: PlainTask | None
    fence: int | None
    drew: bool

    def attempt(self):
        """The attempt that it is of, or None."""
        return self.task.attempts[self.fence - 1] if self.fence else None

    def of_task(self):
        """The task and the fence that a report shows."""
        return (None, None) if self.task is None or self.task.pruned else (self.task.name, self.fence)


class PlainLedger:
    """Tasks, entries, budgets and caps, each rule written down once."""

    def __init__(self, lease_us):
        self.now = 0
        self.lease_us = lease_us
        self.tasks = {}
        self.entries = []
        self.budgets = {}
        self.caps = {}

    # Who gets what

    def due(self):
        """The tasks whose leases are due, and those whose time has come."""
        leases = [
            task for task in self.tasks.values() if task.state == "in_progress" and task.attempts[-1].due <= self.now
        ]
        times = [task for task in self.tasks.values() if task.state == "scheduled" and task.not_before <= self.now]
        return leases, times

    def heal(self):
        """Take due leases back and promote what is due."""
        leases, times = self.due()
        for task in leases:
            self.end(task, "reclaimed", "pending")
        for task in times:
            task.state = "pending"

    def left_by(self, task, verb):
        """The state in which a holder leaves its task; where the clock went back, its time may be ahead again."""
        given_back = "scheduled" if task.not_before > self.now else "pending"
        return {"complete": "completed", "fail": "scheduled", "give up": "failed"}.get(verb, given_back)

    def in_the_way(self, task):
        """Whether a running task holds the path of this one."""
        return task.path is not None and any(
            other.path == task.path and other.state == "in_progress" for other in self.tasks.values()
        )

    def capped(self, agent):
        """Whether an agent holds as many tasks as it may."""
        most = self.caps.get(agent, self.caps.get(None))
        live = [attempt for attempt in self.open_attempts() if attempt.agent == agent and attempt.due > self.now]
        return most is not None and len(live) >= most

    def allowed(self, task, agent):
        """Whether every budget has room for a task's estimates, and something left at all."""
        return all(self.fits(key, task) for key in self.budgets if self.falls_under(key, task, agent))

    def fits(self, key, task):
        """Whether one budget has."""
        limits, strict = self.budgets[key]
        if strict and limits["pusd"] is not None and self.unpriced(key):
            return False
        used = {kind: self.spent(key, kind) + self.reserved(key, kind) for kind in limits}
        return all(
            limit is None or (used[kind] < limit and used[kind] + task.estimate[kind] <= limit)
            for kind, limit in limits.items()
        )

    def best(self, agent, plan, tag):
        """The task that a claim must get, or None."""
        ready = [
            task
            for task in self.tasks.values()
            if task.state == "pending"
            and plan in (None, task.plan)
            and tag in (None, task.tag)
            and task.averse.get(agent, 0) <= self.now
            and self.may_have(task, agent)
        ]
        return min(ready, key=lambda task: (-task.priority, task.age), default=None)

    def may_have(self, task, agent):
        """Whether a ready task may be handed out to an agent."""
        return not self.capped(agent) and not self.in_the_way(task) and self.allowed(task, agent)

    def hand_out(self, task, agent):
        """Open an attempt."""
        task.state = "in_progress"
        task.attempts.append(PlainAttempt(agent, self.now + self.lease_us, dict(task.estimate)))

    def end(self, task, how, state):
        """End the open attempt, if there is one."""
        if task.state == "in_progress":
            task.attempts[-1].end = how
        if task.state not in FINAL:
            task.ended = self.now
        task.state = state

    def prune(self):
        """Take away what is final, and its own budgets; what it used stays in all sums but those by task."""
        for task in self.tasks.values():
            if task.state in FINAL and task.ended <= self.now:
                task.pruned = True
        gone = {name for name, task in self.tasks.items() if task.pruned}
        self.budgets = {key: limits for key, limits in self.budgets.items() if key[0] != "task" or key[1] not in gone}

    def there(self):
        """The tasks that were not pruned, by name."""
        return {name: task for name, task in self.tasks.items() if not task.pruned}

    def open_attempts(self):
        """All that are."""
        return [attempt for task in self.tasks.values() for attempt in task.attempts if attempt.end is None]

    # What was used

    def record(self, agent, task, fence, said, ago=0):
        """Write an entry of usage of now, or of some time ago."""
        open_ = fence is not None and task.attempts[fence - 1].end is None
        self.entries.append(PlainEntry(self.now - ago, agent, **said, task=task, fence=fence, drew=open_))

    def falls_under(self, key, task, agent):
        """Whether a budget is over an agent's work on a task, or on none."""
        scope, name, _ = key
        of = {"board": "", "plan": task and task.plan, "task": task and task.name, "agent": agent}
        return of[scope] == name

    def counted(self, key):
        """The entries that a budget counts today."""
        today = self.now // DAY_US
        mine = [entry for entry in self.entries if self.falls_under(key, entry.task, entry.agent)]
        return [entry for entry in mine if key[2] == "lifetime" or entry.at // DAY_US == today]

    def spent(self, key, kind):
        """What was spent under a budget."""
        return sum(entry.pusd or 0 if kind == "pusd" else sum(entry.tokens) for entry in self.counted(key))

    def unpriced(self, key):
        """How many entries under it have no price."""
        return sum(entry.pusd is None for entry in self.counted(key))

    def reserved(self, key, kind):
        """What open attempts still have reserved."""
        found = 0
        for task in self.tasks.values():
            for fence, attempt in enumerate(task.attempts, start=1):
                if attempt.end is None and self.falls_under(key, task, attempt.agent):
                    drew = [
                        entry for entry in self.entries if (entry.task, entry.fence, entry.drew) == (task, fence, True)
                    ]
                    used = sum(entry.pusd or 0 if kind == "pusd" else sum(entry.tokens) for entry in drew)
                    found += max(attempt.reserved[kind] - used, 0)
        return found

    def report(self, by, keep=lambda _: True):
        """The sums of a report: key -> entries, unpriced, four kinds of tokens, money, time, and what was wasted."""
        keys = {
            "plan": lambda entry: entry.task and entry.task.plan,
            "task": lambda entry: entry.of_task()[0],
            "attempt": lambda entry: entry.of_task(),
            "agent": lambda entry: entry.agent,
            "model": lambda entry: entry.model,
            "day": lambda entry: entry.at // DAY_US,
        }
        found = {}
        for entry in filter(keep, self.entries):
            vain = entry.fence is not None and entry.attempt().end in IN_VAIN
            row = (1, entry.pusd is None, *entry.tokens, entry.pusd or 0, entry.us)
            waste = (vain * sum(entry.tokens), vain * (entry.pusd or 0), vain * entry.us)
            key = keys[by](entry)
            found[key] = tuple(map(sum, zip(found.get(key, (0,) * 11), (*row, *waste), strict=True)))
        return found
