"""How waiters sleep and are woken: a unix datagram socket each, in a folder that belongs to the board.

Whoever makes tasks ready sends one datagram to a few waiters chosen at random. A waiter that cannot use what it was
woken for hands the datagram on; the names of all who had it travel inside, so a poke visits each waiter at most once.
Nothing here decides anything: a waiter that is never poked looks again by itself.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from agentmesh.clock import system_chance, word

BOARD_ID = re.compile(r"[0-9a-z]{1,32}")
LONGEST = 100
"""A unix socket's whole path must fit in 107 bytes on Linux, 103 on macOS."""
DATAGRAM = 8192
TICK_US = 2_000_000
"""How long a waiter sleeps that nobody pokes: only a lost poke depends on it, and each tick costs 0.2 ms of a core."""
POLL_US = 50_000
BINDINGS = 3
Watch: type[selectors.BaseSelector] = getattr(selectors, "PollSelector", selectors.SelectSelector)
"""`select()` cannot see descriptors above 1023, and epoll takes a descriptor of its own."""


class Berth:
    """The folder in which the waiters of one board have their sockets.

    Its chance is the system's, not the board's: who is woken is no part of what happens on a board, and a board whose
    chance repeats itself has the same ids however many wait.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._chance = system_chance()
        self._sender: socket.socket | None = None
        self._closed = False

    def usable(self) -> bool:
        """Whether sockets can be had there: a place of our own, closed to others, its name short enough.

        The folder itself is made for the first waiter: most boards of a test never have one.
        """
        if not hasattr(socket, "AF_UNIX") or len(os.fsencode(self._folder)) + 24 > LONGEST:
            return False
        try:
            self._folder.parent.mkdir(mode=0o700, exist_ok=True)
            return _ours(self._folder.parent) and (not os.path.lexists(self._folder) or _ours(self._folder))
        except OSError:
            return False

    def bind(self) -> tuple[socket.socket, str] | None:
        """A new socket that others can poke, and its name; None where there is none to be had."""
        try:
            listener = _datagrams()
        except OSError:
            return None  # the process has no descriptor left
        for _ in range(BINDINGS):
            name = f"{os.getpid():x}-{word(self._chance, 8)}"
            try:
                listener.bind(str(self._folder / name))
            except OSError as error:
                if error.errno != errno.EADDRINUSE and not self._made():
                    break
            else:
                return listener, name
        listener.close()
        return None

    def leave(self, listener: socket.socket, name: str) -> list[frozenset[str]]:
        """Take a socket's name away and close it; who had the pokes that were still in it, one set for each."""
        with contextlib.suppress(OSError):
            (self._folder / name).unlink()
        unread = []
        with contextlib.suppress(OSError):  # nothing left to read is one
            while True:
                unread.append(_had(listener.recv(DATAGRAM)))
        listener.close()
        self._tidy_up()
        return unread

    def waiting(self) -> int:
        """How many have a place here; one that was killed counts until somebody pokes it."""
        try:
            return len(os.listdir(self._folder))  # noqa: PTH208 - as in poke
        except OSError:
            return 0  # nobody ever waited here

    def poke(self, count: int, had: frozenset[str] = frozenset()) -> None:
        """Wake up to `count` waiters that have not had this poke."""
        try:
            names = [name for name in os.listdir(self._folder) if name not in had]  # noqa: PTH208 - a hot path; Path objects cost 5x
        except OSError:
            return  # nobody ever waited here
        while names and count:
            name = names.pop(self._chance.getrandbits(32) % len(names))
            if self._send(name, had | {name}):
                count -= 1
        self._tidy_up()

    def close(self) -> None:
        """Close the sender; the last to leave takes the folder away, also one that leaves after this."""
        self._closed = True
        self._tidy_up()

    def _tidy_up(self) -> None:
        if not self._closed:
            return
        sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def _made(self) -> bool:
        """Make the folder, also one that was swept away; whether it is fit for sockets."""
        with contextlib.suppress(OSError):
            if self.usable():
                self._folder.mkdir(mode=0o700, exist_ok=True)
                return _ours(self._folder)
        return False

    def _send(self, name: str, had: frozenset[str]) -> bool:
        path = self._folder / name
        try:
            sender = self._sender = self._sender or _datagrams()  # its own name: who closes the board takes ours away
            sender.sendto(os.fsencode("\n".join(sorted(had)))[-DATAGRAM:], str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                if stat.S_ISSOCK(path.lstat().st_mode):
                    path.unlink()  # its owner was killed
            return False
        except OSError:
            return False  # its queue is full: it has enough to wake up for; or we have no descriptor left
        return True


class SleepingWaiter:
    """A waiter that sleeps on its socket; with no berth (it is not poked, or there are no sockets) it polls instead."""

    def __init__(self, berth: Berth | None, version: Callable[[], int], left: Callable[[SleepingWaiter], None]) -> None:
        self._berth = berth
        self._version = version
        self._seen = version()
        self._left = left
        self._own, self._bell = socket.socketpair()
        self._bell.setblocking(False)  # noqa: FBT003 - by place, as above; who has not heard the last rings needs no other
        self._bound = berth.bind() if berth else None
        self._had: frozenset[str] = frozenset()

    def wait(self, timeout_us: int) -> bool:
        """Sleep until poked or until the time is over; whether it was a poke."""
        return self._sleep(min(max(timeout_us, 0), TICK_US if self._bound else POLL_US))

    def _sleep(self, real_us: int, *more: socket.socket) -> bool:
        """Sleep until poked, rung, or something arrives at one of `more`; whether it was a poke."""
        listener, name = self._bound or (self._own, "")
        with Watch() as watch:
            for source in {listener, self._own, *more}:
                watch.register(source, selectors.EVENT_READ)
            ready = {key.fileobj for key, _ in watch.select(real_us / 1_000_000)}
        self._had = frozenset()
        for bell in (self._own, *more):
            if bell in ready:
                bell.recv(DATAGRAM)
        if not self._bound or listener not in ready:
            return False
        self._had = _had(listener.recv(DATAGRAM)) | {name}
        return True

    def changed(self) -> bool:
        """Whether anything was committed on the board since the last call."""
        before, self._seen = self._seen, self._version()
        return before != self._seen

    def pass_on(self) -> None:
        """Hand the last poke to a waiter that has not had it yet."""
        if self._berth and self._had:
            self._berth.poke(1, self._had)
            self._had = frozenset()

    def ring(self) -> None:
        """Wake this waiter from another thread."""
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    def close(self) -> None:
        """Leave the queue; pokes that came too late for this waiter go to others."""
        self._left(self)
        if self._berth and self._bound:
            unread = self._berth.leave(*self._bound)
            self._bound = None
            for had in unread:
                self._berth.poke(1, had)
        self._own.close()
        self._bell.close()


class Alarm:
    """A timer's sleep, in real time."""

    def __init__(self) -> None:
        self._rung = threading.Event()

    def wait(self, timeout_us: int | None) -> None:
        """Sleep until the time is over or the alarm was rung; without a time, until it is rung."""
        self._rung.wait(None if timeout_us is None else timeout_us / 1_000_000)
        self._rung.clear()

    def ring(self) -> None:
        """End the sleep, from another thread; one that begins later ends at once."""
        self._rung.set()

    def close(self) -> None:
        """There is nothing to give back."""


def berth_folder(board_id: str, inode: int) -> Path | None:
    """Where the waiters of a board meet: short, private to the user, gone after a restart without harm.

    The inode tells a board from its copies, which have its id too. Names are listed, written to and removed there, and
    a board file may come from anywhere: an id that is no plain word names no folder.
    """
    if not BOARD_ID.fullmatch(board_id):
        return None
    owner = os.getuid() if hasattr(os, "getuid") else 0
    return Path("/tmp") / f"agentmesh-{owner}" / f"{board_id}-{inode:x}"  # noqa: S108 - owner and mode are checked before use


def _had(datagram: bytes) -> frozenset[str]:
    """Who had a poke, as it says itself; any bytes will do, for any process of this user may send some."""
    return frozenset(os.fsdecode(datagram).split("\n"))


def _datagrams() -> socket.socket:
    new = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    new.setblocking(False)  # noqa: FBT003 - the standard library takes it by place
    return new


def _ours(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
