"""What every test is asked at its end: does each board that it used still keep the promises?"""

from __future__ import annotations

from collections.abc import Iterable

from agentmesh import Board
from agentmesh.errors import Busy, StoreError
from agentmesh.model import Finding
from pytest_agentmesh.promised import PROMISES


class BrokenPromise(AssertionError):
    """A board does not keep what it promises: a fault of AgentMesh, or of what reached behind the board's back."""

    __module__ = "pytest_agentmesh"  # the name that a test imports


def violations(board: Board, unchecked: Iterable[str] = ()) -> tuple[Finding, ...]:
    """What is broken on a board; nothing for one that cannot be read any more, which a test may have wanted."""
    try:
        found = board.check()
    except Busy:  # it could be read a moment later
        raise
    except StoreError:
        return ()
    return tuple(one for one in found if one.verdict == "violated" and one.promise not in unchecked)


def listed(findings: Iterable[Finding]) -> list[str]:
    """What each promise says, and below it what breaks it."""
    return [
        line
        for finding in findings
        for line in (
            f"{finding.promise}: {PROMISES[finding.promise]}",
            *(f"    {detail}" for detail in finding.details),
        )
    ]


def told(findings: Iterable[Finding], name: str) -> str:
    """What a failure says of them."""
    found = tuple(findings)
    names = [finding.promise for finding in found]
    lines = [
        f"the board {name} breaks {', '.join(names)}:",
        *(f"  {line}" for line in listed(found)),
        "",
        "If the test changed rows behind the board's back, close the board, or say what is not to be looked at:",
        f'    @pytest.mark.agentmesh(unchecked="{" ".join(names)}")',
        "If not, this is a fault of AgentMesh.",
    ]
    return "\n".join(lines)
