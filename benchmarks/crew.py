"""Worker processes that take orders: started together, asked over pipes, ended one by one whatever happens."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Self

STARTING_SEC = 90
ANSWER_SEC = 90
LAST_SEC = 5

Handler = Callable[[Any], Any]
"""What a worker does with an order; its answer is sent back."""


class Crew:
    """Processes of one kind. Each makes a handler with its number and `arguments`, then answers one order at a time."""

    def __init__(self, count: int, make: Callable[..., Handler], *arguments: object) -> None:
        context = get_context("spawn")
        self._lines: list[Connection] = []
        self._processes = []
        for number in range(count):
            line, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, make, number, *arguments), daemon=True)
            self._lines.append(line)
            self._processes.append((process, theirs))

    def __enter__(self) -> Self:
        try:
            for process, theirs in self._processes:
                process.start()
                theirs.close()
            self.answers(STARTING_SEC)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.send(None)
            line.close()
        for end in ("is_alive", "terminate", "kill"):
            for process, _theirs in self._processes:
                if process.pid is not None and process.is_alive():
                    getattr(process, end)()
            for process, _theirs in self._processes:
                if process.pid is not None:
                    process.join(LAST_SEC)

    @property
    def pids(self) -> list[int]:
        """The workers' process ids."""
        return [process.pid for process, _ in self._processes if process.pid is not None]

    def order(self, order: object) -> None:
        """Give all of them the same order."""
        for line in self._lines:
            line.send(order)

    def answers(self, timeout_sec: float = ANSWER_SEC) -> Sequence[Any]:
        """Everybody's answer to the last order.

        Raises:
            RuntimeError: one of them failed, or did not answer in time.
        """
        found = []
        for line, (process, _) in zip(self._lines, self._processes, strict=True):
            if not line.poll(timeout_sec):
                raise RuntimeError(f"Worker {process.pid} did not answer within {timeout_sec} s.")
            try:
                found.append(line.recv())
            except EOFError:
                raise RuntimeError(f"Worker {process.pid} ended; its traceback is above.") from None
        return found


def _serve(line: Connection, make: Callable[..., Handler], *arguments: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted too, and ends us
    handler = make(*arguments)
    line.send("ready")
    with contextlib.suppress(EOFError):  # the parent is gone
        while (order := line.recv()) is not None:
            line.send(handler(order))
