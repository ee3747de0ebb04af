"""The bench of one run of pytest: its settings, its boards, and what they have to do with the test that runs now."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentmesh.settings import Settings, of_test

if TYPE_CHECKING:
    from pytest_agentmesh.boards import Boards, MeshBoard


@dataclass(slots=True)
class Used:
    """What one test has to do with boards: those that are open, how many there were, what became of them.

    `checks` are what else is looked at when its body has run; each raises AssertionError.
    """

    settings: Settings
    boards: list[MeshBoard] = field(default_factory=list)
    count: int = 0
    checks: list[Callable[[], None]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: bool = False

    def facts(self) -> dict[str, Any]:
        """What the report of the test carries to the summary; plain data, for it may come from another process."""
        return {"boards": self.count, "broken": self.broken, "kept": self.kept}


BENCH: Final = pytest.StashKey["Bench"]()
USED: Final = pytest.StashKey[Used]()
CARRIED: Final = "agentmesh"
"""The attribute of a report under which those facts travel."""


class Bench:
    """Gives boards to tests and looks at them when a test ends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.boards: Boards | None = None
        self.item: pytest.Item | None = None

    def used(self, item: pytest.Item) -> Used:
        """What this test has to do with boards.

        Raises:
            pytest.UsageError: a marker says what none can say.
        """
        if USED not in item.stash:
            settings = of_test(self.settings, item)
            if settings.seed == self.settings.seed:  # each test draws from a seed of its own, whatever runs beside it
                settings = replace(settings, seed=settings.seed + zlib.crc32(item.nodeid.encode()))
            item.stash[USED] = Used(settings)
        return item.stash[USED]

    @contextlib.contextmanager
    def board(self, item: pytest.Item, boards: Boards) -> Iterator[MeshBoard]:
        """A board for one test, looked at when its body has run."""
        used = self.used(item)
        board = boards.make(used.settings, slug(item.name))
        used.boards.append(board)
        used.count += 1
        try:
            yield board
        finally:
            used.boards.remove(board)
            self._discard(board, used, failed=used.failed)

    @contextlib.contextmanager
    def short_board(self, boards: Boards, **said: Any) -> Iterator[MeshBoard]:
        """A board for a stretch of whichever test runs now, looked at when the stretch ends."""
        from pytest_agentmesh.boards import watched

        used = Used(self.settings) if self.item is None else self.used(self.item)
        settings = replace(used.settings, **said)
        board = boards.make(settings)
        used.count += 1
        failed = True
        try:
            with watched(board, settings.unchecked):
                yield board
            failed = False
        finally:
            self._discard(board, used, failed=failed)

    def after_body(self, item: pytest.Item) -> None:
        """Look at the boards of a test whose body has passed.

        Raises:
            BrokenPromise: one of them does not keep its promises.
            AssertionError: what else was looked at is not right.
        """
        __tracebackhide__ = True
        if text := self._broken(item):
            from pytest_agentmesh.promises import BrokenPromise

            raise BrokenPromise(text)
        for check in item.stash[USED].checks if USED in item.stash else ():
            check()

    def after_failure(self, item: pytest.Item) -> None:
        """Say beside the failure of a test what is wrong with its boards."""
        if text := self._broken(item):
            item.add_report_section("call", "agentmesh promises", text)
        if USED not in item.stash:
            return
        for check in item.stash[USED].checks:
            try:
                check()
            except AssertionError as error:
                item.add_report_section("call", "agentmesh", str(error))
        for board in item.stash[USED].boards:
            if self.settings.keep:
                item.add_report_section("call", "agentmesh board", f"kept: {board.path}")

    def _broken(self, item: pytest.Item) -> str:
        if USED not in item.stash:
            return ""
        from pytest_agentmesh.promises import told, violations

        used = item.stash[USED]
        texts = []
        for board in used.boards:
            if found := violations(board, used.settings.unchecked):
                used.broken += [f"{one.promise} in {item.nodeid}" for one in found]
                texts.append(told(found, board.path.parent.name))
        return "\n".join(texts)

    def _discard(self, board: MeshBoard, used: Used, *, failed: bool) -> None:
        keep = self.settings.keep and failed
        if keep:
            used.kept.append(str(board.path))
        board.discard(keep=keep)


def slug(name: str) -> str:
    """A test's name as part of a folder's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40]
