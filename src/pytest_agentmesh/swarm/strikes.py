"""Which fault strikes whom: the faults of a run, counted down as agents reach the verbs of the board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from pytest_agentmesh.faults import Fault, Kind, Some

KINDS: Final[tuple[Kind, ...]] = ("kill", "stall", "lost_reply", "lost_request", "delay")
"""What can happen to an agent of a swarm; the other kinds are for sessions."""
GAP: Final = 12
"""A fault that is drawn strikes after 0 to 11 further calls."""
DELAY_SEC: Final = 5.0
"""What a delay takes that is drawn: less than a lease."""
Choose = Callable[[str, int], int]


@dataclass(slots=True)
class _Written:
    """A fault that a test wrote down, and how often its place was reached."""

    fault: Fault
    reached: int = 0

    def strikes(self, agent: str, verb: str) -> bool:
        """Count a call; whether this is the one."""
        at = self.fault.at in ("*", verb) and self.fault.agent in (None, agent)
        self.reached += at
        return at and self.reached == self.fault.nth


class _Drawn:
    """Faults that are drawn, one after the other."""

    def __init__(self, some: Some, choose: Choose) -> None:
        self._left = choose("faults", some.most + 1) if some.kinds else 0
        self._kinds = some.kinds
        self._choose = choose
        self._next()

    def _next(self) -> None:
        if self._left:
            self._gap = self._choose("gap", GAP)
            self._kind = self._kinds[self._choose("kind", len(self._kinds))]

    def struck(self, agent: str, verb: str, nth: int, *, holds: bool) -> Fault | None:
        """Count a call; the fault that strikes it. A stall waits for somebody with a lease to lose."""
        if not self._left:
            return None
        self._gap -= 1
        if self._gap >= 0 or (self._kind == "stall" and not holds):
            return None
        found = Fault(self._kind, verb, nth, agent, DELAY_SEC if self._kind == "delay" else None)
        self._left -= 1
        self._next()
        return found


class Strikes:
    """The faults that are still to come."""

    def __init__(self) -> None:
        self._written: list[_Written] = []
        self._drawn: list[_Drawn] = []
        self._calls: Counter[tuple[str, str]] = Counter()

    def arm(self, faults: Iterable[Fault | Some], choose: Choose) -> None:
        """Add faults, those of `some` drawn by `choose`."""
        for fault in faults:
            if isinstance(fault, Some):
                self._drawn.append(_Drawn(fault, choose))
            else:
                self._written.append(_Written(fault))

    def disarm(self) -> None:
        """Let nothing more go wrong."""
        self._written.clear()
        self._drawn.clear()

    def at(self, agent: str, verb: str, *, holds: bool) -> tuple[Fault, ...]:
        """What strikes this call of an agent; `holds` says whether it has a lease."""
        self._calls[agent, verb] += 1
        found = [one.fault for one in self._written if one.strikes(agent, verb)]
        self._written = [one for one in self._written if one.fault not in found]
        nth = self._calls[agent, verb]
        found += [fault for one in self._drawn if (fault := one.struck(agent, verb, nth, holds=holds))]
        return tuple(found)

    @property
    def unused(self) -> tuple[Fault, ...]:
        """Those that a test wrote down and that have not struck."""
        return tuple(one.fault for one in self._written)
