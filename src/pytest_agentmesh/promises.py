"""What every test is asked at its end: does each board that it used still keep the promises?"""

from __future__ import annotations

from collections.abc import Iterable

from agentmesh import Board
from agentmesh.errors import AgentMeshError
from agentmesh.model import Finding

ABOUT = {
    "P1": "a task has at most one open attempt; fences only grow",
    "P2": "only the holder of the open attempt may write; final tasks stay as they are",
    "P3": "no task is lost; none is handed out more often than allowed",
    "P4": "no task is handed out before its dependencies allow it; the graph has no cycle",
    "P5": "no acknowledged write is lost",
    "P6": "a call takes effect entirely or not at all",
    "P7": "entries of the ledger never change; totals are their sums",
    "P8": "nothing is handed out that a budget cannot pay",
    "P9": "an expired entry is never seen",
    "P10": "two open attempts never hold overlapping paths",
    "P11": "one clock decides, and times are in order",
    "P12": "what is not understood is refused",
}


class BrokenPromise(AssertionError):
    """A board does not keep what it promises: a fault of AgentMesh, or of what reached behind the board's back."""

    __module__ = "pytest_agentmesh"  # the name that a test imports


def violations(board: Board, unchecked: Iterable[str] = ()) -> tuple[Finding, ...]:
    """What is broken on a board; nothing for one that cannot be read any more, which a test may have wanted."""
    try:
        found = board.check()
    except AgentMeshError:
        return ()
    return tuple(one for one in found if one.verdict == "violated" and one.promise not in unchecked)


def told(findings: Iterable[Finding], name: str) -> str:
    """What a failure says of them."""
    found = tuple(findings)
    names = [finding.promise for finding in found]
    lines = [f"the board {name} breaks {', '.join(names)}:"]
    for finding in found:
        lines += [f"  {finding.promise}: {ABOUT[finding.promise]}", *(f"      {detail}" for detail in finding.details)]
    lines += [
        "",
        "If the test changed rows behind the board's back, close the board, or say what is not to be looked at:",
        f'    @pytest.mark.agentmesh(unchecked="{" ".join(names)}")',
        "If not, this is a fault of AgentMesh.",
    ]
    return "\n".join(lines)
