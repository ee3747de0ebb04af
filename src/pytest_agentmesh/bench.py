"""The bench of one run of pytest: its settings, its boards, and what they have to do with the test that runs now."""

from __future__ import annotations

import contextlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from pytest_agentmesh.settings import Settings, changed, of_test
from pytest_agentmesh.watch import Watch

if TYPE_CHECKING:
    from types import TracebackType

    from pytest_agentmesh.boards import Boards, MeshBoard
    from pytest_agentmesh.faults import FaultMark
    from pytest_agentmesh.promises import BrokenPromise


@dataclass(slots=True)
class Used:
    """What one test has to do with boards: those that are open, how many there were, what became of them.

    `checks` are what else is looked at when its body has run; each raises AssertionError. `marks` are the faults that
    struck.
    """

    test: str
    settings: Settings
    boards: list[MeshBoard] = field(default_factory=list)
    count: int = 0
    checks: list[Callable[[], None]] = field(default_factory=list)
    marks: list[FaultMark] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failed: bool = False
    verdict: BrokenPromise | None = None

    def looked_at(self, board: MeshBoard, unchecked: frozenset[str]) -> str:
        """What a failure says of this board, empty if it keeps its promises; what is broken is written down."""
        from pytest_agentmesh.promises import told

        found = board.broken(unchecked)
        self.broken += [f"{one.promise} in {self.test}" for one in found]
        return told(found, board.path.parent.name) if found else ""

    def end_clocks(self) -> None:
        """Nobody turns the clocks of its boards any more."""
        from agentmesh.errors import BoardClosed

        for board in tuple(self.boards):
            with contextlib.suppress(BoardClosed):  # meanwhile, by the test
                board.clock.end()

    def facts(self) -> dict[str, Any]:
        """What the report of the test carries to the summary; plain data, for it may come from another process."""
        return {"boards": self.count, "broken": self.broken, "kept": self.kept}


BENCH: Final = pytest.StashKey["Bench"]()
USED: Final = pytest.StashKey[Used]()
WIDEST: Final = 100
"""Columns of a picture beside a failure, where the terminal has so many."""
GRACE_SEC: Final = 0.5
"""How long after pytest-timeout we act, so that what it raises is what the test fails with."""
ENDING_SEC: Final = 3.0
"""How long fixtures may take to end, in real time, after a body that failed, before those who wait are sent home."""
CARRIED: Final = "agentmesh"
"""The attribute of a report under which those facts travel."""


class Bench:
    """Gives boards to tests and looks at them when a test ends."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.item: pytest.Item | None = None
        self.real_time = Watch()

    def used(self, item: pytest.Item) -> Used:
        """What this test has to do with boards.

        Raises:
            pytest.UsageError: a marker says what none can say.
        """
        if USED not in item.stash:
            own_seed = self.settings.seed + zlib.crc32(item.nodeid.encode())  # the same, whatever runs beside it
            item.stash[USED] = Used(item.nodeid, of_test(replace(self.settings, seed=own_seed), item))
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
            self.discard(board, used, failed=used.failed)

    def watch(self, item: pytest.Item, sec: float) -> None:
        """End the clocks of a test after so much real time, unless it has ended.

        What is raised in a body cannot leave it while an executor's `with` waits for a call that waits on a clock; nor
        do fixtures end whose loops and executors wait for one.
        """
        self.real_time.set(sec, partial(self._run_out, item))

    def before_teardown(self, item: pytest.Item) -> None:
        """pytest-timeout looks no more at a test that has failed."""
        if (used := item.stash.get(USED, None)) is not None and used.failed:
            self.watch(item, ENDING_SEC)

    def _run_out(self, item: pytest.Item) -> None:
        from pytest_timeout import is_debugging  # type: ignore[import-untyped]  # it has no types

        if (used := item.stash.get(USED, None)) is not None and not is_debugging():
            used.end_clocks()

    def stretch(self, boards: Boards, **said: Any) -> Stretch:
        """A board for a stretch of whichever test runs now."""
        used = Used("", self.settings) if self.item is None else self.used(self.item)
        return Stretch(self, boards, used, changed(used.settings, "mesh_board_factory", said))

    def after_body(self, item: pytest.Item) -> None:
        """Look at the boards of a test whose body has passed.

        Raises:
            BrokenPromise: one of them does not keep its promises.
            AssertionError: what else was looked at is not right.
        """
        __tracebackhide__ = True
        if text := self._broken(item):
            from pytest_agentmesh.promises import BrokenPromise

            self.used(item).verdict = verdict = BrokenPromise(text)
            raise verdict
        for check in item.stash[USED].checks if USED in item.stash else ():
            check()

    def after_failure(self, item: pytest.Item, error: BaseException) -> None:
        """Say beside the failure of a test what its boards have to do with it."""
        used = item.stash.get(USED, None)
        if used is None:
            return
        told: list[tuple[str, Callable[[], str]]] = [("promises", lambda: self._broken(item))]
        told += [("expectations", partial(_failure, check)) for check in used.checks]
        for board in used.boards:
            told += [("history", partial(self._drawn, item, board)), ("clock", partial(_stood_still, board, error))]
            if self.settings.keep:
                told.append(("board", partial("kept: {}".format, board.path)))
        for title, say in told:
            if text := _in_any_case(say):
                item.add_report_section("call", f"agentmesh {title}", text)

    def _drawn(self, item: pytest.Item, board: MeshBoard) -> str:
        """What happened on a board, as a picture; as a page, too, if there is a folder for that."""
        from agentmesh.errors import AgentMeshError
        from pytest_agentmesh.history import History

        history = History(board, self.used(item).marks)
        try:
            if not history.events:
                return ""
        except AgentMeshError:  # the test has closed or damaged it
            return ""
        drawn = history.timeline(min(item.config.get_terminal_writer().fullwidth, WIDEST))
        if self.settings.timeline is None:
            return drawn
        path = Path(self.settings.timeline) / f"{slug(item.name)}-{zlib.crc32(item.nodeid.encode()):08x}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        history.timeline_html(path)
        return f"{drawn}\n\nas a page: {path}"

    def _broken(self, item: pytest.Item) -> str:
        if USED not in item.stash:
            return ""
        used = item.stash[USED]
        texts = [used.looked_at(board, used.settings.unchecked) for board in used.boards]
        return "\n".join(filter(None, texts))

    def discard(self, board: MeshBoard, used: Used, *, failed: bool) -> None:
        """Close a board; its folder stays if its test failed and whoever runs it wants it to."""
        keep = self.settings.keep and failed
        if keep:
            used.kept.append(str(board.path))
        board.discard(keep=keep)


class Stretch:
    """A board in a `with`, looked at when that ends.

    A class and no generator, so that a failure shows the line of the test and not our insides.
    """

    def __init__(self, bench: Bench, boards: Boards, used: Used, settings: Settings) -> None:
        self._bench = bench
        self._boards = boards
        self._used = used
        self._settings = settings
        self._open: list[MeshBoard] = []

    def __enter__(self) -> MeshBoard:
        board = self._boards.make(self._settings)
        self._used.count += 1
        self._open.append(board)
        return board

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ask the board for its promises.

        Raises:
            BrokenPromise: it does not keep them, and nothing else went wrong.
        """
        __tracebackhide__ = True
        board = self._open.pop()
        failed = True
        try:
            if error is not None:
                if text := _in_any_case(lambda: self._used.looked_at(board, self._settings.unchecked)):
                    error.add_note(text)
            elif text := self._used.looked_at(board, self._settings.unchecked):
                from pytest_agentmesh.promises import BrokenPromise

                raise BrokenPromise(text)
            else:
                failed = False
        finally:
            self._bench.discard(board, self._used, failed=failed)


def _failure(check: Callable[[], None]) -> str:
    """What a look says that fails, too."""
    try:
        check()
    except AssertionError as error:
        return str(error)
    return ""


def _stood_still(board: MeshBoard, error: BaseException) -> str:
    """Why a test may have run out of time."""
    if "timeout" not in f"{type(error).__name__} {error}".lower():
        return ""
    return (
        f"The clock of the board stood at {board.clock.now.isoformat()} when this real time was over. A call, or a\n"
        "process, that waits on it ends when the test turns it: mesh_clock.advance(), or\n"
        "`with mesh_clock.autojump():` around what waits for it."
    )


def _in_any_case(look: Callable[[], str]) -> str:
    """What a look at boards finds while a failure is on its way, which must not be lost in another."""
    try:
        return look()
    except Exception as error:  # noqa: BLE001 - it is told, whatever it is
        return f"this could not be found out: {error!r}"


def slug(name: str) -> str:
    """A test's name as part of a folder's."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40]
