"""Ledger, budgets and caps against the plain model: whatever is done to both, in any order, on any day, they agree."""

import tempfile
from datetime import date
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmesh.errors import AlreadyClaimed, LeaseLost, WrongState
from agentmesh.model import USAGE_GROUPS
from tests.model.plain_ledger import DAY_US, FINAL, PlainLedger, PlainTask
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

LEASE_SEC = 60
HALF = 5 * 10**11
EPOCH = date(1970, 1, 1)
AGENTS = st.sampled_from(["ann", "bob"])
PLANS = st.sampled_from(["p", "q"])
PUSD = st.sampled_from([None, None, 0, 1, HALF, HALF + 1, 3 * HALF])
TOKENS = st.sampled_from([None, None, 0, 1, 50, 120])
WISHES = st.sampled_from([{}, {}, {}, {"plan": "p"}, {"plan": "q"}, {"tag": "t"}, {"plan": "p", "tag": "t"}])
LIMITS = st.tuples(
    st.sampled_from([None, 0, HALF, 3 * HALF, 9 * HALF, 30 * HALF]), st.sampled_from([None, None, None, 0, 200, 900])
)
VERBS = ("complete", "fail", "give up", "release")
COUNTS = st.tuples(*[st.sampled_from([0, 0, 1, 7, 40])] * 4)
COSTS = st.sampled_from([None, 0, 1, HALF // 5, HALF, 10**12 + 1])
STEPS = st.sampled_from([1, 30, 61, 700, 43_200, 86_400, "midnight", "just before midnight", -30, -86_400])
SUMS = ("entries", "unpriced", "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")
MORE_SUMS = ("cost_pusd", "duration_us", "wasted_tokens", "wasted_pusd", "wasted_us")


def dollars(pusd):
    """An amount as text that says it to the last unit."""
    return None if pusd is None else f"{pusd // 10**12}.{pusd % 10**12:012}"


class LedgerAgainstModel(RuleBasedStateMachine):
    """Every rule does the same to both; the invariant compares all that can be seen."""

    @initialize(
        data=st.data(),
        sizes=st.lists(st.tuples(PUSD, TOKENS, st.sampled_from([None, None, "a"])), min_size=4, max_size=4),
        limits=st.lists(st.tuples(LIMITS, st.booleans()), max_size=3),
    )
    def start(self, data, sizes, limits):
        """Some tasks and budgets, at noon, on a clock that stands still."""
        self.folder = tempfile.TemporaryDirectory()
        self.clock = TurnableClock()
        self.clock.advance(2.5 * 86_400)
        self.board = open_board(Path(self.folder.name) / "board.db", self.clock)
        self.board.store._writer.pragma("synchronous", 0)
        self.model = PlainLedger(LEASE_SEC * 1_000_000)
        self.model.now = self.clock.now_us()
        self.leases = []
        self.set_back = False
        for number, (pusd, tokens, path) in enumerate(sizes):
            self.create(plan="pq"[number % 2], priority=number % 3, tag="t", path=path, pusd=pusd, tokens=tokens)
        for limit, daily in limits:
            self.set_budget(data, limit, strict=False, period="day" if daily else "lifetime")

    def teardown(self):
        """Close what was opened."""
        if hasattr(self, "board"):
            self.board.close()
            self.folder.cleanup()

    def any_task(self, data):
        """Some task that is there."""
        return self.model.tasks[data.draw(st.sampled_from(sorted(self.model.there())))]

    # Tasks and claims

    @rule(
        plan=PLANS,
        priority=st.integers(0, 2),
        tag=st.sampled_from([None, "t"]),
        path=st.sampled_from([None, None, "a", "b"]),
        pusd=PUSD,
        tokens=TOKENS,
    )
    def create(self, *, plan, priority, tag, path, pusd, tokens):
        """A task with estimates, or without."""
        name = f"t{len(self.model.tasks)}"
        self.board.create_task(
            name,
            id=name,
            plan=plan,
            priority=priority,
            tags=[tag] if tag else [],
            writes=[path] if path else [],
            estimate_usd=dollars(pusd),
            estimate_tokens=tokens,
            max_attempts=1000,
            lease_timeout_sec=LEASE_SEC,
        )
        estimate = {"pusd": pusd or 0, "tokens": tokens or 0}
        self.model.tasks[name] = PlainTask(name, len(self.model.tasks), plan, priority, tag, path, estimate)

    @precondition(lambda self: self.model.there())
    @rule(agent=AGENTS, wish=WISHES)
    def claim(self, agent, wish):
        """The best task that caps and budgets allow, or nothing."""
        self.model.heal()
        expected = self.model.best(agent, wish.get("plan"), wish.get("tag"))
        tags = [wish["tag"]] if "tag" in wish else []
        self.compare(self.board.claim_task(agent, plan=wish.get("plan"), tags=tags), expected, agent)

    @precondition(lambda self: self.model.there())
    @rule(data=st.data(), agent=AGENTS, counts=COUNTS, pusd=COSTS, verb=st.sampled_from([None, *VERBS]))
    def work(self, *, data, agent, counts, pusd, verb):
        """Claim, tell some usage, end it somehow or keep it: what agents do all day."""
        before = len(self.leases)
        self.claim(agent, {})
        if len(self.leases) > before:
            self.record(data=data, agent=agent, model="m", counts=counts, pusd=pusd, us=0, way="last lease")
            if verb:
                self.finish(self.leases[-1], verb)

    @precondition(lambda self: self.model.there())
    @rule(agent=AGENTS, data=st.data())
    def claim_named(self, agent, data):
        """That one, if it is free, and caps and budgets allow it; what is due and in its way is taken back first."""
        task = self.any_task(data)
        leases, times = self.model.due()
        if task.state == "in_progress" and task not in leases:
            with pytest.raises(AlreadyClaimed):
                self.board.claim_task(agent, task_id=task.name)
            return
        claim = self.board.claim_task(agent, task_id=task.name)
        if task in leases:
            self.model.end(task, "reclaimed", "pending")
        if task in times:
            task.state = "pending"
        if task.state not in FINAL and not (task.state == "pending" and self.model.may_have(task, agent)):
            for other in self.model.due()[0]:
                self.model.end(other, "reclaimed", "pending")
        free = task.state == "pending" and self.model.may_have(task, agent)
        self.compare(claim, task if free else None, agent)

    def compare(self, claim, expected, agent):
        """The claim is of that task, and does not pass any limit."""
        assert (claim.task.id if claim else None) == (expected.name if expected else None), claim
        if expected is None:
            return
        self.model.hand_out(expected, agent)
        self.leases.append(claim.lease)
        for key, (limits, _) in self.model.budgets.items():
            if self.model.falls_under(key, expected, agent):
                for kind, limit in limits.items():
                    assert limit is None or self.model.spent(key, kind) + self.model.reserved(key, kind) <= limit
        left = {(budget.scope, budget.name, budget.period) for budget in claim.budgets}
        assert left == {key for key in self.model.budgets if self.model.falls_under(key, expected, agent)}

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verb=st.sampled_from(VERBS))
    def end(self, data, verb):
        """What a holder, present or past, does with a lease it once got."""
        self.finish(data.draw(st.sampled_from(self.leases)), verb)

    def finish(self, lease, verb):
        """Do it, if the attempt is open; it is told that the lease is lost, if not."""
        task = self.model.tasks[lease.task_id]
        calls = {
            "complete": lambda: self.board.complete_task(lease),
            "fail": lambda: self.board.fail_task(lease, "x"),
            "give up": lambda: self.board.fail_task(lease, "x", kind="task", retry=False),
            "release": lambda: self.board.release_task(lease),
        }
        attempt = task.attempts[lease.fence - 1]
        if attempt.end is not None:
            with pytest.raises(LeaseLost):
                calls[verb]()
            return
        left = calls[verb]()
        how = {"complete": "completed", "release": "released"}.get(verb, "failed")
        self.model.end(task, how, left.state)
        assert left.state == self.model.left_by(task, verb)
        if verb == "fail":
            task.not_before = left.not_before_us
        if verb == "release":
            task.averse[attempt.agent] = self.model.now + 60_000_000

    @precondition(lambda self: self.model.there())
    @rule(data=st.data())
    def cancel(self, data):
        """An open task, and its attempt."""
        task = self.any_task(data)
        if task.state in ("completed", "failed"):
            with pytest.raises(WrongState):
                self.board.cancel_task(task.name)
            return
        self.board.cancel_task(task.name)
        self.model.end(task, "cancelled", "cancelled")

    @precondition(lambda self: any(task.state in FINAL for task in self.model.there().values()))
    @rule(data=st.data())
    def reopen(self, data):
        """A final task comes back; what it has spent stays."""
        final = sorted(name for name, task in self.model.there().items() if task.state in FINAL)
        task = self.model.tasks[data.draw(st.sampled_from(final))]
        task.state = self.board.reopen_task(task.name).state

    @precondition(lambda self: self.model.there())
    @rule(data=st.data(), pusd=PUSD, tokens=TOKENS)
    def estimate(self, data, pusd, tokens):
        """Other estimates, which count from the next hand-out on."""
        task = self.any_task(data)
        if task.state not in FINAL:
            self.board.update_task(task.name, estimate_usd=dollars(pusd), estimate_tokens=tokens)
            task.estimate = {"pusd": pusd or 0, "tokens": tokens or 0}

    # Usage

    @rule(
        data=st.data(),
        agent=AGENTS,
        model=st.sampled_from(["m", "n"]),
        counts=COUNTS,
        pusd=COSTS,
        us=st.sampled_from([0, 1000, 7_000_000]),
        way=st.sampled_from(["agent", "task", "lease", "lease", "last lease"]),
        ago=st.sampled_from([0, 0, DAY_US]),
        more=st.sampled_from([None, None, 0, 5]),
    )
    def record(self, *, data, agent, model, counts, pusd, us, way, ago=0, more=None):
        """Usage for an attempt, present or past, for a task, or for nothing."""
        if not (any(counts) or us or pusd):
            return
        names = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens")
        used = dict(zip(names, counts, strict=True)) | {"duration_ms": us / 1000, "cost_usd": dollars(pusd)}
        used |= {"at": (self.model.now - ago) / 1e6} if ago else {}
        used |= {} if more is None else {"source": f"s{len(self.model.entries)}"}
        task, fence = None, None
        if "lease" in way and self.leases:
            lease = self.leases[-1] if "last" in way else data.draw(st.sampled_from(self.leases))
            task, fence = self.model.tasks[lease.task_id], lease.fence
            agent = task.attempts[fence - 1].agent
            receipt = self.board.ledger.record(lease=lease, model=model, **used)
        elif way == "task":
            task = self.model.tasks[data.draw(st.sampled_from(sorted(self.model.tasks)))]
            own = [number for number, attempt in enumerate(task.attempts, start=1) if attempt.agent == agent]
            fence = own[-1] if own and not task.pruned else None
            receipt = self.board.ledger.record(agent, task_id=task.name, model=model, **used)
        else:
            receipt = self.board.ledger.record(agent, model=model, **used)
        known = pusd if pusd is not None or any(counts) else 0
        said = {"model": model, "tokens": counts, "us": us, "pusd": known}
        self.model.record(agent, task, fence, said, ago)
        entry = receipt.entry
        there = task.name if task and not task.pruned else None
        assert (entry.agent_id, entry.task_id, entry.fence, entry.plan) == (agent, there, fence, task and task.plan)
        assert entry.cost_pusd == known
        for budget in receipt.budgets:
            self.compare_left((budget.scope, budget.name, budget.period), budget)
        if more is not None:
            self.repeat(entry, used, more)
            growth = {"tokens": (0, 0, 0, more), "us": 0, "pusd": 0 if pusd is not None else None}
            if more:
                self.model.record(agent, task, fence, said | growth, ago)

    def repeat(self, first, used, more):
        """The same reply from another agent, larger by some tokens or not at all."""
        used = used | {"output_tokens": used["output_tokens"] + more}
        again = self.board.ledger.record("copier", model=first.model, **used).entry
        if more:
            assert (again.corrects, again.output_tokens, again.at_us) == (first.id, more, first.at_us)
        else:
            assert again == first

    # Limits

    @rule(data=st.data(), limits=LIMITS, strict=st.booleans(), period=st.sampled_from(["lifetime", "day"]))
    def set_budget(self, data, limits, *, strict, period):
        """Of the board, a plan, a task or an agent."""
        if limits == (None, None):
            return
        key = self.any_key(data)
        named = dict([key]) if key else {}
        pusd, tokens = limits
        self.board.budgets.set(**named, period=period, usd=dollars(pusd), tokens=tokens, strict=strict)
        self.model.budgets[self.model_key(key, period)] = ({"pusd": pusd, "tokens": tokens}, strict)

    @precondition(lambda self: self.model.budgets)
    @rule(data=st.data())
    def clear_budget(self, data):
        """One that is there."""
        scope, name, period = data.draw(st.sampled_from(sorted(self.model.budgets)))
        named = {{"task": "task_id"}.get(scope, scope): name} if name else {}
        assert self.board.budgets.clear(**named, period=period)
        del self.model.budgets[scope, name, period]

    def any_key(self, data):
        """What a budget may be for."""
        names = {
            "board": [None],
            "agent": ["ann", "bob"],
            "plan": sorted({task.plan for task in self.model.tasks.values()}),
            "task_id": sorted(self.model.there()),
        }
        field = data.draw(st.sampled_from([field for field, found in names.items() if found]))
        return None if field == "board" else (field, data.draw(st.sampled_from(names[field])))

    def model_key(self, key, period):
        """The same as the model names it."""
        field, name = key or ("board", "")
        return field.removesuffix("_id"), name, period

    @precondition(lambda self: any(task.state in FINAL for task in self.model.there().values()))
    @rule()
    def prune(self):
        """What is final goes; no sum changes but those by task."""
        self.board.prune(older_than_sec=0)
        self.model.prune()
        self.leases = [lease for lease in self.leases if lease.task_id in self.model.there()]

    @rule(agent=st.sampled_from([None, "ann"]), most=st.sampled_from([None, None, 1, 2]))
    def cap(self, agent, most):
        """Of one agent or of all; None takes it away."""
        if most is None:
            assert self.board.clear_claim_cap(agent=agent) == (self.model.caps.pop(agent, None) is not None)
        else:
            self.board.set_claim_cap(most, agent=agent)
            self.model.caps[agent] = most

    @rule(step=STEPS)
    def advance(self, step):
        """Time goes on, to another day even, or back."""
        now = self.clock.now_us()
        to_midnight = (DAY_US - now % DAY_US) / 1_000_000
        sec = {"midnight": to_midnight, "just before midnight": to_midnight - 0.000_001}.get(step, step)
        if now + sec * 1_000_000 > 0:
            self.clock.advance(sec)
            self.set_back = self.set_back or sec < 0
        self.model.now = self.clock.now_us()

    # What is compared

    @invariant()
    def agree(self):
        """Tasks, budgets and sums are the same, and every promise holds on the rows."""
        if not hasattr(self, "board"):
            return
        listed = self.board.list_tasks(limit=500).tasks
        assert {task.id for task in listed} == set(self.model.there())
        for task in listed:
            plain = self.model.tasks[task.id]
            assert (task.state, task.fence) == (plain.state, len(plain.attempts)), (task, plain)
        assert {(one.scope, one.name, one.period) for one in self.board.budgets.list()} == set(self.model.budgets)
        for budget in self.board.budgets.list():
            self.compare_budget(budget)
        for by in USAGE_GROUPS:
            self.compare_report(by)
        if not any(self.model.due()):
            for agent in ("ann", "bob"):
                found, expected = self.board.has_work(agent_id=agent), self.model.best(agent, None, None)
                assert found == (expected is not None) or (found and self.set_back)
        assert violations(self.board) == {}

    def compare_budget(self, budget):
        """A budget's books are the sums of the model."""
        key = (budget.scope, budget.name, budget.period)
        assert budget.unpriced == self.model.unpriced(key)
        for kind in ("pusd", "tokens"):
            assert getattr(budget, f"spent_{kind}") == self.model.spent(key, kind), (key, kind)
            assert getattr(budget, f"reserved_{kind}") == self.model.reserved(key, kind), (key, kind)
        self.compare_left(key, budget)

    def compare_left(self, key, budget):
        """What is left, and what is over."""
        for kind, limit in self.model.budgets[key][0].items():
            spent, reserved = self.model.spent(key, kind), self.model.reserved(key, kind)
            left = None if limit is None else max(limit - spent - reserved, 0)
            over = spent - limit if limit is not None and spent > limit else None
            assert (getattr(budget, f"left_{kind}"), getattr(budget, f"over_{kind}")) == (left, over), (key, kind)

    def compare_report(self, by):
        """Its lines, and their total, are the sums of the model."""
        names = {
            "plan": lambda line: line.plan,
            "task": lambda line: line.task_id,
            "attempt": lambda line: (line.task_id, line.fence),
            "agent": lambda line: line.agent_id,
            "model": lambda line: line.model,
            "day": lambda line: (date.fromisoformat(line.day) - EPOCH).days,
        }
        report, expected = self.board.ledger.report(by, limit=500), self.model.report(by)
        found = {names[by](line): tuple(getattr(line, name) for name in SUMS + MORE_SUMS) for line in report.lines}
        assert found == expected, by
        total = tuple(getattr(report.total, name) for name in SUMS + MORE_SUMS)
        assert total == tuple(map(sum, zip(*expected.values(), strict=True))) or not expected


TestLedgerAgainstModel = pytest.mark.timeout(600)(LedgerAgainstModel.TestCase)  # shrinking a failure takes its time
TestLedgerAgainstModel.settings = settings(
    max_examples=80, stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
