"""The clock cell: the time of a test board, in a small file beside it that every process maps.

A test turns it, and whoever has the board open obeys: threads, servers, worker processes. To read it costs a memory
access; the alternatives do not reach another process (a patched `time`) or cost a query (a row).

Beside the time stand the *places* of those who take part: each call that waits has one while it waits, so whoever
turns the clock can tell when all of them have seen the new time. A place is free; running (its owner is at work);
parked until an instant, by a call or by a timer that nobody waits for; an agent's, who takes part without a call; or
that of somebody who keeps the clock from moving by itself. Places of dead processes are taken back; a process is known
by its id and its start, for ids are used again.

Each word is 8 bytes and written by one store, so no reader sees half of one. The time is written before the generation
that announces it: who parks with this generation has seen this time.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from agentmesh.clock import SystemClock
from agentmesh.errors import BoardClosed, BoardReplaced, InvalidArgument, Overloaded
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
FREE, RUNNING, PARKED, TIMER, AGENT, HOLD = range(6)
_NOW, _GENERATION, _USED, _OVER = 1, 2, 3, 4
_FIRST, _WIDTH = 8, 4
_KIND, _OWNER, _DUE, _SEEN = range(_WIDTH)
_PID_BITS: Final = 23
_PID: Final = (1 << _PID_BITS) - 1
"""Linux counts process ids up to 2^22; above them stands the start of the process, in ticks."""
_STARTED: Final = 19
"""Where `/proc/PID/stat` says when a process began, counted from its state."""
SIZE: Final = WORD * (_FIRST + PLACES * _WIDTH)


class Stand(NamedTuple):
    """How a place stands: whose it is, since which generation, until when it is parked."""

    number: int
    kind: int
    owner: int
    due_us: int
    seen: int

    @property
    def pid(self) -> int:
        """The process whose place it is."""
        return self.owner & _PID


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
                self.inode = os.fstat(file.fileno()).st_ino
                self._words: memoryview[int] | _Closed = memoryview(mmap.mmap(file.fileno(), SIZE)).cast("q")
        except (OSError, ValueError) as error:
            raise InvalidArgument("clock", "there is no clock cell beside this board") from error
        if self._words[0] != MAGIC:
            raise InvalidArgument("clock", "the file beside this board is no clock cell")

    def __reduce__(self) -> tuple[type[CellClock], tuple[Path]]:
        """In another process it is the same cell."""
        return CellClock, (self.path,)

    @classmethod
    def create(cls, path: str | os.PathLike[str], at_us: int = START_US) -> CellClock:
        """Make a new cell and map it."""
        head = b"".join(word.to_bytes(WORD, sys.byteorder) for word in (MAGIC, at_us, 1, 0))
        file = Path(path).open("xb")  # noqa: SIM115 - closed below, where a failure to write the rest shows
        try:
            with file:
                file.write(head.ljust(SIZE, b"\0"))  # no hole: to touch one on a full disk would end the process
        except BaseException:
            Path(path).unlink()
            raise
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
        return any(stand.kind == HOLD for stand in self.stands())

    @property
    def over(self) -> bool:
        """Whether nobody will turn it any more."""
        return self._words[_OVER] > 0

    def now_us(self) -> Micros:
        """Microseconds since the Unix epoch, UTC."""
        return Micros(self._words[_NOW])

    def turn(self, at_us: int, *, if_so: Callable[[], bool] = lambda: True) -> bool:
        """Set the time, forward or back, and announce it; whether that was done.

        `if_so` is asked when nobody can take part any more before the time is set. It must not take part itself.
        """
        with self._exclusive():
            if not if_so():
                return False
            self._words[_NOW] = at_us
            self._words[_GENERATION] += 1
        return True

    def end(self) -> None:
        """Announce that nobody will turn it any more: calls that wait on it fail."""
        with self._exclusive():
            self._words[_OVER] = 1
            self._words[_GENERATION] += 1

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the clock from moving by itself for a while."""
        place = self.take_part(HOLD)
        try:
            yield
        finally:
            place.leave()

    def take_part(self, kind: int = RUNNING) -> Place:
        """A place of this process's own.

        Raises:
            Overloaded: all are taken.
        """
        with self._exclusive():
            used, living = self._words[_USED], _Living()
            free = (stand.number for stand in self._stands() if stand.kind == FREE or stand.owner not in living)
            number = next(free, used)
            if number >= PLACES:
                raise Overloaded(PLACES)
            place = Place(self._mapped(), number, kind, self.generation)
            self._words[_USED] = max(used, number + 1)
        return place

    def stands(self) -> list[Stand]:
        """The places in use, without those of dead processes."""
        living = _Living()
        return [stand for stand in self._stands() if stand.kind != FREE and stand.owner in living]

    def close(self) -> None:
        """Let go of the cell; it stays where it is, and mapped until the last of its places here is left."""
        self._words = _Closed()

    def _mapped(self) -> memoryview[int]:
        if isinstance(self._words, _Closed):
            self._words.refuse()
        return self._words

    def _stands(self) -> Iterator[Stand]:
        words = self._words[_FIRST : _FIRST + self._words[_USED] * _WIDTH].tolist()
        for index in range(len(words) // _WIDTH):
            yield Stand(index, *words[index * _WIDTH : (index + 1) * _WIDTH])

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Alone among all threads and processes that have this cell."""
        self._mapped()
        with self._lock, contextlib.ExitStack() as stack:
            try:
                file = stack.enter_context(self.path.open("r+b"))
            except OSError as error:
                raise BoardReplaced(f"The clock cell {self.path} was deleted while it was in use.") from error
            if os.fstat(file.fileno()).st_ino != self.inode:
                raise BoardReplaced(f"The clock cell {self.path} was replaced while it was in use.")
            if fcntl:
                fcntl.flock(file, fcntl.LOCK_EX)  # a lock that ends with its file
            yield


class Place:
    """One place at a cell, its owner's to change."""

    def __init__(self, words: memoryview[int], index: int, kind: int, seen: int) -> None:
        self._words: memoryview[int] | _Closed = words
        self._at = _FIRST + index * _WIDTH
        self._pid = os.getpid()
        words[self._at + _KIND] = FREE  # a dead owner's until now: it must not seem alive with what it waited for
        words[self._at + _OWNER] = _owner(self._pid)
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
        """Give it back, and let go of the cell, which stays mapped as long as something refers to its words.

        A forked child, in which its parent's calls unwind, has no place to give. Leaving twice is allowed.
        """
        words, self._words = self._words, _Closed()
        if os.getpid() == self._pid and not isinstance(words, _Closed):
            words[self._at + _KIND] = FREE


class _Closed:
    """What stands in for the words of a cell that was let go."""

    def refuse(self) -> NoReturn:
        """There is nothing here any more.

        Raises:
            BoardClosed: always.
        """
        raise BoardClosed("The clock of the board is closed.")

    def __getitem__(self, at: object) -> NoReturn:
        self.refuse()

    def __setitem__(self, at: object, value: int) -> NoReturn:
        self.refuse()


class _Living:
    """Tells the owners that live from those that do not; asks the system once for each."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}

    def __contains__(self, owner: int) -> bool:
        if owner not in self._known:
            pid = owner & _PID
            self._known[owner] = owner == _owner(os.getpid()) or (
                alive(pid) and _started(pid) in (owner >> _PID_BITS, 0)
            )
        return self._known[owner]


def cell_path(board: str | os.PathLike[str]) -> Path:
    """Where the cell of a board is, if it is a test board."""
    return Path(os.path.realpath(board) + SUFFIX)


def alive(pid: int) -> bool:
    """Whether a process runs; one that was killed and not yet reaped does not."""
    if pid == os.getpid() or sys.platform == "win32":  # there a signal 0 is Ctrl+C
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return state(pid) not in ("Z", "X")


def state(pid: int) -> str:
    """How a process is, in the letter of `ps`: `T` was stopped; empty where the system does not tell."""
    return next(iter(_facts(pid)), "")


@functools.lru_cache(1)
def _owner(pid: int) -> int:
    return _started(pid) << _PID_BITS | pid


def _started(pid: int) -> int:
    """When a process began, in ticks since the system did; 0 where the system does not tell."""
    facts = _facts(pid)
    return int(facts[_STARTED]) if len(facts) > _STARTED else 0


def _facts(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
