"""The replay: each event must be legal after those before it, by the rules of the design, written down anew.

It follows a board's history on plain words: tasks and attempts (`tasks`), what bars a hand-out (`gates`), money
(`money`), the blackboard (`entries`). A history that does not begin with its board is taken up as it comes: a task is
known from the first event on that tells of it, and what cannot be judged for that is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from agentmesh.model import Event
from pytest_agentmesh.checkers.entries import Entries
from pytest_agentmesh.checkers.gates import Gates
from pytest_agentmesh.checkers.ground import Ground
from pytest_agentmesh.checkers.leases import CEILINGS, Leases
from pytest_agentmesh.checkers.money import WARNINGS, Money
from pytest_agentmesh.checkers.rows import Rows
from pytest_agentmesh.checkers.tasks import Graph, PlainAttempt, PlainTask
from pytest_agentmesh.checkers.verdict import Replayed, Violation, at, hold

CASCADE: Final = ("task_cancelled", "task_created")
"""What may stand between the end of a task and the cancelling of what it has doomed."""


@dataclass(slots=True)
class Doom:
    """A task that can never run and is to be cancelled: why, since when, and the state in which it was."""

    at_us: int
    state: str | None
    roots: set[str] = field(default_factory=set)


class Replay:
    """The model of a board, event by event."""

    def __init__(self, events: Sequence[Event], rows: Rows | None = None) -> None:
        imported = bool(events) and events[0].kind == "board_imported"
        self.events = events
        self.ground = Ground(rows, whole=not events or (events[0].seq == 1 and not imported))
        self.ground.read(events)
        self.graph = Graph()
        self.gates = Gates(self.ground)
        self.money = Money(self.ground)
        self.entries = Entries(self.ground)
        self.leases = Leases(self.ground, self.graph, self.money)
        self.clock_set_back: list[int] = []
        self._doomed: dict[str, Doom] = {}
        self._promised: set[str] = set()
        self._at_ceiling: str | None = None
        self._last: Event | None = None

    def run(self) -> None:
        """Go through all events.

        Raises:
            Violation: one of them is not legal after those before it.
        """
        if not self.ground.whole and self.events:
            why = "was imported" if self.events[0].kind == "board_imported" else "was pruned"
            self.ground.cannot_see(f"what happened before event {self.events[0].seq}: it {why}")
        seq = 0
        try:
            for event in self.events:
                seq = event.seq
                self._take(event)
            self._before(None)
        except Violation as broken:
            broken.seq = seq
            raise

    def _take(self, event: Event) -> None:
        if self._last is not None:
            hold(event.seq == self._last.seq + 1, "P6", f"event {self._last.seq + 1}", f"event {event.seq} comes next")
            if event.at_us < self._last.at_us:
                self.ground.went_back = True
                self.clock_set_back.append(event.seq)
        self._before(event)
        take = self._HANDLERS.get(event.kind)
        if take is not None:
            take(self, event)
        else:
            self.ground.cannot_see(f"what events of kind {event.kind} mean: this AgentMesh does not know them")
        if event.task_id in self.graph.tasks:
            self.graph.tasks[event.task_id].last_seq = event.seq
        self._last = event

    def _before(self, event: Event | None) -> None:
        """What the events so far have made due must come before others."""
        self.money.before(event)
        name, self._at_ceiling = self._at_ceiling, None
        if name is not None:
            next_ = event is not None and (event.kind, event.task_id) == ("paused", name) and "ceiling" in event.data
            hold(next_, "P3", f"{name} to be paused, for it has reached a ceiling", "it was left as it is")
        if self._promised and (event is None or event.kind != "task_created"):
            raise Violation("P4", "every dependency to be on the board", f"{min(self._promised)} was never created")
        if self._doomed and (event is None or event.kind not in CASCADE):
            name, doom = next(iter(self._doomed.items()))
            why = f"for {' or '.join(sorted(doom.roots))} ended so that it can never run"
            raise Violation("P4", f"{name} to be cancelled at once, {why}", "it was left as it is")

    # What happens to tasks

    def _created(self, event: Event) -> None:
        name, data = event.task_id or "", event.data
        hold(name not in self.graph.tasks or not self.ground.whole, "P6", f"one task {name}", "it is created again")
        task = PlainTask(name, event.plan, known=True, phase="open", fence=0, charged=0, most=data["max_attempts"])
        for edge in data.get("depends_on", ()):
            parent, _, condition = edge.rpartition(":")
            task.parents[parent] = condition
        task.writes, task.reads = tuple(data.get("writes", ())), tuple(data.get("reads", ()))
        self.graph.add(task)
        self._promised.discard(name)
        if self.ground.whole:
            self._promised |= task.parents.keys() - self.graph.tasks.keys()
        if self.graph.awaited(name):  # else it closes no circle, and a chain of thousands is walked only once
            for parent in task.parents:
                self.graph.refuse_cycle(name, parent, self.ground.gone)
        self._told(event, task, data["state"])
        if (parent := self.graph.impossible(task)) is not None:
            self._doom(event, task, parent)

    def _claimed(self, event: Event) -> None:
        task, agent, fence = self.leases.task(event), event.agent_id or "", event.fence or 0
        if task.open is not None:
            held = f"attempt {task.open.fence} of {task.open.agent} to hold {task.id} until it ends or is reclaimed"
            raise Violation("P1", held, f"{agent} was handed it as attempt {fence}")
        hold(not task.final, "P2", f"{task.id} to stay {task.phase}", f"{agent} was handed it as attempt {fence}")
        state = self._state(task)
        wait = f"until {self.graph.unmet(task)}" if state == "blocked" else "until its time has come"
        hold(state in (None, "pending"), "P4", f"{task.id} to wait {wait}", f"{agent} was handed it")
        if task.fence is not None:
            hold(fence == task.fence + 1, "P1", f"attempt {task.fence + 1} of {task.id}", f"attempt {fence}")
        self._charge(event, task)
        attempt = PlainAttempt(task.id, fence, agent, event.seq, event.at_us, event.data["expires_us"])
        self.leases.lasts(event, attempt)
        self.gates.pass_through(event, [other.open for other in self.leases.open.values() if other.open])
        self.leases.hold_paths(event, attempt, self.leases.paths(event, task))
        self.money.reserve(event, task, attempt)
        task.phase, task.fence, task.open, task.timing, task.weak = "held", fence, attempt, "pending", False
        task.attempts[fence] = attempt
        self.leases.open[task.id] = task

    def _charge(self, event: Event, task: PlainTask) -> None:
        """A hand-out costs a charge, of which there are only so many."""
        if task.charged is None:
            return
        most = self._most(event, task)
        task.charged += 1
        if most is not None:
            told = f"it is the hand-out with charge {task.charged}"
            hold(task.charged <= most, "P3", f"at most {most} charged hand-outs of {task.id}", told)

    def _renewed(self, event: Event) -> None:
        attempt = self.leases.held(event)
        expires_us = event.data["expires_us"]
        told = f"it ends at {at(expires_us)}"
        hold(
            expires_us >= attempt.expires_us, "P2", f"a lease that lasts until {at(attempt.expires_us)} at least", told
        )
        attempt.expires_us = expires_us

    def _completed(self, event: Event) -> None:
        self.leases.end(event, "completed")
        self._finish(event, self.leases.task(event), "completed")

    def _failed(self, event: Event) -> None:
        task, kind = self.leases.task(event), event.data["kind"]
        self.leases.end(event, "failed", kind=kind)
        task.own_failures += kind == "task"
        self._put_back(event, task, kind, for_good=True)

    def _released(self, event: Event) -> None:
        task = self.leases.task(event)
        self.leases.end(event, "released")
        self._put_back(event, task, "released")

    def _split(self, event: Event) -> None:
        task = self.leases.task(event)
        self.leases.end(event, "split")
        most = self._most(event, task)
        if task.charged is not None and most is not None:
            left = f"{task.id} to have a hand-out left for after the split"
            hold(task.charged < most, "P3", left, f"{task.charged} of {most} are used up")
        task.phase, task.weak = "open", True

    def _reclaimed(self, event: Event) -> None:
        task, due_us = self.leases.task(event), event.data["due_us"]
        attempt = self.leases.held(event)
        if task.known or self.ground.whole:
            early = f"the lease of {attempt.agent} on {task.id} to run until {at(due_us)}"
            hold(due_us <= event.at_us, "P3", early, f"it was taken back at {at(event.at_us)}")
            told = f"it was taken back as due at {at(due_us)}"
            renewed = due_us > attempt.expires_us and not self.ground.renewals  # by a heartbeat that is no event
            hold(
                due_us == attempt.expires_us or renewed, "P3", f"the lease to run until {at(attempt.expires_us)}", told
            )
        attempt.expires_us = due_us
        self.leases.end(event, "reclaimed")
        self._put_back(event, task, "reclaimed")

    def _cancelled(self, event: Event) -> None:
        task, root = self.leases.task(event), event.data.get("root")
        told = f"it was cancelled, as a task that was {event.data['was']}"
        hold(not task.final, "P2", f"{task.id} to stay {task.phase}", told)
        doom = self._doomed.pop(task.id, None) or Doom(event.at_us, self._state(task))
        hold(doom.state in (None, event.data["was"]), "P6", f"{task.id} to have been {doom.state}", told)
        instants = f"{at(doom.at_us)} and {at(event.at_us)} in one"
        hold(doom.at_us == event.at_us, "P11", "a call to have one instant", instants)
        if root is not None and task.known and self.ground.whole:
            why = " or ".join(sorted(doom.roots)) or "nothing: no dependency of it ended so that it can never run"
            hold(root in doom.roots, "P4", f"{task.id} to be cancelled because of {why}", f"because of {root}")
        if task.open is not None:
            hold(event.fence == task.fence, "P2", f"attempt {task.fence} to end with it", f"attempt {event.fence}")
            self.leases.close(event, task, task.open, "cancelled")
        self._finish(event, task, "cancelled", root)

    def _reopened(self, event: Event) -> None:
        task, was = self.leases.task(event), event.data["was"]
        hold(task.phase in (None, was), "P2", f"a task that is {was}", f"{task.id} is {task.phase}")
        while (parent := self.graph.impossible(task)) is not None:
            self._pruned_edge(task, parent)
        task.phase, task.charged, task.weak = "open", 0, True
        task.opened_fence = task.fence or 0
        if task.timing == "scheduled":
            task.timing = None
        task.refunds.clear()
        task.own_failures = 0
        for child, _ in self.graph.children(task.id):
            child.weak = True

    def _pruned_edge(self, task: PlainTask, parent: str) -> None:
        """An edge that can never be met is only gone if its parent was pruned."""
        above = self.graph.tasks[parent]
        found = f"{task.id} was opened again while it waits for {parent}, which is {above.phase}"
        hold(self.ground.gone(parent), "P4", "a task to be opened again only if it can run", found)
        self.graph.part(task, parent)

    def _due(self, event: Event) -> None:
        task = self.leases.task(event)
        state = self._state(task)
        hold(state in (None, "scheduled"), "P4", f"{task.id}, which is {state}, to stay so", "its time has come")
        task.tell("pending")
        task.due_us = event.at_us

    def _updated(self, event: Event) -> None:
        task, fields = self.leases.task(event), event.data["fields"]
        hold(not task.final, "P2", f"{task.id} to stay as it is, for it is {task.phase}", f"its {fields} changed")
        fixed = {"requires", "writes", "reads"} & set(fields)
        hold(not (fixed and task.open), "P10", f"the paths of {task.id} to stay while it is held", f"{fields} changed")
        if "not_before" in fields:
            task.timing = task.due_us = None

    def _tied(self, event: Event) -> None:
        task, parent, condition = self.leases.task(event), event.data["parent"], event.data["condition"]
        loose = task.open is None and not task.final
        hold(loose, "P4", "new dependencies only for a task that is open", f"{task.id} is {self.graph.state(task)}")
        hold(parent not in task.parents, "P4", f"one edge from {parent} to {task.id}", "a second one")
        there = parent in self.graph.tasks or not self.ground.whole
        hold(there, "P4", "every dependency to be on the board", f"{parent} was never created")
        self.graph.refuse_cycle(task.id, parent, self.ground.gone)
        state = self._state(task)
        self.graph.connect(task, parent, condition)
        task.weak = True
        if self.graph.impossible(task) is not None:
            self._doom(event, task, parent).state = state

    def _untied(self, event: Event) -> None:
        task, parent = self.leases.task(event), event.data["parent"]
        hold(not task.final, "P4", f"the dependencies of {task.id} to stay, for it is {task.phase}", "one was removed")
        hold(parent in task.parents or not task.known, "P4", f"{task.id} to wait for {parent}", "it did not")
        if parent in task.parents:
            self.graph.part(task, parent)
        task.weak = True

    def _paths_held(self, event: Event) -> None:
        attempt, data = self.leases.held(event), event.data
        wanted = [(pattern, "write") for pattern in data["writes"]] + [(pattern, "read") for pattern in data["reads"]]
        self.leases.hold_paths(event, attempt, wanted)

    def _by_holder(self, event: Event) -> None:
        self.leases.held(event)

    def _paused(self, event: Event) -> None:
        """A pause; at a ceiling, it gives back all charges of a task but those of its own failures."""
        self.gates.take(event)
        if event.task_id is None:
            return
        task = self.leases.task(event)
        hold(not task.final, "P2", f"{task.id}, which is {task.phase}, to stay as it is", "it was paused")
        if "ceiling" not in event.data:
            return
        excused = [one for one in task.attempts.values() if one.charged and one.fence > task.opened_fence]
        excused = [one for one in excused if one.outcome and (one.outcome, one.kind) != ("failed", "task")]
        told = event.data["refunded"]
        if task.known:
            hold(len(excused) == told, "P3", f"{len(excused)} charges of {task.id} to be given back", f"{told} were")
        for attempt in excused:
            attempt.charged = False
        task.charged = None if task.charged is None else task.charged - told
        splits = task.refunds["split"]
        task.refunds.clear()
        task.refunds["split"] = splits

    def _unpaused(self, event: Event) -> None:
        if event.task_id is not None and event.agent_id is None:
            over = not self.gates.paused("task", event.task_id, event.at_us)
            hold(over, "P4", f"the pause of {event.task_id} to last until its end", "it ended before")
        self.gates.take(event)

    # What happens to the rest of the board

    def _used(self, event: Event) -> None:
        task = self.graph.tasks.get(event.task_id or "")
        attempt = task.attempts.get(event.fence) if task and event.fence else None
        if event.task_id and self.ground.whole:
            hold(task is not None, "P6", f"{event.task_id} to have been created", "usage for it")
        if event.fence and self.ground.whole:
            told = f"usage of {event.agent_id} for attempt {event.fence} of {event.task_id}"
            hold(attempt is not None and attempt.agent == event.agent_id, "P7", "an attempt of that agent", told)
        self.money.use(event, task, attempt)

    def _put(self, event: Event) -> None:
        if event.fence is not None:
            self.leases.held(event)
        self.entries.put(event)

    def _deleted(self, event: Event) -> None:
        if event.fence is not None:
            self.leases.held(event)
        self.entries.delete(event)

    def _pruned(self, event: Event) -> None:
        self.ground.pruned += event.data.get("tasks", 0)
        self.ground.forgotten += event.data.get("entry_tombstones", 0)

    def _imported(self, event: Event) -> None:
        hold(event.seq == self.events[0].seq, "P6", "an import before everything else", f"it is event {event.seq}")

    # How tasks go on

    def _put_back(self, event: Event, task: PlainTask, how: str, *, for_good: bool = False) -> None:
        """After an attempt that did not finish it, a task is open again, failed, or at a ceiling and to be paused."""
        state, most = event.data["state"], self._most(event, task)
        if task.charged is not None and most is not None:
            used = f"{task.charged} of {most} hand-outs are used up, and {task.id} is {state}"
            used_up = task.charged >= most
            if state == "failed":
                hold(for_good or used_up, "P3", "a task with hand-outs left to be tried again", used)
                blamed = for_good or task.own_failures > 0 or not task.known
                hold(blamed, "P3", f"{task.id}, of which no attempt failed by itself, to be paused", "it failed")
            else:
                hold(not (used_up and task.own_failures), "P3", "a task without hand-outs left to fail", used)
            if state != "failed" and task.known and (used_up or task.refunds[how] >= CEILINGS.get(how, most + 1)):
                self._at_ceiling = task.id
        if state == "failed":
            self._finish(event, task, "failed")
            return
        self._told(event, task, state)

    def _told(self, event: Event, task: PlainTask, state: str) -> None:
        """An event says which state an open task is in: blocked exactly while a dependency holds it."""
        task.tell(state)
        held_by = self.graph.unmet(task)
        if held_by:
            hold(state == "blocked", "P4", f"{task.id} to wait for {held_by}", f"it is {state} by event {event.seq}")
        elif held_by is None:
            hold(state != "blocked", "P4", f"{task.id} to be free: nothing holds it", "it is blocked")

    def _finish(self, event: Event, task: PlainTask, end: str, root: str | None = None) -> None:
        """A task has ended, and its pause with it; whoever waits for another end of it can never run."""
        task.phase = end
        self.gates.pauses.pop(("task", task.id), None)
        for child, _ in self.graph.children(task.id):
            if not child.final and self.graph.impossible(child) is not None:
                self._doom(event, child, root or task.id)

    def _doom(self, event: Event, task: PlainTask, root: str) -> Doom:
        doom = self._doomed.setdefault(task.id, Doom(event.at_us, self._state(task)))
        doom.roots.add(root)
        return doom

    def _state(self, task: PlainTask) -> str | None:
        return self.graph.state(task, went_back=self.ground.went_back)

    def _most(self, event: Event, task: PlainTask) -> int | None:
        """How often a task may be handed out; None where only a value that is gone would tell."""
        if task.known and self.ground.as_created(task.id, "max_attempts", event.seq):
            return task.most
        told: int | None = self.ground.said(task.id, "max_attempts", "max_attempts", event.seq)
        return told

    def report(self, *, compared: bool) -> Replayed:
        """What was seen."""
        first = self.events[0].seq if self.events else 0
        last = self.events[-1].seq if self.events else 0
        unseen = tuple(self.ground.unseen)
        return Replayed(len(self.events), first, last, compared, tuple(self.clock_set_back), unseen)

    _HANDLERS: Final[Mapping[str, Callable[[Replay, Event], None]]] = {
        "task_created": _created,
        "task_claimed": _claimed,
        "task_resumed": _renewed,
        "heartbeat": _renewed,
        "task_completed": _completed,
        "task_failed": _failed,
        "task_released": _released,
        "task_split": _split,
        "lease_reclaimed": _reclaimed,
        "task_cancelled": _cancelled,
        "task_reopened": _reopened,
        "task_due": _due,
        "task_updated": _updated,
        "dependency_added": _tied,
        "dependency_removed": _untied,
        "paths_held": _paths_held,
        "noted": _by_holder,
        "usage_recorded": _used,
        "entry_put": _put,
        "entry_deleted": _deleted,
        "pruned": _pruned,
        "board_imported": _imported,
        **dict.fromkeys(("schema_upgraded", "board_restored"), lambda _self, _event: None),  # about the file alone
        "budget_set": lambda self, event: self.money.set(event),
        "budget_cleared": lambda self, event: self.money.clear(event),
        **dict.fromkeys(WARNINGS, lambda self, event: self.money.warn(event)),
        **dict.fromkeys(
            ("breaker_opened", "claim_cap_set", "claim_cap_cleared"),
            lambda self, event: self.gates.take(event),
        ),
        "paused": _paused,
        "resumed": _unpaused,
    }
