"""What stands between a ready task and an agent beside its dependencies: pauses, breakers, caps, held paths."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from agentmesh.model import Event
from pytest_agentmesh.checkers.ground import Ground
from pytest_agentmesh.checkers.tasks import PlainAttempt, PlainTask
from pytest_agentmesh.checkers.verdict import hold


class Gates:
    """Pauses, the breakers of plans, and caps, as the history leaves them."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.pauses: dict[tuple[str, str], int | None] = {}
        self.breakers: dict[str, tuple[int, int]] = {}
        self.caps: dict[str, int] = {}

    def take(self, event: Event) -> None:
        """Follow an event that opens or closes a gate."""
        data = event.data
        if event.kind == "paused":
            self._pause(event)
        elif event.kind == "resumed":
            self.pauses.pop((data["scope"], data["name"]), None)
            if data["scope"] == "plan":
                self.breakers.pop(data["name"], None)
        elif event.kind == "breaker_opened":
            hold(data["until_us"] > event.at_us, "P4", "a breaker that opens for a while", "one that is closed at once")
            self.breakers[event.plan or ""] = data["until_us"], data["until_us"] - event.at_us
        elif event.kind == "claim_cap_set":
            self.caps[data["name"]] = data["most"]
        elif event.kind == "claim_cap_cleared":
            self.caps.pop(data["name"], None)

    def paused(self, scope: str, name: str, now_us: int) -> bool:
        """Whether a pause lasts at an instant."""
        until_us = self.pauses.get((scope, name), now_us)
        return until_us is None or until_us > now_us

    def there(self, now_us: int) -> frozenset[tuple[str, str]]:
        """The pauses that rows show at an instant: those that last, and those of tasks whose end is not told yet."""
        return frozenset(key for key in self.pauses if key[0] == "task" or self.paused(*key, now_us))

    def _pause(self, event: Event) -> None:
        key, until_us = (event.data["scope"], event.data["name"]), event.data.get("until_us")
        ends = until_us is None or until_us > event.at_us
        hold(ends, "P4", "a pause that lasts for a while", "one that is over at once")
        self.pauses[key] = until_us

    def pass_through(self, event: Event, held: Iterable[PlainAttempt]) -> None:
        """Go on if nothing stops the hand-out that an event tells of.

        Raises:
            Violation: P4, hand-outs are paused; P8, the agent holds as many tasks as it may.
        """
        agent, plan = event.agent_id or "", event.plan or ""
        for scope, name, words in (
            ("board", "", "the board"),
            ("plan", plan, f"plan {plan}"),
            ("agent", agent, f"agent {agent}"),
            ("task", event.task_id or "", f"task {event.task_id}"),
        ):
            free = not self.paused(scope, name, event.at_us)
            hold(free, "P4", f"no hand-out while {words} is paused", _handed(event))
        storm = f"no hand-out while the breaker of plan {plan} is open"
        until_us, length_us = self.breakers.get(plan, (0, 0))
        left_us = until_us - event.at_us
        over = left_us <= 0 or left_us > length_us  # more than all of it is left: the clock was set back
        hold(over, "P4", storm, _handed(event))
        most = self.caps.get(agent, self.caps.get(""))
        if most is not None:
            holds = sum(attempt.agent == agent and attempt.expires_us > event.at_us for attempt in held)
            hold(holds < most, "P8", f"{agent} to hold at most {most} tasks at once", f"it holds {holds}, and one more")


def refuse_overlap(
    ground: Ground, event: Event, wanted: Iterable[tuple[str, str]], held: Iterable[tuple[PlainTask, PlainAttempt]]
) -> None:
    """Go on if no other open attempt of the workspace holds what excludes a wanted pattern.

    Raises:
        Violation: P10, one does.
    """
    others = [(task, attempt) for task, attempt in held if task.id != event.task_id and attempt.holds]
    if not others:
        return
    for task, attempt in others:
        if ground.workspace(task.plan) != ground.workspace(event.plan):
            continue
        for pattern, mode in wanted:
            for other, other_mode in attempt.holds:
                free = "write" not in (mode, other_mode) or not overlap(pattern, other)
                found = f"{event.task_id} holds {pattern} to {mode} while {task.id} holds {other} to {other_mode}"
                hold(free, "P10", "no overlapping paths held at once, one of them to write", found)


def _handed(event: Event) -> str:
    return f"{event.task_id} was handed to {event.agent_id}"


@lru_cache(maxsize=65536)
def overlap(one: str, two: str) -> bool:
    """Whether some path matches both patterns: `**` any run of segments, `*` any run of characters in one."""
    return _meet(tuple(one.split("/")), tuple(two.split("/")), "**")


@lru_cache(maxsize=65536)
def _meet(one: tuple[str, ...], two: tuple[str, ...], wild: str) -> bool:
    if not one or not two:
        return all(part == wild for part in one + two)
    if one[0] == wild:  # it stands for nothing, or takes a part of the other side
        return _meet(one[1:], two, wild) or _meet(one, two[1:], wild)
    if two[0] == wild:
        return _meet(two, one, wild)
    same = one[0] == two[0] or (wild == "**" and _meet(tuple(one[0]), tuple(two[0]), "*"))
    return same and _meet(one[1:], two[1:], wild)
