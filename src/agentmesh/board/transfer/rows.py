"""From the rows of an export to those of a new board: keys for names, and the rules that bind rows to each other.

Names of tasks and plans, and what waits for what, are kept at hand; everything else goes to the board in batches.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from agentmesh import limits
from agentmesh.board import paths
from agentmesh.board.specs import names_text
from agentmesh.board.transfer.batch import Batch, Values
from agentmesh.board.transfer.coherence import TOKENS, from_base64, one_attempt, one_sum, one_task
from agentmesh.board.transfer.derive import Graph
from agentmesh.errors import PATH_SHOWN, ImportRefused, InvalidArgument
from agentmesh.model import FINAL
from agentmesh.store.base import Store

NO_NAMES = names_text(())


class Held(NamedTuple):
    """An attempt that was open when its board was exported."""

    task_id: str
    fence: int


class Rows:
    """Takes rows in the order of an export, their values checked one by one, and enters them on a new board.

    `_take_KIND` takes a row of that kind: it looks up what the row names, and sees that its values fit together.
    """

    def __init__(self, store: Store) -> None:
        self.graph = Graph()
        self.open: list[Held] = []
        self.lines: dict[str, int] = {}
        self._batch = Batch(store)
        self._line = 0
        self._taker: Callable[[Values], None] = self._take_plan
        self._last: tuple[Any, ...] = ()
        self._plans: dict[str, int] = {}
        self._tasks: dict[str, int] = {}
        self._plan_of = array("q", [0])
        self._fences = array("q", [0])
        self._requirements = {NO_NAMES: 0}
        self._pools: dict[tuple[int, int, str], int] = {}
        self._keys: set[str] = set()
        self._entries = 0
        self._held: dict[int, int] = {}
        self._roots: list[tuple[int, str, int]] = []
        self._opened: list[tuple[int, int, int, str]] = []
        self._sources: set[str] = set()
        self._sums: Counter[str] = Counter()
        self._put = self._batch.put

    def take(self, kind: str, row: Values, line: int, size: int) -> None:
        """Take a row, which stands in a line of so many bytes.

        Raises:
            InvalidArgument: it contradicts itself or a row before it.
        """
        if kind not in self.lines:
            self.lines[kind] = line
            self._taker, self._last = getattr(self, f"_take_{kind}"), ()
        self._line = line
        self._taker(row)
        self._batch.count(size)

    def finish(self) -> None:
        """Tie up what could only be told at the end, and enter the last rows.

        Raises:
            ImportRefused: a row is contradicted by what came after it.
        """
        for pk, fence, line, field in self._opened:
            if fence > self._fences[pk]:
                raise ImportRefused(line, "is past the last attempt of the task", field=field)
        for line in self._held.values():
            raise ImportRefused(line, "is in_progress, and the task has no open attempt", field="state")
        for pk, root, line in self._roots:
            if root not in self._tasks:
                raise ImportRefused(line, "is no task of this board", field="root")
            self._put("import_root", {"pk": pk, "root_pk": self._tasks[root]})
        cycle = self.graph.cycle()
        if cycle:
            ids = list(self._tasks)
            line = max(self._line_of_edge(child, parent) for child, parent in pairwise(cycle))
            shown = " -> ".join(repr(ids[pk - 1]) for pk in cycle[:PATH_SHOWN])
            raise ImportRefused(line, f"closes a cycle: {shown}", field="depends_on")
        self._batch.flush()

    def line_of(self, task_id: str) -> int | None:
        """The line in which a task stands; None if there is no such task."""
        pk = self._tasks.get(task_id)
        return None if pk is None else self.lines["task"] + pk - 1

    def _take_plan(self, row: Values) -> None:
        if row["name"] in self._plans:
            raise InvalidArgument("name", "is that of a plan before")
        pk = self._plans[row["name"]] = len(self._plans) + 1
        self._put("import_plan", row | {"pk": pk})

    def _take_task(self, row: Values) -> None:
        if row["id"] in self._tasks:
            raise InvalidArgument("id", "is that of a task before")
        one_task(row)
        if row["key"] is not None and row["state"] not in FINAL:
            if row["key"] in self._keys:
                raise InvalidArgument("key", "is that of an open task before")
            self._keys.add(row["key"])
        state, tags, plan_pk = row["state"], row["tags"], self._plan("plan", row["plan"])
        pk = self._tasks[row["id"]] = self.graph.add_task(row["priority"], is_open=state not in FINAL)
        self._fences.append(0)
        self._plan_of.append(plan_pk)
        if state == "in_progress":
            self._held[pk] = self._line
        for field in ("opened_fence", "excused_fence"):
            if row[field]:
                self._opened.append((pk, row[field], self._line, field))
        if row["root"] is not None:
            self._roots.append((pk, row["root"], self._line))
        row["pk"], row["plan_pk"], row["has_body"] = pk, plan_pk, self._texts(pk, row)
        row["requires_pk"] = requires_pk = self._requirement(row["requires"])
        row["pool_pk"] = self._pool(plan_pk, requires_pk, row["writes"], row["reads"])
        row["tags"] = names_text(tags) if tags else None
        self._put("import_task", row)
        for tag in tags:
            self._put("add_tag", {"tag": tag, "task_pk": pk})

    def _take_edge(self, row: Values) -> None:
        child, parent = self._task("task", row["task"]), self._task("depends_on", row["depends_on"])
        self._follows(child, parent)
        self.graph.add_edge(child, parent)
        self._put("add_edge", {"child_pk": child, "parent_pk": parent, "condition": row["condition"]})

    def _take_attempt(self, row: Values) -> None:
        task_id, fence = row["task"], row["fence"]
        pk = self._task("task", task_id)
        self._follows(pk, fence)
        if fence != self._fences[pk] + 1:
            raise InvalidArgument("fence", f"must be {self._fences[pk] + 1}: attempts are numbered without a gap")
        self._fences[pk] = fence
        one_attempt(row)
        if self.open and self.open[-1].task_id == task_id:
            raise InvalidArgument("fence", "comes after an open attempt")
        if row["outcome"] is None:
            if self._held.pop(pk, None) is None:
                raise InvalidArgument("outcome", "is null, and the task is not in_progress")
            self.open.append(Held(task_id, fence))
        self._put("import_attempt", row | {"task_pk": pk})

    def _take_note(self, row: Values) -> None:
        pk = self._task("task", row["task"])
        self._attempt(pk, row["fence"])
        self._put("import_note", row | {"task_pk": pk})

    def _take_pause(self, row: Values) -> None:
        self._scope(row)
        self._follows(row["scope"], row["name"])
        self._put("add_pause", row | {"now_us": row["since_us"]})

    def _take_task_pause(self, row: Values) -> None:
        pk = self._task("task", row["task"])
        self._follows(pk)
        if not self.graph.is_open[pk]:
            raise InvalidArgument("task", "is final, and only open tasks are paused")
        if (row["agent_id"] is None) != (row["ceiling"] is not None):
            raise InvalidArgument("agent_id", "is null if, and only if, a ceiling was reached")
        self._put("add_task_pause", row | {"task_pk": pk, "now_us": row["since_us"]})
        self._put("mark_paused", {"pk": pk, "paused": 1})

    def _take_cap(self, row: Values) -> None:
        self._follows(row["agent_id"])
        self._put("put_cap", row)

    def _take_budget(self, row: Values) -> None:
        self._follows(row["scope"], row["name"], row["period"])
        self._put("put_budget", row | {"task_pk": self._scope(row)})

    def _take_entry(self, row: Values) -> None:
        self._follows(row["namespace"], row["key"])
        value, artifact = row["value"], row["content_type"] is not None
        body = None if artifact else limits.json_text("value", value, limits.ENTRY_BYTES)
        data = from_base64(value) if artifact else None
        self._entries += 1
        size = len(data) if data is not None else len((body or "").encode())
        self._put("import_entry", row | {"pk": self._entries, "size": size})
        self._put("add_entry_value", {"pk": self._entries, "body": body, "bytes": data})

    def _take_entry_tombstone(self, row: Values) -> None:
        self._follows(row["namespace"], row["key"])
        self._put("import_entry_tombstone", row)

    def _take_task_tombstone(self, row: Values) -> None:
        self._follows(row["id"])
        if row["id"] in self._tasks:
            raise InvalidArgument("id", "is that of a task, which is there")
        self._put("import_task_tombstone", row | {"plan_pk": self._plan("plan", row["plan"])})

    def _take_usage_source(self, row: Values) -> None:
        self._follows(row["source"])
        plan_pk = 0 if row["plan"] is None else self._plan("plan", row["plan"])
        if row["unpriced"] > row["entries"]:
            raise InvalidArgument("unpriced", "is more than the whole")
        self._sources.add(row["source"])
        self._put("add_source", row | {"plan_pk": plan_pk, "entry_pk": None})

    def _take_usage(self, row: Values) -> None:
        plan_pk = 0 if row["plan"] is None else self._plan("plan", row["plan"])
        task_pk = None if row["task"] is None else self._task("task", row["task"])
        if task_pk is not None and self._plan_of[task_pk] != plan_pk:
            raise InvalidArgument("plan", "is not that of the task")
        if row["fence"] is not None:
            self._attempt(task_pk or 0, row["fence"])
        if row["price"] is not None and row["cost_pusd"] is None:
            raise InvalidArgument("price", "is there without a cost")
        if row["source"] is not None and row["source"] not in self._sources:
            raise InvalidArgument("source", "is no source key of this board")
        self._add_up(row)
        self._put("import_usage", row | {"plan_pk": plan_pk, "task_pk": task_pk})

    def _take_usage_pruned(self, row: Values) -> None:
        plan_pk = 0 if row["plan"] is None else self._plan("plan", row["plan"])
        self._follows(plan_pk, row["agent_id"], row["model"], row["day"])
        one_sum(row)
        self._add_up(row)
        self._put("import_usage_pruned", row | {"plan_pk": plan_pk})

    def _take_event(self, _row: Values) -> None:
        """The history of the board that was exported is not that of the new one."""

    def _follows(self, *key: Any) -> None:
        """Rows of a kind that have a key stand in its order, each once."""
        if key <= self._last:
            raise InvalidArgument("type", "stands there twice, or not in its order")
        self._last = key

    def _plan(self, field: str, name: str) -> int:
        if name not in self._plans:
            raise InvalidArgument(field, "is no plan of this board")
        return self._plans[name]

    def _task(self, field: str, name: str) -> int:
        if name not in self._tasks:
            raise InvalidArgument(field, "is no task of this board")
        return self._tasks[name]

    def _attempt(self, task_pk: int, fence: int) -> None:
        if fence > self._fences[task_pk]:
            raise InvalidArgument("fence", "is that of no attempt of the task")

    def _texts(self, pk: int, row: Values) -> int:
        """Enter the long texts of a task; 1 if it has a body of them, else 0."""
        if row["result"] is not None:
            self._put("put_result", {"task_pk": pk, "body": row["result"]})
        if row["description"] is None and row["payload"] is None:
            return 0
        self._put("put_body", {"task_pk": pk, "description": row["description"], "payload": row["payload"]})
        return 1

    def _scope(self, row: Values) -> int | None:
        """The key of the task that a pause or a budget is for, if it is for one."""
        scope, name = row["scope"], row["name"]
        if scope == "plan":
            self._plan("name", name)
        elif scope == "agent":
            limits.name("name", name)
        elif scope == "board" and name:
            raise InvalidArgument("name", "must be empty: there is one board")
        return self._task("name", name) if scope == "task" else None

    def _requirement(self, names: tuple[str, ...]) -> int:
        text = names_text(names) if names else NO_NAMES
        if text not in self._requirements:
            pk = self._requirements[text] = len(self._requirements)
            self._put("import_requirement", {"pk": pk, "names": text})
        return self._requirements[text]

    def _pool(self, plan_pk: int, requires_pk: int, writes: tuple[str, ...], reads: tuple[str, ...]) -> int | None:
        if not writes and not reads:
            return None
        key = (plan_pk, requires_pk, paths.encoded(writes, reads))
        if key not in self._pools:
            pk = self._pools[key] = len(self._pools) + 1
            self._put("import_pool", {"pk": pk, "plan_pk": plan_pk, "requires_pk": requires_pk, "paths": key[2]})
        return self._pools[key]

    def _add_up(self, row: Values) -> None:
        """Sums have 64 bits, like everything on a board."""
        amounts = {"input_tokens": sum(row[field] for field in TOKENS), "duration_us": row["duration_us"]}
        amounts |= {"cost_pusd": row["cost_pusd"] or 0, "entries": row.get("entries", 1)}
        amounts |= {"attempts": row.get("attempts", 0), "held_us": abs(row.get("held_us", 0))}
        for field, amount in amounts.items():
            self._sums[field] += amount
            if self._sums[field] > limits.INTEGER:
                raise InvalidArgument(field, "makes a sum of more than 64 bits")

    def _line_of_edge(self, child: int, parent: int) -> int:
        before = sum(len(parents) for other, parents in self.graph.parents.items() if other < child)
        return self.lines["edge"] + before + self.graph.parents[child].index(parent)
