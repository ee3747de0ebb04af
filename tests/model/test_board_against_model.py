"""The board against the plain model: whatever is done to both, in any order, they agree."""

import contextlib
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentmesh.errors import CycleRefused, LeaseLost, Pruned, WrongState
from agentmesh.model import CONDITIONS
from tests.model.plain import FINAL, SPLIT_REFUNDS, PlainBoard
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

LEASE_SEC = 60
RETRY_SEC = 90
AGENTS = st.sampled_from(["ada", "bob"])
ABLE = st.sampled_from([frozenset(), frozenset(), frozenset({"gpu"}), frozenset({"gpu", "web"})])
WAITS = st.sampled_from([*CONDITIONS, "completed", "completed"])
WRITES = st.sampled_from([(), (), (), ("src/**",), ("src/a.py",), ("src/b.py", "log.md"), ("log.md",)])


class GraphAgainstModel(RuleBasedStateMachine):
    """What ends, opens and ties tasks, in every order, at one instant; the invariant compares all that can be seen."""

    @initialize(data=st.data(), most=st.integers(2, 6))
    def start(self, data, most):
        """A board on a clock that stands still, with a few tasks that anybody can do."""
        self.folder = tempfile.TemporaryDirectory()
        self.clock = TurnableClock()
        self.board = open_board(Path(self.folder.name) / "board.db", self.clock)
        self.model = PlainBoard(LEASE_SEC * 1_000_000)
        self.model.now = self.clock.now_us()
        self.leases = []
        for _ in range(most):
            self.put(data, WAITS, priority=data.draw(st.integers(-2, 3)), max_attempts=3)

    def teardown(self):
        """Close what was opened."""
        if hasattr(self, "board"):
            self.board.close()
            self.folder.cleanup()

    def any_task(self, data):
        """Some task of the model."""
        return self.model.tasks[data.draw(st.sampled_from(sorted(self.model.tasks)))]

    def put(self, data, conditions, delay=0, **said):
        """Put a task on both boards, which may wait for any that is or was there; its name."""
        name = f"t{self.model.ever}"
        names = sorted({**self.model.tasks, **self.model.ends})
        parents = data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        edges = {parent: data.draw(conditions) for parent in parents}
        not_before = self.model.now + delay * 1_000_000 if delay else 0
        there = self.model.open_of(said.get("key"))
        made = self.board.create_task(
            name,
            id=name,
            depends_on=[f"{parent}:{condition}" for parent, condition in edges.items()],
            **{field: sorted(value) if field == "requires" else value for field, value in said.items()},
            **({"not_before": not_before / 1_000_000} if delay else {}),
        )
        assert (made.id, made.existing) == ((there.name, True) if there else (name, False))
        if not there:
            self.model.create(name, edges, **said, not_before=not_before)

    @rule(data=st.data(), priority=st.integers(-2, 5))
    def add(self, data, priority):
        """A task that anybody can do now, or once what it waits for has ended."""
        self.put(data, WAITS, priority=priority)

    @precondition(lambda self: self.open())
    @rule(data=st.data())
    def begin(self, data):
        """Some task, after all that it waits for."""
        self.work_up_to(data.draw(st.sampled_from(self.open())))

    def open(self):
        """The tasks that are not final."""
        return [task for task in self.model.tasks.values() if not task.end]

    def work_up_to(self, task):
        """End what a task waits for as it should, and claim it, if it then can be."""
        for parent, condition in list(task.parents.items()):
            above = self.model.tasks[parent]
            if not above.end and not task.end and self.work_up_to(above):
                self.finish(above, "failed" if condition == "failed" else "completed", {"for": task.name})
        if (
            self.model.state(task) == "pending"
            and not self.model.paused(task)
            and not self.model.blocked_by_paths(task)
        ):
            claim = self.board.claim_task("ada", task_id=task.name, capabilities=["gpu", "web"])
            self.model.hand_out(task, "ada")
            self.leases.append(claim.lease)
        return task.held

    def finish(self, task, end, result=None):
        """End a task that is being worked on."""
        if end == "completed":
            self.board.complete_task(self.lease(task), result)
        else:
            self.board.fail_task(self.lease(task), "boom", retry=False)
        self.model.finish(task, end, result=result if end == "completed" else None)

    def held(self):
        """The tasks that are being worked on."""
        return [task for task in self.model.tasks.values() if task.held]

    def lease(self, task):
        """The lease of the attempt that holds a task."""
        return next(lease for lease in self.leases if (lease.task_id, lease.fence) == (task.name, task.fence))

    @precondition(lambda self: self.held())
    @rule(data=st.data(), end=st.sampled_from(["completed", "completed", "failed"]), result=st.sampled_from([None, 1]))
    def end_one(self, data, end, result):
        """A task that is being worked on, whatever has become of its parents meanwhile."""
        self.finish(data.draw(st.sampled_from(self.held())), end, result)

    @precondition(lambda self: self.held())
    @rule(data=st.data(), priority=st.integers(-2, 5))
    def split(self, data, priority):
        """A task that is being worked on, into one that may wait for others."""
        task = data.draw(st.sampled_from(self.held()))
        others = sorted({*self.model.tasks, *self.model.ends} - {task.name})
        parents = data.draw(st.lists(st.sampled_from(others), max_size=2, unique=True)) if others else []
        refunded = task.ends.get("split", 0) < SPLIT_REFUNDS
        expected = None
        if task.charged - refunded >= task.max_attempts:
            expected = WrongState
        elif any(self.model.reaches(parent, task.name) for parent in parents if parent in self.model.tasks):
            expected = CycleRefused
        name = f"t{self.model.ever}"
        wish = {"title": name, "id": name, "priority": priority, "depends_on": parents}
        with pytest.raises(expected) if expected else contextlib.nullcontext():
            self.board.split_task(self.lease(task), [wish])
        if not expected:
            self.model.put_back(task, "split")
            self.model.create(name, dict.fromkeys(parents, "completed"), priority=priority)
            task.parents[name] = "finished"

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data())
    def cancel(self, data):
        """An open task, and what can then never run."""
        task = self.any_task(data)
        if task.end in ("completed", "failed"):
            with pytest.raises(WrongState):
                self.board.cancel_task(task.name)
            return
        self.board.cancel_task(task.name)
        if not task.end:
            self.model.finish(task, "cancelled")

    @precondition(lambda self: len(self.model.tasks) > 7)
    @rule()
    def cancel_plan(self):
        """All that is open."""
        count = sum(not task.end for task in self.model.tasks.values())
        assert self.board.cancel_plan("default") == count
        self.model.cancel_all()

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data())
    def pause(self, data):
        """An open task, held or not."""
        task = self.any_task(data)
        with pytest.raises(WrongState) if task.end else contextlib.nullcontext():
            self.board.pause(task_id=task.name)
        task.paused = not task.end

    @precondition(lambda self: any(task.paused for task in self.model.tasks.values()))
    @rule(data=st.data())
    def unpause(self, data):
        """Whoever paused it."""
        names = sorted(task.name for task in self.model.tasks.values() if task.paused)
        task = self.model.tasks[data.draw(st.sampled_from(names))]
        assert self.board.resume(task_id=task.name) is True
        task.paused = False

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), cascade=st.booleans())
    def reopen(self, data, cascade):
        """A final task, unless what it waits for ended otherwise, or an open task has its key."""
        task = self.any_task(data)
        if not task.end or self.model.impossible(task) or self.model.open_of(task.key):
            with pytest.raises(WrongState):
                self.board.reopen_task(task.name, cascade=cascade)
            return
        self.board.reopen_task(task.name, cascade=cascade)
        self.model.reopen(task, cascade=cascade)

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), end=st.sampled_from(["completed", "completed", "failed", None]))
    def reopen_a_parent(self, data, end):
        """The parent of a task that is being worked on: the work goes on, and its end may meet an open parent."""
        task = data.draw(st.sampled_from(self.waiting()))
        self.work_up_to(task)
        parents = [self.model.tasks[name] for name in task.parents]
        for parent in [parent for parent in parents if task.held and parent.end and not self.model.impossible(parent)]:
            if not self.model.open_of(parent.key) and data.draw(st.booleans()):
                self.board.reopen_task(parent.name)
                self.model.reopen(parent)
        if end and task.held:
            self.finish(task, end)

    def waiting(self):
        """The open tasks with parents, whether those have ended or not."""
        return [task for task in self.open() if task.parents]

    @precondition(lambda self: len(self.model.tasks) > 1)
    @rule(data=st.data(), condition=st.sampled_from(CONDITIONS))
    def add_edge(self, data, condition):
        """Between two tasks, unless it closes a cycle or comes too late."""
        child, parent = self.any_task(data), self.any_task(data)
        if parent.name in child.parents:
            return
        expected = None
        if child.end or child.held:
            expected = WrongState
        elif self.model.reaches(parent.name, child.name):
            expected = CycleRefused
        with pytest.raises(expected) if expected else contextlib.nullcontext():
            self.board.add_dependency(child.name, parent.name, condition=condition)
        if not expected:
            child.parents[parent.name] = condition
            self.model.doom(child)

    @precondition(lambda self: any(task.parents for task in self.model.tasks.values()))
    @rule(data=st.data())
    def remove_edge(self, data):
        """One that is there."""
        pairs = sorted((task.name, parent) for task in self.model.tasks.values() for parent in task.parents)
        name, parent = data.draw(st.sampled_from(pairs))
        child = self.model.tasks[name]
        if child.end:
            with pytest.raises(WrongState):
                self.board.remove_dependency(name, parent)
            return
        self.board.remove_dependency(name, parent)
        del child.parents[parent]

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data(), priority=st.integers(-2, 5))
    def reprioritise(self, data, priority):
        """Another priority for an open task."""
        task = self.any_task(data)
        if not task.end:
            self.board.update_task(task.name, priority=priority)
            task.priority = priority

    @invariant()
    def agree(self):
        """States, urgencies, fences, charges and pauses are the same, and every promise holds on the rows."""
        if not hasattr(self, "board"):
            return
        there = self.board.list_tasks(limit=500).tasks
        assert [task.id for task in there] == list(self.model.tasks)
        for task in there:
            plain = self.model.tasks[task.id]
            state = self.model.state(plain)
            if state == "pending" and plain.not_before and task.state == "scheduled":
                state = "scheduled"  # due, and promoted by the next claim
            told = (task.state, task.fence, task.charged, task.paused)
            assert told == (state, plain.fence, plain.charged, plain.paused), (task, plain)
            if task.state not in FINAL:
                assert task.urgency == self.model.urgency(plain), (task, plain)
        assert violations(self.board) == {}


class BoardAgainstModel(GraphAgainstModel):
    """The same with times, leases that run out, paths, capabilities and a past that is pruned."""

    @rule(
        data=st.data(),
        priority=st.integers(-2, 3),
        requires=ABLE,
        writes=WRITES,
        delay=st.sampled_from([0, 0, 30]),
        attempts=st.integers(1, 3),
        key=st.sampled_from([None, None, "k", "l"]),
    )
    def create(self, *, data, priority, requires, writes, delay, attempts, key):
        """A task with up to three parents."""
        said = {"priority": priority, "requires": requires, "writes": writes, "max_attempts": attempts}
        self.put(data, WAITS, delay, key=key, **said)

    @rule(agent=AGENTS, able=ABLE)
    def claim(self, agent, able):
        """The best task, or nothing."""
        self.model.reclaim()
        expected = self.model.best(agent, able)
        claim = self.board.claim_task(agent, capabilities=able)
        assert (claim.task.id if claim else None) == (expected.name if expected else None), claim
        if expected:
            self.model.hand_out(expected, agent)
            self.leases.append(claim.lease)
            carried = [(one.id, one.state, one.result) for one in claim.dependencies]
            assert carried == self.model.carried(expected)

    @rule(seconds=st.sampled_from([1, 30, 100]))
    def stop(self, seconds):
        """The whole board, until an instant; of two pauses the longer one lasts."""
        until_us = self.model.now + seconds * 1_000_000
        self.board.pause(until=until_us / 1_000_000)
        self.model.stopped_until = max(self.model.stopped_until, until_us)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verb=st.sampled_from(["complete", "fail", "infra", "quota", "give up", "release", "beat"]))
    def end(self, data, verb):
        """What a holder, present or past, does with a lease it once got."""
        lease = data.draw(st.sampled_from(self.leases))
        if lease.task_id in self.model.ends:
            with pytest.raises(Pruned):
                self.act(verb, lease)
            return
        task = self.model.tasks[lease.task_id]
        held = task.held is not None and task.fence == lease.fence
        with contextlib.nullcontext() if held else pytest.raises(LeaseLost):
            self.act(verb, lease)
        if held:
            self.follow(verb, task)

    def act(self, verb, lease):
        """Do it on the board."""
        calls = {
            "complete": lambda: self.board.complete_task(lease, {"by": lease.fence}),
            "fail": lambda: self.board.fail_task(lease, "boom"),
            "infra": lambda: self.board.fail_task(lease, "boom", kind="infra"),
            "quota": lambda: self.board.fail_task(lease, "boom", kind="quota", retry_after_sec=RETRY_SEC),
            "give up": lambda: self.board.fail_task(lease, "boom", retry=False),
            "release": lambda: self.board.release_task(lease),
            "beat": lambda: self.board.heartbeat(lease),
        }
        calls[verb]()

    def follow(self, verb, task):
        """Do it on the model; the retry delay is the board's."""
        agent, expires = task.held
        retry_at = self.board.get_task(task.name).not_before_us
        if verb == "beat":
            task.held = (agent, max(expires, self.model.now + self.model.lease_us))
        elif verb == "release":
            self.model.put_back(task, "released")
            task.averse[agent] = self.model.now + 60_000_000
        elif verb == "quota":
            self.model.fail(task, "quota", self.model.now + RETRY_SEC * 1_000_000)
            assert task.end or retry_at == task.not_before
        elif verb in ("fail", "infra"):
            self.model.fail(task, "infra" if verb == "infra" else "failed", retry_at or 0)
        elif verb == "complete":
            self.model.finish(task, "completed", result={"by": task.fence})
        else:
            self.model.finish(task, "failed")

    @precondition(lambda self: self.model.tasks and self.model.ends)
    @rule(data=st.data(), condition=st.sampled_from(CONDITIONS))
    def add_edge_to_the_past(self, data, condition):
        """To a task that was pruned: it has ended, so the edge is met or impossible."""
        child, parent = self.any_task(data), data.draw(st.sampled_from(sorted(self.model.ends)))
        late = child.end or child.held
        with pytest.raises(WrongState) if late else contextlib.nullcontext():
            self.board.add_dependency(child.name, parent, condition=condition)
        if not late:
            self.model.wait(child, parent, condition)

    @rule(seconds=st.sampled_from([1, 20, 61, 700]))
    def advance(self, seconds):
        """Time goes on."""
        self.clock.advance(seconds)
        self.model.now = self.clock.now_us()

    @rule(age=st.sampled_from([0, 30, 600]))
    def prune(self, age):
        """What ended that long ago is forgotten; the history is kept short, too."""
        self.board.prune(older_than_sec=age)
        self.model.prune(age * 1_000_000)

    @rule()
    def reclaim(self):
        """The due leases are taken back by hand."""
        self.model.reclaim()
        self.board.reclaim_zombies()


def against_the_model(machine, examples, steps):
    """The test case of a machine; shrinking a failure takes its time."""
    case = pytest.mark.timeout(600)(machine.TestCase)
    how = {"max_examples": examples, "stateful_step_count": steps}
    case.settings = settings(**how, deadline=None, suppress_health_check=list(HealthCheck))
    return case


TestGraphAgainstModel = against_the_model(GraphAgainstModel, 50, 25)
TestBoardAgainstModel = against_the_model(BoardAgainstModel, 80, 40)
