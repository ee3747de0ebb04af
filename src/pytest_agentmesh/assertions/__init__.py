"""Assertions on boards: functions that take any `Board`, only read it, and say why it is not as expected."""

from __future__ import annotations

from agentmesh import Board
from pytest_agentmesh.assertions import ends, graph, leases, memory, money, order
from pytest_agentmesh.assertions.comparing import compare
from pytest_agentmesh.assertions.ends import assert_failed, assert_result
from pytest_agentmesh.assertions.graph import (
    assert_all_completed,
    assert_all_final,
    assert_blocked,
    assert_completed,
    assert_ready,
    assert_state,
)
from pytest_agentmesh.assertions.leases import (
    assert_attempts,
    assert_claimed,
    assert_handed_over,
    assert_lease,
    assert_unclaimed,
)
from pytest_agentmesh.assertions.memory import assert_entry, assert_no_entry
from pytest_agentmesh.assertions.money import assert_budget_left, assert_spent, assert_wasted, assert_within
from pytest_agentmesh.assertions.order import assert_never_ran, assert_not_together, assert_ran_in_order
from pytest_agentmesh.assertions.state import State, state

__all__ = [
    "Assertions",
    "State",
    "assert_all_completed",
    "assert_all_final",
    "assert_attempts",
    "assert_blocked",
    "assert_budget_left",
    "assert_claimed",
    "assert_completed",
    "assert_entry",
    "assert_failed",
    "assert_handed_over",
    "assert_lease",
    "assert_never_ran",
    "assert_no_entry",
    "assert_not_together",
    "assert_ran_in_order",
    "assert_ready",
    "assert_result",
    "assert_spent",
    "assert_state",
    "assert_unclaimed",
    "assert_wasted",
    "assert_within",
    "compare",
    "state",
]


class Assertions(Board):
    """A board that has the assertions as its methods, and the state of its tasks to compare with."""

    @property
    def state(self) -> State:
        """Task id -> state word, now."""
        return state(self)

    assert_state = graph.assert_state
    assert_completed = graph.assert_completed
    assert_all_completed = graph.assert_all_completed
    assert_all_final = graph.assert_all_final
    assert_ready = graph.assert_ready
    assert_blocked = graph.assert_blocked
    assert_ran_in_order = order.assert_ran_in_order
    assert_not_together = order.assert_not_together
    assert_never_ran = order.assert_never_ran
    assert_claimed = leases.assert_claimed
    assert_unclaimed = leases.assert_unclaimed
    assert_attempts = leases.assert_attempts
    assert_handed_over = leases.assert_handed_over
    assert_lease = leases.assert_lease
    assert_failed = ends.assert_failed
    assert_result = ends.assert_result
    assert_entry = memory.assert_entry
    assert_no_entry = memory.assert_no_entry
    assert_spent = money.assert_spent
    assert_within = money.assert_within
    assert_budget_left = money.assert_budget_left
    assert_wasted = money.assert_wasted
