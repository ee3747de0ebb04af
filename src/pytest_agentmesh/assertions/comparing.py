"""Expected states beside actual ones: only the tasks that differ, and why each stands where it does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agentmesh.errors import AgentMeshError
from agentmesh.model import STATES
from pytest_agentmesh.assertions.causes import Why, why
from pytest_agentmesh.assertions.expecting import no_state
from pytest_agentmesh.assertions.state import State
from pytest_agentmesh.assertions.witness import Witness, titled
from pytest_agentmesh.assertions.wording import MOST, alike, count, cut, folded


class Verbosity(Protocol):
    """What a comparison asks of pytest's configuration."""

    def get_verbosity(self) -> int:
        """How often `-v` was given."""
        ...


def compare(config: Verbosity | None, op: str, left: object, right: object) -> list[str] | None:
    """The lines that explain a failed `==` or `!=` with a `State`; None when it is not about one.

    It is what a plugin's `pytest_assertrepr_compare` returns. With `-v` the events are listed, too.
    """
    found = left if isinstance(left, State) else right
    other = right if isinstance(left, State) else left
    if not isinstance(found, State) or op not in ("==", "!="):
        return None
    if not isinstance(other, Mapping):
        return [f"board.state {op} {type(other).__name__}", "a state is compared with a mapping of id to state word"]
    if op == "!=":
        return [f"board.state != expected: both say the same of {count(len(found), 'task')}"]
    events = config is not None and config.get_verbosity() > 0
    head, *lines = differences(Witness(found.board), other, found, seq=found.seq, events=events)
    return [f"board.state == expected: {head}", *lines]


def differences(
    witness: Witness,
    expected: Mapping[str, object],
    actual: Mapping[str, str],
    *,
    only: bool = True,
    seq: int | None = None,
    events: bool = True,
) -> list[str]:
    """How many tasks differ, then each of them, then the events that tell why.

    Args:
        witness: the board.
        expected: what each task should be.
        actual: what each task is, or was when `seq` was the board's last event.
        only: whether a task that is not expected is a difference.
        seq: that event; None for now.
        events: whether to list the events.
    """
    wrong = [name for name in actual if name in expected and expected[name] != actual[name]]
    absent = [name for name in expected if name not in actual]
    extra = [name for name in actual if only and name not in expected]
    reasons, note = _reasons(witness, [*wrong, *extra][:MOST], actual, seq)
    entries = [(name, f"expected {expected[name]}, is {actual[name]}") for name in wrong]
    entries += [(name, f"not expected, is {actual[name]}") for name in extra]
    entries += [(name, f"expected {expected[name]}, but there is no such task") for name in absent]
    width = max((len(cut(str(name))) for name, _ in entries), default=0)
    told = []
    for name, text in entries[:MOST]:
        tail = f": {reasons[name]}" if name in reasons else ""
        if name in absent:
            tail = f"; {alike(str(name), extra or actual)}"
        elif name in expected and expected[name] not in STATES:
            tail = f"; {no_state(expected[name])}"
        title = titled(witness.tasks.get(name)) if reasons else ""
        told += folded(", ".join(filter(None, (title, text + tail))), f"{cut(str(name)):<{width}}  ")
    if len(entries) > MOST:
        told.append(f"... and {len(entries) - MOST:,} more")
    same = len(actual) - len(wrong) - len(extra) if only else len(expected) - len(wrong) - len(absent)
    head = f"{count(len(entries), 'task')} differ{'s' if len(entries) == 1 else ''}"
    quotes = witness.told(event for reason in reasons.values() for event in reason.events) if events else []
    return [f"{head}, {same:,} {'is' if same == 1 else 'are'} as expected", *told, *note, *quotes]


def _reasons(
    witness: Witness, names: list[str], actual: Mapping[str, str], seq: int | None
) -> tuple[dict[str, Why], list[str]]:
    """Why tasks stand where they do, as long as they still do; and what bars the view, if anything."""
    try:
        if seq is not None and witness.board.status().last_seq != seq:
            return {}, [f"(the board has gone on since it was looked at, at event {seq})"]
        there = [name for name in names if name in witness.tasks and witness.tasks[name].state == actual[name]]
        return {name: why(witness, witness.tasks[name]) for name in there}, []
    except AgentMeshError as error:
        return {}, [f"(the board cannot say why any more: {error})"]
