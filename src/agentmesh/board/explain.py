"""Why is nobody working? The root causes over edges, paths, capabilities, times and pauses, gravest first.

A blocked task is never a root cause: what it waits for, over any number of edges, ends in tasks that are worked on,
ready, or scheduled. Those are the causes; each says why it does not move and how many tasks wait behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentmesh.board import bounds, paths
from agentmesh.board.capabilities import known_abilities, missing
from agentmesh.board.lookup import task_row
from agentmesh.errors import shown
from agentmesh.jsontext import decode
from agentmesh.model import FINAL, Cause, Explanation
from agentmesh.rules import RETRY_LIMIT_US, STEP_US
from agentmesh.store.base import Row, Transaction

SHOWN = 20
LOOKED_AT = 200
RECENT_US = 3_600_000_000
GRAVITY = (
    "clock",
    "paused",
    "budget",
    "claim_cap",
    "capability",
    "lease_due",
    "paths_held",
    "storm",
    "ready",
    "scheduled",
    "in_progress",
)
"""From what will never move by itself to what is moving."""


def board(tx: Transaction, agent_id: str | None, able: frozenset[str] | None) -> Explanation:
    """Why nobody works on the board, as seen by all agents or by one."""
    view = _View(tx, agent_id, able)
    totals = tx.fetch_one("tally_totals") or {}
    counts = {state: n or 0 for state, n in totals.items()}
    open_ = sum(n for state, n in counts.items() if state not in FINAL)
    if not open_:
        return Explanation("Every task is final." if sum(counts.values()) else "The board has no tasks.", ())
    rows = tx.fetch_all("frontier", most=LOOKED_AT)
    causes = [*view.pauses(), *(view.cause(row) for row in rows)]
    more = counts["pending"] + counts["scheduled"] + counts["in_progress"] - len(rows)
    parts = [
        f"{counts[state]} {state}" for state in ("in_progress", "pending", "scheduled", "blocked") if counts[state]
    ]
    return _explanation(f"{open_} tasks are open: {', '.join(parts)}.", causes, max(more, 0))


def task(tx: Transaction, task_id: str, agent_id: str | None, able: frozenset[str] | None) -> Explanation:
    """Why nobody works on one task.

    Raises:
        NotFound: it is not on the board.
    """
    row = task_row(tx, task_id)
    view = _View(tx, agent_id, able)
    if row["state"] in FINAL:
        foreign = row["state"] == "cancelled" and row["root_pk"] is None  # whoever cancelled it gave the reason
        why = f": {row['reason']}" if row["reason"] and not foreign else ""
        return Explanation(f"Task {task_id} is {row['state']}{why}.", ())
    pauses = view.pauses(row["plan"])
    if row["state"] == "in_progress":
        pauses += view.own_pause(row)
    if row["state"] != "blocked":
        return _explanation(f"Task {task_id} is {row['state']}.", [*pauses, view.cause(row)], 0)
    pauses += view.own_pause(row)
    roots = tx.fetch_all("roots_of", pk=row["pk"], most=LOOKED_AT + 1)
    causes = [*pauses, *(view.cause(root) for root in roots[:LOOKED_AT])]
    summary = f"Task {task_id} is blocked: {row['unmet']} of its {row['parents']} dependencies are not met."
    return _explanation(summary, causes, max(len(roots) - LOOKED_AT, 0))


class _View:
    """What is known while one explanation is put together."""

    def __init__(self, tx: Transaction, agent_id: str | None, able: frozenset[str] | None) -> None:
        self._tx = tx
        self._agent = agent_id
        self._abilities = [able] if able is not None else known_abilities(tx, tx.now - RECENT_US)
        self._paused = {(row["scope"], row["name"]): row for row in tx.fetch_all("pauses", now_us=tx.now)}
        self._bounds = bounds.bounds(tx, agent_id or "")

    def pauses(self, plan: str | None = None) -> list[Cause]:
        """The pauses that bear on a plan, or on the board, each as a cause of its own."""
        found = []
        for (scope, name), row in self._paused.items():
            if (
                scope == "board"
                or (scope == "plan" and plan in (None, name))
                or (scope, name) == ("agent", self._agent)
            ):
                what = "The board" if scope == "board" else f"{scope.capitalize()} {name}"
                by = row["agent_id"]
                found.append(Cause("paused", f"{what} was paused by {by}.", holder=by, until_us=row["until_us"]))
        return found

    def own_pause(self, row: Row, waiting: int = 0) -> list[Cause]:
        """The pause of a task itself, if it is paused."""
        pause = bounds.task_pause(self._tx, row)
        return (
            [Cause("paused", pause.message, row["id"], waiting, until_us=pause.retry_at_us)]
            if pause is not None
            else []
        )

    def cause(self, row: Row) -> Cause:
        """Why one task that waits for no other does not move."""
        behind = self._tx.fetch_one("count_behind", pk=row["pk"])
        waiting = behind["behind"] if behind else 0
        if row["state"] in ("pending", "scheduled") and (paused := self.own_pause(row, waiting)):
            return paused[0]
        by_state: dict[str, Callable[[Row, int], Cause]] = {
            "in_progress": self._worked_on,
            "scheduled": self._scheduled,
            "pending": self._ready,
        }
        return by_state[row["state"]](row, waiting)

    def _worked_on(self, row: Row, waiting: int) -> Cause:
        due = row["lease_expires_us"]
        if due is not None and due <= self._tx.now:
            message = f"{row['holder']} holds {row['id']}, but its lease is due: the next claim takes it back."
            return Cause("lease_due", message, row["id"], waiting, row["holder"], due)
        behind_us = self._behind_us(row, "heartbeat_us")
        if due is not None and behind_us:
            message = (
                f"The clock was set back: the lease of {row['holder']} on {row['id']} was renewed {_sec(behind_us)} "
                "ahead of now, so it lasts so much longer. If the agent is dead, claim the task in its name (resume, "
                "take_over) and release it."
            )
            return Cause("clock", message, row["id"], waiting, row["holder"], due)
        return Cause("in_progress", f"{row['holder']} works on {row['id']}.", row["id"], waiting, row["holder"], due)

    def _scheduled(self, row: Row, waiting: int) -> Cause:
        until = row["not_before_us"]
        if until <= self._tx.now:
            return self._ready(row, waiting)
        behind_us = self._behind_us(row, "ended_us")
        if behind_us and until - self._tx.now - behind_us <= RETRY_LIMIT_US:
            message = (
                f"The clock was set back: the last attempt at {row['id']} ended {_sec(behind_us)} ahead of now, so its "
                "delay ends so much later than it should. An update of its not_before ends it."
            )
            return Cause("clock", message, row["id"], waiting, until_us=until)
        return Cause("scheduled", f"{row['id']} waits for its time.", row["id"], waiting, until_us=until)

    def _behind_us(self, row: Row, instant: str) -> int:
        """How far an instant of a task's last attempt lies ahead of now; 0 if the clock was not set back since."""
        last = self._tx.fetch_one("attempt_of", id=row["id"], fence=row["fence"])
        ahead_us = (last[instant] or 0) - self._tx.now if last else 0
        return ahead_us if ahead_us >= STEP_US else 0

    def _ready(self, row: Row, waiting: int) -> Cause:
        over = [pause for key, pause in self._paused.items() if key in (("board", ""), ("plan", row["plan"]))]
        if over:
            ends = [pause["until_us"] for pause in over]
            until_us = None if None in ends else max(ends)
            message = f"{row['id']} is ready, but hand-outs are paused."
            return Cause("paused", message, row["id"], waiting, until_us=until_us)
        bounded = bounds.refusal(self._tx, self._bounds, row, self._agent or "")
        if bounded is not None:
            message = f"{row['id']} is ready, but not handed out: {bounded.message}"
            return Cause(bounded.reason, message, row["id"], waiting, until_us=bounded.retry_at_us)
        requires = decode(row["requires"])
        if requires and missing(requires, self._abilities):
            who = "this agent" if self._agent else "no agent seen in the last hour"
            has = "lacks some of" if self._agent else "has all of"
            return Cause(
                "capability", f"{row['id']} requires {', '.join(requires)}; {who} {has} them.", row["id"], waiting
            )
        if row["paths"]:
            found = paths.blocker(self._tx, row["workspace"], paths.wants(row["paths"]), row["pk"])
            if found is not None:
                held = self._tx.fetch_one("holder_of", pk=found[1]["task_pk"]) or {}
                overlaps = f"{row['id']} needs {shown(found[0][0])}, which overlaps {shown(found[1]['pattern'])}"
                message = f"{overlaps}, held by {held.get('holder')} for {held.get('id')}."
                return Cause(
                    "paths_held", message, row["id"], waiting, held.get("holder"), held.get("lease_expires_us")
                )
        said = "is ready: nobody has claimed it yet" if row["state"] == "pending" else "has reached its time"
        return Cause("ready", f"{row['id']} {said}.", row["id"], waiting)


def _sec(us: int) -> str:
    return f"{us / 1_000_000:,.0f} s"


def _explanation(summary: str, causes: Iterable[Cause], more: int) -> Explanation:
    ordered = sorted(causes, key=lambda cause: (GRAVITY.index(cause.kind), -cause.waiting))
    return Explanation(summary, tuple(ordered[:SHOWN]), more + max(len(ordered) - SHOWN, 0))
