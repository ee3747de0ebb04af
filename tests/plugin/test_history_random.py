"""Whatever a board's verbs do, in whatever order, its history is found right: the checker raises no false alarm."""

import contextlib
import random

import pytest

from agentmesh import AgentMeshError
from agentmesh.model import CONDITIONS
from pytest_agentmesh.history import History
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

AGENTS = ("ann", "bob", "cyd")
PLANS = ("p", "q")
PATHS = ("src/**", "src/a.py", "src/*.py", "docs/", "log.md", "**")
FEW, MANY = 10, 100
STEPS = 150


class Wanderer:
    """Does one thing after another to a board, as a seed wills; what is refused changes nothing."""

    def __init__(self, board, clock, seed, *, back):
        self.board, self.clock, self.chance = board, clock, random.Random(seed)
        self.names, self.leases, self.back = [], [], back
        self.board.apply_plan({"plan": "p", "workspace": "one", "tasks": []})
        self.board.apply_plan({"plan": "q", "workspace": self.chance.choice(["one", "two"]), "tasks": []})

    def walk(self, steps):
        """So many steps."""
        verbs = [verb for verb, weight in self.VERBS.items() for _ in range(weight)]
        for _ in range(steps):
            with contextlib.suppress(AgentMeshError):
                self.chance.choice(verbs)(self)

    def any(self, *values):
        """One of them."""
        return self.chance.choice(values)

    def flip(self):
        """Yes or no."""
        return self.chance.random() < 0.5

    def task(self):
        """A task that is, or was, on the board."""
        return self.chance.choice(self.names or ["none"])

    def lease(self):
        """A lease that is, or was, held; more often a young one."""
        if not self.leases:
            raise AgentMeshError("none yet")
        return self.chance.choice(self.leases[-4:] if self.chance.random() < 0.8 else self.leases)

    def wish(self, names):
        """A task that may wait for any of the names."""
        name = f"t{len(self.names)}"
        self.names.append(name)
        above = self.chance.sample(names, min(len(names), self.any(0, 0, 1, 2)))
        wish = {
            "title": name,
            "id": name,
            "plan": self.any(*PLANS),
            "priority": self.chance.randrange(4),
            "depends_on": [f"{parent}:{self.any(*CONDITIONS)}" for parent in above],
            "max_attempts": self.any(1, 2, 3),
            "lease_timeout_sec": self.any(30, 60),
        }
        if self.chance.random() < 0.3:
            wish["writes" if self.chance.random() < 0.7 else "reads"] = [self.any(*PATHS)]
        if self.chance.random() < 0.2:
            wish["not_before"] = (self.clock.now_us() + self.any(-5, 20, 90) * 1_000_000) / 1_000_000
        if self.chance.random() < 0.3:
            wish |= self.any(
                {"estimate_usd": "0.5"}, {"estimate_tokens": 40}, {"estimate_usd": 2, "estimate_tokens": 9}
            )
        if self.chance.random() < 0.1:
            wish["requires"] = ["gpu"]
        return wish

    def create(self):
        """Some tasks at once, which may wait for each other, the first for the last, too."""
        before = list(self.names[-8:])
        wishes = [self.wish(before) for _ in range(self.any(1, 1, 2, 3))]
        if len(wishes) > 1 and self.chance.random() < 0.5:
            wishes[0]["depends_on"] = [f"{wishes[-1]['id']}:{self.any(*CONDITIONS)}"]
        self.board.create_tasks(wishes, agent_id=self.any(*AGENTS))

    def claim(self):
        """The best task, or one's own again."""
        wishes = self.any({}, {}, {}, {"plan": self.any(*PLANS)}, {"resume": True}, {"resume": True, "take_over": True})
        claim = self.board.claim_task(self.any(*AGENTS), capabilities=self.any([], ["gpu"]), **wishes)
        if claim:
            self.leases.append(claim.lease)

    def claim_named(self):
        """That task."""
        claim = self.board.claim_task(self.any(*AGENTS), task_id=self.task(), capabilities=["gpu"])
        if claim:
            self.leases.append(claim.lease)

    def end(self):
        """Complete, fail or release."""
        lease = self.lease()
        self.any(
            lambda: self.board.complete_task(lease),
            lambda: self.board.complete_task(lease),
            lambda: self.board.fail_task(lease, "x", kind=self.any("task", "infra", "quota"), retry=self.flip()),
            lambda: self.board.fail_task(lease, "x", kind="infra"),
            lambda: self.board.release_task(lease, delay_sec=self.any(0, 0, 40)),
        )()

    def split(self):
        """Into tasks that may wait for others."""
        names = list(self.names[-4:])
        wishes = [{**self.wish(names), "plan": "p"} for _ in range(self.any(1, 2))]
        self.board.split_task(self.lease(), wishes)

    def hold(self):
        """Renew, note, hold more paths."""
        lease = self.lease()
        self.any(
            lambda: self.board.heartbeat(lease),
            lambda: self.board.note(lease, "n"),
            lambda: self.board.hold_paths(lease, **{self.any("writes", "reads"): [self.any(*PATHS)]}),
        )()

    def operate(self):
        """Cancel, reopen, reclaim."""
        self.any(
            lambda: self.board.cancel_task(self.task()),
            lambda: self.board.cancel_task(self.task()),
            lambda: self.board.cancel_plan(self.any(*PLANS)) if self.chance.random() < 0.1 else None,
            lambda: self.board.reopen_task(self.task(), cascade=self.flip()),
            lambda: self.board.reopen_task(self.task(), cascade=True),
            self.board.reclaim_zombies,
        )()

    def stop(self):
        """Pauses and caps."""
        scope = self.any({}, {"plan": self.any(*PLANS)}, {"agent": self.any(*AGENTS)}, {"task_id": self.task()})
        until = self.any(None, self.clock.now_us() / 1_000_000 + self.any(3, 40))
        self.any(
            lambda: self.board.pause(**scope, until=until),
            lambda: self.board.resume(**scope),
            self.resume_all,
            self.resume_all,
            lambda: self.board.set_claim_cap(self.any(1, 2), agent=self.any(None, *AGENTS)),
            lambda: self.board.clear_claim_cap(agent=self.any(None, *AGENTS)),
        )()

    def resume_all(self):
        """No pause is left."""
        for pause in self.board.status().pauses:
            field = "task_id" if pause.scope == "task" else pause.scope
            self.board.resume(**({} if pause.scope == "board" else {field: pause.name}))

    def update(self):
        """Change what a task says of itself."""
        now = self.clock.now_us() / 1_000_000
        fields = self.any(
            {"priority": self.chance.randrange(5)},
            {"max_attempts": self.any(1, 2, 5)},
            {"not_before": now + self.any(-10, 30)},
            {"writes": [self.any(*PATHS)], "reads": []},
            {"estimate_usd": self.any(None, "0.25", 3)},
            {"lease_timeout_sec": self.any(20, 45)},
            {"title": "other", "estimate_tokens": 5},
        )
        self.board.update_task(self.task(), **fields)

    def tie(self):
        """Edges."""
        child, parent = self.task(), self.task()
        self.any(
            lambda: self.board.add_dependency(child, parent, condition=self.any(*CONDITIONS)),
            lambda: self.board.add_dependency(child, parent, condition=self.any(*CONDITIONS)),
            lambda: self.board.remove_dependency(
                *self.any(*[edge[:2] for edge in self.board.edges()] or [("none", "none")])
            ),
        )()

    def budget(self):
        """Set one, or take it away."""
        scope = self.any({}, {"plan": self.any(*PLANS)}, {"agent": self.any(*AGENTS)}, {"task_id": self.task()})
        key = {**scope, "period": self.any("lifetime", "day")}
        limit = self.any({"usd": self.any(0, 1, 3, 9)}, {"tokens": self.any(30, 200)}, {"usd": 4, "tokens": 99})
        self.any(
            lambda: self.board.budgets.set(**key, **limit, strict=self.flip()),
            lambda: self.board.budgets.clear(**key),
            lambda: self.board.budgets.clear(**key),
        )()

    def use(self):
        """Usage for an attempt, a task, or nothing."""
        cost = self.any({"cost_usd": "0.4"}, {"cost_usd": "0.01"}, {"cost_usd": 2}, {"model": "nobody-knows"})
        who = self.any({"lease": self.leases[-1] if self.leases else None}, {"task_id": self.task()}, {})
        if who.get("lease"):
            self.board.ledger.record(**who, **cost, output_tokens=self.any(1, 7, 30))
        else:
            self.board.ledger.record(self.any(*AGENTS), **who, **cost, output_tokens=self.any(0, 7, 30))

    def remember(self):
        """The blackboard."""
        place = self.any("", "a", "a/b"), self.any("x", "y", "z")
        ttl = self.any({}, {"ttl_sec": 20}, {"ttl_sec": 100})
        signed = {"lease": self.leases[-1]} if self.leases and self.chance.random() < 0.4 else {}
        entries = self.board.blackboard
        self.any(
            lambda: entries.put(*place, self.any(1, "text", [1], b"raw"), **ttl, **signed),
            lambda: entries.put(*place, 1, if_version=self.any(0, 1, 2), **ttl, **signed),
            lambda: entries.increment(*place, **ttl, **signed),
            lambda: entries.append(*place, 1, **signed),
            lambda: entries.delete(*place, **signed),
        )()

    def prune(self):
        """What ended long ago, and now and then the history."""
        self.any(
            lambda: self.board.prune(older_than_sec=self.any(0, 60), events_older_than_sec=10_000_000),
            lambda: self.board.prune(plan=self.any(*PLANS), older_than_sec=0),
            lambda: self.board.prune(older_than_sec=self.any(30, 300)) if self.chance.random() < 0.3 else None,
        )()

    def apply(self):
        """A plan that changes some of its tasks."""
        known = self.chance.sample(self.names, min(2, len(self.names)))
        tasks = [{"id": name, "title": "planned", "priority": 2} for name in known]
        self.board.apply_plan({"plan": "p", "tasks": [*tasks, {**self.wish(known), "plan": "p"}]})

    def advance(self):
        """Time goes on, to another day even, or back where it may."""
        self.clock.advance(self.any(*(1, 5, 20, 31, 61, 61, 400, 86_400), *((-3, -50, -5000) if self.back else ())))

    VERBS = {  # noqa: RUF012 - a table of what it can do, and how often
        create: 8,
        claim: 14,
        claim_named: 4,
        end: 14,
        split: 2,
        hold: 6,
        operate: 4,
        stop: 3,
        update: 3,
        tie: 4,
        budget: 2,
        use: 6,
        remember: 6,
        prune: 1,
        apply: 1,
        advance: 10,
    }


class Jumpy(Wanderer):
    """The same on a clock that is set back or forward by hours between any two calls."""

    STEPS_SEC = (-90_000, -7200, -3600, -61, 61, 3600, 7200, 90_000)

    def walk(self, steps):
        """So many steps, before each of them perhaps one of the clock."""
        for _ in range(steps):
            if self.flip():
                self.clock.advance(self.any(*self.STEPS_SEC))
            super().walk(1)


class Leaps:
    """A test's clock that leaps, for the walker visits no deadline on its way."""

    def __init__(self, clock):
        self.clock = clock
        self.now_us = clock.now_us

    def advance(self, sec):
        """On, or back."""
        self.clock.jump(sec)


SEEDS = pytest.mark.parametrize(
    "seed", [*range(FEW), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FEW, MANY))]
)


def walk_and_check(board, wanderer):
    """Walk in five stretches; the history is found right after each, whoever has read how much of it."""
    history = History(board)
    for _ in range(5):
        wanderer.walk(STEPS // 5)
        report = history.check()
        assert report.events == len(history)
        assert History(board).check().compared
        assert History.from_jsonl(history.to_jsonl()).check().events == report.events
    assert violations(board) == {}
    assert max(map(len, history.timeline(80).splitlines())) <= 80
    return history


@SEEDS
def test_no_history_of_a_board_raises_a_false_alarm(tmp_path, seed):
    """Random calls, refused ones among them; every third history with a clock that is set back."""
    clock = TurnableClock()
    with open_board(tmp_path / "board.db", clock, seed=seed) as board:
        board.store._writer.pragma("synchronous", 0)
        history = walk_and_check(board, Wanderer(board, clock, seed, back=seed % 3 == 2))
        assert "heartbeat" not in history.kinds()


@SEEDS
def test_no_step_of_the_clock_raises_a_false_alarm(tmp_path, seed):
    """Neither the check of the rows nor that of the history trusts instants to be in the order of the calls."""
    clock = TurnableClock()
    with open_board(tmp_path / "board.db", clock, seed=seed) as board:
        board.store._writer.pragma("synchronous", 0)
        walk_and_check(board, Jumpy(board, clock, 2000 + seed, back=True))


@SEEDS
def test_no_history_on_a_test_clock_raises_a_false_alarm(mesh_board_factory, seed):
    """The same where each renewal is told, and the ends of leases are exact."""
    with mesh_board_factory() as board:
        walk_and_check(board, Wanderer(board, Leaps(board.clock), 1000 + seed, back=seed % 3 == 2))
