"""The two pipes to the client, taken away from everybody else in the process.

The wire is a private duplicate of the descriptors 0 and 1; these then point at the null device and
at stderr. So whatever a library, a child process or a warning prints, it is never on the wire, and
nobody else reads from it.
"""

from __future__ import annotations

import fcntl
import os
import select
import threading
from collections.abc import Iterator
from typing import Final

from agentmesh.mcp_server.log import STDERR
from agentmesh.mcp_server.reply import compact
from agentmesh.model import Json

LONGEST_LINE: Final = 10 * 1024 * 1024
CHUNK: Final = 65_536
FIRST_PRIVATE: Final = 3


class Wire:
    """Lines in, messages out."""

    def __init__(self, source: int, sink: int) -> None:
        self._source = source
        self._sink = sink
        self._lock = threading.Lock()
        self._incoming = select.poll()
        self._incoming.register(source, select.POLLIN)
        self._untaken = 0
        self.broken = False

    @classmethod
    def take(cls) -> Wire:
        """Take over stdin and stdout."""
        _ensure_stderr()
        source, sink = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_PRIVATE) for fd in (0, 1))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(STDERR, 1)
        return cls(source, sink)

    def lines(self) -> Iterator[bytes | None]:
        """The lines that come in, until the client closes its end; None for one that is too long."""
        held: list[bytes] = []
        length = 0
        while chunk := self._read():
            *ends, rest = chunk.split(b"\n")
            self._untaken = len(ends) + bool(rest)
            for end in ends:
                self._untaken -= 1
                length += len(end)
                yield b"".join([*held, end]) if length <= LONGEST_LINE else None
                held, length = [], 0
            length += len(rest)
            if length <= LONGEST_LINE:
                held.append(rest)
            else:
                held = []
        if length:
            yield b"".join(held) if length <= LONGEST_LINE else None

    @property
    def quiet(self) -> bool:
        """Whether nothing has come in, not even the end, after the line that was taken last."""
        return not (self._untaken or self._incoming.poll(0))

    def send(self, message: Json) -> bool:
        """Write a message; whether the client can still have it."""
        line = memoryview(_encoded(message))
        with self._lock:
            while line and not self.broken:
                try:
                    line = line[os.write(self._sink, line) :]
                except BlockingIOError:
                    self._wait_for_sink()
                except OSError:
                    self.broken = True
        return not self.broken

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._source, CHUNK)
            except BlockingIOError:
                self._incoming.poll()  # the client made its pipe non-blocking
            except OSError:
                return b""

    def _wait_for_sink(self) -> None:
        """The client made this pipe non-blocking, too: wait until it takes more."""
        poll = select.poll()
        poll.register(self._sink, select.POLLOUT)
        poll.poll()


def _encoded(message: Json) -> bytes:
    """One line of UTF-8. An id may hold half a surrogate pair: it goes back as it came, escaped."""
    text = compact(message)
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return "".join(_escaped(c) for c in text).encode() + b"\n"


def _escaped(character: str) -> str:
    return f"\\u{ord(character):04x}" if "\ud800" <= character <= "\udfff" else character


def _ensure_stderr() -> None:
    """Without a stderr, the null device takes its place: descriptor 2 must be nothing else."""
    try:
        fcntl.fcntl(STDERR, fcntl.F_GETFD)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != STDERR:
            os.dup2(null, STDERR)
            os.close(null)
