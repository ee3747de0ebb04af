"""Making a new board from an export: every line is checked, every promise is, and only then is the board there.

A file is never believed. Whatever can be worked out from rows is; attempts that were open are taken back, for nobody
has their secrets; names of agents are labels and give no right to anything. The history begins anew.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from agentmesh.board import budgets, check, heal
from agentmesh.board.change import Change
from agentmesh.board.transfer.derive import derive
from agentmesh.board.transfer.form import COUNT, EVENT, HEADER, KINDS, TRAILER, VERSION, Field, kinds_of
from agentmesh.board.transfer.lines import Lines, checked
from agentmesh.board.transfer.rows import Held, Rows
from agentmesh.errors import ImportRefused, InvalidArgument
from agentmesh.store.base import Store, StoreOptions, Transaction
from agentmesh.store.connect import build
from agentmesh.upkeep import Import, StageProgress

PLACES = {kind.name: place for place, kind in enumerate(KINDS)}
NEWER = "Upgrade AgentMesh on this machine; no board was made."
CUT_SHORT = "The file was cut short: copy it anew, or export the board anew; no board was made."
RECLAIMED_AT_ONCE = 100
TOLD_EVERY = 1_000


def import_board(
    source: str | os.PathLike[str] | BinaryIO,
    target: str | os.PathLike[str],
    options: StoreOptions,
    *,
    agent_id: str,
    progress: StageProgress,
) -> Import:
    """Make a new board from an export; see `Board.import_board`."""
    with _stream(source) as stream:
        return build(target, options, lambda store: _Importing(store, Lines(stream), agent_id, progress).run(target))


def _stream(source: str | os.PathLike[str] | BinaryIO) -> contextlib.AbstractContextManager[BinaryIO]:
    """The bytes of a file, which is closed in the end, or of a stream, which is not."""
    if not isinstance(source, (str, os.PathLike)):
        return contextlib.nullcontext(source)
    try:
        return Path(source).open("rb")
    except OSError as error:
        raise InvalidArgument("source", f"cannot be read: {error.strerror}") from error


class _Importing:
    """One import in the making."""

    def __init__(self, store: Store, lines: Lines, agent_id: str, progress: StageProgress) -> None:
        self._store = store
        self._lines = lines
        self._agent_id = agent_id
        self._progress = progress
        self._rows = Rows(store)
        self._kinds = kinds_of(VERSION)
        self._counts = dict.fromkeys(self._kinds, 0)

    def run(self, target: str | os.PathLike[str]) -> Import:
        lines = iter(self._lines)
        header = self._header(next(lines, None))
        self._read(lines, header["counts"])
        self._rows.finish()
        total = sum(self._counts.values())
        self._progress("derive", total, total)
        self._store.write(lambda tx: derive(tx, self._rows.graph))
        reclaimed = self._begin(header)
        self._progress("check", total, total)
        self._check()
        fact = self._store.read(lambda tx: tx.fetch_one("fact", key="board_id")) or {}
        ignored = self._counts.pop(EVENT.name)
        return Import(
            board=os.fspath(target),
            board_id=fact["value"],
            source_id=header["board_id"],
            at_us=header["exported_us"],
            rows=self._counts,
            reclaimed=tuple(reclaimed),
            events_ignored=ignored,
        )

    def _header(self, row: Mapping[str, Any] | None) -> dict[str, Any]:
        if row is None:
            raise ImportRefused(1, "is not there: the file is empty")
        if row["type"] != "header":
            self._lines.refuse("must be header in the first line", field="type")
        version = row.get("version")
        if isinstance(version, int) and version > VERSION:
            self._lines.refuse(f"is newer than {VERSION}, which this AgentMesh reads", field="version", hint=NEWER)
        header = self._checked(HEADER, row)
        self._lines.begin()
        self._kinds = kinds_of(header["version"])
        self._counts = dict.fromkeys(self._kinds, 0)
        counts = dict.fromkeys(self._kinds, COUNT)
        return header | {"counts": self._checked(counts, {"type": "", **_object(header["counts"])})}

    def _read(self, lines: Iterator[dict[str, Any]], expected: Mapping[str, int]) -> None:
        total, place = sum(expected.values()), 0
        self._progress("rows", 0, total)
        for row in lines:
            kind = row["type"]
            if kind == "trailer":
                self._trailer(row, expected)
                break
            if kind not in self._kinds:
                self._lines.refuse(f"is not known; known are {', '.join(self._kinds)}", field="type")
            if PLACES[kind] < place:
                self._lines.refuse("comes too late: kinds of rows stand in one order", field="type")
            place = PLACES[kind]
            self._take(kind, row)
            if self._lines.number % TOLD_EVERY == 0:
                self._progress("rows", self._lines.number - 1, total)
        else:
            raise ImportRefused(self._lines.number + 1, "is not there: the trailer is missing", hint=CUT_SHORT)
        if next(lines, None) is not None:
            self._lines.refuse("comes after the trailer, with which an export ends")

    def _take(self, kind: str, row: Mapping[str, Any]) -> None:
        self._counts[kind] += 1
        try:
            fields, missing = self._kinds[kind]
            values = {**checked(fields, row), **missing}
            self._rows.take(kind, values, self._lines.number, self._lines.length)
        except InvalidArgument as error:
            self._lines.refuse(error.problem, field=error.field)

    def _trailer(self, row: Mapping[str, Any], expected: Mapping[str, int]) -> None:
        trailer = self._checked(TRAILER, row)
        if self._counts != expected or trailer["counts"] != expected:
            self._lines.refuse("differ from the rows before: lines are missing or doubled", field="counts")
        if trailer["sha256"] != self._lines.digest:
            self._lines.refuse("does not fit: lines are missing, doubled or not in their order", field="sha256")

    def _checked(self, fields: Mapping[str, Field], row: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return checked(fields, row)
        except InvalidArgument as error:
            self._lines.refuse(error.problem, field=error.field)

    def _begin(self, header: Mapping[str, Any]) -> list[str]:
        """Begin the history, do the books of budgets, and take back what was held; the tasks that were."""
        told = {"source": header["board_id"], "exported_us": header["exported_us"], "tasks": self._counts["task"]}

        def begin(change: Change) -> None:
            change.event("board_imported", agent_id=self._agent_id, **told)
            for row in change.tx.fetch_all("all_budgets"):
                task = change.tx.fetch_one("task_by_pk", pk=row["task_pk"]) if row["scope"] == "task" else None
                budgets.reckon(change, row, task or budgets.NO_TASK)

        self._write(begin)
        held = self._rows.open
        for start in range(0, len(held), RECLAIMED_AT_ONCE):
            self._take_back(held[start : start + RECLAIMED_AT_ONCE])
        return [attempt.task_id for attempt in held]

    def _take_back(self, held: list[Held]) -> None:
        def take_back(change: Change) -> None:
            for attempt in held:
                row = change.tx.fetch_one("held_attempt", id=attempt.task_id, fence=attempt.fence)
                if row is not None and row["outcome"] is None:  # it may have been cancelled with one before it
                    heal.take_back(change, row, "board imported")

        self._write(take_back)

    def _write(self, work: Callable[[Change], None]) -> None:
        def run(tx: Transaction) -> None:
            change = Change(tx, self._store.chance)
            work(change)
            change.settle()

        self._store.write(run)

    def _check(self) -> None:
        for finding in self._store.read(check.check):
            if finding.verdict == "violated":
                self._refuse(finding.promise, finding.details[0])

    def _refuse(self, promise: str, detail: str) -> NoReturn:
        """Refuse a board that breaks a promise, at the line of the task that shows it, if it is one."""
        line = self._rows.line_of(detail.partition(" ")[0])
        raise ImportRefused(line or self._lines.number, f"the board would break promise {promise}: {detail}")


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
