"""Boards for tests: each a fresh one, cloned from a template, on a clock of its own.

To make a board anew means to write its schema; to clone one means to copy a small file. A test changes nothing that
another one sees: every board has a folder of its own, in the folder that pytest made for this run and this worker.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from agentmesh import Board, Claim, Event, NoClaim
from agentmesh.cell import VARIABLE, CellClock, cell_path
from pytest_agentmesh.assertions import Assertions
from pytest_agentmesh.clock import MeshClock
from pytest_agentmesh.promises import BrokenPromise, told, violations

if TYPE_CHECKING:
    from pytest_agentmesh.settings import Settings

NAME: Final = "board.db"
RAM_DISK: Final = Path("/dev/shm")  # noqa: S108 - a private folder is made in it


class MeshBoard(Assertions):
    """A board on a test's clock. It is a `Board`; what it has more is for looking.

    A call that waits, made in the thread that opened the board, moves the clock itself (`MeshClock.autojump`): while
    this thread waits nobody else turns it.
    """

    clock: MeshClock
    path: Path
    thread: int

    @classmethod
    def on(cls, path: Path, seed: int) -> Self:
        """Open the board at `path` on the cell beside it; ids, secrets and jitter are drawn from `seed`."""
        cell = CellClock.beside(path)
        board = cls.open(path, create=False, durability="normal", clock=cell, chance=random.Random(seed))
        board.path, board.clock = path, MeshClock(cell)
        board.clock.board = board
        board.thread = threading.get_ident()
        return board

    def __repr__(self) -> str:
        return f"<MeshBoard {self.path}>"

    def claim_task(self, agent_id: str, *, wait_sec: float = 0, **wishes: Any) -> Claim | NoClaim:
        """As `Board.claim_task`."""
        with self._moving(wait_sec):
            return super().claim_task(agent_id, wait_sec=wait_sec, **wishes)

    def events(self, after: int = 0, *, wait_sec: float = 0, **wishes: Any) -> list[Event]:
        """As `Board.events`."""
        with self._moving(wait_sec):
            return super().events(after, wait_sec=wait_sec, **wishes)

    def _moving(self, wait_sec: float) -> contextlib.AbstractContextManager[None]:
        waits_here = wait_sec and threading.get_ident() == self.thread
        return self.clock.autojump() if waits_here else contextlib.nullcontext()

    def discard(self, *, keep: bool) -> None:
        """Close it and, unless it is to be kept, take its folder away."""
        self.close()
        self.clock.close()
        if not keep:
            shutil.rmtree(self.path.parent)


class Boards:
    """Makes the boards of one run (of one worker, if there are several), and takes them away."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        """Make boards in a folder that is asked for when the first one is wanted."""
        self._folder = folder
        self._templates: dict[str, Path] = {}
        self._made = 0
        self._before: str | None = None

    def make(self, settings: Settings, name: str = "") -> MeshBoard:
        """A fresh board, open."""
        template = self._template(settings.storage)
        self._made += 1
        folder = template.parent.parent / f"{self._made:05}{name and '-'}{name}"
        folder.mkdir()
        path = folder / NAME
        shutil.copyfile(template, path)
        path.chmod(0o600)
        CellClock.create(cell_path(path)).close()
        return MeshBoard.on(path, settings.seed)

    def close(self) -> None:
        """Take away what the run made and nobody keeps."""
        for kind, template in self._templates.items():
            shutil.rmtree(template.parent)
            if kind == "memory":
                with contextlib.suppress(OSError):  # kept boards stay
                    template.parent.parent.rmdir()
        if self._templates:
            _set_variable(self._before)
        self._templates.clear()

    def _template(self, storage: str) -> Path:
        if storage not in self._templates:
            if not self._templates:
                self._before = os.environ.get(VARIABLE)
                _set_variable("1")  # so that the code under test, and its processes, may open a test board by its path
            folder = (self._folder() if storage == "file" else _ram_folder()) / "template"
            folder.mkdir(mode=0o700)
            path = folder / NAME
            with contextlib.closing(CellClock.create(cell_path(path))) as cell:
                Board.open(path, durability="normal", clock=cell, chance=random.Random(0)).close()
            self._templates[storage] = path
        return self._templates[storage]


@contextlib.contextmanager
def watched(board: MeshBoard, unchecked: frozenset[str]) -> Iterator[MeshBoard]:
    """A board for a stretch of a test, asked for its promises at the end.

    Raises:
        BrokenPromise: it does not keep them, and nothing else went wrong.
    """
    try:
        yield board
    except BaseException as error:
        if broken := violations(board, unchecked):
            error.add_note(told(broken, board.path.parent.name))
        raise
    if broken := violations(board, unchecked):
        raise BrokenPromise(told(broken, board.path.parent.name))


def _ram_folder() -> Path:
    import tempfile

    if not RAM_DISK.is_dir():
        raise RuntimeError("this system has no /dev/shm to hold boards in memory; leave --agentmesh-storage out")
    return Path(tempfile.mkdtemp(prefix="agentmesh-", dir=RAM_DISK))


def _set_variable(value: str | None) -> None:
    if value is None:
        os.environ.pop(VARIABLE, None)
    else:
        os.environ[VARIABLE] = value
