"""The test bench of AgentMesh: it proves that a swarm of agents behaves.

The plugin gives the fixtures; what a test imports is here, and is loaded when it is asked for. There is no assertion
here, so a script may import it before pytest does: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

PLACES: Final = {
    "Agent": "agents",
    "AgentModel": "endpoint",
    "AgentOutcome": "swarm",
    "BrokenPromise": "promises",
    "ClockStuck": "clock",
    "Deadline": "clock",
    "Endpoint": "endpoint",
    "Fault": "faults",
    "FaultMark": "faults",
    "FaultNeverStruck": "sessions",
    "History": "history",
    "Lost": "steps",
    "Me": "agents",
    "MeshBoard": "boards",
    "MeshClock": "clock",
    "MeshFake": "fake",
    "MissingSdk": "sessions",
    "NotQuiet": "swarm",
    "Run": "swarm",
    "Server": "sessions",
    "Sessions": "sessions",
    "State": "assertions",
    "Turn": "replies",
    "World": "swarm",
    "WrongTask": "sessions",
    "agent": "agents",
    "assert_all_completed": "assertions",
    "assert_all_final": "assertions",
    "assert_attempts": "assertions",
    "assert_blocked": "assertions",
    "assert_budget_left": "assertions",
    "assert_claimed": "assertions",
    "assert_completed": "assertions",
    "assert_entry": "assertions",
    "assert_failed": "assertions",
    "assert_handed_over": "assertions",
    "assert_lease": "assertions",
    "assert_never_ran": "assertions",
    "assert_no_entry": "assertions",
    "assert_not_together": "assertions",
    "assert_ran_in_order": "assertions",
    "assert_ready": "assertions",
    "assert_result": "assertions",
    "assert_spent": "assertions",
    "assert_state": "assertions",
    "assert_unclaimed": "assertions",
    "assert_wasted": "assertions",
    "assert_within": "assertions",
    "broken": "replies",
    "call": "replies",
    "calls": "replies",
    "claim": "steps",
    "complete": "steps",
    "cut": "replies",
    "delay": "faults",
    "disconnect": "faults",
    "do": "steps",
    "duplicate": "faults",
    "error": "replies",
    "fail": "steps",
    "garbled": "replies",
    "get": "steps",
    "hang": "replies",
    "heartbeat": "steps",
    "kill": "faults",
    "lost_reply": "faults",
    "lost_request": "faults",
    "note": "steps",
    "overloaded": "replies",
    "put": "steps",
    "rate_limit": "replies",
    "release": "steps",
    "some": "faults",
    "spend": "steps",
    "split": "steps",
    "stall": "faults",
    "text": "replies",
    "work": "steps",
}
"""Every public name, and the module that has it."""

__all__ = list(PLACES)


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *PLACES]
