"""The clock cell: the time of a test board, in a small file beside it that every process maps.

A test turns it, and whoever has the board open obeys: threads, servers, worker processes. To read it costs a memory
access; the alternatives do not reach another process (a patched `time`) or cost a query (a row).

Beside the time stand the *places* of those who take part: each call that waits has one while it waits, so whoever
turns the clock can tell when all of them have seen the new time. A place is free; running (its owner is at work);
parked until an instant, by a call or by a timer that nobody waits for; or an agent's, who takes part without a call.
Places of dead processes are taken back.

Each word is 8 bytes and written by one store, so no reader sees half of one. The time is written before the generation
that announces it: who parks with this generation has seen this time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from agentmesh.clock import SystemClock
from agentmesh.errors import InvalidArgument, Overloaded
from agentmesh.model import Micros

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: places are then told apart within a process only
    fcntl = None  # type: ignore[assignment]  # the module is optional on that platform

SUFFIX: Final = ".clock"
START_US: Final = 1_767_225_600_000_000
"""When a new cell begins: the first of January 2026, 00:00 UTC."""
VARIABLE: Final = "AGENTMESH_TEST_CLOCK"
"""With this in the environment a test board is opened on its cell by whoever is not told otherwise."""

MAGIC: Final = 0x31_4C_4C_45_43_4D_41  # "AMCELL1"
WORD: Final = 8
PLACES: Final = 1023
FREE, RUNNING, PARKED, TIMER, AGENT = range(5)
_NOW, _GENERATION, _HOLDS = 1, 2, 3
_FIRST, _WIDTH = 8, 4
_KIND, _PID, _DUE, _SEEN = range(_WIDTH)
SIZE: Final = WORD * (_FIRST + PLACES * _WIDTH)


class Stand(NamedTuple):
    """How a place stands: whose it is, since which generation, until when it is parked."""

    number: int
    kind: int
    pid: int
    due_us: int
    seen: int


class CellClock(SystemClock):
    """Tells the time that stands in a cell. Any thread and process may read it; one test turns it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map the cell at `path`.

        Raises:
            InvalidArgument: there is none.
        """
        self.path = Path(path)
        self._lock = threading.Lock()
        try:
            with self.path.open("r+b") as file:
                self._map = mmap.mmap(file.fileno(), SIZE)
        except (OSError, ValueError) as error:
            raise InvalidArgument("clock", "there is no clock cell beside this board") from error
        self._words = memoryview(self._map).cast("q")
        if self._words[0] != MAGIC:
            self.close()
            raise InvalidArgument("clock", "the file beside this board is no clock cell")

    def __reduce__(self) -> tuple[type[CellClock], tuple[Path]]:
        """In another process it is the same cell."""
        return CellClock, (self.path,)

    @classmethod
    def create(cls, path: str | os.PathLike[str], at_us: int = START_US) -> CellClock:
        """Make a new cell and map it."""
        head = b"".join(word.to_bytes(WORD, "little") for word in (MAGIC, at_us, 1, 0))
        with Path(path).open("xb") as file:
            file.write(head)
            file.truncate(SIZE)
        return cls(path)

    @classmethod
    def beside(cls, board: str | os.PathLike[str]) -> CellClock:
        """The cell of a test board.

        Raises:
            InvalidArgument: there is none.
        """
        return cls(cell_path(board))

    @property
    def generation(self) -> int:
        """How often the clock was turned."""
        return self._words[_GENERATION]

    @property
    def held(self) -> bool:
        """Whether somebody keeps it from moving by itself."""
        return self._words[_HOLDS] > 0

    def now_us(self) -> Micros:
        """Microseconds since the Unix epoch, UTC."""
        return Micros(self._words[_NOW])

    def turn(self, at_us: int) -> None:
        """Set the time, forward or back, and announce it."""
        self._words[_NOW] = at_us
        self._words[_GENERATION] += 1

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the clock from moving by itself for a while."""
        with self._exclusive():
            self._words[_HOLDS] += 1
        try:
            yield
        finally:
            with self._exclusive():
                self._words[_HOLDS] -= 1

    def take_part(self, kind: int = RUNNING) -> Place:
        """A place of this process's own.

        Raises:
            Overloaded: all are taken.
        """
        with self._exclusive():
            for stand in self._stands():
                if stand.kind == FREE or not alive(stand.pid):
                    return Place(self._words, stand.number, kind, self.generation)
        raise Overloaded(PLACES)

    def stands(self) -> list[Stand]:
        """The places in use, without those of dead processes."""
        return [stand for stand in self._stands() if stand.kind != FREE and alive(stand.pid)]

    def close(self) -> None:
        """Let go of the cell; it stays where it is."""
        self._words.release()
        self._map.close()

    def _stands(self) -> Iterator[Stand]:
        words = self._words[_FIRST:].tolist()
        for index in range(PLACES):
            yield Stand(index, *words[index * _WIDTH : (index + 1) * _WIDTH])

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Alone among all threads and processes that have this cell."""
        with self._lock, self.path.open("r+b") as file:
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)  # a lock that ends with its file
            yield


class Place:
    """One place at a cell, its owner's to change."""

    def __init__(self, words: memoryview[int], index: int, kind: int, seen: int) -> None:
        self._words = words
        self._at = _FIRST + index * _WIDTH
        words[self._at + _PID] = os.getpid()
        words[self._at + _SEEN] = seen
        words[self._at + _KIND] = kind

    def park(self, due_us: int, seen: int, kind: int = PARKED) -> None:
        """Wait until `due_us`, having seen the time of generation `seen`."""
        self._words[self._at + _DUE] = due_us
        self._words[self._at + _SEEN] = seen
        self._words[self._at + _KIND] = kind

    def run(self) -> None:
        """Be at work."""
        self._words[self._at + _KIND] = RUNNING

    def leave(self) -> None:
        """Give it back; a cell that is closed already has taken it."""
        with contextlib.suppress(ValueError):
            self._words[self._at + _KIND] = FREE


def cell_path(board: str | os.PathLike[str]) -> Path:
    """Where the cell of a board is, if it is a test board."""
    return Path(os.path.realpath(board) + SUFFIX)


def alive(pid: int) -> bool:
    """Whether a process runs; one that was killed and not yet reaped does not."""
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True  # the system does not tell; who is asked again later will be gone
    return state not in ("Z", "X")
