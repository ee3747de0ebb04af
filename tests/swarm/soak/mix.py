"""A seeded random mix of all verbs, as one worker calls them.

What a worker alone may change (its counters of tokens, its entry, its budget, its pauses, its own tasks' details) is
known exactly at the end; what all workers share (the tasks, a counter, a list) adds up.
"""

import itertools
import random
from pathlib import Path
from typing import Any, NamedTuple

from tests.swarm.soak.calls import DONE, READS, REFUSED, Call

WEIGHTS = {
    "create_task": 8,
    "create_tasks": 5,
    "claim_task": 22,
    "heartbeat": 8,
    "complete_task": 13,
    "fail_task": 5,
    "release_task": 3,
    "split_task": 2,
    "hold_paths": 4,
    "note": 4,
    "cancel_task": 2,
    "reopen_task": 2,
    "update_task": 4,
    "add_dependency": 3,
    "remove_dependency": 2,
    "put": 5,
    "delete": 2,
    "increment": 6,
    "append": 4,
    "record": 7,
    "set_budget": 2,
    "clear_budget": 1,
    "pause": 1,
    "resume": 2,
    "prune": 1,
    "reclaim_zombies": 2,
    "backup": 0.15,
    **dict.fromkeys(READS, 0.8),
}
PATHS = ("src/**", "src/a.py", "src/b.py", "docs/**", "log.md")


class Place(NamedTuple):
    """Where a worker works: the phase has a plan and a namespace, the worker a name and a journal of its own."""

    path: Path
    clock: Any
    seed: int
    phase: int
    number: int
    leases_sec: tuple[float, ...] = (0.05, 0.5, 5, 60)
    waits_sec: tuple[float, ...] = (0, 0, 0, 0.01)

    @property
    def plan(self):
        """The plan of the phase, also its namespace."""
        return f"p{self.phase}"

    @property
    def agent(self):
        """The name of the worker."""
        return f"w{self.phase}-{self.number}"

    @property
    def journal(self):
        """Where the worker writes down its calls."""
        return self.path.parent / f"{self.agent}.journal"


class Mix:
    """Chooses the next call from what the worker has learnt from the answers."""

    def __init__(self, place):
        self.place = place
        self.chance = random.Random(f"{place.seed}-{place.phase}-{place.number}")
        self._n = 0
        self._names = 0
        self._leases: list[list[str]] = []
        self._own: list[str] = []

    def next(self):
        """The next call."""
        while True:
            verb = self.chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
            args = getattr(self, f"_{verb}", dict)()
            if args is not None:
                self._n += 1
                return Call(self._n, verb, args)

    def learn(self, call, outcome):
        """See how a call ended."""
        ended = call.verb in ("complete_task", "fail_task", "release_task", "split_task")
        if outcome.how in (DONE, REFUSED) and ended and call.args["lease"] in self._leases:
            self._leases.remove(call.args["lease"])
        if outcome.how != DONE:
            return
        if call.verb == "claim_task" and outcome.answer:
            self._leases = [lease for lease in self._leases if lease[0] != outcome.answer[0]] + [outcome.answer]
        elif call.verb in ("create_task", "create_tasks"):
            self._own += outcome.answer if isinstance(outcome.answer, list) else [outcome.answer]

    def _pick(self, *values: Any):
        return self.chance.choice(values)

    def _signed(self, **args):
        return {**args, "agent_id": self.place.agent, "request_id": f"r{self._n + 1}"}

    def _leased(self, **args):
        if not self._leases:
            return None
        return {**args, "lease": self.chance.choice(self._leases), "request_id": f"r{self._n + 1}"}

    def _wish(self):
        self._names += 1
        wish = {
            "id": f"{self.place.agent}-t{self._names}",
            "title": "t",
            "priority": self.chance.randrange(4),
            "max_attempts": self._pick(1, 3, 50),
            "lease_timeout_sec": self.chance.choice(self.place.leases_sec),
        }
        if self.chance.random() < 0.3:
            wish["payload"] = {"a": "x" * self._pick(1, 100, 5_000)}
        if self.chance.random() < 0.3:
            wish[self._pick("writes", "reads")] = [self._pick(*PATHS)]
        return wish

    def _create_task(self):
        return self._signed(**self._wish(), plan=self.place.plan)

    def _create_tasks(self):
        wishes = [self._wish() for _ in range(self._pick(2, 3, 5))]
        for above, below in itertools.pairwise(wishes):
            if self.chance.random() < 0.6:
                below["depends_on"] = [f"{above['id']}:{self._pick('completed', 'failed', 'finished')}"]
        return self._signed(specs=wishes, plan=self.place.plan)

    def _claim_task(self):
        wish = {"plan": self.place.plan}
        if self._own and self.chance.random() < 0.2:
            wish = {"task_id": self.chance.choice(self._own)}
            if self.chance.random() < 0.5:
                wish |= {"resume": True, "take_over": True}
        if "task_id" not in wish:
            wish["wait_sec"] = self.chance.choice(self.place.waits_sec)
        return self._signed(**wish)

    def _heartbeat(self):
        return {"lease": self.chance.choice(self._leases)} if self._leases else None

    def _complete_task(self):
        return self._leased(result={"by": self.place.agent, "n": self._n + 1})

    def _fail_task(self):
        return self._leased(
            error="broken", kind=self._pick("task", "task", "infra", "quota"), retry=self._pick(1, 0) > 0
        )

    def _release_task(self):
        return self._leased(delay_sec=self._pick(0, 0, 0.05))

    def _split_task(self):
        return self._leased(subtasks=[self._wish() for _ in range(self._pick(1, 2))])

    def _hold_paths(self):
        return self._leased(**{self._pick("writes", "reads"): [self._pick(*PATHS)]})

    def _note(self):
        return self._leased(text=f"note {self._n + 1}")

    def _some(self, names, **args):
        return self._signed(task_id=self.chance.choice(names), **args) if names else None

    def _cancel_task(self):
        return self._some(self._own)

    def _reopen_task(self):
        return self._some(self._own, cascade=self.chance.random() < 0.5)

    def _update_task(self):
        return self._some(self._own, priority=self.chance.randrange(9))

    def _add_dependency(self):
        return self._some(self._own, depends_on=self.chance.choice(self._own)) if self._own else None

    def _remove_dependency(self):
        return self._some(self._own, depends_on=self.chance.choice(self._own)) if self._own else None

    def _put(self):
        passing = {"ttl_sec": self._pick(0.01, 60, 86_400)} if self.chance.random() < 0.3 else {}
        key = f"{self.place.agent}-passing" if passing else self.place.agent
        return self._signed(namespace=self.place.plan, key=key, value=self._n + 1, **passing)

    def _delete(self):
        return self._signed(namespace=self.place.plan, key=self.place.agent)

    def _increment(self):
        return self._signed(namespace=self.place.plan, key="sum", amount=self.chance.randrange(1, 100))

    def _append(self):
        key = f"list-{self._n // 100}-{self.place.number % 4}"
        return self._signed(namespace=self.place.plan, key=key, item=f"{self.place.agent}.{self._n + 1}")

    def _record(self):
        return self._signed(output_tokens=self.chance.randrange(1, 1000), cost_usd=self._pick("0.001", "0.02", "0"))

    def _set_budget(self):
        period = self._pick("lifetime", "day")
        return self._signed(agent=self.place.agent, tokens=self.chance.randrange(10**7, 10**8), period=period)

    def _clear_budget(self):
        return self._signed(agent=self.place.agent, period=self._pick("lifetime", "day"))

    def _pause(self):
        return self._signed(agent=self.place.agent)

    def _resume(self):
        return self._signed(agent=self.place.agent)

    def _prune(self):
        before = self.place.phase - 1
        return {"plan": f"p{before}", "older_than_sec": 0} if before >= 0 else None

    def _backup(self):
        return {"path": f"{self.place.path.parent}/{self.place.agent}-{self._n + 1}.backup"}

    def _get_task(self):
        return {"task_id": self.chance.choice(self._own)} if self._own else None

    def _list_tasks(self):
        return {"plan": self.place.plan, "limit": 50}

    def _explain(self):
        return self._get_task()
