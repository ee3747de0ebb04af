"""The standard streams of a process, any of which may be closed or broken: that alone is no reason to fail.

A closed output is one that nobody reads: what is written to it is dropped. Only a command whose answer must not get
lost asks for an open output, before it does anything. A closed input is an error of the call that wants to read it.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import BinaryIO, Final, TextIO

import click

from agentmesh.cli.errors import OutputError

NAMES: Final = ("stdin", "stdout", "stderr")
STDERR: Final = 2
_closed: Final[set[str]] = set()


def repair() -> None:
    """Put a stream in the place of each that is closed, and let stderr fail without a word.

    The descriptors come first: a file that is opened later would get the number of a closed one, and everything that
    is written to that number. What an encoding has no character for is written as an escape.
    """
    for number, name in enumerate(NAMES):
        if not _is_open(number):
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # noqa: FBT003 - positional only  # gets the lowest free number, which is this one
            _closed.add(name)
        if getattr(sys, name) is None:
            _closed.add(name)
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - it lives as long as the process
    if sys.stderr is sys.__stderr__ or "stderr" in _closed:
        sys.stderr = _forgiving(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def need_output(loss: str) -> None:
    """Refuse to begin when standard output was closed from the start.

    Args:
        loss: what would be lost, as the subject of a sentence.

    Raises:
        OutputError: it was.
    """
    if "stdout" in _closed:
        raise OutputError(
            f"Standard output is closed, and {loss} would be lost; nothing was done.",
            "Call again with an open standard output.",
        )


def standard_input(reader: str) -> TextIO:
    """Standard input.

    Args:
        reader: the option or argument that reads it.

    Raises:
        UsageError: it is closed.
    """
    if "stdin" in _closed or sys.stdin is None or sys.stdin.closed:
        raise click.UsageError(f"{reader} reads standard input, which is closed.")
    return sys.stdin


def input_bytes(reader: str) -> BinaryIO:
    """Standard input as bytes; see `standard_input`."""
    return standard_input(reader).buffer


def settle_output() -> None:
    """Write out what is left to be written to standard output, or drop it: nothing may fail at exit."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        drop_output()


def drop_output() -> None:
    """Let what is left to be written to standard output go nowhere, also at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


class _Forgiving(io.RawIOBase):
    """Standard error, whose failures concern nobody: there is no other place to report them."""

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return os.isatty(STDERR)

    def fileno(self) -> int:
        return STDERR

    def write(self, data: bytes, /) -> int:  # type: ignore[override]  # whatever has a buffer
        with suppress(OSError):
            os.write(STDERR, data)
        return len(data)


def _forgiving(stream: TextIO) -> TextIO:
    buffer: BinaryIO = _Forgiving()  # type: ignore[assignment]  # it has all of it that a text stream writes with
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors="backslashreplace", write_through=True)
