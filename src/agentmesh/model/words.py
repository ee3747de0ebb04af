"""The closed sets of words that records use, and the types of what stands in them.

Times are integer microseconds UTC (`_us`), money is integer 10^-12 USD (`_pusd`); edges show seconds, RFC 3339, USD.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NewType, get_args

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
