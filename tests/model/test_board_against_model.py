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
from tests.model.plain import FINAL, MET, PlainBoard
from tests.support.boards import open_board, violations
from tests.support.clock import TurnableClock

LEASE_SEC = 60
AGENTS = st.sampled_from(["ada", "bob"])
ABLE = st.sampled_from([frozenset(), frozenset({"gpu"}), frozenset({"gpu", "web"})])
WRITES = st.sampled_from([(), (), (), ("src/**",), ("src/a.py",), ("src/b.py", "log.md"), ("log.md",)])


class BoardAgainstModel(RuleBasedStateMachine):
    """Every rule does the same to both; the invariant compares all that can be seen."""

    @initialize()
    def start(self):
        """An empty board on a clock that stands still."""
        self.folder = tempfile.TemporaryDirectory()
        self.clock = TurnableClock()
        self.board = open_board(Path(self.folder.name) / "board.db", self.clock)
        self.model = PlainBoard(LEASE_SEC * 1_000_000)
        self.model.now = self.clock.now_us()
        self.leases = []

    def teardown(self):
        """Close what was opened."""
        if hasattr(self, "board"):
            self.board.close()
            self.folder.cleanup()

    def any_task(self, data):
        """Some task of the model."""
        return self.model.tasks[data.draw(st.sampled_from(sorted(self.model.tasks)))]

    @rule(
        data=st.data(),
        priority=st.integers(-2, 3),
        requires=ABLE,
        writes=WRITES,
        delay=st.sampled_from([0, 0, 30]),
        attempts=st.integers(1, 3),
    )
    def create(self, *, data, priority, requires, writes, delay, attempts):
        """A task with up to three parents."""
        name = f"t{self.model.ever}"
        names = sorted({**self.model.tasks, **self.model.ends})
        parents = data.draw(st.lists(st.sampled_from(names), max_size=3, unique=True)) if names else []
        edges = {parent: data.draw(st.sampled_from(CONDITIONS)) for parent in parents}
        not_before = self.model.now + delay * 1_000_000 if delay else 0
        self.board.create_task(
            name,
            id=name,
            priority=priority,
            depends_on=[f"{parent}:{condition}" for parent, condition in edges.items()],
            requires=sorted(requires),
            writes=writes,
            max_attempts=attempts,
            **({"not_before": not_before / 1_000_000} if delay else {}),
        )
        said = {"priority": priority, "requires": requires, "writes": writes}
        self.model.create(name, edges, **said, max_attempts=attempts, not_before=not_before)

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

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), verb=st.sampled_from(["complete", "fail", "infra", "give up", "release", "beat"]))
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
        elif verb in ("fail", "infra"):
            self.model.put_back(task, "infra" if verb == "infra" else None, retry_at or 0)
        else:
            self.model.finish(task, "completed" if verb == "complete" else "failed")

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

    @precondition(lambda self: self.model.tasks)
    @rule(data=st.data())
    def reopen(self, data):
        """A final task, unless what it waits for ended otherwise."""
        task = self.any_task(data)
        ends = [(self.model.tasks[parent].end, condition) for parent, condition in task.parents.items()]
        impossible = any(end and end not in MET[condition] for end, condition in ends)
        if not task.end or impossible:
            with pytest.raises(WrongState):
                self.board.reopen_task(task.name)
            return
        self.board.reopen_task(task.name)
        self.model.reopen(task)

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

    @invariant()
    def agree(self):
        """States, urgencies, fences and charges are the same, and every promise holds on the rows."""
        if not hasattr(self, "board"):
            return
        there = self.board.list_tasks(limit=500).tasks
        assert [task.id for task in there] == list(self.model.tasks)
        for task in there:
            plain = self.model.tasks[task.id]
            state = self.model.state(plain)
            if state == "pending" and plain.not_before and task.state == "scheduled":
                state = "scheduled"  # due, and promoted by the next claim
            told = (task.state, task.fence, task.charged)
            assert told == (state, plain.fence, plain.charged), (task, plain)
            if task.state not in FINAL:
                assert task.urgency == self.model.urgency(plain), (task, plain)
        assert violations(self.board) == {}


TestBoardAgainstModel = pytest.mark.timeout(600)(BoardAgainstModel.TestCase)  # shrinking a failure takes its time
TestBoardAgainstModel.settings = settings(
    max_examples=100, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
