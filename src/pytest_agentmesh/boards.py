"""Boards for tests: each a fresh one, cloned from a template, on a clock of its own.

To make a board anew means to write its schema; to clone one means to copy a small file. A test changes nothing that
another one sees: every board has a folder of its own, in the folder that pytest made for this run and this worker.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from agentmesh import Board
from agentmesh.cell import START_US, VARIABLE, CellClock, cell_path
from agentmesh.model import Finding
from pytest_agentmesh.assertions import Assertions
from pytest_agentmesh.clock import MeshClock
from pytest_agentmesh.promises import violations

if TYPE_CHECKING:
    from pytest_agentmesh.settings import Settings

P = ParamSpec("P")
T = TypeVar("T")
NAME: Final = "board.db"
MADE_SEC: Final = START_US // 1_000_000
"""When a board's file says that it was last written, until it is."""
TEMPLATE: Final = "template"
RAM_PREFIX: Final = "agentmesh-"
RAM_DISK: Final = Path("/dev/shm")  # noqa: S108 - a private folder is made in it


def _moving(verb: Callable[P, T]) -> Callable[P, T]:
    """A verb that may wait, as it is; waiting in the board's own thread, it moves the clock.

    A wait on a clock that nobody moves any more fails; otherwise it is for the caller's own `cancel` to say.
    """

    @functools.wraps(verb)
    def moving(*given: P.args, **wishes: P.kwargs) -> T:
        board: Any = given[0]
        cancel: Any = wishes.get("cancel")

        def ends() -> bool:
            board.clock.refuse_stopped()
            return cancel is not None and cancel()

        waits_here = wishes.get("wait_sec") and threading.get_ident() == board.thread
        with board.clock.autojump() if waits_here else contextlib.nullcontext():
            return verb(*given, **{**wishes, "cancel": ends})  # type: ignore[arg-type]  # `cancel` is one of P

    return moving


class MeshBoard(Assertions):
    """A board on a test's clock. It is a `Board`; what it has more is for looking.

    A call that waits, made in the thread that opened the board, moves the clock itself (`MeshClock.autojump`): while
    this thread waits nobody else turns it.
    """

    clock: MeshClock
    path: Path
    thread: int

    @classmethod
    def on(cls, path: Path, seed: int, cell: CellClock | None = None) -> Self:
        """Open the board at `path` on the cell beside it; ids, secrets and jitter are drawn from `seed`."""
        cell = cell or CellClock.beside(path)
        board = cls.open(path, create=False, durability="normal", clock=cell, chance=random.Random(seed))
        board.path, board.clock = path, MeshClock(cell)
        board.clock.board = board
        board.thread = threading.get_ident()
        return board

    def __repr__(self) -> str:
        return f"<MeshBoard {self.path}>"

    claim_task = _moving(Board.claim_task)
    events = _moving(Board.events)

    def broken(self, unchecked: frozenset[str] = frozenset()) -> tuple[Finding, ...]:
        """What it does not keep of its promises. Of a board that is as it was made there is nothing to ask."""
        return () if self._is_as_made() else violations(self, unchecked)

    def _is_as_made(self) -> bool:
        """Every commit is in the log, or has gone from there into the file and so has changed when that was written."""
        try:
            written_sec, log = self.path.stat().st_mtime, Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return False
        return written_sec == MADE_SEC and not log

    def discard(self, *, keep: bool) -> None:
        """Close it and, unless it is to be kept, take its folder away."""
        with contextlib.ExitStack() as stack:
            if not keep:
                stack.enter_context(contextlib.suppress(FileNotFoundError))  # the test has taken it away itself
                stack.callback(shutil.rmtree, self.path.parent)
            stack.callback(self.clock.close)
            self.close()


class Boards:
    """Makes the boards of one run (of one worker, if there are several), and takes them away."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        """Make boards in a folder that is asked for when the first one is wanted."""
        self._folder = folder
        self._templates: dict[str, Path] = {}
        self._ram: _RamFolder | None = None
        self._numbers = itertools.count(1)
        self._making = threading.Lock()
        self._before: str | None = None

    def make(self, settings: Settings, name: str = "") -> MeshBoard:
        """A fresh board, open."""
        with self._making:
            template = self._template(settings.storage)
        folder = template.parent.parent / f"{next(self._numbers):05}{name and '-'}{name}"
        with _new(folder):
            path = folder / NAME
            shutil.copyfile(template, path)
            path.chmod(0o600)
            os.utime(path, (MADE_SEC, MADE_SEC))
            return MeshBoard.on(path, settings.seed, CellClock.create(cell_path(path)))

    def close(self) -> None:
        """Take away what the run made and nobody keeps."""
        for template in self._templates.values():
            shutil.rmtree(template.parent)
        if self._ram is not None:
            self._ram.close()
        if self._templates:
            _set_variable(self._before)
        self._templates.clear()

    def _ram_folder(self) -> Path:
        self._ram = _RamFolder()
        return self._ram.path

    def _template(self, storage: str) -> Path:
        if storage not in self._templates:
            if not self._templates:
                self._before = os.environ.get(VARIABLE)
                _set_variable("1")  # so that the code under test, and its processes, may open a test board by its path
            folder = (self._folder() if storage == "file" else self._ram_folder()) / TEMPLATE
            path = folder / NAME
            with _new(folder), contextlib.closing(CellClock.create(cell_path(path))) as cell:
                Board.open(path, durability="normal", clock=cell, chance=random.Random(0)).close()
            self._templates[storage] = path
        return self._templates[storage]


@contextlib.contextmanager
def _new(folder: Path) -> Iterator[None]:
    """A folder that goes again, with all that is in it, if the board for which it is made cannot be made."""
    folder.mkdir(mode=0o700)
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _RamFolder:
    """A folder on the RAM disk, locked for as long as its run lives.

    Nobody else clears that disk: what killed runs left there is known by its lock, which they cannot hold any more, and
    by its template, which goes when a run ends as it should and leaves what is kept.
    """

    def __init__(self) -> None:
        import tempfile

        if not RAM_DISK.is_dir():
            raise RuntimeError("this system has no /dev/shm to hold boards in memory; leave --agentmesh-storage out")
        for left in RAM_DISK.glob(f"{RAM_PREFIX}*/{TEMPLATE}"):
            if (lock := _locked(left.parent)) is not None:
                shutil.rmtree(left.parent)
                os.close(lock)
        self.path = Path(tempfile.mkdtemp(prefix=RAM_PREFIX, dir=RAM_DISK))
        self._lock = _locked(self.path)

    def close(self) -> None:
        """Take it away, unless kept boards are in it."""
        with contextlib.suppress(OSError):
            self.path.rmdir()
        if self._lock is not None:
            os.close(self._lock)


def _locked(folder: Path) -> int | None:
    """A lock on a folder of our own; None if it is another's, or its run lives."""
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _set_variable(value: str | None) -> None:
    if value is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = value
