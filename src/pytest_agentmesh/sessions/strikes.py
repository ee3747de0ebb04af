"""Which calls of a session meet a fault: the faults it was given, what it has called so far, what struck."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final, get_args

from agentmesh.clock import Clock
from agentmesh.errors import InvalidArgument
from pytest_agentmesh.durations import micros
from pytest_agentmesh.faults import Fault, FaultMark, Kind

KINDS: Final[tuple[Kind, ...]] = ("lost_reply", "lost_request", "duplicate", "delay", "disconnect")
"""What can happen between an agent and its server."""

WRITTEN: Final = re.compile(r"(?P<at>\w+|\*):(?P<kind>\w+)(?:=(?P<late>[\w. ]+))?(?:@(?P<nth>[1-9]\d*))?")
"""A fault as text: `complete_task:lost_reply@2`, `claim_task:delay=90s`."""


class FaultNeverStruck(AssertionError):
    """A test asked for a fault that never happened, so it did not test what it says."""

    def __init__(self, faults: Iterable[Fault], agent: str, called: Counter[str]) -> None:
        calls = ", ".join(f"{tool} {times}x" for tool, times in sorted(called.items())) or "no tool"
        super().__init__(
            f"This never struck: {'; '.join(map(str, faults))}.\n"
            f"The session of {agent} called: {calls}.\n"
            "Let the agent get there, correct the fault, or open the session with strict=False."
        )


class Strikes:
    """The faults of one session. Each strikes once."""

    def __init__(
        self,
        faults: Iterable[Fault | str],
        agent: str | None,
        clock: Clock,
        tools: Collection[str],
        marks: list[FaultMark],
        *,
        strict: bool,
    ) -> None:
        """Know them.

        Args:
            faults: What goes wrong.
            agent: Whom the session speaks for, if it was said.
            clock: The board's.
            tools: What the session can call.
            marks: Where those that struck are written down.
            strict: Whether each has to strike.

        Raises:
            InvalidArgument: one is no fault of a session, or stands at a tool that this session does not have.
        """
        given = [checked(read(fault), tools) for fault in faults]
        self.unused = [fault for fault in given if agent is None or fault.agent in (None, agent)]
        self.called: Counter[str] = Counter()
        self._ahead = list(self.unused)
        self._agent = agent
        self.clock = clock
        self._marks = marks
        self._strict = strict

    @property
    def agent(self) -> str:
        """Whom the session speaks for; if it was not said, who first called by a name."""
        return self._agent or "an agent without a name"

    def reached(self, tool: str, speaker: object) -> Fault | None:
        """A tool is called, by one who calls itself so: the fault that strikes now, if any."""
        self.called[tool] += 1
        if self._agent is None and isinstance(speaker, str):
            self._agent = speaker
        times = {"*": self.called.total(), tool: self.called[tool]}
        for fault in self._ahead:
            if times.get(fault.at) == fault.nth and fault.agent in (None, self._agent):
                self._ahead.remove(fault)
                return fault
        return None

    def mark(self, fault: Fault, tool: str, what: str) -> None:
        """Write down that it struck."""
        self.unused = [other for other in self.unused if other is not fault]
        self._marks.append(FaultMark(self.clock.now_us(), fault, self.agent, tool, what))

    def check(self) -> None:
        """See that all of them struck. Who did not hear of it by then hears it once.

        Raises:
            FaultNeverStruck: not all.
        """
        if self._strict and self.unused:
            self._strict = False
            raise FaultNeverStruck(self.unused, self.agent, self.called)


def read(fault: Fault | str) -> Fault:
    """A fault that may be written as text.

    Raises:
        InvalidArgument: it is not written so.
    """
    if isinstance(fault, Fault):
        return Fault(fault.kind, fault.at, fault.nth, fault.agent, fault.sec)  # one of its own, to tell it by
    hint = "Write it as 'complete_task:lost_reply@1' or 'claim_task:delay=90s'."
    if (found := WRITTEN.fullmatch(fault)) is None or found["kind"] not in get_args(Kind):
        raise InvalidArgument("faults", f"{fault!r} is no fault", hint=hint)
    try:
        sec = None if found["late"] is None else micros(found["late"]) / 1_000_000
    except ValueError as error:
        raise InvalidArgument("faults", f"{fault!r} is no fault: {error}", hint=hint) from None
    kind: Kind = found["kind"]  # type: ignore[assignment]  # it is one of them, as was just seen
    return Fault(kind, found["at"], int(found["nth"] or 1), None, sec)


def checked(fault: Fault, tools: Collection[str]) -> Fault:
    """The fault, if it can strike a session with these tools.

    Raises:
        InvalidArgument: it cannot.
    """
    if fault.kind not in KINDS:
        problem = f"{fault.kind} strikes an agent of a scripted swarm, not a session"
        raise InvalidArgument("faults", problem, hint=f"A session knows {', '.join(KINDS)}.")
    if fault.kind == "delay" and not fault.sec:
        raise InvalidArgument("faults", "a delay takes seconds", hint="Write delay('claim_task', sec=90).")
    if fault.at != "*" and fault.at not in tools:
        near = get_close_matches(fault.at, tools, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(tools))}."
        raise InvalidArgument("faults", f"this session has no tool {fault.at!r}", hint=hint)
    return fault
