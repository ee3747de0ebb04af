"""The nouns of AgentMesh: frozen records and the closed sets of words they use.

Times are integer microseconds UTC (`_us`), money is integer 10^-12 USD (`_pusd`); edges show seconds, RFC 3339, USD.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Never, NewType, get_args

TaskId = NewType("TaskId", str)
AgentId = NewType("AgentId", str)
Micros = NewType("Micros", int)
Json = Any
"""A JSON value as Python reads it; validated by `limits.json_text` before it is stored."""

State = Literal["blocked", "scheduled", "pending", "in_progress", "completed", "failed", "cancelled"]
STATES: Final[tuple[State, ...]] = get_args(State)
FINAL: Final[frozenset[str]] = frozenset({"completed", "failed", "cancelled"})

Condition = Literal["completed", "failed", "finished"]
CONDITIONS: Final[tuple[Condition, ...]] = ("completed", "failed", "finished")

Outcome = Literal["completed", "failed", "released", "split", "reclaimed", "cancelled"]
FailureKind = Literal["task", "infra", "quota"]
PathMode = Literal["write", "read"]
PauseScope = Literal["board", "plan", "agent", "task"]
Ceiling = Literal["released", "infra", "quota", "reclaimed"]
Advice = Literal["wait", "stop", "blocked_by"]
BudgetScope = Literal["board", "plan", "task", "agent"]
Period = Literal["lifetime", "day"]
Origin = Literal["self", "import", "launch"]
ORIGINS: Final[tuple[Origin, ...]] = ("self", "import", "launch")
UsageGroup = Literal["task", "plan", "agent", "model", "attempt", "day"]
USAGE_GROUPS: Final[tuple[UsageGroup, ...]] = get_args(UsageGroup)

FENCE_DIGITS: Final = 18
DEFAULT_PLAN: Final = "default"
OPERATOR: Final = "operator"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFacts:
    """What is known of an entry beside its value. `task_id` and `fence` are those of the lease its writer showed.

    `content_type` is that of bytes; JSON has none.
    """

    namespace: str
    key: str
    version: int
    size: int
    created_us: int
    updated_us: int
    agent_id: str
    content_type: str | None = None
    expires_us: int | None = None
    task_id: str | None = None
    fence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry(EntryFacts):
    """An entry of the blackboard with its value: any JSON, None too, or bytes."""

    value: Json | bytes


@dataclass(frozen=True, slots=True)
class EntryPage:
    """One page of entries, by namespace and key; give `cursor` back to get the next, None when this was the last."""

    entries: tuple[EntryFacts, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class BlackboardStats:
    """How much there is: entries and the bytes of their values; expired ones not yet swept; names that are gone."""

    entries: int
    size: int
    expired: int
    tombstones: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of calls to a language model, each counted once: `input_tokens` are those that no cache was part of.

    Reasoning is part of `output_tokens`.
    """

    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """All tokens, in and out."""
        return self.input_tokens + self.cached_input_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Price:
    """What a usage costs, and the price list that says so."""

    cost_pusd: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageEntry:
    """One entry of the ledger: what an agent used, for which attempt of which task.

    The four kinds of tokens are disjoint. `cost_pusd` is None where no price is known; `price` says where it is from:
    `given`, or the name and version of the price list. `at_us` is the instant of the usage. `source` is the permanent
    key of what was used; an entry that `corrects` another holds the difference to what its key had counted before.
    `origin` says who reported it: the agent (`self`), an `import` of a client's logs, or what launched the client.
    """

    id: int
    at_us: int
    agent_id: str
    plan: str | None = None
    task_id: str | None = None
    fence: int | None = None
    model: str | None = None
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    duration_us: int = 0
    cost_pusd: int | None = None
    price: str | None = None
    source: str | None = None
    origin: Origin = "self"
    corrects: int | None = None


@dataclass(frozen=True, slots=True)
class UsagePage:
    """One page of the ledger, oldest first; give `cursor` back to get the next, None when this was the last."""

    entries: tuple[UsageEntry, ...]
    cursor: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLeft:
    """What is left of a budget, reservations taken off; None where it sets no limit.

    `near` from 80 % of a limit on. `over_pusd` and `over_tokens`: by how much the spend has passed it, else None.
    """

    scope: BudgetScope
    name: str
    period: Period
    left_pusd: int | None = None
    left_tokens: int | None = None
    near: bool = False
    over_pusd: int | None = None
    over_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(BudgetLeft):
    """A limit on what a board, plan, task or agent uses, in its lifetime or each day (UTC), and how it stands.

    `unpriced` counts entries of unknown cost; while there are any, a `strict` budget in USD hands out nothing more.
    """

    limit_pusd: int | None
    limit_tokens: int | None
    spent_pusd: int
    spent_tokens: int
    reserved_pusd: int
    reserved_tokens: int
    unpriced: int
    strict: bool


@dataclass(frozen=True, slots=True)
class UsageReceipt:
    """What `record` answers: the entry, what is left of the budgets it falls under, usage fields nobody knows."""

    entry: UsageEntry
    budgets: tuple[BudgetLeft, ...] = ()
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageLine:
    """The sum of some usage, and in a report what it is the sum of.

    `tokens` are those of all kinds. What is `wasted` was used by attempts that failed, were reclaimed or cancelled.
    `attempts` are counted, and how long they were held, only where a report was asked to; `unreported` are completed
    ones without any usage. `rest`, in a report by task or attempt, is what belongs to no task, or to a pruned one;
    by day in a time zone it is pruned usage whose UTC day lies in two days of the zone.
    """

    plan: str | None = None
    task_id: str | None = None
    fence: int | None = None
    agent_id: str | None = None
    model: str | None = None
    day: str | None = None
    rest: bool = False
    entries: int = 0
    unpriced: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    tokens: int = 0
    cost_pusd: int = 0
    duration_us: int = 0
    wasted_tokens: int = 0
    wasted_pusd: int = 0
    wasted_us: int = 0
    attempts: int | None = None
    held_us: int | None = None
    unreported: int | None = None


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Usage by task, plan, agent, model, attempt or day, dearest first; `more` lines follow, `total` sums all."""

    by: UsageGroup
    lines: tuple[UsageLine, ...]
    total: UsageLine
    more: int = 0


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
