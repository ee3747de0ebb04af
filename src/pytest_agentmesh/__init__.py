"""The test bench of AgentMesh: it proves that a swarm of agents behaves.

The plugin gives the fixtures; what a test imports is here, and is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

PLACES: Final = {
    "BrokenPromise": "promises",
    "ClockStuck": "clock",
    "Deadline": "clock",
    "Fault": "faults",
    "FaultMark": "faults",
    "MeshBoard": "boards",
    "MeshClock": "clock",
    "delay": "faults",
    "disconnect": "faults",
    "duplicate": "faults",
    "kill": "faults",
    "lost_reply": "faults",
    "lost_request": "faults",
    "stall": "faults",
}
"""Every public name, and the module that has it."""

__all__ = list(PLACES)


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *PLACES]
