"""Tasks and what becomes of them: attempts, leases, pauses, events, and what the board says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Never

from agentmesh.model.words import (
    FENCE_DIGITS,
    FINAL,
    Advice,
    Ceiling,
    Condition,
    FailureKind,
    Json,
    Outcome,
    PauseScope,
    State,
)


@dataclass(frozen=True, slots=True)
class Dependency:
    """An edge: the task waits until the task `id` has ended as `condition` says."""

    id: str
    condition: Condition = "completed"


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work. `depends_on`, `description`, `payload` and `result` are filled by `get_task` only.

    `existing`: this call did not create it; it is the open task that has the key.
    """

    id: str
    title: str
    plan: str
    state: State
    priority: int
    urgency: int
    fence: int
    charged: int
    max_attempts: int
    lease_timeout_us: int
    max_hold_us: int
    created_us: int
    requires: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    not_before_us: int | None = None
    ended_us: int | None = None
    estimate_pusd: int | None = None
    estimate_tokens: int | None = None
    holder: str | None = None
    lease_expires_us: int | None = None
    unmet: int = 0
    paused: bool = False
    key: str | None = None
    existing: bool = False
    reason: str | None = None
    depends_on: tuple[Dependency, ...] = ()
    description: str | None = None
    payload: Json = None
    result: Json = None

    @property
    def final(self) -> bool:
        """Whether it has ended: completed, failed or cancelled."""
        return self.state in FINAL


@dataclass(frozen=True, slots=True)
class Attempt:
    """One hand-out of a task to an agent. `outcome` is None while it is open."""

    task_id: str
    fence: int
    agent_id: str
    charged: bool
    started_us: int
    heartbeat_us: int
    lease_expires_us: int
    ended_us: int | None = None
    outcome: Outcome | None = None
    kind: FailureKind | None = None
    late: bool = False
    error: str | None = None
    retry_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to work on one attempt. `token` is what a holder shows; it is a secret."""

    task_id: str
    fence: int
    secret: str = field(repr=False)
    expires_us: int = field(default=0, compare=False)

    @property
    def token(self) -> str:
        """The opaque form `fence.secret`."""
        return f"{self.fence}.{self.secret}"

    @classmethod
    def from_token(cls, task_id: str, token: str) -> Lease | None:
        """Read a token back; None when it has not the form of one."""
        fence, _, secret = token.partition(".")
        if not (fence.isascii() and fence.isdigit() and secret and len(fence) <= FENCE_DIGITS):
            return None
        return cls(task_id, int(fence), secret)


@dataclass(frozen=True, slots=True)
class DependencyResult:
    """What a task's finished dependency left behind; `truncated` when the result was too large to carry."""

    id: str
    title: str
    state: State
    result: Json = None
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class NoClaim:
    """Nothing was handed out. Falsy, so `if claim := board.claim_task(...)` reads well.

    `reason` is one of `done`, `empty`, `blocked`, `scheduled`, `in_progress`, `paths_held`, `paused`, `storm`,
    `budget`, `claim_cap`, `capability`, `tags`, `released`, `final`; `advice` is `wait`, `stop` or `blocked_by`.
    `holds` are the tasks that the agent itself holds, oldest claim first, 20 at most: it may not know, if the answer to
    a claim was lost.
    """

    reason: str
    advice: Advice
    message: str
    retry_at_us: int | None = None
    holds: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Nothing was claimed."""
        return False

    if not TYPE_CHECKING:  # a type checker knows what is not here

        def __getattr__(self, name: str) -> Never:
            """Say why to whoever took this for a claim."""
            raise AttributeError(f"nothing was claimed, so there is no {name!r}: {self.message}")


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the history; `seq` is a total order without gaps."""

    seq: int
    at_us: int
    kind: str
    plan: str | None
    task_id: str | None
    fence: int | None
    agent_id: str | None
    data: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Note:
    """A remark that a holder left on its attempt."""

    fence: int
    agent_id: str
    at_us: int
    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A stop of hand-outs, until `until_us` if set; one that the board made has a `ceiling` and no `agent_id`."""

    scope: PauseScope
    name: str
    reason: str
    agent_id: str | None
    since_us: int
    until_us: int | None = None
    ceiling: Ceiling | None = None


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """How many tasks of a plan stand in each state; `storm_until_us`: its breaker is open until then."""

    plan: str
    workspace: str
    counts: dict[State, int]
    paused: bool = False
    retention_us: int | None = None
    storm_until_us: int | None = None

    @property
    def total(self) -> int:
        """All tasks of the plan."""
        return sum(self.counts.values())

    @property
    def final(self) -> bool:
        """Whether every task of the plan is."""
        return all(count == 0 for state, count in self.counts.items() if state not in FINAL)


@dataclass(frozen=True, slots=True)
class Status:
    """The board at a glance; `next_due_us`: when time alone changes it next; `pauses` lists at most a hundred tasks."""

    counts: dict[State, int]
    plans: tuple[PlanStatus, ...]
    pauses: tuple[Pause, ...]
    last_seq: int
    leases_due: int
    next_due_us: int | None
    now_us: int
    paused_tasks: int = 0

    @property
    def total(self) -> int:
        """All tasks on the board."""
        return sum(self.counts.values())

    @property
    def open(self) -> int:
        """Tasks that are not final."""
        return sum(n for state, n in self.counts.items() if state not in FINAL)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of tasks; give `cursor` back to get the next, None when this was the last."""

    tasks: tuple[Task, ...]
    cursor: int | None


@dataclass(frozen=True, slots=True)
class ClaimCap:
    """How many tasks an agent may hold at once; `agent_id` None stands for every agent without a cap of its own."""

    agent_id: str | None
    most: int


@dataclass(frozen=True, slots=True)
class Cause:
    """One root cause of waiting: a task (or a pause) that holds others up.

    `kind` is one of `in_progress`, `lease_due`, `ready`, `capability`, `paths_held`, `scheduled`, `paused`, `storm`,
    `budget`, `claim_cap`, `clock`; `waiting` counts the tasks that wait behind it, itself not counted.
    """

    kind: str
    message: str
    task_id: str | None = None
    waiting: int = 0
    holder: str | None = None
    until_us: int | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why nobody works on a task (or on the board), in one sentence and its root causes, gravest first."""

    summary: str
    causes: tuple[Cause, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Finding:
    """What `check()` says of one promise."""

    promise: str
    verdict: Literal["held", "violated", "not observable"]
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What applying a plan file changed."""

    plan: str
    created: tuple[str, ...]
    updated: tuple[str, ...]
    unchanged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PruneReport:
    """What a prune took away or, if it was only asked, would take: tasks by plan, events, tombstones of entries."""

    tasks: int
    plans: dict[str, int]
    events: int
    entry_tombstones: int
    dry_run: bool = False
