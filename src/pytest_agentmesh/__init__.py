"""The test bench of AgentMesh: it proves that a swarm of agents behaves.

The plugin gives the fixtures; what a test imports is here, and is loaded when it is asked for. There is no assertion
here, so a script may import it before pytest does: PYTEST_DONT_REWRITE.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # what `PLACES` says, for editors and type checkers, which run nothing
    from pytest_agentmesh.assertions import (
        State as State,
        assert_all_completed as assert_all_completed,
        assert_all_final as assert_all_final,
        assert_attempts as assert_attempts,
        assert_blocked as assert_blocked,
        assert_budget_left as assert_budget_left,
        assert_claimed as assert_claimed,
        assert_completed as assert_completed,
        assert_entry as assert_entry,
        assert_failed as assert_failed,
        assert_handed_over as assert_handed_over,
        assert_lease as assert_lease,
        assert_never_ran as assert_never_ran,
        assert_no_entry as assert_no_entry,
        assert_not_together as assert_not_together,
        assert_ran_in_order as assert_ran_in_order,
        assert_ready as assert_ready,
        assert_result as assert_result,
        assert_spent as assert_spent,
        assert_state as assert_state,
        assert_unclaimed as assert_unclaimed,
        assert_wasted as assert_wasted,
        assert_within as assert_within,
    )
    from pytest_agentmesh.boards import MeshBoard as MeshBoard
    from pytest_agentmesh.clock import ClockStuck as ClockStuck, Deadline as Deadline, MeshClock as MeshClock
    from pytest_agentmesh.endpoint import AgentModel as AgentModel, Endpoint as Endpoint
    from pytest_agentmesh.fake import MeshFake as MeshFake
    from pytest_agentmesh.faults import (
        Fault as Fault,
        FaultMark as FaultMark,
        delay as delay,
        disconnect as disconnect,
        duplicate as duplicate,
        kill as kill,
        lost_reply as lost_reply,
        lost_request as lost_request,
        some as some,
        stall as stall,
    )
    from pytest_agentmesh.history import History as History
    from pytest_agentmesh.promises import BrokenPromise as BrokenPromise
    from pytest_agentmesh.replies import (
        Turn as Turn,
        broken as broken,
        call as call,
        calls as calls,
        cut as cut,
        error as error,
        garbled as garbled,
        hang as hang,
        overloaded as overloaded,
        rate_limit as rate_limit,
        text as text,
    )
    from pytest_agentmesh.sessions import (
        FaultNeverStruck as FaultNeverStruck,
        MissingSdk as MissingSdk,
        Server as Server,
        Sessions as Sessions,
        WrongTask as WrongTask,
    )
    from pytest_agentmesh.swarm import (
        Agent as Agent,
        AgentOutcome as AgentOutcome,
        Lost as Lost,
        Me as Me,
        NotQuiet as NotQuiet,
        Run as Run,
        World as World,
        agent as agent,
        claim as claim,
        complete as complete,
        do as do,
        fail as fail,
        get as get,
        heartbeat as heartbeat,
        note as note,
        put as put,
        release as release,
        spend as spend,
        split as split,
        work as work,
    )

PLACES: Final = {
    "Agent": "swarm",
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
    "Lost": "swarm",
    "Me": "swarm",
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
    "agent": "swarm",
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
    "claim": "swarm",
    "complete": "swarm",
    "cut": "replies",
    "delay": "faults",
    "disconnect": "faults",
    "do": "swarm",
    "duplicate": "faults",
    "error": "replies",
    "fail": "swarm",
    "garbled": "replies",
    "get": "swarm",
    "hang": "replies",
    "heartbeat": "swarm",
    "kill": "faults",
    "lost_reply": "faults",
    "lost_request": "faults",
    "note": "swarm",
    "overloaded": "replies",
    "put": "swarm",
    "rate_limit": "replies",
    "release": "swarm",
    "some": "faults",
    "spend": "swarm",
    "split": "swarm",
    "stall": "faults",
    "text": "replies",
    "work": "swarm",
}
"""Every public name, and the module that has it."""

__all__ = list(PLACES)


if not TYPE_CHECKING:  # to a type checker it would have any name at all

    def __getattr__(name: str) -> Any:
        if name not in PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *PLACES]
